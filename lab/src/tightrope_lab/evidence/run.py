"""`evidence`: run the parts, keep what each found in its own file, write the page, the figures and `summary.json`."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.files import write, write_json
from tightrope.progress import progress_bar
from tightrope.report import save_figure
from tightrope.validation import whole_number
from tightrope_lab.evidence import held_out, league, real_data, sixty_seconds
from tightrope_lab.evidence import page as pages
from tightrope_lab.evidence.size import FULL, QUICK

PARTS: dict[str, ModuleType] = {
    "example": sixty_seconds,
    "league": league,
    "tables": real_data,
    "worlds": held_out,
}
PAGE = "shadow-price.md"


def evidence(
    parts: Sequence[str] = tuple(PARTS),
    *,
    out: str | os.PathLike[str] = "evidence",
    page: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    quick: bool = False,
    seed: int = 0,
    workers: int | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Path:
    """Measure what the page about `ShadowPrice` says, and write it; returns the path of the page.

    As the command `tightrope evidence`; `progress` is as in `tightrope.simulate`, and `tell` is called with a line whenever a part
    is done. What `out` has of parts that are not run is shown with the others.
    """
    for part in parts:
        if part not in PARTS:
            raise InvalidInput(field="parts", must=f"be among {', '.join(PARTS)}", got=part)
    size = replace(
        QUICK if quick else FULL,
        seed=whole_number("seed", seed),
        workers=(os.cpu_count() or 1) if workers is None else whole_number("workers", workers, low=1),
        data=None if data is None else Path(data),
    )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for part, module in PARTS.items():
        if part in parts:
            started = time.perf_counter()
            with progress_bar(part, size.steps[part], "steps", progress) as advance:
                found = module.run(size, advance)
            seconds = round(time.perf_counter() - started, 1)
            write_json(folder / f"{part}.json", {**found, "seconds": seconds, "quick": quick})
            tell(f"{part}: {seconds:.0f} s")
    return write_page(folder, folder / PAGE if page is None else Path(page))


def write_page(folder: Path, path: Path) -> Path:
    """The page, its figures and `summary.json`, of the parts that the folder has."""
    kept = {part: folder / f"{part}.json" for part in PARTS}
    data: dict[str, Any] = {
        part: json.loads(file.read_text(encoding="utf-8")) for part, file in kept.items() if file.is_file()
    }
    seconds = sum(one["seconds"] for one in data.values())
    meta = {"date": datetime.date.today().isoformat(), "seconds": seconds}
    quick = " --quick" if any(part["quick"] for part in data.values()) else ""
    command = f"tightrope evidence --page docs/shadow-price.md{quick}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if "example" in data:
        save_figure(sixty_seconds.figure(data["example"]), path.parent / "figures" / pages.FIGURE_EXAMPLE)
    if "tables" in data and data["tables"]["tables"]:
        save_figure(pages.real_data_figure(data["tables"]), path.parent / "figures" / pages.FIGURE_TABLES)
    write(path, pages.page({**data, **meta}, command))
    rows = [row for part in data.values() for row in part["rows"]]
    summary = {**meta, "command": command, "missed": pages.missed(data), "rows": rows}
    if "worlds" in data:
        summary["held_out"] = held_out.summarise(data["worlds"]["rows"])
    write_json(folder / "summary.json", summary)
    return path
