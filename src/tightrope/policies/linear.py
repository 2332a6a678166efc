"""What policies of linear rewards and costs share: one round's features, what a model says of them, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import DisjointRidge, Ridge, ridge_widths
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.validation import (
    Array,
    finite_number,
    real_array,
    require_range,
    require_unit_rows,
    whole_number,
)

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular

Linear = Ridge | DisjointRidge


# One round's features, and what a linear model says of them


class Seen(NamedTuple):
    """What a model needs to learn the outcome of one decision."""

    action: int
    row: Array


class SeenBoth(NamedTuple):
    """What the models of reward and costs need to learn the outcome of one decision."""

    reward: Seen
    cost: Seen


class Offer(NamedTuple):
    """The actions on offer: ids (J,) and a feature row for each (J, d)."""

    ids: NDArray[np.int64]
    rows: Array

    def seen(self, row: int) -> Seen:
        """What is kept of the chosen row."""
        return Seen(int(self.ids[row]), self.rows[row].copy())

    def row_of(self, name: str, action: int) -> int:
        """The row of an action that must be on offer."""
        rows = np.flatnonzero(self.ids == action)
        if not len(rows):
            raise InvalidInput(
                f"{name} must be on offer in every round, but action {action} is not among {self.ids.tolist()}."
            )
        return int(rows[0])


def linear_model(name: str, model: Any, n_outputs: int) -> Linear:
    """A copy of a linear model that learns `n_outputs` quantities."""
    if not isinstance(model, (Ridge, DisjointRidge)):
        raise InvalidInput(f"{name} must be a Ridge or DisjointRidge, but got {model!r}.")
    return model.with_outputs(n_outputs)


def action_ids(actions: Any, n_actions: int) -> NDArray[np.int64]:
    """Ids below n_actions, each once and at least one; all of them for None.

    >>> action_ids([2, 0], 3).tolist()
    [2, 0]
    """
    if actions is None:
        return np.arange(n_actions)
    if isinstance(actions, (str, bytes)) or not isinstance(actions, (Sequence, np.ndarray)):
        raise InvalidInput(f"actions must be a sequence of action ids, but got {actions!r}.")
    ids = np.array([whole_number(f"actions[{i}]", a) for i, a in enumerate(actions)], dtype=np.int64)
    if not len(ids) or ids.max() >= n_actions or len(np.unique(ids)) != len(ids):
        raise InvalidInput(
            f"actions must be ids below {n_actions}, each once and at least one, but got {list(actions)!r}."
        )
    return ids


def offered(name: str, value: Any, actions: Any, model: Linear) -> Offer:
    """Checked features in one form: a row for each action on offer."""
    p = model.n_features
    if value is None:
        raise InvalidInput(f"{name} are needed by {type(model).__name__}: {p} numbers an action.")
    if isinstance(model, DisjointRidge):
        ids = action_ids(actions, model.n_actions)
        given = real_array(name, value, (p,), (len(ids), p))
        # Row-major, which a copy of a broadcast array is not by itself and the kernels ask for.
        rows = np.array(np.broadcast_to(given, (len(ids), p)), order="C")
    else:
        rows = real_array(name, value, (None, p))
        if not len(rows):
            raise InvalidInput(f"at least one action must be on offer, but {name} has no row.")
        ids = np.arange(len(rows)) if actions is None else action_ids(actions, np.iinfo(np.int64).max)
        if len(ids) != len(rows):
            raise InvalidInput(
                f"{name} must have a row for each action, but got {len(rows)} rows and {len(ids)} actions."
            )
    require_unit_rows(name, rows, kernels.NORM_LIMIT)
    return Offer(ids, rows)


def offered_both(
    features: Any, costs: Any, actions: Any, reward: Linear, cost: Linear
) -> tuple[Offer, Offer]:
    """The features of the reward and those of the costs, which are the same where `costs` is None."""
    phi = offered("features", features, actions, reward)
    psi = offered("cost features", features if costs is None else costs, actions, cost)
    if len(phi.ids) != len(psi.ids):
        raise InvalidInput(
            f"features and cost features must have a row for each action, but got {len(phi.ids)} and {len(psi.ids)} rows."
        )
    return phi, psi


def estimates(model: Linear, offer: Offer) -> tuple[Array, Array]:
    """Means (J, n_outputs) and widths ‖φ_j‖_{Σ⁻¹} (J,), without the radius."""
    if isinstance(model, DisjointRidge):
        means: Array = np.einsum("jmp,jp->jm", model.Theta[offer.ids], offer.rows)
        blocks = offer.ids
    else:
        means = offer.rows @ model.Theta[0].T
        blocks = np.zeros_like(offer.ids)
    return means, ridge_widths(model, offer.rows, blocks)


def teach(model: Linear, seen: Seen, outcome: float | Array) -> None:
    """Let a model learn one outcome."""
    if isinstance(model, DisjointRidge):
        model.learn(seen.row, outcome, action=seen.action)
    else:
        model.learn(seen.row, outcome)


def learn_both(
    ledger: Ledger[SeenBoth],
    decision: Decision | int,
    reward: Any,
    costs: Any,
    reward_model: Linear,
    cost_model: Linear,
) -> None:
    """Take in reward and costs of a decision, each into its model; everything is checked before anything changes."""
    number = ledger.find(decision)
    r = finite_number("reward", reward)
    w = observed_costs(costs, cost_model.n_outputs)
    seen = ledger.take(number)
    teach(reward_model, seen.reward, r)
    teach(cost_model, seen.cost, w)


def observed_costs(costs: Any, n_constraints: int) -> Array:
    """K observed costs in [−1, 1]."""
    shapes: list[tuple[int | None, ...]] = [(n_constraints,), *([()] if n_constraints == 1 else [])]
    w = real_array("costs", costs, *shapes).reshape(n_constraints)
    require_range("costs", w, -kernels.COST_LIMIT, kernels.COST_LIMIT)
    return w


def failure_probability(failure: Any) -> float:
    """A probability in (0, 1)."""
    p = finite_number("failure", failure, low=0.0, high=1.0, open_low=True)
    if p == 1.0:
        raise InvalidInput("failure must lie in (0, 1), but got 1.")
    return p


# Reasons why an environment is not of a policy's setting


def feature_misfits(env: Tabular, part: str, model: Linear) -> list[str]:
    """Whether the environment has the features that a model of its rewards or costs reads."""
    features = env.features if part == "reward" else env.cost_features
    J, d = env.n_actions, model.n_features
    if features is None:
        if isinstance(model, Ridge) and d == J:
            return []
        return [f"it has no features for the {part} model {model!r}; arms alone need Ridge({J})"]
    p = features.shape[-1]
    if isinstance(model, DisjointRidge):
        fits, wanted = model.n_actions == J and d == p, f"DisjointRidge({J}, {p})"
    elif features.ndim == 3:
        fits, wanted = d == p, f"Ridge({p})"
    else:
        fits, wanted = d == J * p, f"DisjointRidge({J}, {p}) or Ridge({J * p})"
    reasons = [] if fits else [f"its features need {wanted} as the {part} model, not {model!r}"]
    norms = np.sqrt(np.einsum("...p,...p->...", features, features))
    if not norms.max() ** 2 <= kernels.NORM_LIMIT:
        reasons.append(f"a feature vector has norm {norms.max():.4g}, but at most 1 is asked for")
    return reasons


def cost_misfits(env: Tabular, n_constraints: int) -> list[str]:
    """Whether the environment has that many costs, seen after acting."""
    reasons = []
    if env.n_constraints != n_constraints:
        reasons.append(f"it has {env.n_constraints} constraints, but the policy has {n_constraints}")
    if env.n_constraints and env.costs_seen != "after":
        reasons.append("its costs are seen before acting, but the policy learns them from what is seen after")
    return reasons


def action_misfits(env: Tabular, name: str, action: int) -> list[str]:
    """Whether an action that the policy counts on exists and is always on offer."""
    if action >= env.n_actions:
        return [f"{name} is action {action}, but there are {env.n_actions} actions"]
    if not env.available[env.weights > 0, action].all():
        return [f"{name} (action {action}) is not on offer in every context"]
    return []


def mean_cost_misfits(env: Tabular, action: int, at_most: float) -> list[str]:
    """Whether an action's mean costs are as low as the policy was told."""
    if action >= env.n_actions:
        return []
    worst = env.costs[env.weights > 0, action].max(initial=-np.inf)
    if worst <= at_most + 1e-9:
        return []
    return [f"action {action} has a mean cost of {worst:.4g} in some context, above {at_most:g}"]


def action_count_misfits(env: Tabular, n_actions: int) -> list[str]:
    """Whether the environment has as many actions as the policy."""
    if env.n_actions == n_actions:
        return []
    return [f"it has {env.n_actions} actions, but the policy has {n_actions}"]


def sleeping_misfits(env: Tabular) -> list[str]:
    """Whether all actions are always on offer."""
    return [] if env.available[env.weights > 0].all() else ["some actions are not always on offer"]


def unit_reward_misfits(env: Tabular) -> list[str]:
    """Whether every observed reward lies in [0, 1]."""
    inside = env.reward_noise != "gaussian" and bool(((env.rewards >= 0) & (env.rewards <= 1)).all())
    return [] if inside else ["its rewards do not stay in [0, 1]"]


def unshared_misfits(env: Tabular) -> list[str]:
    """Whether what is seen of one action tells anything about another."""
    if env.cost_features is not None and env.cost_features.ndim == 3:
        return []
    return [
        "nothing seen of one action tells about another, so no action would ever be shown to be safe: "
        "features of the costs for each action are needed"
    ]
