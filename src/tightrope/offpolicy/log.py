"""Decisions that were logged: what was done, with which chance, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import displays
from tightrope.actions import ActionNames
from tightrope.encoder import Encoder
from tightrope.errors import InvalidInput
from tightrope.frames import AsFrame, Library, made_frame
from tightrope.rules import Rules
from tightrope.validation import (
    Array,
    finite_array,
    first,
    labels,
    real_array,
    require_finite,
    require_range,
    whole_number,
)

Codes: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Log(AsFrame):
    """Decisions that were made at random, with known probabilities, and what came of them.

    Parameters
    ----------
    actions : (n,)
        What was done: ids 0..J−1, or names.
    rewards : (n,)
    costs : (n, K) or (n, J, K), optional
        Of what was done; or of every action, where costs are known before acting: then nothing needs to be weighted. Those of all
        K rules, as `Rules.costs` makes them: usage less the limit, divided by the rule's scale.
    propensities : (n,) or (n, J)
        The probability, in (0, 1], with which the logged action was drawn; or that of every action, so that missing
        overlap is found with certainty.
    contexts : (n,) of int, (n, p), or with an encoder the rows of a table, optional
        The context's number, or its features: what a callable target is given, and what "dr" fits outcomes to.
    groups : (n,), optional
        Who or what each row belongs to (a respondent, a patient). Rows of one group may depend on each other: intervals count
        groups, not rows, and the folds of "dr" never split one.
    in_order : bool
        Whether rows are in the order of time and later propensities, or the target's, may depend on earlier outcomes, as where
        either of them learns: "dr" then fits the outcomes of a row on rows before it alone, whatever the groups.
    action_names : sequence of str, optional
    constraints : Rules or sequence of str, optional
        Names of the constraints; rules name the actions as well.
    usage, group : mapping of names to (n,) arrays, and (n,) groups; optional
        With rules, in place of costs: what was used by what was done, in the units of the rules, and the group of each context.
    n_actions : int, optional
        J, where neither names nor propensities tell it; by default the largest id + 1.
    encoder : Encoder, optional
        What makes features of contexts that are rows of a table.

    Examples
    --------
    >>> Log([0, 1, 1], [1.0, 0.0, 1.0], propensities=[0.5, 0.5, 0.5])
    Log(rows=3, actions=2, constraints=0)
    >>> Log([0, 1], [1.0, 0.0], propensities=[0.5, 1.5])
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: propensities[1] must lie in (0, 1], but got 1.5.
    """

    actions: Codes
    rewards: Array
    costs: Array
    propensities: Array
    contexts: NDArray[Any] | None
    groups: Codes | None
    in_order: bool
    action_names: tuple[str, ...]
    constraints: tuple[str, ...]

    def __init__(
        self,
        actions: ArrayLike,
        rewards: ArrayLike,
        costs: ArrayLike | None = None,
        *,
        propensities: ArrayLike,
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
            raise InvalidInput(f"a log must have at least 2 rows, but got {n}.")
        if usage is not None:
            if not isinstance(constraints, Rules) or costs is not None:
                raise InvalidInput(
                    "usage stands in for costs, and needs constraints=Rules([...]), which say what of it counts."
                )
            costs = constraints.logged(usage, labels(actions).tolist(), group)
        if isinstance(constraints, Rules):
            if action_names is not None:
                raise InvalidInput("action_names come from the rules: do not give them as well.")
            action_names, constraints = tuple(map(str, constraints.actions)), constraints.names
        known = None if action_names is None else _names("action_names", action_names)
        p = real_array("propensities", propensities, (n,), (n, None))
        told = {} if known is None else {"action_names": len(known)}
        if p.ndim == 2:
            told["propensities"] = p.shape[1]
        if n_actions is not None:
            told["n_actions"] = whole_number("n_actions", n_actions, low=1)
        if len(set(told.values())) > 1:
            raise InvalidInput(f"the number of actions must be one, but got {told}.")
        ids = action_ids(actions, known, n, next(iter(told.values()), None))
        count = next(iter(told.values()), int(ids.max()) + 1)
        _require_propensities(p, ids)
        w = finite_array("costs", np.empty((n, 0)) if costs is None else costs, (n, None), (n, count, None))
        K = w.shape[-1]
        names = tuple(f"constraint {k}" for k in range(K))
        if constraints is not None:
            names = _names("constraints", constraints)
            if (named := len(names)) != K:
                raise InvalidInput(f"constraints must name the {K} columns of costs, but got {named} names.")
        fields: dict[str, Any] = {
            "actions": ids,
            "rewards": y,
            "costs": w,
            "propensities": p,
            "contexts": None if contexts is None else _contexts(contexts, n),
            "groups": None if groups is None else _groups(groups, n),
            "in_order": bool(in_order),
            "action_names": known or tuple(f"action {j}" for j in range(count)),
            "constraints": names,
        }
        for field, value in fields.items():
            if isinstance(value, np.ndarray):
                value = value.copy()
                value.flags.writeable = False
            object.__setattr__(self, field, value)

    @property
    def n_rows(self) -> int:
        """n."""
        return self.rewards.size

    @property
    def n_actions(self) -> int:
        """J."""
        return len(self.action_names)

    @property
    def n_constraints(self) -> int:
        """K."""
        return len(self.constraints)

    @property
    def chances(self) -> Array:
        """The propensity of what was done, (n,)."""
        p = self.propensities
        return p if p.ndim == 1 else p[np.arange(p.shape[0]), self.actions]

    def __repr__(self) -> str:
        return f"Log(rows={self.n_rows}, actions={self.n_actions}, constraints={self.n_constraints})"

    @property
    def names(self) -> NDArray[np.str_]:
        """What was done, by name, (n,)."""
        return np.array(self.action_names)[self.actions]

    def to_frame(self, library: Library = "pandas") -> Any:
        """A row for each decision: action, reward, probability, costs of what was done, context and group where there are any."""
        costs = self.costs if self.costs.ndim == 2 else self.costs[np.arange(self.n_rows), self.actions]
        columns: dict[str, Any] = {"action": self.names, "reward": self.rewards, "probability": self.chances}
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
        return displays.page(
            f"Log of {self.n_rows:,} decisions",
            displays.facts(known),
            displays.table(("action", "times", "share", "mean reward"), rows),
        )


def action_ids(
    actions: ArrayLike, names: tuple[str, ...] | None, n: int, count: int | None, what: str = "actions"
) -> Codes:
    """The id of the action of each of n rows, given by ids or by names."""
    given = labels(actions)
    if given.shape != (n,) or given.dtype.kind not in "iuU":
        raise InvalidInput(
            f"{what} must be {n} ids or names, one for each row, but got {given.dtype} of shape {given.shape}."
        )
    if given.dtype.kind == "U" and names is None:
        raise InvalidInput(f"{what} are names, so action_names must say which there are.")
    return np.array(ActionNames(count if names is None else names).ids(given, what), dtype=np.int64)


def require_distributions(name: str, p: Array) -> None:
    """Refuse a row that is no distribution over actions."""
    require_range(name, p, 0.0, 1.0)
    wrong = np.abs(p.sum(axis=1) - 1.0) > 1e-6
    if wrong.any():
        i = first(wrong)[0]
        raise InvalidInput(f"{name}[{i}] must sum to 1, but it sums to {p[i].sum():.9g}.")


def _require_propensities(p: Array, ids: Codes) -> None:
    if p.ndim == 2:
        require_distributions("propensities", p)
        taken = p[np.arange(len(p)), ids]
        if (taken == 0).any():
            i = first(taken == 0)[0]
            what = f"propensities[{i}, {ids[i]}] is that of the logged action"
            raise InvalidInput(f"{what}: it must be above 0.")
        return
    require_finite("propensities", p)
    bad = (p <= 0) | (p > 1)
    if bad.any():
        i = first(bad)[0]
        raise InvalidInput(f"propensities[{i}] must lie in (0, 1], but got {p[i]:g}.")


def _contexts(contexts: ArrayLike, n: int) -> NDArray[Any]:
    given = np.asarray(contexts)
    if given.ndim == 1 and given.dtype.kind in "iu":
        if given.shape != (n,):
            raise InvalidInput(f"contexts must have one entry for each of {n} rows, but got {given.size}.")
        if (given < 0).any():
            i = first(given < 0)[0]
            raise InvalidInput(f"contexts[{i}] must be 0 or more, but got {given[i]}.")
        return given.astype(np.int64)
    return finite_array("contexts", contexts, (n, None))


def _groups(groups: ArrayLike, n: int) -> Codes:
    """Numbers of the groups, in the order in which they first appear."""
    given = labels(groups)
    if given.shape != (n,) or given.dtype.kind not in "iuU":
        raise InvalidInput(
            f"groups must be {n} whole numbers or names, one for each row, but got {given.dtype} of shape {given.shape}."
        )
    _, start, inverse = np.unique(given, return_index=True, return_inverse=True)
    codes: Codes = np.argsort(np.argsort(start))[inverse]
    if codes.max() == 0:
        raise InvalidInput("groups must be at least 2, but all rows belong to one.")
    return codes


def _names(what: str, given: Sequence[str]) -> tuple[str, ...]:
    names = tuple(given)
    texts = all(isinstance(one, str) for one in names)
    if isinstance(given, str) or not texts or len(set(names)) != len(names):
        raise InvalidInput(f"{what} must be different strings, but got {given!r}.")
    return names
