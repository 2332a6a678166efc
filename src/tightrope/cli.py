"""The command `tightrope`: parse, call, print; nothing else.

A command is a function under `@_command("an example of it")`. It imports what it needs when it runs, hands tables for people and
data for machines to its `Output`, and returns nothing. Errors that the package raises on purpose become
messages in `main`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from cyclopts import App, CycloptsError, Parameter

from tightrope import __version__
from tightrope.errors import InfeasibleProblem, InvalidInput, TightropeError

if TYPE_CHECKING:
    from tightrope.result import Result
    from tightrope.spec import Spec

__all__ = ["app", "main"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = App(
    name="tightrope",
    help="Learn to decide under rules that must hold at all times.",
    help_format="markdown",
    help_epilogue=(
        "`tightrope COMMAND --help` tells more of a command, with an example.\n\n"
        "Exit status: 0; 1 when something failed; 2 for bad usage or a bad spec; 130 after Ctrl-C."
    ),
    version=__version__,
    version_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 (failed), 2 (bad usage or bad spec) or 130 (Ctrl-C).

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the process.

    Examples
    --------
    >>> main(["oracle", "no-such-file.toml"])
    2
    """
    tokens = sys.argv[1:] if argv is None else list(argv)
    try:
        app(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(f"{_plain(error)}\nTry `tightrope --help`.", BAD_INPUT)
    except (InvalidInput, InfeasibleProblem) as error:
        return _complain(str(error), BAD_INPUT)
    except (TightropeError, ModuleNotFoundError) as error:
        return _complain(str(error), FAILED)
    except BrokenPipeError:
        # The reader has left, as `| head` does; without this Python complains once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    return OK


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Where a command's results go."""

    json: Annotated[bool, Parameter(negative=())] = False
    "One JSON object on standard output, and nothing else there."

    out: Path | None = None
    "Folder for everything that the command produces; made if it is not there."

    def folder(self) -> Path | None:
        """The folder, made, or None."""
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        return self.out

    def show(self, data: Any, *parts: Any) -> None:
        """Print `data` for machines, or `parts` (texts and tables) for people."""
        if self.json:
            print(json.dumps(data, allow_nan=False, ensure_ascii=False))
            return
        from rich.console import Console

        # A file or a pipe has no width: tables are then as wide as they need to be.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 250)
        for part in parts:
            console.print(part, markup=False, soft_wrap=isinstance(part, str))


_DEFAULT = Output()


@Parameter(name="*")
@dataclass(frozen=True)
class Engine:
    """Where the cells of a sweep run."""

    engine: Literal["local", "ray", "gpu"] = "local"
    "The cores of this machine, a Ray cluster, or a GPU with many settings in one launch."

    address: str | None = None
    "Of the Ray cluster, such as 10.0.0.5:6379, or auto for the one that this machine belongs to; one is started by default."

    workers: int | None = None
    "Cores to use; all by default."


_LOCAL = Engine()


def _command(example: str, *, of: App = app, name: str | None = None) -> Callable[[_Function], _Function]:
    """Decorator: make a function a command, with an example below its help."""

    def add(function: _Function) -> _Function:
        of.command(function, name=name, help_epilogue=f"Example: `{example}`")
        return function

    return add


@_command("tightrope oracle examples/hospital.toml")
def oracle(
    spec: Path,
    /,
    *,
    baseline: Literal["auto", "fluid", "joint"] = "auto",
    output: Output = _DEFAULT,
) -> None:
    """What the best policy that knows all means earns: value, Slater's constant, binding rules, shares of the actions.

    Also says which of the algorithm's assumptions hold.

    Parameters
    ----------
    spec
        A TOML file with an [environment].
    baseline
        The program: on mean costs, on the joint law of context and costs, or whichever is right for the environment.
    """
    from tightrope.environments.build import environment_of
    from tightrope.oracle import check, solve

    read = _read(spec)
    env = environment_of(read)
    found = solve(env, baseline=baseline)
    m, horizon = _bounds(read)
    assumptions = check(env, m=m, horizon=horizon)
    weights = env.weights if found.atoms is None else found.atoms.weights
    shares = dict(zip(env.actions, (weights @ found.policy).tolist(), strict=True))
    constraints: list[dict[str, Any]] = [
        {"name": name, "slack": float(slack), "dual": float(dual), "binding": bool(binding)}
        for name, slack, dual, binding in zip(
            found.constraints, found.slack, found.duals, found.binding, strict=True
        )
    ]
    proof = found.certificate
    data = {
        "name": read.name,
        "environment": env.name,
        "value": found.value,
        "interval": list(found.interval),
        "baseline": found.baseline,
        "slater": found.slater,
        "constraints": constraints,
        "shares": shares,
        "certificate": {
            "verified": proof.verified,
            "bound": proof.bound,
            "gap": proof.gap,
            "primal_residual": proof.primal_residual,
            "dual_residual": proof.dual_residual,
        },
        "assumptions": {
            "hold": assumptions.holds,
            "m": assumptions.m,
            "tau_prime": assumptions.tau_prime,
            "items": [
                {"statement": item.statement, "measured": item.measured, "holds": item.holds}
                for item in assumptions.items
            ],
        },
    }
    folder = output.folder()
    if folder is not None:
        _write(folder / "oracle.json", data)
    facts = [
        ("value per round", f"{found.value:.6g}"),
        ("baseline", found.baseline),
        ("Slater's constant", f"{found.slater:.6g}"),
        (
            "τ', first round with ε ≤ δ/2",
            "–" if assumptions.tau_prime is None else f"{assumptions.tau_prime:,}",
        ),
        ("certificate", f"{'verified' if proof.verified else 'NOT VERIFIED'}, gap {max(0.0, proof.gap):.1e}"),
    ]
    if found.baseline == "joint-sampled":
        facts.insert(1, ("95 % interval", f"{found.interval[0]:.6g} to {found.interval[1]:.6g}"))
    rows = [
        (one["name"], _number(one["slack"]), _number(one["dual"]), "yes" if one["binding"] else "no")
        for one in constraints
    ]
    output.show(
        data,
        _table("", ("", read.name), facts),
        *([_table("constraints", ("name", "slack", "dual", "binding"), rows)] if rows else []),
        _table(
            "best shares", ("action", "share"), [(name, f"{share:.4f}") for name, share in shares.items()]
        ),
        _table(
            "assumptions",
            ("must hold", "measured", "holds"),
            [(item.statement, item.measured, "yes" if item.holds else "NO") for item in assumptions.items],
        ),
        *([] if folder is None else [f"written to {folder / 'oracle.json'}"]),
    )


@_command("tightrope simulate examples/fair-jobs.toml --rounds 5000 --out out/jobs")
def simulate(
    spec: Path,
    /,
    *,
    rounds: int | None = None,
    replications: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    engine: Literal["cpu", "gpu", "gpu-double"] = "cpu",
    output: Output = _DEFAULT,
) -> None:
    """Run the policies of a spec in its environment, many times, on all cores or on a GPU.

    Every policy sees the same draws. Ctrl-C keeps the replications that were finished.

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [policy], or several as [[policy]].
    rounds
        Decisions in each replication; by default what the spec says.
    replications
        Independent runs of each policy; by default what the spec says.
    seed
        Same seed, same numbers; by default what the spec says.
    workers
        Cores to use; all by default.
    engine
        Where to run; gpu keeps estimates in float32, gpu-double makes the choices of cpu.
    """
    from tightrope import engine as engines
    from tightrope.environments.build import environment_of, policies_of
    from tightrope.oracle import solve

    read = _read(spec)
    env = environment_of(read)
    policies = policies_of(read, env, {"x": lambda: solve(env, baseline="fluid").policy})
    plan = read.simulation
    folder = output.folder()
    folders = _folders(folder, policies)
    results: list[Result] = []
    interrupted = False
    for name, policy in policies.items():
        try:
            result = engines.simulate(
                policy,
                env,
                rounds=plan.rounds if rounds is None else rounds,
                replications=plan.replications if replications is None else replications,
                seed=plan.seed if seed is None else seed,
                engine=engine,
                workers=workers,
                name=name,
            )
        except KeyboardInterrupt:
            interrupted = True
            break
        results.append(result)
        if folders:
            result.save(folders[name])
            result.plot(folders[name] / "figure.svg")
        if result.interrupted:
            interrupted = True
            break
    if results:
        _report(results, folder, output)
    if interrupted:
        raise KeyboardInterrupt


@_command("tightrope reproduce mab --replications 50 --out out/mab")
def reproduce(
    name: str = "all",
    /,
    *,
    rounds: int | None = None,
    replications: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    output: Output = _DEFAULT,
) -> None:
    """Run the paper's studies again; figures, tables and report go to --out, by default to the folder reproduction.

    Ctrl-C keeps the studies that were finished.

    Parameters
    ----------
    name
        mab, hospital, bounds, tail, or all of them.
    rounds
        Decisions in each replication; by default the study's own.
    replications
        Independent runs; by default the study's own.
    seed
        Same seed, same numbers.
    workers
        Cores to use; all by default.
    """
    from tightrope import studies

    folder = output.out or Path("reproduction")
    page = studies.reproduce(
        name,
        rounds=rounds,
        replications=replications,
        seed=seed,
        out=folder,
        workers=workers,
        tell=lambda line: print(line, file=sys.stderr),
    )
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    last = {(row["study"], row["variant"]): row for row in summary["rows"]}
    data = {**summary, "rows": list(last.values()), "page": str(page)}
    output.show(data, _summary_table(data["rows"], "study", "variant"), f"the report is {page}")


@_command("tightrope compare --quick --policy examples/own_policy.py:Prudent --out out/league")
def compare(
    spec: Path | None = None,
    /,
    *,
    quick: Annotated[bool, Parameter(negative=())] = False,
    policy: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    scenario: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    rounds: int | None = None,
    replications: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    output: Output = _DEFAULT,
) -> None:
    """Run every policy on every scenario of its setting, on the same draws, and rank them.

    A policy outside its assumptions is not run, but marked with the reasons. The page, summary.json and league.csv go to --out, by
    default to the folder league. Ctrl-C keeps what was finished.

    Parameters
    ----------
    spec
        A TOML file: its [environment] takes the place of the league's scenarios, its policies join those of the league.
    quick
        Fewer and shorter runs.
    policy
        A policy of the league to run, or one of your own to join it, as module:Class or path/to/file.py:Class; may be repeated.
    scenario
        A scenario of the league; may be repeated. All by default.
    rounds
        Decisions in each replication; by default 10,000, and 2,000 with --quick.
    replications
        Independent runs of each policy; by default 10, and 5 with --quick.
    seed
        Same seed, same numbers.
    workers
        Cores to use; all by default.
    """
    from tightrope.environments.build import environment_of
    from tightrope.environments.scenarios import Scenario
    from tightrope.studies import league

    read = None if spec is None else _read(spec)
    grounds: list[str | Scenario] = list(scenario)
    if read is not None and read.environment is not None:
        grounds.append(Scenario(environment_of(read), f"The environment of {read.name}."))
    stated = {} if read is None or quick else read.data.get("simulation", {})
    usual = {
        "rounds": league.QUICK_ROUNDS if quick else league.ROUNDS,
        "replications": league.QUICK_REPLICATIONS if quick else league.REPLICATIONS,
        "seed": 0,
    }
    asked = {"rounds": rounds, "replications": replications, "seed": seed}
    size = {**usual, **stated, **{name: value for name, value in asked.items() if value is not None}}
    words = ["tightrope", "compare", *([] if spec is None else [str(spec)])]
    for option, values in (("policy", policy), ("scenario", scenario), *((k, (v,)) for k, v in size.items())):
        words += [word for value in values for word in (f"--{option}", str(value))]
    found = league.compare(
        league.chosen_entries(policy, read),
        grounds or None,
        **size,
        workers=workers,
        tell=lambda line: print(line, file=sys.stderr),
        command=shlex.join(words),
    )
    page = found.write(output.out or Path("league"))
    rows = found.final_rows()
    data = {
        "rows": rows,
        "outside": [asdict(one) for one in found.misfits],
        "seconds": found.seconds,
        "interrupted": found.interrupted,
        "page": str(page),
    }
    table = _league_table(rows) if len(found.scenarios) <= 3 else _winners_table(found.overview())
    output.show(data, table, f"the league's page is {page}")
    if found.interrupted:
        raise KeyboardInterrupt


@_command("tightrope sweep examples/sweep-hospital.toml --out out/sweep")
def sweep(
    spec: Path,
    /,
    *,
    halving: Annotated[bool, Parameter(negative=())] = False,
    retry_failed: Annotated[bool, Parameter(negative=())] = False,
    where: Engine = _LOCAL,
    output: Output = _DEFAULT,
) -> None:
    """Simulate many settings of a spec: those that its [sweep] names. Any engine and number of workers gives the same numbers.

    Results go to --out as they finish, by default to out/sweep-NAME. The same command goes on where it was stopped.

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [sweep].
    halving
        Few rounds for all settings first; only the best third goes on, twice.
    retry_failed
        Run cells again that failed before.
    """
    from tightrope.sweep import run_sweep, write_page

    read = _read(spec)
    folder = output.out or Path("out", f"sweep-{spec.stem}")
    with _kept():
        found = run_sweep(
            read,
            folder,
            engine=where.engine,
            workers=where.workers,
            address=where.address,
            halving=halving,
            retry_failed=retry_failed,
        )
    data = write_page(found)
    ran = f"{found.ran:,} of {data['cells']:,} cells ran now" if found.ran else "nothing was left to run"
    output.show(
        data,
        *([_settings_table(data["rows"], found.plan.design.paths)] if data["rows"] else []),
        f"{ran}; the report is {folder / 'index.html'}",
    )
    _fail_if_any(data)


@_command('tightrope tune examples/sweep-hospital.toml --target "violation<=0 after 500"')
def tune(
    spec: Path,
    /,
    *,
    target: str,
    halving: Annotated[bool, Parameter(negative=())] = False,
    where: Engine = _LOCAL,
    output: Output = _DEFAULT,
) -> None:
    """Find the settings that meet a target with the least regret, check them on fresh seeds, and write the spec to serve.

    Everything goes to --out, by default to out/tune-NAME; the spec is tuned.toml there.

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [sweep] that varies fields of the policy.
    target
        Comparisons of regret, violation or path_violation, joined by "and"; "after N" speaks of all rounds after round N.
    halving
        Few rounds for all settings first; only the best third goes on, twice.
    """
    from tightrope.sweep import TargetMissed, write_page
    from tightrope.sweep import tune as find

    read = _read(spec)
    folder = output.out or Path("out", f"tune-{spec.stem}")
    try:
        with _kept():
            found = find(
                read,
                target,
                folder,
                engine=where.engine,
                workers=where.workers,
                address=where.address,
                halving=halving,
            )
    except TargetMissed as missed:
        write_page(missed.sweep)
        raise
    data = {
        "target": target,
        "policy": found.policy,
        "settings": found.settings,
        "rows": [found.chosen, found.checked],
        "passed_over": found.passed_over,
        "spec": str(found.path),
        "sweep": write_page(found.sweep),
    }
    rows = [{"run": "in the sweep", **found.chosen}, {"run": "on fresh seeds", **found.checked}]
    output.show(
        data,
        _table("", ("field", "value"), [(path, str(value)) for path, value in found.settings.items()]),
        _summary_table(rows, "run", "policy"),
        f"the spec to serve is {found.path}; the report is {folder / 'index.html'}",
    )


calibrate = App(name="calibrate", help="Fit an environment to real data.", help_epilogue="")
app.command(calibrate)


@_command(
    "tightrope calibrate hospital --source encounters.parquet --out out/calibration",
    of=calibrate,
    name="hospital",
)
def calibrate_hospital(*, source: Path, first_encounter: bool = False, output: Output = _DEFAULT) -> None:
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

    from tightrope.environments import calibration
    from tightrope.environments.hospital import report

    if not source.is_file():
        raise InvalidInput(f"--source: {source} must be a file, but it is none")
    fitted = calibration.calibrate_hospital(source, first_encounter=first_encounter)
    text = report(fitted)
    folder = output.folder()
    with tempfile.TemporaryDirectory() as scratch:
        target = (folder or Path(scratch)) / "hospital.json"
        calibration.write(fitted, target)
        data = json.loads(target.read_text())
    if folder is not None:
        (folder / "report.md").write_text(text)
    output.show(data, text, *([] if folder is None else [f"written to {folder}"]))


@_command("tightrope serve examples/hospital.toml --data data")
def serve(
    *specs: Path,
    host: str = "127.0.0.1",
    port: int = 8080,
    data: Path | None = None,
    database: str | None = None,
    keys: Path | None = None,
    expire_after: float = 2_592_000.0,
    max_pending: int = 100_000,
    accept_changes: bool = False,
) -> None:
    """Put policies behind HTTP, on a journal that loses nothing; the dashboard is at /.

    Parameters
    ----------
    specs
        One TOML file for each experiment.
    host
        Where to listen; beyond loopback only with --keys.
    port
        The port to listen on.
    data
        Folder of the SQLite journals; by default tightrope-data.
    database
        postgresql://… instead of SQLite, or memory: to keep nothing.
    keys
        File of keys, made by `tightrope keys create`.
    expire_after
        Seconds until a decision without its whole outcome is no longer waited for.
    max_pending
        How many decisions may wait for their outcome at once.
    accept_changes
        Go on where a spec differs from the one in the journal, and note the change there.
    """
    import logging

    if not specs:
        raise InvalidInput("serve needs at least one SPEC.toml.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    service = _extra("tightrope.service.server", "service")
    service.serve(
        specs,
        host=host,
        port=port,
        data=data,
        database=database,
        keys=keys,
        expire_after=expire_after,
        max_pending=max_pending,
        accept_changes=accept_changes,
    )


@_command("tightrope replay data/ward-routing.sqlite --export all.parquet")
def replay(
    source: str, *, experiment: str | None = None, export: Path | None = None, output: Output = _DEFAULT
) -> None:
    """Replay a journal from its first entry and compare every decision and snapshot with what was recorded.

    Parameters
    ----------
    source
        A SQLite journal, or postgresql://… with --experiment.
    experiment
        Which experiment of a database.
    export
        Also write all entries to this .csv or .parquet file.
    """
    replaying = _extra("tightrope.service.replay", "service")
    journal = replaying.open_journal(source, experiment)
    try:
        found = replaying.verify(journal)
        written = None if export is None else replaying.export(journal, export)
    finally:
        journal.close()
    data = {**{name: getattr(found, name) for name in type(found).__dataclass_fields__}, "exported": written}
    parts = [
        f"{found.name}: {found.entries:,} entries, {found.decisions:,} decisions, {found.outcomes:,} outcomes: all as recorded",
        f"{found.snapshots:,} snapshots compared; state at the end {found.digest}",
    ]
    if written is not None:
        parts.append(f"{written:,} entries written to {export}")
    output.show(data, *parts)


keys_app = App(name="keys", help="Keys for a service that listens beyond this machine.")
app.command(keys_app)


@_command(
    "tightrope keys create keys.json --scope decide --scope outcome --experiment ward-routing", of=keys_app
)
def create(
    file: Path,
    *,
    scope: list[Literal["decide", "outcome", "read", "admin"]] | None = None,
    experiment: list[str] | None = None,
) -> None:
    """Add a key to a file and print it once; the file keeps only its hash.

    Parameters
    ----------
    file
        The file of keys; made if it is not there.
    scope
        What the key may do; all by default.
    experiment
        Which experiments it opens; all by default.
    """
    keys = _extra("tightrope.service.keys", "service")
    print(keys.create_key(file, scopes=scope or keys.SCOPES, experiments=experiment or ("*",)))


@_command("tightrope keys revoke keys.json 1a2b3c4d", of=keys_app)
def revoke(file: Path, key: str) -> None:
    """Remove the key with this id: the part between its first two underscores."""
    _extra("tightrope.service.keys", "service").revoke_key(file, key)


def _extra(module: str, extra: str) -> Any:
    """A module that needs packages of an extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed: pip install 'tightrope[{extra}]'"
        ) from error


@_command("tightrope bench online engine --out out/bench")
def bench(
    *cases: str,
    full: Annotated[bool, Parameter(negative=())] = False,
    repeats: int | None = None,
    output: Output = _DEFAULT,
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
        *(_table(title, head, rows) for title, head, rows in benchmarks.tables(data)),
        *([] if folder is None else [f"written to {folder}"]),
    )


@_command("tightrope version --json")
def version(*, output: Output = _DEFAULT) -> None:
    """The versions of Tightrope, of Python and of what numbers depend on."""
    import platform
    from importlib.metadata import version as installed

    versions = {"tightrope": __version__, "python": platform.python_version()}
    versions |= {name: installed(name) for name in ("numpy", "scipy", "numba", "highspy")}
    lines = "\n".join(f"{name} {number}" for name, number in versions.items())
    folder = output.folder()
    if folder is not None:
        _write(folder / "version.json", versions)
    output.show(versions, lines)


# --- what commands share ---


def _read(path: Path) -> Spec:
    from tightrope.spec import read_spec

    return read_spec(path)


def _bounds(spec: Spec) -> tuple[float, int]:
    """m and T as the first policy has them: what the assumptions are checked against."""
    first = spec.policies[0]
    m = first.reward.m if first.reward is not None else None
    return (1.0 if m is None else m), (first.horizon or spec.simulation.rounds)


def _report(results: Sequence[Result], folder: Path | None, output: Output) -> None:
    """Print the last round of every result; write all rows."""
    from tightrope.result import write_summary

    last = [result.rows()[-1] for result in results]
    interrupted = any(result.interrupted for result in results)
    if folder is not None:
        write_summary(results, folder / "summary.json")
    data = {"rows": last, "interrupted": interrupted, "out": None if folder is None else str(folder)}
    where = "nothing is written without --out DIR" if folder is None else f"written to {folder}"
    output.show(data, _summary_table(last, "policy", "scenario"), where)


def _summary_table(rows: Sequence[dict[str, Any]], *labels: str) -> Any:
    head = (*labels, "runs", "round", "regret", "violation", "last violated round")
    body = [
        (
            *(str(row[label]) for label in labels),
            f"{row['replications']:,}",
            f"{row['round']:,}",
            _interval(row, "regret"),
            _interval(row, "violation"),
            _number(row["last_violation"]),
        )
        for row in rows
    ]
    return _table("", head, body)


def _settings_table(rows: Sequence[dict[str, Any]], paths: Sequence[str]) -> Any:
    head = ("policy", *paths, "regret", "violation", "last violated round")
    body = [
        (
            str(row["policy"]),
            *(_number(row[path]) if isinstance(row[path], float) else str(row[path]) for path in paths),
            _interval(row, "regret"),
            _interval(row, "violation"),
            _number(row["last_violation"]),
        )
        for row in rows
    ]
    return _table("best settings", head, body)


@contextmanager
def _kept() -> Iterator[None]:
    """Say on Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        print("what was finished is kept: the same command goes on from there", file=sys.stderr)
        raise


def _fail_if_any(data: dict[str, Any]) -> None:
    """End with status 1 where cells failed, naming them."""
    if data["failed"]:
        listed = [
            f"  cell {one['number']} ({', '.join(f'{path} = {value}' for path, value in one['settings'].items())}): {one['error']}"
            for one in data["failures"]
        ]
        more = data["failed"] - len(listed)
        rest = [f"  and {more:,} more, in the column `error` of {Path(data['out'], 'cells')}"] if more else []
        raise TightropeError(
            "\n".join([f"{data['failed']:,} of {data['cells']:,} cells failed", *listed, *rest])
        )


def _league_table(rows: Sequence[dict[str, Any]]) -> Any:
    head = ("scenario", "policy", "place", "regret", "violation", "last violated round", "µs a decision")
    order = {name: i for i, name in enumerate(dict.fromkeys(row["scenario"] for row in rows))}
    ranked = sorted(rows, key=lambda row: (order[row["scenario"]], row["place"] or len(rows), row["regret"]))
    body = [
        (
            row["scenario"],
            row["policy"],
            "–" if row["place"] is None else str(row["place"]),
            _interval(row, "regret"),
            _interval(row, "violation"),
            _number(row["last_violation"]),
            f"{row['decision_microseconds']:.0f}",
        )
        for row in ranked
    ]
    return _table("", head, body)


def _winners_table(overview: Sequence[dict[str, Any]]) -> Any:
    from tightrope.studies.league import CENTRE, standing

    head = ("scenario", "best that keeps the constraints", "its regret", f"regret of {CENTRE}", "its place")
    body = [
        (one["scenario"], one["best"] or "–", _number(one["regret"]), _number(one["ours"]), standing(one))
        for one in overview
    ]
    return _table("", head, body)


def _interval(row: dict[str, Any], name: str) -> str:
    from tightrope.report import format_estimate

    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if row[name] is None or low is None or high is None:
        return _number(row[name])
    return format_estimate(row[name], low, high)


def _number(value: float | None) -> str:
    from tightrope.report import format_number

    return "–" if value is None else format_number(0.0 if abs(value) < 1e-12 else value)


def _table(title: str, head: Sequence[str], body: Iterable[Sequence[str]]) -> Any:
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


def _folders(folder: Path | None, policies: Iterable[str]) -> dict[str, Path]:
    """A folder below `folder` for each policy, named so that no file system minds."""
    folders: dict[str, Path] = {}
    for name in policies if folder is not None else ():
        path = Path(folder or "", re.sub(r"[^\w-]+", "-", name).strip("-") or "policy")
        while path in folders.values():
            path = path.with_name(f"{path.name}~")
        folders[name] = path
    return folders


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, allow_nan=False, ensure_ascii=False, indent=2) + "\n")


def _plain(error: CycloptsError) -> str:
    """A parsing error in one line, without the frame drawn around it."""
    return " ".join(str(error).split())


def _complain(message: str, status: int) -> int:
    print(f"tightrope: {message}", file=sys.stderr)
    return status
