"""What a policy would have earned and cost, from decisions that another one made and logged.

Four estimators, for the reward and for the mean cost of each constraint. With w = π(a|x) / p(a|x), target over log:

`replay`  keep a row with probability w / max w; the average of the rows kept
`ips`     the average of w·y: unbiased, and wide
`snips`   Σ w·y / Σ w: a little biased, mostly narrower, does not change when a constant is added to y
`dr`      the average of Σ_a π(a|x) ŷ(x, a) + w·(y − ŷ(x, a)), ŷ fitted on rows of other folds: unbiased, and narrow where ŷ is good

All four need a log whose actions were drawn at random with known probabilities. How good the intervals are, and what may not
be concluded, is in `docs/real-data.md`.

>>> rng = np.random.default_rng(1)
>>> actions = rng.integers(0, 2, 1000)
>>> rewards = (rng.random(1000) < np.array([0.3, 0.6])[actions]).astype(float)
>>> log = Log(actions, rewards, costs=np.array([[-0.2], [0.1]])[actions], propensities=np.full(1000, 0.5))
>>> print(evaluate(log, np.tile([0.2, 0.8], (1000, 1)), "snips"))
snips on 1,000 rows, worth 731 rows of the target's own
              estimate  95 % interval     limit  verdict
reward          0.5204  0.4843 to 0.5566
constraint 0    0.0383  0.0322 to 0.0444      0  violated with 95 % confidence
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from tightrope.errors import InvalidInput
from tightrope.rules import Rules
from tightrope.validation import (
    finite_number,
    first,
    real_array,
    require_finite,
    require_range,
    whole_number,
)

__all__ = ["Evaluation", "Log", "Measure", "Weights", "evaluate"]

Array: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int64]
Method: TypeAlias = Literal["replay", "ips", "snips", "dr"]
Target: TypeAlias = ArrayLike | Callable[[Any], ArrayLike]

_LEVEL = 0.95
_FOLDS = 5
_RIDGE = 1.0
_SHRINK = 5.0  # rows: with less the noise of rare cells spoils the intervals of short logs
_CERTAIN = 1e-9  # a propensity this near to 1 leaves nothing to the other actions
_FEW_ROWS = 30
_HEAVY = 0.1
_OFF_BALANCE = 4.0  # standard errors
_UNEVEN = 0.3  # skewness / √n: about that of 11 successes among many failures


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Log:
    """Decisions that were made at random, with known probabilities, and what came of them.

    Parameters
    ----------
    actions : (n,)
        What was done: ids 0..J−1, or names.
    rewards : (n,)
    costs : (n, K) or (n, J, K), optional
        Of what was done; or of every action, where costs are known before acting: then nothing needs to be weighted.
    propensities : (n,) or (n, J)
        The probability, in (0, 1], with which the logged action was drawn; or that of every action, so that missing
        overlap is found with certainty.
    contexts : (n,) of int, or (n, p), optional
        The context's number, or its features: what a callable target is given, and what "dr" fits outcomes to.
    groups : (n,), optional
        Who or what each row belongs to (a respondent, a patient). Rows of one group may depend on each other: intervals count
        groups, not rows, and the folds of "dr" never split one.
    action_names : sequence of str, optional
    constraints : Rules or sequence of str, optional
        Names of the constraints; rules name the actions as well.
    n_actions : int, optional
        J, where neither names nor propensities tell it; by default the largest id + 1.

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
        action_names: Sequence[str] | None = None,
        constraints: Rules | Sequence[str] | None = None,
        n_actions: int | None = None,
    ) -> None:
        y = real_array("rewards", rewards, (None,))
        require_finite("rewards", y)
        n = y.size
        if n < 2:
            raise InvalidInput(f"a log must have at least 2 rows, but got {n}.")
        if isinstance(constraints, Rules):
            if action_names is not None:
                raise InvalidInput("action_names come from the rules: do not give them as well.")
            action_names, constraints = tuple(map(str, constraints.actions)), constraints.names
        known = None if action_names is None else _names("action_names", action_names)
        p = real_array("propensities", propensities, (n,), (n, None))
        J = {
            "action_names": None if known is None else len(known),
            "propensities": p.shape[1] if p.ndim == 2 else None,
            "n_actions": None if n_actions is None else whole_number("n_actions", n_actions, low=1),
        }
        told = {name: count for name, count in J.items() if count is not None}
        if len(set(told.values())) > 1:
            raise InvalidInput(f"the number of actions must be one, but got {told}.")
        ids = _action_ids(actions, known, n, next(iter(told.values()), None))
        count = next(iter(told.values()), int(ids.max()) + 1)
        _require_propensities(p, ids)
        w = real_array("costs", np.empty((n, 0)) if costs is None else costs, (n, None), (n, count, None))
        require_finite("costs", w)
        K = w.shape[-1]
        names = tuple(f"constraint {k}" for k in range(K))
        if constraints is not None:
            names = _names("constraints", constraints)
            if len(names) != K:
                raise InvalidInput(
                    f"constraints must name the {K} columns of costs, but got {len(names)} names."
                )
        fields: dict[str, Any] = {
            "actions": ids,
            "rewards": y,
            "costs": w,
            "propensities": p,
            "contexts": None if contexts is None else _contexts(contexts, n),
            "groups": None if groups is None else _groups(groups, n),
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


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean under the target, with its 95 % interval.

    Attributes
    ----------
    name : str
        "reward", or the constraint's.
    value, low, high : float
        The estimate and its interval, for what chance does in drawing rows.
    bias : float
        How far clipping may have moved the estimate, estimated from the log; 0 without clipping. Not part of the interval.
    limit : float or None
        What a constraint's mean cost must not exceed.

    Examples
    --------
    >>> Measure("icu", -0.05, -0.08, -0.02, bias=0.0, limit=0.0).verdict
    'satisfied with 95 % confidence'
    """

    name: str
    value: float
    low: float
    high: float
    bias: float
    limit: float | None

    @property
    def verdict(self) -> str:
        """In words, from the interval widened by the bias; each constraint for itself, not all at once."""
        if self.limit is None:
            return ""
        if self.high + self.bias <= self.limit:
            return "satisfied with 95 % confidence"
        if self.low - self.bias > self.limit:
            return "violated with 95 % confidence"
        return "undecided"


@dataclass(frozen=True, slots=True)
class Weights:
    """How far target and log are apart.

    Attributes
    ----------
    effective : float
        (Σw)² / Σw², rows (or groups) of the target's own that the log is worth.
    mean, error : float
        Of w before clipping, and its standard error: the expectation is 1 if propensities are right and overlap is complete.
    largest : float
        Largest w before clipping.
    zero : float
        Share of the rows that the target would never have made.
    cut : float
        Average of what clipping took off w: the share of the target that is left out.

    Examples
    --------
    >>> log = Log([0, 1, 0, 1], [1.0, 0.0, 1.0, 1.0], propensities=[0.5] * 4)
    >>> evaluate(log, [[1.0, 0.0]] * 4, "snips").weights.effective
    2.0
    """

    effective: float
    mean: float
    error: float
    largest: float
    zero: float
    cut: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What `evaluate` found; `print` shows it as a table.

    Attributes
    ----------
    method : str
    rows : int
        Rows used: those of the log, or those that "replay" kept.
    groups : int or None
        Groups in the log, where rows have groups.
    reward : Measure
    constraints : tuple of Measure
    weights : Weights
    doubts : tuple of str
        Reasons, in words, to trust the numbers less than their intervals say.

    Examples
    --------
    >>> log = Log([0, 1] * 50, [1.0, 0.0] * 50, propensities=[0.5] * 100)
    >>> found = evaluate(log, [[0.5, 0.5]] * 100, "ips")
    >>> found.reward.value, found.doubts
    (0.5, ())
    """

    method: Method
    rows: int
    groups: int | None
    reward: Measure
    constraints: tuple[Measure, ...]
    weights: Weights
    doubts: tuple[str, ...]

    def __str__(self) -> str:
        measures = (self.reward, *self.constraints)
        biased = self.weights.cut > 0
        head = ["", "estimate", "95 % interval", *(["clip bias"] if biased else []), "limit", "verdict"]
        body = [
            [
                one.name,
                f"{one.value:.4f}",
                f"{one.low:.4f} to {one.high:.4f}",
                *([f"<= {one.bias:.4f}"] if biased else []),
                "" if one.limit is None else f"{one.limit:g}",
                one.verdict,
            ]
            for one in measures
        ]
        widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
        numeric = {"estimate", "limit"}
        lines = [
            "  ".join(
                cell.rjust(width) if title in numeric else cell.ljust(width)
                for cell, title, width in zip(row, head, widths, strict=True)
            ).rstrip()
            for row in (head, *body)
        ]
        among, unit = ("", "rows") if self.groups is None else (f" in {self.groups:,} groups", "groups")
        title = (
            f"{self.method} on {self.rows:,} rows{among}, "
            f"worth {self.weights.effective:,.0f} {unit} of the target's own"
        )
        return "\n".join([title, *lines, *(f"doubt: {doubt}" for doubt in self.doubts)])


def evaluate(
    log: Log,
    target: Target,
    method: Method = "dr",
    *,
    limits: ArrayLike = 0.0,
    clip: float | None = None,
    seed: int = 0,
) -> Evaluation:
    """Estimate the mean reward and the mean cost of every constraint that `target` would have had.

    Intervals are Student's, with the degrees of freedom that the weights leave, (Σw²)² / Σw⁴ − 1, and with Hall's correction for
    skewness. Where all that was seen is one and the same value, they are the exact binomial ones between the ends of what
    the whole log shows.

    Parameters
    ----------
    log : Log
    target : (n, J) array, (n,) array of action ids, or a callable
        The target's probabilities in each row, or the action that it takes for certain; a callable is given `log.contexts` and
        returns either. It must not have been chosen on the same rows.
    method : "replay", "ips", "snips" or "dr"
    limits : number or (K,)
        What the mean costs must not exceed.
    clip : float >= 1, optional
        Cut weights off at this. That narrows the intervals and moves the estimates, by as much as `Measure.bias` at most.
    seed : int
        Of the rows that "replay" keeps.

    Raises
    ------
    InvalidInput
        Also if the log is deterministic, or has no chance of an action where the target takes it: no weight can make up
        for what was never tried. `from_table` then fits a model, whose extrapolation is a guess.

    Examples
    --------
    >>> log = Log([0, 1, 0], [1.0, 0.0, 1.0], propensities=[1.0, 1.0, 1.0])
    >>> evaluate(log, [0, 0, 0], "ips")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: the log is deterministic (every propensity is 1), so no row tells what another
    action would have brought: ips needs actions drawn at random.
    """
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be a Log, but got {log!r}.")
    if method not in get_args(Method):
        raise InvalidInput(f"method must be one of {', '.join(get_args(Method))}, but got {method!r}.")
    bound = real_array("limits", limits, (), (log.n_constraints,))
    require_finite("limits", bound)
    bound = np.broadcast_to(bound, (log.n_constraints,))
    if clip is not None:
        finite_number("clip", clip, low=1.0)
    pi = _probabilities(log, target)
    _require_support(log, pi, method)

    n, rows = log.n_rows, np.arange(log.n_rows)
    raw = pi[rows, log.actions] / log.chances
    if not raw.any():
        raise InvalidInput("the target never does what was logged, so the log says nothing about it.")
    w = raw if clip is None else np.minimum(raw, clip)
    cut = float((raw - w).mean())
    if method == "replay":
        generator = np.random.default_rng(whole_number("seed", seed))
        w = (generator.random(n) * w.max() < w).astype(np.float64)

    weighted_costs = log.costs.ndim == 2
    outcomes = np.column_stack([log.rewards, log.costs]) if weighted_costs else log.rewards[:, None]
    values, influence, spread = _weighted(log, outcomes, pi, w, method)
    per_group = _summed(w[:, None], log.groups)[:, 0]
    squares = (per_group**2).sum()
    effective = float(per_group.sum() ** 2 / squares)
    freedom = float(squares**2 / (per_group**4).sum()) - 1.0
    low, high, uneven = _interval(values, influence, log.groups, freedom, effective, outcomes)
    bias = cut * spread
    if not weighted_costs:
        # What every action costs is known: an ordinary average over contexts.
        scores = np.einsum("ij,ijk->ik", pi, log.costs)
        means = scores.mean(axis=0)
        own = _interval(means, scores - means, log.groups, per_group.size - 1.0, per_group.size, scores)
        values, bias = np.append(values, means), np.append(bias, np.zeros(means.size))
        low, high, uneven = (np.append(a, b) for a, b in zip((low, high, uneven), own, strict=True))

    measures = [
        Measure(name, float(value), float(a), float(b), float(moved), limit)
        for name, value, a, b, moved, limit in zip(
            ("reward", *log.constraints), values, low, high, bias, (None, *bound.tolist()), strict=True
        )
    ]
    per_unit = _summed((raw - raw.mean())[:, None], log.groups)[:, 0]
    error = float(np.sqrt((per_unit**2).sum() * per_unit.size / max(1, per_unit.size - 1)) / n)
    weights = Weights(
        effective=effective,
        mean=float(raw.mean()),
        error=error,
        largest=float(raw.max()),
        zero=float((raw == 0).mean()),
        cut=cut,
    )
    rough = [one.name for one, s in zip(measures, uneven, strict=True) if abs(s) > _UNEVEN]
    return Evaluation(
        method=method,
        rows=int(w.sum()) if method == "replay" else n,
        groups=None if log.groups is None else int(log.groups.max()) + 1,
        reward=measures[0],
        constraints=tuple(measures[1:]),
        weights=weights,
        doubts=_doubts(weights, float(per_group.max() / per_group.sum()), rough),
    )


# ------------------------------------------------------------------------------------------------ estimates


def _weighted(log: Log, outcomes: Array, pi: Array, w: Array, method: Method) -> tuple[Array, Array, Array]:
    """For outcomes (n, M): estimates (M,), their influence values (n, M), and what a unit of cut weight can move (M,)."""
    if method == "ips":
        scores = w[:, None] * outcomes
        return scores.mean(axis=0), scores - scores.mean(axis=0), np.abs(outcomes).max(axis=0)
    if method == "dr":
        fitted = _predictions(log, outcomes)
        residual = outcomes - fitted[np.arange(log.n_rows), log.actions]
        scores = np.einsum("ij,ijm->im", pi, fitted) + w[:, None] * residual
        return scores.mean(axis=0), scores - scores.mean(axis=0), np.abs(residual).max(axis=0)
    values = w @ outcomes / w.sum()
    # The delta method: θ̂ − θ is the average of w·(y − θ) / E[w], to first order.
    return values, w[:, None] * (outcomes - values) / w.mean(), np.ptp(outcomes, axis=0)


def _interval(
    values: Array, influence: Array, groups: Codes | None, freedom: float, effective: float, outcomes: Array
) -> tuple[Array, Array, Array]:
    """95 % intervals for estimates whose errors are averages of `influence` (n, M), and skewness / √n of these."""
    n = influence.shape[0]
    units = _summed(influence, groups)
    G = units.shape[0]
    units = units * (G / n)
    variance = (units**2).sum(axis=0) / (G - 1)
    quantile = float(stdtrit(max(1.0, freedom), 0.5 + _LEVEL / 2))
    size = np.abs(outcomes).max(axis=0)
    flat = variance <= (1e-12 * np.maximum(size, np.finfo(float).tiny)) ** 2
    safe = np.where(flat, 1.0, variance * (G - 1) / G)
    skewness = (units**3).mean(axis=0) / safe**1.5 / np.sqrt(G)
    error = np.sqrt(variance / G)
    low, high = (values - error * _unskewed(x, skewness) for x in (quantile, -quantile))
    # One value and nothing else: as far as (1 − level)/2 of the chance lets it be from the ends of what the log shows.
    unseen = 1.0 - ((1.0 - _LEVEL) / 2) ** (1.0 / max(1.0, effective))
    return (
        np.where(flat, values - unseen * np.maximum(0.0, values - outcomes.min(axis=0)), low),
        np.where(flat, values + unseen * np.maximum(0.0, outcomes.max(axis=0) - values), high),
        skewness,
    )


def _unskewed(x: float, s: Array) -> Array:
    """The studentised error T at which T + s(T²/3 + 1/6) + s²T³/27 = x, for s = skewness / √n (Hall 1992)."""
    safe = np.where(np.abs(s) < 1e-6, 1.0, s)
    inverse: Array = 3.0 / safe * (np.cbrt(1.0 + safe * (x - safe / 6.0)) - 1.0)
    return np.where(np.abs(s) < 1e-6, x, inverse)


def _summed(values: Array, groups: Codes | None) -> Array:
    """Sums of rows (n, M) by group, (G, M)."""
    if groups is None:
        return values
    return np.column_stack([np.bincount(groups, column) for column in values.T])


def _predictions(log: Log, outcomes: Array) -> Array:
    """ŷ of every action in every row, (n, J, M), fitted on the rows of other folds."""
    n, J = log.n_rows, log.n_actions
    units = np.arange(n) if log.groups is None else log.groups
    folds = units % _FOLDS
    fitted = np.empty((n, J, outcomes.shape[1]))
    # Numbers of contexts may be any ids: those that occur are numbered anew.
    context: NDArray[Any] = np.zeros(n, dtype=np.int64) if log.contexts is None else log.contexts
    if context.ndim == 1:
        context = np.unique(context, return_inverse=True)[1]
    fit = _cell_means if context.ndim == 1 else _ridge_fit
    for fold in np.unique(folds):
        unseen = folds == fold
        fitted[unseen] = fit(context, log.actions, outcomes, J, ~unseen, unseen)
    return fitted


def _action_means(actions: Codes, outcomes: Array, J: int) -> Array:
    """Averages by action, (J, M); the overall one for an action without rows."""
    counts = np.bincount(actions, minlength=J)[:, None]
    sums = np.column_stack([np.bincount(actions, column, J) for column in outcomes.T])
    return np.where(counts > 0, sums / np.maximum(counts, 1), outcomes.mean(axis=0))


def _cell_means(
    context: Codes,
    actions: Codes,
    outcomes: Array,
    J: int,
    seen: NDArray[np.bool_],
    unseen: NDArray[np.bool_],
) -> Array:
    """Averages by context and action, drawn to the action's as if that had been seen `_SHRINK` times more in each."""
    C, M = int(context.max()) + 1, outcomes.shape[1]
    means = _action_means(actions[seen], outcomes[seen], J)
    cell = context[seen] * J + actions[seen]
    counts = np.bincount(cell, minlength=C * J).reshape(C, J, 1)
    sums = np.stack([np.bincount(cell, column, C * J) for column in outcomes[seen].T], axis=-1)
    table = (sums.reshape(C, J, M) + _SHRINK * means) / (counts + _SHRINK)
    return np.asarray(table[context[unseen]])


def _ridge_fit(
    x: Array, actions: Codes, outcomes: Array, J: int, seen: NDArray[np.bool_], unseen: NDArray[np.bool_]
) -> Array:
    """Ridge regression of each action's rows on standardised features, no penalty on intercepts."""
    spread = x.std(axis=0)
    z = (x - x.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    fitted = np.empty((int(unseen.sum()), J, outcomes.shape[1]))
    means = _action_means(actions[seen], outcomes[seen], J)
    for j in range(J):
        rows = seen & (actions == j)
        fitted[:, j] = means[j]
        if rows.any():
            centre = z[rows].mean(axis=0)
            design = z[rows] - centre
            gram = design.T @ design + _RIDGE * np.eye(z.shape[1])
            slopes = np.linalg.solve(gram, design.T @ (outcomes[rows] - means[j]))
            fitted[:, j] += (z[unseen] - centre) @ slopes
    return fitted


def _doubts(weights: Weights, heaviest: float, rough: Sequence[str]) -> tuple[str, ...]:
    doubts = []
    if abs(weights.mean - 1.0) > _OFF_BALANCE * weights.error + 1e-9:
        doubts.append(
            f"the weights average {weights.mean:.3f} with a standard error of {weights.error:.3f}, where 1 is expected: "
            "the propensities are wrong, or the target does what the log never shows"
        )
    if weights.effective < _FEW_ROWS:
        doubts.append(
            f"the log is worth only {weights.effective:.0f} rows or groups of the target's own: intervals are rough"
        )
    elif heaviest > _HEAVY:
        doubts.append(f"one row or group carries {heaviest:.0%} of the weight: intervals are rough")
    if rough:
        doubts.append(
            f"few rows differ from the others in {', '.join(rough)}: the interval may be too short on one side"
        )
    return tuple(doubts)


# ---------------------------------------------------------------------------------------------- what may enter


def _probabilities(log: Log, target: Target) -> Array:
    n, J = log.n_rows, log.n_actions
    if callable(target):
        if log.contexts is None:
            raise InvalidInput("a callable target is given the log's contexts, but the log has none.")
        target = target(log.contexts)
    given = np.asarray(target)
    if given.ndim == 1 and given.dtype.kind in "iuU":
        return np.eye(J)[_action_ids(given, log.action_names, n, J, "target")]
    pi = real_array("target", target, (n, J))
    require_range("target", pi, 0.0, 1.0)
    wrong = np.abs(pi.sum(axis=1) - 1.0) > 1e-6
    if wrong.any():
        i = first(wrong)[0]
        raise InvalidInput(f"target[{i}] must sum to 1, but it sums to {pi[i].sum():.9g}.")
    return np.asarray(pi / pi.sum(axis=1, keepdims=True))


def _require_support(log: Log, pi: Array, method: str) -> None:
    if (log.chances >= 1.0 - _CERTAIN).all():
        raise InvalidInput(
            "the log is deterministic (every propensity is 1), so no row tells what another action would have brought: "
            f"{method} needs actions drawn at random."
        )
    rows = np.arange(log.n_rows)
    if log.propensities.ndim == 2:
        never = log.propensities == 0
    else:
        never = np.repeat((log.chances >= 1.0 - _CERTAIN)[:, None], log.n_actions, axis=1)
        never[rows, log.actions] = False
        # An action that no row holds has no known propensity anywhere.
        never[:, np.bincount(log.actions, minlength=log.n_actions) == 0] = True
    missing = never & (pi > 0)
    if missing.any():
        j = int(np.argmax(missing.any(axis=0)))
        i = int(np.argmax(missing[:, j]))
        where = f"row {i}"
        if log.contexts is not None and log.contexts.ndim == 1:
            where += f", context {log.contexts[i]}"
        also = [log.action_names[k] for k in np.flatnonzero(missing.any(axis=0)) if k != j]
        raise InvalidInput(
            f"the log must give every action of the target a chance, but {log.action_names[j]!r} had none in "
            f"{int(missing[:, j].sum())} of {log.n_rows} rows where the target may take it (first: {where})"
            + (f"; likewise {', '.join(map(repr, also))}" if also else "")
            + ". Leave it out of the target there: no weight can make up for what was never tried."
        )


def _action_ids(
    actions: ArrayLike, names: tuple[str, ...] | None, n: int, count: int | None, what: str = "actions"
) -> Codes:
    given = np.asarray(actions)
    if given.shape != (n,) or given.dtype.kind not in "iuU":
        raise InvalidInput(
            f"{what} must be {n} ids or names, one for each row, but got {given.dtype} of shape {given.shape}."
        )
    if given.dtype.kind == "U":
        if names is None:
            raise InvalidInput(f"{what} are names, so action_names must say which there are.")
        distinct, inverse = np.unique(given, return_inverse=True)
        for one in distinct.tolist():
            if one not in names:
                i = first(given == one)[0]
                raise InvalidInput(f"{what}[{i}] must be one of {', '.join(names)}, but got {one!r}.")
        return np.array([names.index(one) for one in distinct.tolist()], dtype=np.int64)[inverse]
    bad = (given < 0) | (given >= (np.iinfo(np.int64).max if count is None else count))
    if bad.any():
        i = first(bad)[0]
        wanted = "be 0 or more" if count is None else f"lie in 0..{count - 1}"
        raise InvalidInput(f"{what}[{i}] must {wanted}, but got {given[i]}.")
    return given.astype(np.int64)


def _require_propensities(p: Array, ids: Codes) -> None:
    if p.ndim == 2:
        require_range("propensities", p, 0.0, 1.0)
        wrong = np.abs(p.sum(axis=1) - 1.0) > 1e-6
        if wrong.any():
            i = first(wrong)[0]
            raise InvalidInput(f"propensities[{i}] must sum to 1, but it sums to {p[i].sum():.9g}.")
        taken = p[np.arange(len(p)), ids]
        if (taken == 0).any():
            i = first(taken == 0)[0]
            raise InvalidInput(
                f"propensities[{i}, {ids[i]}] is that of the logged action: it must be above 0."
            )
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
    x = real_array("contexts", contexts, (n, None))
    require_finite("contexts", x)
    return x


def _groups(groups: ArrayLike, n: int) -> Codes:
    """Numbers of the groups, in the order in which they first appear."""
    given = np.asarray(groups)
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
    names = () if isinstance(given, str) else tuple(given)
    if (
        not all(isinstance(one, str) for one in names)
        or len(set(names)) != len(names)
        or isinstance(given, str)
    ):
        raise InvalidInput(f"{what} must be different strings, but got {given!r}.")
    return names
