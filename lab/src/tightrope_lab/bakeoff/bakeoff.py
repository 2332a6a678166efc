"""`bakeoff`: run what is missing, then write the page of all that there is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tightrope.errors import InvalidInput
from tightrope.files import write
from tightrope.validation import whole_number
from tightrope_lab.bakeoff import page as pages
from tightrope_lab.bakeoff import players as entries
from tightrope_lab.bakeoff import tables as sources
from tightrope_lab.bakeoff.packages import default_cache
from tightrope_lab.bakeoff.results import Results
from tightrope_lab.bakeoff.runs import FILE, PARTS, jobs, read_rows, run
from tightrope_lab.league.standings import read_page


@dataclass(frozen=True, eq=False)
class Finished:
    """What a bake-off found, where its page is, and which libraries could not be installed."""

    results: Results
    page: Path
    missing: Mapping[str, str]


def bakeoff(
    *,
    out: str | os.PathLike[str],
    tables: Sequence[str] = (),
    players: Sequence[str] = (),
    parts: Sequence[str] = (),
    seeds: int = 5,
    limit: int = 5_000,
    workers: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    page: str | os.PathLike[str] | None = None,
    merge: Sequence[str | os.PathLike[str]] = (),
    progress: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Finished:
    """As the command `tightrope bakeoff`; `progress` is as in `tightrope.simulate`, and `tell` is called with a line of news."""
    folder = Path(out)
    if page is not None:
        read_page(page)  # A page without markers is refused now, not after the runs.
    if merge:
        rows = [row for one in merge for row in read_rows(Path(one))]
        found, missing = Results.of(rows), dict[str, str]()
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / FILE, "".join(json.dumps(row) + "\n" for row in rows))
    else:
        for part in parts:
            if part not in PARTS:
                raise InvalidInput(field="parts", must=f"be among {', '.join(PARTS)}", got=part)
        wanted = jobs(
            [part for part in PARTS if not parts or part in parts],
            sources.chosen(tables),
            entries.chosen(players),
            whole_number("seeds", seeds, low=1),
            whole_number("limit", limit, low=1),
        )
        cores = (os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1)
        kept = default_cache() if cache is None else Path(cache)
        missing = run(wanted, folder, kept, workers=cores, progress=progress, tell=tell)
        found = Results.of(read_rows(folder), limit)
    return Finished(found, pages.write_files(found, folder, page=page, missing=missing), missing)
