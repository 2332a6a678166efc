"""What the best policy that knows all means would earn, and whether the paper's assumptions hold.

Two programs serve as the baseline of regret (see `docs/oracle.md`). The *fluid* one replaces costs by their means; it is
an upper bound whenever the choice can't depend on the costs drawn. When costs are random and seen before acting it is
none, and the *joint* one, in which the costs drawn are part of the context, takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import displays, lp, theory
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Drifting, Environment, phases_of
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.frames import AsFrame
from tightrope.intervals import mean_interval
from tightrope.validation import Array, finite_array, finite_number, whole_number

Baseline: TypeAlias = Literal["auto", "fluid", "joint"]
Found: TypeAlias = Literal["fluid", "joint", "joint-sampled"]

_MOST_ATOMS = 2**20
_MOST_COSTS = 2**26  # entries of the atoms' costs: 512 MiB
_BATCHES = 20
_WORDS = 6  # binding constraints that are told of in words
_ATOMS, _CONTEXTS = 50_000, 4_000  # sampled unless it is said how many
_TIGHT = 1e-7  # a constraint with less slack than this counts as binding


@dataclass(frozen=True, eq=False, slots=True)
class Atoms:
    """The joint law of context and costs, atom by atom, on which a joint program is solved.

    `contexts` and `costs` are (A,) and (A, J, K); `weights` (A,) are probabilities, equal ones when the atoms are a sample.

    >>> from tightrope.environments import bandit
    >>> atoms = solve(bandit(threshold=0.1, costs_seen="before")).atoms
    >>> atoms.costs.shape, round(float(atoms.weights.sum()), 12)
    ((8, 4, 1), 1.0)
    """

    contexts: NDArray[np.intp]
    weights: Array
    costs: Array


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Solution(AsFrame):
    """The optimum of an environment's program, with its proof. `print` shows it as a table.

    Attributes
    ----------
    value : float
        The reward per round of the best policy that meets the constraints.
    policy : (C, J), or (A, J) for a joint program
        The probability of each action in each context, or in each of the `atoms`.
    duals, slack, binding : (K,)
        Shadow prices, >= 0: what value is lost when a constraint is tightened, per unit; -ε_k minus the cost of the policy;
        where that slack is 0 (to 1e-7).
    slater : float
        The largest δ <= 1 with all costs at -δ or below, in the same program (fluid or joint); 1 when K = 0.
    interval : (low, high)
        Both equal to `value` unless it was found on a sample: then a 95 % confidence interval for the true one.
    atoms : Atoms or None
        None for a fluid program.

    Examples
    --------
    >>> from tightrope.environments import bandit
    >>> print(solve(bandit(threshold=0.1)))
    value 0.4 (fluid), Slater's constant 0.1, verified to a gap of ...
    constraint  slack  dual  binding
    usage       0      3     yes
    """

    value: float
    policy: Array
    duals: Array
    slater: float
    slack: Array
    binding: NDArray[np.bool_]
    certificate: lp.Certificate
    baseline: Found
    interval: tuple[float, float]
    atoms: Atoms | None
    epsilon: Array
    constraints: tuple[str, ...]

    def __repr__(self) -> str:
        binding = [self.constraints[k] for k in np.flatnonzero(self.binding)]
        found = f"value={self.value:.6g}, baseline={self.baseline!r}, slater={self.slater:.6g}"
        return f"Solution({found}, binding={binding})"

    def __str__(self) -> str:
        found = f"value {_text(self.value)} ({self.baseline})"
        if self.baseline == "joint-sampled":
            found += f", in [{_text(self.interval[0])}, {_text(self.interval[1])}] with 95 % confidence"
        found += f", Slater's constant {_text(self.slater)}, verified to a gap of {max(0.0, self.certificate.gap):.0e}"
        columns = zip(self.constraints, self.slack, self.duals, self.binding, strict=True)
        rows = [(name, _text(s), _text(dual), "yes" if binds else "no") for name, s, dual, binds in columns]
        return _table(found, ("constraint", "slack", "dual", "binding"), rows) if rows else found

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each constraint."""
        columns = zip(
            self.constraints, self.slack.tolist(), self.duals.tolist(), self.binding.tolist(), strict=True
        )
        return [{"constraint": n, "slack": s, "dual": d, "binding": b} for n, s, d, b in columns]

    def _repr_html_(self) -> str:
        proof = self.certificate
        known: list[tuple[str, Any]] = [("program", self.baseline)]
        if self.baseline == "joint-sampled":
            known.append(("95 % interval", f"{_text(self.interval[0])} to {_text(self.interval[1])}"))
        known.append(
            ("Slater's constant", f"{_text(self.slater)}: so far below zero can all costs be kept at once")
        )
        checked = "verified" if proof.verified else "NOT VERIFIED"
        gap = "to the last digit" if proof.gap <= 0.0 else f"to a part of {proof.gap:.0e}"
        known.append(("certificate", f"{checked}: nothing can earn more, {gap}"))
        rows = [
            (row["constraint"], row["slack"], "binds" if row["binding"] else "has slack", row["dual"])
            for row in self.frame_rows()
        ]
        words = [
            f"{row['constraint']}: a unit more would earn {displays.text(row['dual'])} a round."
            for row in self.frame_rows()
            if row["binding"] and row["dual"] > _TIGHT
        ]
        return displays.page(
            f"The best that can be earned: {_text(self.value)} a round",
            displays.facts(known),
            displays.table(("constraint", "slack", "", "price"), rows) if rows else displays.Html(""),
            displays.lines_of(words[:_WORDS]),
        )


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
        A `Custom` one must tell its means; contexts are drawn from it, 4,000 unless `samples` says otherwise.
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
        The message tells by how much, and names an irreducible set of constraints in conflict.

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
    eps, kind = _settings(env, epsilon, baseline)
    if kind == "fluid":
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
    """The optimum that a run of that many rounds is held against; in a drifting environment each phase has its own.

    >>> from tightrope.environments import Drifting, bandit
    >>> env = Drifting([bandit(threshold=0.1), bandit(threshold=0.1, costs_seen="after")])
    >>> found = benchmark(env, 1000)
    >>> round(found.value, 9), found.earned([250, 1000]).round(6).tolist()
    (0.4, [100.0, 400.0])
    """
    rounds = whole_number("rounds", rounds, low=1)
    if isinstance(env, Custom):
        only = _solve_custom(env, 0.0, "auto", None, 0, rounds)
        return Benchmark(only.value, only.interval, only.baseline, ((rounds, only),))
    phases = phases_of(env, rounds)
    solved = tuple((last - first + 1, solve(now)) for first, last, now in phases)
    if len(solved) == 1:
        only = solved[0][1]
        return Benchmark(only.value, only.interval, only.baseline, solved)
    lengths = [length for length, _ in solved]
    value, low, high = np.average([(one.value, *one.interval) for _, one in solved], axis=0, weights=lengths)
    baseline = max((one.baseline for _, one in solved), key=get_args(Found).index)
    return Benchmark(float(value), (float(low), float(high)), baseline, solved)


def slater(env: Tabular, *, method: lp.Method = "auto") -> float:
    """Slater's constant of the fluid program: the largest δ <= 1 with all mean costs at -δ or below.

    Negative when the constraints can't be met; 1 when there are none.

    >>> from tightrope.environments import bandit
    >>> slater(bandit(threshold=0.1))
    0.1
    """
    _require_tabular(env)
    return _Rows.of(env, _fluid(env)).slater(method).value


@dataclass(frozen=True, slots=True)
class Assumption:
    """One assumption of the paper: what must hold, what was measured, and whether it holds.

    >>> Assumption("‖φ‖ ≤ 1", "largest norm 0.9", True).holds
    True
    """

    statement: str
    measured: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What `check` found. `print` shows it as a table.

    `slater` is that of the fluid program, `m` the least with ‖θ*‖ <= m for the θ* of least norm that fits the rewards best, and
    `tau_prime` τ', the first round with ε_t <= δ/2: None where there is none (δ <= 0), or, with costs seen after acting, no
    horizon to compute it from.

    >>> from tightrope.environments import bandit
    >>> check(bandit(threshold=0.1)).holds
    True
    """

    items: tuple[Assumption, ...]
    slater: float
    m: float
    tau_prime: int | None

    @property
    def holds(self) -> bool:
        """Whether all of them hold."""
        return all(item.holds for item in self.items)

    def __str__(self) -> str:
        rows = [(item.statement, item.measured, "yes" if item.holds else "NO") for item in self.items]
        verdict = "every assumption holds" if self.holds else "not every assumption holds"
        end = "" if self.tau_prime is None else f"\nτ' = {self.tau_prime:,}: the first round with ε_t ≤ δ/2"
        return _table(verdict, ("assumption", "measured", "holds"), rows) + end

    def __repr__(self) -> str:
        failed = [item.statement for item in self.items if not item.holds]
        return f"Assumptions(holds={self.holds}{f', failed={failed}' if failed else ''}, slater={self.slater:.6g})"

    def _repr_html_(self) -> str:
        rows = [(item.statement, item.measured, "yes" if item.holds else "NO") for item in self.items]
        verdict = "Every assumption holds" if self.holds else "Not every assumption holds"
        return displays.page(verdict, displays.table(("assumption", "measured", "holds"), rows))


def check(env: Tabular, *, m: float | None = 1.0, horizon: int | None = None) -> Assumptions:
    """Which of the paper's assumptions hold in `env`, and by how much.

    Only actions on offer in contexts that can occur are looked at. Arms without features count as φ = e_j.

    Parameters
    ----------
    env : Tabular
    m : float, optional
        The bound on ‖θ*‖ that the policy is given; None for one that needs none, and nothing is asked of ‖θ*‖.
    horizon : int, optional
        T; with costs seen after acting, τ' depends on it.

    Examples
    --------
    >>> from tightrope.environments import synthetic
    >>> print(check(synthetic(contexts=3, actions=2, features=3, constraints=1, slater=0.5)))
    every assumption holds
    assumption                      measured                                      holds
    ‖φ‖ ≤ 1                         largest norm 1                                yes
    mean rewards in [0, 1]          from ... to ...    yes
    mean rewards linear in φ        largest residual ...    yes
    ‖θ*‖ ≤ m = 1                    least norm ...    yes
    reward noise 1-sub-Gaussian     parameter 0.5 (bernoulli)                     yes
    costs in [-1, 1]                from ... to ...    yes
    Slater's condition, δ > 0       δ = 0.5                                       yes
    τ' = 96: the first round with ε_t ≤ δ/2
    """
    _require_tabular(env)
    bound = None if m is None else finite_number("m", m, low=0.0)
    rounds = None if horizon is None else whole_number("horizon", horizon, low=1)
    seen = env.available & (env.weights > 0)[:, None]
    rewards = env.rewards[seen]
    fit = _linear_fit(env.features, env.rewards[:, :, None], seen)
    theta_norm = float(fit.norms[0])
    parameter = {"bernoulli": 0.5, "gaussian": env.reward_scale, "none": 0.0}[env.reward_noise]
    items = [
        Assumption("‖φ‖ ≤ 1", f"largest norm {_text(fit.largest)}", fit.largest <= 1.0 + 1e-9),
        _within("mean rewards", 0.0, float(rewards.min()), float(rewards.max())),
        Assumption("mean rewards linear in φ", f"largest residual {fit.residual:.1e}", fit.residual <= 1e-8),
    ]
    if bound is not None:
        held = theta_norm <= bound + 1e-9
        items.append(Assumption(f"‖θ*‖ ≤ m = {bound:g}", f"least norm {_text(theta_norm)}", held))
    items.append(_light_tails("reward", parameter, env.reward_noise))
    delta = slater(env)
    if env.n_constraints:
        items += _cost_items(env, seen)
        items.append(Assumption("Slater's condition, δ > 0", f"δ = {_text(delta)}", delta > 1e-9))
    return Assumptions(tuple(items), delta, theta_norm, _tau_prime(env, delta, rounds))


def _cost_items(env: Tabular, seen: NDArray[np.bool_]) -> list[Assumption]:
    jumps = env.jumps & seen[:, :, None]
    low = float(np.where(jumps, env.cost_range[:, 0], env.costs)[seen].min())
    high = float(np.where(jumps, env.cost_range[:, 1], env.costs)[seen].max())
    inside = _within("costs", -1.0, low, high)
    late = ~env.seen_before
    if not late.any():
        return [inside]
    fit = _linear_fit(env.cost_features, env.costs[..., late], seen)
    norm = float(fit.norms.max())
    # Hoeffding: a variable within an interval is sub-Gaussian with half its length.
    widths = (env.cost_range[late, 1] - env.cost_range[late, 0]) / 2.0
    parameter = float(np.max(np.where(jumps[..., late].any(axis=(0, 1)), widths, 0.0)))
    return [
        inside,
        Assumption("‖ψ‖ ≤ 1", f"largest norm {_text(fit.largest)}", fit.largest <= 1.0 + 1e-9),
        Assumption("mean costs linear in ψ", f"largest residual {fit.residual:.1e}", fit.residual <= 1e-8),
        Assumption("‖μ*‖ ≤ 1", f"largest least norm {_text(norm)}", norm <= 1.0 + 1e-9),
        _light_tails("cost", parameter, env.cost_noise),
    ]


def _within(what: str, least: float, low: float, high: float) -> Assumption:
    holds = low >= least and high <= 1.0
    return Assumption(f"{what} in [{least:g}, 1]", f"from {_text(low)} to {_text(high)}", holds)


def _light_tails(what: str, parameter: float, noise: str) -> Assumption:
    measured = f"parameter {_text(parameter)} ({noise})"
    return Assumption(f"{what} noise 1-sub-Gaussian", measured, parameter <= 1.0)


def _tau_prime(env: Tabular, delta: float, horizon: int | None) -> int | None:
    if delta <= 1e-9:
        return None
    if env.seen_before.all():
        return theory.tau_prime(K=env.n_constraints, delta=delta)
    if horizon is None:
        return None
    d = max(_dimension(env.features, env.n_actions), _dimension(env.cost_features, env.n_actions))
    return theory.tau_prime_linear(delta=delta, d=d, T=horizon)


def _dimension(features: Array | None, n_actions: int) -> int:
    if features is None:
        return n_actions
    return int(features.shape[-1]) * (n_actions if features.ndim == 2 else 1)


@dataclass(frozen=True, slots=True)
class _Fit:
    residual: float
    norms: Array  # of each target's least-norm parameter
    largest: float  # norm of a feature vector


def _linear_fit(features: Array | None, targets: Array, seen: NDArray[np.bool_]) -> _Fit:
    """Least squares of targets (C, J, n) on the features, where seen."""
    if features is None:
        features = np.ones((targets.shape[0], 1))
    if features.ndim == 3:
        groups = [(features[seen], targets[seen])]
    else:
        groups = [(features[on], targets[on, j]) for j, on in enumerate(seen.T) if on.any()]
    residual = largest = 0.0
    squares = np.zeros(targets.shape[2])
    for phi, y in groups:
        parameters, *_ = np.linalg.lstsq(phi, y, rcond=None)
        residual = max(residual, float(np.abs(phi @ parameters - y).max()))
        squares += (parameters**2).sum(axis=0)
        largest = max(largest, float(np.linalg.norm(phi, axis=1).max()))
    return _Fit(residual, np.sqrt(squares), largest)


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

    def policy(self, x: Array) -> Array:
        full = np.zeros(self.mask.shape)
        full[self.mask] = x.ravel()
        return full

    def bound(self, lam: Array, eps: Array) -> float:
        """The dual function at λ: an upper bound on the program's value."""
        scores = self.rewards - self.costs @ lam
        tops = scores.max(axis=1) if self.offsets is None else np.maximum.reduceat(scores, self.offsets[:-1])
        return float(self.weights @ tops - eps @ lam)


def _settings(env: Tabular, epsilon: ArrayLike, baseline: Baseline) -> tuple[Array, Baseline]:
    _require_tabular(env)
    K = env.n_constraints
    eps = np.array(np.broadcast_to(finite_array("epsilon", epsilon, (), (K,)), (K,)))
    if baseline == "auto":
        return eps, "joint" if env.random_before else "fluid"
    if baseline not in ("fluid", "joint"):
        raise InvalidInput(f"baseline must be 'auto', 'fluid' or 'joint', but got {baseline!r}.")
    return eps, baseline


def _require_tabular(env: Any) -> None:
    if isinstance(env, Drifting):
        raise InvalidInput(
            f"the means of {env.name!r} change with the round, and so does its optimum: ask for one of env.phases, or for "
            "tightrope.oracle.benchmark(env, rounds)."
        )
    if isinstance(env, Custom):
        raise InvalidInput(
            f"{env.name!r} draws its contexts: this is asked of a Tabular, such as env.sampled(n, rounds, seed) is."
        )
    if not isinstance(env, Tabular):
        raise InvalidInput(f"env must be a tightrope.environments.Tabular, but got {type(env).__name__}.")


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
        binding=found.slack <= _TIGHT,
        certificate=found.certificate,
        baseline=baseline,
        interval=(found.value, found.value),
        atoms=None if baseline == "fluid" else atoms,
        epsilon=eps,
        constraints=env.constraints,
    )


def _infeasible(env: Tabular, rows: _Rows, eps: Array, baseline: str, method: lp.Method) -> InfeasibleProblem:
    rows = replace(rows, costs=rows.costs + eps)
    point = rows.slater(method)
    kept = [int(k) for k in np.flatnonzero(point.duals > 1e-9)]
    for k in tuple(kept):
        fewer = [other for other in kept if other != k]
        if replace(rows, costs=rows.costs[..., fewer]).slater(method).value < -_TIGHT:
            kept = fewer
    names = ", ".join(repr(env.constraints[k]) for k in kept)
    margin = " with the margins epsilon" if eps.any() else ""
    sampled = baseline == "joint-sampled"
    hint = f" (in a sample of {rows.weights.size} atoms; take more samples to be sure)" if sampled else ""
    return InfeasibleProblem(
        f"no policy in {env.name!r} meets every constraint{margin}: at best the worst is missed by "
        f"{-point.value:.6g}; these can't be met together: {names}{hint}"
    )


def _n_atoms(env: Tabular) -> float:
    """How many atoms the joint law has (inf for Gaussian costs)."""
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


def _sampled(env: Tabular, n: int, draw: np.random.Generator) -> Atoms:
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
        costs = np.where(_shown_jumps(env)[contexts], np.where(level < costs, high, low), costs)
    return Atoms(contexts, np.full(n, 1.0 / n), costs)


def _solve_sampled(env: Tabular, eps: Array, method: lp.Method, samples: int, seed: int) -> Solution:
    """Sample average approximation, with bounds on both sides.

    The program on a sample is min_λ of an unbiased estimate of the dual function, so its expectation is at most the
    true value: independent batches give a lower confidence limit. Any fixed λ bounds the true value from above: a fresh
    sample at the λ found gives an upper one.
    """
    draw = np.random.default_rng(whole_number("seed", seed))
    size = -(-samples // _BATCHES)
    batches = [_sampled(env, size, draw) for _ in range(_BATCHES)]
    contexts, costs = (
        np.concatenate([getattr(one, part) for one in batches]) for part in ("contexts", "costs")
    )
    pooled = Atoms(contexts, np.full(contexts.size, 1.0 / contexts.size), costs)
    found = _solved(env, pooled, eps, "joint-sampled", method)
    _, low, _ = mean_interval([_batch_value(env, batch, eps, method) for batch in batches])
    fresh = [_Rows.of(env, _sampled(env, size, draw)).bound(found.duals, eps) for _ in range(_BATCHES)]
    _, _, high = mean_interval(fresh)
    return replace(found, interval=(min(float(low), found.value), max(float(high), found.value)))


def _solve_custom(
    env: Custom,
    epsilon: ArrayLike,
    method: lp.Method,
    samples: int | None,
    seed: int,
    rounds: int | None = None,
) -> Solution:
    """As `_solve_sampled`, where the contexts themselves are drawn; exact where they can be listed."""
    if env.truth is not None:
        return solve(env.truth, epsilon=epsilon, method=method)
    if env.means is None:
        raise InvalidInput(
            f"the optimum of {env.name!r} is not known: its true means are needed, which `means=` tells, or `optimum=` itself."
        )
    K, n = env.n_constraints, _samples(samples, _CONTEXTS)
    eps = np.array(np.broadcast_to(finite_array("epsilon", epsilon, (), (K,)), (K,)))
    drawn = env.sampled(2 * n, rounds or 2 * n, whole_number("seed", seed))
    # Every second context: both halves come from the whole run, and so do the batches of each.
    found = _solved(drawn, _part(drawn, 0, 2), eps, "joint-sampled", method)
    batches = [_part(drawn, 2 * i, 2 * _BATCHES) for i in range(_BATCHES)]
    _, low, _ = mean_interval([_batch_value(drawn, batch, eps, method) for batch in batches])
    bounds = [
        _Rows.of(drawn, _part(drawn, 2 * i + 1, 2 * _BATCHES)).bound(found.duals, eps)
        for i in range(_BATCHES)
    ]
    _, _, high = mean_interval(bounds)
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
        # The least that any policy earns keeps the lower limit valid.
        return float(env.weights @ np.where(env.available, env.rewards, np.inf).min(axis=1))


def _text(number: float) -> str:
    return f"{0.0 if abs(number) < 1e-12 else number:.6g}"


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *rows))
    return "\n".join([title, *lines])
