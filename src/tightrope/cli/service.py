"""`tightrope serve`, and what belongs to it: `openapi` of it, `replay` of its journals, `evaluate` on them, `keys` to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from tightrope.cli.app import DEFAULT, Output, Trust, app, command, import_extra
from tightrope.cli.tables import table
from tightrope.errors import InvalidInput

keys_app = App(name="keys", help="Keys for a service that listens beyond this machine.")
app.command(keys_app)


@Parameter(name="*")
@dataclass(frozen=True)
class Serving:
    """Where a service listens, where its journals are, and how long it waits for outcomes."""

    host: str = "127.0.0.1"
    "Where to listen; beyond loopback only with --keys."
    port: int = 8080
    "The port to listen on, up to 65535; 0: any that is free, which the log names."
    data: Path | None = None
    "Folder of the SQLite journals; by default tightrope-data."
    database: str | None = None
    "postgresql://… instead of SQLite; env:NAME or file:PATH, where that stands; or memory: to keep nothing."
    heads: Path | None = None
    "Folder on this machine for the heads of journals in a database; by default in your folder for state."
    keys: Path | None = None
    "File of keys, made by `tightrope keys create`."
    expire_after: float = 2_592_000.0
    "Seconds until a decision without its whole outcome is no longer waited for."
    max_pending: int = 100_000
    "How many decisions may wait for their outcome at once."
    accept_changes: bool = False
    "Go on where a spec differs from the one in the journal, and note the change there."
    accept_clock: bool = False
    "Believe the machine's clock, however long after the journal's last entry it is: the service was stopped for that long."
    accept_restored: bool = False
    "Go on with a journal that lacks entries which are known on this machine, such as a restored backup."
    max_in_flight: int = 512
    "Decisions, outcomes and changes under way at once; one more is answered 503."
    max_connections: int = 1_000
    "Connections open at once; one more takes the place of an idle one."
    reset_caps: tuple[str, ...] = ()
    "Hard caps that begin at 0 with the changes that are accepted; all others go on from what was spent."
    trust: Trust = False


_USUAL = Serving()


@command("tightrope serve examples/hospital.toml --data data")
def serve(
    *specs: Path, options: Serving = _USUAL, log: Literal["text", "json"] = "text", log_requests: bool = False
) -> None:
    """Put policies behind HTTP, on a journal that loses nothing; the dashboard is at /.

    Parameters
    ----------
    specs
        One TOML file for each experiment.
    log
        Lines for people, or one JSON object a line.
    log_requests
        Log every request, with route, status, experiment, key and seconds.
    """
    if not specs:
        raise InvalidInput("serve needs at least one SPEC.toml.")
    import_extra("tightrope.service.http.logs", "service").configure(log, requests=log_requests)
    import_extra("tightrope.service.http.server", "service").serve(specs, **vars(options))


@command("tightrope openapi examples/hospital.toml --to openapi.json")
def openapi(*specs: Path, to: Path | None = None, trust: Trust = False) -> None:
    """Print the service's API for programs (OpenAPI 3.1), as /openapi.json shows it: to make a client from, or types.

    Parameters
    ----------
    specs
        TOML files of experiments, whose contexts it then names; may be left out.
    to
        Write it to this file instead.
    """
    import json

    from tightrope.spec import read_spec

    read = [read_spec(spec, trust=trust) for spec in specs]
    api = import_extra("tightrope.service.http.app", "service").document(read)
    text = json.dumps(api, ensure_ascii=False, indent=2)
    if to is None:
        print(text)
    else:
        to.write_text(text + "\n", encoding="utf-8")


@command("tightrope replay data/ward-routing.sqlite --export all.parquet")
def replay(
    source: str,
    *,
    experiment: str | None = None,
    head: str | None = None,
    heads: Path | None = None,
    export: Path | None = None,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Replay a journal from its first entry and compare every decision and snapshot with what was recorded.

    Parameters
    ----------
    source
        A SQLite journal, the service's --data folder, or postgresql://…
    experiment
        Which experiment of a folder or database; needed where there are several.
    head
        A hash that was kept elsewhere: an entry must have it, or entries are missing or were changed.
    heads
        Folder of the heads that `serve` keeps on this machine for journals in a database; by default in your folder for state.
    export
        Also write all entries to this .csv or .parquet file.
    """
    replaying = import_extra("tightrope.service.offline.replay", "service")
    journal = replaying.open_journal(source, experiment)
    known = import_extra("tightrope.service.journal.heads", "service")
    known.keep_head(journal, known.heads_folder(heads))
    try:
        found = replaying.verify(journal, head=head, trust=trust)
        written = None if export is None else replaying.export(journal, export)
    finally:
        journal.close()
    data = {**{name: getattr(found, name) for name in type(found).__dataclass_fields__}, "exported": written}
    parts = [
        f"{found.name}: {found.entries:,} entries, {found.decisions:,} decisions, {found.outcomes:,} outcomes: all as recorded",
        f"{found.snapshots:,} snapshots compared; state at the end {found.digest}",
        f"head {found.head}: keep it elsewhere, and compare with --head",
    ]
    if found.known is None:
        parts.append(
            "no head of it is kept on this machine, so nothing here tells whether entries are missing at its end"
        )
    if found.erased:
        parts.append(
            f"{found.erased:,} entries are erased; {found.not_repeated:,} could not be repeated for that, but the chain holds them"
        )
    if written is not None:
        parts.append(f"{written:,} entries written to {export}")
    output.show(data, *parts)


@command("tightrope evaluate data --policy examples/hospital.toml")
def evaluate(
    journal: str,
    /,
    *,
    policy: Path,
    experiment: str | None = None,
    method: Literal["dr", "snips", "ips", "replay"] = "dr",
    clip: float | None = None,
    last: int | None = None,
    may_lack: float = 0.1,
    may_miss: float = 0.05,
    seed: int = 0,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Judge another policy on what the service recorded: what it would have earned, and whether it would have kept every rule.

    The service must have drawn its actions: a policy that does not draw leaves nothing to judge others by. Where the journal can't
    answer, the reasons are given, and the exit status is 1. See docs/evaluation.md.

    Parameters
    ----------
    journal
        A SQLite journal, the service's --data folder, or postgresql://…
    policy
        A TOML file whose [policy] is judged; actions, context and rules are the journal's where it does not state them.
    experiment
        Which experiment of a folder or database; needed where there are several.
    method
        The estimator: doubly robust, self-normalised weights, plain weights, or rows kept by chance.
    clip
        Cut weights off at this: narrower intervals, and a bias that is stated.
    last
        Look at so many of the newest decisions alone.
    may_lack
        The share of decisions that may lack their outcome; they are left out, as if by chance.
    may_miss
        The share of what the policy does that may fall where the service had no chance of it.
    seed
        Of the draws that decide which rounds are the policy's own.
    """
    from tightrope.files import write_json
    from tightrope.spec import read_spec

    evaluation = import_extra("tightrope.service.offline.evaluation", "service")
    storage = import_extra("tightrope.service.storage", "service")
    spec = read_spec(policy, trust=trust)
    opened = storage.open_journal(journal, experiment)
    how = {
        "method": method,
        "clip": clip,
        "last": last,
        "may_lack": may_lack,
        "may_miss": may_miss,
        "seed": seed,
    }
    try:
        found = evaluation.judge(opened, spec, **how)
    except evaluation.Unanswerable as refused:
        if output.json:
            output.show({"refused": list(refused.reasons)})
        raise
    finally:
        opened.close()
    data = found.data()
    folder = output.folder()
    if folder is not None:
        write_json(folder / "evaluation.json", data, indent=2)
    left = ", ".join(f"{count:,} {why}" for why, count in found.left_out.items())
    output.show(
        data,
        f"{found.policy} on {found.judged:,} of {found.decisions:,} decisions of {found.experiment}, served by {found.served}; "
        f"worth {found.worth:,.0f} rounds of its own ({found.method})",
        _estimates([found.reward, *found.rules]),
        *([f"left out: {left}"] if left else []),
        *(f"note: {note}" for note in found.notes),
        *(f"doubt: {doubt}" for doubt in found.doubts),
        *([] if folder is None else [f"written to {folder / 'evaluation.json'}"]),
    )


def _estimates(found: list[Any]) -> Any:
    head = ["per decision", "estimate", "95 % interval", "bias", "recorded", "limit", "verdict"]
    rows = [
        [
            one.name,
            _digits(one.estimate),
            f"{_digits(one.low)} to {_digits(one.high)}",
            _digits(one.bias),
            _digits(one.recorded),
            "" if one.limit is None else f"{one.limit:g}",
            one.verdict or "",
        ]
        for one in found
    ]
    if not any(one.bias for one in found):
        head, rows = [*head[:3], *head[4:]], [[*row[:3], *row[4:]] for row in rows]
    return table("", head, rows)


def _digits(value: float) -> str:
    return f"{round(value, 4) + 0.0:.4f}"  # + 0.0 turns −0 into 0


@command(
    "tightrope keys create keys.json --scope decide --scope outcome --experiment ward-routing", of=keys_app
)
def create(
    file: Path,
    *,
    scope: list[Literal["decide", "outcome", "read", "admin"]] | None = None,
    experiment: list[str] | None = None,
    days: float | None = None,
    never_expires: Annotated[bool, Parameter(negative=())] = False,
    rate: float | None = None,
) -> None:
    """Add a key to a file and print it once; the file keeps only its hash.

    Parameters
    ----------
    file
        The file of keys; made if it is not there.
    scope
        What the key may do; may be repeated. By default only to decide.
    experiment
        Which experiments it opens; all by default.
    days
        For how many days it opens anything; 90 by default.
    never_expires
        Open for ever instead.
    rate
        How many requests a second it may send; by default as many as the service bears.
    """
    keys = import_extra("tightrope.service.http.keys", "service")
    if never_expires and days is not None:
        raise InvalidInput("--days and --never-expires can't both be given.")
    given = {"scopes": scope or keys.LEAST, "experiments": experiment or ("*",)}
    until = None if never_expires else days if days is not None else keys.DAYS
    print(keys.create_key(file, **given, days=until, rate=rate))


@command("tightrope keys revoke keys.json 1a2b3c4d", of=keys_app)
def revoke(file: Path, key: str) -> None:
    """Remove the key with this id: the part between its first two underscores."""
    import_extra("tightrope.service.http.keys", "service").revoke_key(file, key)
