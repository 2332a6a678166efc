"""A set of rules over named actions: from usage to the matrix of costs that a policy needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import displays
from tightrope.actions import Action, Actions
from tightrope.concerns import warn
from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean, slip_of
from tightrope.rules.columns import named_columns
from tightrope.rules.conflicts import refuse_conflicts
from tightrope.rules.rule import RULE_KINDS, Rule, either, members, renamed_actions, rule_from_data
from tightrope.rules.usage import ANY, UsageReader, usage_ranges, where_declared
from tightrope.rules.window_limits import WindowLimits
from tightrope.validation import Array
from tightrope.words import Either, Key, Place, Text

Usage: TypeAlias = Mapping[str, ArrayLike | Mapping[Action, float]]
Group: TypeAlias = str | Iterable[str] | None
Offered: TypeAlias = Sequence[Action] | NDArray[np.integer[Any]] | None


def moves_in_words(moves: Mapping[str, float], rules: Rules | None) -> str:
    """Changes of limits, by the names of their columns, in words: which limit to raise or lower, and by how much."""
    columns = {} if rules is None else {column.name: column for column in rules.columns}
    said = []
    for name, move in moves.items():
        if name not in columns:
            said.append(f"raise the limit of {name!r} by {move:.4g}")
            continue
        rule, share = columns[name].rule, columns[name].rule.quantity.usage is None
        by = f"{100 * move:.4g} percentage points" if share else f"{move:.4g}"
        said.append(rule.moved(columns[name].side, by))
    return ", ".join(said)


class Plan(NamedTuple):
    """The costs of some actions in a context of some groups, up to usage: W is `base`, but in the columns that count usage.

    There W[:, columns[i]] = (weights[:, i] · u − offsets[i]) / scales[i], where u is the usage counted[i] of each action; a usage
    that is not known yet leaves 0, unless needed[i]. `names` gives each usage its row in `ranges`, those declared.
    """

    rows: tuple[int, ...]  # ids of the actions
    base: Array  # (J, K)
    names: dict[str, int]
    ranges: Array  # (n, 2)
    columns: NDArray[np.intp]
    counted: NDArray[np.intp]
    needed: NDArray[np.bool_]
    weights: Array  # (J, len(columns)): the sign of the rule, 0 where the action does not count
    offsets: Array
    scales: Array


class Rules:
    """A set of rules over named actions; turns usage into the (J, K) matrix of costs that a policy needs.

    Parameters
    ----------
    rules : iterable of Rule
        Such as Capacity, Share, Budget, Mean.
    actions : sequence of names, int, or Actions
        With an int n the actions are 0, …, n − 1. Only those that are active are on offer by default, and can meet rules.
    groups : sequence of names, optional
        All groups that contexts may belong to: any other is refused. Without it, contexts may have groups that no rule names, but a
        group that looks like a misspelt one gives a warning.

    Attributes
    ----------
    actions : tuple of names, or of 0, …, n − 1
    registry : Actions
        The actions with their ids and states.
    groups : tuple of str or None
        Those that were declared.
    columns, names : tuples
        For each column of costs its label, its rule and side; only the labels, no two alike.
    windows : WindowLimits
        The limits per window of time (`per`): they have no column of costs, but accounts.
    n_constraints : int
        K, the number of columns: a `Mean` with two sides has two.
    seen, declared : (K,) of bool
        Whether a column's costs are known before acting; whether its range was declared, or it counts decisions.
    cost_range : (K, 2)
        The known range of each column's costs, or, if nothing is declared, the range that its limits suggest.

    Raises
    ------
    InvalidInput
        For a rule that names an unknown action or group, repeats another, or gives a usage a second range.
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
    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Share("a", at_least=0.25), tr.Budget("hours", at_most=0.5, range=(0, 2))], ["a", "b"])
    >>> rules.costs(usage={"hours": {"a": 1.0, "b": 0.5}})
    array([[-0.75,  0.25],
           [ 0.25,  0.  ]])
    >>> rules.names, rules.cost_range.tolist()
    (('share a', 'hours'), [[-0.75, 0.25], [-0.25, 0.75]])
    >>> tr.Rules([tr.Share("a", at_least=0.6), tr.Share("b", at_least=0.5)], actions=["a", "b", "c"])
    Traceback (most recent call last):
        ...
    tightrope.errors.InfeasibleProblem: no policy can meet these rules: 'a: at least 60% of decisions' and
    'b: at least 50% of decisions' conflict; changing limits by 0.1 in total would do: lower ... by 0.1
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        actions: Sequence[Action] | int | Actions,
        *,
        groups: Sequence[str] | None = None,
    ) -> None:
        self.registry = actions if isinstance(actions, Actions) else Actions(actions)
        self.groups = None if groups is None else _group_names(groups)
        self.actions: tuple[Action, ...] = tuple(self.registry)
        self._rules = tuple(rules)
        for i, rule in enumerate(self._rules):
            _require_rule(f"rules[{i}]", rule)
            if rule in self._rules[:i]:
                again = f"repeats rules[{self._rules.index(rule)}]: {rule}"
                raise InvalidInput(field=Place("rules", i), problem=again)
            for action in rule.quantity.actions or ():
                if action not in self.registry:
                    words = self.registry.unknown(action)
                    raise InvalidInput(words, field=Place("rules", i, "action"), within=f"rules[{i}]")
            for group in members(rule.among):
                if self.groups is not None and group not in self.groups:
                    words = _unknown_group(group, self.groups)
                    raise InvalidInput(words, field=Place("rules", i, "among"), within=f"rules[{i}]")
        self._ranges = usage_ranges(self._rules)
        self._allowed = where_declared(self._ranges, self._rules, lambda low, high: ANY)
        columns = named_columns(self._rules)
        self.columns = tuple(one for one in columns if one.rule.per is None)
        self.windows = WindowLimits([one for one in columns if one.rule.per is not None], self.registry)
        self.names = tuple(column.name for column in self.columns)
        self.n_constraints = len(self.columns)
        self.declared = np.array([column.rule.declared for column in self.columns], dtype=np.bool_)
        likely = where_declared(self._ranges, self._rules, lambda low, high: (_FAR * low, _FAR * high))
        lasting = [one for one in self._rules if one.per is None or not one.counts_amounts]
        refuse_conflicts(lasting, self.registry, likely)
        for column in self.windows.columns:
            if column.rule.hard and (doubt := self.windows.no_way_out(column)) is not None:
                warn(doubt)

        quantities = [column.rule.quantity for column in self.columns]
        signs = np.array([column.sign for column in self.columns])
        limits = np.array([column.limit for column in self.columns])
        self._scales = np.array([column.rule.scale for column in self.columns])
        self._offsets = signs * limits + 0.0
        self._weights = np.zeros((len(self.actions), len(self.columns)))
        for k, quantity in enumerate(quantities):
            counted = slice(None) if quantity.actions is None else self.registry.ids(quantity.actions)
            self._weights[counted, k] = signs[k]

        self.seen = np.array([column.rule.seen == "before" for column in self.columns], dtype=np.bool_)
        self.cost_range = np.empty((len(self.columns), 2))
        for k, (column, quantity) in enumerate(zip(self.columns, quantities, strict=True)):
            costs = [(signs[k] * value - self._offsets[k]) / self._scales[k] for value in quantity.hull]
            if column.rule.among is not None:
                costs.append(0.0)
            self.cost_range[k] = min(costs), max(costs)
        self.seen.flags.writeable = False
        self.cost_range.flags.writeable = False
        self._usages = [quantity.usage for quantity in quantities]
        columns_of = {name: [k for k, one in enumerate(self._usages) if one == name] for name in self._ranges}
        counted_of = {
            name: self._weights[:, ks].any(axis=1) | self.windows.counted(name)
            for name, ks in columns_of.items()
        }
        self._usage = UsageReader(self.registry, self._ranges, self._allowed, counted_of)
        self._among = [frozenset(members(column.rule.among)) for column in self.columns]
        self._all_groups = frozenset[str]().union(*self._among, *self.windows.among)
        # Groups that need no further check: named by a rule, declared, or already warned about.
        self._met = set(self._all_groups if self.groups is None else self.groups)
        self._forces: dict[frozenset[str], NDArray[np.bool_]] = {}
        self._plans: dict[tuple[frozenset[str] | None, tuple[int, ...] | None, bool], Plan] = {}

    @classmethod
    def from_data(
        cls,
        data: Iterable[Mapping[str, Any]],
        actions: Sequence[Action] | int | Actions,
        *,
        groups: Sequence[str] | None = None,
    ) -> Rules:
        """Rules from plain tables, as read from JSON or from a spec's ``[[rule]]``; the inverse of `to_data`.

        >>> import tightrope as tr
        >>> tr.Rules.from_data([{"kind": "capacity", "action": "a", "at_most": 0.5}], actions=["a", "b"])
        Rules([Capacity('a', at_most=0.5)], actions=['a', 'b'])
        """
        if isinstance(data, Mapping | str):
            raise InvalidInput(field="rules", must="be a list of tables", got=data)
        rules = [rule_from_data(table, f"rules[{i}]") for i, table in enumerate(data)]
        return cls(rules, actions, groups=groups)

    def to_data(self) -> list[dict[str, Any]]:
        """The rules as tables of builtin types, for JSON or TOML; the actions are not among them.

        >>> import tightrope as tr
        >>> tr.Rules([tr.Share("a", at_least=0.5)], actions=["a", "b"]).to_data()
        [{'kind': 'share', 'action': 'a', 'at_least': 0.5, 'seen': 'before'}]
        """
        return [rule.to_data() for rule in self._rules]

    def over(self, actions: Actions) -> Rules:
        """The same rules over a registry that continues this one's: with other states, other names, or more actions.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Capacity("a", 0.5)], actions=["a", "b"])
        >>> rules.over(rules.registry.with_name("a", "c").with_action("d"))
        Rules([Capacity('c', at_most=0.5)], actions=['c', 'b', 'd'])
        """
        names = dict(zip(map(str, self.registry), map(str, actions)))
        return Rules.from_data(
            [renamed_actions(table, names) for table in self.to_data()], actions, groups=self.groups
        )

    def range_of_costs(self, costs: Array) -> Array:
        """`cost_range`, (K, 2); where no range is declared, wide enough for these costs, (…, K)."""
        found = np.array(self.cost_range)
        if costs.size:
            flat = costs.reshape(-1, len(found))
            low, high = np.minimum(found[:, 0], flat.min(axis=0)), np.maximum(found[:, 1], flat.max(axis=0))
            found = np.where(self.declared[:, None], found, np.column_stack([low, high]))
        return found

    def group_slip(self, group: Group) -> str | None:
        """What is wrong with the groups of a context: not declared, or apparently a misspelling of one that a rule names.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Capacity("a", 0.5, among=("North", "South"))], actions=["a", "b"])
        >>> rules.group_slip("north")
        "group 'north' is named by no rule (did you mean 'North'?); the rules name: North, South"
        >>> rules.group_slip("West") is None
        True
        """
        for one in members(group if group is None or isinstance(group, str) else tuple(group)):
            if self.groups is not None:
                if one not in self.groups:
                    return _unknown_group(one, self.groups)
            elif one not in self._all_groups and (meant := slip_of(str(one), self._all_groups)):
                named = ", ".join(sorted(self._all_groups))
                return f"group {one!r} is named by no rule (did you mean {meant!r}?); the rules name: {named}"
        return None

    @property
    def costs_seen(self) -> Any:
        """When costs are seen: "before" or "after" acting, or where rules differ one word for each column.

        >>> import tightrope as tr
        >>> tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"]).costs_seen
        ('before', 'after')
        """
        words = tuple("before" if known else "after" for known in self.seen)
        return words if len(set(words)) > 1 else words[0] if words else "before"

    def costs(self, usage: Usage | None = None, group: Group = None, actions: Offered = None) -> Array:
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
        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Share("a", at_least=0.25, among="A"), tr.Budget("hours", at_most=0.5)], ["a", "b"])
        >>> rules.costs({"hours": 1.0}, group="A")
        array([[-0.75,  0.5 ],
               [ 0.25,  0.5 ]])
        >>> rules.costs({"hours": [0.75]}, group="B", actions=["b"])
        array([[0.  , 0.25]])
        """
        return self._fill(self.plan(group, actions), usage)

    def in_force(self, group: Group = None) -> NDArray[np.bool_]:
        """Which columns count in a context of these groups, (K,), read-only: those without `among`, and those among one of them.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Share("a", at_least=0.25, among="A"), tr.Capacity("a", 0.5)], ["a", "b"])
        >>> rules.in_force("B")
        array([False,  True])
        """
        return self._in_force(self._context_groups(group, np.ones(self.n_constraints, dtype=np.bool_)))

    def observed(self, usage: Usage | None, action: Action, group: Group = None) -> Array:
        """The costs of the columns seen after acting, (~seen).sum() of them, for the action that was chosen.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
        >>> rules.observed({"hours": 0.75}, "b")
        array([0.25])
        """
        costs: Array = self._fill(self.plan(group, (action,), after=True), usage)[0, ~self.seen]
        return costs

    def logged(self, usage: Usage | None, actions: Any, group: Any = None, *, after: bool = False) -> Array:
        """The costs of n decisions of a log, (n, K); with `after` only the columns that are seen after acting.

        Parameters
        ----------
        usage : mapping
            For each usage one number, or n of them: what the action that was taken used.
        actions : (n,) names or indices
            What was done.
        group : str or (n,) groups, optional
            Those of each context, as in `costs`.

        Examples
        --------
        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.5, seen="after")], actions=["a", "b"])
        >>> rules.logged({"hours": [0.75, 0.25]}, ["a", "b"])
        array([[ 0.5 ,  0.25],
               [-0.5 , -0.25]])
        """
        ids = self.registry.ids(actions)
        asked = ~self.seen if after else np.ones(self.n_constraints, dtype=np.bool_)
        told: list[Group] = [group] if group is None or isinstance(group, str) else list(group)
        if len(told) not in (1, len(ids)):
            raise InvalidInput(field="group", must=f"be that of each of {len(ids)} decisions", got=len(told))
        given: dict[str, Any] = dict(usage or {})
        for name, one in given.items():
            if np.ndim(one) and len(one) != len(ids):
                field = Place("usage", Key(name))
                raise InvalidInput(field=field, must=f"be one number or {len(ids)}", got=len(one))
        sets = [self._context_groups(one, asked) for one in told] * (len(ids) if len(told) == 1 else 1)
        costs = np.zeros((len(ids), self.n_constraints))
        for here in set(sets):
            rows = [i for i, one in enumerate(sets) if one == here]
            part = {name: one if np.ndim(one) == 0 else np.asarray(one)[rows] for name, one in given.items()}
            plan = self._make_plan(here, tuple(ids[i] for i in rows), after)
            costs[rows] = self._fill(plan._replace(needed=asked[plan.columns]), part)
        return np.ascontiguousarray(costs[:, ~self.seen]) if after else costs

    def plan(self, group: Group = None, actions: Offered = None, *, after: bool = False) -> Plan:
        """The part of `costs` (or with `after`, of `observed`) that does not depend on usage, for code that fills in the rest.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.25)], actions=["a", "b"])
        >>> rules.plan().base
        array([[ 0.5,  0. ],
               [-0.5,  0. ]])
        """
        groups = self._context_groups(group, ~self.seen if after else self.seen)
        ids = None if actions is None else tuple(self.registry.ids(actions))
        plan = self._plans.get((groups, ids, after))
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[groups, ids, after] = self._make_plan(groups, ids, after)
        return plan

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules)

    def __getitem__(self, i: int) -> Rule:
        return self._rules[i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rules):
            return NotImplemented
        theirs = tuple(other), other.registry, other.groups
        return (self._rules, self.registry, self.groups) == theirs

    def __hash__(self) -> int:
        return hash((self._rules, self.actions))

    def __str__(self) -> str:
        return "\n".join(map(str, self._rules)) or "no rules"

    def __repr__(self) -> str:
        actions = list(self.actions) if self.registry.named else len(self.actions)
        groups = "" if self.groups is None else f", groups={list(self.groups)}"
        return f"Rules({list(self._rules)!r}, actions={actions!r}{groups})"

    def _repr_html_(self) -> str:
        actions = self.actions if self.registry.named else f"0 to {len(self.actions) - 1}"
        rows = [(column.name, str(column.rule), f"{column.rule.seen} acting") for column in self.columns]
        about = [("actions", actions)]
        about += [("groups", self.groups)] if self.groups else []
        return displays.page(
            f"{len(self._rules)} rule{'s' if len(self._rules) != 1 else ''}",
            displays.facts(about),
            displays.table(("name", "in words", "seen"), rows) if rows else displays.lines_of(["no rules"]),
        )

    def _context_groups(self, group: Group, needed: NDArray[np.bool_]) -> frozenset[str] | None:
        if group is None:
            every = (*zip(self.columns, needed, strict=True), *((one, True) for one in self.windows.columns))
            for column, need in every if self._all_groups else ():
                if need and column.rule.among is not None:
                    missing = "is missing (give {empty} for a context in no group): a rule reads '{rule}'"
                    empty = Either("()", "an empty list")
                    raise InvalidInput(field="group", problem=Text(missing, empty=empty, rule=column.rule))
            return None
        groups = (group,) if isinstance(group, str) else tuple(group)
        for member in groups:
            if not isinstance(member, str):
                raise InvalidInput(field="group", must="be a name or several", got=member)
        if not self._met.issuperset(groups):
            self._look_at_new(groups)
        return self._all_groups.intersection(groups)

    def _look_at_new(self, groups: tuple[str, ...]) -> None:
        """Refuse groups that were not declared, and warn once about those that look misspelt."""
        if (slip := self.group_slip(groups)) is not None:
            if self.groups is not None:
                raise InvalidInput(slip, field="group")
            remedy = "`Rules(..., groups=[...])` says which groups there are"
            warn(f"{slip}. No rule among groups holds for it; {remedy}.")
        if len(self._met) >= _MAX_PLANS:
            self._met = set(self._all_groups)
        self._met.update(groups)

    def _in_force(self, groups: frozenset[str] | None) -> NDArray[np.bool_]:
        here = groups or frozenset()
        found = self._forces.get(here)
        if found is None:
            if len(self._forces) >= _MAX_PLANS:
                self._forces.clear()
            found = np.array([not among or bool(among & here) for among in self._among], dtype=np.bool_)
            found.flags.writeable = False
            self._forces[here] = found
        return found

    def _make_plan(self, groups: frozenset[str] | None, ids: tuple[int, ...] | None, after: bool) -> Plan:
        rows = tuple(self.registry.active) if ids is None else ids
        in_force = self._in_force(groups)
        fixed = in_force & np.array([usage is None for usage in self._usages], dtype=np.bool_)
        weights = self._weights[list(rows)]
        base = np.zeros(weights.shape)
        base[:, fixed] = (weights[:, fixed] - self._offsets[fixed]) / self._scales[fixed]
        columns = np.flatnonzero(in_force & ~fixed)
        names = {name: i for i, name in enumerate(self._ranges)}
        return Plan(
            rows=rows,
            base=base,
            names=names,
            ranges=np.array(list(self._allowed.values())).reshape(len(names), 2),
            columns=columns,
            counted=np.array([names[str(self._usages[k])] for k in columns], dtype=np.intp),
            needed=self.seen[columns] != after,
            weights=weights[:, columns],
            offsets=self._offsets[columns],
            scales=self._scales[columns],
        )

    def window_uses(
        self, usage: Usage | None = None, group: Group = None, actions: Offered = None, *, after: bool = False
    ) -> Array:
        """What each action on offer uses of every limit per window, (J, M), in the units of the rules; a count uses 1.

        nan stands for what is seen only after acting and not given: what is given beforehand is an upper bound. With `after`, of
        what was done: usage that is seen after acting must then be there.

        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Budget("cost", 50, per="day"), tr.Capacity("a", 0.5, per="week")], actions=["a", "b"])
        >>> rules.window_uses({"cost": [0.5, 0.25]})
        array([[0.5 , 1.  ],
               [0.25, 0.  ]])
        """
        plan = self.plan(group, actions)
        if not self.windows.columns:
            return np.empty((len(plan.rows), 0))
        needed = ~self.windows.seen if after else self.windows.seen
        force = self.windows.in_force(self._context_groups(group, self.seen))
        values, there = self._values(plan, usage)
        return self.windows.uses(values, there, plan.names, plan.rows, force, needed)

    def _values(self, plan: Plan, usage: Usage | None) -> tuple[Array, NDArray[np.bool_]]:
        """What each row uses of every usage (n, J), and which were given."""
        values = np.zeros((len(plan.names), len(plan.rows)))
        there = np.zeros(len(plan.names), dtype=np.bool_)
        if usage is not None:
            if not isinstance(usage, Mapping):
                raise InvalidInput(field="usage", must="be a mapping from names to numbers", got=usage)
            for name, given in usage.items():
                i = plan.names.get(name)
                if i is None:
                    near = did_you_mean(name, self._ranges)
                    words = f"usage: no rule counts {name!r}{near}; the rules count {list(self._ranges)}"
                    raise InvalidInput(words, field=Place("usage", Key(name)))
                values[i] = self._usage.read(name, given, plan.rows)
                there[i] = True
            low, high = plan.ranges.T[:, :, None]
            inside = (values >= low) & (values <= high)
            if np.count_nonzero(inside) < inside.size:
                for name, i in plan.names.items():
                    if there[i]:
                        values[i] = self._usage.in_range(name, values[i], usage[name])
        return values, there

    def _fill(self, plan: Plan, usage: Usage | None) -> Array:
        values, there = self._values(plan, usage)
        known = there[plan.counted]
        missing = plan.columns[plan.needed & ~known]
        if missing.size:
            k = missing[0]
            field = Place("usage", Key(str(self._usages[k])))
            raise InvalidInput(field=field, problem=f"is missing: a rule reads '{self.columns[k].rule}'")
        costs = plan.base.copy()
        filled = (plan.weights * values[plan.counted].T - plan.offsets) / plan.scales
        # Seen after acting: nothing counts where the usage is not known yet.
        costs[:, plan.columns] = np.where(known, filled, 0.0)
        return costs


# Without a declared range, rules count as conflicting only if even this many times the range that limits suggest would not help.
_FAR = 1e3
# Actions on offer may come in any combination; this bounds the memory of the plans kept for them.
_MAX_PLANS = 1024


def _group_names(given: Any) -> tuple[str, ...]:
    names = () if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    if not names or not all(isinstance(one, str) and one for one in names) or len(set(names)) < len(names):
        raise InvalidInput(field="groups", must="be different names, at least one", got=given)
    return names


def _unknown_group(group: object, known: Sequence[str]) -> str:
    meant = slip_of(str(group), known)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    return f"unknown group {group!r}{hint}; known: {', '.join(known)}"


def _require_rule(what: str, given: object) -> None:
    if not isinstance(given, Rule):
        known = either(tuple(cls.__name__ for cls in RULE_KINDS.values()))
        raise InvalidInput(field=what, must=f"be a {known}", got=given)
