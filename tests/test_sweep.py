"""Sweeps: designs, cells that are known by their settings, resuming, engines that agree, halving, tuning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from itertools import islice, product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope import engine, sweep
from tightrope.cli import main
from tightrope.environments.build import environment_of, policies_of
from tightrope.errors import InvalidInput, TightropeError
from tightrope.result import Result
from tightrope.spec import SpecError, make_spec, read_spec
from tightrope.sweep import Design, Plan, Target, TargetMissed, cells, engines, run_sweep, tune, write_page
from tightrope.sweep.analysis import explained, levels, pareto_layers
from tightrope.sweep.cells import MEASURES
from tightrope.sweep.design import Span, put
from tightrope.sweep.run import RUNGS
from tightrope.sweep.store import Store
from tightrope.sweep.toml import dumps

EXAMPLES = Path(__file__).parents[1] / "examples"

BANDIT = {
    "name": "arms",
    "policy": {"V": {"scale": 1.0, "exponent": 0.5}, "epsilon": {"scale": 1.0, "exponent": -0.5}},
    "environment": {"kind": "bandit", "threshold": 0.1},
    "simulation": {"rounds": 120, "replications": 3, "seed": 5},
}
GRID = {"policy.V.scale": [0.5, 1.0, 2.0], "policy.epsilon.scale": [0.5, 2.0]}


def spec_of(table, **changes):
    return make_spec({**BANDIT, **changes, "sweep": table})


def stored(folder):
    """Every row on disk, in no order."""
    return [
        row
        for part in sorted(Path(folder, "cells").glob("*.parquet"))
        for row in pq.read_table(part).to_pylist()
    ]


def numbers(folder):
    """What must not depend on engine, workers or order: all but the time."""
    return {row["cell"]: {k: v for k, v in row.items() if k != "seconds"} for row in stored(folder)}


# --- designs ---


def test_a_grid_has_every_combination_with_environments_slowest():
    spec = spec_of(
        {"policy.slater": [0.1, 0.2], "environment.threshold": [0.1, 0.5], "simulation.seed": [0, 1, 2]}
    )
    design = Design.of(spec)
    assert design.paths == ("environment.threshold", "policy.slater", "simulation.seed")
    assert list(design.points()) == list(product([0.1, 0.5], [0.1, 0.2], [0, 1, 2]))
    assert design.cells == 12


def test_paths_without_quotation_marks_are_the_same():
    quoted = read_spec(
        '[sweep]\n"policy.V.scale" = { low = 1.0, high = 2.0, steps = 3 }\n"simulation.seed" = [1]\n'
    )
    plain = read_spec(
        "[sweep]\npolicy.V.scale = { low = 1.0, high = 2.0, steps = 3 }\nsimulation.seed = [1]\n"
    )
    assert Design.of(quoted) == Design.of(plain)
    assert [point[0] for point in Design.of(plain).points()] == [1.0, 1.5, 2.0]


@pytest.mark.parametrize("kind", ["random", "sobol"])
def test_drawn_points_depend_on_the_seed_alone(kind):
    table = {
        "design": kind,
        "policy.reward.bonus": {"low": 0.01, "high": 1.0, "scale": "log"},
        "simulation.rounds": {"low": 3, "high": 9},
        "policy.slater": ["measure", 0.1],
    }
    few = list(Design.of(spec_of({**table, "cells": 40})).points())
    many = list(Design.of(spec_of({**table, "cells": 700})).points())
    other = list(Design.of(spec_of({**table, "cells": 40, "seed": 1})).points())
    assert many[:40] == few != other
    assert len(many) == 700
    bonus, rounds, slater = (list(column) for column in zip(*many))
    assert all(0.01 <= b <= 1.0 and b == float(f"{b:.6g}") for b in bonus)
    assert set(rounds) == set(range(3, 10))
    assert all(isinstance(r, int) for r in rounds)
    assert set(slater) == {"measure", 0.1}
    # On a logarithmic scale, half of the draws lie below the geometric mean.
    assert 0.4 < np.mean(np.array(bonus) < 0.1) < 0.6
    assert 0.4 < np.mean([s == 0.1 for s in slater]) < 0.6


def test_sobol_points_are_spread_evenly():
    table = {"design": "sobol", "cells": 64, "policy.V.scale": {"low": 0.0, "high": 64.0}}
    table["policy.epsilon.scale"] = {"low": 0.0, "high": 64.0}
    points = np.array(list(Design.of(spec_of(table)).points()))
    # The property that defines it: one point in each of 64 slices, of either coordinate, and of 8 × 8 squares.
    for column in points.T:
        assert sorted(np.floor(column).astype(int)) == list(range(64))
    assert len({(int(x // 8), int(y // 8)) for x, y in points}) == 64


def test_designs_are_streamed():
    big = {f"policy.x{i}": list(range(100)) for i in range(6)}  # 10¹² points
    plan = Plan.of(spec_of(big))
    assert len(plan) == 10**12
    assert [cell.number for cell in islice(plan.cells(), 3)] == [0, 1, 2]


def test_spans():
    assert Span(1, 1000, scale="log", steps=4).levels() == (1, 10, 100, 1000)
    assert Span(1, 3, steps=9).levels() == (1, 2, 3)
    assert Span(1, 4).at(0.999999) == 4
    assert Counter(Span(1, 4).at(i / 400) for i in range(400)) == {1: 100, 2: 100, 3: 100, 4: 100}
    assert Span(0.1, 0.3).at(0.0) == 0.1


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "sweep: is missing"),
        ({"design": "grid"}, "sweep: must name at least one field"),
        ({"design": "latin", "policy.slater": [1]}, "sweep.design: must be one of 'grid', 'random', 'sobol'"),
        ({"design": "sobol", "policy.slater": [1]}, "sweep.cells: is missing"),
        ({"cells": 3, "policy.slater": [1]}, "sweep.cells: is for random and sobol"),
        ({"design": "random", "cells": 0, "policy.slater": [1]}, "sweep.cells: must be a whole number >= 1"),
        (
            {"design": "random", "cells": 2, "seed": -1, "policy.slater": [1]},
            "sweep.seed: must be a whole number",
        ),
        ({"polcy.slater": [1]}, "sweep.polcy.slater: unknown field"),
        ({"policy": [1]}, "must lead to a field"),
        ({"policy.slater": []}, 'sweep."policy.slater": must have at least one value'),
        ({"policy.slater": 3}, "must be a list of values or"),
        ({"policy.slater": {"low": 1.0, "high": 2.0}}, "steps is missing"),
        ({"policy.slater": {"low": 1.0, "high": 2.0, "steps": 1}}, "steps must be a whole number >= 2"),
        ({"policy.slater": {"low": 2.0, "high": 1.0, "steps": 3}}, "low must be below high"),
        ({"policy.slater": {"low": 0.0, "high": 1.0, "steps": 3, "scale": "log"}}, "low must be above 0"),
        (
            {"policy.slater": {"low": 0.1, "high": 1.0, "steps": 3, "scale": "lg"}},
            "scale must be 'linear' or 'log'",
        ),
        ({"policy.slater": {"low": "a", "high": 1.0, "steps": 3}}, "low must be a number"),
        ({"policy.slater": {"low": 0.1, "hihg": 1.0}}, "did you mean 'high'?"),
        ({"policy.slater": {"low": 0.1}}, "high is missing"),
        (
            {"design": "random", "cells": 2, "policy.slater": {"low": 0.1, "high": 1.0, "steps": 3}},
            "steps is for grids",
        ),
        ({"rule[0].at_most": [0.1]}, "there is no entry [0]"),
        ({"policy[1].slater": [0.1]}, "there is no entry [1]"),
        ({"environment.kind.x": [0.1]}, "there is no table to hold 'x'"),
        ({"policy.sla[ter": [0.1]}, "must be a path such as"),
        ({"policy.slater": [0.1], "policy": {"slater": [0.2]}}, "must name each field once"),
    ],
)
def test_bad_designs_are_refused(table, message):
    with pytest.raises(SpecError) as error:
        Design.of(spec_of(table))
    assert message in str(error.value)


def test_putting_a_value_leaves_the_original():
    data = {"a": [{"b": 1}, {"b": 2}], "c": {}}
    assert put(data, ("a", 1, "b"), 9) == {"a": [{"b": 1}, {"b": 9}], "c": {}}
    assert put(data, ("c", "d", "e"), 1)["c"] == {"d": {"e": 1}}
    assert data == {"a": [{"b": 1}, {"b": 2}], "c": {}}


# --- cells ---


def test_a_cell_is_known_by_all_its_settings_and_by_nothing_else(tmp_path):
    plan = Plan.of(spec_of(GRID))
    names = [cell.id for cell in plan.cells()]
    assert len(set(names)) == 6
    # Another design, in another order, with a field more that is set to what it was: the same cells.
    more = {**dict(reversed(GRID.items())), "simulation.seed": [5, 6]}
    others = {cell.id for cell in Plan.of(spec_of(more)).cells()}
    assert set(names) <= others
    assert len(others) == 12
    for changes in ({"simulation": {**BANDIT["simulation"], "seed": 6}}, {"environment": {"kind": "bandit"}}):
        assert not set(names) & {cell.id for cell in Plan.of(spec_of(GRID, **changes)).cells()}
    cell = next(plan.cells())
    assert plan.changed(cell, rounds=120) != cell
    assert plan.changed(cell, rounds=120).id == cell.id
    assert plan.changed(cell, rounds=121).id != cell.id


def test_a_cell_is_known_by_the_file_of_its_environment(tmp_path):
    (tmp_path / "s.toml").write_text(
        '[environment]\nkind="tabular"\nfile="a.npz"\n[sweep]\n"policy.slater"=[0.1]\n'
    )

    def name(reward):
        np.savez(tmp_path / "a.npz", weights=[1.0], rewards=[[reward, 0.1]])
        cells._file_hash.cache_clear()
        return next(Plan.of(read_spec(tmp_path / "s.toml")).cells()).id

    assert name(0.5) == name(0.5) != name(0.6)


def test_a_row_is_what_simulate_gives(tmp_path):
    spec = spec_of(GRID)
    found = run_sweep(spec, tmp_path, workers=1)
    for row in stored(tmp_path):
        data = put(
            put(BANDIT, ("policy", "V", "scale"), row["policy.V.scale"]),
            ("policy", "epsilon", "scale"),
            row["policy.epsilon.scale"],
        )
        alone = make_spec(data)
        env = environment_of(alone)
        (policy,) = policies_of(alone, env).values()
        expected = engine.simulate(policy, env, 120, 3, 5, record=[120]).rows()[-1]
        assert {name: row[name] for name in MEASURES} == {name: expected[name] for name in MEASURES}
        assert (row["round"], row["replications"], row["seed"], row["scenario"]) == (120, 3, 5, env.name)
    assert found.rows()["policy.V.scale"].tolist() == [0.5, 0.5, 1.0, 1.0, 2.0, 2.0]


def test_any_field_can_vary(tmp_path):
    spec = make_spec(
        {
            "actions": ["a", "b"],
            "rule": [{"kind": "capacity", "action": "b", "at_most": 0.5}],
            "policy": {"slater": 0.1},
            "environment": {"kind": "tabular", "weights": [1.0], "rewards": [[0.2, 0.8]]},
            "simulation": {"rounds": 30, "replications": 2},
            "sweep": {
                "rule[0].at_most": [0.25, 0.75],
                "simulation.rounds": [10, 30],
                "environment.rewards": [[[0.2, 0.8]], [[0.4, 0.8]]],
            },
        }
    )
    found = run_sweep(spec, tmp_path, workers=1)
    assert found.failed == 0
    for row in stored(tmp_path):
        low = json.loads(row["environment.rewards"])[0][0]
        optimum = low + row["rule[0].at_most"] * (0.8 - low)
        assert row["regret"] == pytest.approx(row["round"] * optimum - row["reward"], abs=1e-6)


def test_what_cells_share_is_made_once(tmp_path, monkeypatch):
    solved = Counter()
    real = cells.solve

    def counted(env, **options):
        solved[float(env.costs[0, 0, 0])] += 1
        return real(env, **options)

    monkeypatch.setattr(cells, "solve", counted)
    monkeypatch.setattr(cells, "_worlds", cells._Worlds(2))
    table = {
        "policy.V.scale": {"low": 0.1, "high": 2.0, "steps": 20},
        "environment.threshold": [0.11, 0.22, 0.33],
    }
    run_sweep(spec_of(table), tmp_path, workers=1)
    # The ends are built beforehand, to see whether the plan makes sense; else once each, though only two are kept.
    assert sum(solved.values()) <= 4
    assert len(solved) == 3


def test_several_policies_and_one_of_them_by_place(tmp_path):
    two = [{"name": "one", "slater": 0.1}, {"name": "two", "slater": 0.2}]
    found = run_sweep(spec_of({"policy[1].slater": [0.3, 0.4]}, policy=two), tmp_path, workers=1)
    # "one" is the same at both points, and so runs once.
    assert found.ran == 3
    assert Counter(row["policy"] for row in stored(tmp_path)) == {"one": 1, "two": 2}
    both = run_sweep(spec_of({"policy.slater": [0.3, 0.4]}, policy=two), tmp_path, workers=1)
    assert both.ran == 2  # those of "two" are there
    rows = both.rows()
    # Their settings are told in the words of this design, whichever ran them.
    assert rows["policy.slater"].tolist() == [0.3, 0.3, 0.4, 0.4]
    assert rows["policy"].tolist() == ["one", "two"] * 2
    assert rows["number"].tolist() == [0, 1, 2, 3]


# --- resuming and failing ---


def test_nothing_is_repeated_after_an_interruption(tmp_path, monkeypatch):
    spec = spec_of({"policy.V.scale": {"low": 0.1, "high": 2.0, "steps": 30}})
    whole = run_sweep(spec, tmp_path / "whole", workers=1)
    real, parts = Store.add, []

    def interrupted(store, rows):
        if len(parts) == 3:
            (store.folder / ".part-0000003.parquet.draft").write_bytes(b"PAR1 torn")
            raise KeyboardInterrupt
        parts.append(len(rows))
        real(store, rows)

    monkeypatch.setattr(Store, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(spec, tmp_path / "torn", workers=1)
    monkeypatch.undo()
    again = run_sweep(spec, tmp_path / "torn", workers=1)
    assert again.ran == 30 - sum(parts) > 0
    assert max(Counter(row["cell"] for row in stored(tmp_path / "torn")).values()) == 1
    assert numbers(tmp_path / "torn") == numbers(tmp_path / "whole")
    assert not list((tmp_path / "torn" / "cells").glob(".*"))
    assert run_sweep(spec, tmp_path / "torn", workers=1).ran == 0
    assert len(whole.rows()) == 30


def test_a_killed_process_loses_only_what_was_under_way(tmp_path):
    data = {**BANDIT, "simulation": {"rounds": 20_000, "replications": 4}}
    data["sweep"] = {"policy.V.scale": {"low": 0.1, "high": 2.0, "steps": 60}}
    (tmp_path / "s.toml").write_text(dumps(data))
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "tightrope",
        "sweep",
        str(tmp_path / "s.toml"),
        "--out",
        str(out),
        "--workers",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while (
            len(list(out.glob("cells/*.parquet"))) < 3
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    kept = len(stored(out))
    assert 0 < kept < 60
    found = run_sweep(read_spec(tmp_path / "s.toml"), out, workers=1)
    assert found.ran == 60 - kept
    assert len(numbers(out)) == len(stored(out)) == 60


def test_a_failed_cell_is_named_and_the_others_finish(tmp_path, capsys):
    data = {**BANDIT, "policy": {}, "sweep": {"policy.slater": [0.1, 7.0, 0.5]}}
    (tmp_path / "s.toml").write_text(dumps(data))
    argv = ["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), "--workers", "1", "--json"]
    assert main(argv) == 1
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert (told["cells"], told["ran"], told["failed"]) == (3, 3, 1)
    assert "1 of 3 cells failed" in shown.err
    assert "cell 1 (policy.slater = 7.0)" in shown.err
    assert "slater must lie in (0, 1], but got 7.0" in shown.err
    assert [row["policy.slater"] for row in stored(tmp_path / "out") if row["error"]] == [7.0]
    # The same again: nothing runs, and it still says what failed.
    assert main(argv) == 1
    assert json.loads(capsys.readouterr().out)["ran"] == 0
    assert main([*argv, "--retry-failed"]) == 1
    assert json.loads(capsys.readouterr().out)["ran"] == 1
    assert "7.0" in (tmp_path / "out" / "index.html").read_text()


def test_any_error_of_a_cell_is_its_own(tmp_path, monkeypatch):
    real, calls = cells.simulate, []

    def fragile(policy, *rest, **options):
        calls.append(policy)
        if len(calls) % 2 == 0:
            raise ZeroDivisionError("by chance")
        return real(policy, *rest, **options)

    monkeypatch.setattr(cells, "simulate", fragile)
    found = run_sweep(spec_of(GRID), tmp_path, workers=1)
    assert found.failed == 3
    assert found.failures(2) == [
        {
            "number": i,
            "settings": {"policy.V.scale": v, "policy.epsilon.scale": 2.0},
            "error": "ZeroDivisionError: by chance",
        }
        for i, v in ((1, 0.5), (3, 1.0))
    ]
    monkeypatch.undo()
    assert run_sweep(spec_of(GRID), tmp_path, workers=1).ran == 0
    mended = run_sweep(spec_of(GRID), tmp_path, workers=1, retry_failed=True)
    assert (mended.ran, mended.failed) == (3, 0)
    assert np.isfinite(mended.rows()["regret"]).all()
    assert run_sweep(spec_of(GRID), tmp_path, workers=1).failed == 0


def test_a_plan_that_can_not_work_is_refused_before_it_starts(tmp_path, capsys):
    data = {**BANDIT, "sweep": {"policy.slatr": [0.1, 0.2]}}
    (tmp_path / "s.toml").write_text(dumps(data))
    assert main(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "did you mean 'slater'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(SpecError, match="environment: is missing"):
        run_sweep(make_spec({"sweep": GRID}), tmp_path)
    with pytest.raises(InvalidInput, match="workers must be a whole number >= 1"):
        run_sweep(spec_of(GRID), tmp_path, workers=0)
    with pytest.raises(InvalidInput, match="address is for the engine 'ray'"):
        run_sweep(spec_of(GRID), tmp_path, address="auto")


def test_one_sweep_at_a_time_in_a_folder(tmp_path):
    with Store.open(tmp_path, ()), pytest.raises(TightropeError, match="another sweep is writing"):
        run_sweep(spec_of(GRID), tmp_path, workers=1)
    assert run_sweep(spec_of(GRID), tmp_path, workers=1).ran == 6


def test_a_damaged_part_is_named(tmp_path):
    run_sweep(spec_of(GRID), tmp_path, workers=1)
    part = next((tmp_path / "cells").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(TightropeError, match=part.name):
        run_sweep(spec_of(GRID), tmp_path, workers=1)
    part.unlink()
    assert 0 < run_sweep(spec_of(GRID), tmp_path, workers=1).ran < 6


# --- engines ---


def test_processes_give_the_same_numbers_and_survive_a_deadly_cell(tmp_path, monkeypatch):
    table = {
        "design": "random",
        "cells": 30,
        "policy.V.scale": {"low": 0.1, "high": 2.0},
        "environment.threshold": [0.1, 0.3],
    }
    run_sweep(spec_of(table), tmp_path / "one", workers=1)
    run = cells.run_cells

    def deadly(plan, batch):
        if any(cell.number == 3 for cell in batch):
            os.kill(os.getpid(), signal.SIGKILL)
        return run(plan, batch)

    monkeypatch.setattr(engines, "run_cells", deadly)
    found = run_sweep(spec_of(table), tmp_path / "two", workers=2)
    assert found.failed == 1
    (failure,) = found.failures(5)
    assert failure["number"] == 3
    assert "the worker died" in failure["error"]
    expected, came = numbers(tmp_path / "one"), numbers(tmp_path / "two")
    assert len(expected) == len(came) == 30
    assert [name for name in expected if expected[name] != came[name]] == [found.rungs[0].names[3]]


def test_the_local_engine_needs_no_ray(tmp_path):
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from tightrope.spec import make_spec\nfrom tightrope.sweep import run_sweep\n"
        f"spec = make_spec({ {**BANDIT, 'sweep': {'policy.V.scale': [1.0]}}!r})\n"
        f"assert run_sweep(spec, {str(tmp_path)!r}, workers=1).failed == 0\n"
        f"run_sweep(spec, {str(tmp_path)!r}, engine='ray')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "pip install 'tightrope[ray]'" in done.stderr.splitlines()[-1]


# --- what many cells say ---


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25))
def test_pareto_layers_by_brute_force(points):
    left = set(range(len(points)))
    expected = [0] * len(points)
    layer = 0

    def beats(p, q):
        return p != q and p[0] <= q[0] and p[1] <= q[1]

    while left:
        front = {i for i in left if not any(beats(points[j], points[i]) for j in left)}
        for i in front:
            expected[i] = layer
        left -= front
        layer += 1
    regret, violation = (np.array([p[k] for p in points], dtype=float) for k in (0, 1))
    assert pareto_layers(regret, violation).tolist() == expected


def test_explained_variance():
    rng = np.random.default_rng(0)
    a, b = rng.choice([1.0, 2.0, 3.0], 3_000), rng.random(3_000)
    noise = rng.normal(size=3_000)
    assert explained(a, 2.0 * a) == pytest.approx(1.0)
    # Two independent parts of known variance: 2/3 · 2² and 3²/12.
    y = 2.0 * a + 3.0 * b
    total = 8 / 3 + 0.75
    assert explained(a, y) == pytest.approx(8 / 3 / total, abs=0.02)
    assert explained(b, y) == pytest.approx(0.75 / total, abs=0.04)
    assert explained(a, noise) < 0.01
    assert explained(np.array(["x", "y"] * 1_500, dtype=object), noise) < 0.01
    assert np.isnan(explained(np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    group, names = levels(b)
    assert len(names) == 10
    assert np.bincount(group).tolist() == [300] * 10


def test_the_page_and_the_summary(tmp_path):
    found = run_sweep(spec_of(GRID), tmp_path, workers=1)
    told = write_page(found)
    assert told == json.loads((tmp_path / "summary.json").read_text())
    rows = {row["cell"]: row for row in stored(tmp_path)}
    points = {name: (row["regret"], row["violation"]) for name, row in rows.items()}
    front = {
        name
        for name, p in points.items()
        if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points.values())
    }
    assert {row["cell"] for row in told["front"]} == front
    clean = sorted(row["regret"] for row in rows.values() if row["violation"] == 0.0)
    assert [row["regret"] for row in told["rows"]][: len(clean)] == clean
    page = (tmp_path / "index.html").read_text()
    for words in (
        "Regret against violation",
        "What each field does",
        "Best settings",
        "policy.epsilon.scale",
    ):
        assert words in page
    assert json.loads((tmp_path / "sweep.json").read_text())["points"] == 6


def test_halving_runs_few_in_full_and_gives_them_the_same_numbers(tmp_path):
    table = {"policy.V.scale": {"low": 0.1, "high": 4.0, "steps": 9}, "policy.epsilon.scale": [0.3, 1.0, 3.0]}
    whole = run_sweep(spec_of(table), tmp_path / "whole", workers=1)
    found = run_sweep(spec_of(table), tmp_path / "halved", workers=1, halving=True)
    assert [len(rung.names) for rung in found.rungs] == [27, 9, 3]
    assert Counter(row["round"] for row in stored(tmp_path / "halved")) == {14: 27, 40: 9, 120: 3}
    assert [round(120 * f) for f in RUNGS] == [13, 40, 120]
    full = numbers(tmp_path / "whole")
    last = numbers(tmp_path / "halved")
    assert all(last[name] == full[name] for name in found.rungs[-1].names)
    # Who goes on was on a better Pareto layer, or on the same with less regret.
    rows = found.rows(0)
    layer = pareto_layers(rows["regret"], rows["violation"])
    rank = sorted(range(27), key=lambda i: (layer[i], rows["regret"][i]))
    assert sorted(found.rows(1)["number"].tolist()) == sorted(rows["number"][rank[:9]].tolist())
    assert found.ran == 39
    assert run_sweep(spec_of(table), tmp_path / "halved", workers=1, halving=True).ran == 0
    assert whole.ran == 27
    write_page(found)
    assert "Successive halving" in (tmp_path / "halved" / "index.html").read_text()


# --- tuning ---


def run_of(cost, *, rounds, optimum=1.0):
    """A result with the given cumulative costs, (runs, rounds) of one constraint, and rewards of 0.5 a round."""
    cost = np.asarray(cost, dtype=float)[:, :, None]
    R, G, _ = cost.shape
    reward = np.tile(0.5 * np.asarray(rounds, dtype=float), (R, 1))
    return Result(
        policy="p", scenario="s", rounds=rounds, reward=reward, observed_reward=reward, cost=cost, mean_cost=cost,
        counts=np.zeros((R, G, 1), dtype=np.int64), last_violation=np.zeros((R, 1), dtype=np.int64), optimum=optimum,
        optimum_interval=None, baseline="given", seed=0, actions=("a",), constraints=("k",), seconds=0.0,
    )  # fmt: skip


def test_targets_are_judged_at_every_recorded_round_after_theirs():
    run = run_of([[5.0, 2.0, -1.0, -1.0]] * 3, rounds=[10, 20, 30, 40])
    assert Target.parse("violation<=0").judge(run).met
    assert Target.parse("violation<=0 after 20").judge(run).met
    judged = Target.parse("violation <= 0 after 19").judge(run)
    assert (judged.met, judged.shortfall) == (False, 2.0)
    assert Target.parse("violation<=5 after 1 and regret<=20").judge(run).met
    assert not Target.parse("violation<=0 and regret<20").judge(run).met  # regret is 40 · (1 − 0.5), exactly
    assert Target.parse("path_violation<=1e-3 after 2_0").judge(run).met


def test_targets_count_the_high_end_of_the_interval():
    rng = np.random.default_rng(1)
    run = run_of(rng.normal(-0.2, 1.0, (20, 1)), rounds=[10])
    assert run.violation.high[-1] > 0.0
    assert not Target.parse("violation<=0").judge(run).met
    assert Target.parse("violation<=0").judge(run_of(rng.normal(-2.0, 1.0, (20, 1)), rounds=[10])).met
    with pytest.raises(InvalidInput, match="at least 2"):
        Target.parse("violation<=0").judge(run_of([[-1.0]], rounds=[10]))


def test_targets_ask_for_the_rounds_that_they_speak_of():
    target = Target.parse("violation<=0 after 500 and regret<=9")
    recorded = target.recorded(2_000)
    assert recorded[0] == 501
    assert recorded[-1] == 2_000
    assert 60 <= len(recorded) <= 101
    assert max(np.diff(recorded)) <= 40
    assert Target.parse("regret<=9").recorded(2_000) == [2_000]
    with pytest.raises(InvalidInput, match="must leave rounds to judge"):
        target.recorded(500)


@pytest.mark.parametrize(
    "text",
    ["", "violation", "violation=0", "violation>=0", "violation<=x", "violation<=nan", "violation<=0 after", "cost<=0",
     "violation<=0 after x", "violation<=0 after 1.5", "violation<=0 or regret<=1", "violation<=0 after -3"],
)  # fmt: skip
def test_bad_targets_are_refused(text):
    with pytest.raises(InvalidInput, match="target"):
        Target.parse(text)


def test_tune_takes_the_least_regret_that_meets_the_target_twice(tmp_path, capsys):
    path, out = EXAMPLES / "sweep-bandit.toml", tmp_path / "out"
    data = tomllib.loads(path.read_text())
    data["simulation"] |= {"rounds": 600, "replications": 10}
    data["sweep"] |= {"policy.reward.bonus": [0.3, 1.0], "policy.cost.bonus": [0.1, 0.3]}
    (tmp_path / "s.toml").write_text(dumps(data))
    spec = read_spec(tmp_path / "s.toml")
    assert (
        main(
            [
                "tune",
                str(tmp_path / "s.toml"),
                "--target",
                "violation<=5 after 300",
                "--out",
                str(out),
                "--json",
            ]
        )
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    rows = [row for row in stored(out) if row["seed"] == 0]
    assert len(rows) == 16
    met = sorted(row["regret"] for row in rows if row["met"])
    chosen, checked = told["rows"]
    assert chosen["regret"] == met[told["passed_over"]]
    assert checked["met"] is True
    assert checked["seed"] == 1 + told["passed_over"]
    assert checked["regret"] != chosen["regret"]
    tuned = read_spec(told["spec"])
    assert tuned.sweep == {}
    for field, value in told["settings"].items():
        part = tuned.data
        for step in field.split("."):
            part = part[step]
        assert part == value
    # Nothing else changed, and the tuned spec gives the numbers that it was chosen for.
    assert {**tuned.data, "policy": None} == {
        k: v for k, v in {**spec.data, "policy": None}.items() if k != "sweep"
    }
    env = environment_of(tuned)
    (policy,) = policies_of(tuned, env).values()
    assert engine.simulate(policy, env, 600, 10, 0, record=[600]).rows()[-1]["regret"] == chosen["regret"]


def test_tune_says_what_came_nearest(tmp_path, capsys):
    argv = [
        "tune",
        str(EXAMPLES / "sweep-bandit.toml"),
        "--target",
        "regret<=-1e9",
        "--out",
        str(tmp_path),
        "--workers",
        "1",
    ]
    data = tomllib.loads((EXAMPLES / "sweep-bandit.toml").read_text())
    data["simulation"] |= {"rounds": 50, "replications": 2}
    (tmp_path / "s.toml").write_text(dumps(data))
    argv[1] = str(tmp_path / "s.toml")
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert "none of the 36 settings meets the target" in err
    assert "the nearest, policy.reward.bonus" in err
    assert (tmp_path / "index.html").exists()
    assert not (tmp_path / "tuned.toml").exists()


def test_tune_gives_up_when_no_candidate_holds_on_fresh_seeds(tmp_path, monkeypatch):
    real = cells.simulate

    def lucky(policy, env, rounds, replications, seed, **options):
        run = real(policy, env, rounds, replications, seed, **options)
        return run if seed == 5 else run_of(np.full((replications, len(run.rounds)), 99.0), rounds=run.rounds)

    monkeypatch.setattr(cells, "simulate", lucky)
    with pytest.raises(
        TargetMissed, match="5 settings met the target violation <= 50 in the sweep, but none"
    ):
        tune(spec_of(GRID), "violation<=50", tmp_path, workers=1)
    assert sorted({row["seed"] for row in stored(tmp_path)}) == [5, 6, 7, 8, 9, 10]


def test_tune_refuses_what_is_not_the_policys_to_choose(tmp_path):
    for field in ("environment.threshold", "simulation.rounds"):
        with pytest.raises(SpecError, match="can't be tuned"):
            tune(spec_of({**GRID, field: [1, 2]}), "violation<=0", tmp_path)
    with pytest.raises(InvalidInput, match="must leave rounds"):
        tune(spec_of(GRID), "violation<=0 after 120", tmp_path)
    with pytest.raises(SpecError, match="replications: must be at least 2"):
        tune(spec_of(GRID, simulation={"rounds": 10, "replications": 1}), "violation<=0", tmp_path)


def test_tune_with_halving_leaves_rounds_to_judge(tmp_path):
    found = tune(spec_of(GRID), "violation<=60 after 60", tmp_path, workers=1, halving=True)
    rounds = Counter(row["round"] for row in stored(tmp_path) if row["seed"] == 5)
    assert rounds == {67: 6, 80: 2, 120: 1}
    assert found.checked["met"] is True


def test_a_tuned_spec_finds_its_file_from_another_folder(tmp_path):
    np.savez(tmp_path / "a.npz", weights=[1.0], rewards=[[0.5, 0.1]], costs=[[[0.1], [-0.5]]])
    (tmp_path / "s.toml").write_text(
        '[environment]\nkind="tabular"\nfile="a.npz"\n[simulation]\nrounds=20\nreplications=2\n[sweep]\n"policy.slater"=[0.1]\n'
    )
    found = tune(read_spec(tmp_path / "s.toml"), "regret<=1e9", tmp_path / "deep" / "out", workers=1)
    assert environment_of(read_spec(found.path)).rewards.tolist() == [[0.5, 0.1]]


# --- TOML ---

_scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.datetimes()
    | st.dates()
)
_values = st.recursive(
    _scalars,
    lambda one: (
        st.lists(one, max_size=4) | st.dictionaries(st.text("ab.\"'= \n#é\x7f", max_size=4), one, max_size=3)
    ),
)


@settings(max_examples=150)
@given(st.dictionaries(st.text('abc._- \\"[]é', max_size=5), _values, max_size=5))
def test_toml_is_read_back_as_it_was(data):
    assert tomllib.loads(dumps(data)) == data


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_survive_being_written(path):
    data = tomllib.loads(path.read_text())
    assert tomllib.loads(dumps(data)) == data


def test_toml_refuses_what_it_can_not_hold():
    with pytest.raises(InvalidInput, match="NoneType"):
        dumps({"a": None})


# --- surface ---


def test_commands_for_people(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(dumps({**BANDIT, "sweep": GRID}))
    assert main(["sweep", "s.toml", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "best settings" in shown
    assert "6 of 6 cells ran now" in shown
    assert main(["sweep", "s.toml", "--workers", "1"]) == 0
    assert "nothing was left to run" in capsys.readouterr().out
    assert (tmp_path / "out" / "sweep-s" / "index.html").exists()
    assert main(["tune", "s.toml", "--target", "violation<=60", "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "on fresh seeds" in shown
    assert os.path.join("out", "tune-s", "tuned.toml") in shown


def test_progress_tells_what_failed(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    spec = spec_of({"policy.slater": [0.1, 7.0]}, policy={})
    assert run_sweep(spec, tmp_path, workers=1, progress=True).failed == 1
    assert "1 failed" in capsys.readouterr().err


def test_public_names():
    assert set(sweep.__all__) <= set(dir(sweep))
