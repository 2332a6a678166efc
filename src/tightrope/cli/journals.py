"""Commands for the journals of a service: `replay`, `evaluate`, `backup`, `restore`, `migrate`, `erase`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from tightrope.cli.app import DEFAULT, Output, Trust, command
from tightrope.cli.tables import table
from tightrope.errors import InvalidInput

_SOURCE = "A SQLite journal, the service's --data folder, or an address as for `serve --database`."
Source = Annotated[str, Parameter(help=_SOURCE)]
_EXPERIMENT = "The experiment in a folder or database; required if it holds several."
ExperimentName = Annotated[str | None, Parameter(help=_EXPERIMENT)]
_HEADS = "The folder where `serve` keeps the heads of journals in a database; by default your state folder."
Heads = Annotated[Path | None, Parameter(help=_HEADS)]


@command("tightrope replay data/ward-routing.sqlite --export all.parquet")
def replay(
    source: Source,
    *,
    experiment: ExperimentName = None,
    head: str | None = None,
    heads: Heads = None,
    export: Path | None = None,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Replay a journal from its first entry and compare every decision and snapshot with what was recorded.

    Parameters
    ----------
    head
        A hash that you kept elsewhere. If no entry has it, entries are missing or were changed.
    export
        Also write all entries to this .csv or .parquet file.
    """
    from tightrope.service.journal.heads import heads_folder, keep_head
    from tightrope.service.offline import replay
    from tightrope.service.storage import open_journal

    with closing(open_journal(source, experiment)) as journal:
        keep_head(journal, heads_folder(heads))
        found = replay.verify(journal, head=head, trust=trust)
        written = None if export is None else replay.export(journal, export)
    parts = [
        f"{found.name}: {found.entries:,} entries, {found.decisions:,} decisions, {found.outcomes:,} outcomes: all as recorded",
        f"{found.snapshots:,} {'snapshot' if found.snapshots == 1 else 'snapshots'} compared; state at the end {found.digest}",
        f"head {found.head}: keep it elsewhere and check it with --head",
    ]
    if found.known is None:
        unknown = "entries missing at its end can't be noticed"
        parts.append(f"this machine keeps no head of the journal, so {unknown}")
    if found.erased:
        lost = f"{found.not_repeated:,} could not be repeated because of that, but the chain includes them"
        parts.append(f"{found.erased:,} entries are erased; {lost}")
    if written is not None:
        parts.append(f"{written:,} entries written to {export}")
    output.show({**asdict(found), "exported": written}, *parts)


@Parameter(name="*")
@dataclass(frozen=True)
class Judging:
    """How a policy is judged."""

    method: Literal["dr", "snips", "ips", "replay"] = "dr"
    "The estimator: doubly robust, self-normalised weights, plain weights, or rejection sampling of rows."
    clip: float | None = None
    "Cut weights off at this value: narrower intervals, and a bias that the output states."
    last: int | None = None
    "Use only this many of the newest decisions."
    may_lack: float = 0.1
    "The share of decisions that may lack their outcome; they are left out, as if they were missing at random."
    may_miss: float = 0.05
    "The share of the policy's actions that the service could not have taken."
    seed: int = 0
    "Seed of the draws that decide which rounds count as the policy's own."


_AS_USUAL = Judging()


@command("tightrope evaluate data --policy examples/hospital.toml")
def evaluate(
    journal: Source,
    /,
    *,
    policy: Path,
    experiment: ExperimentName = None,
    how: Judging = _AS_USUAL,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Judge another policy by what the service recorded: what it would have earned, and whether it would have kept every rule.

    The service must have drawn its actions: a policy that does not draw leaves nothing to judge others by. If the journal can't
    answer, the command says why and exits with status 1. See docs/evaluation.md.

    Parameters
    ----------
    policy
        A TOML file whose [policy] is judged; actions, context and rules default to the journal's.
    """
    from tightrope.service.offline.evaluation import Unanswerable, judge
    from tightrope.service.storage import open_journal
    from tightrope.spec import read_spec

    spec = read_spec(policy, trust=trust)
    with closing(open_journal(journal, experiment)) as opened:
        try:
            found = judge(opened, spec, **vars(how))
        except Unanswerable as refused:
            if output.json:
                output.show({"refused": list(refused.reasons)})
            raise
    left = ", ".join(f"{count:,} {why}" for why, count in found.left_out.items())
    written = output.keep("evaluation.json", found.data())
    output.show(
        found.data(),
        f"{found.policy} on {found.judged:,} of {found.decisions:,} decisions of {found.experiment}, served by {found.served}; "
        f"worth {found.worth:,.0f} rounds of its own ({found.method})",
        _estimates([found.reward, *found.rules]),
        *([f"left out: {left}"] if left else []),
        *(f"note: {note}" for note in found.notes),
        *(f"doubt: {doubt}" for doubt in found.doubts),
        *written,
    )


def _estimates(found: list[Any]) -> Any:
    biased = any(one.bias for one in found)
    rows = []
    for one in found:
        low, high = _digits(one.low), _digits(one.high)
        limit = "" if one.limit is None else f"{one.limit:g}"
        estimated = [one.name, _digits(one.estimate), f"{low} to {high}", *[_digits(one.bias)] * biased]
        rows.append([*estimated, _digits(one.recorded), limit, one.verdict or ""])
    head = ["per decision", "estimate", "95 % interval", *["bias"] * biased, "recorded", "limit", "verdict"]
    return table("", head, rows)


def _digits(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}"  # + 0.0 turns −0 into 0


@command("tightrope backup data --out backups")
def backup(
    source: Source, *, experiment: ExperimentName = None, to: Path | None = None, output: Output = DEFAULT
) -> None:
    """Copy a journal to a SQLite file, even while the service writes to it; every hash of its chain is checked on the way.

    Parameters
    ----------
    to
        The file to write; by default NAME.sqlite in the folder --out.
    """
    from tightrope.service.offline.backup import copy_to_file
    from tightrope.service.storage import open_journal

    with closing(open_journal(source, experiment)) as journal:
        folder = output.folder()
        if to is None and folder is None:
            raise InvalidInput("backup needs a target: use --to FILE or --out FOLDER.")
        name = experiment or Path(getattr(journal, "path", "journal.sqlite")).stem
        target = to if to is not None else Path(folder or ".", f"{name}.sqlite")
        head = copy_to_file(journal, target)
    output.show(
        {"file": str(target), "entries": head.position, "head": head.hash.hex()},
        f"{head.position:,} entries in {target}; head {head.hash.hex()}",
    )


@command("tightrope restore backups/ward-routing.sqlite data/ward-routing.sqlite")
def restore(backup: Path, journal: Path, *, trust: Trust = False, output: Output = DEFAULT) -> None:
    """Put a copy in the place of a journal, after replaying all of it, and say how many acknowledged entries it lacks.

    Parameters
    ----------
    backup
        A copy made by `tightrope backup`, by copying the files, or by VACUUM INTO.
    journal
        Where the journal was. Move away what is left of it, including -wal and -shm, but leave its .head.
    """
    from tightrope.service.offline.backup import restore

    found = restore(backup, journal, trust=trust)
    lost = f"{found.lost:,} acknowledged entries after it are lost" if found.lost else "nothing known is lost"
    output.show(
        {"entries": found.head.position, "head": found.head.hash.hex(), "lost": found.lost},
        f"{found.head.position:,} entries in {journal}; head {found.head.hash.hex()}",
        lost,
    )


@command("tightrope migrate env:OWNER_DATABASE --service env:DATABASE")
def migrate(database: str, *, service: str, output: Output = DEFAULT) -> None:
    """Create the tables in a PostgreSQL database, and a role for the service that can't change or delete journal entries.

    Run it before the first start and after each upgrade; running it again does no harm. See docs/containers.md.

    Parameters
    ----------
    database
        postgresql://… with the role that will own the tables; env:NAME or file:PATH reads the address from there.
    service
        The same with the service's role: the address for `tightrope serve --database`. The role is created if it does not exist.
    """
    from tightrope.service.storage import migrate

    role = migrate(database, service)
    output.show({"role": role}, f"the tables exist, and {role!r} may read them and append to journals")


@command("tightrope erase data --before 2025-01-01 --archive 2024.sqlite")
def erase(
    data: Source,
    *,
    experiment: ExperimentName = None,
    event_id: list[str] | None = None,
    before: datetime | None = None,
    archive: Path | None = None,
    heads: Heads = None,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Erase personal data from a journal for good: for some events, or for all settled ones before a date.

    Stop the service first; while it runs, use POST /v1/erasures instead. See docs/erasure.md.

    Parameters
    ----------
    event_id
        An event; may be given several times.
    before
        A day, or a time, in UTC.
    archive
        First copy the whole journal to this file.
    """
    if (event_id is None) == (before is None):
        raise InvalidInput("erase needs to know what to erase: use either --event-id or --before.")
    from tightrope.service.journal.heads import heads_folder, keep_head
    from tightrope.service.offline.retention import erase_before, erase_events, reopened
    from tightrope.service.storage import journal_to_write

    journal = journal_to_write(data, experiment)
    keep_head(journal, heads_folder(heads))
    with closing(reopened(journal, trust=trust)) as opened:
        if before is not None:
            until = before if before.tzinfo is not None else before.replace(tzinfo=UTC)
            found = erase_before(opened, int(until.timestamp() * 1e6), archive)
        else:
            found = erase_events(opened, event_id or [], archive)
    parts = [f"{found.entries:,} entries erased"]
    if found.left:
        parts.append(f"{found.left:,} decisions left: they still await their outcomes")
    if found.archive is not None:
        head = found.archive
        parts.append(f"archive: {head.position:,} entries in {archive}; head {head.hash.hex()}")
    output.show({"entries": found.entries, "left": found.left}, *parts)
