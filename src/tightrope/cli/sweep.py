"""`tightrope sweep` and `tightrope tune`: many settings of a spec, and the best of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cyclopts import Parameter

from tightrope.cli.app import DEFAULT, Flag, Output, Trust, command
from tightrope.cli.tables import JUDGED, judged, number_text, summary_table, table
from tightrope.errors import TightropeError


@Parameter(name="*")
@dataclass(frozen=True)
class Engine:
    """Where the cells of a sweep run, and how long each."""

    engine: Literal["local", "ray", "gpu"] = "local"
    "The cores of this machine, a Ray cluster, or a GPU with many settings in one launch."
    address: str | None = None
    "Address of the Ray cluster, such as 10.0.0.5:6379, or auto for the one this machine belongs to; by default one is started."
    workers: int | None = None
    "Cores to use; all by default."
    halving: Flag = False
    "Run all settings for a few rounds first; only the best third goes on, twice."


_LOCAL = Engine()


@command("tightrope sweep examples/sweep-hospital.toml --out out/sweep")
def sweep(
    spec: Path,
    /,
    *,
    retry_failed: Flag = False,
    trust: Trust = False,
    where: Engine = _LOCAL,
    output: Output = DEFAULT,
) -> None:
    """Simulate the many settings that the [sweep] of a spec names. Any engine and any number of workers gives the same numbers.

    Results go to --out as they finish, by default to out/sweep-NAME. Run the same command again to continue where it stopped.

    Parameters
    ----------
    spec
        A TOML file with an [environment] and a [sweep].
    retry_failed
        Run failed cells again.
    """
    from tightrope.spec import read_spec
    from tightrope.sweeps import sweep as run
    from tightrope.sweeps import write_page

    folder = output.out or Path("out", f"sweep-{spec.stem}")
    with _kept():
        found = run(read_spec(spec, trust=trust), folder, retry_failed=retry_failed, **vars(where))
    data = write_page(found)
    ran = f"{found.ran:,} of {data['cells']:,} cells ran now" if found.ran else "nothing was left to run"
    output.show(
        data,
        *([_settings_table(data["rows"], found.plan.design.paths)] if data["rows"] else []),
        f"{ran}; the report is {folder / 'index.html'}",
    )
    if data["failed"]:
        raise TightropeError(_failures(data))


@command('tightrope tune examples/sweep-hospital.toml --target "violation<=0 after 500"')
def tune(
    spec: Path,
    /,
    *,
    target: str | None = None,
    trust: Trust = False,
    where: Engine = _LOCAL,
    output: Output = DEFAULT,
) -> None:
    """Find the settings that meet a target with the least regret, and say whether that was worth it.

    The best settings and the spec as it stands are compared on fresh draws, over the same number of rounds, twice and five times as
    many. Unless they are clearly better, the spec to serve is the one you gave.

    Everything goes to --out, by default to out/tune-NAME; the spec to serve is tuned.toml there.

    Parameters
    ----------
    spec
        A TOML file with an [environment]. Its [sweep] names the fields of the policy to vary; without one they are explore and
        caution of shadow-price, and the bonus of pessimistic-optimistic.
    target
        Comparisons of regret, violation or path_violation, joined by "and"; "after N" means all rounds after round N. By
        default "path_violation<=0": no run ends in violation.
    """
    from tightrope.spec import read_spec
    from tightrope.sweeps import TargetMissed, write_page
    from tightrope.sweeps import tune as find

    folder = output.out or Path("out", f"tune-{spec.stem}")
    try:
        with _kept():
            found = find(read_spec(spec, trust=trust), target, folder, **vars(where))
    except TargetMissed as missed:
        write_page(missed.sweep)
        raise
    data = found.as_data() | {"sweep": write_page(found.sweep, found.words)}
    untouched = (row for row in found.untouched if row["error"] is None)
    rows = [{"run": f"{found.than}, fresh draws", **row} for row in untouched]
    if found.chosen is not None:
        tuned = [{"run": "tuned, fresh draws", **row} for row in found.checked]
        rows = [{"run": "tuned, in the sweep", **found.chosen}, *tuned, *rows]
    settings = [(path, str(value)) for path, value in found.settings.items()]
    output.show(
        data,
        *([table("", ("field", "value"), settings)] if settings else []),
        summary_table(rows, "run", "policy"),
        *found.words,
        f"the spec to serve is {found.path}: {found.reach}",
        f"the report is {folder / 'index.html'}",
    )


def _settings_table(rows: Sequence[dict[str, Any]], paths: Sequence[str]) -> Any:
    def shown(value: Any) -> str:
        return number_text(value) if isinstance(value, float) else str(value)

    body = [(row["policy"], *(shown(row[path]) for path in paths), *judged(row)) for row in rows]
    return table("best settings", ("policy", *paths, *JUDGED), body)


@contextmanager
def _kept() -> Iterator[None]:
    """Say on Ctrl-C that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        print("finished cells are kept: run the same command again to continue", file=sys.stderr)
        raise


def _failures(data: dict[str, Any]) -> str:
    said = [f"{data['failed']:,} of {data['cells']:,} cells failed"]
    for one in data["failures"]:
        settings = ", ".join(f"{path} = {value}" for path, value in one["settings"].items())
        said.append(f"  cell {one['number']} ({settings}): {one['error']}")
    if more := data["failed"] - len(data["failures"]):
        said.append(f"  and {more:,} more, in the column `error` of {Path(data['out'], 'cells')}")
    return "\n".join(said)
