"""Errors in the words of whoever typed a command: its options and the fields of a spec, not arguments and classes.

The package's messages are written for who calls it from Python. Those that reach a terminal pass through here, once, in `main`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Final

# Whole phrases first: what there is to call in Python, and what does the same from the command line.
_PHRASES: Final = {
    "`policy.conflict()`": "`tightrope oracle SPEC`",
    "`policy.change_limit` moves one while running": "another limit in the spec of a service moves one while running",
    "(`policy.follow`)": "(mode shadow of the service)",
    "`tr.solve` says of an environment": "`tightrope oracle SPEC` says of an environment",
    "a log of past rounds (`warm_start`)": "more rounds",
    "teach the policy from a log (`warm_start`), ": "",
    "tightrope.oracle.benchmark(env, rounds)": "`tightrope simulate SPEC`",
    "env.phases": "its phases",
    "slater=None measures Slater's constant from": "without slater, Slater's constant is measured from",
    "slater=None can't be measured": "without slater, Slater's constant can't be measured",
    "True or False": "true or false",
    ", or None,": ",",
}
_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "datetime": "a day or a time, such as 2025-01-31",
}
_UNREADABLE: Final = re.compile(r'(--[\w-]+|[A-Z]+): unable to convert "(.*?)" into (\w+)')
_SUBJECT: Final = re.compile(r"^[a-z_]+(?= must )")
_CALL: Final = re.compile(r"(?<![\w.:'\"/])[A-Z]\w*(?=\()")
_WORD: Final = re.compile(r"(?<![\w.:'\"/])[A-Z][a-z]*[A-Z]\w*\b")
_GIVEN: Final = re.compile(
    r"(?<![\w.\-\"'?&:,])([a-zA-Z_]\w*)=(?:'([^']*)'|\"([^\"]*)\"|([^\s=,;)]*[^\s=,;.):]))?"
)
_CONSTANTS: Final = {
    "None": "nothing",
    "True": "true",
    "False": "false",
    "Power": "schedule",
    "Tabular": "tabular",
}
_CONSTANT: Final = re.compile(rf"(?<![\w.:'\"/])({'|'.join(_CONSTANTS)})\b")


def in_command_words(message: str, options: Collection[str] = ()) -> str:
    """A message of the package, for the terminal; `options` are those of the command, such as ``--keys``.

    >>> in_command_words("so keys are needed: give keys=, or listen on 127.0.0.1.", ["--keys"])
    'so keys are needed: give --keys, or listen on 127.0.0.1.'
    >>> in_command_words("this needs engine='cpu', and DisjointRidge(3, 2), not Ridge(5, m=1), with guard=True.", ["--engine"])
    'this needs --engine cpu, and disjoint-ridge, not ridge, with guard = true.'
    """
    for said, meant in _PHRASES.items():
        message = message.replace(said, meant)
    message = _UNREADABLE.sub(
        lambda found: f'{found[1]}: must be {_KINDS.get(found[3], "another value")}, but got "{found[2]}"',
        message,
    )
    message = _SUBJECT.sub(
        lambda found: option if (option := _option(found[0])) in options else found[0], message
    )
    message = _without_calls(message)
    message = _WORD.sub(lambda found: _spec_names().get(found[0].lower(), found[0]), message)
    message = _GIVEN.sub(lambda found: _stated(found, options), message)
    return _CONSTANT.sub(lambda found: _CONSTANTS[found[0]], message)


def _stated(found: re.Match[str], options: Collection[str]) -> str:
    """An argument as an option of the command, where it has one of that name, else as a field of the spec."""
    name, option = found[1], _option(found[1])
    text = next((one for one in found.groups()[1:3] if one is not None), None)
    value = found[4]
    if option in options:
        return " ".join(one for one in (option, text or value) if one)
    if text is None and value is None:
        return name
    return f'{name} = "{text}"' if value is None else f"{name} = {value}"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _without_calls(message: str) -> str:
    """Things by the names that they have in a spec, without what they were made with in Python."""
    done, at = "", 0
    while (found := _CALL.search(message, at)) is not None:
        end, depth = found.end(), 0
        for end in range(found.end(), len(message)):
            depth += {"(": 1, ")": -1}.get(message[end], 0)
            if depth == 0:
                break
        done += message[at : found.start()] + _spec_names().get(found[0].lower(), found[0].lower())
        at = end + 1
    return done + message[at:]


@cache
def _spec_names() -> Mapping[str, str]:
    """The names of models, policies and rules in a spec, by those of their classes in small letters."""
    from tightrope.models import MODELS
    from tightrope.policies.registry import POLICIES
    from tightrope.rules import RULE_KINDS

    return {name.replace("-", ""): name for registry in (MODELS, POLICIES, RULE_KINDS) for name in registry}
