"""The ``[allocate]`` of a spec: what the columns of its tables stand for."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from tightrope.allocation.whole_table import Task
from tightrope.errors import InvalidInput
from tightrope.spec import Spec, convert_table

_Source: TypeAlias = str | float


class AllocateSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of ``[allocate]``, as the arguments of `tr.allocate`."""

    reward: dict[str, _Source]
    usage: dict[str, _Source | dict[str, _Source]] = {}
    eligible: dict[str, str] = {}
    group: str | list[str] | None = None
    keys: dict[str, str] = {}
    fixed: str | None = None
    previous: str | None = None
    max_changes: int | None = None
    id: str | None = None
    max_set_apart: float = 0.01


def task_of(spec: Spec) -> Task:
    """What a spec says of its tables. Usage that a rule fixes need not be repeated.

    >>> from tightrope.spec import read_spec
    >>> spec = read_spec('''
    ... actions = ["wait", "call"]
    ... [[rule]]
    ... kind = "budget"
    ... name = "cost"
    ... at_most = 0.5
    ... usage = { wait = 0.0, call = 2.0 }
    ... [allocate]
    ... reward = { wait = 0.0, call = "gain" }
    ... ''')
    >>> task_of(spec).layout.scores, task_of(spec).layout.usage
    ((0.0, 'gain'), {'cost': (0.0, 2.0)})
    """
    if not spec.allocate:
        example = '[allocate] with reward = { mail = "score_mail", none = 0.0 }'
        raise spec.error(f"allocate: is missing: say what the columns of the table are, such as {example}")
    if spec.rules is None:
        raise spec.error("rule: is missing: there is nothing to keep; add a [[rule]]")
    told: AllocateSpec = convert_table(spec.allocate, AllocateSpec, "allocate")
    arguments: dict[str, Any] = msgspec.structs.asdict(told)
    try:
        return Task.of(spec.rules, **{**arguments, "usage": {**spec.usage, **told.usage}})
    except InvalidInput as error:
        raise error.inside(f"{spec.source}: allocate") from error
