"""What a target would have earned and cost, judging by a log, with intervals, verdicts and doubts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import displays
from tightrope.errors import InvalidInput
from tightrope.frames import AsFrame
from tightrope.log import Log, action_ids, require_distributions
from tightrope.offpolicy import estimators
from tightrope.offpolicy.estimators import Method, mean_and_error, outcomes_of, summed
from tightrope.policies import Policy
from tightrope.validation import Array, finite_array, finite_number, real_array, whole_number
from tightrope.words import Shown

Target: TypeAlias = ArrayLike | Callable[[Any], ArrayLike]

_CERTAIN = 1e-9  # a propensity this close to 1 leaves nothing for the other actions
_FEW_ROWS = 30
_HEAVY = 0.1
_OFF_BALANCE = 4.0  # standard errors
_UNEVEN = 0.3  # skewness / √n: about that of 11 successes among many failures

# For a target with rules that never mixes.
SNAPSHOT: Final = (
    "the target takes one action for certain in every row: if it is a snapshot of a policy that balances rules over time, by a "
    "queue or prices, the verdicts don't apply to that policy; use evaluate_live to judge it"
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A mean under the target: `reward`, or the cost of a constraint, which must not exceed `limit`.

    `low` and `high` are its 95 % interval, for the chance in drawing rows. `bias` is an estimate, from the log, of how far the
    estimate may have moved because part of the target was left out: by clipping, or where the log had no chance. It is not part of
    the interval.

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
        """The verdict, from the interval widened by the bias; for each constraint separately, not jointly."""
        if self.limit is None:
            return ""
        if self.high + self.bias <= self.limit:
            return "satisfied with 95 % confidence"
        if self.low - self.bias > self.limit:
            return "violated with 95 % confidence"
        return "undecided"


@dataclass(frozen=True, slots=True)
class Weights:
    """How far target and log are apart: a summary of the weights w before clipping.

    `effective` is (Σw)² / Σw², the rows (or groups) of the target's own that the log is worth. The `mean`, with its standard
    `error`, is 1 in expectation if propensities are right and overlap is complete. `zero` is the share of rows whose action the
    target would never have taken, `cut` the share of the target that is left out: what clipping took off w on average, and actions
    of the target for which the log had no chance.

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


@dataclass(frozen=True, slots=True, repr=False)
class Evaluation(AsFrame):
    """What `evaluate` found; `print` shows it as a table.

    `rows` are those of the log, or those that "replay" kept; `doubts` are reasons, in words, to trust the numbers less than their
    intervals say.

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
    # For a live policy: how many runs of how many rounds were averaged.
    runs: tuple[int, int] | None = None

    def __repr__(self) -> str:
        reward = f"{self.reward.value:.4g} [{self.reward.low:.4g}, {self.reward.high:.4g}]"
        verdicts = [f"{one.name} {one.verdict}" for one in self.constraints]
        doubts = [f"{len(self.doubts)} doubts"] if self.doubts else []
        found = "; ".join([f"{self.method} on {self.rows:,} rows", f"reward {reward}", *verdicts, *doubts])
        return f"Evaluation({found})"

    def _repr_html_(self) -> str:
        head, *rows = zip(*self._columns())
        doubts = displays.lines_of((f"doubt: {doubt}" for doubt in self.doubts), warning=True)
        return displays.page(self._title(), displays.table(head, rows), doubts)

    def __str__(self) -> str:
        padded = []
        for title, *cells in self._columns():
            pad = str.rjust if title in ("estimate", "limit") else str.ljust
            width = max(map(len, (title, *cells)))
            padded.append([pad(cell, width) for cell in (title, *cells)])
        lines = ["  ".join(row).rstrip() for row in zip(*padded)]
        return "\n".join([self._title(), *lines, *(f"doubt: {doubt}" for doubt in self.doubts)])

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for the reward, and one for each constraint."""
        names = ("name", "estimate", "low", "high", "bias", "limit")
        found = (self.reward, *self.constraints)
        return [dict(zip(names, astuple(one))) | {"verdict": one.verdict or None} for one in found]

    def _columns(self) -> list[tuple[str, ...]]:
        rows = [["", "estimate", "95 % interval", "bias", "limit", "verdict"]]
        for one in (self.reward, *self.constraints):
            limit = "" if one.limit is None else f"{one.limit:g}"
            interval = f"{one.low:.4f} to {one.high:.4f}"
            rows.append([one.name, f"{one.value:.4f}", interval, f"<= {one.bias:.4f}", limit, one.verdict])
        columns = list(zip(*rows))
        return columns if self.weights.cut > 0 else [*columns[:3], *columns[4:]]

    def _title(self) -> str:
        among, unit = ("", "rows") if self.groups is None else (f" in {self.groups:,} groups", "groups")
        runs = "" if self.runs is None else "; means over {:,} runs of {:,} rounds".format(*self.runs)
        worth = f"{self.weights.effective:,.0f} {unit} of the target's own"
        return f"{self.method} on {self.rows:,} rows{among}, worth {worth}{runs}"


def evaluate(
    log: Log,
    target: Target,
    method: Method = "dr",
    *,
    limits: ArrayLike = 0.0,
    clip: float | None = None,
    least_chance: float | None = None,
    may_miss: float = 0.0,
    seed: int = 0,
) -> Evaluation:
    """Estimate the mean reward and the mean cost of every constraint that `target` would have had.

    Intervals are Student's, with the degrees of freedom that the weights leave, (Σw²)² / Σw⁴ − 1, and with Hall's correction for
    skewness. If only one value was seen, they are the exact binomial ones between the ends of the log's range.

    Parameters
    ----------
    log : Log
    target : (n, J) array, (n,) array of action ids, or a callable
        The target's probabilities in each row, or the action that it takes for certain; a callable is given `log.contexts` and
        returns either. It must not have been chosen on the same rows. A policy that balances rules over time, by a queue or by
        prices, has no such probabilities: `evaluate_live` judges it.
    method : "replay", "ips", "snips" or "dr"
    limits : number or (K,)
        What the mean costs must not exceed.
    clip : float >= 1, optional
        Cut weights off at this value. That narrows the intervals and moves the estimates, by at most `Measure.bias`.
    least_chance : float, optional
        A propensity below this counts as no chance: at 1/n the log shows such an action once or not at all. By default 1/n for rows
        `in_order`, whose propensities may go to 0 as the logging policy learns, otherwise 0.
    may_miss : float
        The share of the target's actions for which the log may have had no chance. It is left out, and counted like clipping.
    seed : int
        Of the rows that "replay" keeps.

    Raises
    ------
    InvalidInput
        Also if the log is deterministic, or if more than `may_miss` of the target's actions had no chance in it: no weight can make
        up for what was never tried. `from_table` fits a model instead, but its extrapolation is a guess.

    Examples
    --------
    >>> log = Log([0, 1, 0], [1.0, 0.0, 1.0], propensities=[1.0, 1.0, 1.0])
    >>> evaluate(log, [0, 0, 0], "ips")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: the log is deterministic (every propensity is 1), so no row shows what another action would have
    earned: ips needs actions drawn at random.
    """
    require_log(log)
    if method not in get_args(Method):
        raise InvalidInput(field="method", must=f"be one of {', '.join(get_args(Method))}", got=method)
    bound = limits_of(log, limits)
    weighed = weigh(log, target, method, clip, least_chance, may_miss)
    fitted = estimators.predictions(log, outcomes_of(log)) if method == "dr" else None
    return estimated(log, weighed, fitted, method, bound, seed)


def require_log(log: Log) -> None:
    if not isinstance(log, Log):
        raise InvalidInput(field="log", must="be a Log", got=log)
    if log.tells_all:
        raise InvalidInput("the log has the reward of every action; there is nothing to estimate.")


def limits_of(log: Log, limits: ArrayLike) -> Array:
    K = log.n_constraints
    return np.broadcast_to(finite_array("limits", limits, (), (K,)), (K,))


def estimated(
    log: Log, weighed: Weighed, fitted: Array | None, method: Method, limits: Array, seed: int = 0
) -> Evaluation:
    """The evaluation of a target by its weights, and for "dr" by what was `fitted` (n, J, M) to `outcomes_of(log)`."""
    pi, raw, w, missed = weighed
    n, cut = log.n_rows, missed + float((raw - w).mean())
    if method == "replay":
        generator = np.random.default_rng(whole_number("seed", seed))
        w = (generator.random(n) * w.max() < w).astype(np.float64)

    outcomes = outcomes_of(log)
    values, influence, spread = estimators.estimate(log, outcomes, fitted, pi, w, method)
    per_group = summed(w, log.groups)
    freedom = estimators.degrees_of_freedom(per_group)
    effective = float(per_group.sum() ** 2 / (per_group**2).sum())
    found = values, influence, log.groups, freedom, effective, outcomes
    least = 0.0 if fitted is None else estimators.error_of_few(log, outcomes, fitted, pi)
    low, high, uneven = estimators.interval(*found, least)
    bias = cut * spread
    if log.costs.ndim == 3:
        # The costs of every action are known: an ordinary average over contexts.
        scores = np.einsum("ij,ijk->ik", pi, log.costs)
        means = scores.mean(axis=0)
        G = per_group.size
        own = estimators.interval(means, scores - means, log.groups, G - 1.0, G, scores)
        values, bias = np.append(values, means), np.append(bias, np.zeros(means.size))
        low, high, uneven = (np.append(a, b) for a, b in zip((low, high, uneven), own, strict=True))

    names, estimates = ("reward", *log.constraints), (one.tolist() for one in (values, low, high, bias))
    measures = [Measure(*row) for row in zip(names, *estimates, (None, *limits.tolist()), strict=True)]
    mean, error = mean_and_error(raw, log.groups)
    weights = Weights(effective, mean, error, float(raw.max()), float((raw == 0).mean()), cut)
    rough = [one.name for one, s in zip(measures, uneven, strict=True) if abs(s) > _UNEVEN]
    doubts = _doubts(weights, 1.0 - missed, float(per_group.max() / per_group.sum()), rough)
    if log.n_constraints and (pi.max(axis=1) == 1.0).all():
        doubts.append(SNAPSHOT)
    rows = int(w.sum()) if method == "replay" else n
    groups = None if log.groups is None else int(log.groups.max()) + 1
    reward, *constraints = measures
    return Evaluation(method, rows, groups, reward, tuple(constraints), weights, tuple(doubts))


class Weighed(NamedTuple):
    """The target's probabilities (n, J), weights before and after clipping, and the share of the target that had no chance."""

    pi: Array
    raw: Array
    w: Array
    missed: float


def weigh(
    log: Log, target: Target, method: str, clip: float | None, least_chance: float | None, may_miss: float
) -> Weighed:
    """The target's probabilities, and the weights of the logged actions; refused if target and log don't overlap."""
    if clip is not None:
        finite_number("clip", clip, low=1.0)
    if least_chance is None:
        least_chance = 1.0 / log.n_rows if log.in_order else 0.0
    finite_number("least_chance", least_chance, low=0.0, high=1.0)
    finite_number("may_miss", may_miss, low=0.0, high=1.0)
    pi, untried = _probabilities(log, target), _untried(log, least_chance)
    missed = _require_support(log, pi, untried, method, may_miss)
    rows = np.arange(log.n_rows)
    raw = np.where(untried[rows, log.actions], 0.0, pi[rows, log.actions] / log.chances)
    if not raw.any():
        raise InvalidInput("the target never takes a logged action, so the log says nothing about it.")
    return Weighed(pi, raw, raw if clip is None else np.minimum(raw, clip), missed)


def _doubts(weights: Weights, expected: float, heaviest: float, rough: Sequence[str]) -> list[str]:
    doubts = []
    if abs(weights.mean - expected) > _OFF_BALANCE * weights.error + 1e-9:
        found = f"the weights average {weights.mean:.3f} with a standard error of {weights.error:.3f}"
        why = "the propensities are wrong, or the target does what the log never shows"
        doubts.append(f"{found}, where {expected:.3g} is expected: {why}")
    if weights.effective < _FEW_ROWS:
        worth = f"{weights.effective:.0f} rows or groups of the target's own"
        doubts.append(f"the log is worth only {worth}: intervals are rough")
    elif heaviest > _HEAVY:
        doubts.append(f"one row or group carries {heaviest:.0%} of the weight: intervals are rough")
    if rough:
        few = f"few rows differ from the others in {', '.join(rough)}"
        doubts.append(f"{few}: the interval may be too short on one side")
    return doubts


def _probabilities(log: Log, target: Target) -> Array:
    n, J = log.n_rows, log.n_actions
    asked = target if isinstance(target, Policy) else getattr(target, "__self__", None)
    if isinstance(asked, Policy) and asked.hooks.n_constraints:
        why = (
            "which balances its rules over time: what it would do at one moment says nothing about its rules"
        )
        came = Shown(f"a {asked.kind} policy, {why}")
        remedy = "evaluate_live(log, policy) judges what it does over a run."
        raise InvalidInput(field="target", must="be probabilities", got=came, remedy=remedy)
    if callable(target):
        if log.contexts is None:
            raise InvalidInput("a callable target is given the log's contexts, but the log has none.")
        target = target(log.contexts)
    given = np.asarray(target)
    if given.ndim == 1 and given.dtype.kind in "iuU":
        return np.eye(J)[action_ids(given, log.action_names, n, J, "target")]
    pi = real_array("target", target, (n, J))
    require_distributions("target", pi)
    return np.asarray(pi / pi.sum(axis=1, keepdims=True))


def _untried(log: Log, least: float) -> NDArray[np.bool_]:
    """Which actions had no chance in which rows, (n, J)."""
    p = log.propensities
    if p is not None and p.ndim == 2:
        return np.asarray((p == 0) | (p < least))
    never = np.repeat((log.chances >= 1.0 - _CERTAIN)[:, None], log.n_actions, axis=1)
    never[np.arange(log.n_rows), log.actions] = log.chances < least
    # An action that no row holds has no known propensity anywhere.
    never[:, np.bincount(log.actions, minlength=log.n_actions) == 0] = True
    return never


def _require_support(log: Log, pi: Array, untried: NDArray[np.bool_], method: str, may_miss: float) -> float:
    """The share of the target that falls where the log had no chance, at most `may_miss`."""
    if (log.chances >= 1.0 - _CERTAIN).all():
        why = "no row shows what another action would have earned"
        needs = f"{method} needs actions drawn at random"
        raise InvalidInput(f"the log is deterministic (every propensity is 1), so {why}: {needs}.")
    missing = untried & (pi > 0)
    missed = float(pi[missing].sum() / log.n_rows)
    if missed > may_miss:
        j, *others = np.flatnonzero(missing.any(axis=0)).tolist()
        i = int(np.argmax(missing[:, j]))
        where = f"row {i}"
        if log.contexts is not None and log.contexts.ndim == 1:
            where += f", context {log.contexts[i]}"
        also = f"; likewise {', '.join(repr(log.action_names[k]) for k in others)}" if others else ""
        raise InvalidInput(
            f"the log must give every action of the target a chance, but {log.action_names[j]!r} had none in "
            f"{int(missing[:, j].sum())} of {log.n_rows} rows where the target may take it (first: {where}){also}: {missed:.2%} "
            "of what it does. Leave it out of the target there: no weight can make up for what was never tried."
        )
    return missed
