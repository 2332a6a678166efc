"""Models of a reward or of costs: means, and widths that say how sure they are.

An estimator is frozen settings plus arrays. A policy takes a copy of the one that it is given, so that an estimator that has
learnt from past data gives the policy a warm start, and one object may be named twice.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.validation import (
    Array,
    finite_number,
    real_array,
    require_finite,
    require_unit_rows,
    whole_number,
)

SMALLEST_RIDGE = 1e-8


class Estimator(Protocol):
    """What a policy needs of an estimator."""

    kind: ClassVar[str]
    stat: Array

    @property
    def n_outputs(self) -> int:
        """How many quantities are learnt from the same features."""

    @property
    def dimension(self) -> int:
        """The d of the formulas."""

    def settings(self) -> dict[str, Any]:
        """Plain data from which an equal, untaught estimator can be made."""

    def arrays(self) -> dict[str, Array]:
        """The state, by name: the arrays themselves, not copies."""

    def with_outputs(self, n: int) -> Estimator:
        """A copy that learns n quantities."""


class Ridge:
    """Ridge regression on features φ ∈ R^d shared by all actions, with the confidence radius of LinUCB.

    Parameters
    ----------
    n_features : int
        d, the length of φ; ‖φ‖ ≤ 1 is asked for.
    bonus : float
        Multiplies the radius √β; 1 is the paper's.
    m : float
        Bound on ‖θ*‖.
    ridge : float
        λ in Σ = λI + Σ φφᵀ; at least 1e-8.
    n_outputs : int
        Quantities learnt from the same features. A policy sets it to the number of costs that it learns.

    Examples
    --------
    >>> model = Ridge(2)
    >>> model.learn([1.0, 0.0], 1.0)
    >>> model.means([[1.0, 0.0], [0.0, 1.0]])
    array([0.5, 0. ])
    >>> model.widths([[1.0, 0.0], [0.0, 1.0]]).round(3)
    array([0.707, 1.   ])
    """

    kind: ClassVar[str] = "ridge"

    def __init__(
        self, n_features: int, *, bonus: float = 1.0, m: float = 1.0, ridge: float = 1.0, n_outputs: int = 1
    ) -> None:
        self.n_features = whole_number("n_features", n_features, low=1)
        self._n_outputs = whole_number("n_outputs", n_outputs)
        self.bonus = finite_number("bonus", bonus, low=0.0)
        self.m = finite_number("m", m, low=0.0)
        self.ridge = finite_number("ridge", ridge, low=SMALLEST_RIDGE)
        _start_ridge(self, blocks=1)

    flat: Array
    stat: Array
    Sigma: Array
    Sigma_inv: Array
    B: Array
    Theta: Array
    wear: Array

    @property
    def n_outputs(self) -> int:
        """How many quantities are learnt from the same features."""
        return self._n_outputs

    @property
    def dimension(self) -> int:
        """The d of the formulas."""
        return self.n_features

    @property
    def n_learnt(self) -> int:
        """Outcomes learnt so far."""
        return int(self.stat[kernels.LEARNT])

    @property
    def sigma(self) -> Array:
        """Σ = λI + Σ φφᵀ, (d, d), a copy."""
        block: Array = self.Sigma[0]
        return block.copy()

    @property
    def sigma_inverse(self) -> Array:
        """Σ⁻¹ as it is used, (d, d), a copy."""
        block: Array = self.Sigma_inv[0]
        return block.copy()

    @property
    def theta(self) -> Array:
        """θ̂, (d,), or (n_outputs, d)."""
        theta: Array = self.Theta[0, 0] if self.n_outputs == 1 else self.Theta[0]
        return theta.copy()

    def learn(self, features: Any, outcome: Any) -> None:
        """Take in one outcome (a number, or n_outputs of them) seen at `features` (d,)."""
        x, y = _ridge_outcome(self, features, outcome)
        learn_ridge(self, 0, x, y)

    def means(self, features: Any) -> Array:
        """⟨θ̂, φ⟩ for rows (J, d): (J,), or (J, n_outputs)."""
        rows = _unit_rows("features", features, self.n_features)
        means: Array = rows @ self.Theta[0].T
        return means.reshape(-1) if self.n_outputs == 1 else means

    def widths(self, features: Any) -> Array:
        """‖φ‖_{Σ⁻¹} for rows (J, d), without the radius."""
        rows = _unit_rows("features", features, self.n_features)
        return ridge_widths(self, rows, np.zeros(len(rows), dtype=np.int64))

    def radius(self, horizon: float) -> float:
        """bonus · √β for a confidence of 1 − 1/horizon."""
        return _ridge_radius(self, horizon)

    def settings(self) -> dict[str, Any]:
        """Plain data from which an equal, untaught estimator can be made."""
        return {
            "model": self.kind,
            "n_features": self.n_features,
            "bonus": self.bonus,
            "m": self.m,
            "ridge": self.ridge,
            "n_outputs": self.n_outputs,
        }

    def arrays(self) -> dict[str, Array]:
        """The state, by name: the arrays themselves, not copies."""
        return _ridge_arrays(self)

    def with_outputs(self, n: int) -> Ridge:
        """A copy that learns n quantities; what was learnt is kept, and refused where n differs."""
        return _with_outputs(self, n)

    def copy(self) -> Ridge:
        """An independent copy, state included."""
        return _with_outputs(self, self.n_outputs)

    def __repr__(self) -> str:
        return f"Ridge({self.n_features}, bonus={self.bonus:g}, m={self.m:g}, ridge={self.ridge:g})"


class DisjointRidge:
    """One ridge regression for each action on a context vector x ∈ R^p: `Ridge(n_actions * n_features)` on φ = e_j ⊗ x.

    The confidence radius is the one of all n_actions · n_features dimensions, so that the two are equal in every number, at 1/J of
    the cost or less.

    Parameters
    ----------
    n_actions : int
        J: ids run from 0 to J − 1.
    n_features : int
        p, the length of x; ‖x‖ ≤ 1 is asked for.
    bonus, m, ridge, n_outputs
        As for `Ridge`.

    Examples
    --------
    >>> model = DisjointRidge(3, 2)
    >>> model.learn([1.0, 0.0], 1.0, action=2)
    >>> model.means([1.0, 0.0])
    array([0. , 0. , 0.5])
    """

    kind: ClassVar[str] = "disjoint-ridge"

    def __init__(
        self,
        n_actions: int,
        n_features: int,
        *,
        bonus: float = 1.0,
        m: float = 1.0,
        ridge: float = 1.0,
        n_outputs: int = 1,
    ) -> None:
        self.n_actions = whole_number("n_actions", n_actions, low=1)
        self.n_features = whole_number("n_features", n_features, low=1)
        self._n_outputs = whole_number("n_outputs", n_outputs)
        self.bonus = finite_number("bonus", bonus, low=0.0)
        self.m = finite_number("m", m, low=0.0)
        self.ridge = finite_number("ridge", ridge, low=SMALLEST_RIDGE)
        _start_ridge(self, blocks=self.n_actions)

    flat: Array
    stat: Array
    Sigma: Array
    Sigma_inv: Array
    B: Array
    Theta: Array
    wear: Array

    @property
    def n_outputs(self) -> int:
        """How many quantities are learnt from the same features."""
        return self._n_outputs

    @property
    def dimension(self) -> int:
        """The d of the formulas: n_actions · n_features."""
        return self.n_actions * self.n_features

    @property
    def n_learnt(self) -> int:
        """Outcomes learnt so far, over all actions."""
        return int(self.stat[kernels.LEARNT])

    @property
    def sigma(self) -> Array:
        """The blocks of Σ, (J, p, p), a copy."""
        return self.Sigma.copy()

    @property
    def sigma_inverse(self) -> Array:
        """The blocks of Σ⁻¹ as they are used, (J, p, p), a copy."""
        return self.Sigma_inv.copy()

    @property
    def theta(self) -> Array:
        """θ̂ by action, (J, p), or (J, n_outputs, p)."""
        theta: Array = self.Theta[:, 0] if self.n_outputs == 1 else self.Theta
        return theta.copy()

    def learn(self, features: Any, outcome: Any, *, action: int) -> None:
        """Take in one outcome (a number, or n_outputs of them) of `action` at x (p,)."""
        g = _known_action(action, self.n_actions)
        x, y = _ridge_outcome(self, features, outcome)
        learn_ridge(self, g, x, y)

    def means(self, features: Any) -> Array:
        """⟨θ̂_j, x⟩ for one x (p,) or a row for each action (J, p): (J,), or (J, n_outputs)."""
        rows = self._rows(features)
        means: Array = np.einsum("jmp,jp->jm", self.Theta, rows)
        return means.reshape(-1) if self.n_outputs == 1 else means

    def widths(self, features: Any) -> Array:
        """‖x‖_{Σ_j⁻¹} by action for one x (p,) or a row for each action (J, p), without the radius."""
        return ridge_widths(self, self._rows(features), np.arange(self.n_actions))

    def radius(self, horizon: float) -> float:
        """bonus · √β for a confidence of 1 − 1/horizon, of all J · p dimensions."""
        return _ridge_radius(self, horizon)

    def settings(self) -> dict[str, Any]:
        """Plain data from which an equal, untaught estimator can be made."""
        return {
            "model": self.kind,
            "n_actions": self.n_actions,
            "n_features": self.n_features,
            "bonus": self.bonus,
            "m": self.m,
            "ridge": self.ridge,
            "n_outputs": self.n_outputs,
        }

    def arrays(self) -> dict[str, Array]:
        """The state, by name: the arrays themselves, not copies."""
        return _ridge_arrays(self)

    def with_outputs(self, n: int) -> DisjointRidge:
        """A copy that learns n quantities; what was learnt is kept, and refused where n differs."""
        return _with_outputs(self, n)

    def copy(self) -> DisjointRidge:
        """An independent copy, state included."""
        return _with_outputs(self, self.n_outputs)

    def _rows(self, features: Any) -> Array:
        x = real_array("features", features, (self.n_features,), (self.n_actions, self.n_features))
        rows = np.broadcast_to(x, (self.n_actions, self.n_features))
        require_unit_rows("features", np.atleast_2d(x), kernels.NORM_LIMIT)
        return np.ascontiguousarray(rows)

    def __repr__(self) -> str:
        return (
            f"DisjointRidge({self.n_actions}, {self.n_features}, bonus={self.bonus:g}, m={self.m:g}, "
            f"ridge={self.ridge:g})"
        )


class ArmMeans:
    """The mean outcome of each arm, with the width sqrt(log t / N) of the multi-armed case.

    Parameters
    ----------
    n_arms : int
        Ids run from 0 to n_arms − 1.
    bonus : float
        Multiplies the width; 1 is the paper's.
    n_outputs : int
        Quantities learnt for each arm. A policy sets it to the number of costs that it learns.

    Examples
    --------
    >>> model = ArmMeans(2)
    >>> model.learn(1.0, action=0)
    >>> model.learn(0.0, action=0)
    >>> model.means()
    array([0.5, nan])
    """

    kind: ClassVar[str] = "arm-means"

    def __init__(self, n_arms: int, *, bonus: float = 1.0, n_outputs: int = 1) -> None:
        self.n_actions = whole_number("n_arms", n_arms, low=1)
        self._n_outputs = whole_number("n_outputs", n_outputs)
        self.bonus = finite_number("bonus", bonus, low=0.0)
        self.stat = np.zeros(kernels.STAT_SIZE)
        self.stat[kernels.BONUS] = self.bonus
        self.counts = np.zeros(self.n_actions)
        self.sums = np.zeros((self.n_actions, self.n_outputs))

    @property
    def n_outputs(self) -> int:
        """How many quantities are learnt for each arm."""
        return self._n_outputs

    @property
    def dimension(self) -> int:
        """The d of the formulas: one indicator for each arm."""
        return self.n_actions

    @property
    def n_learnt(self) -> int:
        """Outcomes learnt so far, over all arms."""
        return int(self.stat[kernels.LEARNT])

    def learn(self, outcome: Any, *, action: int) -> None:
        """Take in one outcome (a number, or n_outputs of them) of `action`."""
        a = _known_action(action, self.n_actions)
        kernels.arms_learn(a, _outcome(outcome, self.n_outputs), self.counts, self.sums, self.stat)

    def means(self) -> Array:
        """The mean by arm, (J,), or (J, n_outputs); NaN for an arm without an outcome."""
        with np.errstate(invalid="ignore"):
            means: Array = self.sums / self.counts[:, None]
        return means.reshape(-1) if self.n_outputs == 1 else means

    def widths(self, t: float) -> Array:
        """bonus · sqrt(log t / N) by arm; infinite for an arm without an outcome."""
        t = finite_number("t", t, low=1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.counts == 0, np.inf, self.bonus * np.sqrt(np.log(t) / self.counts))

    def settings(self) -> dict[str, Any]:
        """Plain data from which an equal, untaught estimator can be made."""
        return {
            "model": self.kind,
            "n_arms": self.n_actions,
            "bonus": self.bonus,
            "n_outputs": self.n_outputs,
        }

    def arrays(self) -> dict[str, Array]:
        """The state, by name: the arrays themselves, not copies."""
        return {"stat": self.stat, "counts": self.counts, "sums": self.sums}

    def with_outputs(self, n: int) -> ArmMeans:
        """A copy that learns n quantities; what was learnt is kept, and refused where n differs."""
        return _with_outputs(self, n)

    def copy(self) -> ArmMeans:
        """An independent copy, state included."""
        return _with_outputs(self, self.n_outputs)

    def __repr__(self) -> str:
        return f"ArmMeans({self.n_actions}, bonus={self.bonus:g})"


MODELS: dict[str, type[Ridge] | type[DisjointRidge] | type[ArmMeans]] = {
    cls.kind: cls for cls in (Ridge, DisjointRidge, ArmMeans)
}


def model_from_settings(settings: dict[str, Any]) -> Ridge | DisjointRidge | ArmMeans:
    """An untaught estimator from what `settings()` gave.

    >>> model_from_settings(ArmMeans(3).settings())
    ArmMeans(3, bonus=1)
    """
    rest = dict(settings)
    kind = rest.pop("model", None)
    if kind not in MODELS:
        raise InvalidInput(f"model must be one of {', '.join(MODELS)}, but got {kind!r}.")
    try:
        return MODELS[kind](**rest)
    except TypeError as error:
        raise InvalidInput(f"settings of a {kind} model: {error}.") from error


def _start_ridge(model: Ridge | DisjointRidge, blocks: int) -> None:
    """All arrays in one, `model.flat`, and a view of each."""
    p, M = model.n_features, model.n_outputs
    model.flat = kernels.new_ridge(blocks, p, M)
    views = kernels.ridge_views(model.flat)
    model.stat, model.Theta, model.Sigma_inv, model.Sigma, model.B, model.wear = views
    model.stat[:] = 0.0, model.bonus, model.m, model.ridge, model.dimension
    model.Sigma[:] = model.ridge * np.eye(p)
    model.Sigma_inv[:] = np.eye(p) / model.ridge


def learn_ridge(model: Ridge | DisjointRidge, g: int, x: Array, y: Array) -> None:
    """Outcomes y (n_outputs,) at x (p,) into block g; both are C-contiguous, and checked."""
    if kernels.ridge_learn(model.flat, g, x, 0, y, 0, np.empty_like(x), 0):
        refresh_ridge(model, g)


def refresh_ridge(model: Ridge | DisjointRidge, g: int) -> None:
    """Σ⁻¹ and θ̂ of block g afresh from Σ and b."""
    kernels.ridge_refresh(model.flat, g, np.empty(2 * model.n_features**2))


def ridge_widths(model: Ridge | DisjointRidge, rows: Array, blocks: NDArray[np.int64]) -> Array:
    """‖row‖_{Σ⁻¹} of each row (n, p) by the block that is named for it."""
    p = model.n_features
    widths = np.empty(len(rows))
    scratch = np.empty(kernels.scratch_size(p))
    kernels.ridge_widths(model.flat, rows.reshape(-1), 0, False, blocks, scratch, 0, widths, 0, 1)
    return widths


def _ridge_arrays(model: Ridge | DisjointRidge) -> dict[str, Array]:
    return {name: getattr(model, name) for name in ("stat", "Sigma", "Sigma_inv", "B", "Theta", "wear")}


def _ridge_radius(model: Ridge | DisjointRidge, horizon: float) -> float:
    T = finite_number("horizon", horizon, low=1.0)
    return float(
        model.bonus
        * kernels.confidence_radius(
            model.stat[kernels.LEARNT], float(model.dimension), T, model.m, model.ridge
        )
    )


def _ridge_outcome(model: Ridge | DisjointRidge, features: Any, outcome: Any) -> tuple[Array, Array]:
    x = real_array("features", features, (model.n_features,))
    require_unit_rows("features", x[None, :], kernels.NORM_LIMIT)
    return x, _outcome(outcome, model.n_outputs)


def _outcome(outcome: Any, n_outputs: int) -> Array:
    shapes: list[tuple[int | None, ...]] = [(n_outputs,)]
    if n_outputs == 1:
        shapes.append(())
    y = real_array("outcome", outcome, *shapes).reshape(n_outputs)
    require_finite("outcome", y)
    return y


def _unit_rows(name: str, value: Any, n: int) -> Array:
    rows = real_array(name, value, (None, n))
    require_unit_rows(name, rows, kernels.NORM_LIMIT)
    return rows


def _known_action(action: Any, n_actions: int) -> int:
    a = whole_number("action", action)
    if a >= n_actions:
        raise InvalidInput(f"action must be below {n_actions}, but got {a}.")
    return a


_Model = TypeVar("_Model", Ridge, DisjointRidge, ArmMeans)


def _with_outputs(model: _Model, n: int) -> _Model:
    fresh = type(model)(**{**{k: v for k, v in model.settings().items() if k != "model"}, "n_outputs": n})
    if n == model.n_outputs:
        for name, array in model.arrays().items():
            fresh.arrays()[name][...] = array
    elif model.n_learnt:
        raise InvalidInput(
            f"a model that has learnt {model.n_outputs} quantities can't go on with {n}: make it with n_outputs={n}."
        )
    return fresh
