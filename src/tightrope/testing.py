"""Conformance suites: what every policy and every environment must do, for your own classes too.

As a list of faults, empty if there are none:

>>> import tightrope as tr
>>> env = tr.environments.bandit(threshold=0.1)
>>> check_policy(lambda: tr.policies.OPB(4, safe_cost=-0.1, horizon=100, cost_range=(-0.1, 0.9)), env)
[]

As tests for pytest: inherit, and define how to make one.

>>> class TestMine(PolicySuite):
...     def make(self):
...         return tr.policies.Uniform(4)
"""

from __future__ import annotations

import json
import math
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope.engine import simulate
from tightrope.engine.replication import offered_rows, shown_rows
from tightrope.environments import synthetic
from tightrope.environments.tabular import Tabular, changed
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.models import Model, hooks, model_from_settings
from tightrope.models.model import take_arrays
from tightrope.oracle import slater, solve
from tightrope.policies import Oracle, PessimisticOptimistic, Policy, Uniform
from tightrope.policies.hooks import Player, Traits, restored, traits_of
from tightrope.policies.state_file import read_state
from tightrope.problem import Setting
from tightrope.validation import Array

ROUNDS = 60
# A model that scales itself as outcomes come may differ a little by their order.
ALIKE_IN_ANY_ORDER = 0.6


class PolicySuite:
    """Tests for every policy that can be simulated. Inherit it in a test module and define `make`.

    `make()` returns a new policy, always the same one. `environment()` returns one that fits it; the default is a small random
    linear instance with the actions, features and costs that the policy's `hooks` state, or else 4 actions, 3 features for each and
    one cost that is seen before acting. With `strict = True` it must also keep the promises of the package's own policies: outcomes
    may come late and in any order, and bad ones are refused with `InvalidInput` and leave no trace. `learns = False` says that it
    ignores outcomes, so that none are bad.
    """

    strict: ClassVar[bool] = False
    learns: ClassVar[bool] = True

    def make(self) -> Player:
        raise NotImplementedError("define make(self), which returns a new policy")

    def environment(self) -> Tabular:
        return small_environment(self.make())

    def test_it_has_the_three_methods(self) -> None:
        policy = self.make()
        for method in ("decide", "learn", "copy"):
            there = callable(getattr(policy, method, None))
            _must(there, f"{type(policy).__name__} must have a method {method}, but has none")

    def test_it_says_that_its_own_setting_fits(self) -> None:
        why = self.environment().problem().outside(self.make())
        how = "define `environment()` to return one that fits, or pass it to check_policy as `env`"
        must = "setting must admit an environment of its own kind"
        _must(not why, f"{must}, but the problem says {why}: {how}")

    def test_it_chooses_actions_on_offer(self) -> None:
        _acts(self.make(), self.environment())

    def test_it_leaves_its_input_alone(self) -> None:
        for shown in _rounds(self.make(), self.environment()):
            for name, value in shown.given.items():
                same = np.array_equal(value, shown.before[name])
                _must(same, f"decide or learn changed the argument {name} of decide in place")

    def test_same_seed_same_choices(self) -> None:
        remedy = "draw all randomness from the seed of copy(seed)"
        words = f"two simulations with the same seed made different choices: {remedy}"
        _alike((_choices(self.make(), self.environment()) for _ in range(2)), words)

    def test_a_simulation_does_not_change_it(self) -> None:
        env, policy = self.environment(), self.make()
        remedy = "copy(seed) must return an independent policy that shares no state"
        _alike((_choices(policy, env) for _ in range(2)), f"simulating a policy changed it: {remedy}")

    def test_a_copy_goes_on_from_the_same_state(self) -> None:
        env, policy = self.environment(), self.make()
        _acts(policy, env)
        acts = [_acts(twin, env, start=ROUNDS + 1) for twin in (policy.copy(7), policy.copy(7))]
        remedy = "copy(seed) must carry the whole state over"
        _alike(acts, f"two copies with the same seed acted differently: {remedy}")

    def test_its_mixture_is_one(self) -> None:
        """`propose`, if there is one, gives probabilities of the actions on offer; the action taken has a positive one."""
        policy = self.make()
        if not (callable(getattr(policy, "propose", None)) and traits_of(policy).randomised):
            return
        for shown in _rounds(policy, self.environment(), ask="propose"):
            pi, chosen = np.asarray(shown.told.probabilities), shown.action
            good = pi.shape == shown.ids.shape and bool((pi >= -1e-9).all()) and abs(pi.sum() - 1.0) < 1e-6
            _must(good, f"propose(...).probabilities must be {len(shown.ids)} that sum to 1, but are {pi}")
            possible = pi[shown.ids == chosen].sum() > 0.0
            _must(possible, f"decide chose action {chosen}, to which propose gave probability 0")

    def test_its_probability_is_one(self) -> None:
        for shown in _rounds(self.make(), self.environment()):
            p = getattr(shown.decision, "probability", 1.0)
            good = math.isnan(p) or 0.0 < p <= 1.0 + 1e-12
            _must(good, f"decision.probability must lie in (0, 1], or be nan, but is {p}")

    def test_what_it_draws_has_a_probability(self) -> None:
        """Where another seed chooses another action in the same state, neither was certain."""
        env, policy = self.environment(), self.make()
        for t in range(1, ROUNDS + 1) if isinstance(policy, Policy) else ():
            (drawn,) = _rounds(policy.copy(t), env, start=t, rounds=1, learn=False)
            (shown,) = _rounds(policy, env, start=t, rounds=1)
            told = [getattr(one.decision, "probability", 1.0) for one in (drawn, shown)]
            remedy = "give Choice the `probabilities` of all rows, or NaN for each"
            words = f"another seed chose {drawn.action} where it chose {shown.action}, with probability 1: {remedy}"
            _must(drawn.action == shown.action or told != [1.0, 1.0], words)

    def test_it_is_restored_exactly(self) -> None:
        """The `settings` and `state` of a `Policy` are all of it: a restored policy acts the same."""
        env, policy = self.environment(), self.make()
        if not isinstance(policy, Policy):
            return
        pending = _played_with_one_pending(policy, env)
        with tempfile.TemporaryDirectory() as folder:
            policy.save(f"{folder}/policy")
            kind, settings, arrays = read_state(f"{folder}/policy")
        _must(kind == policy.kind, f"the file must be of kind {policy.kind!r}, but is of {kind!r}")
        twin = restored(type(policy), settings, arrays)
        for one in (policy, twin):
            pending.learn(one)
        words = "a restored policy acted differently: all that changes must be in _arrays()"
        _alike((_acts(one, env, start=22) for one in (policy, twin)), words)
        there = twin.hooks.state()
        same = all(np.array_equal(a, there[name], equal_nan=True) for name, a in policy.hooks.state().items())
        _must(same, "a restored policy reached a different state than the saved one")

    def test_what_it_forgets_is_in_its_state(self) -> None:
        """`forget_inputs` of a `Policy` leaves one that acts like one restored from its state."""
        env, policy = self.environment(), self.make()
        if not isinstance(policy, Policy):
            return
        pending = _played_with_one_pending(policy, env)
        policy.hooks.forget_inputs([*range(3, 9), pending.decision.number])
        gone = pending.decision.number not in policy.pending
        _must(gone, "a pending decision whose inputs are forgotten must not be pending any more")
        twin = restored(type(policy), policy.hooks.settings(), policy.hooks.state())
        words = "after forget_inputs a restored policy acted differently: what it does must depend on the state alone"
        _alike((_acts(one, env, start=22) for one in (policy, twin)), words)

    def test_a_proposal_changes_nothing_and_is_explained(self) -> None:
        env, policy = self.environment(), self.make()
        if not hasattr(policy, "propose"):
            return
        for shown in _rounds(policy, env, rounds=10, ask="propose"):
            said = shown.told.action
            _must(said == shown.action, f"propose said {said}, but decide chose {shown.action}")
            why = shown.decision.explain()
            explained = len(why.values) == len(shown.ids) and bool(str(why))
            _must(explained, "explain must show a value for each action on offer")

    def test_it_can_travel(self) -> None:
        policy, env = self.make(), self.environment()
        try:
            from joblib.externals.loky.backend.reduction import dumps

            there = pickle.loads(dumps(policy))
        except Exception as error:
            message = f"the policy can't be pickled, so it can't run on several cores: {error!r}"
            raise AssertionError(message) from error
        words = "a pickled policy made other choices than the original"
        _alike((_choices(one, env) for one in (policy, there)), words)

    def test_strict_outcomes_may_come_late_and_in_any_order(self) -> None:
        if not self.strict:
            return
        env, acts, totals = self.environment(), [], []
        for order in (1, -1):
            policy = self.make()
            for shown in list(_rounds(policy, env, rounds=6, learn=False))[::order]:
                shown.learn(policy)
            totals.append(np.array(getattr(policy, "totals", ()), dtype=float))
            acts.append(_acts(policy, env, start=7, rounds=20))
        close = np.allclose(totals[0], totals[1], rtol=1e-9, atol=1e-12)
        _must(close, "the order in which late outcomes were learnt changed the totals")
        share = float(np.equal(acts[0], acts[1]).mean())
        words = (
            "the order in which late outcomes were learnt changed more than a few of the choices after them"
        )
        _must(share >= ALIKE_IN_ANY_ORDER, f"{words}: {share:.0%} of them are equal")

    def test_strict_bad_outcomes_are_refused_without_a_trace(self) -> None:
        """NaN, Inf, text, nothing, a second outcome, a decision of another policy: `InvalidInput`, and no state changes."""
        if not self.strict:
            return
        env, policy, other = self.environment(), self.make(), self.make()
        *_, shown = _rounds(policy, env, rounds=3)
        *_, foreign = _rounds(other, env, rounds=3, learn=False)
        (fresh,) = _rounds(policy, env, start=4, rounds=1, learn=False)
        untouched = policy.copy(3)
        for reward in (math.nan, math.inf, "1") if self.learns else ():
            _refuses(partial(policy.learn, fresh.decision, reward, *fresh.costs), f"reward {reward!r}")
        for costs in ([math.nan] * env.n_constraints, ["x"]) if fresh.costs else ():
            _refuses(partial(policy.learn, fresh.decision, fresh.reward, costs), f"costs {costs!r}")
        _refuses(lambda: shown.learn(policy), "a second outcome of one decision")
        _refuses(lambda: foreign.learn(policy), "a decision of another policy")
        acts = (_acts(twin, env, start=5, rounds=20) for twin in (policy.copy(3), untouched))
        _alike(acts, "a refused outcome changed what the policy does next")


class ModelSuite:
    """Tests for every model that a policy can use. Inherit it in a test module and define `make`.

    `make()` returns a new model of one quantity, always the same one, for any number of actions and, if it takes features, vectors
    of its own `n_features`.

    >>> import tightrope as tr
    >>> class TestMine(ModelSuite):
    ...     def make(self):
    ...         return tr.Ridge(4)
    """

    @property
    def n_actions(self) -> int:
        return self.make().n_actions or 3

    def make(self) -> Model:
        raise NotImplementedError("define make(self), which returns a new model")

    def test_it_answers_for_each_row(self) -> None:
        model = self.make()
        for _ in range(2):
            rows, ids = self._offer(5)
            for method in ("means", "widths", "deviations"):
                shape = np.asarray(getattr(model, method)(rows, ids), dtype=float).shape
                _must(shape == (5,), f"{method} of 5 rows must have shape (5,), but has {shape}")
            self._teach(model, 40)
        _must(np.isfinite(model.means(rows, ids)).all(), "means must be finite once every action was seen")
        for method in ("widths", "deviations"):
            _must(np.min(getattr(model, method)(rows, ids)) >= 0.0, f"{method} must be at least 0")

    def test_it_learns(self) -> None:
        model = self.make()
        rows, ids = self._offer(5)
        before = np.asarray(model.deviations(rows, ids))
        self._teach(model, 600, outcome=0.75)
        gap = np.abs(np.asarray(model.means(rows, ids)) - 0.75).max()
        _must(gap < 0.4, f"after 600 outcomes of 0.75 a mean must be near it, but one is {gap:.2f} away")
        after = np.asarray(model.deviations(rows, ids))
        _must((after <= before).all() and after.sum() < before.sum(), "learning must make it more certain")

    def test_its_state_is_in_its_arrays(self) -> None:
        """A model made from `settings()` that is given `arrays()` is the same model, and a copy is independent."""
        model = self.make()
        self._teach(model, 25)
        twin = _restored(model)
        copy = model.copy()
        rows, ids = self._offer(6)
        for other, what in ((twin, "a model restored from settings() and arrays()"), (copy, "a copy")):
            _alike([other.means(rows, ids), model.means(rows, ids)], f"{what} must have the same means")
            _alike([other.widths(rows, ids), model.widths(rows, ids)], f"{what} must have the same widths")
        self._teach(copy, 5)
        _alike([twin.means(rows, ids), model.means(rows, ids)], "a copy must not share state")

    def test_it_grows(self) -> None:
        """New actions leave predictions for the others unchanged, to the bit, and can be predicted, learnt and restored."""
        model, J = self.make(), self.n_actions
        self._teach(model, 60)
        rows, ids = self._offer(9)
        before = np.array([model.means(rows, ids), model.deviations(rows, ids)])
        model.grow(J + 2)
        after = np.array([model.means(rows, ids), model.deviations(rows, ids)])
        _alike([before, after], "grow must not change predictions for the existing actions")
        if model.n_actions is None:
            return
        row, twin = None if rows is None else rows[:1], _restored(model)
        for one in (model, twin):
            for i in range(20):
                one.learn(_row(row, 0), float(i % 2), J + 1)
        said = [one.means(row, [J + 1]) for one in (model, twin)]
        _must(np.isfinite(said[0]).all(), "a new action must have a mean once it was learnt")
        _alike(said, "a model that has grown must be restored from settings() and arrays()")

    def test_it_forgets_the_rows_of_a_decision(self) -> None:
        """After `forget_inputs` no array holds them, and a model restored from the arrays answers the same."""
        model, n = self.make(), 40
        rows, ids = self._offer(n)
        for i in range(n):
            hooks.note_decision(model, 100 + i)
            model.learn(_row(rows, i), float((i * 7) % 5 < 2), int(ids[i]))
        hooks.forget_inputs(model, [103, 117])
        twin = _restored(model)
        for name, array in model.arrays().items():
            left = rows is not None and any(rows[i].tobytes() in array.tobytes() for i in (3, 17))
            _must(not left, f"forget_inputs must drop what is kept of a decision, but {name!r} still has it")
        offer = self._offer(6)
        _alike([twin.means(*offer), model.means(*offer)], "what forget_inputs does must be in arrays()")

    def test_settings_are_plain_data(self) -> None:
        """`settings()` survives JSON, which is what saved policies and journals are made of."""
        made = self.make().settings()
        _must(json.loads(json.dumps(made)) == made, f"settings() must be plain data, but is {made!r}")

    def test_it_can_learn_several_quantities(self) -> None:
        model = hooks.with_outputs(self.make(), 2)
        rows, ids = self._offer(4)
        for i, action in enumerate(ids.tolist()):
            model.learn(_row(rows, i), np.array([0.25, 0.5]), action)
        shape = np.asarray(model.means(rows, ids)).shape
        _must(shape == (4, 2), "means of 4 rows and 2 outputs must have shape (4, 2)")

    def test_a_policy_takes_it(self) -> None:
        policy = PessimisticOptimistic(reward=self.make(), constraints=1, slater=0.5, horizon=100)
        rows, ids = self._offer(self.n_actions)
        costs = np.full((len(ids), 1), -0.1)
        for t in range(30):
            policy.learn(policy.decide(rows, costs), float(t % 2))
        twin = restored(PessimisticOptimistic, policy.hooks.settings(), policy.hooks.state())
        acts = [[one.decide(rows, costs).action for _ in range(5)] for one in (policy, twin)]
        _alike(acts, "a policy that was saved with this model acted differently when restored")

    def _offer(self, n: int) -> tuple[Any, NDArray[np.int64]]:
        model, rows = self.make(), None
        if model.n_features:
            rows = np.random.default_rng(n).uniform(0.1, 1.0, size=(n, model.n_features))
            rows = np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        return rows, np.arange(n) % self.n_actions

    def _teach(self, model: Model, n: int, outcome: float | None = None) -> None:
        rows, ids = self._offer(n)
        for i in range(n):
            y = float((i * 7) % 5 < 2) if outcome is None else outcome
            model.learn(_row(rows, i), y, int(ids[i]))


class EnvironmentSuite:
    """Tests for every environment: its draws have the stated means, and its program has a verified optimum.

    Inherit it in a test module and define `make`, which returns the same `Tabular` every time. Statistical tests use a fixed seed
    and limits of five standard errors.

    >>> import tightrope as tr
    >>> class TestTwoArms(EnvironmentSuite):
    ...     def make(self):
    ...         return tr.environments.bandit(threshold=0.1)
    """

    def make(self) -> Tabular:
        raise NotImplementedError("define make(self), which returns a Tabular")

    def test_it_is_a_table(self) -> None:
        env, again = self.make(), self.make()
        _must(isinstance(env, Tabular), f"make() must return a Tabular, but returned {env!r}")
        for name in ("weights", "rewards", "costs", "available", "features", "cost_features"):
            one, other = getattr(env, name), getattr(again, name)
            same = one is other is None or np.array_equal(one, other)
            _must(same, f"{name} must be the same every time the environment is made, but they differ")

    def test_feature_norms_are_at_most_one(self) -> None:
        """‖φ‖ ≤ 1 and ‖ψ‖ ≤ 1, as every linear policy requires."""
        env = self.make()
        for name in ("features", "cost_features"):
            rows = getattr(env, name)
            if rows is not None:
                longest = float(np.sqrt((rows**2).sum(axis=-1).max()))
                words = f"{name} must have norms of at most 1, but the longest is {longest:.6g}: divide by it"
                _must(longest <= 1.0 + 1e-9, words)

    def test_mean_rewards_lie_in_the_unit_interval(self) -> None:
        env = self.make()
        low, high = (float(end(env.rewards[env.available])) for end in (np.min, np.max))
        words = f"mean rewards must lie in [0, 1], but go from {low:.6g} to {high:.6g}"
        _must(low >= 0.0 and high <= 1.0, words)

    def test_some_policy_meets_the_constraints_with_room(self) -> None:
        """Slater's constant is positive: without it no algorithm can promise anything."""
        env = self.make()
        delta = slater(env) if env.n_constraints else 1.0
        _must(
            delta > 0.0, f"Slater's constant must be positive, but is {delta:.6g}: no policy meets all costs"
        )

    def test_the_optimum_is_verified(self) -> None:
        try:
            proof = solve(self.make()).certificate
        except InfeasibleProblem as error:
            raise AssertionError(f"no policy meets the constraints: {error}") from error
        _must(proof.verified, f"the optimum must be verified, but its gap is {proof.gap}")

    def test_draws_have_the_means_that_it_tells(self) -> None:
        env, T, n = self.make(), 400, 50
        run = _simulated(Uniform(env.n_actions), env, T, n, seed=1)
        _near(run.observed_reward[:, -1] - run.reward[:, -1], "the drawn rewards", "their means")
        noise = run.cost[:, -1] - run.mean_cost[:, -1]
        for k in range(env.n_constraints):
            _near(noise[:, k], f"the drawn costs of constraint {k}", "their means")
        low, high = env.cost_range.T
        inside = (run.cost[:, -1] >= low * T - 1e-6) & (run.cost[:, -1] <= high * T + 1e-6)
        _must(inside.all(), "drawn costs must lie in cost_range, but their sum leaves it")

    def test_the_optimum_can_be_played(self) -> None:
        env, T, n = self.make(), 400, 50
        found = solve(env, baseline="fluid")
        run = _simulated(Oracle(found.policy), env, T, n, seed=2)
        _near(run.reward[:, -1] - T * found.value, "what the optimal mixture earned", "the optimum")
        for k in range(env.n_constraints):
            over = run.mean_cost[:, -1, k]
            kept = float(over.mean()) <= 5.0 * (over.std(ddof=1) / math.sqrt(n) + 1e-9 * T) + 1e-6
            _must(kept, f"the optimal mixture exceeded constraint {k} by {over.mean() / T:.3g} per round")

    def test_contexts_come_as_often_as_it_tells(self) -> None:
        env, T, n = self.make(), 200, 20
        seen = _Contexts(env)
        _simulated(seen, env, T, n, seed=3)
        share, weight = seen.counts / (T * n), env.weights
        excess = np.abs(share - weight) - 5.0 * np.sqrt(weight * (1.0 - weight) / (T * n))
        i = int(np.argmax(excess))
        what = f"context {i} came in a share of {share[i]:.4f}, but its weight is {weight[i]:.4f}"
        _must(excess[i] <= 1e-12, what)


def check_policy(
    make: Callable[[], Player], env: Tabular | None = None, *, strict: bool = False
) -> list[str]:
    """What your own policy fails to do that every policy must; empty if it conforms.

    Parameters
    ----------
    make : callable
        Returns a new policy, always the same one.
    env : Tabular, optional
        An environment that fits it; by default a small linear one with the actions, features and costs that the policy states, or
        else 4 actions, 3 features for each and a cost that is seen before acting (`small_environment`).
    strict : bool
        Also check the promises of the package's own policies about late and bad outcomes.

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
    if env is not None:
        suite.environment = lambda: env  # type: ignore[method-assign]
    suite.strict = strict  # type: ignore[misc]
    return _faults(suite, make, "test_it_has_the_three_methods")


def small_environment(policy: object) -> Tabular:
    """A small random instance of the size that a policy states."""
    traits = traits_of(policy)
    asked = traits.setting() or Setting(n_actions=traits.n_actions)
    models: dict[str, Any] = {"features": asked.reward, "cost_features": asked.cost}
    told = [asked.n_actions, *(one.n_actions for one in models.values() if one is not None)]
    J, K = next((one for one in told if one is not None), 4), asked.n_constraints or 1
    reading = {name: one for name, one in models.items() if one is not None and one.n_features}
    changes: dict[str, Any] = {}
    for name, model in reading.items():
        d = model.n_features
        rows = _instance(J, max(2, d), K).features
        assert rows is not None
        # One x for all actions if the model tells them apart.
        changes[name] = rows[:, 0, :d] if model.n_actions is not None else rows[..., :d]
    if asked.seen_before is not None and len(asked.seen_before) == K:
        changes["costs_seen"] = ["before" if known else "after" for known in asked.seen_before]
    if not asked.takes_features:
        changes |= {"features": None, "cost_features": None}
    return changed(_instance(J, 3, K), **changes)


def _instance(J: int, d: int, K: int) -> Tabular:
    for slack in (0.2, 0.1, 0.05, 0.02):
        with suppress(InvalidInput):
            return synthetic(contexts=5, actions=J, features=d, constraints=K, slater=slack)
    return synthetic(contexts=5, actions=J, features=d, constraints=K, slater=0.01)


def check_model(make: Callable[[], Model]) -> list[str]:
    """What your own model fails to do that every model must; empty if it conforms.

    >>> import tightrope as tr
    >>> check_model(lambda: tr.ArmMeans(3))
    []
    """
    return _faults(ModelSuite(), make, "test_it_answers_for_each_row")


def check_environment(make: Callable[[], Tabular]) -> list[str]:
    """What your own environment fails to do that every environment must; empty if it conforms.

    >>> import tightrope as tr
    >>> long = tr.environments.Tabular([1.0], [[[2.0], [1.0]]], [[0.2, 0.1]], name="long")
    >>> check_environment(lambda: long)
    ['feature norms are at most one: features must have norms of at most 1, but the longest is 2: divide by it']
    """
    return _faults(EnvironmentSuite(), make, "test_it_is_a_table")


# --- how the suites run ---


@dataclass(frozen=True, eq=False)
class _Round:
    """One round that a suite has run: the offer, a copy of it taken beforehand, the choice, and its outcome."""

    given: dict[str, Array]
    before: dict[str, Array]
    ids: NDArray[np.int64]
    told: Any
    decision: Any
    action: int
    reward: float
    costs: tuple[Any, ...]

    def learn(self, policy: Player) -> None:
        policy.learn(self.decision, self.reward, *self.costs)


def _rounds(
    policy: Player, env: Tabular, *, start: int = 1, rounds: int = ROUNDS, learn: bool = True, ask: str = ""
) -> Iterator[_Round]:
    """Rounds as the engine runs them, with outcomes from their own generator; the method `ask` is called before each `decide`."""
    traits, before = traits_of(policy), env.seen_before
    constrained = traits.n_constraints != 0 and env.n_constraints > 0
    some_after = constrained and not before.all()
    reward_model, cost_model, problem = traits.reward_model(), traits.cost_model(), env.problem()
    for t in range(start, start + rounds):
        draw = np.random.default_rng((11, t))
        c = int(draw.choice(env.n_contexts, p=env.weights))
        ids = np.flatnonzero(env.available[c])
        given: dict[str, Array] = {}
        features = shown_rows(problem, "reward", reward_model, offered_rows(env.features, c, ids), ids)
        cost_features = shown_rows(problem, "cost", cost_model, offered_rows(env.cost_features, c, ids), ids)
        if features is not None:
            given["features"] = features
        if constrained and before.any():
            given["costs"] = env.costs[c, ids][:, before].copy()
        if some_after and cost_features is not None:
            given["cost_features" if before.any() else "costs"] = cost_features
        shown_before = {name: value.copy() for name, value in given.items()}
        other: dict[str, Any] = {} if env.available.all() else {"actions": ids.tolist()}
        if traits.sees_context:
            other["context"] = c
        told = getattr(policy, ask)(**given, **other) if ask else None
        decision = policy.decide(**given, **other)
        a = _action(decision, ids)
        reward = float(draw.random() < env.rewards[c, a])
        costs = (env.costs[c, a, ~before],) if some_after else ()
        shown = _Round(given, shown_before, ids, told, decision, a, reward, costs)
        if learn:
            shown.learn(policy)
        yield shown


class _Contexts:
    """Chooses at random and counts the contexts; its copies count together."""

    hooks = Traits(sees_context=True, n_constraints=0)

    def __init__(self, env: Tabular) -> None:
        self.policy = Uniform(env.n_actions)
        self.counts = np.zeros(env.n_contexts)

    def decide(self, *, context: int, actions: Any = None, **_: Any) -> Any:
        self.counts[context] += 1
        return self.policy.decide(actions=actions)

    def learn(self, decision: Any, reward: float) -> None:
        self.policy.learn(decision, reward)

    def copy(self, seed: int | None = None) -> _Contexts:
        twin = _Contexts.__new__(_Contexts)
        twin.policy, twin.counts = self.policy.copy(seed), self.counts
        return twin


_simulated = partial(simulate, workers=1, record=1, optimum=0.0)


def _choices(policy: Player, env: Tabular) -> NDArray[np.int16]:
    run = _simulated(policy, env, ROUNDS, 2, seed=5, keep_choices=True, compile=False)
    assert run.choices is not None
    return run.choices


def _action(decision: Any, ids: NDArray[np.int64]) -> int:
    action = getattr(decision, "action", decision)
    whole = isinstance(action, (int, np.integer)) and not isinstance(action, bool)
    what = "decide must return an action id, or an object with one as .action"
    _must(whole, f"{what}, but returned {decision!r}")
    _must(int(action) in ids, f"decide chose action {action}, but only {ids.tolist()} were on offer")
    return int(action)


def _acts(policy: Player, env: Tabular, **options: Any) -> list[int]:
    return [shown.action for shown in _rounds(policy, env, **options)]


def _played_with_one_pending(policy: Player, env: Tabular) -> _Round:
    """Twenty rounds, and one more without its outcome."""
    _acts(policy, env, rounds=20)
    (pending,) = _rounds(policy, env, start=21, rounds=1, learn=False)
    return pending


def _must(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise AssertionError(message)


def _row(rows: Any, i: int) -> Any:
    return None if rows is None else rows[i]


def _restored(model: Model) -> Model:
    twin = model_from_settings(model.settings())
    take_arrays(twin, model.arrays())
    return twin


def _alike(both: Iterable[Any], message: str) -> None:
    one, other = both
    _must(np.array_equal(one, other), message)


def _refuses(call: Callable[[], None], what: str) -> None:
    try:
        call()
    except InvalidInput:
        return
    except Exception as error:
        raise AssertionError(f"{what} must be refused with InvalidInput, but raised {error!r}") from error
    raise AssertionError(f"{what} must be refused with InvalidInput, but was accepted")


def _near(differences: Array, what: str, other: str) -> None:
    mean, error = float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences))
    by = f"{mean:.4g} in sum over a run, more than five standard errors ({error:.2g})"
    _must(abs(mean) <= 5.0 * error + 1e-6, f"{what} differ from {other} by {by}")


def _faults(suite: Any, make: Callable[[], Any], first: str) -> list[str]:
    """The messages of the tests that fail, each once; if the first test fails the others make no sense."""
    suite.make = make
    faults: dict[str, str] = {}
    names = [name for name in vars(type(suite)) if name.startswith("test_")]
    for name in [first, *(one for one in names if one != first)]:
        words = name.removeprefix("test_").removeprefix("strict_").replace("_", " ")
        try:
            getattr(suite, name)()
        except AssertionError as error:
            faults.setdefault(str(error), words)
        except Exception as error:  # your own policy may raise anything: that is a fault to report too
            faults.setdefault(f"{type(error).__name__}: {error}", words)
        if name == first and faults:
            break
    return [f"{words}: {message}" for message, words in faults.items()]
