"""The conformance suites accept what conforms, all of the package's own among it, and refuse what does not, saying why."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import tightrope as tr
from tightrope.policies.hooks import Traits
from tightrope.problem import Setting
from tightrope.testing import (
    EnvironmentSuite,
    PolicySuite,
    check_environment,
    check_policy,
    small_environment,
)
from tightrope_lab.league import ROSTER, Unfit
from tightrope_lab.league.scenarios import SCENARIOS, scenario

HORIZON = 150
PREFERRED = (
    "safe-dosing",
    "bandit-binding",
    "conservative-baseline",
    "ads-budget",
    "sleeping-fractions",
    "tight-slater",
)
BUILT = {name: scenario(name) for name in PREFERRED}


def fitting(entry, sleeping=False):
    """A scenario of the entry's setting."""
    order = reversed(PREFERRED) if sleeping else PREFERRED
    for name in order:
        try:
            policy = entry.make(BUILT[name], HORIZON)
        except Unfit:
            continue
        if not BUILT[name].env.problem().outside(policy):
            return BUILT[name]
    raise AssertionError(f"no scenario fits {entry.name}")


class TestEveryPolicyOfThePackage(PolicySuite):
    strict = True

    @pytest.fixture(autouse=True, params=ROSTER)
    def case(self, request):
        self.entry = ROSTER[request.param]
        self.ground = fitting(self.entry)

    @property
    def learns(self):
        return self.entry.name not in ("uniform", "round-robin", "fixed-mix", "oracle")

    def make(self):
        return self.entry.make(self.ground, HORIZON)

    def environment(self):
        return self.ground.env


@pytest.mark.parametrize(
    "name", ["lfg", "linucb", "lints", "greedy", "uniform", "round-robin", "fixed-mix", "oracle"]
)
def test_policies_with_sleeping_actions(name):
    ground = BUILT["sleeping-fractions"]
    assert check_policy(lambda: ROSTER[name].make(ground, HORIZON), ground.env) == []


@pytest.mark.parametrize("name", ["lints", "greedy", "linucb", "pessimistic-optimistic"])
def test_policies_with_one_vector_for_all_actions(name):
    ground = scenario("fair-jobs")
    assert ground.env.disjoint
    assert check_policy(lambda: ROSTER[name].make(ground, HORIZON), ground.env, strict=True) == []


def test_every_registered_policy_is_in_the_league():
    known = {name for name, cls in tr.policies.POLICIES.items() if cls.__module__.startswith("tightrope")}
    assert known <= set(ROSTER)


ENVIRONMENTS = {
    **{
        name: (lambda name=name: scenario(name).env)
        for name in SCENARIOS
        if name not in ("switching-best", "slow-drift", "seasons", "tightened-limit")
    },
    "switching-best, first half": lambda: scenario("switching-best").env.phases[0],
    "switching-best, second half": lambda: scenario("switching-best").env.phases[1],
    "bandit, costs before": lambda: tr.environments.bandit(costs_seen="before"),
    "synthetic": lambda: tr.environments.synthetic(contexts=9, constraints=3, costs_seen="after"),
    "hospital, any": lambda: tr.environments.hospital("any", stay=True, costs_seen="after"),
}


class TestEveryEnvironment(EnvironmentSuite):
    @pytest.fixture(autouse=True, params=ENVIRONMENTS)
    def case(self, request):
        self.name = request.param

    def make(self):
        return ENVIRONMENTS[self.name]()


# Policies of one's own


class Good:
    """A small policy that conforms: what the broken ones below are made from."""

    def __init__(self, n_actions=4, seed=0):
        self.n, self.sums = np.ones(n_actions), np.ones(n_actions)
        self.random = np.random.default_rng(seed)

    def decide(self, features=None, costs=None, actions=None):
        ids = np.arange(len(self.n)) if actions is None else np.array(actions)
        return int(ids[np.argmax((self.sums / self.n)[ids] + 0.1 * self.random.random(len(ids)))])

    def learn(self, action, reward, costs=None):
        self.n[action] += 1
        self.sums[action] += reward

    def copy(self, seed):
        twin = type(self)(len(self.n), seed)
        twin.n, twin.sums = self.n.copy(), self.sums.copy()
        return twin


class TestMyOwn(PolicySuite):
    def make(self):
        return Good()


class NoLearn(Good):
    learn = None


class OffOffer(Good):
    def decide(self, **offer):
        return 17


class NotAnAction(Good):
    def decide(self, **offer):
        return 1.5


class Unseeded(Good):
    def decide(self, **offer):
        return int(np.random.default_rng().integers(4))


class SharesState(Good):
    def copy(self, seed):
        twin = super().copy(seed)
        twin.n, twin.sums = self.n, self.sums
        return twin


class ForgetsItsState(Good):
    """Half of the state stays behind, at random."""

    def copy(self, seed):
        twin = super().copy(seed)
        twin.random = self.random
        return twin


class WritesIntoItsInput(Good):
    def decide(self, features=None, costs=None, actions=None):
        features *= 0.5
        return super().decide()


class CannotTravel(Good):
    def __init__(self, n_actions=4, seed=0):
        super().__init__(n_actions, seed)
        self.lock = threading.Lock()


class OddMixture(Good):
    def propose(self, **offer):
        return SimpleNamespace(action=None, probabilities=np.full(4, 0.5))


class ImpossibleChoice(Good):
    def propose(self, **offer):
        return SimpleNamespace(action=None, probabilities=np.eye(4)[0])


class WantsMore(Good):
    hooks = Traits(setting=lambda: Setting(n_contexts=9))


class Raises(Good):
    def learn(self, action, reward, costs=None):
        raise RuntimeError("out of ideas")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (NoLearn, "must have a method learn, but has none"),
        (OffOffer, "decide chose action 17, but only [0, 1, 2, 3] were on offer"),
        (NotAnAction, "decide must return an action id, or an object with one as .action, but returned 1.5"),
        (Unseeded, "two simulations with the same seed made different choices"),
        (SharesState, "copy(seed) must return an independent policy that shares no state"),
        (ForgetsItsState, "copy(seed)"),
        (WritesIntoItsInput, "changed the argument features of decide in place"),
        (CannotTravel, "can't be pickled, so it can't run on several cores"),
        (OddMixture, "propose(...).probabilities must be 4 that sum to 1"),
        (ImpossibleChoice, "to which propose gave probability 0"),
        (
            WantsMore,
            "setting must admit an environment of its own kind, but the problem says ['it has 5 contexts",
        ),
        (Raises, "RuntimeError: out of ideas"),
    ],
)
def test_what_does_not_conform_is_refused_with_the_reason(broken, says):
    faults = check_policy(broken)
    assert says in "\n".join(faults)
    assert all(": " in fault for fault in faults)


def test_strict_asks_for_more():
    assert check_policy(Good) == []
    told = "\n".join(check_policy(Good, strict=True))
    assert "reward nan must be refused with InvalidInput, but was accepted" in told


def test_an_impossible_probability_is_told():
    class Boastful(Good):
        def decide(self, **offer):
            action = super().decide(**offer)
            return type("Sure", (), {"action": action, "probability": 2.0})()

        def learn(self, decision, reward, costs=None):
            super().learn(decision.action, reward)

    assert "decision.probability must lie in (0, 1]" in "\n".join(check_policy(Boastful))


class Drawn(tr.policies.Policy):
    """Draws, and says nothing of it."""

    def __init__(self, n_actions=3, *, seed=0):
        self._n_actions, self.seed = n_actions, seed

    def _choose(self, offer):
        J = len(offer.ids)
        return tr.policies.Choice(int(self._uniform() * J), np.zeros(J), np.zeros(J))


class Misplaced(Drawn):
    def _choose(self, offer):
        return super()._choose(offer)._replace(row=3)


class Careless(Drawn):
    def __init__(self, n_actions=3, *, heat=1.0, seed=0):
        super().__init__(n_actions, seed=seed)
        self.temperature = heat


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (Drawn, "with probability 1: give Choice the `probabilities` of all rows, or NaN for each"),
        (Misplaced, "Misplaced._choose must give one of 3 rows, from 0, with rewards, values and maybe"),
        (
            Careless,
            "the parameter 'heat' of Careless's constructor must be kept in an attribute `heat` or `_heat`",
        ),
    ],
)
def test_what_a_policy_of_ones_own_has_forgotten_is_told(broken, says):
    assert says in "\n".join(check_policy(broken))


# Environments of one's own


def test_environments_that_do_not_conform():
    Tabular = tr.environments.Tabular
    hopeless = Tabular([1.0], rewards=[[0.5, 0.6]], costs=[[[0.2], [0.3]]])
    told = "\n".join(check_environment(lambda: hopeless))
    assert "Slater's constant must be positive, but is -0.2" in told
    assert "no policy meets the constraints" in told
    generator = np.random.default_rng(0)
    told = "\n".join(check_environment(lambda: Tabular([1.0], rewards=generator.random((1, 2)))))
    assert "rewards must be the same every time" in told
    high = Tabular([1.0], rewards=[[0.5, 1.6]], reward_noise="none")
    assert "mean rewards must lie in [0, 1], but go from 0.5 to 1.6" in "\n".join(
        check_environment(lambda: high)
    )
    assert "must return a Tabular" in "\n".join(check_environment(lambda: 3))


def test_suites_without_make_say_so():
    with pytest.raises(NotImplementedError, match="define make"):
        PolicySuite().make()
    with pytest.raises(NotImplementedError, match="define make"):
        EnvironmentSuite().make()


class _Nth:
    """A policy that conforms, of a stated number of actions."""

    def __init__(self, n_actions):
        self.hooks = Traits(n_actions=n_actions, n_constraints=0)

    def decide(self, *, actions=None, **offer):
        return self.hooks.n_actions - 1

    def learn(self, decision, reward, costs=None):
        pass

    def copy(self, seed=None):
        return _Nth(self.hooks.n_actions)


@pytest.mark.parametrize("J", [1, 2, 7])
def test_a_policy_is_checked_with_as_many_actions_as_it_says(J):
    assert check_policy(lambda: _Nth(J)) == []


def test_a_policy_is_checked_where_its_models_and_costs_fit():
    rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("h", 0.5, seen="after")], actions=["a", "b"])
    for make in (
        lambda: tr.ShadowPrice(constraints=2, reward=tr.DisjointRidge(3, 2)),
        lambda: tr.ShadowPrice(rules, reward=tr.DisjointRidge(2, 5), cost=tr.ArmMeans(2)),
    ):
        env = small_environment(make())
        assert env.problem().outside(make()) == []
        assert check_policy(make, strict=True) == []
    [fault] = check_policy(lambda: tr.policies.OPB(4, safe_cost=-0.1, horizon=100))
    assert "define `environment()` to return one that fits, or pass it to check_policy as `env`" in fault


def test_a_small_environment_has_the_size_of_the_policy():
    policy = tr.ShadowPrice(constraints=1, reward=tr.DisjointRidge(2, 5), cost=tr.ArmMeans(2))
    size = "contexts=5, actions=2, features=5, constraints=1"
    assert repr(small_environment(policy)) == f"Tabular('synthetic', {size}, costs fixed, seen after)"
