"""What commands share: the application, `main` with its exit status, where output goes.

A command is a function decorated with `@command("an example of it")`. It imports what it needs when it runs, hands tables for
people and data for machines to its `Output`, and returns nothing. `main` turns the errors that the package raises on purpose into
messages.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from cyclopts import App, CoercionError, CycloptsError, Group, Parameter

from tightrope.errors import InfeasibleProblem, InvalidInput, TightropeError
from tightrope.extras import remedy
from tightrope.version import __version__
from tightrope.words import CommandLine

_Function = TypeVar("_Function", bound=Callable[..., Any])

# The commands that tightrope-lab adds.
LABORATORY = ("reproduce", "compare", "evidence", "bakeoff", "bench", "calibrate")
# How `tightrope --help` lists the commands: by purpose, those to begin with first.
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "Start here": ("init", "simulate", "serve", "evaluate", "allocate"),
    "Choose rules, models and settings": ("oracle", "tune", "sweep", "fit"),
    "Run a service": ("change", "keys", "openapi", "migrate"),
    "Look after journals": ("replay", "backup", "restore", "erase"),
    "Laboratory": LABORATORY,
    "About Tightrope": ("examples", "version", "--help", "--version"),
}
_OTHERS = "Other commands"
OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = App(
    name="tightrope",
    help="Learn to decide under rules that must hold at all times.",
    help_format="markdown",
    help_epilogue=(
        "`tightrope COMMAND --help` explains a command, with an example; "
        "`tightrope examples` copies the files that the examples use.\n\n"
        "Exit status: 0; 1 when something failed; 2 for bad usage or a bad spec; 130 after Ctrl-C."
    ),
    version=__version__,
    version_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)


def list_in_groups(app: App) -> None:
    """Put each command of the application into its group of the help; one that no group names comes last."""
    groups = {name: Group(name, sort_key=i) for i, name in enumerate([*GROUPS, _OTHERS])}
    places = {name: (group, i) for group, names in GROUPS.items() for i, name in enumerate(names)}
    for name in app:
        if name not in places and name.startswith("-"):
            continue  # a short form, such as -h
        group, place = places.get(name, (_OTHERS, 0))
        app[name].group, app[name].sort_key = groups[group], place


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
    # With --json nothing is said about compilation, except that the cache can't be written.
    level = logging.WARNING if "--json" in tokens else logging.NOTSET
    logging.getLogger("tightrope.kernels.compile").setLevel(level)
    try:
        app(tokens, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        if tokens[0] in LABORATORY and tokens[0] not in app:
            missing = f"`tightrope {tokens[0]}` is part of the laboratory: pip install tightrope-lab"
            return _complain(missing, BAD_INPUT)
        return _complain(f"{_misread(error)}\nTry `tightrope --help`.", BAD_INPUT)
    except (InvalidInput, InfeasibleProblem) as error:
        return _complain(f"{error.said(_language(tokens))}{_where_examples_are(tokens)}", BAD_INPUT)
    except TightropeError as error:
        return _complain(error.said(_language(tokens)), FAILED)
    except ModuleNotFoundError as error:
        return _complain(remedy(error), FAILED)
    except BrokenPipeError:
        # The reader closed the pipe, as `| head` does; without this Python complains again when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    return OK


# Options that many commands share. `Trust` is for every command that reads what someone may have sent you.
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Several = Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)]
_TRUST = "Run your own classes and files that specs, journals and saved policies name: they are programs."
Trust = Annotated[bool, Parameter(negative=(), show_default=False, help=_TRUST)]


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Where a command's results go."""

    json: Flag = False
    "One JSON object on standard output, and nothing else there."
    out: Path | None = None
    "Folder for everything that the command writes; created if it does not exist."

    def folder(self) -> Path | None:
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        return self.out

    def keep(self, name: str, data: Any) -> list[str]:
        """Write `data` to a file in the folder, if there is one; returns a line that says so."""
        from tightrope.files import write_json

        if (folder := self.folder()) is None:
            return []
        write_json(folder / name, data, indent=2)
        return [f"written to {folder / name}"]

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


DEFAULT = Output()


@Parameter(name="*")
@dataclass(frozen=True)
class Runs:
    """How much is simulated, and on how many cores."""

    rounds: int | None = None
    "Decisions in each replication; by default those of the spec or the study."
    replications: int | None = None
    "Independent runs of each policy; by default those of the spec or the study."
    seed: int | None = None
    "The same seed gives the same numbers; by default that of the spec, or 0."
    workers: int | None = None
    "Cores to use; all by default."


AS_STATED = Runs()


def command(example: str, *, of: App = app, name: str | None = None) -> Callable[[_Function], _Function]:
    """Decorator: make a function a command, with an example below its help."""

    def add(function: _Function) -> _Function:
        of.command(function, name=name, help_epilogue=f"Example: `{example}`")
        return function

    return add


def _where_examples_are(tokens: Sequence[str]) -> str:
    """A hint for someone who typed a command from the help without having the files that it names."""
    named = [token for token in tokens if token.startswith("examples/")]
    missing = any(not Path(token.partition(":")[0]).exists() for token in named)
    return "\n`tightrope examples` copies the examples here." if missing else ""


def _language(tokens: Sequence[str]) -> CommandLine:
    """The language of someone who typed these tokens: it knows the options of the command they begin with."""
    _, [*_, called], _ = app.parse_commands(tokens)
    arguments = () if called.default_command is None else called.assemble_argument_collection()
    return CommandLine([name for one in arguments for name in one.names])


_KINDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    datetime: "a date or a time, such as 2025-01-31",
}


def _misread(error: CycloptsError) -> str:
    if isinstance(error, CoercionError) and error.target_type in _KINDS and error.token and error.argument:
        name = error.token.keyword or error.argument.name.lstrip("-").upper()
        return f'{name} must be {_KINDS[error.target_type]}, but got "{error.token.value}".'
    return " ".join(str(error).split())  # without the frame drawn around it


def _complain(message: str, status: int) -> int:
    print(f"tightrope: {message}", file=sys.stderr)
    return status
