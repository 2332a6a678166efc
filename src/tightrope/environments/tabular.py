"""Finitely many contexts and actions, with known true means: what runs are drawn from and the oracle solves."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope.errors import InvalidInput
from tightrope.problem import Problem, Seen, Truth, Vectors, WhenSeen, when_seen, which_before
from tightrope.rules import Rules, Units
from tightrope.validation import Array, finite_array, finite_number, first, require_choice, require_range
from tightrope.words import Place, Shown

Noise: TypeAlias = Literal["bernoulli", "gaussian", "none"]

_ROUNDING = 1e-12  # means may overshoot a limit by this much; they are then set to it


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Tabular:
    """C contexts drawn with fixed probabilities, J actions, K costs, all with the given means.

    Parameters
    ----------
    weights : (C,)
        Probabilities of the contexts; they must sum to 1 (to 1e-6, then made exact).
    features : (C, J, d), (C, p) or None
        φ(c, j); or one x(c) for all actions, for a model with parameters for each action, φ = e_j ⊗ x; or none.
    rewards : (C, J)
        Mean rewards, in [0, 1] when the noise is Bernoulli.
    costs : (C, J, K), optional
        Mean costs within `cost_range`; none means K = 0.
    cost_features : (C, J, d_w) or (C, p_w), optional
        ψ(c, j) of a cost model; by default the same as `features`.
    reward_noise : "bernoulli", "gaussian" or "none"
        Gaussian rewards have standard deviation `reward_scale` and are not clipped.
    cost_noise : "none", "bernoulli" or "gaussian"
        Bernoulli costs jump between the ends of `cost_range`. Gaussian costs have standard deviation `cost_scale`, clipped to
        `cost_range`; `.costs` then holds the means after clipping, `.cost_locations` those given. Entries are independent across
        actions and constraints given the context.
    cost_range : (low, high) or (K, 2)
        The known range of the costs.
    costs_seen : "before", "after", or a sequence of K of them
        Whether the costs of all actions are seen before acting, or only that of the chosen one, after; if constraints differ, one
        word for each.
    available : (C, J) of bool, optional
        The actions on offer in each context, at least one; by default all.
    actions, constraints : sequences of str, optional
        Names.
    optimum : float, optional
        The best mean reward per round that any policy can reach, if known: `tightrope.solve(env).value`. Simulations fall back on
        it if no LP solver is installed.
    rules : Rules, optional
        The rules that the costs come from; prices and slack are then in their units.
    groups : sequence, optional
        The group or groups of each context, for rules `among` groups.

    All parameters are attributes, as read-only float64 arrays (`available` of bool, `cost_range` always (K, 2)).

    Examples
    --------
    >>> env = Tabular([0.5, 0.5], rewards=[[0.1, 0.7], [0.4, 0.2]], costs=[[[-0.1], [0.3]], [[0.2], [-0.2]]])
    >>> env.n_contexts, env.n_actions, env.n_constraints, env.random_costs
    (2, 2, 1, False)
    >>> Tabular([1.0], rewards=[[0.5]], costs=[[[1.7]]])
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: costs[0, 0, 0] must lie in [-1, 1], but got 1.7.
    """

    name: str
    weights: Array
    features: Array | None
    rewards: Array
    costs: Array
    cost_features: Array | None
    cost_locations: Array
    reward_noise: Noise
    reward_scale: float
    cost_noise: Noise
    cost_scale: float
    cost_range: Array
    costs_seen: WhenSeen
    available: NDArray[np.bool_]
    actions: tuple[str, ...]
    constraints: tuple[str, ...]
    optimum: float | None
    rules: Rules | None
    groups: list[Any] | None
    n_contexts: int  # C
    n_actions: int  # J
    n_features: int  # length of the feature vectors: d, or p where the actions share them; 0 without features
    n_constraints: int  # K
    disjoint: bool  # whether all actions share one feature vector, so that each has parameters of its own
    seen_before: NDArray[np.bool_]  # (K,), which costs are seen before acting
    seen_mixed: bool  # whether some costs are seen before acting and others after

    def __init__(
        self,
        weights: ArrayLike,
        features: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        costs: ArrayLike | None = None,
        *,
        cost_features: ArrayLike | None = None,
        reward_noise: Noise = "bernoulli",
        reward_scale: float = 0.1,
        cost_noise: Noise = "none",
        cost_scale: float = 0.1,
        cost_range: ArrayLike = (-1.0, 1.0),
        costs_seen: Seen | Sequence[Seen] = "before",
        available: ArrayLike | None = None,
        actions: Sequence[str] | None = None,
        constraints: Sequence[str] | None = None,
        name: str = "tabular",
        optimum: float | None = None,
        rules: Rules | None = None,
        groups: Sequence[Any] | None = None,
    ) -> None:
        require_choice("reward_noise", reward_noise, get_args(Noise))
        require_choice("cost_noise", cost_noise, get_args(Noise))
        require_name(name)
        if rewards is None:
            raise InvalidInput(field="rewards", must="be given, of shape (C, J)")
        p = _probabilities(weights)
        r = finite_array("rewards", rewards, (p.size, None))
        if r.shape[1] == 0:
            raise InvalidInput(field="rewards", must="have at least one action, but its shape is (C, 0)")
        if reward_noise == "bernoulli":
            r = _within("rewards", r, 0.0, 1.0)
        w = finite_array("costs", np.zeros((*r.shape, 0)) if costs is None else costs, (*r.shape, None))
        span = declared_ranges(cost_range, w.shape[2])
        w = _within("costs", w, span[:, 0], span[:, 1])
        phi = _features("features", features, r.shape)
        psi = phi if cost_features is None else _features("cost_features", cost_features, r.shape)
        scale = finite_number("reward_scale", reward_scale, low=0.0, open_low=True)
        spread = finite_number("cost_scale", cost_scale, low=0.0, open_low=True)
        means = _clipped_means(w, spread, span) if cost_noise == "gaussian" else w
        arrays: dict[str, Any] = {"weights": p, "features": phi, "cost_features": psi, "rewards": r}
        arrays |= {"costs": means, "cost_locations": w, "cost_range": span}
        arrays["available"] = _availability(available, r.shape)
        # One array for both stays one.
        kept = {id(array): _read_only(array) for array in arrays.values() if array is not None}
        if rules is not None and constraints is None:
            constraints = rules.names
        K, names = w.shape[2], declared_names("constraints", constraints, "constraint", w.shape[2])
        if rules is not None and rules.names != names:
            wanted = f"be the columns of the rules, {list(rules.names)}"
            raise InvalidInput(field="constraints", must=wanted, got=list(names))
        if groups is not None and len(groups) != p.size:
            raise InvalidInput(field="groups", must=f"be those of each of {p.size} contexts", got=len(groups))
        seen = when_seen("costs_seen", costs_seen, K)
        vars(self).update(
            {field: kept.get(id(array)) for field, array in arrays.items()},
            name=name,
            reward_noise=reward_noise,
            reward_scale=scale,
            cost_noise=cost_noise,
            cost_scale=spread,
            costs_seen=seen,
            actions=declared_names("actions", actions, "action", r.shape[1]),
            constraints=names,
            optimum=None if optimum is None else finite_number("optimum", optimum),
            rules=rules,
            groups=None if groups is None else list(groups),
            n_contexts=p.size,
            n_actions=r.shape[1],
            n_features=0 if phi is None else phi.shape[-1],
            n_constraints=K,
            disjoint=phi is not None and phi.ndim == 2,
            seen_before=which_before(seen, K),
            seen_mixed=not isinstance(seen, str),
        )

    @property
    def jumps(self) -> NDArray[np.bool_]:
        """(C, J, K): which costs are random, among the actions on offer."""
        if self.cost_noise == "none":
            return np.zeros(self.costs.shape, dtype=bool)
        low, high = self.cost_range.T
        random = self.available[:, :, None] & (low < high)
        if self.cost_noise == "bernoulli":
            random = random & (self.costs > low) & (self.costs < high)
        return np.asarray(random)

    @property
    def random_costs(self) -> bool:
        """Whether any cost is random given the context (and the context can occur)."""
        return bool(self.jumps[self.weights > 0].any())

    @property
    def random_before(self) -> bool:
        """Whether any cost is random that is seen before acting: a choice may then depend on the costs drawn."""
        return bool(self.jumps[self.weights > 0][..., self.seen_before].any())

    @cached_property
    def units(self) -> Units:
        """What turns costs into the units of the rules."""
        shares = Units.shares_of(self.rules, self.weights, self.groups)
        return Units.of(self.rules, self.n_constraints, shares)

    def problem(self, tells: Mapping[str, Callable[[], Any]] | None = None) -> Problem:
        """The problem that it poses; for `tells` see `Problem`."""
        return replace(self._problem, tells=tells) if tells else self._problem

    @cached_property
    def _problem(self) -> Problem:
        unit = self.reward_noise != "gaussian" and bool(((self.rewards >= 0) & (self.rewards <= 1)).all())
        return Problem(
            n_actions=self.n_actions,
            n_contexts=self.n_contexts,
            features=_vectors(self.features),
            cost_features=_vectors(self.cost_features),
            n_constraints=self.n_constraints,
            seen=self.costs_seen,
            cost_range=self.cost_range,
            actions=self.actions,
            truth=Truth(
                weights=self.weights,
                rewards=self.rewards,
                costs=self.costs,
                available=self.available,
                rewards_in_unit=unit,
                costs_fixed=self.cost_noise == "none",
                random_costs=self.random_costs,
                cost_features=self.cost_features,
            ),
        )

    def __repr__(self) -> str:
        return (
            f"Tabular({self.name!r}, contexts={self.n_contexts}, actions={self.n_actions}, "
            f"features={self.n_features}, constraints={self.n_constraints}, "
            f"costs {'fixed' if self.cost_noise == 'none' else self.cost_noise}, seen {seen_words(self.costs_seen)})"
        )


def seen_words(seen: WhenSeen) -> str:
    return seen if isinstance(seen, str) else "before and after"


def changed(env: Tabular, **changes: Any) -> Tabular:
    fields = {field: getattr(env, field) for field in inspect.signature(Tabular).parameters}
    if "costs" in changes:
        # Other costs need not come from the rules; a caller who knows that they do passes the rules too.
        fields |= {"rules": None, "groups": None}
    return Tabular(**{**fields, "costs": env.cost_locations, **changes})


def _vectors(features: Array | None) -> Vectors | None:
    if features is None:
        return None
    longest = float(np.sqrt(np.einsum("...p,...p->...", features, features)).max())
    return Vectors(features.shape[-1], features.ndim == 3, longest)


def require_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidInput(field="name", must="be a string", got=name)


def _probabilities(weights: ArrayLike) -> Array:
    p = finite_array("weights", weights, (None,))
    if p.size == 0:
        raise InvalidInput(field="weights", must="have at least one entry, but it is empty")
    require_range("weights", p, 0.0, math.inf)
    if abs(p.sum() - 1.0) > 1e-6:
        raise InvalidInput(field="weights", must=f"sum to 1, but they sum to {p.sum():.9g}")
    return np.asarray(p / p.sum())


def _within(name: str, means: Array, low: Array | float, high: Array | float) -> Array:
    """The means, with rounding errors at a limit removed: so a cost that is certain stays certain."""
    low_, high_ = np.broadcast_to(low, means.shape), np.broadcast_to(high, means.shape)
    at_low, at_high = np.abs(means - low_) <= _ROUNDING, np.abs(means - high_) <= _ROUNDING
    means = np.where(at_low, low_, np.where(at_high, high_, means))
    require_range(name, means, low, high)
    return means


def declared_ranges(cost_range: ArrayLike, n_constraints: int) -> Array:
    """The known range of each cost, (K, 2)."""
    span = finite_array("cost_range", cost_range, (2,), (n_constraints, 2))
    span = np.array(np.broadcast_to(span, (n_constraints, 2)))
    bad = span[:, 0] > span[:, 1]
    if bad.any():
        k = first(bad)[0]
        came = Shown(f"{span[k].tolist()} for constraint {k}")
        raise InvalidInput(field="cost_range", must="have low <= high", got=came)
    return span


def _features(name: str, features: ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    if features is None:
        return None
    phi = finite_array(name, features, (*shape, None), (shape[0], None))
    if phi.shape[-1] == 0:
        wanted = "have at least one entry for each context; leave it out for arms only"
        raise InvalidInput(field=name, must=wanted)
    return phi


def _availability(available: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if available is None:
        return np.ones(shape, dtype=bool)
    mask = np.asarray(available)
    if mask.dtype != bool or mask.shape != shape:
        came = Shown(f"{mask.dtype} and shape {mask.shape}")
        raise InvalidInput(field="available", must=f"be of bool and shape {shape}", got=came)
    empty = np.asarray(~mask.any(axis=1))
    if empty.any():
        wanted = "offer at least one action, but it offers none"
        raise InvalidInput(field=Place("available", *first(empty)), must=wanted)
    return mask


def declared_names(name: str, given: Sequence[str] | None, prefix: str, count: int) -> tuple[str, ...]:
    """The right number of different names; numbered by default."""
    if given is None:
        return tuple(f"{prefix} {i}" for i in range(count))
    names = (given,) if isinstance(given, str) else tuple(given)
    if len(names) != count or not all(isinstance(one, str) for one in names) or len(set(names)) != count:
        raise InvalidInput(field=name, must=f"be {count} different strings", got=given)
    return names


def _clipped_means(locations: Array, scale: float, span: Array) -> Array:
    """E[clip(X, a, b)] for X ~ N(location, scale²)."""
    from scipy.special import ndtr

    low, high = span.T
    alpha, beta = (low - locations) / scale, (high - locations) / scale
    density_low, density_high = (np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in (alpha, beta))
    below, above = ndtr(alpha), ndtr(-beta)
    inside = 1.0 - below - above
    means = low * below + high * above + locations * inside + scale * (density_low - density_high)
    return np.asarray(np.clip(means, low, high))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
