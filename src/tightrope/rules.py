"""Rules in plain words, and the costs that they stand for.

A rule limits the long-run average of a quantity: how often an action is chosen, or what the choices use up.
Its cost W is usage − limit (or minimum − share): 0 is exactly on the limit, and the rule asks that the
costs of the decisions made so far never sum to more than 0.

>>> beds, hours = Capacity("icu", at_most=0.25), Budget("nurse_hours", at_most=0.5)
>>> rules = Rules([beds, hours], actions=["icu", "other"])
>>> print(rules)
icu: at most 25% of decisions
nurse_hours: at most 0.5 per decision on average
>>> rules.costs(usage={"nurse_hours": [1.0, 0.25]})
array([[ 0.75,  0.5 ],
       [-0.25, -0.25]])
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import MISSING, dataclass, field, fields
from math import isfinite
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InfeasibleProblem, InvalidInput, SolverError

__all__ = ["Budget", "Capacity", "Column", "Mean", "Rule", "Rules", "Share"]

Action: TypeAlias = str | int
Seen: TypeAlias = Literal["before", "after"]
Side: TypeAlias = Literal["at_most", "at_least"]
Usage: TypeAlias = Mapping[str, ArrayLike | Mapping[Action, float]]
FloatArray: TypeAlias = NDArray[np.float64]


class Quantity(NamedTuple):
    """What a rule averages: the usage (None: 1) where one of `actions` (None: any) is chosen, else 0."""

    usage: str | None
    actions: tuple[Action, ...] | None
    range: tuple[float, float]

    @property
    def hull(self) -> tuple[float, float]:
        """The least and the greatest value, the 0 of actions that don't count included."""
        low, high = self.range
        return (low, high) if self.actions is None else (min(low, 0.0), max(high, 0.0))


class _Limits:
    """What the four kinds of rule have in common; their fields are their own."""

    @property
    def sides(self) -> tuple[tuple[Side, float], ...]:
        """The limits, one for each column of costs."""
        both: tuple[Side, Side] = ("at_most", "at_least")
        return tuple((side, getattr(self, side)) for side in both if getattr(self, side, None) is not None)

    @property
    def scale(self) -> float:
        """What the costs are divided by, so that |W| ≤ 1.

        The width of the shortest interval that holds every value of the quantity and every limit of the rule,
        or 1 if that is greater.
        """
        points = [*self.quantity.hull, *(limit for _, limit in self.sides)]
        return max(1.0, max(points) - min(points))

    @property
    def quantity(self) -> Quantity:
        """What the rule averages."""
        actions: tuple[Action, ...] | None = _members(getattr(self, "action", None)) or None
        if isinstance(self, Budget | Mean):
            return Quantity(self.name, actions, self.range)
        return Quantity(None, actions, (0.0, 1.0))

    def __repr__(self) -> str:
        first, *others = fields(self)  # type: ignore[arg-type]
        stated = [
            f"{one.name}={value!r}" for one in others if (value := getattr(self, one.name)) != one.default
        ]
        return f"{type(self).__name__}({', '.join([repr(getattr(self, first.name)), *stated])})"


@dataclass(frozen=True, repr=False)
class Capacity(_Limits):
    """An action (or several, counted together) takes at most a share of the decisions.

    Its cost is 1{a = action} − at_most.

    Parameters
    ----------
    action : name, or sequence of names
        Indices where the actions have no names.
    at_most : float
        In [0, 1].
    among : str or sequence of str, optional
        Groups of contexts. The rule then counts only the decisions of these groups, and costs 0 elsewhere.
    seen : "before" or "after"
        When the cost is known: before acting or after.
    name : str, optional
        Label of its column, instead of one made from the action.

    Examples
    --------
    >>> print(Capacity("icu", at_most=0.2))
    icu: at most 20% of decisions
    """

    action: Action | Sequence[Action]
    at_most: float
    among: str | Sequence[str] | None = field(default=None, kw_only=True)
    seen: Seen = field(default="before", kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = "capacity"

    def __post_init__(self) -> None:
        _set(self, action=_actions(self, self.action), at_most=_fraction(self, "at_most", self.at_most))
        _set(self, among=_groups(self, self.among), seen=_seen(self, self.seen), name=_label(self, self.name))

    def __str__(self) -> str:
        return _in_words(self, _subject(self.action), f"at most {_percent(self.at_most)}")


@dataclass(frozen=True, repr=False)
class Share(_Limits):
    """An action (or several, counted together) gets at least a share of the decisions.

    Its cost is at_least − 1{a = action}.

    Parameters
    ----------
    action : name, or sequence of names
        Indices where the actions have no names.
    at_least : float
        In [0, 1].
    among, seen, name
        As in `Capacity`.

    Examples
    --------
    >>> print(Share(["icu", "surgery"], at_least=0.3, among="A"))
    among group A: icu or surgery: at least 30% of that group's decisions
    """

    action: Action | Sequence[Action]
    at_least: float
    among: str | Sequence[str] | None = field(default=None, kw_only=True)
    seen: Seen = field(default="before", kw_only=True)
    name: str | None = field(default=None, kw_only=True)

    kind: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        _set(self, action=_actions(self, self.action), at_least=_fraction(self, "at_least", self.at_least))
        _set(self, among=_groups(self, self.among), seen=_seen(self, self.seen), name=_label(self, self.name))

    def __str__(self) -> str:
        return _in_words(self, _subject(self.action), f"at least {_percent(self.at_least)}")


@dataclass(frozen=True, repr=False)
class Budget(_Limits):
    """What the decisions use up stays, on average, below a limit.

    Its cost is (usage·1{a = action} − at_most) / scale; without `action`, the usage of every action counts.

    Parameters
    ----------
    name : str
        Name of the usage, as `Rules.costs` is given it.
    at_most : float
        Limit per decision.
    action : name, or sequence of names, optional
        Only what these actions use counts.
    among, seen
        As in `Capacity`.
    range : (low, high)
        What the usage is known to lie in.

    Examples
    --------
    >>> print(Budget("nurse_hours", at_most=0.1875, action="icu"))
    nurse_hours used by icu: at most 0.1875 per decision on average
    """

    name: str
    at_most: float
    action: Action | Sequence[Action] | None = None
    among: str | Sequence[str] | None = field(default=None, kw_only=True)
    seen: Seen = field(default="before", kw_only=True)
    range: tuple[float, float] = field(default=(0.0, 1.0), kw_only=True)

    kind: ClassVar[str] = "budget"

    def __post_init__(self) -> None:
        _set(self, name=_usage_name(self, self.name), at_most=_number(_where(self, "at_most"), self.at_most))
        if self.action is not None:
            _set(self, action=_actions(self, self.action))
        _set(
            self,
            among=_groups(self, self.among),
            seen=_seen(self, self.seen),
            range=_interval(self, self.range),
        )
        _finite_scale(self)

    def __str__(self) -> str:
        subject = self.name if self.action is None else f"{self.name} used by {_subject(self.action)}"
        return _in_words(self, subject, f"at most {_plain(self.at_most)}")


@dataclass(frozen=True, repr=False)
class Mean(_Limits):
    """The average of a quantity stays within limits: one column of costs for each side given.

    The costs are (usage − at_most) / scale and (at_least − usage) / scale.

    Parameters
    ----------
    name : str
        Name of the quantity, as `Rules.costs` is given it under `usage`.
    at_most, at_least : float, optional
        One of them, or both.
    among, seen
        As in `Capacity`.
    range : (low, high)
        What the quantity is known to lie in.

    Examples
    --------
    >>> print(Mean("wait", at_least=0.1, at_most=0.6))
    wait: at least 0.1 and at most 0.6 per decision on average
    """

    name: str
    at_most: float | None = None
    at_least: float | None = None
    among: str | Sequence[str] | None = field(default=None, kw_only=True)
    seen: Seen = field(default="before", kw_only=True)
    range: tuple[float, float] = field(default=(0.0, 1.0), kw_only=True)

    kind: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        _set(self, name=_usage_name(self, self.name))
        if self.at_most is None and self.at_least is None:
            raise InvalidInput(f"Mean({self.name!r}): at_most or at_least must be given, but got neither")
        if self.at_most is not None:
            _set(self, at_most=_number(_where(self, "at_most"), self.at_most))
        if self.at_least is not None:
            _set(self, at_least=_number(_where(self, "at_least"), self.at_least))
        _set(
            self,
            among=_groups(self, self.among),
            seen=_seen(self, self.seen),
            range=_interval(self, self.range),
        )
        _finite_scale(self)

    def __str__(self) -> str:
        words = [f"{side.replace('_', ' ')} {_plain(limit)}" for side, limit in reversed(self.sides)]
        return _in_words(self, self.name, " and ".join(words))


Rule: TypeAlias = Capacity | Share | Budget | Mean


class Column(NamedTuple):
    """One column of the cost matrix: its label, the rule it belongs to and which of its limits it is."""

    name: str
    rule: Rule
    side: Side


class Rules:
    """A set of rules over named actions; turns usage into the (J, K) matrix of costs that a policy needs.

    Parameters
    ----------
    rules : iterable of Capacity, Share, Budget, Mean
    actions : sequence of names, or int
        With an int n the actions are 0, …, n − 1.

    Raises
    ------
    InvalidInput
        For a rule that names an unknown action, repeats another, or gives a usage a second range.
    InfeasibleProblem
        When no policy can meet the rules, whatever the usage within its declared range and however often
        the groups occur. `error.rules` is an irreducible set of conflicting rules: without any one of them
        the others can be met. `error.relaxation` maps rules to changes of their limits (of both sides
        together) that make all rules feasible; no smaller sum of changes does.

    Notes
    -----
    A group may be as rare as it likes, so a rule `among` a group never conflicts with one for all decisions.
    Rules for different sets of groups are judged apart, overlapping or not: a conflict between rules for
    ``"A"``, for ``"B"`` and for ``("A", "B")`` together goes unnoticed.

    Examples
    --------
    >>> rules = Rules([Share("a", at_least=0.25), Budget("hours", at_most=0.5, range=(0, 2))], ["a", "b"])
    >>> rules.costs(usage={"hours": {"a": 1.0, "b": 0.5}})
    array([[-0.75,  0.25],
           [ 0.25,  0.  ]])
    >>> rules.names, rules.cost_range.tolist()
    (('share a', 'hours'), [[-0.75, 0.25], [-0.25, 0.75]])
    >>> Rules([Share("a", at_least=0.6), Share("b", at_least=0.5)], actions=["a", "b", "c"])
    Traceback (most recent call last):
        ...
    tightrope.errors.InfeasibleProblem: no policy can meet these rules: 'a: at least 60% of decisions' and
    'b: at least 50% of decisions' conflict; changing limits by 0.1 in total would do: lower ... by 0.1
    """

    def __init__(self, rules: Iterable[Rule], actions: Sequence[Action] | int) -> None:
        self._actions = _declared_actions(actions)
        self._ids: dict[Action, int] = {name: i for i, name in enumerate(self._actions)}
        self._rules = tuple(rules)
        for i, rule in enumerate(self._rules):
            if not isinstance(rule, Capacity | Share | Budget | Mean):
                raise InvalidInput(f"rules[{i}] must be a Capacity, Share, Budget or Mean, but got {rule!r}")
            if rule in self._rules[:i]:
                raise InvalidInput(f"rules[{i}] repeats rules[{self._rules.index(rule)}]: {rule!r}")
            for action in _members(rule.quantity.actions):
                if action not in self._ids:
                    raise InvalidInput(
                        f"rules[{i}]: unknown action {action!r}; expected one of {list(self._actions)}"
                    )
        self._ranges = _usage_ranges(self._rules)
        self._columns = _name_columns(self._rules)
        _refuse_conflicts(self._rules, self._ids)

        quantities = [column.rule.quantity for column in self._columns]
        signs = np.array([1.0 if column.side == "at_most" else -1.0 for column in self._columns])
        limits = np.array([dict(column.rule.sides)[column.side] for column in self._columns])
        self._scales = np.array([column.rule.scale for column in self._columns])
        self._offsets = signs * limits + 0.0
        self._weights = np.zeros((len(self._actions), len(self._columns)))
        for k, quantity in enumerate(quantities):
            counted = slice(None) if quantity.actions is None else [self._ids[a] for a in quantity.actions]
            self._weights[counted, k] = signs[k]

        self._seen = np.array([column.rule.seen == "before" for column in self._columns], dtype=np.bool_)
        self._cost_range = np.empty((len(self._columns), 2))
        for k, (column, quantity) in enumerate(zip(self._columns, quantities, strict=True)):
            costs = [(signs[k] * value - self._offsets[k]) / self._scales[k] for value in quantity.hull]
            if column.rule.among is not None:
                costs.append(0.0)
            self._cost_range[k] = min(costs), max(costs)
        self._seen.flags.writeable = False
        self._cost_range.flags.writeable = False
        self._usages = [quantity.usage for quantity in quantities]
        self._among = [frozenset(_members(column.rule.among)) for column in self._columns]
        self._all_groups = frozenset[str]().union(*self._among)
        self._plans: dict[tuple[frozenset[str] | None, tuple[int, ...] | None], _Plan] = {}

    @classmethod
    def from_data(cls, data: Iterable[Mapping[str, Any]], actions: Sequence[Action] | int) -> Rules:
        """Rules from plain tables, as read from JSON or from a spec's ``[[rule]]``; the inverse of `to_data`.

        Examples
        --------
        >>> Rules.from_data([{"kind": "capacity", "action": "a", "at_most": 0.5}], actions=["a", "b"])
        Rules([Capacity('a', at_most=0.5)], actions=['a', 'b'])
        """
        if isinstance(data, Mapping | str):
            raise InvalidInput(f"rules must be a list of tables, but got {data!r}")
        return cls([_rule_from_table(table, f"rules[{i}]") for i, table in enumerate(data)], actions)

    def to_data(self) -> list[dict[str, Any]]:
        """The rules as tables of builtin types, for JSON or TOML; the actions are not among them.

        Examples
        --------
        >>> Rules([Share("a", at_least=0.5)], actions=["a", "b"]).to_data()
        [{'kind': 'share', 'action': 'a', 'at_least': 0.5, 'seen': 'before'}]
        """
        return [{"kind": rule.kind, **_stated(rule)} for rule in self._rules]

    @property
    def actions(self) -> tuple[Action, ...]:
        """The names of the actions, or 0, …, n − 1."""
        return self._actions

    @property
    def columns(self) -> tuple[Column, ...]:
        """For each column of costs, its label, its rule and the side of it."""
        return self._columns

    @property
    def names(self) -> tuple[str, ...]:
        """A short label for each column, no two alike."""
        return tuple(column.name for column in self._columns)

    @property
    def n_constraints(self) -> int:
        """K, the number of columns: a `Mean` with two sides has two."""
        return len(self._columns)

    @property
    def seen(self) -> NDArray[np.bool_]:
        """For each column, whether its costs are known before acting (read-only)."""
        return self._seen

    @property
    def cost_range(self) -> FloatArray:
        """(K, 2): what the costs of each column are known to lie in (read-only)."""
        return self._cost_range

    def costs(
        self,
        usage: Usage | None = None,
        group: str | Iterable[str] | None = None,
        actions: Sequence[Action] | NDArray[np.integer[Any]] | None = None,
    ) -> FloatArray:
        """The (J, K) costs of the actions on offer, a new C-contiguous array.

        Parameters
        ----------
        usage : mapping, optional
            For each usage: J numbers in the order of the rows, one number for all, or a mapping from
            actions to numbers. Must hold every usage that a rule in force and seen before needs; columns of
            rules seen after are filled where their usage is given, and are 0 otherwise.
        group : str or iterable of str, optional
            The groups that the context belongs to, () for none. Needed if a rule seen before has `among`.
        actions : sequence of names or indices, optional
            The actions on offer, one for each row; default all.

        Examples
        --------
        >>> rules = Rules([Share("a", at_least=0.25, among="A"), Budget("hours", at_most=0.5)], ["a", "b"])
        >>> rules.costs({"hours": 1.0}, group="A")
        array([[-0.75,  0.5 ],
               [ 0.25,  0.5 ]])
        >>> rules.costs({"hours": [0.75]}, group="B", actions=["b"])
        array([[0.  , 0.25]])
        """
        needed = self._seen
        return self._fill(self._plan(group, actions, needed), usage, needed)

    def in_force(self, group: str | Iterable[str] | None = None) -> NDArray[np.bool_]:
        """Which columns count in a context of these groups, (K,): those without `among`, and those among one of them.

        Examples
        --------
        >>> rules = Rules([Share("a", at_least=0.25, among="A"), Capacity("a", 0.5)], ["a", "b"])
        >>> rules.in_force("B")
        array([False,  True])
        """
        return self._in_force(self._context_groups(group, np.ones(self.n_constraints, dtype=np.bool_)))

    def observed(
        self, usage: Usage | None, action: Action, group: str | Iterable[str] | None = None
    ) -> FloatArray:
        """The costs of the columns seen after acting, (~seen).sum() of them, for the action that was chosen.

        Examples
        --------
        >>> rules = Rules([Capacity("a", 0.5), Budget("hours", 0.5, seen="after")], actions=["a", "b"])
        >>> rules.observed({"hours": 0.75}, "b")
        array([0.25])
        """
        needed = ~self._seen
        costs: FloatArray = self._fill(self._plan(group, (action,), needed), usage, needed)[0, needed]
        return costs

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __getitem__(self, i: int) -> Rule:
        return self._rules[i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rules):
            return NotImplemented
        return self._rules == other._rules and self._actions == other._actions

    def __hash__(self) -> int:
        return hash((self._rules, self._actions))

    def __str__(self) -> str:
        return "\n".join(map(str, self._rules)) or "no rules"

    def __repr__(self) -> str:
        named = isinstance(self._actions[0], str)
        return (
            f"Rules({list(self._rules)!r}, actions={list(self._actions) if named else len(self._actions)!r})"
        )

    def _plan(
        self,
        group: str | Iterable[str] | None,
        actions: Sequence[Action] | NDArray[np.integer[Any]] | None,
        needed: NDArray[np.bool_],
    ) -> _Plan:
        groups = self._context_groups(group, needed)
        ids = None if actions is None else self._action_ids(actions)
        plan = self._plans.get((groups, ids))
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[groups, ids] = self._make_plan(groups, ids)
        return plan

    def _context_groups(
        self, group: str | Iterable[str] | None, needed: NDArray[np.bool_]
    ) -> frozenset[str] | None:
        if group is None:
            if self._all_groups:
                for column, need in zip(self._columns, needed, strict=True):
                    if need and column.rule.among is not None:
                        raise InvalidInput(
                            f"group is missing (give () for a context in no group): a rule reads "
                            f"'{column.rule}'"
                        )
            return None
        members = (group,) if isinstance(group, str) else tuple(group)
        for member in members:
            if not isinstance(member, str):
                raise InvalidInput(f"group must be a name or several, but got {member!r}")
        return self._all_groups.intersection(members)

    def _action_ids(self, actions: Sequence[Action] | NDArray[np.integer[Any]]) -> tuple[int, ...]:
        if isinstance(actions, str | Mapping | Set):
            raise InvalidInput(f"actions must be a sequence of names or indices, but got {actions!r}")
        ids = []
        for row, action in enumerate(actions):
            if isinstance(action, str):
                found = self._ids.get(action)
            else:
                found = _index(action)
                if found is not None and not 0 <= found < len(self._actions):
                    found = None
            if found is None:
                raise InvalidInput(
                    f"actions[{row}] must be one of {list(self._actions)} or an index, but got {action!r}"
                )
            ids.append(found)
        if not ids:
            raise InvalidInput("actions must hold at least one action, but it is empty")
        return tuple(ids)

    def _in_force(self, groups: frozenset[str] | None) -> NDArray[np.bool_]:
        return np.array(
            [not among or bool(groups and among & groups) for among in self._among], dtype=np.bool_
        )

    def _make_plan(self, groups: frozenset[str] | None, ids: tuple[int, ...] | None) -> _Plan:
        rows = tuple(range(len(self._actions))) if ids is None else ids
        in_force = self._in_force(groups)
        fixed = in_force & np.array([usage is None for usage in self._usages], dtype=np.bool_)
        weights = self._weights[list(rows)]
        base = np.zeros(weights.shape)
        base[:, fixed] = (weights[:, fixed] - self._offsets[fixed]) / self._scales[fixed]
        counted = np.flatnonzero(in_force & ~fixed)
        usages = [str(self._usages[k]) for k in counted]
        at = {name: i for i, name in enumerate(dict.fromkeys(usages))}
        return _Plan(
            rows,
            base,
            at,
            counted,
            np.array([at[name] for name in usages], dtype=np.intp),
            weights[:, counted],
            self._offsets[counted],
            self._scales[counted],
            np.array([self._ranges[name] for name in at]).reshape(len(at), 2).T[:, :, None],
        )

    def _fill(self, plan: _Plan, usage: Usage | None, needed: NDArray[np.bool_]) -> FloatArray:
        values = np.empty((len(plan.names), len(plan.rows)))
        there = np.zeros(len(plan.names), dtype=np.bool_)
        if usage is not None:
            if not isinstance(usage, Mapping):
                raise InvalidInput(f"usage must be a mapping from names to numbers, but got {usage!r}")
            for name, given in usage.items():
                i = plan.names.get(name)
                if i is not None:
                    values[i] = self._read_usage(name, given, plan)
                    there[i] = True
                elif name in self._ranges:
                    unused = np.array(self._read_usage(name, given, plan), ndmin=1)
                    self._in_range(name, unused, given)
                else:
                    raise InvalidInput(
                        f"usage: no rule counts {name!r}; the rules count {list(self._ranges)}"
                    )
            low, high = plan.ranges
            inside = (values >= low) & (values <= high)
            if np.count_nonzero(inside) < inside.size:
                for name, i in plan.names.items():
                    if there[i]:
                        values[i] = self._in_range(name, values[i], usage[name])
        costs = plan.base.copy()
        columns, counted = plan.columns, plan.counted
        if not all(there):
            missing = columns[~there[counted] & needed[columns]]
            if missing.size:
                k = missing[0]
                raise InvalidInput(
                    f"usage[{self._usages[k]!r}] is missing: a rule reads '{self._columns[k].rule}'"
                )
            values[~there] = 0.0
        filled = (plan.weights * values[counted].T - plan.offsets) / plan.scales
        # A rule that is seen after acting counts nothing where its usage is not known yet.
        costs[:, columns] = filled if all(there) else np.where(there[counted], filled, 0.0)
        return costs

    def _read_usage(self, name: str, given: Any, plan: _Plan) -> FloatArray | float:
        """What is given, as one number or as many as there are actions on offer; not held against the range yet."""
        n_rows = len(plan.rows)
        if type(given) is float:
            return given
        if isinstance(given, np.ndarray) and given.dtype.kind == "f" and given.shape == (n_rows,):
            return given
        what = f"usage[{name!r}]"
        if isinstance(given, Mapping):
            given = self._read_table(what, name, given, plan)
        try:
            array = np.asarray(given)
        except ValueError as error:
            raise InvalidInput(f"{what} must hold numbers, but got {given!r}") from error
        if array.dtype.kind not in "fiu":
            raise InvalidInput(f"{what} must hold real numbers, but got {given!r}")
        if array.shape not in {(), (n_rows,)}:
            raise InvalidInput(
                f"{what} must be one number or {n_rows}, one for each action on offer, "
                f"but its shape is {array.shape}"
            )
        return array.astype(np.float64)

    def _in_range(
        self, name: str, values: FloatArray, given: ArrayLike | Mapping[Action, float]
    ) -> FloatArray:
        """The values, those that overshoot the declared range by rounding alone put back on it."""
        low, high = self._ranges[name]
        near = (values >= low - _TOLERANCE * (high - low)) & (values <= high + _TOLERANCE * (high - low))
        if not near.all():
            row = int(np.argmin(near))
            one = not isinstance(given, Mapping) and np.ndim(given) == 0
            entry = f"usage[{name!r}]" if one else f"usage[{name!r}][{row}]"
            raise InvalidInput(
                f"{entry} must lie in [{_plain(low)}, {_plain(high)}], the range declared, "
                f"but got {values.flat[row]}"
            )
        clipped: FloatArray = np.clip(values, low, high)
        return clipped

    def _read_table(self, what: str, name: str, table: Mapping[Action, float], plan: _Plan) -> list[float]:
        for action in table:
            if action not in self._ids:
                raise InvalidInput(
                    f"{what}: unknown action {action!r}; expected one of {list(self._actions)}"
                )
        columns = [k for k, usage in enumerate(self._usages) if usage == name]
        values = []
        for i in plan.rows:
            action = self._actions[i]
            if action in table:
                values.append(_number(f"{what}[{action!r}]", table[action]))
            elif self._weights[i, columns].any():
                raise InvalidInput(f"{what} must hold every action on offer, but {action!r} is missing")
            else:
                values.append(self._ranges[name][0])
        return values


# Overshooting a declared range by this part of its width, or the limits by this part of the rules' scales, is
# rounding.
_TOLERANCE = 1e-9
# Actions on offer may come in any combination; this bounds the memory of the plans kept for them.
_MAX_PLANS = 1024


class _Plan(NamedTuple):
    """What does not depend on usage in the costs, for one set of groups and one list of actions on offer.

    names gives each usage in force its row among the values u. Column columns[i] is (weights·u − offsets) / scales for usage
    counted[i], weights holding sign·1{a counts}. ranges (2, n, 1) are those declared.
    """

    rows: tuple[int, ...]
    base: FloatArray
    names: dict[str, int]
    columns: NDArray[np.intp]
    counted: NDArray[np.intp]
    weights: FloatArray
    offsets: FloatArray
    scales: FloatArray
    ranges: FloatArray


# --- reading what a rule is given ---


def _set(rule: Rule, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(rule, name, value)


def _where(owner: Rule, name: str) -> str:
    first = owner.action if isinstance(owner, Capacity | Share) else owner.name
    return f"{type(owner).__name__}({first!r}): {name}"


def _number(what: str, value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidInput(f"{what} must be a number, but got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise InvalidInput(f"{what} must be finite, but got {value!r}")
    return number


def _fraction(owner: Rule, name: str, value: object) -> float:
    number = _number(_where(owner, name), value)
    if not 0.0 <= number <= 1.0:
        raise InvalidInput(
            f"{_where(owner, name)} must lie in [0, 1], a share of the decisions, but got {value!r}"
        )
    return number


def _interval(owner: Budget | Mean, value: object) -> tuple[float, float]:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or len(value) != 2:
        raise InvalidInput(f"{_where(owner, 'range')} must be a pair (low, high), but got {value!r}")
    low, high = (_number(_where(owner, f"range[{i}]"), value[i]) for i in (0, 1))
    if not low < high:
        raise InvalidInput(f"{_where(owner, 'range')} must satisfy low < high, but got {value!r}")
    return low, high


def _finite_scale(rule: Budget | Mean) -> None:
    if not isfinite(rule.scale):
        raise InvalidInput(
            f"{_where(rule, 'range')} and limits are too far apart to be subtracted: {rule.range}"
        )


def _index(value: object) -> int | None:
    """The value as a plain int, or None where it is not an integer."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _action(what: str, value: object) -> Action:
    if isinstance(value, str):
        if value:
            return str(value)
    else:
        index = _index(value)
        if index is not None and index >= 0:
            return index
    raise InvalidInput(f"{what} must be a name or an index >= 0, but got {value!r}")


def _actions(owner: Rule, value: object) -> Action | tuple[Action, ...]:
    what = f"{type(owner).__name__}: action"
    if isinstance(value, Sequence) and not isinstance(value, str):
        names = tuple(_action(f"{what}[{i}]", one) for i, one in enumerate(value))
        if not names or len(set(names)) < len(names):
            raise InvalidInput(f"{what} must name one action or several different ones, but got {value!r}")
        return names if len(names) > 1 else names[0]
    return _action(what, value)


def _groups(owner: Rule, value: object) -> str | tuple[str, ...] | None:
    if value is None:
        return None
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if (
        not names
        or len(set(map(repr, names))) < len(names)
        or not all(isinstance(n, str) and n for n in names)
    ):
        raise InvalidInput(
            f"{_where(owner, 'among')} must name one group or several different ones, but got {value!r}"
        )
    return names if len(names) > 1 else names[0]


def _seen(owner: Rule, value: object) -> Seen:
    if value == "before":
        return "before"
    if value == "after":
        return "after"
    raise InvalidInput(f"{_where(owner, 'seen')} must be 'before' or 'after', but got {value!r}")


def _label(owner: Rule, value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and value):
        raise InvalidInput(f"{_where(owner, 'name')} must be a text that is not empty, but got {value!r}")
    return value


def _usage_name(owner: Rule, value: object) -> str:
    if not (isinstance(value, str) and value):
        raise InvalidInput(
            f"{type(owner).__name__}: name must be a text that is not empty, but got {value!r}"
        )
    return value


def _members(names: Any) -> tuple[Any, ...]:
    """A name, several or None, as a tuple."""
    if names is None:
        return ()
    return names if isinstance(names, tuple) else (names,)


def _declared_actions(actions: object) -> tuple[Action, ...]:
    count = _index(actions)
    if count is not None:
        if count < 1:
            raise InvalidInput(f"actions must be at least 1, but got {count}")
        return tuple(range(count))
    if not isinstance(actions, Sequence) or isinstance(actions, str) or not actions:
        raise InvalidInput(f"actions must be a list of names or a number of actions, but got {actions!r}")
    names = tuple(_action(f"actions[{i}]", one) for i, one in enumerate(actions))
    if all(isinstance(name, str) for name in names):
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            raise InvalidInput(f"actions must differ from each other, but {twice!r} comes twice")
    elif names != tuple(range(len(names))):
        raise InvalidInput(f"actions must be names, or 0, 1, 2, … in this order, but got {list(names)}")
    return names


def _usage_ranges(rules: Sequence[Rule]) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for i, rule in enumerate(rules):
        usage, _, declared = rule.quantity
        if usage is not None and ranges.setdefault(usage, declared) != declared:
            raise InvalidInput(
                f"rules[{i}]: range of {usage!r} must be {ranges[usage]}, as before, but got {declared}"
            )
    return ranges


def _name_columns(rules: Sequence[Rule]) -> tuple[Column, ...]:
    chosen = [rule.name for rule in rules if isinstance(rule, Capacity | Share) and rule.name is not None]
    for name in chosen:
        if chosen.count(name) > 1:
            raise InvalidInput(f"rules: name must be unique, but {name!r} comes {chosen.count(name)} times")
    taken = set(chosen)
    columns = []
    for rule in rules:
        for side, _ in rule.sides:
            if isinstance(rule, Capacity | Share):
                short = f"{rule.kind} {_either(rule.action)}"
            elif isinstance(rule, Mean) and len(rule.sides) > 1:
                short = f"{rule.name} {side.replace('_', ' ')}"
            elif isinstance(rule, Budget) and rule.action is not None:
                short = f"{rule.name} of {_either(rule.action)}"
            else:
                short = rule.name
            if rule.among is not None:
                short += f" among {_either(rule.among)}"
            if isinstance(rule, Capacity | Share) and rule.name is not None:
                name = rule.name
            else:
                name, n = short, 1
                while name in taken:
                    n += 1
                    name = f"{short} ({n})"
                taken.add(name)
            columns.append(Column(name, rule, side))
    return tuple(columns)


# --- words and plain data ---


def _in_words(rule: Rule, subject: str, limit: str) -> str:
    per_decision = not isinstance(rule, Capacity | Share)
    if rule.among is None:
        scope, unit = "", "per decision on average" if per_decision else "of decisions"
    else:
        groups = _members(rule.among)
        scope = f"among group{'s' if len(groups) > 1 else ''} {_either(groups)}: "
        owner = "that group" if len(groups) == 1 else "those groups"
        possessive = "that group's" if len(groups) == 1 else "those groups'"
        unit = f"per decision of {owner} on average" if per_decision else f"of {possessive} decisions"
    after = " (seen after acting)" if rule.seen == "after" else ""
    return f"{scope}{subject}: {limit} {unit}{after}"


def _either(names: Action | Sequence[Action]) -> str:
    *most, last = map(str, _members(names))
    return f"{', '.join(most)} or {last}" if most else last


def _subject(action: Action | Sequence[Action]) -> str:
    members = _members(action)
    numbered = "" if isinstance(members[0], str) else "actions " if len(members) > 1 else "action "
    return numbered + _either(action)


def _plain(number: float) -> str:
    return f"{number:.12g}"


def _percent(share: float) -> str:
    return f"{100 * share:.12g}%"


_KINDS: dict[str, type[Rule]] = {kind.kind: kind for kind in (Capacity, Share, Budget, Mean)}


def _stated(rule: Rule) -> dict[str, Any]:
    values = {one.name: getattr(rule, one.name) for one in fields(rule)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None
    }


def _rule_from_table(table: object, where: str) -> Rule:
    if not isinstance(table, Mapping):
        raise InvalidInput(f"{where} must be a table, but got {table!r}")
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"{where}: kind must be one of {sorted(_KINDS)}, but got {kind!r}")
    known = {one.name: one for one in fields(_KINDS[kind])}
    given = {name: value for name, value in table.items() if name != "kind"}
    for name in given:
        if name not in known:
            raise InvalidInput(f"{where}: unknown field {name!r}; a {kind} rule has {list(known)}")
    for name, one in known.items():
        if one.default is MISSING and name not in given:
            raise InvalidInput(f"{where}: field {name!r} is missing from a {kind} rule")
    try:
        return _KINDS[kind](**given)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


# --- conflicts ---


def _refuse_conflicts(rules: Sequence[Rule], ids: Mapping[Action, int]) -> None:
    """Raise unless some policy meets the rules for some usage and some frequencies of the groups.

    Let z be a policy that meets the rules without `among`, and p_g one that meets those of group g. If each
    group has frequency ε and follows p_g, and all other contexts follow z, then the groups' rules hold and
    the rest are exceeded by O(ε). So each population is judged by itself.
    """
    populations: dict[frozenset[str], list[Rule]] = {}
    for rule in rules:
        populations.setdefault(frozenset(_members(rule.among)), []).append(rule)
    conflict: list[Rule] = []
    relaxation: dict[Rule, float] = {}
    moves: list[str] = []
    for population in populations.values():
        if _can_meet(population, ids):
            continue
        conflict = conflict or _irreducible(population, ids)
        for rule, changes in _least_changes(population, ids, own_units=True).items():
            for (side, _), change in zip(rule.sides, changes, strict=True):
                if change > _TOLERANCE * rule.scale:
                    relaxation[rule] = relaxation.get(rule, 0.0) + change
                    verb = "raise" if side == "at_most" else "lower"
                    which = f"{side} of " if len(rule.sides) > 1 else ""
                    moves.append(f"{verb} {which}'{rule}' by {change:.6g}")
    if not conflict:
        return
    *most, last = (f"'{rule}'" for rule in conflict)
    named = f"{', '.join(most)} and {last} conflict" if most else f"{last} is out of reach"
    total = sum(relaxation.values())
    error = InfeasibleProblem(
        f"no policy can meet these rules: {named}; "
        f"changing limits by {total:.6g} in total would do: {', '.join(moves)}"
    )
    vars(error).update(rules=tuple(conflict), relaxation=relaxation)
    raise error


def _can_meet(population: Sequence[Rule], ids: Mapping[Action, int]) -> bool:
    changes = _least_changes(population, ids, own_units=False)
    return sum(sum(sides) / rule.scale for rule, sides in changes.items()) <= _TOLERANCE


def _irreducible(population: Sequence[Rule], ids: Mapping[Action, int]) -> list[Rule]:
    """Deletion filter: leave out whatever is not needed for the conflict."""
    kept = list(population)
    for rule in population:
        others = [other for other in kept if other is not rule]
        if not _can_meet(others, ids):
            kept = others
    return kept


def _least_changes(
    population: Sequence[Rule], ids: Mapping[Action, int], *, own_units: bool
) -> dict[Rule, list[float]]:
    """For each rule and side, how far its limit moves when the sum of the moves is least.

    The sum is over changes in the rules' own units, or over changes divided by the rules' scales. The
    variables are y_j, how often action j is chosen; t_{u,j} in [0, y_j] for each usage u, so that low·y_j +
    (high − low)·t_{u,j} runs through what the choices of j can use; and s_k ≥ 0, the change of limit k over
    the scale of its rule.
    """
    if not population:
        return {}
    n = len(ids)
    quantities = [rule.quantity for rule in population]
    start: dict[str, int] = {}
    for quantity in quantities:
        if quantity.usage is not None:
            start.setdefault(quantity.usage, n * (1 + len(start)))
    first_change = n * (1 + len(start))
    n_sides = sum(len(rule.sides) for rule in population)
    width = first_change + n_sides

    rows = np.zeros((n_sides, width))
    bounds = np.zeros(n_sides)
    prices = np.zeros(width)
    k = 0
    for rule, quantity in zip(population, quantities, strict=True):
        counted = np.arange(n) if quantity.actions is None else np.array([ids[a] for a in quantity.actions])
        for side, limit in rule.sides:
            sign = 1.0 if side == "at_most" else -1.0
            if quantity.usage is None:
                rows[k, counted] = sign
            else:
                low, high = quantity.range
                rows[k, counted] = sign * low / rule.scale
                rows[k, start[quantity.usage] + counted] = sign * (high - low) / rule.scale
            rows[k, first_change + k] = -1.0
            bounds[k] = sign * limit / rule.scale
            prices[first_change + k] = rule.scale if own_units else 1.0
            k += 1
    links = np.zeros((n * len(start), width))
    for i, offset in enumerate(start.values()):
        block = links[n * i : n * (i + 1)]
        block[:, offset : offset + n] = np.eye(n)
        block[:, :n] = -np.eye(n)
    simplex = np.zeros((1, width))
    simplex[0, :n] = 1.0

    if _mixture_meets(population, ids, rows[:, :first_change], bounds):
        return {rule: [0.0] * len(rule.sides) for rule in population}
    from tightrope.lp import solve_lp  # HiGHS takes long to import, and most rule sets do without

    solution = solve_lp(
        prices / prices.max(),
        A_ub=np.vstack([rows, links]),
        b_ub=np.concatenate([bounds, np.zeros(len(links))]),
        A_eq=simplex,
        b_eq=[1.0],
        maximise=False,
    )
    if solution.status != "optimal":
        raise SolverError(f"the program of least changes must have a solution, but it is {solution.status}")
    changes = iter(solution.x[first_change:].tolist())
    return {rule: [max(0.0, next(changes)) * rule.scale for _ in rule.sides] for rule in population}


def _mixture_meets(
    population: Sequence[Rule], ids: Mapping[Action, int], rows: FloatArray, bounds: FloatArray
) -> bool:
    """Whether the mixture half-way between the actions' own limits meets the rules at the least, middle or greatest usage."""
    n = len(ids)
    low, high = np.zeros(n), np.ones(n)
    for rule in population:
        quantity = rule.quantity
        if quantity.usage is None and quantity.actions is not None and len(quantity.actions) == 1:
            j = ids[quantity.actions[0]]
            for side, limit in rule.sides:
                if side == "at_least":
                    low[j] = max(low[j], limit)
                else:
                    high[j] = min(high[j], limit)
    room = high - low
    if (room < 0.0).any() or not room.sum() > 0.0:
        return False
    y = low + (1.0 - low.sum()) / room.sum() * room
    if (y < 0.0).any():
        return False
    usages = rows.shape[1] // n - 1
    used = (np.concatenate([y, *[share * y] * usages]) for share in (0.0, 0.5, 1.0))
    return any(bool((rows @ point <= bounds + _TOLERANCE / len(bounds)).all()) for point in used)
