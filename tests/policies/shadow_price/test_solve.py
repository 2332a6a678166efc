"""A solve that is spread over decisions: the same however it is cut, saved in the middle, its prices those of HiGHS."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import D, J, K, Setting, actions, equal_states, play, rounds
from tightrope import lp
from tightrope.kernels import shadow, shadow_solve
from tightrope.policies.shadow_price.solve import PriceSolve


@pytest.fixture
def slow_solves(monkeypatch):
    """Solves that take many rounds, as those of large problems do."""
    monkeypatch.setattr(shadow, "BUDGET", 2_000.0)
    monkeypatch.setattr(
        shadow_solve,
        "deadline",
        lambda t, rows, row_work, K: t + min(np.ceil(rows * 700 / 2_000.0) - 1, t // 2),
    )


@pytest.mark.parametrize("name", ["before", "after", "mixed", "own model", "disjoint, after"])
class TestInTheMiddle:
    def test_a_file_holds_it(self, name, slow_solves, tmp_path):
        setting = Setting(name)
        policy = setting.make()
        play(policy, setting, 34)
        assert policy._prices.solve is not None
        policy.save(tmp_path / "policy")
        twins = [tr.load(tmp_path / "policy"), policy.copy()]
        assert all(equal_states(twin.hooks.state(), policy.hooks.state()) for twin in twins)
        chosen = [actions(play(one, setting, 50, start=34)) for one in (policy, *twins)]
        assert chosen[0] == chosen[1] == chosen[2]
        assert policy._prices.solve is not None
        assert all(equal_states(twin.hooks.state(), policy.hooks.state()) for twin in twins)

    def test_a_proposal_leaves_it_alone(self, name, slow_solves):
        setting = Setting(name)
        policy, busy = setting.make(), 0
        for t, (x, W, r) in enumerate(rounds(2, 40)):
            before = policy.hooks.state()
            proposed = policy.propose(**setting.offer(x, W, t))
            assert equal_states(before, policy.hooks.state())
            decision = policy.decide(**setting.offer(x, W, t))
            same(proposed.trace, decision.trace)
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
            busy += policy._prices.solve is not None
        assert busy > 10

    def test_bad_input_leaves_it_alone(self, name, slow_solves):
        setting = Setting(name)
        policy = setting.make()
        play(policy, setting, 34)
        before = policy.hooks.state()
        with pytest.raises(tr.InvalidInput):
            policy.decide(np.full((J, D), np.nan))
        assert equal_states(before, policy.hooks.state())


def test_prices_take_effect_at_the_deadline_and_not_before(slow_solves):
    setting = Setting("before")
    policy, seen = setting.make(), []
    for x, W, r in rounds(0, 60):
        decision = policy.decide(x, W)
        policy.learn(decision, float(r[decision.row]))
        seen.append(
            (
                policy._prices.core[shadow.SOLVES],
                None if policy._prices.solve is None else policy._prices.solve.deadline,
            )
        )
    for (solves, deadline), (later, _), t in zip(seen, seen[1:], range(2, 61)):
        assert (later > solves) == (deadline == t or (deadline is None and later > solves))
    assert seen[-1][0] >= 4


def test_rounds_that_are_replaced_while_they_are_drawn_stay_in_the_sample(slow_solves):
    setting = Setting("before", memory=16)
    policy = setting.make()
    play(policy, setting, 33)
    entries = list(policy._prices.solve.entries)
    play(policy, setting, 5, start=33)
    assert policy._prices.solve.entries == entries or policy._prices.solve is None


def test_a_solve_is_what_its_arrays_say():
    policy = Setting("before").make()
    play(policy, Setting("before"), 12)
    solve = PriceSolve.start(*policy._memory.sample(np.inf), 12.0, 100.0, K)
    again = PriceSolve.restore(solve.arrays(), solve.entries, K)
    assert equal_states(solve.arrays(), again.arrays())
    same(solve.offsets, again.offsets)
    twin = solve.copy()
    twin.rewards[:] = 7.0
    assert not (solve.rewards == 7.0).any()


def test_prices_are_optimal_on_the_remembered_rounds():
    """The dual of the allocation program, against HiGHS: with nothing drawn (explore=0) the sample is the means of the models."""
    setting = Setting("before", explore=0.0)
    policy = setting.make()
    play(policy, setting, 255)
    solves = policy._prices.core[shadow.SOLVES]
    models, (entries, weights) = policy.hooks.reward_model(), policy._memory.sample(np.inf)
    rewards = np.concatenate([models.means(entry.phi) for entry in entries])
    costs = np.concatenate([entry.W for entry in entries])
    play(policy, setting, 1, start=255)
    if policy._prices.solve is not None:
        play(policy, setting, 60, start=256)
    assert policy._prices.core[shadow.SOLVES] == solves + 1
    p = shadow.vector(policy._prices.core, shadow.PRICE)
    offsets = np.arange(len(entries) + 1) * J
    best = lp.allocation(weights / weights.sum(), rewards, costs, offsets=offsets)
    dual = np.average((rewards - costs @ p).reshape(-1, J).max(axis=1), weights=weights)
    assert p.max() > 0.0
    assert dual == pytest.approx(best.value, abs=2e-3 * policy._prices.core[shadow.RHO])
    assert dual >= best.value - 1e-9
