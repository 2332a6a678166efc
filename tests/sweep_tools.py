"""A small sweep and what it leaves on disk, for the tests of sweeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from tightrope.result import Result
from tightrope.spec import make_spec

BANDIT = {
    "name": "arms",
    "policy": {
        "kind": "pessimistic-optimistic",
        "V": {"scale": 1.0, "exponent": 0.5},
        "epsilon": {"scale": 1.0, "exponent": -0.5},
    },
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
