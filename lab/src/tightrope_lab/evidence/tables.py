"""Real tables as environments, each with rules of which at least three bind at the optimum.

Three come with scikit-learn (`real_tables.py`). Two are read from a folder of public data: `satimage/satimage.csv.gz` (Statlog, UCI 146) and
`coupon/in-vehicle-coupon-recommendation.csv.gz` (UCI 603), both CC BY 4.0.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import lp
from tightrope.environments import Tabular
from tightrope.environments.table import WeakEvidence, from_table
from tightrope.oracle import solve
from tightrope.rules import Capacity, Rules, Share
from tightrope_lab import real_tables

Frame: TypeAlias = dict[str, NDArray[Any]]

SATIMAGE, COUPON = "satimage/satimage.csv.gz", "coupon/in-vehicle-coupon-recommendation.csv.gz"
NEEDS = {"satimage": SATIMAGE, "coupons": COUPON}
COUPONS = ("Coffee House", "Restaurant(<20)", "Carry out & Take away", "Bar", "Restaurant(20-50)")
HABITS = ["Bar", "CoffeeHouse", "CarryAway", "RestaurantLessThan20", "Restaurant20To50"]
SITUATION = ["destination", "passanger", "weather", "temperature", "time"]
DRIVER = ["gender", "age", "maritalStatus", "has_children"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table as an environment; its optimum, what the best fixed shares earn that look at nothing, and the rules that bind."""

    env: Tabular
    rules: tuple[str, ...]
    optimum: float
    blind: float
    binding: tuple[str, ...]


def read_tables(names: tuple[str, ...], data: Path | None) -> tuple[dict[str, Table], list[str]]:
    """The tables by their names, and the names of those whose files are not in `data`."""
    found, missing = {}, []
    for name in names:
        if name in NEEDS and (data is None or not (data / NEEDS[name]).is_file()):
            missing.append(name)
        else:
            found[name] = TABLES[name](data)
    return found, missing


def satimage(data: Path | None) -> Table:
    """Soil classes from a satellite image, none named in more than a fifth of the rounds."""
    frame = _csv(data, SATIMAGE)
    bands = [f"x{i}" for i in range(1, 37)]
    frame = {name: frame[name].astype(float) for name in bands} | {"label": frame["label"]}
    classes = np.unique(frame["label"]).tolist()
    rules = Rules([Capacity(one, at_most=0.2) for one in classes], actions=classes)
    env = from_table(frame, context=bands, label="label", rules=rules, name="satimage")
    return _table(env)


def coupons(data: Path | None) -> Table:
    """Which coupon to offer to whom, when each of five kinds goes to 15 to 25 % of the drivers; acceptance is fitted to the survey."""
    frame = _csv(data, COUPON)
    frame["Y"] = frame["Y"].astype(float)
    limits = (
        [Capacity(kind, at_most=0.25) for kind in COUPONS],
        [Share(kind, at_least=0.15) for kind in COUPONS],
    )
    rules = Rules([*limits[0], *limits[1]], actions=COUPONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidence)
        env = from_table(
            frame,
            context=[*SITUATION, *DRIVER, *HABITS],
            action="coupon",
            reward="Y",
            rules=rules,
            ridge=100.0,
            name="coupons",
        )
    return _table(env)


TABLES: dict[str, Callable[[Path | None], Table]] = {
    "digits": lambda _: _table(real_tables.digits()),
    "breast-cancer": lambda _: _table(real_tables.breast_cancer()),
    "wine": lambda _: _table(real_tables.wine()),
    "satimage": satimage,
    "coupons": coupons,
}


def _csv(data: Path | None, path: str) -> Frame:
    assert data is not None
    with gzip.open(data / path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {name: np.array(column) for name, column in zip(header, zip(*rows), strict=True)}


def _table(env: Tabular) -> Table:
    best = solve(env)
    mean_rewards, mean_costs = env.weights @ env.rewards, np.einsum("c,cjk->jk", env.weights, env.costs)
    blind = lp.allocation(np.ones(1), mean_rewards[None], mean_costs[None]).value
    binding = tuple(one for one, dual in zip(env.constraints, best.duals) if dual > 1e-6)
    return Table(env, tuple(str(env.rules).splitlines()), best.value, blind, binding)
