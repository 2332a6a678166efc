"""The fast path of the pessimistic-optimistic policy: the same decisions, whatever form the input has."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from policy_tools import unwatched
from strategies import unit_rows
from tightrope import kernels


def array_forms(phi):
    frozen = phi.copy()
    frozen.flags.writeable = False
    wide = np.zeros((len(phi), 2 * phi.shape[1]))
    wide[:, ::2] = phi
    shifted = np.frombuffer(b"\0" * 4 + phi.tobytes(), dtype=np.uint8)[4:].view(np.float64).reshape(phi.shape)
    return {
        "array": phi,
        "read-only": frozen,
        "column by column": np.asfortranarray(phi),
        "every other column": wide[:, ::2],
        "not aligned": shifted,
        "list": phi.tolist(),
        "single precision": phi.astype(np.float32),
        "other byte order": phi.astype(">f8"),
        "subclass": phi.view(type("Mine", (np.ndarray,), {})),
    }


FORMS = list(array_forms(np.eye(2)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("K", [0, 2])
@pytest.mark.parametrize("disjoint", [False, True])
def test_every_form_of_input_gives_the_same_decisions(form, K, disjoint):
    rng = np.random.default_rng(0)
    J, p = 5, 4
    model = tr.DisjointRidge(J, p, bonus=0.2) if disjoint else tr.Ridge(p, bonus=0.2)
    careful, other = (
        tr.PessimisticOptimistic(reward=model, constraints=K, slater=0.3, horizon=100) for _ in range(2)
    )
    other.learn(other.decide(np.zeros((J, p)), np.zeros((J, K))), 0.0)
    careful.learn(careful.decide(np.zeros((J, p)), np.zeros((J, K))), 0.0)
    compiled = len(kernels.decide_ridge.signatures)
    for _ in range(20):
        # Numbers that single precision can hold.
        phi = np.float32(unit_rows(rng, J, p) * 0.9).astype(float)
        W = np.float32(rng.uniform(-1, 1, size=(J, K))).astype(float)
        expected = careful.decide(phi.tolist(), W.tolist() if K else None)
        given_costs = array_forms(W)[form] if K else None
        found = other.decide(array_forms(phi)[form], given_costs)
        assert found.action == expected.action
        same(found.trace, expected.trace)
        careful.learn(expected, 0.5)
        other.learn(found, 0.5)
    same(careful._reward.flat, other._reward.flat)
    assert len(kernels.decide_ridge.signatures) == compiled


def test_one_row_for_all_in_the_fast_path():
    rng = np.random.default_rng(0)
    a, b = (
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(4, 3), constraints=1, slater=0.3, horizon=50)
        for _ in range(2)
    )
    for _ in range(20):
        x, W = unit_rows(rng, 1, 3)[0], rng.uniform(-1, 1, size=(4, 1))
        one, two = a.decide(x, W), b.decide(np.tile(x, (4, 1)), W)
        assert one.action == two.action
        same(one.trace, two.trace)
        a.learn(one, 0.7)
        b.learn(two, 0.7)
    same(a._reward.flat, b._reward.flat)


def test_the_fast_path_keeps_its_own_features():
    policy = tr.policies.LinUCB(tr.Ridge(3), horizon=50)
    phi = np.eye(3)
    policy.decide(phi)
    decision = policy.decide(phi)
    phi[:] = 0.0
    policy.learn(decision, 1.0)
    assert policy.hooks.reward_model().sigma[decision.action, decision.action] == 2.0


def test_plain_input_takes_the_fast_path(monkeypatch):
    phi, W = np.eye(3), np.zeros((3, 1))
    frozen = phi.copy()
    frozen.flags.writeable = False
    ways = [
        (tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=1, slater=0.5), (phi, frozen), W),
        (tr.policies.LinUCB(tr.Ridge(3)), (phi, frozen), None),
        (
            tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 3), constraints=1, slater=0.5),
            (phi[0], phi),
            W,
        ),
        (tr.policies.LinUCB(tr.DisjointRidge(3, 3)), (phi[0], phi), None),
    ]
    for policy, offers, costs in ways:
        policy.learn(policy.decide(offers[0], costs), 1.0)
        with monkeypatch.context() as careful_path_closed:
            careful_path_closed.setattr(policy._input, "offer", None)
            careful_path_closed.setattr(type(policy.hooks.pending), "number_of", None)
            for offer in offers:
                policy.learn(policy.decide(offer, costs), 1.0)
        assert policy.rounds == 3


@unwatched
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kinds", ["shared", "disjoint", "mixed"])
def test_every_form_of_input_gives_the_same_decisions_with_costs_seen_after(form, kinds):
    rng = np.random.default_rng(0)
    J, p, q, K = 5, 4, 3, 2
    reward = tr.Ridge(p, bonus=0.2) if kinds == "shared" else tr.DisjointRidge(J, p, bonus=0.2)
    cost = tr.DisjointRidge(J, q, bonus=0.2) if kinds == "disjoint" else tr.Ridge(q, bonus=0.2)
    careful, other = (
        tr.PessimisticOptimistic(reward=reward, cost=cost, constraints=K, slater=0.3, horizon=700)
        for _ in range(2)
    )
    for t in range(600 if form == "array" else 20):
        phi, psi = (np.float32(unit_rows(rng, J, n) * 0.9).astype(float) for n in (p, q))
        w = np.float32(rng.uniform(-1, 1, size=K)).astype(float)
        expected = careful.decide(phi.tolist(), psi.tolist())
        found = other.decide(array_forms(phi)[form], array_forms(psi)[form])
        assert found.action == expected.action
        same(found.trace, expected.trace)
        careful.learn(expected, 0.5, w.tolist())
        other.learn(found, 0.5, array_forms(w[None])[form][0])
        if t % 7 == 0:
            late, early = careful.decide(phi.tolist(), psi.tolist()), other.decide(phi, cost_features=psi)
            for policy, decision in ((careful, late), (other, early)):
                policy.learn(decision, costs=w)
                policy.learn(decision, 0.25)
    for name, array in careful.hooks.state().items():
        same(array, other.hooks.state()[name])


def test_the_fast_path_with_costs_seen_after(monkeypatch):
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(3, 2),
        cost=tr.DisjointRidge(3, 2),
        constraints=1,
        slater=0.5,
        cost_range=(0.0, 0.5),
    )
    x, w = np.array([0.6, 0.6]), np.array([0.25])
    policy.learn(policy.decide(x, x), 1.0, w)
    decision = policy.decide(x, x)
    before = policy.hooks.state()
    for bad in (np.array([0.75]), np.array([np.nan]), np.array([0.1, 0.1]), np.array([[0.1]])):
        with pytest.raises(tr.InvalidInput, match="costs"):
            policy.learn(decision, 1.0, bad)
    with pytest.raises(tr.InvalidInput, match="features"):
        policy.decide(x, np.array([0.6, np.inf]))
    for name, array in policy.hooks.state().items():
        same(array, before[name])
    monkeypatch.setattr(policy._input, "offer", None)
    monkeypatch.setattr(type(policy.hooks.pending), "number_of", None)
    policy.learn(decision, 1.0, w)
    for offer in ((x, x), (x, np.tile(x, (3, 1))), (np.tile(x, (3, 1)), x)):
        policy.learn(policy.decide(*offer), 1.0, w)
    assert policy.rounds == 5
    assert policy.totals[0] == 5 * 0.25
    assert policy.pending == ()


def test_the_fast_path_by_rules():
    rules = tr.Rules(
        [tr.Capacity("a", 0.5), tr.Budget("hours", 0.4), tr.Share("b", at_least=0.2, among="old")],
        actions=["a", "b", "c"],
    )
    rng = np.random.default_rng(0)
    careful, short = (
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 4), constraints=rules, slater=0.1, horizon=100)
        for _ in range(2)
    )
    for t in range(30):
        x, hours = unit_rows(rng, 1, 4)[0], rng.uniform(0, 1, size=3)
        group = ("old", "poor")[t % 2]
        one = careful.decide(x.tolist(), usage={"hours": hours.tolist()}, group=group)
        # What can be read only once is read only once.
        two = short.decide(x, usage={"hours": hours}, group=(name for name in [group]) if t % 3 else group)
        assert one.action == two.action
        same(one.trace, two.trace)
        if t % 2:
            careful.learn(one, 0.5)
            short.learn(two, 0.5)
        else:
            W = rules.costs({"hours": hours}, group)
            for policy, costs in ((careful, W.tolist()), (short, W)):
                policy.learn(policy.decide(x, costs, group=(name for name in [group])), 0.25)
    with pytest.raises(tr.InvalidInput, match="hours"):
        short.decide(x, group="old")
    with pytest.raises(tr.InvalidInput, match="not both"):
        short.decide(x, np.zeros((3, 3)), usage={"hours": hours}, group="old")
    assert [
        g if g is None or isinstance(g, str) else g[0] for g in short.hooks.settings()["pending_groups"]
    ] == careful.hooks.settings()["pending_groups"]
    for name, array in careful.hooks.state().items():
        same(array, short.hooks.state()[name])


@pytest.mark.filterwarnings("ignore:.*outside .0, 1.:tightrope.errors.PolicyWarning")
def test_a_list_of_features_and_any_number_as_a_reward_take_the_fast_path(monkeypatch):
    x, w = np.array([0.6, 0.6]), np.array([0.25])
    before = tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 2), constraints=1, slater=0.5)
    after = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(3, 2), cost=tr.DisjointRidge(3, 2), constraints=1, slater=0.5
    )
    for policy, second, outcome in ((before, np.zeros((3, 1)), ()), (after, x, (w,))):
        twin = policy.copy()
        for one in (policy, twin):
            one.learn(one.decide(x, second), 1.0, *outcome)
        monkeypatch.setattr(policy._input, "offer", None)
        for reward in (1, 0, np.float64(0.5), np.float64(-2.0), 2**53):
            twin.learn(twin.decide(x, second), float(reward), *outcome)
            with monkeypatch.context() as careful_path_closed:
                careful_path_closed.setattr(type(policy.hooks.pending), "number_of", None)
                policy.learn(policy.decide(x.tolist(), second), reward, *outcome)
        decision = policy.decide(x.tolist(), second)
        for bad in ("1", np.float64(np.nan), 10**400, -(10**400), 1j):
            with pytest.raises(tr.InvalidInput, match="reward"):
                policy.learn(decision, bad, *outcome)
        twin.decide(x, second)
        for name, array in twin.hooks.state().items():
            same(array, policy.hooks.state()[name])


@unwatched
@pytest.mark.parametrize("form", ["by usage", "by costs"])
@pytest.mark.parametrize("disjoint", [False, True])
def test_the_fast_path_by_rules_seen_after(form, disjoint, monkeypatch):
    some = [
        tr.Capacity("a", 0.5),
        tr.Budget("hours", 0.4, seen="after"),
        tr.Share("b", at_least=0.2, among="old"),
        tr.Mean("wait", at_most=4.0, range=(0, 6), among="old", seen="after"),
        tr.Budget("beds", 0.5),
    ]
    rules = tr.Rules(some if form == "by usage" else [some[1], some[3]], actions=["a", "b", "c"])
    rng = np.random.default_rng(0)

    def model():
        return tr.DisjointRidge(3, 4, bonus=0.2) if disjoint else tr.Ridge(4, bonus=0.2)

    careful, fast = (
        tr.PessimisticOptimistic(reward=model(), cost=model(), constraints=rules, slater=0.1, horizon=700)
        for _ in range(2)
    )
    for t in range(600):
        phi, beds, hours, wait = unit_rows(rng, 3, 4), rng.uniform(size=3), rng.uniform(), rng.uniform(0, 6)
        group = ("old", "poor", ("old", "poor"), ())[t % 4]
        said = {"usage": {"beds": beds}} if form == "by usage" else {}
        shown = np.asfortranarray(phi)  # which compiled code does not read
        one = careful.decide(shown, cost_features=shown, group=group, **said)
        observed = {"hours": hours, "wait": wait}
        careful.learn(one.number, 0.5, usage=observed)
        with monkeypatch.context() as careful_path_closed:
            if t:
                careful_path_closed.setattr(fast._input, "offer", None)
                careful_path_closed.setattr(type(fast.hooks.pending), "number_of", None)
            two = fast.decide(phi, cost_features=phi, group=group, **said)
            if form == "by usage":
                fast.learn(two, 0.5, usage=observed)
            else:
                fast.learn(two, 0.5, rules.observed(observed, two.action, group))
        assert one.action == two.action
        same(one.trace, two.trace)
        costs = one.explain().costs
        assert (costs[:, rules.names.index("wait among old")] == 0.0).all() == ("old" not in group)
    for name, array in careful.hooks.state().items():
        same(array, fast.hooks.state()[name])
    assert careful.totals[rules.names.index("wait among old")] != 0.0


def test_costs_beside_rules_of_which_some_are_seen_after(monkeypatch):
    rules = tr.Rules(
        [tr.Capacity("a", 0.5), tr.Budget("hours", 0.4, seen="after", range=(0, 1))], actions=["a", "b"]
    )
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(2, 2), cost=tr.DisjointRidge(2, 2), constraints=rules, slater=0.1
    )
    x, W = np.array([0.6, 0.6]), rules.costs()
    policy.learn(policy.decide(x, cost_features=x), 1.0, usage={"hours": 0.5})
    twin = policy.copy()
    W[:, 1] = np.nan  # what is seen after acting is not looked at
    with monkeypatch.context() as careful_path_closed:
        careful_path_closed.setattr(policy._input, "offer", None)
        found = policy.decide(x, W, cost_features=x)
    expected = twin.decide(x, W[:, :1].tolist(), cost_features=x)
    same(found.trace, expected.trace)
    before = policy.hooks.state()
    W[1, 0] = 1.5
    for bad, message in (
        ({"costs": W, "cost_features": x}, r"costs\[1, 0\] must lie in \[-1, 1\], but got 1.5"),
        ({"costs": rules.costs(), "cost_features": x, "usage": {}}, "not both"),
        ({"cost_features": x, "usage": {"hours": 2.0}}, "hours"),
        ({"cost_features": x * 3.0}, "cost_features"),
        ({"cost_features": x, "group": 5}, "group"),
    ):
        with pytest.raises(tr.InvalidInput, match=message):
            policy.decide(x, **bad)
    for outcome, message in (
        ({"usage": {"hours": 2.0}}, r"usage\['hours'\] must lie in \[0, 1\]"),
        ({"usage": {}}, r"usage\['hours'\] is missing"),
        ({"usage": {"hours": 0.5}, "costs": np.array([0.1])}, "not both"),
        ({"usage": 0.5}, "usage must be a mapping"),
    ):
        with pytest.raises(tr.InvalidInput, match=message):
            policy.learn(found, 1.0, **outcome)
    for name, array in policy.hooks.state().items():
        same(array, before[name])


def test_usage_is_refused_where_costs_are_seen_before_acting():
    rules = tr.Rules([tr.Budget("hours", 0.4)], actions=["a", "b"])
    policy = tr.PessimisticOptimistic(reward=tr.DisjointRidge(2, 2), constraints=rules, slater=0.1)
    x = np.array([0.6, 0.6])
    for _ in range(3):
        decision = policy.decide(x, usage={"hours": 0.5})
        with pytest.raises(tr.InvalidInput, match="takes only the reward"):
            policy.learn(decision, 1.0, usage={"hours": 0.5})
        policy.learn(decision, 1.0)


@unwatched
def test_the_fast_path_measures_slater(monkeypatch):
    rules = tr.Rules([tr.Capacity("a", 0.5), tr.Budget("hours", 0.6)], actions=["a", "b", "c"])
    rng = np.random.default_rng(0)
    careful, fast = (
        tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 4), constraints=rules) for _ in range(2)
    )
    for t in range(1500):  # more than the sample keeps
        x, hours = unit_rows(rng, 1, 4)[0], rng.uniform(size=3)
        one = careful.decide(x, usage={"hours": hours}, actions=[0, 1, 2])
        with monkeypatch.context() as careful_path_closed:
            if t:
                careful_path_closed.setattr(fast._input, "offer", None)
            two = fast.decide(x, usage={"hours": hours})
        same(one.trace, two.trace)
        careful.learn(one, 0.5)
        fast.learn(two, 0.5)
    assert fast.slater > 0.001
    for name, array in careful.hooks.state().items():
        same(array, fast.hooks.state()[name])
