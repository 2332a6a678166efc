"""What the README promises of its example, measured on that very example: its code is run as it "
"stands there."""

from __future__ import annotations

import doctest
import math
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from readme_claims import README, claim
from tightrope import lp
from tightrope.policies.build import build_policy
from tightrope.spec import make_spec

SIXTY_SECONDS = README.split("## Sixty seconds")[1].split("```python\n")[1].split("```")[0]
REWARDS, HOURS = (0.9, 0.6, 0.5), (1.0, 0.5, 0.2)


class Watched(tr.ShadowPrice):
    """Notes what is earned, and the totals after every round."""

    def learn(self, decision: Any, reward: Any = None, costs: Any = None, *, usage: Any = None) -> None:
        super().learn(decision, reward, costs, usage=usage)
        vars(self).setdefault("earned", []).append(reward)
        vars(self).setdefault("stood", []).append(self.totals)


def played(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Watched:
    """The policy of the README after its sixty seconds."""
    names: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(tr, "ShadowPrice", partial(Watched, **settings))
        for example in doctest.DocTestParser().get_examples(SIXTY_SECONDS):
            exec(compile(example.source, "README.md", "single"), names)
    policy = names["policy"]
    assert isinstance(policy, Watched)
    assert policy.rounds == len(vars(policy)["earned"]) == 3_000
    return policy


def rounds_above_zero(policy: Watched) -> int:
    return int((np.array(vars(policy)["stood"]) > 1e-9).any(axis=1).sum())


@claim(
    "On the example above: at least 1,770 of the 1,780 that someone who knew every reward could earn;"
    " a rule above zero in at most 25 "
    "of the 3,000 rounds, and in at most 10 with guard=True"
)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("guard", "most"), [(False, 25), (True, 10)])
def test_at_least_1770_of_1780_and_at_most_25_rounds_above_zero_10_with_the_guard(
    monkeypatch: pytest.MonkeyPatch, guard: bool, most: int, seed: int
) -> None:
    policy = played(monkeypatch, guard=guard, seed=seed)
    assert sum(vars(policy)["earned"]) >= 1_770
    assert rounds_above_zero(policy) <= most
    assert (policy.totals <= 0).all(), "every rule has held on average so far"


def costs() -> Any:
    rules = [
        tr.Capacity("icu", at_most=0.2),
        tr.Share("icu", at_least=0.1),
        tr.Budget("nurse_hours", at_most=0.4),
    ]
    return tr.Rules(rules, actions=["icu", "surgery", "other"]).costs(usage={"nurse_hours": HOURS})


def test_1780_is_what_someone_who_knew_every_reward_could_earn() -> None:
    best = lp.allocation(np.ones(1), np.array([REWARDS]), costs()[None]).value
    assert 3_000 * best == pytest.approx(1_780)


@claim("nobody can have fewer than 4: the first patient already breaks a rule, wherever she goes")
def test_nobody_can_have_fewer_than_4() -> None:
    W = costs()
    assert (W > 0).any(axis=1).all()
    # Where one stands is how often each action was taken: the fewest rounds above zero on the way there.
    fewest = {(0, 0, 0): 0}
    for _ in range(60):
        reached: dict[tuple[int, int, int], int] = {}
        for counts, above in fewest.items():
            for action in range(3):
                now = tuple(n + (a == action) for a, n in enumerate(counts))
                worst = above + bool((np.array(now) @ W > 1e-9).any())
                if worst <= 4 and worst < reached.get(now, 5):  # type: ignore[call-overload]
                    reached[now] = worst  # type: ignore[index]
        fewest = reached
    assert min(fewest.values()) == 4


@claim(
    "Of the default policy, one thing: with guard=True the totals of costs that are known before acting stay at or below zero in "
    "every round, with certainty and in exact arithmetic, as long as every round offers an action that breaks no rule"
)
def test_with_guard_no_total_rises_above_zero_where_every_round_offers_an_action_that_breaks_no_rule() -> (
    None
):
    def highest(guard: bool, seed: int, caution: float = 3.0) -> Fraction:
        """The highest that a total ever was, summed up exactly; costs are of wild sizes, and what breaks a rule pays best."""
        policy = tr.ShadowPrice(reward=tr.ArmMeans(4), constraints=3, guard=guard, caution=caution, seed=seed)
        draw, sums, most = np.random.default_rng(seed), [Fraction(0)] * 3, Fraction(0)
        for _ in range(60):
            # Of every other seed all costs are small, so that no slack hides what is let through.
            offered = draw.normal(0.5, 1.0, (4, 3)) * 10.0 ** draw.integers(-3, 13 if seed % 2 else -1)
            offered[draw.integers(4)] = -draw.choice([0.0, 0.1, 1e9] if seed % 2 else [0.0, 1e-3], 3)
            decision = policy.decide(costs=offered)
            sums = [total + Fraction(cost) for total, cost in zip(sums, offered[decision.row].tolist())]
            most = max(most, *sums)
            policy.learn(decision, reward=float(np.sign(offered[decision.row]).sum()))
            if guard:
                assert (policy.totals <= 0.0).all()
        return most

    seeds = range(10)
    assert max(highest(True, seed) for seed in seeds) == 0
    assert max(highest(True, seed, caution=0.0) for seed in seeds) == 0
    above = [highest(False, seed, caution=0.0) > 0 for seed in seeds]
    assert sum(above) >= 3, "with neither guard nor caution totals rise above zero"
    assert list(tr.ShadowPrice(reward=tr.ArmMeans(4), constraints=3, guard=True).hooks.guarantees()) == [
        "totals at or below zero in every round"
    ]
    assert tr.ShadowPrice(reward=tr.ArmMeans(4), constraints=3).hooks.guarantees() == {}, (
        "nothing else is proved"
    )


@claim(
    "The policy draws a value for each action from what it still has to find out about it, and the largest draw wins"
)
def test_an_action_is_tried_as_often_as_its_draw_is_the_largest() -> None:
    """Over many seeds, after the same outcomes, which leave one of two arms in doubt: by means and drawn parts of deviations."""
    chosen, n = 0, 400
    for seed in range(n):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(2), seed=seed)
        for action, reward in ((0, 0.2), (0, 0.9), (0, 0.4), (1, 0.6), (1, 0.3), (1, 0.8)):
            policy.learn(policy.commit(policy.quote(), action), reward=reward)
        model = policy.hooks.reward_model()
        means, deviations = (np.ravel(one) for one in model.predictions(None, [0, 1]))
        deviations = deviations * model.drawn_parts(np.arange(2))
        decision = policy.decide()
        chosen += decision.action
    better = NormalDist().cdf((means[1] - means[0]) / math.hypot(*deviations))
    assert 0.55 < better < 0.95
    assert decision.probabilities == pytest.approx([1.0 - better, better], abs=1e-6)
    assert decision.probability == decision.probabilities[decision.row]
    assert decision.explain().probabilities == pytest.approx(decision.probabilities, abs=1e-12)
    assert abs(chosen - n * better) < 4.0 * math.sqrt(n * better * (1.0 - better))


@claim("corrected by the running totals")
def test_prices_are_corrected_by_the_totals_which_are_steered_to_their_buffer() -> None:
    """The total comes to rest as far below zero as `caution` standard deviations are, and moves with `caution`."""
    rests = []
    for caution in (1.5, 3.0, 6.0):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, caution=caution)
        stood = []
        for t in range(2_000):
            decision = policy.decide(costs=np.array([[0.5], [-0.5]]))
            policy.learn(decision, reward=(0.9, 0.2)[decision.row])
            stood += [policy.totals[0]] if t >= 1_500 else []
        # b = caution · √(moved · m), where costs of size m = ½ have moved the total by ½√t.
        rests.append(np.mean(stood) / -(caution * math.sqrt(0.5 * math.sqrt(1_750) * 0.5)))
    assert rests == pytest.approx([1.0, 1.0, 1.0], abs=0.25)


@claim(
    "Unless you say otherwise, ShadowPrice decides: it gives every rule a price, charges each action for what it uses, and learns "
    "from every outcome",
    "Every rule has a price: the reward that one more unit of its limit would earn",
    "The price is the dual of the allocation program on the rounds that the policy remembers",
)
def test_what_decides_is_shadow_price_and_its_prices_are_what_one_more_unit_would_earn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = make_spec({"actions": ["a", "b"], "rule": [{"kind": "capacity", "action": "a", "at_most": 0.5}]})
    assert isinstance(build_policy(spec.policies[0], spec.problem()), tr.ShadowPrice)
    # Its own sample knows every reward here: the dual prices are those of the true program, but for ties and what was drawn.
    W, limits = costs(), np.eye(3)
    best = lp.allocation(np.ones(1), np.array([REWARDS]), W[None]).value
    more = [lp.allocation(np.ones(1), np.array([REWARDS]), W[None] - 0.01 * unit).value for unit in limits]
    worth = (np.array(more) - best) / 0.01
    policy = played(monkeypatch)
    np.testing.assert_allclose(policy.prices, worth, atol=0.1)
    # What an action is charged is its costs, all at the same prices; every outcome was learnt.
    decision = policy.decide([0.7, 0.0], usage={"nurse_hours": HOURS})
    told = decision.explain()
    charged = told.penalties / W
    np.testing.assert_allclose(charged, np.broadcast_to(charged[:1], charged.shape), atol=1e-9)
    np.testing.assert_allclose(told.values, told.rewards - told.penalties.sum(axis=1), atol=1e-9)
    assert policy.hooks.reward_model().n_learnt == 3_000
