"""`tightrope init`: a guided start, from a table or from questions."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tightrope.cli.app import DEFAULT, Flag, Output, Several, command
from tightrope.cli.tables import table
from tightrope.errors import InvalidInput

if TYPE_CHECKING:
    from tightrope.starting import Answers, Proposal

# What can be changed on a terminal, and the options that only make sense with a table.
_ASKED = ("action", "reward", "label", "context", "usage", "rule")
_OF_TABLES = ("action", "reward", "success", "label", "group")


@Parameter(name="*")
@dataclass(frozen=True)
class Columns:
    """Which column of the table is what; the command proposes the rest."""

    action: str | None = None
    "The column of the action that was taken."
    reward: Several = ()
    "The column of the reward; or ACTION=COLUMN for each action, if every row has the rewards of all."
    success: str | None = None
    "The entry of the reward column that counts as 1; all others count as 0."
    label: str | None = None
    "The column of the right action, instead of action and reward."
    context: Several = ()
    "A column that is known before a decision; may be repeated. Without a table, a field such as 'age: 0..120' or 'sex: f, m'."
    usage: Several = ()
    "A column of what was used; may be repeated. Without a table, what each action uses, such as 'minutes:email=1,letter=9'."
    rule: Several = ()
    "What must hold: 'letter <= 0.3', 'minutes <= 4.5' on average, or 'letter >= 40% among far' in a group; may be repeated."
    group: str | None = None
    "The column of each row's group; by default the one that holds the groups of the rules."
    no_usage: Flag = False
    "No column says what was used."
    no_rules: Flag = False
    "Nothing is limited."


_PROPOSED = Columns()


@command('tightrope init --from coupons.csv --rule "letter <= 0.3"')
def init(
    *,
    from_: Annotated[Path | None, Parameter(name="--from")] = None,
    columns: Columns = _PROPOSED,
    name: str | None = None,
    actions: str | None = None,
    chance: Several = (),
    rounds: int = 5_000,
    replications: int = 20,
    workers: int | None = None,
    yes: Flag = False,
    force: Flag = False,
    no_open: Flag = False,
    output: Output = DEFAULT,
) -> None:
    """Turn a table, or answers to a few questions, into a spec with comments, a first simulation and a page about it.

    A table has a row for each past decision: what was known, what was done, what it earned, perhaps what it used. Or it has the
    reward of every action in each row, or the right one as a label. The command proposes what each column is, and says why; options
    override it. On a terminal you can change every proposal before anything is written.

    spec.toml, index.html and summary.json go to --out, by default to a folder named like the table. The spec works with oracle,
    simulate, tune and serve.

    Parameters
    ----------
    from_
        A .csv, .csv.gz or .parquet file. Without one, the command asks questions.
    name
        Of the experiment; by default that of the table.
    actions
        Without a table: the actions, separated by commas.
    chance
        Without a table: your guess of how often an action succeeds, such as letter=0.4; may be repeated.
    rounds
        Decisions in each simulated run.
    replications
        Simulated runs.
    workers
        Cores to use; all by default.
    yes
        Ask nothing: accept the proposals, except where options say otherwise.
    force
        Replace existing files.
    no_open
        Don't open the page in a browser (only a terminal run does).
    """
    if not yes and not sys.stdin.isatty():
        raise InvalidInput("stdin is not a terminal. Use --yes to accept the proposals.")
    asked = shlex.join(["tightrope", "init", *(["--from", from_.name] if from_ is not None else [])])
    size = {"rounds": rounds, "replications": replications}
    from tightrope.starting.text import plain_spec_text, spec_text

    proposal = None
    if from_ is None:
        answers = _answers(columns, name, actions, chance, yes)
        folder = output.out or Path(answers.name)
        data, reasons = answers.data(**size)
        text = plain_spec_text(data, reasons, asked=asked)
    else:
        if actions or chance:
            words = "--actions and --chance can't be used with --from: the table says both."
            raise InvalidInput(words)
        folder = output.out or Path(from_.name.split(".")[0])
        proposal = _proposal(from_, folder, columns, name, yes, output)
        text = spec_text(proposal, **size, asked=asked)
    from tightrope.starting import start

    tell = partial(print, file=sys.stderr)
    found = start(text, folder, proposal=proposal, force=force, workers=workers, tell=tell)
    output.show(
        found.as_data(),
        "",
        *found.words(),
        *(f"doubt: {doubt}" for doubt in found.doubts),
        f"the spec is {found.path}, the page {found.page}",
        f"next: tightrope serve {shlex.quote(str(found.path))} --data {shlex.quote(str(folder / 'data'))}",
    )
    if not no_open and not output.json and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(found.page.resolve().as_uri())


def _proposal(
    path: Path, folder: Path, columns: Columns, name: str | None, yes: bool, output: Output
) -> Proposal:
    """What the columns of a table are; on a terminal, after the user's corrections."""
    from tightrope.starting import propose
    from tightrope.tables import read_table

    file = os.path.relpath(path.resolve(), folder.resolve())
    read = partial(propose, read_table(path), file=file, name=name or path.name.split(".")[0])
    given = {
        **{one: getattr(columns, one) for one in (*_OF_TABLES, "context")},
        "usage": () if columns.no_usage else columns.usage or None,
        "rules": () if columns.no_rules else columns.rule or None,
    }
    proposal = read(**given)
    if not yes:
        return _agreed(read, proposal, given, output)
    if not output.json:
        output.show(None, _parts(proposal))
    return proposal


def _agreed(
    read: Callable[..., Proposal], proposal: Proposal, given: dict[str, Any], output: Output
) -> Proposal:
    while True:
        output.show(None, _parts(proposal))
        answer = _ask(f"Is that right? Press Enter, or say what is wrong: {', '.join(_ASKED)}", "")
        what = answer.strip().lower().removeprefix("the ").rstrip("s")
        if not what:
            return proposal
        if what not in _ASKED:
            print(f"  Type one of these six names, not {answer!r}.")
            continue
        now = _ask(f'{what}, separated by commas if there are several; "none" for nothing', "")
        several = [] if now.strip() == "none" else [one.strip() for one in now.split(",") if one.strip()]
        single = several[0] if several else None
        changes: dict[str, Any] = {
            "action": {"action": single, "label": None},
            "reward": {"reward": several, "label": None},
            "label": {"label": single, "action": None, "reward": ()},
            "context": {"context": several},
            "usage": {"usage": several},
            "rule": {"rules": several},
        }
        try:
            proposal = read(**(given | changes[what]))
            given |= changes[what]
        except InvalidInput as error:
            print(f"  {error}")


def _answers(
    columns: Columns, name: str | None, actions: str | None, chance: tuple[str, ...], yes: bool
) -> Answers:
    """What options say about a problem without a table; on a terminal the user is asked for the rest."""
    from tightrope.starting import Answers
    from tightrope.starting.questions import read_usage

    for option in _OF_TABLES:
        if getattr(columns, option):
            raise InvalidInput(f"--{option} names a column of a table. Use --from to name the table.")
    answers = Answers(
        name=name or "experiment",
        actions=tuple(one.strip() for one in (actions or "a, b").split(",")),
        context=columns.context,
        rules=() if columns.no_rules else columns.rule or None,
        usage=dict(read_usage(one) for one in columns.usage),
        chances=dict(_chance(one) for one in chance),
    )
    return answers if yes else Answers.asked(_ask, answers)


def _chance(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    try:
        return name.strip(), float(value)
    except ValueError:
        raise InvalidInput(field="chance", must="look like 'letter=0.4'", got=text) from None


def _ask(question: str, default: str) -> str:
    """The answer; Enter stands for the default."""
    shown = f"{question} [{default}]: " if default else f"{question}: "
    try:
        return input(shown).strip() or default
    except EOFError:
        raise KeyboardInterrupt from None


def _parts(proposal: Proposal) -> Any:
    rows = [(part.what, part.role, part.why) for part in proposal.parts]
    return table("", ("column", "taken as", "why"), rows)
