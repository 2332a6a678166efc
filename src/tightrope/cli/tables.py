"""Tables and numbers as commands print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

JUDGED = ("regret", "violation", "last violated round")

NO_REGRET = "regret is unknown: the environment does not say what the best policy would earn (give it `means` or `optimum`)"


def summary_table(rows: Sequence[dict[str, Any]], *labels: str) -> Any:
    """One line for each row: its labels, and the figures that every run is judged by."""
    # If the optimum is unknown, the reward takes the place of regret.
    earned = bool(rows) and all(row["regret"] is None for row in rows)
    head = (*labels, "runs", "round", *(("reward", *JUDGED[1:]) if earned else JUDGED))
    body = [
        (
            *(str(row[label]) for label in labels),
            f"{row['replications']:,}",
            f"{row['round']:,}",
            *((interval_text(row, "reward"), *judged(row)[1:]) if earned else judged(row)),
        )
        for row in rows
    ]
    return table("", head, body)


def judged(row: dict[str, Any]) -> tuple[str, str, str]:
    return interval_text(row, "regret"), interval_text(row, "violation"), number_text(row["last_violation"])


def interval_text(row: dict[str, Any], name: str) -> str:
    """An estimate of a row with its interval, where it has one."""
    from tightrope.report import format_estimate

    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if row[name] is None or low is None or high is None:
        return number_text(row[name])
    return format_estimate(row[name], low, high)


def number_text(value: float | None) -> str:
    """A number; a rounded −0 is shown as 0, and an unknown number as a dash."""
    from tightrope.report import format_number

    return "–" if value is None else format_number(0.0 if abs(value) < 1e-12 else value)


def table(title: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> Any:
    """A table for the terminal; columns of numbers are aligned right."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(body)
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(head):
        numeric = rows and all(row[i][:1] in "-–0123456789" for row in rows)
        table.add_column(Text(name), overflow="fold", justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
