"""The journal of the ten-minute example (docs/start.md), served by the spec that `init` writes, judged where the truth is known."""

from __future__ import annotations

import contextlib
import importlib.util
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom

from tightrope.service.journal.entries import Decided, probabilities_of
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.evaluation import Unanswerable, judge
from tightrope.service.offline.replay import verify
from tightrope.spec import Spec, make_spec
from tightrope.starting import propose
from tightrope.starting.text import spec_text
from tightrope.tables import read_table
from workbench import Bench, read

EXAMPLES = Path(__file__).parents[3] / "examples"


@cache
def init_spec() -> tuple[dict[str, Any], tuple[str, ...]]:
    """The spec of `tightrope init --from coupons.csv --usage cents --rule "cents <= 250" --rule "none >= 0.1"`, and its actions."""
    file = EXAMPLES / "coupons.csv"
    rules = ["cents <= 250", "none >= 0.1"]
    found = propose(read_table(file), file=str(file), name="coupons", usage=["cents"], rules=rules)
    data = tomllib.loads(spec_text(found, rounds=10, replications=1, asked="tightrope init"))
    return data, tuple(data["actions"])


def spec(**policy: Any) -> Spec:
    data, _ = init_spec()
    return make_spec({**data, "policy": {**data["policy"], **policy}})


@cache
def world() -> tuple[list[dict[str, Any]], np.ndarray, np.ndarray]:
    """The customers, the chance of each to buy by action, (n, J), and what each coupon costs, (J,)."""
    found = importlib.util.spec_from_file_location("make_coupons", EXAMPLES / "make_coupons.py")
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    found.loader.exec_module(made)
    known, actions = made.rows(), init_spec()[1]
    people = [{name: one[name] for name in ("age", "visits", "member")} for one in known]
    chances = [
        [made.chance(one["age"], one["visits"], one["member"] == "yes", a) for a in actions] for one in people
    ]
    return people, np.array(chances), np.array([float(made.CENTS[a]) for a in actions])


def served(stated: Spec, customers: int, seed: int) -> Bench:
    people, chances, cents = world()
    bench, draw = Bench(stated), np.random.default_rng(seed)
    for i in range(customers):
        c = int(draw.integers(len(people)))
        a = read(bench.decide({"event_id": f"customer-{i}", "context": people[c]}))["action"]
        told = bench.learn(
            f"customer-{i}", reward=float(draw.random() < chances[c, a]), usage={"cents": cents[a]}
        )
        assert told.status == 200
    return bench


def targets() -> dict[str, tuple[dict[str, Any], np.ndarray]]:
    """What is judged: each action as likely as the others, and the best mix of actions that keeps both rules."""
    _, chances, cents = world()
    none = [-float(name == "none") for name in init_spec()[1]]
    mix = linprog(-chances.mean(axis=0), A_ub=[cents, none], b_ub=[250.0, -0.1], A_eq=[[1.0] * 4], b_eq=[1.0])
    shares = np.maximum(mix.x, 0.0)
    return {
        "uniform": ({"kind": "uniform"}, np.full(4, 0.25)),
        "the best fixed mix": ({"kind": "fixed-mix", "shares": shares.tolist()}, shares),
    }


def test_intervals_cover_the_truth_for_uniform_and_for_the_best_fixed_mix() -> None:
    """Reward and cents; what chance explains of 90 % or more passes (one in a thousand)."""
    _, chances, cents = world()
    logs, hits, widths = 14, {name: np.zeros(2) for name in targets()}, []
    for seed in range(logs):
        bench = served(spec(seed=seed), 1000, seed)
        assert bench.state()["constraints"][1]["cumulative_cost"] <= 0.0
        for name, (policy, shares) in targets().items():
            found = judge(bench.journal, make_spec({"policy": policy}), seed=seed)
            assert found.missed < 0.01
            truth = chances.mean(axis=0) @ shares, cents @ shares
            hits[name] += [e.low <= t <= e.high for e, t in zip((found.reward, found.rules[0]), truth)]
            assert 0.0 <= found.reward.low <= found.reward.estimate <= found.reward.high <= 1.0, (
                "the spec declares it"
            )
            widths.append(found.reward.high - found.reward.low)
    for name, count in hits.items():
        assert (count >= binom.ppf(1e-3, logs, 0.9)).all(), (name, count)
    assert np.median(widths) < 0.6, "they say something"


def print_coverage(rows: int, logs: int = 100) -> None:
    """The table of docs/evaluation.md: refused, worth, width, and how often reward and cents held the truth."""
    _, chances, cents = world()
    made = [served(spec(seed=seed), rows, seed) for seed in range(100, 100 + logs)]
    for name, (policy, shares) in targets().items():
        found: list[tuple[float, float, bool, bool]] = []
        for seed, bench in enumerate(made):
            with contextlib.suppress(Unanswerable):
                one = judge(bench.journal, make_spec({"policy": policy}), seed=100 + seed)
                ends = zip((one.reward, one.rules[0]), (chances.mean(axis=0) @ shares, cents @ shares))
                found.append(
                    (one.worth, one.reward.high - one.reward.low, *(e.low <= t <= e.high for e, t in ends))
                )
        worth, width, reward, usage = np.array(found, dtype=float).T
        print(name, logs - len(found), np.median(worth), np.median(width), reward.mean(), usage.mean())


def test_without_a_least_chance_the_journal_refuses_and_names_it() -> None:
    bench = served(spec(least_chance=0.0), 1000, 0)
    with pytest.raises(
        Unanswerable, match=r"had none in .* set least_chance in its \[policy\], such as 0.02"
    ):
        judge(bench.journal, make_spec({"policy": {"kind": "uniform"}}))


def test_every_action_that_the_rules_have_room_for_keeps_its_chance() -> None:
    bench = served(spec(), 200, 1)
    entries = [entry_of(row) for row in bench.journal.rows()]
    chances = np.array([probabilities_of(one, 4) for one in entries if isinstance(one, Decided)])
    assert len(chances) == 200
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-6)
    # Once there is room, all four share 0.02.
    assert (chances[100:] >= 0.02 / 4).mean() > 0.95
    assert verify(bench.journal).decisions == 200, "replayed bit for bit"
