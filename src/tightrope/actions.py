"""The registry of actions: names, ids that never change, and which actions are on offer. It only ever grows.

>>> wards = Actions(["icu", "surgery", "other"])
>>> wards.ids(["other", 0]), wards.name(1), len(wards)
([2, 0], 'surgery', 3)
>>> later = wards.with_action("hospice").with_state("surgery", "retired")
>>> later.id("hospice"), later.state("surgery"), later.active
(3, 'retired', (0, 2, 3))
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.validation import Name, require_choice, whole_number
from tightrope.words import Place, Text

Action: TypeAlias = str | int
# On offer; off offer until it comes back; off offer for good (what was learnt and counted about it stays).
State: TypeAlias = Literal["active", "paused", "retired"]


class Actions:
    """The actions of a problem, in the order of their ids. It never changes: adding an action makes a new registry.

    Models, counts, trails and rules refer to ids, so an action keeps what was learnt and counted about it.

    Parameters
    ----------
    actions : sequence of names, int or None
        With an int n the actions are 0, …, n − 1 and have no names. None: the number is not known yet.
    states : mapping from ids, optional
        The states of those that are not active.
    """

    __slots__ = ("_ids", "_limit", "_states", "active", "names")

    names: Sequence[Action]
    # The ids on offer by default: those of the active actions.
    active: Sequence[int]

    def __init__(
        self, actions: Sequence[Action] | int | None, states: Mapping[int, State] | None = None
    ) -> None:
        self.names = () if actions is None else _declared(actions)
        self._ids = {str(name): i for i, name in enumerate(self.names)} if self.named else {}
        self._limit = 2**63 if actions is None else len(self.names)
        self._states = dict(states or {})
        self.active = range(len(self.names))
        if states:
            self.active = tuple(i for i in self.active if self._states.get(i, "active") == "active")
            if not self.active:
                must = "hold at least one active action, but all are paused or retired"
                raise InvalidInput(field="actions", must=must)

    @property
    def named(self) -> bool:
        return bool(self.names) and isinstance(self.names[0], str)

    def ids(self, actions: Any, what: str = "actions", *, once: bool = False) -> list[int]:
        """The id of each action, given by name or by id; with `once` none may come twice. `what` is for messages."""
        unordered = isinstance(actions, str | bytes | Mapping | Set) or not hasattr(actions, "__len__")
        if unordered or getattr(actions, "ndim", 1) != 1:
            raise InvalidInput(field=what, must="be a sequence of names or ids of actions", got=actions)
        if not len(actions):
            raise InvalidInput(field=what, must="name at least one action, but it is empty")
        known, limit = self._ids, self._limit
        ids: list[int] = []
        for i, action in enumerate(actions.tolist() if isinstance(actions, np.ndarray) else actions):
            if type(action) is int and 0 <= action < limit:
                ids.append(action)
            else:
                found = known.get(action) if isinstance(action, str) else None
                ids.append(self.id(action, Place(what, i)) if found is None else found)
        if once and len(set(ids)) < len(ids):
            raise InvalidInput(field=what, must="name each action once", got=list(actions))
        return ids

    def id(self, action: Any, what: Name = "action") -> int:
        if isinstance(action, str):
            if action in self._ids:
                return self._ids[action]
            hint = f"{did_you_mean(action, self._ids)}; {self._known()}"
            problem = Text("is the unknown name {action!r}{hint}", action=action, hint=hint)
            raise InvalidInput(field=what, problem=problem)
        number = whole_number(what, action, high=2**63 - 1)
        if number >= self._limit:
            raise InvalidInput(field=what, must=f"be below {self._limit}, the number of actions", got=number)
        return number

    def name(self, action: int) -> Action:
        """The name of the action with this id; the id itself where actions have no names."""
        return self.names[action] if self.named else action

    def state(self, action: Action) -> State:
        return self._states.get(self.id(action), "active")

    @property
    def states(self) -> dict[int, State]:
        """The states of those that are not active, by id."""
        return {i: state for i, state in sorted(self._states.items()) if state != "active"}

    @property
    def whole(self) -> bool:
        """Whether every action is active."""
        return len(self.active) == len(self.names)

    def with_action(self, name: str) -> Actions:
        """The registry with one more action, whose id is the next."""
        if not self.named:
            raise InvalidInput("can't add an action to actions without names; give them names.")
        return Actions([*self.names, name], self._states)

    def with_state(self, action: Action, state: State) -> Actions:
        """The registry with an action in another state; what is retired stays so."""
        require_choice("state", state, get_args(State))
        if self.state(action) == "retired":
            problem = "is retired for good; add a new action instead"
            raise InvalidInput(field=f"action {action!r}", problem=problem)
        return Actions(self.names, {**self._states, self.id(action): state})

    def with_name(self, action: Action, name: str) -> Actions:
        """The registry with another name for an action, which keeps its id."""
        own = self.id(action)
        return Actions([name if i == own else one for i, one in enumerate(self.names)], self._states)

    def unknown(self, action: Any) -> str:
        return f"unknown action {action!r}{did_you_mean(action, self._ids)}; {self._known()}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Actions):
            return NotImplemented
        return (tuple(self.names), self.states) == (tuple(other.names), other.states)

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __contains__(self, action: object) -> bool:
        """Whether an action was declared under just this name, or this number where there are no names."""
        return action in (self._ids if self.named else self.names)

    def __iter__(self) -> Iterator[Action]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _known(self) -> str:
        if self.named:
            return f"known: {', '.join(map(str, self.names))}"
        return "actions have no names here" + (f", they are 0 to {self._limit - 1}" if self.names else "")


def count(counts: list[int], action: int) -> None:
    counts.extend([0] * (action + 1 - len(counts)))
    counts[action] += 1


def counted(counts: Sequence[int], action: int) -> int:
    return counts[action] if action < len(counts) else 0


def action_name(what: Name, value: object) -> Action:
    if isinstance(value, str):
        if value:
            return str(value)
    elif (number := _index(value)) is not None and number >= 0:
        return number
    raise InvalidInput(field=what, must="be a name that is not empty, or an index >= 0", got=value)


def _index(value: object) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _declared(actions: object) -> Sequence[Action]:
    count = _index(actions)
    if count is not None:
        if count < 1:
            raise InvalidInput(field="actions", must="be at least 1", got=count)
        return range(count)
    if not isinstance(actions, Sequence) or isinstance(actions, str):
        raise InvalidInput(field="actions", must="be a list of names or a number of actions", got=actions)
    if not actions:
        raise InvalidInput(field="actions", must="name at least one action, but the list is empty")
    names = tuple(action_name(Place("actions", i), one) for i, one in enumerate(actions))
    if all(isinstance(name, str) for name in names):
        if len(set(names)) < len(names):
            i = next(i for i, name in enumerate(names) if name in names[:i])
            must = f"differ from the other names, but {names[i]!r} comes twice"
            raise InvalidInput(field=Place("actions", i), must=must)
    elif names != tuple(range(len(names))):
        raise InvalidInput(field="actions", must="be names, or 0, 1, 2, … in this order", got=list(names))
    return names
