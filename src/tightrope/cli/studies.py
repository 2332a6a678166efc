"""`tightrope reproduce`, `compare` and `bench`: the paper's studies, the league, and how fast it all is."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tightrope.cli.app import AS_STATED, DEFAULT, Output, Runs, command
from tightrope.cli.tables import JUDGED, judged, number_text, summary_table, table


@command("tightrope reproduce mab --replications 50 --out out/mab")
def reproduce(name: str = "all", /, *, runs: Runs = AS_STATED, output: Output = DEFAULT) -> None:
    """Run the paper's studies again; figures, tables and report go to --out, by default to the folder reproduction.

    Ctrl-C keeps the studies that were finished.

    Parameters
    ----------
    name
        mab, hospital, bounds, tail, or all of them.
    """
    from tightrope import studies

    folder = output.out or Path("reproduction")
    size = {**vars(runs), "seed": runs.seed or 0}
    page = studies.reproduce(name, **size, out=folder, tell=lambda line: print(line, file=sys.stderr))
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    last = {(row["study"], row["variant"]): row for row in summary["rows"]}
    data = {**summary, "rows": list(last.values()), "page": str(page)}
    output.show(data, summary_table(data["rows"], "study", "variant"), f"the report is {page}")


@command("tightrope compare --quick --policy examples/own_policy.py:Prudent --out out/league")
def compare(
    spec: Path | None = None,
    /,
    *,
    quick: Annotated[bool, Parameter(negative=())] = False,
    policy: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    scenario: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    runs: Runs = AS_STATED,
    output: Output = DEFAULT,
) -> None:
    """Run every policy on every scenario of its setting, on the same draws, and rank them.

    A policy outside its assumptions is not run, but marked with the reasons. The page, summary.json and league.csv go to --out, by
    default to the folder league. Ctrl-C keeps what was finished.

    Parameters
    ----------
    spec
        A TOML file: its [environment] takes the place of the league's scenarios, its policies join those of the league.
    quick
        Fewer and shorter runs: 5 replications of 2,000 rounds by default, not 10 of 10,000.
    policy
        A policy of the league to run, or one of your own to join it, as module:Class or path/to/file.py:Class; may be repeated.
    scenario
        A scenario of the league; may be repeated. All by default.
    """
    from tightrope.spec import read_spec
    from tightrope.studies import league

    read = None if spec is None else read_spec(spec)
    asked = {name: value for name, value in vars(runs).items() if name != "workers"}
    size = league.size_of(read, quick=quick, **asked)
    words = ["tightrope", "compare", *([] if spec is None else [str(spec)])]
    for option, values in (("policy", policy), ("scenario", scenario), *((k, (v,)) for k, v in size.items())):
        words += [word for value in values for word in (f"--{option}", str(value))]
    found = league.compare(
        league.chosen_entries(policy, read),
        league.chosen_scenarios(scenario, read),
        **size,
        workers=runs.workers,
        tell=lambda line: print(line, file=sys.stderr),
        command=shlex.join(words),
    )
    page = league.write_page(found, output.out or Path("league"))
    rows = found.final_rows()
    data = {
        "rows": rows,
        "outside": [asdict(one) for one in found.misfits],
        "seconds": found.seconds,
        "interrupted": found.interrupted,
        "page": str(page),
    }
    ranking = _league_table(rows) if len(found.scenarios) <= 3 else _winners_table(found.overview())
    output.show(data, ranking, f"the league's page is {page}")
    if found.interrupted:
        raise KeyboardInterrupt


@command("tightrope bench online engine --out out/bench")
def bench(
    *cases: str,
    full: Annotated[bool, Parameter(negative=())] = False,
    repeats: int | None = None,
    output: Output = DEFAULT,
) -> None:
    """How fast Tightrope is here: ratios to plain NumPy loops that compute the same, on one core, with the error beside the time.

    With --out the numbers go to bench.json, the tables to bench.md, and the cost of the engine by size to scaling.png.

    Parameters
    ----------
    cases
        Which to run, such as online, hospital, catalogue, engine, start or scaling; by default all that are quick.
    full
        All of them, a catalogue of a million actions too: some minutes, and 0.5 GiB of disk.
    repeats
        How often each program runs.
    """
    from tightrope.studies import bench as benchmarks

    data = benchmarks.bench(
        cases, full=full, repeats=repeats, tell=lambda name: print(f"bench: {name}", file=sys.stderr)
    )
    folder = output.folder()
    if folder is not None:
        benchmarks.write(data, folder)
    output.show(
        data,
        *(table(title, head, rows) for title, head, rows in benchmarks.tables(data)),
        *([] if folder is None else [f"written to {folder}"]),
    )


def _league_table(rows: Sequence[dict[str, Any]]) -> Any:
    head = ("scenario", "policy", "place", *JUDGED, "µs a decision")
    order = {name: i for i, name in enumerate(dict.fromkeys(row["scenario"] for row in rows))}
    ranked = sorted(rows, key=lambda row: (order[row["scenario"]], row["place"] or len(rows), row["regret"]))
    body = [
        (
            row["scenario"],
            row["policy"],
            "–" if row["place"] is None else str(row["place"]),
            *judged(row),
            f"{row['decision_microseconds']:.0f}",
        )
        for row in ranked
    ]
    return table("", head, body)


def _winners_table(overview: Sequence[dict[str, Any]]) -> Any:
    from tightrope.studies.league import CENTRE, standing

    head = ("scenario", "best that keeps the constraints", "its regret", f"regret of {CENTRE}", "its place")
    body = [
        (
            one["scenario"],
            one["best"] or "–",
            number_text(one["regret"]),
            number_text(one["ours"]),
            standing(one),
        )
        for one in overview
    ]
    return table("", head, body)
