"""The benchmarks run, and what they compare makes the same choices: the error beside the time."""

from __future__ import annotations

import dataclasses
from itertools import cycle

import numpy as np
import pytest

import tightrope as tr
from tightrope_lab import bench
from tightrope_lab.bench import contests, numpy_loops, run, scaling

SMALL = {
    "online": contests.online(J=4, d=5, K=2, rounds=60),
    "online-after": contests.online_after(J=4, d=5, K=2, rounds=200),
    "hospital": contests.hospital_wards(rounds=150),
    "engine": contests.engine(rounds=150, replications=2),
    "catalogue": contests.catalogue(J=30, d=5, K=2, rounds=80),
    "catalogue-running": contests.catalogue(J=30, d=5, K=2, rounds=80, running=True),
    "constraints": contests.many_constraints(J=8, d=4, K=60, touched=3, rounds=40),
    "batch": contests.many_rounds(J=4, d=5, K=2, rounds=50),
    "batch-decide": contests.many_rounds(J=4, d=5, K=2, rounds=50, successive=True),
}


class Clock:
    """A processor whose programs take as long as they are said to: each reading ends the interval that the last one began."""

    def __init__(self, *seconds):
        self.now, self.intervals, self.running = 0.0, cycle(seconds), False

    def process_time(self):
        if self.running:
            self.now += next(self.intervals)
        self.running = not self.running
        return self.now


@pytest.mark.parametrize("name", SMALL)
def test_both_programs_make_the_same_choices(name):
    row = bench.measure(SMALL[name], repeats=1)
    assert row["agree"] == 1.0
    assert row["error"] < 1e-9
    assert row["rounds"] == min(SMALL[name].rounds, SMALL[name].rival_rounds or SMALL[name].rounds)


def test_a_ratio_is_that_of_the_medians_of_a_round(monkeypatch):
    # Who goes first changes: the rival in repeat 0 and 2, we in repeat 1.
    monkeypatch.setattr(run, "time", Clock(8e-3, 1e-3, 2e-3, 6e-3, 10e-3, 4e-3))
    contest = SMALL["online"]
    row = bench.measure(contest, repeats=3)
    a_round = 1e6 / contest.rounds
    assert row["ours"] == pytest.approx(
        {"median": 2e-3 * a_round, "low": 1.5e-3 * a_round, "high": 3e-3 * a_round}
    )
    assert row["rival"] == pytest.approx(
        {"median": 8e-3 * a_round, "low": 7e-3 * a_round, "high": 9e-3 * a_round}
    )
    assert row["ratio"] == pytest.approx(4.0)
    assert (row["ratio_low"], row["ratio_high"]) == pytest.approx(
        tuple(np.quantile([8, 3, 2.5], (0.25, 0.75)))
    )


def test_a_mapped_catalogue_against_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(contests, "BLOCK", 16)
    row = bench.measure(contests.catalogue(J=50, d=4, K=1, rounds=30, folder=tmp_path), repeats=1)
    assert row["agree"] == 1.0
    assert "in blocks" in row["against"]


def test_choices_vary_and_queues_matter():
    # A contest that always picks one action would agree about nothing.
    for contest in SMALL.values():
        assert len(set(contest.ours()().choices)) > 1
    online = SMALL["online"].rival()
    assert len(set(online().choices)) == 4


def test_a_difference_is_seen():
    contest = SMALL["online"]
    outcome = contest.rival()()
    other = numpy_loops.Outcome([(choice + 1) % 4 for choice in outcome.choices], outcome.state + 0.5)
    row = bench.measure(dataclasses.replace(contest, rival=lambda: lambda: other), repeats=1)
    assert row["agree"] == 0.0
    assert row["error"] == pytest.approx(0.5)


def test_every_case_can_be_made_and_targets_are_those_promised():
    targets = {name: case.target for name, case in bench.CASES.items() if case.target}
    assert targets == {
        "online": 4.0,
        "hospital": 4.0,
        "online-large": 1.5,
        "catalogue": 5.0,
        "engine": 20.0,
        "million": 5.0,
    }
    assert all(case.repeats >= 7 for case in bench.CASES.values())


def test_the_loops_agree_with_each_other():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(12, 5))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    W, rewards = rng.uniform(-1, 1, size=(12, 3)), rng.uniform(size=12)
    settings = numpy_loops.paper(3, 0.2, 70, bonus=0.2)
    full = numpy_loops.full_sweep(phi, W, rewards, 70, settings)
    for other in (
        numpy_loops.full_sweep(phi, W, rewards, 70, settings, block=5),
        numpy_loops.running_widths(phi, W, rewards, 70, settings),
        numpy_loops.shared(
            np.tile(phi, (70, 1, 1)), np.tile(W, (70, 1, 1)), rewards[full.choices].tolist(), settings
        ),
    ):
        assert other.choices == full.choices
        np.testing.assert_allclose(other.state, full.state, atol=1e-10)


def test_the_final_estimate_is_the_ridge_solution():
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(6, 4)) / 4
    rewards = rng.uniform(size=6)
    run = numpy_loops.full_sweep(phi, np.zeros((6, 1)), rewards, 40, numpy_loops.paper(1, 0.5, 40))
    X = phi[run.choices]
    expected = np.linalg.solve(np.eye(4) + X.T @ X, X.T @ rewards[run.choices])
    np.testing.assert_allclose(run.state[1:], expected, atol=1e-12)


def test_the_simulation_reports_what_the_engine_reports():
    contest = SMALL["engine"]
    ours, rival = contest.ours()(), contest.rival()()
    assert ours.choices == rival.choices
    np.testing.assert_allclose(ours.state, rival.state, atol=1e-9)
    K = 18
    assert len(rival.state) == 1 + 2 * K
    # With a capacity of 0.2 and less, the first rounds exceed some limit.
    assert rival.state[1 + K :].max() > 0


LIMITS = {"flops": 1e9, "bandwidth": [[2**20, 1e9], [2**27, 1e8]]}


def test_scaling_and_its_limits(monkeypatch):
    monkeypatch.setattr(scaling, "machine_limits", lambda: LIMITS)
    # A round of a run of 256 rounds or more takes 2 or 4 µs.
    monkeypatch.setattr(scaling, "_times", lambda J, d, K, C, repeats, seconds: [2e-6, 4e-6])
    found = scaling.scaling({"J": (2, 8), "C": (10,)}, repeats=2)
    assert [(point["axis"], point["J"], point["C"]) for point in found["points"]] == [
        ("J", 2, 100),
        ("J", 8, 100),
        ("C", 10, 10),
    ]
    for point in found["points"]:
        assert (point["low"], point["median"], point["high"]) == pytest.approx((2.5, 3.0, 3.5))
        assert point["limit"] == max(point["arithmetic"], point["moving"]) > 0
        assert point["times_limit"] == pytest.approx(3.0 / point["limit"])
    assert len(scaling.figure(found).axes) == 2


def test_a_measured_round_is_the_time_by_the_rounds(monkeypatch):
    monkeypatch.setattr(scaling, "time", Clock(1.0, 0.256, 5.12))
    # The second run says how many rounds fill the time: 1 ms a round, so 512 of them fill 0.512 s.
    assert scaling._times(2, 3, 1, 10, repeats=2, seconds=0.512) == pytest.approx([5.12 / 512, 1.0 / 512])


def test_the_least_arithmetic_grows_as_it_must():
    def flops(**size):
        return scaling.least(**{**scaling.BASE, **size}, limits=LIMITS)[0] * 1e9

    # One more constraint: a multiplication and an addition for each action. One more action: a penalty of K products.
    assert flops(K=4) - flops(K=3) == pytest.approx(2 * 10)
    assert flops(J=11) - flops(J=10) == pytest.approx(2 * 3)
    assert flops(C=10_000) == flops(C=10)


def test_figures_are_written(monkeypatch, tmp_path):
    monkeypatch.setattr(scaling, "machine_limits", lambda: LIMITS)
    monkeypatch.setattr(scaling, "_times", lambda J, d, K, C, repeats, seconds: [K * 1e-6])
    found = scaling.scaling({"K": (1, 2)}, repeats=1)
    parts = ("import", "policy", "decide", "learn", "ready", "ready_wall")
    start = {"compiling": dict.fromkeys(parts, 2.0), "cached": dict.fromkeys(parts, 0.5), "repeats": 1}
    bench.write({"machine": {}, "rows": [], "start": start, "scaling": found}, tmp_path)
    assert (tmp_path / "scaling.png").read_bytes()[1:4] == b"PNG"
    text = (tmp_path / "bench.md").read_text()
    assert "K = 2" in text
    assert "compiled code on disk" in text


def test_bad_input():
    with pytest.raises(tr.InvalidInput, match="case must be one of"):
        bench.bench(["nothing"])
    with pytest.raises(tr.InvalidInput, match="repeats"):
        bench.bench(["online"], repeats=0)


def test_loops_by_hand():
    """Two actions, of which the first costs: it is taken once, then the queue forbids it."""
    phi, W, settings = np.eye(2), np.array([[0.5], [-0.5]]), numpy_loops.paper(1, 0.5, 3)
    assert numpy_loops.paper(1, 0.3, 100).e == np.sqrt(6.0)
    phis, Ws, rewards = np.repeat(phi[None], 3, axis=0), np.repeat(W[None], 3, axis=0), [1.0, 0.0, 0.0]
    tables = (
        np.ones((1, 2)) / 2,
        W[None],
        np.array([[0.9, 0.1]]),
        np.zeros(3, dtype=np.int64),
        np.full(3, 0.5),
    )
    learnt = np.array([1.0, 0.0])
    simulated = numpy_loops.simulated(*tables, settings)
    found = [
        numpy_loops.shared(phis, Ws, rewards, settings),
        numpy_loops.after(phis, phis, Ws, rewards, numpy_loops.paper(1, 0.5, 3, 0.1)),
        numpy_loops.disjoint(*tables, settings),
        simulated,
        numpy_loops.full_sweep(phi, W, learnt, 3, settings, block=1),
        numpy_loops.running_widths(phi, W, learnt, 3, settings),
        numpy_loops.batch(phis, Ws, np.eye(2), np.zeros(2), 0, settings),
    ]
    assert [one.choices for one in found] == [[0, 1, 1]] * 7
    np.testing.assert_allclose(simulated.state, [1.1, -0.5, 1.0])


def test_limits_of_a_machine_and_what_a_round_needs_of_them():
    assert scaling.quartiles(np.array([1.0, 2.0, 4.0])) == {"median": 2.0, "low": 1.5, "high": 3.0}
    limits = {"flops": 1e9, "bandwidth": [[2**18, 1e9], [2**27, 1e8]]}
    assert [round(1e9 * part) for part in scaling.least(1, 10, 0, 1, limits)] == [650, 2160]
    found = scaling.scaling({"J": (2, 4)}, repeats=1, seconds=0.001)
    assert sorted(found["limits"]) == ["bandwidth", "flops"]
    assert [point["J"] for point in found["points"]] == [2, 4]
    assert found["points"][0]["limit"] > 0
    assert len(scaling.figure(found).axes) == 1


def test_what_is_known_of_the_machine():
    assert sorted(run.machine()) == ["cores", "load", "numba", "numpy", "processor", "python"]


def test_scaling_as_a_table():
    point = {"axis": "J", "J": 2, "median": 2.0, "low": 1.9, "high": 2.2, "limit": 0.2, "times_limit": 10.0}
    limits = {"flops": 5e10, "bandwidth": [[2**18, 1e11]]}
    [(_, _, rows)] = run.tables({"rows": [], "start": None, "scaling": {"limits": limits, "points": [point]}})
    assert rows == [["J = 2", "2", "1.9 to 2.2", "0.2", "10.0"]]
