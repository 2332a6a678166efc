"""`docs/shadow-price.md`: what the default policy is, for whom, and what was measured. Every number is taken from the runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tightrope import templates
from tightrope.policies import ShadowPrice
from tightrope.report import NamedCurve, Panel, format_number, panels_figure
from tightrope.report.numbers import format_estimate
from tightrope_lab.evidence import held_out, sixty_seconds
from tightrope_lab.evidence.contestants import DEFAULT, PAPER
from tightrope_lab.league.ranking import SOFTENING

Data = Mapping[str, Any]

FIGURE_EXAMPLE, FIGURE_TABLES = "shadow-price-sixty-seconds.png", "shadow-price-real-data.png"


# What the page's parts are called in words.
_PARTS = {
    "example": "README's example",
    "league": "the league",
    "tables": "real tables",
    "worlds": "held-out worlds",
}


def page(data: Data, command: str) -> str:
    """The page as Markdown, of the parts that there are; its prose is `page.md`."""
    settings = inspect.signature(ShadowPrice).parameters
    explore, caution, memory = (settings[name].default for name in ("explore", "caution", "memory"))
    fill = {"example": _example, "league": _league, "tables": _tables, "worlds": _worlds}
    return templates.render(
        "tightrope_lab.evidence/page.md",
        date=data["date"],
        command=command,
        shown=[words for name, words in _PARTS.items() if name in data],
        missed=missed(data),
        **{name: fill[name](data[name]) if name in data else None for name in _PARTS},
        asked=sixty_seconds,
        held_out=held_out,
        default=DEFAULT,
        paper=PAPER,
        softening=f"{SOFTENING:.0f}",
        explore=f"{explore:g}",
        caution=f"{caution:g}",
        memory=f"{memory:,}",
    )


def missed(data: Data) -> list[str]:
    """What was asked for and not reached, in words; empty where all was."""
    found = []
    for row in data["league"]["rows"] if "league" in data else ():
        where, regret, share = row["scenario"], row["regret"], row["runs_in_violation"]
        if row["role"] == "default" and regret > row["asked"]:
            found.append(f"{where}: regret {format_number(regret)} instead of at most {row['asked']}")
        if row["role"] == "default" and share > 0:
            found.append(f"{where}: {share:.0%} of the runs end in violation")
    if "worlds" in data:
        found += _missed_held_out(held_out.summarise(data["worlds"]["rows"]))
    if "example" in data:
        found += _missed_example(data["example"]["rows"])
    return found


_CURVES = {"default": "ShadowPrice", "lagrangian": "Lagrangian, tuned"}
_CURVES |= {"paper tuned": "the paper's, tuned", "paper": "the paper's"}


def real_data_figure(data: Data) -> Any:
    """The share of the optimum by the round, a panel for each table."""
    panels = []
    for name in data["tables"]:
        curves = []
        for role, words in _CURVES.items():
            rows = [row for row in data["rows"] if (row["scenario"], row["role"]) == (name, role)]
            curves.append(NamedCurve(words, [row["round"] for row in rows], [row["share"] for row in rows]))
        fact = data["tables"][name]
        last = max(data["rounds"])
        blind = [fact["blind"] / fact["optimum"]] * 2
        curves.append(NamedCurve("choosing blindly", [20, last], blind, reference=True))
        panels.append(Panel(curves, "Round", f"Share of the optimum, {name}", logx=True))
    return panels_figure(panels, height=260.0)


def _example(data: Data) -> Data:
    rows = data["rows"]
    body = []
    for name in (DEFAULT, sixty_seconds.GUARDED, PAPER):
        mine = [row for row in rows if row["policy"] == name]
        measures = ("reward", "rounds_above", "last_violation")
        reward, above, last = (np.array([row[what] for row in mine]) for what in measures)
        earned = [f"{reward.mean():,.1f}", f"{reward.min():,.1f}"]
        rounds = [f"{above.mean():,.1f}", f"{np.median(above):,.0f}", f"{above.max():,.0f}"]
        body.append([f"`{name}`", str(len(mine)), *earned, *rounds, f"{last.max():,.0f}"])
    _embolden(body, 2, [True] * 3, highest=True)
    _embolden(body, 4, [True] * 3)
    seeds = len([row for row in rows if row["policy"] == DEFAULT])
    return {**data, "seeds": seeds, "table": body, "figure": FIGURE_EXAMPLE}


def _league(data: Data) -> Data:
    body = []
    for scenario in dict.fromkeys(row["scenario"] for row in data["rows"]):
        by_role = {row["role"]: row for row in data["rows"] if row["scenario"] == scenario}
        ours = by_role["default"]
        kept = {role: row["regret"] for role, row in by_role.items() if row["kept"]}
        best = min(kept, key=lambda role: kept[role]) if kept else None
        cells = {role: _regret(row, bold=role == best) for role, row in by_role.items()}
        ends = [f"{ours['runs_in_violation']:.0%}", _number(ours["path"]), _number(ours["last_violation"])]
        body.append([f"`{scenario}`", str(ours["asked"]), cells["default"], *ends, cells["paper"]])
    return {**data, "table": body}


def _tables(data: Data) -> Data:
    rounds = data["rounds"]
    each = []
    for name, fact in data["tables"].items():
        body, kept = [], []
        for role in ("default", "guard", "paper", "paper tuned", "lagrangian"):
            mine = (row for row in data["rows"] if (row["scenario"], row["role"]) == (name, role))
            rows = {row["round"]: row for row in mine}
            end = rows[rounds[-1]]
            kept.append(end["kept"])
            settings = "" if role in ("default", "guard", "paper") else f" ({end['settings']})"
            shares = [f"{rows[at]['share']:.3f}" for at in rounds]
            path = [_number(end["path"]), _number(end["last_violation"])]
            ends = "yes" if end["kept"] else f"misses by {_number(end['violation'])}"
            body.append([f"`{end['policy']}`{settings}", *shares, *path, ends])
        for column in range(1, 1 + len(rounds)):
            _embolden(body, column, kept, highest=True)
        each.append({**fact, "name": name, "table": body})
    return {**data, "each": each, "heads": [f"{at:,} rounds" for at in rounds], "figure": FIGURE_TABLES}


def _worlds(data: Data) -> Data:
    found = held_out.summarise(data["rows"])
    body = []
    for name, one in found["policies"].items():
        ratios = [_number(one["mean_ratio"]), _number(one["worst_ratio"])]
        path = [f"{one['runs_in_violation']:.1%}", _number(one["path_median"]), _number(one["path_mean"])]
        last = [f"{one['last_median']:,.0f}", f"{one['last_mean']:,.0f}"]
        body.append([f"`{name}`", str(one["keeps"]), *ratios, *path, *last])
    everyone = [True] * len(body)
    _embolden(body, 1, everyone, highest=True)
    for column in range(2, 9):
        _embolden(body, column, everyone)
    if "paired" not in found:
        return {**data, "found": found, "table": body, "paired": None}
    ours, theirs = (found["policies"][name] for name in (DEFAULT, held_out.PROTOTYPE))
    pair = found["paired"]
    compared = [
        ["regret, geometric mean of the ratios", f"{pair['geometric_ratio']:.3f} [{pair['geometric_ratio_low']:.3f}, {pair['geometric_ratio_high']:.3f}]", "1"],
        [f"regret, mean over the {pair['kept_by_both']} worlds that both keep", _number(pair["regret_kept"]), _number(pair["regret_kept_prototype"])],
        ["regret, mean over all worlds", _number(ours["regret_mean"]), _number(theirs["regret_mean"])],
        ["last violated round, median over worlds", f"{ours['last_median']:,.0f}", f"{theirs['last_median']:,.0f}"],
        ["last violated round, mean", f"{ours['last_mean']:,.0f}", f"{theirs['last_mean']:,.0f}"],
        ["worlds with the earlier last violation", str(pair["earlier"]), str(pair["later"])],
    ]  # fmt: skip
    return {**data, "found": found, "table": body, "paired": compared}


def _missed_held_out(found: Data) -> list[str]:
    missing: list[str] = []
    if "paired" not in found:
        return missing
    ours, theirs, pair = *(found["policies"][name] for name in (DEFAULT, held_out.PROTOTYPE)), found["paired"]
    worse = pair["kept_by_both"] and pair["regret_kept"] > pair["regret_kept_prototype"]
    if pair["geometric_ratio"] > 1 or worse:
        missing.append("held out: more regret than the prototype")
    if ours["last_median"] > theirs["last_median"] or ours["last_mean"] > theirs["last_mean"]:
        missing.append("held out: a later last violation than the prototype's")
    return missing


def _missed_example(rows: Sequence[Data]) -> list[str]:
    missing, least = [], sixty_seconds.LEAST_REWARD
    allowed = {DEFAULT: sixty_seconds.MOST_ABOVE, sixty_seconds.GUARDED: sixty_seconds.MOST_ABOVE_GUARDED}
    for name, most in allowed.items():
        mine = [row for row in rows if row["policy"] == name]
        reward, above = (float(np.mean([row[what] for row in mine])) for what in ("reward", "rounds_above"))
        if reward < least:
            missing.append(f"README's example: {name} earns {reward:,.0f} instead of {least:,}")
        if above > most:
            missing.append(f"README's example: {name} has {above:.1f} rounds above zero instead of {most}")
    return missing


def _embolden(body: list[list[str]], column: int, able: Sequence[bool], *, highest: bool = False) -> None:
    """Make the best numbers of a column bold, among the rows that are able to win."""
    values = [float(row[column].replace(",", "").replace("−", "-").rstrip("%")) if ok and row[column] != "–" else None for row, ok in zip(body, able)]  # fmt: skip
    known = [value for value in values if value is not None]
    if known:
        best = max(known) if highest else min(known)
        for row, value in zip(body, values):
            if value == best:
                row[column] = f"**{row[column]}**"


def _regret(row: Data, *, bold: bool) -> str:
    text = format_estimate(row["regret"], row["regret_low"], row["regret_high"])
    text = f"**{text}**" if bold else text
    return text if row["kept"] else f"{text}, violates"


def _number(value: float | None) -> str:
    """At most three digits after the point, fewer for what is large."""
    if value is None:
        return "–"
    return format_number(value, 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2)
