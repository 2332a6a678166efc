"""`tightrope allocate`: an action for each row of a table."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tightrope.cli.app import Flag, command
from tightrope.cli.tables import number_text, table

_GIB = 2.0**30


@command("tightrope allocate examples/tonight.toml --in examples/tonight.csv --out out/tonight")
def allocate(
    spec: Path,
    /,
    *,
    rows: Annotated[Path, Parameter(name="--in")],
    out: Path,
    start: Path | None = None,
    memory: float = 4.0,
    workers: int | None = None,
    json: Flag = False,
) -> None:
    """Choose an action for each row of a table, so that the table as a whole keeps the rules and earns as much as it can.

    The actions, the rows that could not be used, prices, summary.json and a page with pictures go to --out, which is complete or
    not there at all. The same input gives the same actions.

    Parameters
    ----------
    spec
        A TOML file with actions, rules and an [allocate] that says what the columns are.
    rows
        A Parquet, CSV or Arrow file, or a folder of them.
    out
        The folder for the result; one that an earlier allocation wrote is replaced.
    start
        The folder of an earlier run, or its prices.json: its prices save passes over the rows.
    memory
        GiB that the table may take; a larger one lies in files that are mapped into memory.
    workers
        Cores to use; all by default.
    json
        One JSON object on standard output, and nothing else there.
    """
    from tightrope.allocation.bulk import Bulk, read_prices, replacing_folder, summary_of
    from tightrope.allocation.files import TableFiles
    from tightrope.allocation.settings import task_of
    from tightrope.cli.app import Output
    from tightrope.spec import read_spec
    from tightrope.validation import finite_number

    read = read_spec(spec)
    bulk = Bulk(task_of(read), TableFiles(rows), read.name)
    prices = None if start is None else read_prices(start)
    limit = _GIB * finite_number("memory", memory, low=0.0, open_low=True)
    with replacing_folder(out) as draft:
        with tempfile.TemporaryDirectory(dir=draft) as scratch:
            plan = bulk.task.plan(bulk.read(limit, Path(scratch)), start=prices, workers=workers)
        bulk.write(plan, draft)
    said: list[Any] = []
    if plan.set_apart:
        said.append(f"{len(plan.set_apart):,} rows were set apart: see {out / 'set-apart.csv'}")
    facts = [
        ("rows", f"{len(plan.actions):,}"),
        ("the plan earns", f"{plan.value:.6g}"),
        ("at most below the best", f"{plan.gap:.1e}"),
    ]
    head = ("limit", "at", "used", "left", "price")
    body = [
        (one["limit"], *(number_text(one[name]) for name in ("at", "used", "left", "price")))
        for one in plan.shown()
    ]
    Output(json=json).show(
        {**summary_of(read.name, plan), "out": str(out)},
        table("", ("", read.name), facts),
        table("limits", head, body),
        *said,
        f"the page is {out / 'index.html'}",
    )
