"""A spec as TOML that a stranger can read: every part with a comment that says what it is and why it was proposed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tightrope.log import History, LogColumns
from tightrope.starting.proposal import Part, Proposal, rule_name
from tightrope.toml import key_text, value_text

_WIDTH = 118
SPEC = "spec.toml"


def spec_text(proposal: Proposal, *, rounds: int, replications: int, asked: str) -> str:
    """The spec of a table; `asked` is the command that it was made by."""
    history, log = proposal.history, proposal.log
    lines = [
        *_heading(proposal.name, f"made by `{asked}` from {len(log):,} rows of {Path(history.file).name}"),
        f"name = {value_text(proposal.name)}",
        "",
        *_comment("What can be done. " + _told(proposal.parts, "action", "label")),
        f"actions = {value_text(list(log.action_names))}",
        "",
        *_comment(
            "What callers send with every decision, by name. A row becomes the numbers that models learn from: x = (1, numbers "
            "less their mean in standard deviations, one indicator for each value of a category, …) / norm. A number that is not "
            'between its min and max, those of the table, is clipped: the nearer end stands in for it. outside = "refuse" refuses '
            'it, outside = "take" takes it as it is.'
        ),
        "[context.encoder]",
        f"norm = {proposal.encoder.norm!r}",
        "",
        "[context.encoder.columns]",
    ]
    for name, column in proposal.encoder.columns.items():
        lines += _comment(proposal.why("context", name))
        lines += _column(key_text(name), _readable(msgspec.to_builtins(column)))
    lines.append("")
    left = [part for part in proposal.parts if part.role == "left out"]
    for part in left:
        lines += _comment(f"left out: {part.what}: {part.why}")
    lines += [""] if left else []
    lines += _reward(proposal.reward_range)
    lines += _rules(
        proposal.rules, {rule_name(one): proposal.why("rule", rule_name(one)) for one in proposal.rules}
    )
    lines += _policy()
    lines += _comment(
        "For oracle, simulate and tune: the table as a world to try policies in. "
        + _told(proposal.parts, "reward", "usage", "group")
    )
    lines += ["[environment]", 'kind = "table"', *_history(history), ""]
    lines += _simulation(rounds, replications)
    lines += _comment(
        "For serve: what the policy has learnt before its first decision. Without this table it starts with no knowledge. "
        "It is read once, when the experiment begins; the journal keeps what was learnt."
    )
    lines += ["[warm_start]", *_history(history), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def plain_spec_text(data: Mapping[str, Any], reasons: Mapping[str, str], *, asked: str) -> str:
    """The spec of answers to questions."""
    lines = [*_heading(str(data["name"]), f"made by `{asked}`"), f"name = {value_text(data['name'])}", ""]
    lines += [*_comment("What can be done."), f"actions = {value_text(data['actions'])}", ""]
    if data.get("context"):
        lines += [*_comment("What callers send with every decision, by name."), "[context]"]
        lines += [f"{key_text(name)} = {value_text(one)}" for name, one in data["context"].items()]
        lines.append("")
    lines += _reward(data["reward"]["range"])
    lines += _rules(data.get("rule", ()), reasons)
    lines += _policy()
    lines += _comment(
        "For oracle, simulate and tune: a guess of how often each action succeeds, in the order of the actions, whatever the "
        "context. Put a table in its place as soon as there is one: tightrope init --from TABLE.csv"
    )
    lines.append("[environment]")
    lines += [f"{name} = {value_text(one)}" for name, one in data["environment"].items()]
    lines.append("")
    lines += _simulation(**data["simulation"])
    return "\n".join(lines).rstrip("\n") + "\n"


def _heading(name: str, made: str) -> list[str]:
    return [
        *_comment(f"{name}: {made}. All of it is a proposal: change what is wrong."),
        "#",
        f"#   tightrope oracle {SPEC}              # the best policy of the simulated world",
        f"#   tightrope simulate {SPEC}            # what this one does, many times over",
        f"#   tightrope tune {SPEC}                # do other settings of it do better?",
        f"#   tightrope serve {SPEC} --data data   # decisions over HTTP",
        "",
    ]


def _rules(rules: Sequence[Mapping[str, Any]], reasons: Mapping[str, str]) -> Iterator[str]:
    if rules:
        yield from _comment("What must hold at all times, on average over the decisions made so far.")
    else:
        yield from _comment(
            'No rule: everything may be done at any time. One would look like this: kind = "capacity", action, at_most.'
        )
    for rule in rules:
        yield from _comment(reasons.get(rule_name(rule), "")) if reasons.get(rule_name(rule)) else ()
        yield "[[rule]]"
        for name, value in rule.items():
            yield f"{name} = {value_text(value)}{_SAID.get(name, '')}"
        yield ""
    if not rules:
        yield ""


_SAID = {
    "range": "    # what it is known to lie in",
    "seen": "    # acting comes first: what is used is learnt",
}


def _reward(ends: Sequence[float]) -> list[str]:
    low, high = ends
    why = (
        ""
        if (low, high) == (0, 1)
        else " It goes twice as far as the table: widen it where that is too narrow."
    )
    return [
        *_comment(f"What a reward must lie in: an outcome outside is refused.{why}"),
        "[reward]",
        f"range = {value_text([low, high])}",
        "",
    ]


def _policy() -> list[str]:
    return [
        *_comment("Who decides. It needs no settings: prices for the rules are found as decisions are made."),
        "[policy]",
        'kind = "shadow-price"',
        "",
    ]


def _simulation(rounds: int, replications: int) -> list[str]:
    return ["[simulation]", f"rounds = {rounds}", f"replications = {replications}", ""]


def _history(history: History) -> Iterator[str]:
    yield f"file = {value_text(history.file)}"
    for name in LogColumns.__struct_fields__:
        value = getattr(history, name)
        if value not in (None, {}):
            yield f"{name} = {value_text(value)}"


def _told(parts: Sequence[Part], *roles: str) -> str:
    """Why some parts were proposed, those with the same reason together."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        if part.role in roles:
            by_reason.setdefault((part.role, part.why), []).append(repr(part.what))
    found = []
    for (role, why), names in by_reason.items():
        shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        found.append(f"{role[0].upper()}{role[1:]}: {shown} ({why}).")
    return " ".join(found)


def _readable(column: dict[str, Any]) -> dict[str, Any]:
    """With the type first, and of a number what becomes of one outside its range."""
    first = {"type": column["type"]}
    last = {"outside": column.get("outside", "clip")} if column["type"] == "number" else {}
    return {**first, **{name: value for name, value in column.items() if name != "type"}, **last}


def _column(name: str, stated: Mapping[str, Any]) -> list[str]:
    """On one line, or where that is too long one line for each field."""
    line = f"{name} = {value_text(stated)}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{name}.{field} = {value_text(value)}" for field, value in stated.items()]


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, _WIDTH)]
