"""Cells that are known by their settings, and measure what `simulate` gives."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from sweep_tools import BANDIT, GRID, spec_of, stored
from tightrope import engine
from tightrope.environments.build import environment_of, policies_of
from tightrope.spec import make_spec, read_spec
from tightrope.sweeps import Plan, cells, sweep
from tightrope.sweeps.cells import MEASURES
from tightrope.sweeps.design import put


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
        '[environment]\nkind="tabular"\nfile="a.npz"\n[sweep]\n"policy.caution"=[1.0]\n'
    )

    def name(reward):
        np.savez(tmp_path / "a.npz", weights=[1.0], rewards=[[reward, 0.1]])
        cells._file_hash.cache_clear()
        return next(Plan.of(read_spec(tmp_path / "s.toml")).cells()).id

    assert name(0.5) == name(0.5) != name(0.6)


def test_a_row_is_what_simulate_gives(tmp_path):
    spec = spec_of(GRID)
    found = sweep(spec, tmp_path, workers=1)
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
            "policy": {"kind": "pessimistic-optimistic", "slater": 0.1},
            "environment": {"kind": "tabular", "weights": [1.0], "rewards": [[0.2, 0.8]]},
            "simulation": {"rounds": 30, "replications": 2},
            "sweep": {
                "rule[0].at_most": [0.25, 0.75],
                "simulation.rounds": [10, 30],
                "environment.rewards": [[[0.2, 0.8]], [[0.4, 0.8]]],
            },
        }
    )
    found = sweep(spec, tmp_path, workers=1)
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
    monkeypatch.setattr(cells, "_KEPT", 2)
    monkeypatch.setattr(cells, "_recent", {})
    table = {
        "policy.V.scale": {"low": 0.1, "high": 2.0, "steps": 20},
        "environment.threshold": [0.11, 0.22, 0.33],
    }
    sweep(spec_of(table), tmp_path, workers=1)
    # The ends are built beforehand, to see whether the plan makes sense; else once each, though only two are kept.
    assert sum(solved.values()) <= 4
    assert len(solved) == 3


def test_several_policies_and_one_of_them_by_place(tmp_path):
    kind = {"kind": "pessimistic-optimistic"}
    two = [{"name": "one", "slater": 0.1, **kind}, {"name": "two", "slater": 0.2, **kind}]
    found = sweep(spec_of({"policy[1].slater": [0.3, 0.4]}, policy=two), tmp_path, workers=1)
    # "one" is the same at both points, and so runs once.
    assert found.ran == 3
    assert Counter(row["policy"] for row in stored(tmp_path)) == {"one": 1, "two": 2}
    both = sweep(spec_of({"policy.slater": [0.3, 0.4]}, policy=two), tmp_path, workers=1)
    assert both.ran == 2  # those of "two" are there
    rows = both.rows()
    # Their settings are told in the words of this design, whichever ran them.
    assert rows["policy.slater"].tolist() == [0.3, 0.3, 0.4, 0.4]
    assert rows["policy"].tolist() == ["one", "two"] * 2
    assert rows["number"].tolist() == [0, 1, 2, 3]


def test_any_error_of_a_cell_is_its_own(tmp_path, monkeypatch):
    real, calls = cells.simulate, []

    def fragile(policy, *rest, **options):
        calls.append(policy)
        if len(calls) % 2 == 0:
            raise ZeroDivisionError("by chance")
        return real(policy, *rest, **options)

    monkeypatch.setattr(cells, "simulate", fragile)
    found = sweep(spec_of(GRID), tmp_path, workers=1)
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
    assert sweep(spec_of(GRID), tmp_path, workers=1).ran == 0
    mended = sweep(spec_of(GRID), tmp_path, workers=1, retry_failed=True)
    assert (mended.ran, mended.failed) == (3, 0)
    assert np.isfinite(mended.rows()["regret"]).all()
    assert sweep(spec_of(GRID), tmp_path, workers=1).failed == 0
