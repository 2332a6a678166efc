"""What a new configuration takes over from the one before: the state of the policy, the accounts, and what limits have allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from tightrope.ledger.account import LimitAccount, Summed
from tightrope.ledger.ledger import Ledger
from tightrope.ledger.windows import Windows
from tightrope.policies import Policy
from tightrope.policies.living_actions import begin_like
from tightrope.service.journal import packing
from tightrope.spec import Spec


class Held(msgspec.Struct, frozen=True, array_like=True):
    """When a limit began to hold, in microseconds, and its account until then; what is not known is nan."""

    since: int
    decisions: int
    used: float
    allowed: float


class Successor(NamedTuple):
    """A policy and a ledger that go on where others stand.

    `moved` says where each hard cap continues, None if all are where they were; `same_columns` whether constraints are the same.
    """

    policy: Policy
    ledger: Ledger
    moved: dict[int, list[int]] | None
    held: dict[str, Held]
    same_columns: bool


def join_like(policy: Policy, spec: Spec, first: int) -> None:
    """Let the actions from number `first` on begin with the beliefs of those that they are said to be like."""
    for action, name in enumerate(spec.actions[first:], start=first):
        like = spec.action(name).like
        if like is not None:
            begin_like(policy, action, spec.registry.id(like))


def same_ledger(
    ledger: Ledger,
    spec: Spec,
    policy: Summed | None,
    names: Mapping[str, str] | None = None,
    windows: Windows | None = None,
) -> Ledger:
    """The ledger under a spec with the same rules; `names` are the new names of actions, by the old ones."""
    new, saved = Ledger(spec, policy, windows), packing.unpacked_state(packing.packed(ledger.saved()))
    saved["caps"] = [[cap.name, *kept] for cap, (_, *kept) in zip(new.caps, saved["caps"], strict=True)]
    new.restore(saved)
    if new.own_windows is not None and ledger.own_windows is not None:
        new.own_windows.load(ledger.own_windows.arrays())
    for i, one in enumerate(new.spent):
        if one.actions is not None and names:
            called = tuple(names.get(name, name) for name in one.actions)
            new.spent[i] = msgspec.structs.replace(one, actions=called)
    return new


def held_after(
    held: Mapping[str, Held], old: Sequence[LimitAccount], new: Sequence[LimitAccount], time: int
) -> dict[str, Held]:
    """What limits have held, by column, after a change at `time`."""
    before, found = {one.column.name: one for one in old}, {}
    for limit in new:
        name = limit.column.name
        was = before.get(name)
        if was is None:
            found[name] = Held(time, 0, 0.0, 0.0)
        elif was.column.limit != limit.column.limit:
            found[name] = Held(time, was.decisions or 0, was.used, was.allowed)
        elif name in held:
            found[name] = held[name]
    return found


def renamed_columns(
    held: Mapping[str, Held], old: Sequence[LimitAccount], new: Sequence[LimitAccount]
) -> dict[str, Any]:
    """The same under the names that the columns have when actions have other names."""
    names = {one.column.name: other.column.name for one, other in zip(old, new, strict=True)}
    return {names[name]: one for name, one in held.items()}
