"""The compiled formulas: the same bits as plain Python, as sums written out, and on every path that leads to them."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

import tightrope as tr
from strategies import numbers, rows, unit_rows, wholes
from tightrope import kernels
from tightrope.environments import Tabular
from tightrope.kernels import lanes


def without_numba(*names):
    """Modules as they are where Numba is not installed."""
    kept = {name: sys.modules.get(name) for name in ("numba", "llvmlite", *names)}
    modules = []
    try:
        sys.modules["numba"] = sys.modules["llvmlite"] = None
        for name in names:
            spec = importlib.util.find_spec(name)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            modules.append(module)
    finally:
        sys.modules.update({name: module for name, module in kept.items() if module is not None})
    return modules


plain_lanes, plain = without_numba("tightrope.kernels.lanes", "tightrope.kernels")


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def symmetric(rng, n):
    A = rng.normal(size=(n, n))
    return A + A.T


# Sums written out


def in_four_sums(a, b):
    sums = [0.0] * 4
    whole = len(a) - len(a) % 4
    for i in range(len(a)):
        sums[i % 4 if i < whole else 0] += a[i] * b[i]
    return (sums[0] + sums[1]) + (sums[2] + sums[3])


def form_written_out(A, x):
    n = len(x)
    whole = n - n % 4
    columns = []
    for j in range(n):
        column = 0.5 * A[j, j] * x[j]
        i = j + 1
        if j < whole:
            # The rest of its group of four rows is summed before it is added.
            end = j - j % 4 + 4
            if i < end:
                group = x[i] * A[i, j]
                for i in range(i + 1, end):  # noqa: B020
                    group += x[i] * A[i, j]
                column += group
            i = end
        for i in range(i, n):  # noqa: B020
            column += x[i] * A[i, j]
        columns.append(column)
    return 2.0 * in_four_sums(columns, x)


@pytest.mark.parametrize("n", [*range(1, 23), 32, 33, 40, 64, 71, 100])
def test_every_sum_has_its_order(n):
    rng = np.random.default_rng(n)
    A, x, y = symmetric(rng, n), rng.normal(size=n), rng.normal(size=n)
    assert kernels.inner(x, 0, y, 0, n) == in_four_sums(x.tolist(), y.tolist())
    assert kernels.quadratic_form(A.reshape(-1), 0, x, 0, n) == form_written_out(A, x.tolist())
    assert kernels.quadratic_form(A.reshape(-1), 0, x, 0, n) == pytest.approx(x @ A @ x, abs=1e-10 * n)
    out = np.empty(n)
    kernels.matvec(A.reshape(-1), 0, x, 0, n, out, 0)
    by_rows = np.zeros(n)
    for i in range(n):
        by_rows += x[i] * A[i]
    same(out, by_rows)
    same(kernels_added(x, 0.3, y), x + 0.3 * y)


def kernels_added(x, factor, y):
    # Neighbours must stay as they are.
    out = np.concatenate([[7.0], x, [7.0]])
    kernels.add_scaled(out, 1, factor, y, 0, len(x))
    assert out[0] == out[-1] == 7.0
    copied = np.full(len(x) + 2, 7.0)
    kernels.copy(copied, 1, out, 1, len(x))
    assert copied[0] == copied[-1] == 7.0
    same(copied, out)
    return out[1:-1]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10, 13, 20, 37, 64, kernels.LARGE - 1, kernels.LARGE + 3])
def test_eight_forms_are_the_single_forms(n):
    rng = np.random.default_rng(n)
    A, X = symmetric(rng, n).reshape(-1), rng.normal(size=(8, n))
    room, out = np.empty(16 * n), np.empty(8)
    kernels.side_by_side(X.reshape(-1), 0, 8, n, room, 0)
    same(room[: 8 * n].reshape(n, 8), X.T)
    kernels.eight_quadratic_forms(A, 0, room, 0, n, out, 0, 8 * n)
    same(out, [kernels.quadratic_form(A, 0, X.reshape(-1), j * n, n) for j in range(8)])


def test_a_large_matrix_is_read_in_tiles_with_the_same_sums():
    n = kernels.LARGE + 21
    rng = np.random.default_rng(0)
    A, x, out = symmetric(rng, n), rng.normal(size=n), np.empty(n)
    kernels.matvec(A.reshape(-1), 0, x, 0, n, out, 0)
    by_rows = np.zeros(n)
    for i in range(n):
        by_rows += x[i] * A[i]
    same(out, by_rows)


@pytest.mark.parametrize("model", [tr.Ridge(7), tr.DisjointRidge(13, 7), tr.Ridge(kernels.LARGE)])
def test_widths_are_the_same_in_any_company(model):
    rng = np.random.default_rng(0)
    p = model.n_features
    rows = unit_rows(rng, 13, p)
    for i in range(20):
        model.learn(rows[i % 13], 0.5, **({"action": i % 13} if isinstance(model, tr.DisjointRidge) else {}))
    blocks = np.arange(13) if isinstance(model, tr.DisjointRidge) else np.zeros(13, dtype=np.int64)
    alone = [kernels.ridge_width(model.flat, g, row, 0) for g, row in zip(blocks, rows)]
    room = np.empty(kernels.ROOM_COLUMNS * p + kernels.ROOM)
    for J in range(1, 14):
        out = np.full(2 * J, 7.0)
        kernels.ridge_widths(model.flat, rows.reshape(-1), 0, False, blocks[:J], room, 0, out, 1, 2)
        same(out[1::2], alone[:J])
        assert (out[::2] == 7.0).all()


# Plain Python


def lane_program(lanes):
    def program(x, out):
        v, w = lanes.load8(x, 1), lanes.load8(x, 2)
        lanes.store8(out, 0, v * w - lanes.spread8(x[0]))
        lanes.store8(out, 8, lanes.positive(v))
        low, high = lanes.low4(v), lanes.high4(v)
        lanes.store8(out, 16, lanes.joined(high, low + lanes.spread4(x[1])))
        lanes.store4(out, 24, lanes.with_first(lanes.load4(x, 3), lanes.first(high)))
        lanes.store4(out, 28, lanes.four(x[4], x[3], x[2], x[1]))
        lanes.store8(out, 32, lanes.eight(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]))
        out[40] = lanes.fold4(low)

    return program


@pytest.mark.parametrize("program", [njit(lane_program(lanes)), lane_program(plain_lanes)])
def test_vectors_do_what_they_say(program):
    x = np.random.default_rng(0).normal(size=12)
    out = np.full(41, 7.0)
    program(x, out)
    v = x[1:9]
    same(out[:8], v * x[2:10] - x[0])
    same(out[8:16], np.maximum(0, v))
    same(out[16:24], [*v[4:], *(v[:4] + x[1])])
    same(out[24:28], [v[4], *x[4:7]])
    same(out[28:32], x[4:0:-1])
    same(out[32:40], x[:8])
    assert out[40] == (v[0] + v[1]) + (v[2] + v[3])


def test_these_are_two_programs():
    assert hasattr(kernels.inner, "signatures")
    assert not hasattr(plain.inner, "signatures")
    assert plain.load8 is plain_lanes.load8 is not lanes.load8


def started(model, K, p):
    """`core` of a policy in its first round."""
    core = np.zeros(kernels.CORE_HEAD + 3 * K + kernels.ROOM_COLUMNS * p + kernels.ROOM)
    core[: kernels.CORE_HEAD] = 0.0, 100.0, 0.5, 0.5, 0.0, 1.5, -0.5, 0.0, K
    core[kernels.CORE_HEAD + 2 * K : kernels.CORE_HEAD + 3 * K] = 1.0
    return core


@given(
    data=st.data(),
    n=st.integers(1, 10),
    J=st.integers(1, 10),
    p=st.integers(1, 13),
    K=st.integers(0, 9),
    disjoint=st.booleans(),
)
def test_compiled_and_plain_decide_and_learn_alike(data, n, J, p, K, disjoint):
    features, costs = data.draw(rows(n, 1 if disjoint else J, p)), data.draw(numbers(n, J, K))
    rewards = data.draw(numbers(n))
    model = tr.DisjointRidge(J, p, bonus=0.3) if disjoint else tr.Ridge(p, bonus=0.3)
    ids = np.arange(J)
    sides = [(module, model.flat.copy(), started(model, K, p)) for module in (kernels, plain)]
    for t in range(n):
        phi, W, reward = features[t], costs[t], float(rewards[t])
        seen = []
        for module, flat, core in sides:
            trace, x = np.empty(2 * J + (J + 1) * K + 2), np.empty(p)
            row = module.decide_ridge(phi, ids, W, flat, core, trace, x)
            g = row if disjoint else 0
            module.learn_reward(g, x, reward, flat, core)
            if t == 5:
                module.refresh(flat, g, np.empty(2 * p * p))
            seen.append((row, trace, x, flat.copy(), core[: kernels.CORE_HEAD + 3 * K].copy()))
        for ours, theirs in zip(*seen, strict=True):
            same(ours, theirs)


def test_compiled_and_plain_refuse_alike():
    flat, core = tr.Ridge(3).flat, started(None, 2, 3)
    rows, costs, ids = np.eye(3), np.zeros((3, 2)), np.arange(3)
    trace, x = np.empty(6 + 8 + 2), np.empty(3)
    bad = [
        (rows[:2].copy(), costs),
        (rows[:, :2].copy(), costs),
        (rows, costs[:, :1].copy()),
        (rows, costs[:2].copy()),
        (rows * 1.01, costs),
        (rows * np.nan, costs),
        (rows, costs + 1.01),
        (rows, costs * np.nan),
        (rows[:1].copy(), costs),
        (np.empty((0, 3)), np.empty((0, 2))),
    ]
    for module in (kernels, plain):
        for phi, W in bad:
            before = core.copy()
            assert module.decide_ridge(phi, ids, W, flat, core, trace, x) == -1
            same(core, before)
        assert module.decide_ridge(rows, ids, costs, flat, core.copy(), trace, x) == 0


# Lazy = full


@given(
    data=st.data(),
    J=st.integers(1, 20),
    K=st.integers(0, 3),
    bonus=st.sampled_from([1.0, 0.0, 0.02, 0.3]),
    ridge=st.sampled_from([1.0, 1e-3]),
    shared=st.booleans(),
    sleeping=st.booleans(),
    tied=st.booleans(),
)
def test_the_simulator_skips_widths_and_chooses_the_same(data, J, K, bonus, ridge, shared, sleeping, tied):
    C, p = 5, 4
    features, costs = data.draw(rows(C, J, p)), 0.5 * data.draw(numbers(C, J, K)) - 0.1
    if tied:
        # Equal features and costs, but for what counts as nothing: the lowest of equals must win.
        same_as = data.draw(wholes(C, J, below=J))
        features = features[np.arange(C)[:, None], same_as]
        costs = np.round(costs[np.arange(C)[:, None], same_as], 1) + 1e-14 * data.draw(numbers(C, J, K))
    available = data.draw(wholes(C, J, below=3)) < 2
    env = Tabular(
        weights=np.full(C, 0.2),
        features=features,
        rewards=np.abs(data.draw(numbers(C, J))),
        costs=costs,
        available=available | ~available.any(axis=1, keepdims=True) if sleeping else None,
    )
    reward = (
        tr.Ridge(p, bonus=bonus, ridge=ridge) if shared else tr.DisjointRidge(J, p, bonus=bonus, ridge=ridge)
    )
    policy = tr.PessimisticOptimistic(reward=reward, constraints=K, slater=0.3, horizon=150)
    options = {"rounds": 150, "replications": 1, "seed": 3, "keep_choices": True, "optimum": 1.0}
    fast = tr.simulate(policy, env, **options)
    slow = tr.simulate(policy, env, compile=False, **options)
    same(fast.choices, slow.choices)
    same(fast.cost, slow.cost)
    same(fast.reward, slow.reward)


def test_the_simulator_does_skip_widths(monkeypatch):
    env = tr.environments.hospital()
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10),
        constraints=18,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
        horizon=500,
    )
    from tightrope.engine import cpu

    rooms = []
    make = cpu._room
    monkeypatch.setattr(cpu, "_room", lambda *args: rooms.append(make(*args)) or rooms[-1])
    tr.simulate(policy, env, rounds=500, replications=1, optimum=1.0)
    (room,) = rooms
    # In 500 rounds of six actions almost all of the 360 · 6 widths could come up.
    assert 100 < (room.bounds > 0.0).sum() <= 750


# The short way


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
    same(careful._flat, other._flat)
    assert len(kernels.decide_ridge.signatures) == compiled


def test_one_row_for_all_in_the_short_way():
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
    same(a._flat, b._flat)


def test_the_short_way_keeps_its_own_features():
    policy = tr.LinUCB(tr.Ridge(3), horizon=50)
    phi = np.eye(3)
    policy.decide(phi)
    decision = policy.decide(phi)
    phi[:] = 0.0
    policy.learn(decision, 1.0)
    assert policy.reward_model.sigma[decision.action, decision.action] == 2.0


# Sparse costs


def test_what_is_behind_a_sparse_decision_does_not_change_afterwards():
    rng = np.random.default_rng(0)
    J, K = 6, 50
    usage = scipy.sparse.random_array((J, K), density=0.1, rng=rng, format="csr")
    costs = tr.SparseCosts(usage, np.full(K, 0.02))
    W = np.array([costs.row(j) for j in range(J)])
    phi = unit_rows(rng, J, 4)
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(4), constraints=K, slater=0.02, horizon=100)
    decisions, queues = [], []
    for _ in range(10):
        queues.append(policy.queue)
        decisions.append(policy.decide(phi, costs))
        policy.learn(decisions[-1], 0.5)
    usage.data[:] = 0.5
    for decision, queue in zip(decisions, queues):
        seen = decision.explain()
        same(seen.queue, queue)
        same(seen.costs[0], W[decision.action])
        assert seen.values[0] == pytest.approx(seen.rewards[0] - seen.penalties[0].sum(), rel=1e-12)
    assert pickle.loads(pickle.dumps(decisions[3])).explain().V == decisions[3].explain().V


@given(data=st.data(), J=st.integers(1, 9), K=st.integers(1, 40), row=st.integers(0, 8))
def test_the_step_of_sparse_costs_is_the_dense_step(data, J, K, row):
    drawn = np.abs(data.draw(numbers(J, K)))
    usage = scipy.sparse.csr_array(np.where(drawn > 2 / 3, drawn, 0.0))
    costs = tr.SparseCosts(usage, 0.5 * np.abs(data.draw(numbers(K))))
    core = started(None, K, 1)
    core[kernels.CORE_HEAD : kernels.CORE_HEAD + 2 * K] = 1.0 + data.draw(numbers(2 * K))
    row %= J
    results = []
    for module in (kernels, plain):
        one, two = core.copy(), core.copy()
        module.take(costs.row(row), 0, 0.25, one)
        at, end = costs.offsets[row : row + 2].tolist()
        room = np.empty(2 * costs.most_entries)
        module.take_sparsely(at, end, costs.indices, costs.data, costs.limits, 0.25, two, room)
        same(one, two)
        results.append(one)
    same(*results)
    Q = np.maximum(0, core[kernels.CORE_HEAD : kernels.CORE_HEAD + K] + costs.row(row) + 0.25)
    same(results[0][kernels.CORE_HEAD : kernels.CORE_HEAD + K], Q)


def test_plain_input_takes_the_short_way(monkeypatch):
    phi, W = np.eye(3), np.zeros((3, 1))
    frozen = phi.copy()
    frozen.flags.writeable = False
    ways = [
        (tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=1, slater=0.5), (phi, frozen), W),
        (tr.LinUCB(tr.Ridge(3)), (phi, frozen), None),
        (
            tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 3), constraints=1, slater=0.5),
            (phi[0], phi),
            W,
        ),
        (tr.LinUCB(tr.DisjointRidge(3, 3)), (phi[0], phi), None),
    ]
    for policy, offers, costs in ways:
        policy.learn(policy.decide(offers[0], costs), 1.0)
        monkeypatch.setattr(policy, "_prepare", None)
        monkeypatch.setattr(policy, "_find", None)
        for offer in offers:
            policy.learn(policy.decide(offer, costs), 1.0)
        assert policy.rounds == 3


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
    for name, array in careful.state().items():
        same(array, other.state()[name])


def test_the_short_way_with_costs_seen_after(monkeypatch):
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
    before = policy.state()
    for bad in (np.array([0.75]), np.array([np.nan]), np.array([0.1, 0.1]), np.array([[0.1]])):
        with pytest.raises(tr.InvalidInput, match="costs"):
            policy.learn(decision, 1.0, bad)
    with pytest.raises(tr.InvalidInput, match="features"):
        policy.decide(x, np.array([0.6, np.inf]))
    for name, array in policy.state().items():
        same(array, before[name])
    monkeypatch.setattr(policy, "_prepare", None)
    monkeypatch.setattr(policy, "_find", None)
    policy.learn(decision, 1.0, w)
    for offer in ((x, x), (x, np.tile(x, (3, 1))), (np.tile(x, (3, 1)), x)):
        policy.learn(policy.decide(*offer), 1.0, w)
    assert policy.rounds == 5
    assert policy.totals[0] == 5 * 0.25
    assert policy.pending == ()


def test_the_short_way_by_rules():
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
    with pytest.raises(tr.InvalidInput, match="hours"):
        short.decide(x, group="old")
    with pytest.raises(tr.InvalidInput, match="not both"):
        short.decide(x, np.zeros((3, 3)), group="old")
    assert [
        g if g is None or isinstance(g, str) else g[0] for g in short.settings()["pending_groups"]
    ] == careful.settings()["pending_groups"]
    for name, array in careful.state().items():
        same(array, short.state()[name])


# Processors

ON_ANY_PROCESSOR = """
import hashlib
import numpy as np
import tightrope as tr

rng, digest = np.random.default_rng(0), hashlib.sha256()
for J, d, K in ((10, 20, 3), (5, 33, 9)):
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(d, bonus=0.2), constraints=K, slater=0.1, horizon=1000)
    for _ in range(300):
        phi = rng.normal(size=(J, d))
        phi /= 1.001 * np.linalg.norm(phi, axis=1, keepdims=True)
        decision = policy.decide(phi, rng.uniform(-1, 1, size=(J, K)))
        policy.learn(decision, float(rng.uniform()))
        digest.update(decision.trace.tobytes())
    for array in policy.state().values():
        digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_the_bits_do_not_depend_on_the_processors_vectors(tmp_path):
    def run(**settings):
        environment = {**os.environ, **settings}
        done = subprocess.run(
            [sys.executable, "-c", ON_ANY_PROCESSOR],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    # The plainest processor has no vectors of more than two numbers.
    plainest = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(**plainest) == run()
