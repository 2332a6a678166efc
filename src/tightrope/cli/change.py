"""`tightrope change`: actions and limits of a running service, from a shell."""

from __future__ import annotations

import os
from typing import Any

from tightrope.cli.app import DEFAULT, Flag, Output, Several, command
from tightrope.errors import InvalidInput, TightropeError


@command("tightrope change http://127.0.0.1:8080 --pause cardiology --at-most nurse_hours=0.45 --check")
def change(
    url: str,
    *,
    add: Several = (),
    like: str | None = None,
    pause: Several = (),
    resume: Several = (),
    retire: Several = (),
    rename: Several = (),
    at_most: Several = (),
    at_least: Several = (),
    drop: Several = (),
    starts: float | None = None,
    check: Flag = False,
    experiment: str | None = None,
    key: str | None = None,
    output: Output = DEFAULT,
) -> None:
    """Change actions and limits of a service while it runs: all that is named together, or nothing.

    Parameters
    ----------
    url
        Of the service.
    add
        A new action; may be repeated, like the options below.
    like
        The action whose beliefs the added ones begin with.
    pause
        Take an action off offer for a time.
    resume
        Put a paused action on offer again.
    retire
        Take an action off offer for good.
    rename
        OLD=NEW: another name for an action.
    at_most
        RULE=LIMIT, with the rule's name as the service shows it.
    at_least
        RULE=LIMIT.
    drop
        A rule that no longer holds.
    starts
        From when all this holds, in seconds since 1970; at once by default.
    check
        Only say whether it is possible, and what it would change.
    experiment
        Required if the service has several.
    key
        With the scope admin; by default the one in TIGHTROPE_KEY.
    """
    from tightrope.service import Client, ServiceError

    states = {"paused": pause, "active": resume, "retired": retire}
    actions: dict[str, dict[str, Any]] = {
        name: {"state": state} for state, names in states.items() for name in names
    }
    for old, later in _pairs("rename", rename):
        actions.setdefault(old, {})["name"] = later
    rules: dict[str, dict[str, float] | None] = {}
    for side, given in (("at_most", at_most), ("at_least", at_least)):
        for name, limit in _pairs(side, given):
            rules[name] = {**(rules.get(name) or {}), side: _number(side, limit)}
    rules |= dict.fromkeys(drop)
    new: dict[str, dict[str, str]] = {name: {} if like is None else {"like": like} for name in add}
    key = os.environ.get("TIGHTROPE_KEY") if key is None else key
    with Client(url, key=key, experiment=experiment) as client:
        try:
            made = client.change(actions=actions, add=new, rules=rules, starts=starts, check=check)
        except ServiceError as error:
            raise TightropeError(str(error)) from error
    said = made["changes"] if made["possible"] else [made["why"] or "not possible"]
    output.show(made, "\n".join(said))


def _pairs(option: str, given: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for one in given:
        name, sign, value = one.rpartition("=")
        if not sign or not name or not value:
            raise InvalidInput(field=option, must="be NAME=VALUE", got=one)
        found.append((name, value))
    return found


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(field=option, must="be NAME=NUMBER", got=text) from None
