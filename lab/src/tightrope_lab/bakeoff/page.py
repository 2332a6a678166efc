"""The bake-off's files: the page with its tables, the picture, and a CSV of the means."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tightrope import templates
from tightrope.files import write, write_csv
from tightrope.report import NamedCurve, Panel, panels_figure, save_figure
from tightrope_lab.bakeoff.players import OURS, PLAYERS
from tightrope_lab.bakeoff.results import WHOLE, Results
from tightrope_lab.bakeoff.runs import Part
from tightrope_lab.bakeoff.statistics import LEVEL, Comparison
from tightrope_lab.bakeoff.tables import HALVES, SOURCES, Half
from tightrope_lab.league.standings import BEGIN, END, read_page

FIGURE = "bakeoff.png"
_EMPTY = f"# The bake-off\n\n{BEGIN}\n{END}\n"
_PARTS: dict[Part, str] = {"plain": "without rules", "rules": "with three rules"}
_EARNED: dict[Part, str] = {"plain": "Mean reward so far", "rules": "Share of the optimum so far"}


def write_files(
    results: Results,
    folder: Path,
    *,
    page: str | os.PathLike[str] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Path:
    """Write `bakeoff.csv`, the page and the picture; returns the page's path.

    By default the page is `bakeoff.md` in the folder. A page of your own must have the two markers, between which the tables go; the
    picture goes to the folder `figures` beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "bakeoff.csv", results.summary())
    target = folder / "bakeoff.md" if page is None else Path(page)
    if page is None:
        write(target, _EMPTY)
    before, after = read_page(target)
    pictured = any(results.halves(part) for part in results.parts())
    if pictured:
        save_figure(figure(results), target.parent / "figures" / FIGURE)
    write(target, f"{before}\n\n{standings(results, missing or {}, pictured=pictured)}\n\n{after}")
    return target


def standings(results: Results, missing: Mapping[str, str], *, pictured: bool) -> str:
    """The tables as Markdown."""
    parts = [
        {
            "name": part,
            "words": _PARTS[part],
            "halves": [_half(results, part, of) for of in results.halves(part)],
            "unfinished": [table for of in HALVES for table in results.unfinished(part, of)],
        }
        for part in results.parts()
    ]
    entered = dict.fromkeys(player for part in results.parts() for player in results.players(part))
    longest = max((row["rounds"] for row in results.rows), default=0)
    found = templates.render(
        "tightrope_lab.bakeoff/standings.md",
        results=results,
        longest=longest,
        runs=len(results.rows),
        tables=len({row["table"] for row in results.rows}),
        seeds=len(results.seeds),
        command=command(results),
        parts=parts,
        of_tables=len(SOURCES),
        of_players=len(PLAYERS),
        players=[[f"`{name}`", PLAYERS[name].words] for name in entered],
        figure=f"figures/{FIGURE}" if pictured else None,
        missing=missing,
        level=f"{LEVEL:.0%}".replace("%", " %"),
    )
    return found.strip()


def command(results: Results) -> str:
    """The command that makes these runs, for all tables and players."""
    return shlex.join(
        ["tightrope", "bakeoff", "--seeds", str(len(results.seeds)), "--limit", str(results.limit)]
    )


def figure(results: Results) -> Any:
    """Means by the round, a panel for each part and half: ours, and the setting of each other library that did best on the tuning half.

    All points of a panel are means over the same tables.
    """
    panels = []
    for part in results.parts():
        for of in results.halves(part):
            last = results.common_rounds(part, of)
            standing = {one.player: one.means for one in results.standings(part, of, last)}
            marks = {
                mark: int(mark)
                for mark in results.marks(part, of, last)
                if mark != WHOLE and int(mark) <= last
            }
            marks = marks or {WHOLE: 1}
            curves = [
                NamedCurve(player, list(marks.values()), [standing[player][mark] for mark in marks])
                for player in _shown(results, part)
            ]
            panels.append(Panel(curves, "Round", f"{_EARNED[part]}, {_PARTS[part]}, {of} half", logx=True))
    return panels_figure(panels, height=320.0)


def _shown(results: Results, part: Part) -> list[str]:
    """The players of the picture: ours, then one for each other library, then the plainest rival, as many as there are colours."""
    found = results.representatives(part)
    families = *OURS, "vw", "contextualbandits", "numpy" if part == "plain" else "lagrangian"
    return [found[family] for family in families if family in found] or list(found.values())


def _half(results: Results, part: Part, of: Half) -> dict[str, Any]:
    marks = results.marks(part, of)
    standing = results.standings(part, of)
    chosen = set(results.representatives(part).values())
    best = {mark: max(f"{one.means[mark]:.3f}" for one in standing) for mark in marks}
    body = []
    for one in standing:
        means = [f"{one.means[mark]:.3f}" for mark in marks]
        cells = [
            f"**{mean}**" if mean == best[mark] else mean for mark, mean in zip(marks, means, strict=True)
        ]
        name = f"`{one.player}`" + ("" if one.player in chosen else " °")
        kept = [] if one.above is None else [f"{one.above:,.1f}", f"{one.ends_above:.1%}".replace("%", " %")]
        body.append([name, *cells, *kept])
    head = ["player", *(f"{int(mark):,}" if mark != WHOLE else "whole table" for mark in marks)]
    counts = ["*tables*", *(f"*{n}*" for n in marks.values())]
    if part == "rules":
        head, counts = [*head, "rounds above zero", "runs that end above"], [*counts, "", ""]
    compared = results.comparisons(part, of)
    return {
        "name": of,
        "head": head,
        "body": [*body, counts],
        "tables": len(results.tables(part, of)),
        "against": _against(compared),
        "lost": _lost(compared),
    }


def _against(compared: Mapping[tuple[str, str], Comparison]) -> dict[str, Any] | None:
    """Wins and losses of ours (rows) against others (columns)."""
    if not compared:
        return None
    ours, others = (list(dict.fromkeys(pair[i] for pair in compared)) for i in (0, 1))
    cells = {pair: f"{len(one.wins)} / {len(one.losses)}" for pair, one in compared.items()}
    return {
        "head": ["", *(f"`{other}`" for other in others)],
        "body": [[f"`{one}`", *(cells[one, other] for other in others)] for one in ours],
    }


def _lost(compared: Mapping[tuple[str, str], Comparison]) -> Sequence[str]:
    """The tables that ours lose, in words."""
    return [
        f"`{one}` loses to `{other}` on {', '.join(found.losses)}"
        for (one, other), found in compared.items()
        if found.losses
    ]
