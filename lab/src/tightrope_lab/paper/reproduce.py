"""`reproduce`: run studies, write the report, say where it is."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.files import write, write_csv
from tightrope.report import Report
from tightrope.report.glossary import glossary
from tightrope.simulation.page import told
from tightrope_lab.paper import bounds, by_shadow_price, hospital, mab, tail
from tightrope_lab.paper.runs import Runs, Size

STUDIES: dict[str, ModuleType] = {
    "mab": mab,
    "hospital": hospital,
    "bounds": bounds,
    "tail": tail,
    "shadow-price": by_shadow_price,
}


def reproduce(
    name: str = "all",
    *,
    rounds: int | None = None,
    replications: int | None = None,
    seed: int = 0,
    out: str | os.PathLike[str] = "reproduction",
    workers: int | None = None,
    progress: bool | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Path:
    """Run one study, or all, and write one report; returns the path of its page.

    `rounds` and `replications` are by default each study's own. `out` gets `index.html`, a PNG for each figure, `summary.json`,
    and `curves.csv` with one row for each run and recorded round; `tell` is called with a line whenever a run starts. Else as the
    command `tightrope reproduce`. Ctrl-C ends it, and the studies that were finished are still written.
    """
    if name != "all" and name not in STUDIES:
        raise InvalidInput(field="study", must=f"be one of {', '.join([*STUDIES, 'all'])}", got=name)
    size = Size(rounds, replications, seed, workers, progress)
    report = Report(
        "A pessimistic-optimistic algorithm, reproduced",
        subtitle="Liu, Li, Shi, Ying (NeurIPS 2021): what the paper reports, run again with intervals, and where they differ and why",
    )
    report.words(*(name for name in glossary() if name != "pareto"))
    report.section("The algorithm")
    report.text(
        "Each round a context arrives, one of J actions is chosen, a reward is earned and K costs are incurred; every cumulative cost "
        "must stay at or below 0 at every round. The algorithm adds LinUCB's optimism about rewards to a virtual queue for each "
        "constraint, tightened by ε_{t}, which weighs the costs by Q/V_{t}."
    )
    rows: list[dict[str, Any]] = []
    interrupted = False
    started = time.perf_counter()
    for study in STUDIES if name == "all" else [name]:
        runs = Runs(study, size, lambda line, study=study: tell(f"{study}: {line}"))  # type: ignore[misc]
        try:
            STUDIES[study].run(runs)
        except KeyboardInterrupt:
            interrupted = True
            break
        made, template = runs.done(), STUDIES[study].__name__.rpartition(".")[2]
        report.template(f"{__package__}/{template}.html", **made, told=told, **STUDIES[study].tell(runs))
        rows += runs.rows()
    if not rows:
        raise KeyboardInterrupt
    folder = Path(out)
    date = datetime.date.today().isoformat()
    page = report.write(folder, date=date, seed=seed)
    seconds = round(time.perf_counter() - started, 1)
    meta = {"seed": seed, "date": date, "seconds": seconds, "interrupted": interrupted}
    write(folder / "summary.json", json.dumps({**meta, "rows": rows}, allow_nan=False))
    write_csv(folder / "curves.csv", rows, newline="\r\n")
    if interrupted:
        raise KeyboardInterrupt
    return page
