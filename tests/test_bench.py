"""The benchmarks run, and what they compare makes the same choices: the error beside the time."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import tightrope as tr
from tightrope.cli import main
from tightrope.studies import baselines, bench, scaling

SMALL = {
    "online": bench.online(J=4, d=5, K=2, rounds=60),
    "online-after": bench.online_after(J=4, d=5, K=2, rounds=200),
    "hospital": bench.ward(rounds=150),
    "engine": bench.engine(rounds=150, replications=2),
    "catalogue": bench.catalogue(J=30, d=5, K=2, rounds=80),
    "catalogue-running": bench.catalogue(J=30, d=5, K=2, rounds=80, running=True),
    "constraints": bench.many_constraints(J=8, d=4, K=60, touched=3, rounds=40),
    "batch": bench.many_rounds(J=4, d=5, K=2, rounds=50),
    "batch-decide": bench.many_rounds(J=4, d=5, K=2, rounds=50, successive=True),
}


@pytest.mark.parametrize("name", SMALL)
def test_both_programs_make_the_same_choices(name):
    row = bench.measure(SMALL[name], repeats=2)
    assert row["agree"] == 1.0
    assert row["error"] < 1e-9
    assert row["rounds"] == min(SMALL[name].rounds, SMALL[name].rival_rounds)
    assert row["ratio"] > 0
    assert row["ratio_low"] <= row["ratio_high"]
    for side in ("ours", "rival"):
        assert 0 < row[side]["low"] <= row[side]["median"] <= row[side]["high"]


def test_a_mapped_catalogue_against_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "BLOCK", 16)
    row = bench.measure(bench.catalogue(J=50, d=4, K=1, rounds=30, folder=tmp_path), repeats=1)
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
    other = baselines.Outcome([(choice + 1) % 4 for choice in outcome.choices], outcome.state + 0.5)
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


def test_the_baselines_agree_with_each_other():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(12, 5))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    W, rewards = rng.uniform(-1, 1, size=(12, 3)), rng.uniform(size=12)
    settings = baselines.paper(3, 0.2, 70, bonus=0.2)
    full = baselines.full_sweep(phi, W, rewards, 70, settings)
    for other in (
        baselines.full_sweep(phi, W, rewards, 70, settings, block=5),
        baselines.running_widths(phi, W, rewards, 70, settings),
        baselines.shared(
            np.tile(phi, (70, 1, 1)), np.tile(W, (70, 1, 1)), rewards[full.choices].tolist(), settings
        ),
    ):
        assert other.choices == full.choices
        np.testing.assert_allclose(other.state, full.state, atol=1e-10)


def test_the_final_estimate_is_the_ridge_solution():
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(6, 4)) / 4
    rewards = rng.uniform(size=6)
    run = baselines.full_sweep(phi, np.zeros((6, 1)), rewards, 40, baselines.paper(1, 0.5, 40))
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


def test_scaling_and_its_limits():
    found = scaling.scaling({"J": (2, 8), "C": (10,)}, repeats=2, seconds=0.001)
    rates = [rate for _, rate in found["limits"]["bandwidth"]]
    assert found["limits"]["flops"] > 0
    assert min(rates) > 0
    assert [(point["axis"], point["J"], point["C"]) for point in found["points"]] == [
        ("J", 2, 100),
        ("J", 8, 100),
        ("C", 10, 10),
    ]
    for point in found["points"]:
        assert point["limit"] == max(point["arithmetic"], point["moving"]) > 0
        assert math.isclose(point["times_limit"], point["median"] / point["limit"])
    assert len(scaling.figure(found).axes) == 2


def test_the_least_arithmetic_grows_as_it_must():
    limits = {"flops": 1e9, "bandwidth": [[2**20, 1e9], [2**27, 1e8]]}

    def flops(**size):
        return scaling.least(**{**scaling.BASE, **size}, limits=limits)[0] * 1e9

    # One more constraint: a multiplication and an addition for each action. One more action: a penalty of K products.
    assert flops(K=4) - flops(K=3) == pytest.approx(2 * 10)
    assert flops(J=11) - flops(J=10) == pytest.approx(2 * 3)
    assert flops(C=10_000) == flops(C=10)


def test_command(capsys, tmp_path):
    assert main(["bench", "batch", "--repeats", "1", "--json", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr()
    data = json.loads(out.out)
    (row,) = data["rows"]
    assert row["case"] == "batch"
    assert row["agree"] == 1.0
    assert data["start"] is None
    assert "bench: batch" in out.err
    assert json.loads((tmp_path / "bench.json").read_text()) == data
    assert "| batch | decide_many" in (tmp_path / "bench.md").read_text()


def test_figures_are_written(tmp_path):
    found = scaling.scaling({"K": (1, 2)}, repeats=1, seconds=0.001)
    parts = ("import", "policy", "decide", "learn", "ready", "ready_wall")
    start = {"compiling": dict.fromkeys(parts, 2.0), "cached": dict.fromkeys(parts, 0.5), "repeats": 1}
    bench.write({"machine": {}, "rows": [], "start": start, "scaling": found}, tmp_path)
    assert (tmp_path / "scaling.png").read_bytes()[1:4] == b"PNG"
    text = (tmp_path / "bench.md").read_text()
    assert "K = 2" in text
    assert "compiled code on disk" in text


def test_bad_input(capsys):
    with pytest.raises(tr.InvalidInput, match="case must be one of"):
        bench.bench(["nothing"])
    with pytest.raises(tr.InvalidInput, match="repeats"):
        bench.bench(["online"], repeats=0)
    assert main(["bench", "nothing"]) == 2
    assert "case must be one of" in capsys.readouterr().err
