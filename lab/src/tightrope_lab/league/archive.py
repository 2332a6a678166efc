"""A league on disk, exact, so that parts of it can be run apart, on several machines or one after the other, and be put together."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tightrope.errors import InvalidInput
from tightrope.files import write_json
from tightrope.result import Result
from tightrope.words import Shown
from tightrope_lab.league.entries import ROSTER, chosen_entries
from tightrope_lab.league.ranking import League, Misfit, Performance
from tightrope_lab.league.scenarios import SCENARIOS
from tightrope_lab.league.scenarios import scenario as named_scenario

RUNS = "runs"
_SIZE = ("rounds", "replications", "seed", "seconds")
_BY_RUN = ("rounds_above", "peak", "excess", "above", "microseconds")


def write_runs(league: League, folder: str | os.PathLike[str]) -> None:
    """Write all that `read_runs` needs into `folder`/runs: a file for each performance, and `league.json`."""
    target = Path(folder) / RUNS
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("*.npz"):
        old.unlink()
    performances = []
    for number, one in enumerate(league.performances):
        file = f"{number:04d}.npz"
        one.result.write(target / file)
        described: dict[str, Any] = {name: getattr(one, name).tolist() for name in _BY_RUN}
        described |= {name: getattr(one, name) for name in ("policy", "kind", "scenario", "settings")}
        performances.append({"file": file, **described})
    write_json(
        target / "league.json",
        {
            **{name: getattr(league, name) for name in _SIZE},
            "scenarios": list(league.scenarios),
            "optima": dict(league.optima),
            "performances": performances,
            "misfits": [asdict(one) for one in league.misfits],
            "left_out": dict(league.left_out),
        },
    )


def read_runs(folder: str | os.PathLike[str]) -> League:
    """The league that `compare --out folder` wrote, of the league's own scenarios.

    Raises
    ------
    InvalidInput
        There is none, it can't be read, or it was played elsewhere than in the league's scenarios.
    """
    source = Path(folder) / RUNS
    try:
        data = json.loads((source / "league.json").read_text(encoding="utf-8"))
        unknown = [name for name in data["scenarios"] if name not in SCENARIOS]
        if unknown:
            other = f"{unknown[0]!r} is the environment of a spec, not a scenario of the league"
            raise InvalidInput(f"{folder} can't be merged: {other}.")
        return League(
            scenarios={name: named_scenario(name) for name in data["scenarios"]},
            performances=tuple(_performance(source, one) for one in data["performances"]),
            misfits=msgspec.convert(data["misfits"], tuple[Misfit, ...]),
            **{name: data[name] for name in (*_SIZE, "optima", "left_out")},
        )
    except InvalidInput:
        raise
    except (OSError, KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        remedy = "give a folder that `tightrope compare --out` wrote"
        raise InvalidInput(f"{folder} can't be merged: {remedy}, but {error!r}.") from error


def merged(parts: Sequence[League]) -> League:
    """One league of several that were played alike: each policy in each scenario once.

    Raises
    ------
    InvalidInput
        The parts differ in rounds, replications or seed, have a policy in a scenario twice, or leave one out.
    """
    if not parts:
        raise InvalidInput("parts must have at least one league.")
    first = parts[0]
    for other in parts[1:]:
        for name in ("rounds", "replications", "seed"):
            both = getattr(first, name), getattr(other, name)
            if both[0] != both[1]:
                got = Shown(f"{both[0]} and {both[1]}")
                raise InvalidInput(field=name, must="be the same in all parts", got=got)
    scenarios = {name: one for part in parts for name, one in part.scenarios.items()}
    scenarios = {name: scenarios[name] for name in sorted(scenarios, key=list(SCENARIOS).index)}
    performances = [one for part in parts for one in part.performances]
    misfits = [one for part in parts for one in part.misfits]
    pairs = [(one.policy, one.scenario) for one in performances]
    pairs += [(one.policy, one.scenario) for one in misfits]
    names = dict.fromkeys(policy for policy, _ in pairs)
    order = [name for name in ROSTER if name in names] + [name for name in names if name not in ROSTER]
    wanted = [(policy, scenario) for policy in order for scenario in scenarios]
    for policy, scenario in wanted:
        if (policy, scenario) not in pairs:
            command = f"tightrope compare --policy {policy} --scenario {scenario}"
            remedy = f"run `{command}` alike, and merge its --out too"
            raise InvalidInput(f"{policy} has not been run on {scenario} in any part: {remedy}.")
        if pairs.count((policy, scenario)) > 1:
            raise InvalidInput(f"{policy} has been run on {scenario} in more than one part: leave one out.")
    places = {pair: i for i, pair in enumerate(wanted)}
    performances.sort(key=lambda one: places[one.policy, one.scenario])
    misfits.sort(key=lambda one: places[one.policy, one.scenario])
    left_out = {name: why for part in parts for name, why in part.left_out.items() if name not in scenarios}
    return replace(
        first,
        scenarios=scenarios,
        optima={name: value for part in parts for name, value in part.optima.items()},
        performances=tuple(performances),
        misfits=tuple(misfits),
        interrupted=False,
        seconds=sum(part.seconds for part in parts),
        command=_command(order, list(scenarios), first),
        left_out=left_out,
    )


def _performance(source: Path, data: dict[str, Any]) -> Performance:
    fields: dict[str, Any] = {name: data[name] for name in ("policy", "kind", "scenario", "settings")}
    fields |= {name: np.array(data[name], dtype=float) for name in _BY_RUN}
    return Performance(result=Result.read(source / data["file"]), **fields)


def _command(policies: Sequence[str], scenarios: Sequence[str], size: League) -> str:
    """What makes these numbers again."""
    words = ["tightrope", "compare"]
    if list(policies) != [entry.name for entry in chosen_entries()]:
        words += [word for name in policies for word in ("--policy", name)]
    if list(scenarios) != list(SCENARIOS):
        words += [word for name in scenarios for word in ("--scenario", name)]
    for option in ("rounds", "replications", "seed"):
        words += [f"--{option}", str(getattr(size, option))]
    return shlex.join(words)
