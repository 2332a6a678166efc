"""Conformance suites: what every policy and every environment owes its caller, for one's own classes too.

As a list of faults, empty where there are none:

>>> import tightrope as tr
>>> check_policy(lambda: tr.OPB(4, safe_cost=-0.1, horizon=100, cost_range=(-0.1, 0.9)), tr.environments.bandit(threshold=0.1))
[]

As tests for pytest: inherit, and say how one is made.

>>> class TestMine(PolicySuite):
...     def make(self):
...         return tr.Uniform(4)
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.engine import simulate
from tightrope.engine.world import rows_for
from tightrope.environments import synthetic
from tightrope.environments.tabular import Tabular
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Ridge
from tightrope.oracle import slater, solve
from tightrope.policies import Oracle, Uniform
from tightrope.validation import Array

__all__ = ["EnvironmentSuite", "PolicySuite", "check_environment", "check_policy"]

ROUNDS = 60


class PolicySuite:
    """Tests that every policy passes which can be simulated. Inherit it in a test module and define `make`.

    `make()` returns a new policy, always the same one. `environment()` returns one of its setting; the default is a small random
    linear instance with one cost that is seen before acting. With `strict = True` it is also held to what the package's own
    policies promise: outcomes late and in any order, bad ones refused with `InvalidInput` and without a trace. `learns = False`
    says that it looks at no outcome, so that there are no bad ones.
    """

    strict: ClassVar[bool] = False
    learns: ClassVar[bool] = True

    def make(self) -> Any:
        """A new policy."""
        raise NotImplementedError("define make(self), which returns a new policy")

    def environment(self) -> Tabular:
        """An environment of the policy's setting."""
        return synthetic(contexts=5, actions=4, features=3, constraints=1, slater=0.2)

    def test_it_has_the_three_methods(self) -> None:
        """`decide`, `learn` and `copy` are there."""
        policy = self.make()
        for method in ("decide", "learn", "copy"):
            _must(
                callable(getattr(policy, method, None)),
                f"{type(policy).__name__} must have a method {method}, but has none",
            )

    def test_it_says_that_its_own_setting_fits(self) -> None:
        """`requires`, where there is one, finds nothing wrong with the environment."""
        policy = self.make()
        if not hasattr(policy, "requires"):
            return
        reasons = policy.requires(self.environment())
        _must(
            isinstance(reasons, list) and all(isinstance(one, str) for one in reasons),
            f"requires(env) must return a list of str, but returned {reasons!r}",
        )
        _must(not reasons, f"requires(env) must be empty for an environment of its setting, but is {reasons}")

    def test_it_chooses_actions_on_offer(self) -> None:
        """Every decision is an action id, or has one as `.action`, that was on offer."""
        for _ in _rounds(self.make(), self.environment()):
            pass

    def test_it_leaves_its_input_alone(self) -> None:
        """`decide` and `learn` do not write into the arrays that they are given."""
        for shown in _rounds(self.make(), self.environment()):
            for name, value in shown.given.items():
                _must(
                    np.array_equal(value, shown.before[name]),
                    f"decide or learn changed the argument {name} of decide in place",
                )

    def test_same_seed_same_choices(self) -> None:
        """Two simulations under one seed make the same choices: all randomness comes from `copy(seed)`."""
        env = self.environment()
        first, second = (_choices(self.make(), env) for _ in range(2))
        _must(
            np.array_equal(first, second),
            "two simulations with the same seed made different choices: draw all randomness from the seed of copy(seed)",
        )

    def test_a_simulation_does_not_change_it(self) -> None:
        """The policy that is simulated stays as it was: `copy` shares no state."""
        env, policy = self.environment(), self.make()
        first, second = (_choices(policy, env) for _ in range(2))
        _must(
            np.array_equal(first, second),
            "simulating a policy changed it: copy(seed) must return an independent policy that shares no state",
        )

    def test_a_copy_goes_on_from_the_same_state(self) -> None:
        """Two copies with one seed, taken in the middle of a run, act alike, and do not disturb each other."""
        env, policy = self.environment(), self.make()
        for _ in _rounds(policy, env):
            pass
        twins = [policy.copy(7), policy.copy(7)]
        acts = [[_action(shown.decision) for shown in _rounds(twin, env, start=ROUNDS + 1)] for twin in twins]
        _must(
            acts[0] == acts[1],
            "two copies with the same seed acted differently: copy(seed) must carry the whole state over",
        )

    def test_its_mixture_is_one(self) -> None:
        """`mixture`, where there is one, tells probabilities of the actions on offer, and the action taken has a positive one."""
        policy = self.make()
        if not callable(getattr(policy, "mixture", None)):
            return
        for shown in _rounds(policy, self.environment(), mixture=True):
            pi = np.asarray(shown.mixture)
            _must(
                pi.shape == shown.ids.shape and bool((pi >= -1e-9).all()) and abs(pi.sum() - 1.0) < 1e-6,
                f"mixture must be {len(shown.ids)} probabilities that sum to 1, but is {pi.tolist()}",
            )
            chance = pi[shown.ids == _action(shown.decision)].sum()
            _must(
                chance > 0.0,
                f"decide chose action {_action(shown.decision)}, to which mixture gave probability 0",
            )

    def test_its_probability_is_one(self) -> None:
        """`decision.probability`, where there is one, lies in (0, 1], or is nan where it has no closed form."""
        for shown in _rounds(self.make(), self.environment()):
            p = getattr(shown.decision, "probability", 1.0)
            _must(
                math.isnan(p) or 0.0 < p <= 1.0 + 1e-12,
                f"decision.probability must lie in (0, 1], or be nan, but is {p}",
            )

    def test_it_can_travel(self) -> None:
        """It can be sent to another process, which is how simulations use several cores."""
        policy, env = self.make(), self.environment()
        try:
            from joblib.externals.loky.backend.reduction import dumps

            there = pickle.loads(dumps(policy))
        except Exception as error:
            raise AssertionError(
                f"the policy can't be pickled, so it can't run on several cores: {error!r}"
            ) from error
        _must(
            np.array_equal(_choices(policy, env), _choices(there, env)),
            "a pickled policy made other choices than the original",
        )

    def test_strict_outcomes_may_come_late_and_in_any_order(self) -> None:
        """Two policies that learn the same outcomes in opposite orders act alike from then on."""
        if not self.strict:
            return
        env = self.environment()
        acts = []
        for order in (1, -1):
            policy = self.make()
            late = list(_rounds(policy, env, rounds=6, learn=False))
            for shown in late[::order]:
                shown.learn(policy)
            acts.append([_action(shown.decision) for shown in _rounds(policy, env, start=7, rounds=20)])
        _must(
            acts[0] == acts[1], "the order in which late outcomes were learnt changed the choices after them"
        )

    def test_strict_bad_outcomes_are_refused_without_a_trace(self) -> None:
        """NaN, Inf, text, nothing, a second outcome, a decision of another policy: `InvalidInput`, and no state changes."""
        if not self.strict:
            return
        env, policy, other = self.environment(), self.make(), self.make()
        shown = list(_rounds(policy, env, rounds=3))[-1]
        foreign = list(_rounds(other, env, rounds=3, learn=False))[-1]
        fresh = next(iter(_rounds(policy, env, start=4, rounds=1, learn=False)))
        untouched = policy.copy(3)
        for reward in (math.nan, math.inf, "1", True) if self.learns else ():
            _refuses(partial(policy.learn, fresh.decision, reward, *fresh.costs), f"reward {reward!r}")
        for costs in ([math.nan] * env.n_constraints, ["x"]) if fresh.costs else ():
            _refuses(partial(policy.learn, fresh.decision, fresh.reward, costs), f"costs {costs!r}")
        _refuses(lambda: shown.learn(policy), "a second outcome of one decision")
        _refuses(lambda: foreign.learn(policy), "a decision of another policy")
        twins = [policy.copy(3), untouched]
        acts = [[_action(one.decision) for one in _rounds(twin, env, start=5, rounds=20)] for twin in twins]
        _must(acts[0] == acts[1], "an outcome that was refused changed what the policy does next")


class EnvironmentSuite:
    """Tests that every environment passes: its draws have the means that it tells, and its program has a verified optimum.

    Inherit it in a test module and define `make`, which returns the same `Tabular` every time. Statistical tests use a fixed seed
    and limits of five standard errors.

    >>> import tightrope as tr
    >>> class TestTwoArms(EnvironmentSuite):
    ...     def make(self):
    ...         return tr.environments.bandit(threshold=0.1)
    """

    def make(self) -> Tabular:
        """The environment."""
        raise NotImplementedError("define make(self), which returns a Tabular")

    def test_it_is_a_table(self) -> None:
        """It is a `Tabular`, the same every time, that can't be written to."""
        env, again = self.make(), self.make()
        _must(isinstance(env, Tabular), f"make() must return a Tabular, but returned {env!r}")
        for name in ("weights", "rewards", "costs", "available", "features", "cost_features"):
            one, other = getattr(env, name), getattr(again, name)
            same = one is other is None or np.array_equal(one, other)
            _must(same, f"{name} must be the same every time that the environment is made, but differ")

    def test_feature_norms_are_at_most_one(self) -> None:
        """‖φ‖ ≤ 1 and ‖ψ‖ ≤ 1, as every linear policy asks."""
        env = self.make()
        for name in ("features", "cost_features"):
            rows = getattr(env, name)
            if rows is not None:
                longest = float(np.sqrt((rows**2).sum(axis=-1).max()))
                _must(
                    longest <= 1.0 + 1e-9,
                    f"{name} must have norms of at most 1, but the longest is {longest:.6g}: divide by it",
                )

    def test_mean_rewards_lie_in_the_unit_interval(self) -> None:
        """Mean rewards of what is on offer lie in [0, 1]."""
        env = self.make()
        r = env.rewards[env.available]
        _must(
            bool(((r >= 0.0) & (r <= 1.0)).all()),
            f"mean rewards must lie in [0, 1], but go from {r.min():.6g} to {r.max():.6g}",
        )

    def test_some_policy_meets_the_constraints_with_room(self) -> None:
        """Slater's constant is positive: without it no algorithm can promise anything."""
        env = self.make()
        if env.n_constraints:
            delta = slater(env)
            _must(
                delta > 0.0,
                f"Slater's constant must be positive, but is {delta:.6g}: no policy meets all costs",
            )

    def test_the_optimum_is_verified(self) -> None:
        """The linear program has an optimum whose certificate holds."""
        try:
            found = solve(self.make())
        except InfeasibleProblem as error:
            raise AssertionError(f"no policy meets the constraints: {error}") from error
        _must(
            found.certificate.verified,
            f"the optimum must be verified, but its gap is {found.certificate.gap}",
        )

    def test_draws_have_the_means_that_it_tells(self) -> None:
        """Drawn rewards and costs agree with their means within five standard errors."""
        env, T, n = self.make(), 400, 50
        run = simulate(Uniform(env.n_actions), env, T, n, seed=1, workers=1, record=1, optimum=0.0)
        noise = run.observed_reward[:, -1] - run.reward[:, -1]
        _near(noise, "the drawn rewards", "their means")
        for k in range(env.n_constraints):
            _near(
                run.cost[:, -1, k] - run.mean_cost[:, -1, k],
                f"the drawn costs of constraint {k}",
                "their means",
            )
        low, high = env.cost_range.T
        inside = (run.cost[:, -1] >= low * T - 1e-6) & (run.cost[:, -1] <= high * T + 1e-6)
        _must(bool(inside.all()), "drawn costs must lie in cost_range, but their sum leaves it")

    def test_the_optimum_can_be_played(self) -> None:
        """Playing the optimal mixture earns the optimum and keeps the constraints, within five standard errors."""
        env, T, n = self.make(), 400, 50
        found = solve(env, baseline="fluid")
        run = simulate(Oracle(found.policy), env, T, n, seed=2, workers=1, record=1, optimum=0.0)
        _near(run.reward[:, -1] - T * found.value, "what the optimal mixture earned", "the optimum")
        for k in range(env.n_constraints):
            over = run.mean_cost[:, -1, k]
            error = over.std(ddof=1) / math.sqrt(n) + 1e-9 * T
            _must(
                float(over.mean()) <= 5.0 * error + 1e-6,
                f"the optimal mixture exceeded constraint {k} by {over.mean() / T:.3g} a round",
            )

    def test_contexts_come_as_often_as_it_tells(self) -> None:
        """The share of each context agrees with its weight within five standard errors."""
        env, T, n = self.make(), 200, 20
        seen = _Contexts(env)
        simulate(seen, env, T, n, seed=3, workers=1, record=1, optimum=0.0)
        total = T * n
        error = np.sqrt(env.weights * (1.0 - env.weights) / total)
        off = np.abs(seen.counts / total - env.weights)
        worst = int(np.argmax(off - 5.0 * error))
        _must(
            bool((off <= 5.0 * error + 1e-12).all()),
            f"context {worst} came in a share of {seen.counts[worst] / total:.4f}, but its weight is {env.weights[worst]:.4f}",
        )


def check_policy(make: Callable[[], Any], env: Tabular | None = None, *, strict: bool = False) -> list[str]:
    """What a policy of one's own does not do that every policy must; empty where it conforms.

    Parameters
    ----------
    make : callable
        Returns a new policy, always the same one.
    env : Tabular, optional
        An environment of its setting; by default a small linear one with a cost seen before acting.
    strict : bool
        Hold it to what the package's own policies promise about late and bad outcomes as well.

    Examples
    --------
    >>> class Forgetful:
    ...     def decide(self, **offer):
    ...         return 0
    ...     def learn(self, decision, reward, costs=None):
    ...         pass
    >>> for fault in check_policy(Forgetful):
    ...     print(fault)
    it has the three methods: Forgetful must have a method copy, but has none
    """
    suite = PolicySuite()
    suite.make = make  # type: ignore[method-assign]
    if env is not None:
        suite.environment = lambda: env  # type: ignore[method-assign]
    suite.strict = strict  # type: ignore[misc]
    return _faults(suite, "test_it_has_the_three_methods")


def check_environment(make: Callable[[], Tabular]) -> list[str]:
    """What an environment of one's own does not do that every environment must; empty where it conforms.

    >>> import tightrope as tr
    >>> long = tr.environments.Tabular([1.0], [[[2.0], [1.0]]], [[0.2, 0.1]], name="long")
    >>> check_environment(lambda: long)
    ['feature norms are at most one: features must have norms of at most 1, but the longest is 2: divide by it']
    """
    suite = EnvironmentSuite()
    suite.make = make  # type: ignore[method-assign]
    return _faults(suite, "test_it_is_a_table")


# --- how the suites play ---


@dataclass(frozen=True, eq=False)
class _Round:
    """One round that a suite has played: what was on offer, a copy of it taken before, what was chosen, and its outcome."""

    given: dict[str, Array]
    before: dict[str, Array]
    ids: NDArray[np.int64]
    mixture: Any
    decision: Any
    reward: float
    costs: tuple[Any, ...]

    def learn(self, policy: Any) -> None:
        policy.learn(self.decision, self.reward, *self.costs)


def _rounds(
    policy: Any,
    env: Tabular,
    *,
    start: int = 1,
    rounds: int = ROUNDS,
    learn: bool = True,
    mixture: bool = False,
) -> Iterator[_Round]:
    """Rounds as the engine plays them, with outcomes drawn by a generator of their own."""
    K = env.n_constraints
    constrained = getattr(policy, "n_constraints", K) > 0 and K > 0
    rows = {part: _shown(policy, env, part) for part in ("reward", "cost")}
    for t in range(start, start + rounds):
        draw = np.random.default_rng((11, t))
        c = int(draw.choice(env.n_contexts, p=env.weights))
        ids = np.flatnonzero(env.available[c])
        given: dict[str, Array] = {}
        if rows["reward"] is not None:
            given["features"] = _offered(rows["reward"], c, ids)
        if constrained and env.costs_seen == "before":
            given["costs"] = env.costs[c, ids].copy()
        elif constrained and rows["cost"] is not None:
            given["costs"] = _offered(rows["cost"], c, ids)
        before = {name: value.copy() for name, value in given.items()}
        other: dict[str, Any] = {} if env.available.all() else {"actions": ids.tolist()}
        if getattr(policy, "sees_context", False):
            other["context"] = c
        pi = policy.mixture(**given, **other) if mixture else None
        decision = policy.decide(**given, **other)
        _on_offer(decision, ids)
        a = _action(decision)
        reward = float(draw.random() < env.rewards[c, a])
        late = constrained and env.costs_seen == "after"
        costs = (env.costs[c, a].copy(),) if late else ()
        shown = _Round(given, before, ids, pi, decision, reward, costs)
        if learn:
            shown.learn(policy)
        yield shown


def _shown(policy: Any, env: Tabular, part: str) -> Array | None:
    """What a policy is shown, in its own model's form where it has one."""
    features = env.features if part == "reward" else env.cost_features
    model = getattr(policy, f"{part}_model", None)
    if isinstance(model, ArmMeans):
        return None
    if isinstance(model, Ridge | DisjointRidge):
        return rows_for(part, model, features, env.n_actions)
    return features[:, None, :] if features is not None and features.ndim == 2 else features


def _offered(rows: Array, c: int, ids: NDArray[np.int64]) -> Array:
    row = rows[c if len(rows) > 1 else 0]
    offered: Array = row[0].copy() if len(row) == 1 else row[ids]
    return offered


class _Contexts(Uniform):
    """Counts the contexts; its copies count together."""

    sees_context = True

    def __init__(self, env: Tabular) -> None:
        super().__init__(env.n_actions)
        self.counts = np.zeros(env.n_contexts)

    def decide(
        self, features: Any = None, costs: Any = None, *, actions: Any = None, context: int | None = None
    ) -> Any:
        self.counts[context] += 1
        return super().decide(actions=actions)

    def copy(self, seed: int | None = None) -> _Contexts:
        twin = _Contexts.__new__(_Contexts)
        Uniform.__init__(twin, self.n_actions, seed=self.seed if seed is None else seed)
        twin.counts = self.counts
        return twin


def _choices(policy: Any, env: Tabular) -> NDArray[np.int16]:
    run = simulate(
        policy, env, ROUNDS, 2, seed=5, workers=1, record=1, optimum=0.0, keep_choices=True, compile=False
    )
    assert run.choices is not None
    return run.choices


def _on_offer(decision: Any, ids: NDArray[np.int64]) -> None:
    action = getattr(decision, "action", decision)
    _must(
        isinstance(action, (int, np.integer)) and not isinstance(action, bool),
        f"decide must return an action id, or an object with one as .action, but returned {decision!r}",
    )
    _must(int(action) in ids, f"decide chose action {action}, but only {ids.tolist()} were on offer")


def _action(decision: Any) -> int:
    return int(getattr(decision, "action", decision))


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _refuses(call: Callable[[], None], what: str) -> None:
    try:
        call()
    except InvalidInput:
        return
    except Exception as error:
        raise AssertionError(f"{what} must be refused with InvalidInput, but raised {error!r}") from error
    raise AssertionError(f"{what} must be refused with InvalidInput, but was accepted")


def _near(differences: Array, what: str, other: str) -> None:
    """Whether independent differences have mean 0, within five standard errors."""
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences))
    _must(
        abs(mean) <= 5.0 * error + 1e-6,
        f"{what} differ from {other} by {mean:.4g} in sum over a run, more than five standard errors ({error:.2g})",
    )


def _faults(suite: Any, first: str) -> list[str]:
    """The messages of the tests that fail, each once; where the first test fails the others make no sense."""
    faults: dict[str, str] = {}
    names = [name for name in vars(type(suite)) if name.startswith("test_")]
    for name in [first, *(one for one in names if one != first)]:
        words = name.removeprefix("test_").removeprefix("strict_").replace("_", " ")
        try:
            getattr(suite, name)()
        except AssertionError as error:
            faults.setdefault(str(error), words)
        except Exception as error:  # a policy of one's own may raise anything: that too is a fault to be told
            faults.setdefault(f"{type(error).__name__}: {error}", words)
        if name == first and faults:
            break
    return [f"{words}: {message}" for message, words in faults.items()]
