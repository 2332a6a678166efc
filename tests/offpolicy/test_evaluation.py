"""Off-policy estimates against truths that are known, values computed by hand, and what must be refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from tightrope import InvalidInput, offpolicy
from tightrope.offpolicy import Log, Measure, evaluate
from tightrope.offpolicy.estimators import predictions
from tightrope.rules import Budget, Capacity, Rules

METHODS = ("replay", "ips", "snips", "dr")


@dataclass(frozen=True)
class World:
    """Six contexts, four actions, one reward and two costs, a logging policy and a target."""

    weights: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray
    logging: np.ndarray
    target: np.ndarray
    features: np.ndarray

    @classmethod
    def make(cls, seed: int) -> World:
        rng = np.random.default_rng(seed)
        C, J = 6, 4
        logging = np.exp(rng.normal(size=(C, J)))
        logging = 0.1 / J + 0.9 * logging / logging.sum(axis=1, keepdims=True)
        target = 0.8 * np.eye(J)[rng.integers(0, J, C)] + 0.2 / J
        return cls(
            rng.dirichlet(np.full(C, 3.0)),
            rng.uniform(0.05, 0.95, (C, J)),
            rng.uniform(-0.5, 0.5, (C, J, 2)),
            logging,
            target,
            rng.normal(size=(C, 3)),
        )

    @property
    def truth(self) -> np.ndarray:
        joint = self.weights[:, None] * self.target
        return np.append((joint * self.rewards).sum(), np.einsum("cj,cjk->k", joint, self.costs))

    def draw(self, n: int, rng: np.random.Generator, *, repeats: int = 1, own: float = 0.0) -> dict[str, Any]:
        """Rows in groups of `repeats`, which share their context and a part of their outcomes."""
        group = np.repeat(np.arange(n // repeats), repeats)
        c = rng.choice(len(self.weights), n // repeats, p=self.weights)[group]
        a = (rng.random((n, 1)) > np.cumsum(self.logging, axis=1)[c]).sum(axis=1)
        noise = own * rng.normal(size=n // repeats)[group]
        y = (rng.random(n) < self.rewards[c, a]) + noise
        w = self.costs[c, a] + 0.4 * rng.choice([-1.0, 1.0], (n, 2)) + noise[:, None]
        return {"c": c, "a": a, "y": y, "w": w, "p": self.logging[c], "group": group}


def measures(found: offpolicy.Evaluation) -> list[Measure]:
    return [found.reward, *found.constraints]


def covered(
    world: World, logs: int, seed: int, methods: tuple[str, ...] = METHODS, **how: Any
) -> dict[str, np.ndarray]:
    """Share of logs whose intervals hold the truth, by method, for the reward and each cost."""
    rng = np.random.default_rng(seed)
    rows, features, grouped = how.pop("rows"), how.pop("features", False), how.pop("grouped", False)
    hits = {method: np.zeros(3) for method in methods}
    for i in range(logs):
        d = world.draw(rows, rng, **how)
        log = Log(
            d["a"],
            d["y"],
            d["w"],
            propensities=d["p"] if i % 2 else d["p"][np.arange(rows), d["a"]],
            contexts=world.features[d["c"]] if features else d["c"],
            groups=d["group"] if grouped else None,
        )
        for method in methods:
            found = evaluate(log, world.target[d["c"]], method, seed=i)
            hits[method] += [m.low <= t <= m.high for m, t in zip(measures(found), world.truth)]
    return {method: count / logs for method, count in hits.items()}


def assert_covers(shares: dict[str, np.ndarray], logs: int) -> None:
    """Between 92 % and 98 %: what is outside by more than chance explains (one in a million) fails."""
    low = binom.ppf(1e-6, logs, 0.92) / logs
    high = binom.ppf(1 - 1e-6, logs, 0.98) / logs
    for method, share in shares.items():
        assert (low <= share).all(), (method, share)
        assert (share <= high).all(), (method, share)
        # All three quantities together are tight enough to tell 92 from 95.
        assert 0.92 <= share.mean() <= 0.98, (method, share)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_intervals_cover_the_truth(seed: int) -> None:
    logs = 400
    assert_covers(covered(World.make(seed), logs, seed, rows=500), logs)


def test_intervals_cover_when_outcomes_are_fitted_to_features() -> None:
    assert_covers(covered(World.make(4), 300, 4, methods=("dr",), rows=600, features=True), 300)


def test_groups_are_what_intervals_count() -> None:
    how: dict[str, Any] = {"rows": 800, "repeats": 8, "own": 0.5, "methods": ("ips", "snips", "dr")}
    assert_covers(covered(World.make(5), 300, 5, grouped=True, **how), 300)
    for method, share in covered(World.make(5), 300, 5, **how).items():
        assert share.mean() < 0.9, method  # as if rows were independent: too short


def test_estimates_are_unbiased() -> None:
    """Over many logs the mean error is what chance leaves, for the methods that are unbiased; near it for the others."""
    world, rng, logs = World.make(6), np.random.default_rng(6), 500
    errors = {method: np.zeros((logs, 3)) for method in METHODS}
    for i in range(logs):
        d = world.draw(200, rng)
        log = Log(d["a"], d["y"], d["w"], propensities=d["p"], contexts=d["c"])
        for method in METHODS:
            found = evaluate(log, world.target[d["c"]], method, seed=i)
            errors[method][i] = [m.value - t for m, t in zip(measures(found), world.truth)]
    for method, error in errors.items():
        slack = 0.0 if method in ("ips", "dr") else 0.01
        z = norm.isf(1e-5)
        assert (np.abs(error.mean(axis=0)) <= z * error.std(axis=0) / np.sqrt(logs) + slack).all(), method
    # The fit takes up noise that plain weighting leaves.
    assert errors["dr"].std() < errors["ips"].std()


def test_values_by_hand() -> None:
    """Weights 1, 2, 0 and 1/2."""
    log = Log(
        [0, 1, 1, 0], [1.0, 0.5, 9.0, 2.0], [[1.0], [-1.0], [5.0], [2.0]], propensities=[0.5, 0.25, 0.5, 0.8]
    )
    target = np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0], [0.4, 0.6]])
    w = np.array([1.0, 2.0, 0.0, 0.5])
    ips, snips = evaluate(log, target, "ips"), evaluate(log, target, "snips")
    assert ips.reward.value == pytest.approx((1 + 1 + 0 + 1) / 4)
    assert ips.constraints[0].value == pytest.approx((1 - 2 + 0 + 1) / 4)
    assert snips.reward.value == pytest.approx(3 / 3.5)
    assert snips.constraints[0].value == pytest.approx(0.0)
    for found in (ips, snips):
        assert found.weights.effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
        assert (found.weights.mean, found.weights.largest, found.weights.zero) == pytest.approx(
            (3.5 / 4, 2.0, 0.25)
        )
    assert ips.weights.error == pytest.approx(w.std(ddof=1) / 2)


def test_snips_ignores_a_constant_and_ips_does_not() -> None:
    d = World.make(7).draw(300, np.random.default_rng(7))
    target = World.make(7).target[d["c"]]
    plain, moved = (Log(d["a"], d["y"] + shift, propensities=d["p"]) for shift in (0.0, 5.0))
    for method in ("snips", "replay"):
        one, other = (evaluate(log, target, method).reward for log in (plain, moved))
        assert (other.value - 5, other.low - 5, other.high - 5) == pytest.approx(
            (one.value, one.low, one.high)
        )
    one, other = (evaluate(log, target, "ips").reward for log in (plain, moved))
    assert abs(other.value - 5 - one.value) > 1e-3


def test_the_logs_own_policy_is_the_plain_average() -> None:
    d = World.make(8).draw(400, np.random.default_rng(8))
    log = Log(d["a"], d["y"], d["w"], propensities=d["p"])
    for method in METHODS:
        found = evaluate(log, d["p"], method)
        assert found.weights.effective == pytest.approx(400)
        if method != "dr":
            assert [m.value for m in measures(found)] == pytest.approx([d["y"].mean(), *d["w"].mean(axis=0)])
            half = found.reward.high - found.reward.low
            assert half == pytest.approx(2 * 1.966 * d["y"].std(ddof=1) / 20, rel=0.01)


def test_replay_keeps_the_rows_that_an_even_log_shares_with_the_target() -> None:
    rng = np.random.default_rng(9)
    actions, wanted, y = rng.integers(0, 3, 600), rng.integers(0, 3, 600), rng.random(600)
    found = evaluate(Log(actions, y, propensities=np.full((600, 3), 1 / 3)), wanted, "replay")
    kept = actions == wanted
    assert found.rows == kept.sum()
    assert found.reward.value == pytest.approx(y[kept].mean())


def test_doubly_robust_is_exact_where_outcomes_are_linear() -> None:
    """Without noise a linear fit leaves no residual to weight: the average of the true means, up to the ridge."""
    rng = np.random.default_rng(10)
    x, a = rng.normal(size=(2000, 2)), rng.integers(0, 2, 2000)
    means = np.column_stack([1 + x[:, 0], x[:, 1] - 2])
    log = Log(a, means[np.arange(2000), a], propensities=np.full(2000, 0.5), contexts=x)
    choose = (x[:, 0] > 0).astype(int)
    found = evaluate(log, lambda rows: (rows[:, 0] > 0).astype(int)).reward
    assert found.value == pytest.approx(means[np.arange(2000), choose].mean(), abs=2e-3)
    ips = evaluate(log, choose, "ips").reward
    assert found.high - found.low < (ips.high - ips.low) / 1.3


def test_folds_never_use_a_group_to_predict_itself() -> None:
    """One group with outcomes like no other: its own predictions must not know them."""
    groups = np.repeat(np.arange(10), 20)
    y = np.where(groups == 3, 100.0, 0.0)
    log = Log(np.tile([0, 1], 100), y, propensities=np.full(200, 0.5), contexts=groups, groups=groups)
    fitted = predictions(log, y[:, None])
    assert np.abs(fitted[groups == 3]).max() == 0


def test_known_costs_need_no_weights() -> None:
    """Costs of every action, as where they are seen before acting: the plain average over contexts."""
    world = World.make(11)
    d = world.draw(500, np.random.default_rng(11))
    rules = Rules([Capacity("b", at_most=0.3), Budget("hours", at_most=0.5)], actions=["a", "b", "c", "d"])
    costs = rules.costs({"hours": [0.2, 0.4, 0.6, 0.8]})
    log = Log(d["a"], d["y"], np.tile(costs, (500, 1, 1)), propensities=d["p"], constraints=rules)
    target = world.target[d["c"]]
    expected = target.mean(axis=0) @ costs
    for method in METHODS:
        found = evaluate(log, target, method)
        assert [m.name for m in found.constraints] == list(rules.names)
        assert [m.value for m in found.constraints] == pytest.approx(expected.tolist())
    always = evaluate(log, np.tile([0.0, 1.0, 0.0, 0.0], (500, 1)), "ips").constraints[0]
    assert (always.value, always.low, always.high) == pytest.approx((0.7, 0.7, 0.7))


def test_one_value_seen_is_not_certainty() -> None:
    """No failure in 60 rows of the target's: the exact binomial bound, not an interval of length 0."""
    actions = np.repeat([0, 1], 60)
    costs = np.where(actions == 0, -0.1, np.tile([0.9, -0.1], 60))[:, None]
    log = Log(actions, np.ones(120), costs, propensities=np.full(120, 0.5))
    found = evaluate(log, np.zeros(120, dtype=int), "snips").constraints[0]
    assert (found.value, found.low) == pytest.approx((-0.1, -0.1))
    assert binom.pmf(0, 60, found.high + 0.1) == pytest.approx(0.025)


def test_clipping_narrows_and_says_what_it_may_have_moved() -> None:
    world, rng = World.make(12), np.random.default_rng(12)
    errors = []
    for _ in range(50):
        d = world.draw(2000, rng)
        log = Log(d["a"], d["y"], propensities=d["p"], contexts=d["c"])
        for method in ("ips", "snips", "dr"):
            target = world.target[d["c"]]
            free, cut = (evaluate(log, target, method, clip=clip) for clip in (None, 3.0))
            assert free.reward.bias == 0
            assert cut.weights.cut > 0
            assert cut.reward.bias > 0
            assert cut.weights.largest == free.weights.largest > 3
            errors.append((abs(cut.reward.value - free.reward.value), cut.reward.bias))
            if method == "ips":
                assert cut.reward.value < free.reward.value
                assert cut.reward.high - cut.reward.low < free.reward.high - free.reward.low
                assert " bias " in str(cut)
                assert " bias " not in str(free)
    moved, allowed = np.array(errors).T
    assert (moved <= allowed).all()


@pytest.mark.parametrize(
    ("low", "high", "bias", "words"),
    [
        (-0.2, 0.0, 0.0, "satisfied with 95 % confidence"),
        (-0.2, 0.01, 0.0, "undecided"),
        (0.01, 0.2, 0.0, "violated with 95 % confidence"),
        (-0.2, -0.01, 0.02, "undecided"),
        (0.01, 0.2, 0.02, "undecided"),
    ],
)
def test_verdicts(low: float, high: float, bias: float, words: str) -> None:
    assert Measure("k", (low + high) / 2, low, high, bias, 0.0).verdict == words


def test_limits_move_the_verdict() -> None:
    d = World.make(13).draw(2000, np.random.default_rng(13))
    log = Log(d["a"], d["y"], d["w"], propensities=d["p"], contexts=d["c"], constraints=["one", "two"])
    target = World.make(13).target
    found = evaluate(log, lambda c: target[c], limits=[1.0, -1.0])
    assert [m.verdict for m in found.constraints] == [
        "satisfied with 95 % confidence",
        "violated with 95 % confidence",
    ]
    text = str(found)
    assert text.splitlines()[0].startswith("dr on 2,000 rows, worth ")
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["reward", "one", "two"]


def test_doubts_are_put_in_words() -> None:
    d = World.make(14).draw(2000, np.random.default_rng(14))
    taken = d["p"][np.arange(2000), d["a"]]
    target = World.make(14).target[d["c"]]
    assert evaluate(Log(d["a"], d["y"], propensities=taken), target, "ips").doubts == ()
    wrong = evaluate(Log(d["a"], d["y"], propensities=taken / 2), target, "ips")
    assert "the propensities are wrong" in wrong.doubts[0]
    assert "doubt: the weights average" in str(wrong)
    rare = np.where(np.arange(2000) % 500 == 0, 1.0, 0.0)
    doubts = evaluate(Log(d["a"], d["y"], rare[:, None], propensities=taken), target, "snips").doubts
    assert len(doubts) == 1
    assert "few rows differ from the others in constraint 0:" in doubts[0]
    few = Log(d["a"][:20], d["y"][:20], propensities=taken[:20], n_actions=4)
    assert any("worth only" in doubt for doubt in evaluate(few, target[:20], "snips").doubts)


def test_earlier_rows_alone_are_fitted_on_where_rows_are_in_order() -> None:
    """The last outcomes are like no other, and no prediction knows them; the first rows know each other alone."""
    y = np.where(np.arange(200) < 190, 1.0, 1000.0)
    log = Log(np.tile([0, 1], 100), y, propensities=np.full(200, 0.5), in_order=True)
    fitted = predictions(log, y[:, None])
    assert np.abs(fitted - 1.0).max() < 1e-9
    d = World.make(15).draw(300, np.random.default_rng(15))
    whole, part = (
        predictions(
            Log(d["a"][:n], d["y"][:n], propensities=d["p"][:n], contexts=d["c"][:n], in_order=True),
            d["y"][:n, None],
        )
        for n in (300, 200)
    )
    np.testing.assert_array_equal(whole[:200], part, err_msg="what comes later changes nothing")


def test_estimates_on_rows_in_order_are_unbiased_where_the_log_learns() -> None:
    """The log draws more often what has earned more so far, so that its rows depend on each other."""
    rng, logs, n = np.random.default_rng(16), 300, 150
    means = np.array([0.3, 0.5, 0.6])
    errors = {method: np.zeros(logs) for method in ("ips", "dr")}
    covered = dict.fromkeys(errors, 0)
    for i in range(logs):
        seen, sums, p = np.ones(3), np.full(3, 0.5), np.empty((n, 3))
        a, y = np.empty(n, dtype=int), np.empty(n)
        for t in range(n):
            p[t] = 0.1
            p[t, np.argmax(sums / seen)] += 0.7
            a[t] = rng.choice(3, p=p[t])
            y[t] = float(rng.random() < means[a[t]])
            seen[a[t]] += 1
            sums[a[t]] += y[t]
        log = Log(a, y, propensities=p, in_order=True)
        for method in errors:
            found = evaluate(log, np.full((n, 3), 1 / 3), method).reward
            errors[method][i] = found.value - means.mean()
            covered[method] += found.low <= means.mean() <= found.high
    for method, error in errors.items():
        assert abs(error.mean()) < 4 * error.std() / np.sqrt(logs), method
        assert covered[method] >= binom.ppf(1e-5, logs, 0.9), method


def test_what_the_log_had_no_chance_of_may_be_left_out() -> None:
    p = np.full((100, 2), 0.5)
    p[:10] = [1 - 1e-6, 1e-6]
    actions = np.tile([0, 1], 50)
    actions[:10] = 0
    log = Log(actions, np.where(actions == 1, 2.0, 1.0), propensities=p)
    target = np.full((100, 2), 0.5)
    with pytest.raises(InvalidInput, match=r"had none in 10 of 100 rows .*5\.00% of what it does"):
        evaluate(log, target, "snips", least_chance=0.01, may_miss=0.04)
    found = evaluate(log, target, "snips", least_chance=0.01, may_miss=0.05)
    assert found.weights.cut == pytest.approx(0.05)
    assert found.reward.bias == pytest.approx(0.05 * (2.0 - 1.0))
    assert found.reward.low - found.reward.bias <= 1.5 <= found.reward.high + found.reward.bias
    assert found.doubts == ()
    assert evaluate(log, target, "snips").weights.cut == 0, (
        "without least_chance, one in a million is a chance"
    )


def test_deterministic_logs_are_refused() -> None:
    log = Log([0, 1, 0], [1.0, 0.0, 1.0], propensities=[1.0, 1.0, 1.0])
    for method in METHODS:
        with pytest.raises(
            InvalidInput, match=r"the log is deterministic .* no row shows what another action"
        ):
            evaluate(log, [0, 0, 0], method)


def test_missing_overlap_is_named() -> None:
    p = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    log = Log([0, 1, 2, 1], np.ones(4), propensities=p, contexts=[4, 4, 7, 7], action_names=["a", "b", "c"])
    target = np.full((4, 3), 1 / 3)
    with pytest.raises(InvalidInput, match=r"'c' had none in 2 of 4 rows .*\(first: row 0, context 4\)"):
        evaluate(log, target, "ips")
    target[:2] = [0.5, 0.5, 0.0]
    assert evaluate(log, target, "ips").reward.value > 0
    # Of the logged action's propensity alone: 1 leaves nothing to the others, and an action never logged has none.
    some = Log([0, 1, 2, 1], np.ones(4), propensities=[1.0, 0.5, 0.5, 0.5])
    with pytest.raises(
        InvalidInput, match=r"'action 1' had none in 1 of 4 rows .*first: row 0.*likewise 'action 2'"
    ):
        evaluate(some, np.full((4, 3), 1 / 3), "snips")
    never = Log([0, 1, 0, 1], np.ones(4), propensities=np.full(4, 0.5), n_actions=3)
    with pytest.raises(InvalidInput, match="'action 2' had none in 4 of 4 rows"):
        evaluate(never, np.full((4, 3), 1 / 3))


GOOD: dict[str, Any] = {
    "actions": [0, 1, 1],
    "rewards": [1.0, 0.0, 1.0],
    "costs": [[0.1], [0.2], [0.3]],
    "propensities": [0.5, 0.5, 0.5],
}


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ([[0.5, 0.5], [0.5, 0.6], [1, 0]], {}, r"target\[1\] must sum to 1, but it sums to 1.1"),
        ([[0.5, 0.5], [1.5, -0.5], [1, 0]], {}, r"target\[1, 0\] must lie in \[0, 1\], but got 1.5"),
        ([[0.5, 0.5], [0.5, 0.5]], {}, r"target must have shape \(3, 2\), but got \(2, 2\)"),
        ([0, 1, 2], {}, r"target\[2\] must be below 2, the number of actions, but got 2"),
        (lambda x: x, {}, "a callable target is given the log's contexts, but the log has none"),
        ([0, 1, 1], {"method": "magic"}, "method must be one of replay, ips, snips, dr, but got 'magic'"),
        ([0, 1, 1], {"limits": [0.0, 0.0]}, "limits must have shape"),
        ([0, 1, 1], {"limits": np.nan}, "limits must be finite"),
        ([0, 1, 1], {"clip": 0.5}, "clip must be finite and >= 1, but got 0.5"),
        ([0, 1, 1], {"method": "replay", "seed": -1}, "seed must be a whole number >= 0, but got -1"),
        ([1, 0, 0], {"method": "replay"}, "the target never takes a logged action"),
        ([1, 0, 0], {"method": "snips"}, "the target never takes a logged action"),
    ],
)
def test_bad_targets_are_refused_in_words(target: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        evaluate(Log(**GOOD), target, **options)


def print_coverage() -> None:
    """The table of docs/real-data.md: per cent of logs whose intervals hold the truth, mean and range over 15 quantities."""
    kinds: dict[str, dict[str, Any]] = {
        "200 rows": {"rows": 200},
        "500 rows": {"rows": 500},
        "2,000 rows, features": {"rows": 2000, "features": True},
        "800 rows in 100 groups": {"rows": 800, "repeats": 8, "own": 0.5, "grouped": True},
        "500 rows, rewards ten times rarer": {"rows": 500},
    }
    print(f"| log | {' | '.join(METHODS)} |\n| --- |{' --- |' * len(METHODS)}")
    for name, how in kinds.items():
        worlds = {seed: World.make(seed) for seed in range(101, 106)}
        if "rarer" in name:
            worlds = {seed: replace(world, rewards=world.rewards / 10) for seed, world in worlds.items()}
        found = [covered(world, 600, seed, **how) for seed, world in worlds.items()]
        shares = {method: 100 * np.concatenate([one[method] for one in found]) for method in METHODS}
        cells = (f"{one.mean():.1f} ({one.min():.1f}–{one.max():.1f})" for one in shares.values())
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    print_coverage()
