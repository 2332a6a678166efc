"""Logged decisions: the actions taken and their probabilities, what they earned and used.

Everything that looks at past decisions uses a `Log`: evaluation, the comparison of models, warm starts, `init`, environments made
from a table. It is made from arrays, a DataFrame, a file (`History.read`), or a journal (`service.offline.served_decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import displays
from tightrope.actions import Actions
from tightrope.encoder import Encoder
from tightrope.errors import InvalidInput
from tightrope.frames import CHUNK, AsFrame, Frame, Library, made_frame
from tightrope.rules import Rules
from tightrope.tables import read_table
from tightrope.validation import (
    Array,
    finite_array,
    finite_number,
    first,
    labels,
    real_array,
    require_finite,
    require_range,
    whole_number,
)
from tightrope.words import Place, Shown

Codes: TypeAlias = NDArray[np.int64]
PerAction: TypeAlias = dict[str, str | float]
_Log = TypeVar("_Log", bound="Log")


class LogColumns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which columns of a table hold what: one action and one reward per row, or a reward for every action, or the right action.

    Parameters
    ----------
    action, reward
        The action taken, and its reward. `reward` may also be a table from actions to columns or numbers, without `action`.
    label
        The right action, instead of both: it earns 1, any other 0.
    success
        The entry of the reward column that counts as 1; all others count as 0.
    usage
        For each usage that rules count, the column of what was used, or a table from actions to columns or numbers.
    group
        The group of each row, for rules among groups.
    """

    action: str | None = None
    reward: str | PerAction | None = None
    label: str | None = None
    success: str | bool | float | None = None
    usage: dict[str, str | PerAction] = {}
    group: str | None = None

    def __post_init__(self) -> None:
        if self.label is not None and (self.action is not None or self.reward is not None):
            raise InvalidInput("label must be given without action and reward: it replaces both")
        if self.label is None and self.reward is None:
            raise InvalidInput("reward is missing: name the column of the reward, or a label")
        if isinstance(self.reward, dict) and self.action is not None:
            raise InvalidInput("action must be left out if reward names a column for every action")
        if isinstance(self.reward, str) and self.action is None:
            raise InvalidInput("action is missing: name the column of the action that was taken")
        if self.success is not None and not isinstance(self.reward, str):
            raise InvalidInput("success needs a reward that is a single column")

    def needed(self) -> list[str]:
        named: list[Any] = [self.action, self.label, self.group]
        for one in (self.reward, *self.usage.values()):
            named += one.values() if isinstance(one, Mapping) else [one]
        return list(dict.fromkeys(one for one in named if isinstance(one, str)))


class History(LogColumns, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Past decisions in a .csv, .csv.gz, .parquet or .json file; its path is relative to the spec."""

    file: str

    def read(self, folder: Path = Path(), *, most: int | None = None) -> Log:
        return self.of(read_table(folder / self.file), most=most)

    def of(self, frame: Frame, *, most: int | None = None) -> Log:
        """The rows that have all that is needed; of more than `most` of them a random sample, always the same."""
        kept = np.ones(len(frame), dtype=bool)
        for name in self.needed():
            kept &= ~frame.missing(name)
        if not kept.any():
            raise InvalidInput(f"{frame.path}: no row has all of {', '.join(self.needed())}")
        whole = frame if kept.all() else frame.where(kept)
        if most is not None and (n := int(kept.sum())) > most:
            named = [one for one in (self.action, self.label, self.group) if one is not None]
            whole = frame.where(np.flatnonzero(kept)[_sample(whole, n, most, named)])
        log = Log.from_frame(whole, self, named=action_name, left_out=int((~kept).sum()))
        return log if isinstance(self.reward, dict) else log.for_actions(sorted(log.action_names))


def _sample(frame: Frame, n: int, most: int, named: Sequence[str]) -> NDArray[np.intp]:
    """Numbers of rows drawn with a fixed seed, and for each value of the columns `named` that was not drawn its first row."""
    drawn = np.sort(np.random.default_rng(0).choice(n, most, replace=False, shuffle=False))
    for name in named:
        coded = frame.texts(name)
        codes = np.unique(frame.column(name).array, return_inverse=True)[1] if coded is None else coded.codes
        first = np.full(int(codes.max()) + 1, -1)
        first[codes[::-1]] = np.arange(n)[::-1]
        first[codes[drawn]] = -1
        drawn = np.union1d(drawn, first[first >= 0])
    return drawn


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Log(AsFrame):
    """Logged decisions and their outcomes; for evaluation they must have been drawn at random with known probabilities.

    Parameters
    ----------
    actions : (n,)
        The actions taken: ids 0..J−1, or names.
    rewards : (n,)
    costs : (n, K) or (n, J, K), optional
        Of the action taken; or of every action, if costs are known before acting: then nothing needs to be weighted. They are on
        the scale of `Rules.costs`: usage less the limit, divided by the rule's scale.
    propensities : (n,) or (n, J), optional
        The probability, in (0, 1], with which the logged action was drawn; or that of every action, so that no missing overlap
        is overlooked.
    contexts : (n,) of int, (n, p), or with an encoder the rows of a table, optional
        The context's number, or its features: what a callable target gets, and what "dr" fits outcomes to.
    groups : (n,), optional
        Who or what each row belongs to (a respondent, a patient). Rows of one group may depend on each other: intervals count
        groups, not rows, and the folds of "dr" never split one.
    in_order : bool
        Whether rows are in order of time and later propensities, or the target's, may depend on earlier outcomes because one of the
        policies learns: "dr" then fits the outcomes of a row only on earlier rows.
    action_names : sequence of str, optional
    constraints : Rules or sequence of str, optional
        Names of the constraints; rules name the actions as well.
    usage, group : mapping of names to (n,) arrays, and (n,) groups; optional
        With rules, in place of costs: what was used, in the units of the rules, and the group of each context.
    n_actions : int, optional
        J, if neither names nor propensities say it; by default the largest id + 1.
    encoder : Encoder, optional
        Turns contexts that are rows of a table into features.

    Examples
    --------
    >>> Log([0, 1, 1], [1.0, 0.0, 1.0], propensities=[0.5, 0.5, 0.5])
    Log(rows=3, actions=2, constraints=0)
    >>> Log([0, 1], [1.0, 0.0], propensities=[0.5, 1.5])
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: propensities[1] must lie in (0, 1], but got 1.5.
    """

    # (n,), −1 in every row where the rewards of all actions are known: `tells_all`.
    actions: Codes
    # (n,), or (n, J)
    rewards: Array
    costs: Array
    propensities: Array | None
    contexts: NDArray[Any] | None
    groups: Codes | None
    in_order: bool
    action_names: tuple[str, ...]
    constraints: tuple[str, ...]
    # Of a log made from a table: the whole table, which columns hold what, and how many rows were left out.
    frame: Frame
    columns: LogColumns
    left_out: int

    def __init__(
        self,
        actions: ArrayLike,
        rewards: ArrayLike,
        costs: ArrayLike | None = None,
        *,
        propensities: ArrayLike | None = None,
        contexts: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        in_order: bool = False,
        action_names: Sequence[str] | None = None,
        constraints: Rules | Sequence[str] | None = None,
        usage: Mapping[str, Any] | None = None,
        group: Any = None,
        n_actions: int | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        if encoder is not None and contexts is not None:
            contexts = encoder.transform(contexts)
        y = finite_array("rewards", rewards, (None,))
        n = y.size
        if n < 2:
            raise InvalidInput(field="a log", must="have at least 2 rows", got=n)
        if usage is not None:
            if not isinstance(constraints, Rules) or costs is not None:
                raise InvalidInput("usage takes the place of costs, and needs constraints=Rules([...]).")
            costs = constraints.logged(usage, labels(actions).tolist(), group)
        if isinstance(constraints, Rules):
            if action_names is not None:
                raise InvalidInput("action_names come from the rules: leave them out.")
            action_names, constraints = tuple(map(str, constraints.actions)), constraints.names
        known = None if action_names is None else _names("action_names", action_names)
        p = None if propensities is None else real_array("propensities", propensities, (n,), (n, None))
        told = {} if known is None else {"action_names": len(known)}
        if p is not None and p.ndim == 2:
            told["propensities"] = p.shape[1]
        if n_actions is not None:
            told["n_actions"] = whole_number("n_actions", n_actions, low=1)
        if len(set(told.values())) > 1:
            raise InvalidInput(field="the number of actions", must="be one", got=told)
        count = next(iter(told.values()), None)
        ids = action_ids(actions, known, n, count)
        count = int(ids.max()) + 1 if count is None else count
        if p is not None:
            _require_propensities(p, ids)
        w = finite_array("costs", np.empty((n, 0)) if costs is None else costs, (n, None), (n, count, None))
        K = w.shape[-1]
        names = tuple(f"constraint {k}" for k in range(K))
        if constraints is not None:
            names = _names("constraints", constraints)
            if len(names) != K:
                must, came = f"name the {K} columns of costs", Shown(f"{len(names)} names")
                raise InvalidInput(field="constraints", must=must, got=came)
        every = known or tuple(f"action {j}" for j in range(count))
        _fill(
            self,
            actions=ids,
            rewards=y,
            costs=w,
            propensities=p,
            contexts=None if contexts is None else _contexts(contexts, n),
            groups=None
            if groups is None
            else _require_two(units(Frame({"groups": _entries("groups", groups, n)}), "groups")),
            in_order=bool(in_order),
            action_names=every,
            constraints=names,
            frame=Frame({"action": np.array(every)[ids], "reward": y}),
            columns=LogColumns(action="action", reward="reward"),
            left_out=0,
        )

    @classmethod
    def from_frame(
        cls,
        table: Any,
        columns: LogColumns,
        *,
        actions: Sequence[str] | None = None,
        encoder: Encoder | None = None,
        costs: Sequence[str] = (),
        probability: str | None = None,
        unit: str | Sequence[str] | None = None,
        in_order: bool = False,
        every: bool = True,
        named: Callable[[Any], str] = str,
        left_out: int = 0,
    ) -> Self:
        """The rows of a table that `Frame` reads, none of which may lack what is named.

        `actions` are all of them, in order; by default those of the table, sorted. With `every` each must occur. `named` gives
        the name of an action by its value in the table. `encoder`, and the columns `costs`, `probability` and `unit`, become
        `contexts`, `costs`, `propensities` and `groups` of the constructor. `left_out` rows were left out before.

        >>> columns = LogColumns(action="sent", reward="bought", usage={"minutes": "minutes"})
        >>> log = Log.from_frame({"sent": ["a", "b"], "bought": [0, 1], "minutes": [3.0, 9.0]}, columns)
        >>> log.names.tolist(), log.used("minutes").tolist()
        (['a', 'b'], [3.0, 9.0])
        """
        frame = Frame(table)
        done, names = np.full(len(frame), -1), tuple(actions or ())
        if (chosen := columns.action or columns.label) is not None:
            done, names = _codes(frame, chosen, actions, named, every)
        if columns.label is not None:
            rewards, done = np.eye(len(names))[done], np.full(len(frame), -1)
        elif isinstance(columns.reward, Mapping):
            names = names or tuple(columns.reward)
            rewards = by_action(frame, columns.reward, names, "reward")
        elif columns.success is not None:
            assert isinstance(columns.reward, str)
            rewards = np.asarray(frame.whole(columns.reward) == columns.success, dtype=np.float64)
        else:
            assert columns.reward is not None
            rewards = frame.numbers(columns.reward)
        log = _fill(
            object.__new__(cls),
            actions=done,
            rewards=rewards,
            costs=np.column_stack([np.empty((len(frame), 0)), *map(frame.numbers, costs)]),
            propensities=None if probability is None else frame.numbers(probability),
            contexts=None if encoder is None else encoder.transform(frame),
            groups=None if unit is None else _require_two(units(frame, unit)),
            in_order=bool(in_order),
            action_names=names,
            constraints=tuple(costs),
            frame=frame,
            columns=columns,
            left_out=left_out,
        )
        if log.propensities is not None:
            _require_propensities(log.propensities, log.actions)
        return log

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def n_rows(self) -> int:
        return len(self.rewards)

    @property
    def n_actions(self) -> int:
        return len(self.action_names)

    @property
    def n_constraints(self) -> int:
        return len(self.constraints)

    @property
    def tells_all(self) -> bool:
        """Whether a row has the reward of every action, rather than of the one taken."""
        return self.rewards.ndim == 2

    @property
    def chances(self) -> Array:
        p = self.propensities
        if p is None:
            raise InvalidInput(
                "propensities are missing; pass the probability with which each action was drawn."
            )
        return p if p.ndim == 1 else p[np.arange(p.shape[0]), self.actions]

    @cached_property
    def context_groups(self) -> NDArray[np.str_] | None:
        if self.columns.group is None:
            return None
        entries = self.frame.whole(self.columns.group)
        if entries.dtype.kind != "f":
            return entries.astype(str)
        # As names: CSV files have no integers.
        values, codes = np.unique(entries, return_inverse=True)
        return np.array([action_name(one) for one in values.tolist()])[codes.ravel()]

    def sample(self, most: int) -> Self:
        """The log itself, or so many of its rows, drawn at random and always the same."""
        n = len(self)
        if n <= most:
            return self
        drawn = np.sort(np.random.default_rng(0).choice(n, most, replace=False, shuffle=False))
        every = {one.name: getattr(self, one.name) for one in fields(self)}
        some = {name: one[drawn] for name, one in every.items() if isinstance(one, np.ndarray)}
        return _fill(object.__new__(type(self)), **every | some | {"frame": self.frame.where(drawn)})

    def context_group(self, i: int) -> str | None:
        groups = self.context_groups
        return None if groups is None else str(groups[i])

    def used(self, usage: str, actions: Sequence[str] | None = None, untold: float = 0.0) -> Array:
        """What the action taken used, (n,); or every action, (n, J), with `untold` where the table doesn't say."""
        stated = self.columns.usage[usage]
        if isinstance(stated, str):
            return self.frame.numbers(stated)
        names = self.action_names if actions is None else actions
        return np.column_stack([self.frame.numbers(stated.get(one, untold)) for one in names])

    def lessons(self) -> tuple[Codes, Codes, Array]:
        """What a model can learn from it: row, action and reward, (m,) each; of every action if a row has all rewards."""
        n, J = len(self), self.n_actions
        if self.tells_all:
            return np.repeat(np.arange(n), J), np.tile(np.arange(J), n), self.rewards.ravel()
        return np.arange(n), self.actions, self.rewards

    def for_actions(self, names: Sequence[str]) -> Self:
        wanted = Actions(tuple(names))
        if {*wanted} != {*self.action_names}:
            here = list(self.action_names)
            raise InvalidInput(f"the table has the actions {here}, but the spec has {list(names)}")
        order = np.array(wanted.ids(self.action_names))
        changes: dict[str, Any] = {"action_names": tuple(names)}
        if self.tells_all:
            changes["rewards"] = self.rewards[:, np.argsort(order)]
        else:
            changes["actions"] = order[self.actions]
        return _fill(object.__new__(type(self)), **vars(self) | changes)

    def __repr__(self) -> str:
        return f"Log(rows={self.n_rows}, actions={self.n_actions}, constraints={self.n_constraints})"

    @property
    def names(self) -> NDArray[np.str_]:
        return np.array(self.action_names)[self.actions]

    def to_frame(self, library: Library = "pandas") -> Any:
        """A row for each decision: action, reward, probability, costs of what was done, context and group where there are any."""
        costs = self.costs if self.costs.ndim == 2 else self.costs[np.arange(self.n_rows), self.actions]
        columns: dict[str, Any] = {"action": self.names, "reward": self.rewards}
        columns |= {} if self.propensities is None else {"probability": self.chances}
        columns |= {name: costs[:, k] for k, name in enumerate(self.constraints)}
        if self.contexts is not None and self.contexts.ndim == 1:
            columns["context"] = self.contexts
        elif self.contexts is not None:
            columns |= {f"x{i}": column for i, column in enumerate(self.contexts.T)}
        if self.groups is not None:
            columns["group"] = self.groups
        return made_frame({name: values.tolist() for name, values in columns.items()}, library)

    def _repr_html_(self) -> str:
        rows = []
        for j, name in enumerate(self.action_names):
            mine = self.actions == j
            rewards = self.rewards[mine]
            mean = float(rewards.mean()) if rewards.size else None
            rows.append((name, int(mine.sum()), float(mine.mean()), mean))
        known: list[tuple[str, Any]] = [("mean reward", float(self.rewards.mean()))]
        known += [("constraints", self.constraints)] if self.constraints else []
        shown = displays.table(("action", "times", "share", "mean reward"), rows)
        return displays.page(f"Log of {self.n_rows:,} decisions", displays.facts(known), shown)


def _fill(log: _Log, **fields: Any) -> _Log:
    """Set the fields of a new log, arrays as read-only copies."""
    for field, value in fields.items():
        if isinstance(value, np.ndarray):
            value = value.copy()
            value.flags.writeable = False
        object.__setattr__(log, field, value)
    return log


def action_ids(
    actions: ArrayLike, names: tuple[str, ...] | None, n: int, count: int | None, what: str = "actions"
) -> Codes:
    given = _entries(what, actions, n)
    if given.dtype.kind == "U" and names is None:
        raise InvalidInput(f"{what} are names: pass action_names= to list them all.")
    return np.array(Actions(count if names is None else names).ids(given, what), dtype=np.int64)


def _entries(what: str, given: ArrayLike, n: int) -> NDArray[Any]:
    found = labels(given)
    if found.shape != (n,) or found.dtype.kind not in "iuU":
        came = Shown(f"{found.dtype} of shape {found.shape}")
        raise InvalidInput(field=what, must=f"be {n} ids or names, one for each row", got=came)
    return found


def require_distributions(name: str, p: Array) -> None:
    require_range(name, p, 0.0, 1.0)
    wrong = np.abs(p.sum(axis=1) - 1.0) > 1e-6
    if wrong.any():
        i = first(wrong)[0]
        raise InvalidInput(field=Place(name, i), must=f"sum to 1, but it sums to {p[i].sum():.9g}")


def _require_propensities(p: Array, ids: Codes) -> None:
    if p.ndim == 2:
        require_distributions("propensities", p)
        taken = p[np.arange(len(p)), ids]
        if (taken == 0).any():
            i = first(taken == 0)[0]
            must = "be above 0, since this action was taken"
            raise InvalidInput(field=Place("propensities", (i, int(ids[i]))), must=must)
        return
    require_finite("propensities", p)
    bad = (p <= 0) | (p > 1)
    if bad.any():
        i = first(bad)[0]
        raise InvalidInput(field=Place("propensities", i), must="lie in (0, 1]", got=Shown(f"{p[i]:g}"))


def _contexts(contexts: ArrayLike, n: int) -> NDArray[Any]:
    given = np.asarray(contexts)
    if given.ndim == 1 and given.dtype.kind in "iu":
        if given.shape != (n,):
            must = f"have one entry for each of {n} rows"
            raise InvalidInput(field="contexts", must=must, got=given.size)
        if (given < 0).any():
            i = first(given < 0)[0]
            raise InvalidInput(field=Place("contexts", i), must="be 0 or more", got=int(given[i]))
        return given.astype(np.int64)
    return finite_array("contexts", contexts, (n, None))


def _names(what: str, given: Sequence[str]) -> tuple[str, ...]:
    names = tuple(given)
    texts = all(isinstance(one, str) for one in names)
    if isinstance(given, str) or not texts or len(set(names)) != len(names):
        raise InvalidInput(field=what, must="be different strings", got=given)
    return names


def action_name(value: Any) -> str:
    """An entry of an action column as a name: CSV files have no integers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def by_action(frame: Frame, values: Mapping[Any, str | float], actions: Sequence[str], what: str) -> Array:
    """For each row the value of each action, (n, J)."""
    by_name = {str(key): value for key, value in values.items()}
    if set(by_name) != set(actions):
        raise InvalidInput(field=what, must=f"have the actions {list(actions)}", got=list(by_name))
    stated = (by_name[one] for one in actions)
    columns = [one if isinstance(one, str) else finite_number(what, one) for one in stated]
    return np.column_stack([frame.numbers(one) for one in columns])


def units(frame: Frame, names: str | Sequence[str]) -> Codes:
    """A number for each row, equal for rows that agree in all these columns, numbered by first appearance."""
    if not isinstance(names, str) and len(names) == 0:
        raise InvalidInput(field="unit", must="be one or more column names", got=names)
    columns = [frame.whole(name) for name in ([names] if isinstance(names, str) else names)]
    met: dict[tuple[Any, ...], int] = {}
    codes = np.empty(len(frame), dtype=np.int64)
    for begin in range(0, len(frame), CHUNK):
        rows = slice(begin, begin + CHUNK)
        codes[rows] = [met.setdefault(key, len(met)) for key in zip(*(one[rows].tolist() for one in columns))]
    return codes


def _require_two(groups: Codes) -> Codes:
    if groups.max() == 0:
        raise InvalidInput(field="groups", must="be at least 2, but all rows belong to one")
    return groups


def _codes(
    frame: Frame, name: str, actions: Sequence[str] | None, named: Callable[[Any], str], every: bool
) -> tuple[Codes, tuple[str, ...]]:
    distinct, codes = np.unique(frame.whole(name), return_inverse=True)
    found = tuple(named(value) for value in distinct.tolist())
    wanted = Actions(found if actions is None else tuple(actions))
    if not set(found) <= set(wanted) or (every and len(found) < len(wanted)):
        must = f"hold the actions of the rules, {list(wanted)}"
        raise InvalidInput(f"column {name!r} must {must}, but it holds {list(found)}")
    return np.array(wanted.ids(found))[codes], tuple(map(str, wanted))
