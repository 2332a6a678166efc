"""Real tables as environments, each with rules of which at least three bind at the optimum.

Three come with scikit-learn. Two are read from a folder of public data: `satimage/satimage.csv.gz` (Statlog, UCI 146) and
`coupon/in-vehicle-coupon-recommendation.csv.gz` (UCI 603), both CC BY 4.0.
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope import lp
from tightrope.environments import Tabular
from tightrope.environments.table import WeakEvidence, from_table
from tightrope.oracle import solve
from tightrope.rules import Budget, Capacity, Rules, Share

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


def digits(_: Path | None = None) -> Table:
    """Handwritten digits to ten desks: five desks are short of hands, one is owed work, and reading time is limited."""
    desks = [str(i) for i in range(10)]
    minutes = [0.2, 0.9, 0.3, 0.5, 0.4, 0.6, 0.3, 0.8, 1.0, 0.7]
    rules = Rules(
        [*(Capacity(desk, at_most=0.08) for desk in ("1", "3", "8")), Share("0", at_least=0.12), Budget("minutes", at_most=0.52)],
        actions=desks,
    )  # fmt: skip
    return _labelled("digits", _bunch("digits"), rules, {"minutes": minutes})


def cancer(_: Path | None = None) -> Table:
    """Breast cancer: a biopsy, a review or a discharge, with few biopsies in all, some of small tumours, and reviews for audit."""
    frame = _bunch("breast_cancer")
    malignant = frame["label"] == "0"
    # What a decision is worth, by the diagnosis.
    worth = {"discharge": (0.0, 1.0), "review": (0.6, 0.7), "biopsy": (1.0, 0.3)}
    columns = [column for column in frame if column != "label"]
    frame |= {action: np.where(malignant, *values) for action, values in worth.items()}
    frame["tumour"] = np.where(frame["mean area"] < np.median(frame["mean area"]), "small", "large")
    rules = Rules(
        [
            Capacity("biopsy", at_most=0.3),
            Share("biopsy", at_least=0.1, among="small"),
            Share("review", at_least=0.15),
        ],
        actions=list(worth),
    )
    reward = {action: action for action in worth}
    env = from_table(frame, context=columns, reward=reward, rules=rules, group="tumour", name="cancer")
    return _table(env, rules)


def wine(_: Path | None = None) -> Table:
    """Wines of three growers to three shelves: one takes few strong wines, one few light ones, one few of any."""
    frame = _bunch("wine")
    frame["strength"] = np.where(frame["alcohol"] > 13.0, "strong", "light")
    columns = [column for column in frame if column not in ("label", "strength")]
    rules = Rules(
        [
            Capacity("0", at_most=0.45, among="strong"),
            Capacity("1", at_most=0.6, among="light"),
            Capacity("2", at_most=0.22),
        ],
        actions=["0", "1", "2"],
    )
    env = from_table(frame, context=columns, label="label", rules=rules, group="strength", name="wine")
    return _table(env, rules)


def satimage(data: Path | None) -> Table:
    """Soil classes from a satellite image, none named in more than a fifth of the rounds."""
    frame = _csv(data, SATIMAGE)
    bands = [f"x{i}" for i in range(1, 37)]
    frame = {name: frame[name].astype(float) for name in bands} | {"label": frame["label"]}
    classes = np.unique(frame["label"]).tolist()
    rules = Rules([Capacity(one, at_most=0.2) for one in classes], actions=classes)
    return _labelled("satimage", frame, rules, {})


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
    return _table(env, rules)


TABLES: dict[str, Callable[[Path | None], Table]] = {
    "digits": digits,
    "cancer": cancer,
    "wine": wine,
    "satimage": satimage,
    "coupons": coupons,
}


def _bunch(name: str) -> Frame:
    """A data set of scikit-learn: its columns by name, and the label as a string."""
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    columns = {str(column): found.data[:, i] for i, column in enumerate(found.feature_names)}
    return columns | {"label": found.target.astype(str)}


def _csv(data: Path | None, path: str) -> Frame:
    assert data is not None
    with gzip.open(data / path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {name: np.array(column) for name, column in zip(header, zip(*rows), strict=True)}


def _labelled(name: str, frame: Frame, rules: Rules, usage: Mapping[str, Sequence[float]]) -> Table:
    """Reward 1 for the right label, nothing fitted."""
    columns = [column for column in frame if column != "label"]
    cost = {what: dict(zip(rules.actions, used)) for what, used in usage.items()}
    return _table(from_table(frame, context=columns, label="label", cost=cost, rules=rules, name=name), rules)


def _table(env: Tabular, rules: Rules) -> Table:
    best = solve(env)
    mean_rewards, mean_costs = env.weights @ env.rewards, np.einsum("c,cjk->jk", env.weights, env.costs)
    blind = lp.allocation(np.ones(1), mean_rewards[None], mean_costs[None]).value
    binding = tuple(one for one, dual in zip(env.constraints, best.duals) if dual > 1e-6)
    return Table(env, tuple(str(rules).splitlines()), best.value, blind, binding)
