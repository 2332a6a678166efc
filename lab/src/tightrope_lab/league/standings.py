"""The league's tables in a page of the documentation, between two markers: what the command found and nobody typed."""

from __future__ import annotations

import os
from pathlib import Path

from tightrope import templates
from tightrope.errors import InvalidInput
from tightrope.files import write
from tightrope.report import format_number
from tightrope_lab.league.ranking import (
    CENTRE,
    KNOWS_ALL,
    MOST_ABOVE,
    SOFTENING,
    League,
    Performance,
    over_runs,
    ratio_text,
)

BEGIN, END = "<!-- standings: begin -->", "<!-- standings: end -->"
_BEST = 6


def read_page(path: str | os.PathLike[str]) -> tuple[str, str]:
    """What stands before and after the tables of a page, markers included.

    Raises
    ------
    InvalidInput
        The page can't be read, or does not have each of the markers once, in order.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"page {path} can't be read: {error}") from error
    if (text.count(BEGIN), text.count(END)) != (1, 1) or text.index(BEGIN) > text.index(END):
        raise InvalidInput(f"page {path} must have the line {BEGIN} and below it the line {END}, each once.")
    return text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]


def rewrite_page(league: League, path: str | os.PathLike[str]) -> None:
    """Put the league's tables between the markers of a page; the rest of it stays."""
    before, after = read_page(path)
    write(path, f"{before}\n\n{standings(league)}\n\n{after}")


def standings(league: League) -> str:
    """The tables as markdown: the best of each scenario, and every policy over all scenarios."""
    found = templates.render(
        "tightrope_lab.league/standings.md",
        league=league,
        best=_BEST,
        centre=CENTRE,
        softening=f"{SOFTENING:.0f}",
        most_above=f"{100 * MOST_ABOVE:.0f}",
        scenarios=_scenarios(league),
        policies=_policies(league),
    )
    return found.strip()


def _scenarios(league: League) -> list[list[str]]:
    body = []
    for scenario in league.scenarios.values():
        performances = league.of(scenario.name)
        placed = [one for one in performances if league.place(one) is not None]
        shown = [one for one in performances if one in placed[:_BEST] or one.policy == CENTRE]
        label = f"`{scenario.name}`"
        for one in shown:
            body.append([label, *_performance(league, one, len(placed))])
            label = ""
        if not shown:
            body.append([label, "–", "nobody keeps the rules", *["–"] * 5])
    return body


def _performance(league: League, one: Performance, placed: int) -> list[str]:
    place, name = league.place(one), f"`{one.policy}`"
    last, above = one.result.last_violated().mean, float(one.rounds_above.mean())
    gap = league.gap(one)
    return [
        one.verdict if place is None else f"{place} of {placed}",
        f"**{name}**" if one.policy == CENTRE else name,
        str(one.result.regret.at()),
        "–" if gap is None else str(over_runs(gap[:, -1])),
        *(_number(value) for value in (above, last, one.worst_path)),
    ]


def _policies(league: League) -> list[list[str]]:
    body = []
    for row in league.scores():
        name = f"`{row['policy']}`" + (" (knows the truth)" if row["policy"] in KNOWS_ALL else "")
        ratios = [ratio_text(row[key]) for key in ("ratio", "ratio_worst")]
        where = f"`{row['worst_scenario']}`" if row["worst_scenario"] else "–"
        every = [ratio_text(row[key]) for key in ("ratio_played", "ratio_played_worst")]
        firsts = [str(row["first_or_tied"]), str(row["first"])]
        body.append([name, f"{row['kept']} of {row['played']}", *ratios, where, *every, *firsts])
    return body


def _number(value: float) -> str:
    return format_number(value, 0 if value >= 100 or value == 0 else 1)
