"""Numbers against hand computations, intervals against the coverage they promise, files against what they were made from."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy import stats

from tightrope import kernels
from tightrope.errors import InvalidInput, StateDamagedError, StateVersionError
from tightrope.result import Curve, Result, write_summary
from tightrope.validation import VIOLATION


def make(**changes: Any) -> Result:
    """Three runs, recorded at rounds 1, 4 and 10, two actions, two constraints."""
    given: dict[str, Any] = {
        "policy": "safe",
        "scenario": "small",
        "rounds": [1, 4, 10],
        "reward": [[0.5, 2.0, 5.0], [0.7, 2.6, 6.0], [0.3, 2.0, 7.0]],
        "observed_reward": [[1, 2, 4], [0, 3, 6], [1, 1, 8]],
        "cost": [
            [[0.5, -0.5], [1.0, 1.0], [-2.0, 0.0]],
            [[0.5, 0.5], [-1.0, 2.0], [-1.0, 1e-12]],
            [[0.2, -0.6], [0.0, -4.0], [3.0, -3.0]],
        ],
        "mean_cost": [
            [[0.3, -0.5], [0.5, 1.0], [-2.0, 0.0]],
            [[0.3, 0.5], [-0.5, 2.0], [-1.0, 0.0]],
            [[0.3, -0.6], [-0.9, -4.0], [2.4, -3.0]],
        ],
        "counts": [[[1, 0], [2, 2], [5, 5]], [[0, 1], [4, 0], [10, 0]], [[1, 0], [0, 4], [0, 10]]],
        "last_violation": [[5, 7], [1, 9], [10, 0]],
        "optimum": 0.75,
        "optimum_interval": None,
        "baseline": "fluid",
        "seed": 7,
        "actions": ("left", "right"),
        "constraints": ("budget", "share"),
        "seconds": 0.25,
    }
    return Result(**{**given, **changes})


def runs(cost: np.ndarray, reward: np.ndarray | None = None, **changes: Any) -> Result:
    """A result whose G recorded rounds are G unrelated experiments with R runs each."""
    R, G, K = cost.shape
    return make(
        rounds=np.arange(1, G + 1),
        reward=np.zeros((R, G)) if reward is None else reward,
        observed_reward=np.zeros((R, G)),
        cost=cost,
        mean_cost=changes.pop("mean_cost", cost),
        counts=np.zeros((R, G, 2), dtype=np.int64),
        last_violation=np.zeros((R, K), dtype=np.int64),
        constraints=tuple(f"c{k}" for k in range(K)),
        **changes,
    )


def tolerance(n: int, level: float = 0.95) -> float:
    """Four standard deviations of a share of n independent trials."""
    return 4 * math.sqrt(level * (1 - level) / n)


# ----------------------------------------------------------------------------------------------------------------- curves


def test_regret_and_its_t_interval() -> None:
    regret = make().regret
    assert regret.paths is not None
    np.testing.assert_allclose(regret.paths[0], [0.25, 1.0, 2.5])
    np.testing.assert_allclose(regret.mean, [0.25, 0.8, 1.5])
    for g in range(3):
        low, high = stats.t.interval(0.95, 2, loc=regret.mean[g], scale=stats.sem(regret.paths[:, g]))
        np.testing.assert_allclose([regret.low[g], regret.high[g]], [low, high])
    assert regret.at(4) == (regret.mean[1], regret.low[1], regret.high[1])
    np.testing.assert_allclose(regret.quantile(0.5), [0.25, 1.0, 1.5])


def test_an_estimated_optimum_widens_the_regret_interval_on_its_own_side() -> None:
    plain, widened = make().regret, make(optimum_interval=(0.75, 0.95)).regret
    np.testing.assert_allclose(widened.low, plain.low)
    half = plain.high - plain.mean
    np.testing.assert_allclose(
        widened.high - widened.mean, np.sqrt(half**2 + (0.2 * np.array([1, 4, 10])) ** 2)
    )


def test_regret_without_an_optimum_says_how_to_get_one() -> None:
    run = make(optimum=None)
    with pytest.raises(InvalidInput, match="with_optimum"):
        _ = run.regret
    filled = run.with_optimum(0.75)
    np.testing.assert_array_equal(filled.regret.mean, make().regret.mean)
    assert filled.baseline == "given"
    assert run.optimum is None


def test_rewards() -> None:
    run = make()
    np.testing.assert_allclose(run.reward_curve.mean, [0.5, 2.2, 6.0])
    np.testing.assert_allclose(run.average_reward.mean, [0.5, 0.55, 0.6])


def test_expected_violation_takes_the_mean_first() -> None:
    run = make()
    # Means of mean_cost: (0.3, -0.2), (-0.3, -1/3), (-0.2, -1).
    np.testing.assert_allclose(run.violation.mean, [0.3, 0.0, 0.0], atol=1e-15)
    np.testing.assert_allclose(
        run.violation_by_constraint.mean, [[0.3, 0.0], [0.0, 0.0], [0.0, 0.0]], atol=1e-15
    )
    np.testing.assert_allclose(run.mean_cost_curve.mean, [[0.3, -0.2], [-0.3, -1 / 3], [-0.2, -1.0]])
    assert run.expected_last_violation == 1
    assert (run.violation.low <= run.violation.mean).all()
    assert (run.violation.mean <= run.violation.high).all()
    with pytest.raises(InvalidInput, match="path_violation"):
        run.violation.quantile(0.5)


def test_path_violation_takes_the_positive_part_first_and_ignores_rounding() -> None:
    run = make()
    paths = run.path_violation.paths
    assert paths is not None
    np.testing.assert_allclose(paths, [[0.5, 2.0, 0.0], [1.0, 2.0, 0.0], [0.2, 0.0, 3.0]])
    np.testing.assert_allclose(run.path_violation.mean, [1.7 / 3, 4 / 3, 1.0])
    np.testing.assert_allclose(run.path_violation.quantile(1.0), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(run.violated_share.mean, [1.0, 2 / 3, 1 / 3])


def test_the_engine_counts_the_same_sums_as_zero() -> None:
    assert VIOLATION == kernels.VIOLATION


def test_wilson_interval() -> None:
    share = make().violated_share
    for g, successes in enumerate([3, 2, 1]):
        ends = stats.binomtest(successes, 3).proportion_ci(0.95, method="wilson")
        np.testing.assert_allclose([share.low[g], share.high[g]], [ends.low, ends.high])
    assert share.high[0] == 1.0


def test_last_violated_by_constraint_group_and_overall() -> None:
    run = make()
    assert run.last_violated().values.tolist() == [7, 9, 10]
    assert run.last_violated([0]).values.tolist() == [5, 1, 10]
    share = run.last_violated(["share"])
    assert share.values.tolist() == [7, 9, 0]
    assert (share.mean, share.max, share.quantile(0.5)) == (16 / 3, 9, 7.0)
    assert share.never == pytest.approx(1 / 3)
    assert share.low == 0.0  # 16/3 − t·s/√3 is below 0, where no round is
    np.testing.assert_allclose(
        share.high, 16 / 3 + stats.t.ppf(0.975, 2) * np.std([7, 9, 0], ddof=1) / 3**0.5
    )
    for bad in (["nobody"], [2], [-1], [], "share"):
        with pytest.raises(InvalidInput, match="group"):
            run.last_violated(bad)


def test_shares() -> None:
    shares = make().shares
    np.testing.assert_allclose(shares.mean, [[2 / 3, 1 / 3], [0.5, 0.5], [0.5, 0.5]])
    assert shares.at(10, column=1).mean == 0.5
    assert shares.column(0).paths is not None
    with pytest.raises(InvalidInput, match="column"):
        shares.at(10)
    with pytest.raises(InvalidInput, match="recorded rounds"):
        shares.at(5, column=0)


def test_one_replication_has_no_interval() -> None:
    one = {
        name: getattr(make(), name)[:1]
        for name in ("reward", "observed_reward", "cost", "mean_cost", "counts", "last_violation")
    }
    run = make(**one)
    for curve in (run.regret, run.violation, run.path_violation, run.violation_by_constraint, run.shares):
        assert isinstance(curve, Curve)
        assert np.isnan(curve.low).all()
        assert np.isnan(curve.high).all()
        assert np.isfinite(curve.mean).all()
    row = run.rows()[-1]
    assert row["regret_low"] is None
    assert row["violation_high"] is None
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_no_constraints() -> None:
    empty: dict[str, Any] = {"cost": np.zeros((3, 3, 0)), "mean_cost": np.zeros((3, 3, 0)), "constraints": ()}
    run = make(last_violation=np.zeros((3, 0), dtype=np.int64), **empty)
    assert run.violation.at() == (0, 0, 0)
    assert run.violated_share.mean.tolist() == [0, 0, 0]
    assert run.last_violated().values.tolist() == [0, 0, 0]
    assert run.expected_last_violation == 0
    assert len(run.plot().axes) == 2


# -------------------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("R", [2, 5, 40])
def test_t_interval_covers_as_promised(R: int) -> None:
    G = 4000
    regret = np.random.default_rng(1).normal(3.0, 2.0, size=(R, G))
    curve = runs(np.zeros((R, G, 1)), reward=np.arange(1, G + 1) * 0.75 - regret).regret
    covered = ((curve.low <= 3.0) & (curve.high >= 3.0)).mean()
    assert abs(covered - 0.95) < tolerance(G)


def test_regret_covers_with_an_estimated_optimum() -> None:
    n, R, error = 600, 20, 0.4
    rng = np.random.default_rng(2)
    covered = 0
    for guess in rng.normal(0.75, error, size=n):
        ends = (guess - 1.96 * error, guess + 1.96 * error)
        reward = rng.normal(10.0, 2.0, size=(R, 1))
        regret = runs(np.zeros((R, 1, 1)), reward, optimum=guess, optimum_interval=ends).regret.at()
        covered += regret.low <= 0.75 - 10.0 <= regret.high
    assert abs(covered / n - 0.95) < tolerance(n)


@pytest.mark.parametrize("R", [5, 40])
def test_violation_interval_of_one_clear_constraint_covers_as_promised(R: int) -> None:
    G = 3000
    cost = np.random.default_rng(3).normal(9.0, 2.0, size=(R, G, 1))
    curve = runs(cost).violation
    covered = ((curve.low <= 9.0) & (curve.high >= 9.0)).mean()
    # The resamples' own noise costs the coverage some 0.003.
    assert abs(covered - 0.95) < tolerance(G) + 0.005


@pytest.mark.parametrize(
    ("means", "wide"),
    [([0.0] * 18, True), ([0.0, 0.3, -0.3, 5.0], True), ([0.2] * 6, True), ([-4.0, 6.0], False)],
    ids=["all at zero", "mixed", "near zero", "far from zero"],
)
def test_violation_interval_covers_at_the_kinks(means: list[float], wide: bool) -> None:
    R, G = 40, 1000
    truth = sum(max(0.0, m) for m in means)
    cost = np.random.default_rng(4).normal(means, 1.0, size=(R, G, len(means)))
    curve = runs(cost).violation
    covered = ((curve.low <= truth) & (curve.high >= truth)).mean()
    assert covered > 0.95 - tolerance(G) - 0.005
    assert wide or covered < 0.95 + tolerance(G) + 0.005
    assert (curve.low >= 0).all()


@pytest.mark.parametrize("R", [5, 10])
@pytest.mark.parametrize(
    "means", [[0.01], [1.0], [0.3] * 50, [-0.3, 0.0, 0.5, 4.0]], ids=["at zero", "one", "fifty", "mixed"]
)
def test_violation_interval_covers_with_few_runs_and_noise_in_the_paths(R: int, means: list[float]) -> None:
    G, rng = 400, np.random.default_rng(7)
    truth = sum(max(0.0, m) for m in means)
    # Runs that share what went wrong, and paths whose drawn costs are three times as noisy.
    together = rng.normal(size=(R, G, 1))
    mean_cost = np.array(means) + 0.8 * together + 0.6 * rng.normal(size=(R, G, len(means)))
    curve = runs(mean_cost + 3.0 * rng.normal(size=mean_cost.shape), mean_cost=mean_cost).violation
    # Two upper ends at 97.5 % each, of which the lower one counts.
    assert ((curve.low <= truth) & (curve.high >= truth)).mean() > 0.92 - tolerance(G)


def test_violation_is_never_above_the_path_violation() -> None:
    # Totals far below zero in some runs and just above it in others: the t-interval of the mean total reaches 711, though no run
    # can have ended further above zero than a few units on average.
    run = runs(np.array([-2000.0, 0.0, 1.0, 2.0, 2.0]).reshape(5, 1, 1))
    assert run.mean_cost_curve.high[0, 0] > 700
    path = run.path_violation.at()
    assert run.violation.at() == (0.0, 0.0, path.high)
    assert 1.0 < path.high < 2.5
    # Where nothing is averaged out of the costs, for totals of any kind.
    rng = np.random.default_rng(8)
    for R, K in ((2, 1), (5, 3), (10, 18)):
        cost = rng.normal(rng.normal(0.0, 3.0, size=(100, K)), 1.0, size=(R, 100, K)) ** 3
        run = runs(cost)
        for end in ("mean", "high"):
            assert (getattr(run.violation, end) <= getattr(run.path_violation, end) + 1e-9).all()
        assert (run.violation.low <= run.violation.mean).all()
        assert (run.violation.mean <= run.violation.high).all()


def test_a_clear_absence_of_violation_is_certain() -> None:
    curve = runs(np.random.default_rng(5).normal(-5.0, 1.0, size=(50, 4, 3))).violation
    assert curve.low.tolist() == curve.mean.tolist() == curve.high.tolist() == [0.0] * 4


def test_violation_interval_is_the_same_twice_and_in_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = np.random.default_rng(6).normal(0.5, 1.0, size=(20, 7, 3))
    first, second = runs(cost).violation, runs(cost).violation
    np.testing.assert_array_equal(first.low, second.low)
    monkeypatch.setattr("tightrope.intervals._BLOCK", 1)
    np.testing.assert_allclose(runs(cost).violation.high, first.high, rtol=1e-12)


def test_costs_that_do_not_vary_have_an_interval_of_no_width() -> None:
    curve = runs(np.full((10, 2, 2), 0.3)).violation
    np.testing.assert_array_equal(curve.low, curve.mean)
    np.testing.assert_array_equal(curve.high, curve.mean)


# -------------------------------------------------------------------------------------------------------- tables and files


def test_rows() -> None:
    rows = make().rows()
    assert [row["round"] for row in rows] == [1, 4, 10]
    row = rows[-1]
    assert row["policy"] == "safe"
    assert row["scenario"] == "small"
    assert row["replications"] == 3
    expected = {
        "regret": 1.5,
        "reward": 6.0,
        "observed_reward": 6.0,
        "violation": 0.0,
        "path_violation": 1.0,
        "path_violation_median": 0.0,
        "violated_share": 1 / 3,
        "last_violation": 26 / 3,
        "last_violation_max": 10,
        "expected_last_violation": 1,
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value), name
    assert {type(value) for value in row.values()} <= {str, int, float, type(None)}
    assert all(r["last_violation"] == row["last_violation"] for r in rows)
    unknown = make(optimum=None).rows()[0]
    assert unknown["regret"] is unknown["regret_low"] is None


def test_summary_is_a_mapping_and_a_table() -> None:
    summary = make(settings={"policy": {"bonus": 0.1}}, interrupted=True).summary()
    assert summary["regret"] == pytest.approx(1.5)
    assert summary["settings"] == {"policy": {"bonus": 0.1}}
    assert dict(summary)["seed"] == 7
    text = str(summary)
    assert "safe on small: 10 rounds, 3 replications, seed 7, interrupted" in text
    assert "regret" in text
    assert "regret" not in str(make(optimum=None).summary())


def test_save_and_load(tmp_path: Path) -> None:
    choices = np.arange(30).reshape(3, 10) % 2
    run = make(
        choices=choices,
        optimum_interval=(0.7, 0.8),
        settings={"n": np.int64(3), "inf": math.inf, "x": (1, 2)},
    )
    folder = run.save(tmp_path / "deep" / "run")
    again = Result.load(folder)
    assert again == run
    assert again.choices is not None
    assert again.choices.dtype == np.int16
    assert again.settings == {"n": 3, "inf": "inf", "x": [1, 2]}
    assert again != make()
    assert make().save(tmp_path / "plain").is_dir()
    assert Result.load(tmp_path / "plain") == make()
    for name in ("result.npz", "summary.json", "curves.csv"):
        before = (folder / name).read_bytes()
        again.save(folder)
        assert (folder / name).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [
        "by_constraint.csv",
        "curves.csv",
        "last_violation.csv",
        "result.npz",
        "shares.csv",
        "summary.json",
    ]


def test_the_files_hold_what_the_result_says(tmp_path: Path) -> None:
    run = make()
    run.save(tmp_path)

    def table(name: str) -> list[dict[str, str]]:
        with (tmp_path / name).open(newline="") as file:
            return list(csv.DictReader(file))

    assert json.loads((tmp_path / "summary.json").read_text())["rows"] == run.rows()
    assert [float(row["regret"]) for row in table("curves.csv")] == run.regret.mean.tolist()
    by_constraint = table("by_constraint.csv")
    assert [row["constraint"] for row in by_constraint] == ["budget", "share"] * 3
    assert [float(row["cost"]) for row in by_constraint] == run.mean_cost_curve.mean.ravel().tolist()
    assert [float(row["share"]) for row in table("shares.csv")] == run.shares.mean.ravel().tolist()
    assert [(row["constraint"], int(row["max"])) for row in table("last_violation.csv")] == [
        ("any", 10),
        ("budget", 10),
        ("share", 9),
    ]


def test_write_summary_of_several(tmp_path: Path) -> None:
    path = tmp_path / "new" / "summary.json"
    write_summary([make(), make(policy="other", optimum=None)], path)
    body = json.loads(path.read_text())
    assert [(row["policy"], row["round"]) for row in body["rows"]] == [
        (policy, at) for policy in ("safe", "other") for at in (1, 4, 10)
    ]
    assert [run["policy"] for run in body["runs"]] == ["safe", "other"]
    assert body["runs"][0]["seed"] == 7


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    make().save(tmp_path)
    path = tmp_path / "result.npz"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(StateDamagedError):
        Result.load(tmp_path)
    path.write_bytes(b"not an archive")
    with pytest.raises(StateDamagedError):
        Result.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        Result.load(tmp_path / "nowhere")


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.result.result._VERSION", 2)
    make().save(tmp_path)
    monkeypatch.undo()
    with pytest.raises(StateVersionError, match="version 2"):
        Result.load(tmp_path)


def test_plot_shows_three_panels_and_leaves_matplotlib_alone(tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    figure = make().plot(tmp_path / "new" / "run.svg")
    assert dict(matplotlib.rcParams) == before
    assert len(figure.axes) == 3
    assert (tmp_path / "new" / "run.svg").read_text().rstrip().endswith("</svg>")
    make(optimum=None).plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes()[1:4] == b"PNG"


def test_plot_of_many_actions_sums_the_rare_ones() -> None:
    names = tuple(f"arm {j}" for j in range(30))
    counts = np.zeros((3, 3, 30), dtype=np.int64)
    counts[..., 4] = [1, 3, 8]
    counts[..., 20] = [0, 1, 2]
    texts = {text.get_text() for text in make(actions=names, counts=counts).plot().axes[2].texts}
    assert {"arm 4", "arm 20", "23 others"} <= texts


# ------------------------------------------------------------------------------------------------------------------ input


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": [1, 4, 4]}, "rounds must be increasing"),
        ({"rounds": [0, 4, 10]}, "start at 1"),
        ({"rounds": [1, 4.5, 10]}, "whole numbers"),
        ({"reward": np.zeros((0, 3))}, "at least one replication"),
        ({"reward": [[0.5, math.nan, 1]] * 3}, r"reward\[0, 1\] must be finite"),
        ({"observed_reward": np.zeros((2, 3))}, r"observed_reward must have shape \(3, 3\)"),
        ({"cost": np.zeros((3, 3, 1))}, "cost must have shape"),
        ({"counts": np.full((3, 3, 2), -1)}, "counts"),
        ({"counts": np.full((3, 3, 2), 6)}, "counts"),
        ({"counts": [["a"]]}, "counts"),
        ({"last_violation": [[11, 0]] * 3}, "last_violation must lie between 0 and the last round, 10"),
        ({"baseline": "guess"}, "baseline must be one of"),
        ({"optimum": math.inf}, "optimum"),
        ({"optimum_interval": (0.9, 0.7)}, r"\(low, high\)"),
        ({"choices": np.zeros((3, 9))}, "choices must have shape"),
        ({"choices": np.full((3, 10), 40000)}, "whole numbers up to 32767"),
        ({"seconds": -1}, "seconds"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make(**changes)


def test_a_result_can_not_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        make().reward[0, 0] = 1.0
