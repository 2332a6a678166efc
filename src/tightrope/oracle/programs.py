"""What the best policy that knows all means would earn: which program, on which law.

Two programs serve as the baseline of regret (see `docs/oracle.md`). The *fluid* one replaces costs by their means; it is
an upper bound whenever the choice can't depend on the costs drawn. When costs are random and seen before acting it is
none, and the *joint* one, in which the costs drawn are part of the context, takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import lp
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Drifting, Environment, phases_of
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.intervals import mean_interval
from tightrope.oracle.solution import TIGHT, Atoms, Found, Solution
from tightrope.rules import moves_in_words
from tightrope.validation import Array, finite_array, whole_number
from tightrope.words import Either, Shown, Text

Baseline: TypeAlias = Literal["auto", "fluid", "joint"]

_MOST_ATOMS = 2**20
_MOST_COSTS = 2**26  # entries of the atoms' costs: 512 MiB
_BATCHES = 20
_ATOMS, _CONTEXTS = 50_000, 4_000  # how many are sampled by default
_MOST_ROWS = 50_000  # of the program that looks for the smallest change of the limits


def solve(
    env: Tabular | Custom,
    *,
    epsilon: ArrayLike = 0.0,
    baseline: Baseline = "auto",
    method: lp.Method = "auto",
    samples: int | None = None,
    seed: int = 0,
) -> Solution:
    """The best value that any policy can reach in `env` while every mean cost stays at -epsilon or below.

    Parameters
    ----------
    env : Tabular or Custom
        A `Custom` one must have `means`; contexts are drawn from it, 4,000 unless `samples` says otherwise.
    epsilon : float or (K,)
        The tightness of the constraints.
    baseline : "auto", "fluid" or "joint"
        "auto" takes the joint law when costs are random and seen before acting, else the fluid program; costs that are seen
        after acting enter it by their means. The joint law is enumerated up to 2**20 atoms (Bernoulli costs); beyond, and for
        Gaussian costs, it is sampled.
    method : "auto", "direct" or "decomposition"
        How `tightrope.lp.allocation` solves it.
    samples, seed : int
        Atoms drawn when the law is sampled, and the seed. The value is then biased downwards by O(K/samples); the
        interval accounts for that.

    Raises
    ------
    InfeasibleProblem
        The message says by how much, and names an irreducible set of constraints in conflict.

    Examples
    --------
    >>> from tightrope.environments import bandit
    >>> solve(bandit(threshold=0.1, costs_seen="after"))
    Solution(value=0.4, baseline='fluid', slater=0.1, binding=['usage'])
    >>> solve(bandit(threshold=0.1, costs_seen="before"))
    Solution(value=0.67, baseline='joint', slater=0.1, binding=['usage'])
    """
    if isinstance(env, Custom):
        return _solve_custom(env, epsilon, method, samples, seed)
    require_tabular(env)
    eps = _epsilon(epsilon, env.n_constraints)
    if baseline not in get_args(Baseline):
        raise InvalidInput(field="baseline", must="be 'auto', 'fluid' or 'joint'", got=baseline)
    if baseline == "fluid" or (baseline == "auto" and not env.random_before):
        return _solved(env, _fluid(env), eps, "fluid", method)
    if _n_atoms(env) <= min(_MOST_ATOMS, _MOST_COSTS // max(1, env.n_actions * env.n_constraints)):
        return _solved(env, _enumerated(env), eps, "joint", method)
    return _solve_sampled(env, eps, method, _samples(samples, _ATOMS), seed)


@dataclass(frozen=True, eq=False, slots=True)
class Benchmark:
    """What regret is measured against in a run: the optimum of the moment, added up over the rounds.

    `value` is its average over the run, `interval` that of the phases' intervals, `baseline` the program. `phases` are the numbers
    of rounds and the solutions of the phases: one where nothing changes.
    """

    value: float
    interval: tuple[float, float]
    baseline: Found
    phases: tuple[tuple[int, Solution], ...]

    def earned(self, rounds: ArrayLike) -> Array:
        """What the optimum earns up to each of the rounds."""
        at, total, begun = np.asarray(rounds), np.zeros(np.shape(rounds)), 0
        for length, found in self.phases:
            total = total + found.value * np.clip(at - begun, 0, length)
            begun += length
        return np.asarray(total)


def benchmark(env: Environment | Custom, rounds: int) -> Benchmark:
    """The optimum that a run of that many rounds is compared with; in a drifting environment each phase has its own.

    >>> from tightrope.environments import Drifting, bandit
    >>> env = Drifting([bandit(threshold=0.1), bandit(threshold=0.1, costs_seen="after")])
    >>> found = benchmark(env, 1000)
    >>> round(found.value, 9), found.earned([250, 1000]).round(6).tolist()
    (0.4, [100.0, 400.0])
    """
    rounds = whole_number("rounds", rounds, low=1)
    if isinstance(env, Custom):
        solved = [(rounds, _solve_custom(env, 0.0, "auto", None, 0, rounds))]
    else:
        solved = [(last - first + 1, solve(now)) for first, last, now in phases_of(env, rounds)]
    if len(solved) == 1:
        only = solved[0][1]
        return Benchmark(only.value, only.interval, only.baseline, tuple(solved))
    lengths = [length for length, _ in solved]
    value, low, high = np.average([(one.value, *one.interval) for _, one in solved], axis=0, weights=lengths)
    baseline = max((one.baseline for _, one in solved), key=get_args(Found).index)
    return Benchmark(float(value), (float(low), float(high)), baseline, tuple(solved))


def slater(env: Tabular, *, method: lp.Method = "auto") -> float:
    """Slater's constant of the fluid program: the largest δ <= 1 with all mean costs at -δ or below.

    Negative when the constraints can't be met; 1 when there are none.

    >>> from tightrope.environments import bandit
    >>> slater(bandit(threshold=0.1))
    0.1
    """
    require_tabular(env)
    return _Rows.of(env, _fluid(env)).slater(method).value


@dataclass(frozen=True, slots=True)
class _Rows:
    """The atoms as rows of an allocation program: only actions on offer."""

    weights: Array
    rewards: Array
    costs: Array
    offsets: NDArray[np.intp] | None
    mask: NDArray[np.bool_]

    @classmethod
    def of(cls, env: Tabular, atoms: Atoms) -> _Rows:
        mask, rewards = env.available[atoms.contexts], env.rewards[atoms.contexts]
        if mask.all():
            return cls(atoms.weights, rewards, atoms.costs, None, mask)
        offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        return cls(atoms.weights, rewards[mask], atoms.costs[mask], offsets, mask)

    def slater(self, method: lp.Method) -> lp.Allocation:
        return lp.slater(self.weights, self.costs, offsets=self.offsets, method=method)

    def allocation(self, eps: Array, method: lp.Method) -> lp.Allocation:
        costs, offsets = self.costs, self.offsets
        return lp.allocation(self.weights, self.rewards, costs, offsets=offsets, epsilon=eps, method=method)

    def family(self) -> lp.Family:
        return lp.Family(self.weights, self.rewards, self.costs, offsets=self.offsets)

    def policy(self, x: Array) -> Array:
        full = np.zeros(self.mask.shape)
        full[self.mask] = x.ravel()
        return full

    def fewer(self, most: int) -> _Rows:
        """At most about `most` rows: those of a fixed sample of contexts, drawn by their weights."""
        if self.mask.sum() <= most:
            return self
        n = max(1, most // self.mask.shape[1])
        edges = np.cumsum(self.weights)
        at = np.searchsorted(edges / edges[-1], (np.arange(n) + 0.5) / n, side="right")
        rows = np.split(self.costs, self.offsets[1:-1]) if self.offsets is not None else self.costs
        costs = np.concatenate([rows[c] for c in at])
        return _Rows(np.full(n, 1.0 / n), np.zeros(len(costs)), costs, None, self.mask[at])

    def bound(self, lam: Array, eps: Array) -> float:
        """The dual function at λ: an upper bound on the program's value."""
        scores = self.rewards - np.einsum("...k,k->...", self.costs, lam)
        tops = scores.max(axis=1) if self.offsets is None else np.maximum.reduceat(scores, self.offsets[:-1])
        return float(self.weights @ tops - eps @ lam)


def _epsilon(given: ArrayLike, K: int) -> Array:
    return np.array(np.broadcast_to(finite_array("epsilon", given, (), (K,)), (K,)))


def require_tabular(env: Any) -> None:
    if isinstance(env, Drifting):
        said = "the means of {name!r} change with the round, and so does its optimum; solve one of its phases, or use {other}."
        other = Either("tightrope.oracle.benchmark(env, rounds)", "`tightrope simulate SPEC`")
        raise InvalidInput(Text(said, name=env.name, other=other))
    if isinstance(env, Custom):
        what = "this needs a tabular environment, such as `env.sampled` makes"
        raise InvalidInput(f"{env.name!r} draws its contexts: {what}.")
    if not isinstance(env, Tabular):
        raise InvalidInput(field="env", must="be a tabular environment", got=Shown(type(env).__name__))


def _solved(env: Tabular, atoms: Atoms, eps: Array, baseline: Found, method: lp.Method) -> Solution:
    rows = _Rows.of(env, atoms)
    try:
        found = rows.allocation(eps, method)
    except InfeasibleProblem:
        raise _infeasible(env, rows, eps, baseline, method) from None
    return Solution(
        value=found.value,
        policy=rows.policy(found.x),
        duals=found.duals,
        slater=rows.slater(method).value,
        slack=found.slack,
        binding=found.slack <= TIGHT,
        certificate=found.certificate,
        baseline=baseline,
        interval=(found.value, found.value),
        atoms=None if baseline == "fluid" else atoms,
        epsilon=eps,
        constraints=env.constraints,
        units=env.units,
        columns=() if env.rules is None else env.rules.columns,
        program=rows,
    )


def _infeasible(env: Tabular, rows: _Rows, eps: Array, baseline: str, method: lp.Method) -> InfeasibleProblem:
    """The error that says which rules conflict, and the smallest change of their limits that would help, in the rules' units."""
    rows = replace(rows, costs=rows.costs + eps)
    point = rows.slater(method)
    kept = [int(k) for k in np.flatnonzero(point.duals > 1e-9)]
    for k in tuple(kept):
        fewer = [other for other in kept if other != k]
        if replace(rows, costs=rows.costs[..., fewer]).slater(method).value < -TIGHT:
            kept = fewer
    sample = rows.fewer(_MOST_ROWS)
    K, sizes = env.n_constraints, sample.mask.sum(axis=1)
    totals = env.units.totals(sample.costs.reshape(-1, K))
    moves = lp.least_moves(sample.weights, totals, sizes, range(K), env.units.shares)
    labels = [repr(one) for one in env.constraints]
    if env.rules is not None:
        labels = [f"'{column.rule}'" for column in env.rules.columns]
    *most, last = dict.fromkeys(labels[k] for k in kept)
    named = f"{', '.join(most)} and {last} can't be met together" if most else f"{last} can't be met"
    margin = " with the margins epsilon" if eps.any() else ""
    sampled = baseline == "joint-sampled"
    hint = f" (in a sample of {rows.weights.size} atoms; use more samples to be sure)" if sampled else ""
    relaxation = {name: float(move) for name, move in zip(env.constraints, moves) if move > TIGHT}
    error = InfeasibleProblem(
        f"no policy in {env.name!r} meets every rule{margin}: {named}; "
        f"changing limits would do: {moves_in_words(relaxation, env.rules)}{hint}"
    )
    vars(error).update(rules=tuple(env.constraints[k] for k in kept), relaxation=relaxation)
    return error


def _n_atoms(env: Tabular) -> float:
    counts = _shown_jumps(env)[env.weights > 0].sum(axis=(1, 2))
    if env.cost_noise == "gaussian" and counts.any():
        return np.inf
    return float(np.exp2(np.minimum(counts, 1000)).sum())


def _shown_jumps(env: Tabular) -> NDArray[np.bool_]:
    """Which costs the choice can depend on, (C, J, K): the random ones; where only some are seen before acting, of those."""
    return env.jumps & env.seen_before if env.seen_mixed else env.jumps


def _fluid(env: Tabular) -> Atoms:
    return Atoms(np.arange(env.n_contexts), env.weights, env.costs)


def _enumerated(env: Tabular) -> Atoms:
    low, high = env.cost_range.T
    jumps = _shown_jumps(env)
    contexts, weights, costs = [], [], []
    for c in np.flatnonzero(env.weights > 0):
        j, k = np.nonzero(jumps[c])
        up = ((np.arange(2**j.size)[:, None] >> np.arange(j.size)) & 1).astype(bool)
        chance = (env.costs[c, j, k] - low[k]) / (high[k] - low[k])
        outcomes = np.repeat(env.costs[c][None], up.shape[0], axis=0)
        outcomes[:, j, k] = np.where(up, high[k], low[k])
        contexts.append(np.full(up.shape[0], c))
        weights.append(env.weights[c] * np.where(up, chance, 1.0 - chance).prod(axis=1))
        costs.append(outcomes)
    return Atoms(np.concatenate(contexts), np.concatenate(weights), np.concatenate(costs))


def _sampled(env: Tabular, n: int, draw: np.random.Generator, jumps: NDArray[np.bool_]) -> Atoms:
    """n atoms of equal weight, contexts by systematic sampling: each expectation is unbiased."""
    ticks = (np.arange(n) + draw.random()) / n
    edges = np.cumsum(env.weights)
    contexts = np.searchsorted(edges / edges[-1], ticks, side="right")
    low, high = env.cost_range.T
    if env.cost_noise == "gaussian":
        costs = draw.normal(env.cost_locations[contexts], env.cost_scale)
        np.clip(costs, low, high, out=costs)
        costs = np.where(env.seen_before | (not env.seen_mixed), costs, env.costs[contexts])
    else:
        level, costs = low + (high - low) * draw.random((n, *env.costs.shape[1:])), env.costs[contexts]
        costs = np.where(jumps[contexts], np.where(level < costs, high, low), costs)
    return Atoms(contexts, np.full(n, 1.0 / n), costs)


def _solve_sampled(env: Tabular, eps: Array, method: lp.Method, samples: int, seed: int) -> Solution:
    """Sample average approximation, with bounds on both sides.

    The program on a sample is min_λ of an unbiased estimate of the dual function, so its expectation is at most the
    true value: independent batches give a lower confidence limit. Any fixed λ bounds the true value from above: a fresh
    sample at the λ found gives an upper one.
    """
    draw = np.random.default_rng(whole_number("seed", seed))
    size = -(-samples // _BATCHES)
    jumps = _shown_jumps(env)
    batches = [_sampled(env, size, draw, jumps) for _ in range(_BATCHES)]
    contexts = np.concatenate([one.contexts for one in batches])
    costs = np.concatenate([one.costs for one in batches])
    pooled = Atoms(contexts, np.full(contexts.size, 1.0 / contexts.size), costs)
    found = _solved(env, pooled, eps, "joint-sampled", method)
    return _with_interval(env, found, batches, (_sampled(env, size, draw, jumps) for _ in batches), method)


def _solve_custom(
    env: Custom,
    epsilon: ArrayLike,
    method: lp.Method,
    samples: int | None,
    seed: int,
    rounds: int | None = None,
) -> Solution:
    """Like `_solve_sampled`, for contexts that are drawn; exact if they can be listed."""
    if env.truth is not None:
        return solve(env.truth, epsilon=epsilon, method=method)
    if env.means is None:
        what = "give its true `means`, or the `optimum` itself"
        raise InvalidInput(f"the optimum of {env.name!r} is not known: {what}.")
    eps, n = _epsilon(epsilon, env.n_constraints), _samples(samples, _CONTEXTS)
    drawn = env.sampled(2 * n, rounds or 2 * n, whole_number("seed", seed))
    # Every second context: both halves come from the whole run, and so do the batches of each.
    found = _solved(drawn, _part(drawn, 0, 2), eps, "joint-sampled", method)
    batches, fresh = ([_part(drawn, 2 * i + half, 2 * _BATCHES) for i in range(_BATCHES)] for half in (0, 1))
    return _with_interval(drawn, found, batches, fresh, method)


def _with_interval(
    env: Tabular, found: Solution, batches: Iterable[Atoms], fresh: Iterable[Atoms], method: lp.Method
) -> Solution:
    _, low, _ = mean_interval([_batch_value(env, batch, found.epsilon, method) for batch in batches])
    _, _, high = mean_interval([_Rows.of(env, one).bound(found.duals, found.epsilon) for one in fresh])
    return replace(found, interval=(min(float(low), found.value), max(float(high), found.value)))


def _part(env: Tabular, start: int, step: int) -> Atoms:
    """Every so many contexts of a sample, as a sample of their own."""
    contexts = np.arange(start, env.n_contexts, step)
    return Atoms(contexts, np.full(contexts.size, 1.0 / contexts.size), env.costs[contexts])


def _samples(given: int | None, usual: int) -> int:
    return usual if given is None else whole_number("samples", given, low=_BATCHES)


def _batch_value(env: Tabular, batch: Atoms, eps: Array, method: lp.Method) -> float:
    try:
        return _Rows.of(env, batch).allocation(eps, method).value
    except InfeasibleProblem:
        # The least that any policy can earn keeps the lower limit valid.
        return float(env.weights @ np.where(env.available, env.rewards, np.inf).min(axis=1))
