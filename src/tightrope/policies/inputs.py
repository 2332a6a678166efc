"""What a policy is given, brought into the kernels' form, or refused with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels, schedules
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge
from tightrope.policies.linear import Linear
from tightrope.rules import Rules
from tightrope.validation import Array, real_array, require_range, require_unit_rows

Model = Linear | ArmMeans


def seen_before(K: int, rules: Rules | None, cost: Model | None) -> NDArray[np.bool_]:
    """Which of K costs are seen before acting, (K,)."""
    if rules is None:
        return np.full(K, cost is None)
    known = np.asarray(rules.seen, dtype=bool)
    if cost is None and not known.all():
        k = int(np.argmin(known))
        raise InvalidInput(
            f"the rule {rules.names[k]!r} is seen after acting, so a model of its cost is needed: give cost=."
        )
    if cost is not None and known.all():
        raise InvalidInput(
            'cost= models costs that are seen after acting, but every rule here is seen="before".'
        )
    return known


def cost_ranges(K: int, rules: Rules | None, cost_range: Any) -> Array:
    """What each of K costs is known to lie in, (K, 2)."""
    if rules is not None:
        if cost_range is not None:
            raise InvalidInput("cost_range comes from the rules' declared ranges: do not give it as well.")
        return np.array(rules.cost_range, dtype=float).reshape(K, 2)
    given = real_array("cost_range", (-1.0, 1.0) if cost_range is None else cost_range, (2,), (K, 2))
    ranges = np.array(np.broadcast_to(given, (K, 2)))
    require_range("cost_range", ranges, -1.0, 1.0)
    bad = ranges[:, 0] >= ranges[:, 1]
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(
            f"`low < high` must hold in cost_range, but constraint {k} has {tuple(ranges[k].tolist())}."
        )
    return ranges


def check_model_sizes(reward: Model, cost: Model | None, rules: Rules | None) -> None:
    """Refuse models and rules that do not speak of the same number of actions."""
    sizes = {
        name: owner.n_actions
        for name, owner in (("reward", reward), ("cost", cost))
        if isinstance(owner, (DisjointRidge, ArmMeans))
    }
    if rules is not None:
        sizes["rules"] = len(rules.actions)
    if len(set(sizes.values())) > 1:
        raise InvalidInput(f"reward, cost and rules must know the same number of actions, but got {sizes}.")


def power_settings(name: str, power: Any) -> list[float] | None:
    """A schedule as plain data."""
    if power is None:
        return None
    schedule = schedules.as_schedule(name, power)
    return [schedule.scale, schedule.exponent]


def row_length(model: Model | None) -> int:
    """How many features a row has; 0 where a model takes none."""
    return 0 if model is None or isinstance(model, ArmMeans) else model.n_features


def feature_rows(name: str, value: Any, model: Model, J: int | None) -> tuple[Array | None, int | None]:
    """Feature rows in the kernels' form and, where they tell it, the number of actions."""
    if isinstance(model, ArmMeans):
        if value is not None:
            raise InvalidInput(f"{name} are not needed by ArmMeans, so they can't be given.")
        return None, J if J is not None else model.n_actions
    if value is None:
        raise InvalidInput(
            f"{name} are needed by {type(model).__name__}: {model.n_features} numbers an action."
        )
    p = model.n_features
    if isinstance(model, DisjointRidge):
        J = model.n_actions if J is None else J
        rows = real_array(name, value, (p,), (J, p))
        return (rows[None, :] if rows.ndim == 1 else rows), J
    rows = real_array(name, value, (J, p))
    if not len(rows):
        raise InvalidInput(f"at least one action must be on offer, but {name} has no row.")
    return rows, len(rows)


def logged_rows(name: str, value: Any, model: Model, n: int) -> Array | None:
    """One feature row for each of n logged decisions."""
    if isinstance(model, ArmMeans):
        if value is not None:
            raise InvalidInput(f"{name} are not needed by ArmMeans, so they can't be given.")
        return None
    if value is None:
        raise InvalidInput(
            f"{name} are needed by {type(model).__name__}: {model.n_features} numbers a decision."
        )
    rows = real_array(name, value, (n, model.n_features))
    require_valid_rows(name, rows)
    return rows


def require_valid_rows(name: str, rows: Array) -> None:
    """Refuse a row whose norm is above 1, naming it."""
    # The kernel's sums may round the other way than NumPy's: its verdict counts, the lower limit only names the row.
    if not kernels.rows_are_valid(rows):
        require_unit_rows(name, rows, kernels.NORM_LIMIT - 1e-12)


def rounds_given(name: str, value: Any) -> int:
    """For how many rounds an argument of `decide_many` is."""
    if isinstance(value, (str, bytes)) or not (isinstance(value, Sequence) or np.ndim(value)):
        raise InvalidInput(f"{name} must have one entry for each round, but got {value!r}.")
    return len(value)


def plain_group(group: Any) -> str | tuple[str, ...] | None:
    """A context's groups in a form that can be kept and saved."""
    if group is None or isinstance(group, str):
        return group
    if not isinstance(group, Iterable):
        raise InvalidInput(f"group must be a name or several, but got {group!r}.")
    names = tuple(group)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"group must be a name or several, but got {name!r} among them.")
    return tuple(sorted(names))
