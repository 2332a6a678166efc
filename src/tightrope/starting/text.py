"""A spec as TOML that a stranger can read: every part with a comment that says what it is and why it was proposed.

The words are in `spec.toml.jinja`, beside this module.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tightrope import templates
from tightrope.log import LogColumns
from tightrope.starting.proposal import MOST_ROWS, Proposal, groups_of
from tightrope.starting.rule_text import rule_name
from tightrope.toml import key_text, value_text

_WIDTH = 118
SPEC = "spec.toml"


def spec_text(proposal: Proposal, *, rounds: int, replications: int, asked: str) -> str:
    """The spec of a table; `asked` is the command that made it."""
    history = proposal.history
    stated = {name: getattr(history, name) for name in ("file", *LogColumns.__struct_fields__)}
    table = {name: value for name, value in stated.items() if value not in (None, {})}
    sample = {"rows": MOST_ROWS} if proposal.sampled else {}
    grouped = any("among" in one for one in proposal.rules)
    data = {
        "name": proposal.name,
        "actions": list(proposal.log.action_names),
        "groups": groups_of(proposal.log) if grouped else [],
        "reward": {"range": list(proposal.reward_range)},
        "rule": proposal.rules,
        "environment": {"kind": "table", **table, **sample},
        "simulation": {"rounds": rounds, "replications": replications},
        "warm_start": table,
    }
    reasons = {rule_name(one): proposal.why("rule", rule_name(one)) for one in proposal.rules}
    return plain_spec_text(data, reasons, asked=asked, proposal=proposal)


def plain_spec_text(
    data: Mapping[str, Any], reasons: Mapping[str, str], *, asked: str, proposal: Proposal | None = None
) -> str:
    """The spec from answers to questions, and why it has its rules; or from the `proposal` that they came from."""
    columns = {} if proposal is None else proposal.encoder.columns
    return templates.render(
        "tightrope.starting/spec.toml.jinja",
        **{"groups": (), "context": {}, "rule": (), "warm_start": {}, **data},
        asked=asked,
        proposal=proposal,
        file_name=None if proposal is None else Path(proposal.history.file).name,
        columns={name: _readable(msgspec.to_builtins(one)) for name, one in columns.items()},
        reasons=lambda *roles: "" if proposal is None else _reasons(proposal, roles),
        why_rule=lambda rule: reasons.get(rule_name(rule), ""),
        toml=value_text,
        entry=_entry,
        listed=_listed,
        comment=_comment,
    )


def _reasons(proposal: Proposal, roles: tuple[str, ...]) -> str:
    """Why some parts were proposed, those with the same reason together."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for part in proposal.parts:
        if part.role in roles:
            by_reason.setdefault((part.role, part.why), []).append(repr(part.what))
    found = []
    for (role, why), names in by_reason.items():
        shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        found.append(f"{role.capitalize()}: {shown} ({why}).")
    return " ".join(found)


def _readable(column: dict[str, Any]) -> dict[str, Any]:
    """With the type first, and for a number what happens outside its range."""
    last = {"outside": column.get("outside", "clip")} if column["type"] == "number" else {}
    return {"type": column.pop("type"), **column, **last}


def _entry(name: str, stated: Mapping[str, Any]) -> str:
    """On one line, or, if that is too long, one line for each field."""
    line = f"{key_text(name)} = {value_text(stated)}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join(f"{key_text(name)}.{field} = {value_text(value)}" for field, value in stated.items())


def _listed(names: Sequence[str]) -> str:
    """A list on one line, or, if that is too long, on several."""
    line = value_text(list(names))
    if len(line) <= _WIDTH - len("actions = "):
        return line
    wrapped = textwrap.wrap(", ".join(value_text(one).replace(" ", "\0") for one in names), _WIDTH - 2)
    return "\n".join(["[", *(f"  {one}" for one in wrapped), "]"]).replace("\0", " ")


def _comment(text: str = "", caller: Callable[[], str] | None = None) -> str:
    words = text if caller is None else caller() + "\n"
    wrapped = textwrap.wrap(" ".join(words.split()), _WIDTH)
    return "\n".join(f"# {line}" for line in wrapped) + ("\n" if caller is not None else "")
