"""Catalogues and sparse costs: the same choices as the full computation."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from strategies import numbers, rows, unit_rows, wholes
from tightrope import kernels


def lazily_as_fully(phi, matrices, noise, *, bonus, ridge):
    """A catalogue against the full sweep, round by round; which actions were chosen."""
    d, K = phi.shape[1], matrices.shape[2]
    catalogue = tr.policies.Catalogue(phi)
    full, lazy = (
        tr.PessimisticOptimistic(
            reward=tr.Ridge(d, bonus=bonus, ridge=ridge), constraints=K, slater=0.3, horizon=500
        )
        for _ in range(2)
    )
    chosen = []
    for t, error in enumerate(noise):
        W = matrices[t % len(matrices)]
        a, b = full.decide(phi, W), lazy.decide(catalogue, W)
        assert a.action == b.action
        np.testing.assert_array_equal(full.queue, lazy.queue)
        np.testing.assert_array_equal(full.totals, lazy.totals)
        assert b.explain().values[0] == a.explain().values[a.row]
        reward = float(phi[a.action].sum() / np.sqrt(d) + 0.1 * error)
        full.learn(a, reward)
        lazy.learn(b, reward)
        chosen.append(a.action)
    return chosen


@given(
    data=st.data(),
    n=st.integers(1, 40),
    J=st.integers(1, 20),
    d=st.integers(1, 8),
    K=st.integers(0, 3),
    period=st.integers(1, 4),
    bonus=st.sampled_from([1.0, 0.0, 0.02, 0.3]),
    ridge=st.sampled_from([1.0, 0.2]),
)
def test_a_catalogue_gives_the_choices_of_the_full_sweep(data, n, J, d, K, period, bonus, ridge):
    # Some actions may be copies of others.
    phi = data.draw(rows(J, d))[data.draw(wholes(J, below=J))]
    lazily_as_fully(phi, data.draw(numbers(period, J, K)), data.draw(numbers(n)), bonus=bonus, ridge=ridge)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("J", "d", "K", "bonus"), [(60, 12, 4, 0.02), (60, 5, 0, 0.3), (33, 3, 2, 1.0)])
def test_so_it_does_at_size_and_where_values_tie_but_for_rounding(J, d, K, bonus, tied):
    rng = np.random.default_rng(J + d)
    phi = unit_rows(rng, J, d)
    matrices = rng.uniform(-1, 1, size=(2, J, K))
    if tied:
        # Equal, but for what counts as nothing: the lowest of equals must win.
        phi[rng.integers(0, J, J // 2)] = phi[0]
        matrices = np.round(matrices[:1, :1] * 0.9, 1) + rng.uniform(-1e-14, 1e-14, size=(1, J, K))
    chosen = lazily_as_fully(phi, matrices, rng.normal(size=200), bonus=bonus, ridge=1.0)
    assert tied or len(set(chosen)) > 1


def test_most_widths_are_skipped_and_bounds_stay_bounds():
    rng = np.random.default_rng(1)
    phi = unit_rows(rng, 300, 8)
    catalogue = tr.policies.Catalogue(phi)
    policy = tr.policies.LinUCB(tr.Ridge(8, bonus=0.3), horizon=3000)
    theta = rng.normal(size=8) / 3
    computed = []
    for _ in range(600):
        decision = policy.decide(catalogue)
        scores = policy._lazy._scores_of(catalogue)
        computed.append(scores.exact.sum())
        widths = policy.hooks.reward_model().widths(phi)
        assert (scores.table[0] * kernels.WIDTH_SLACK >= widths).all()
        policy.learn(decision, float(theta @ phi[decision.action]))
    assert np.mean(computed[300:]) < 60


def test_a_memory_mapped_catalogue(tmp_path):
    phi = unit_rows(np.random.default_rng(0), 50, 4)
    np.save(tmp_path / "phi.npy", phi)
    mapped = tr.policies.Catalogue(np.load(tmp_path / "phi.npy", mmap_mode="r"))
    one, two = tr.policies.LinUCB(tr.Ridge(4)), tr.policies.LinUCB(tr.Ridge(4))
    for _ in range(30):
        a, b = one.decide(phi), two.decide(mapped)
        assert a.action == b.action
        one.learn(a, 0.5)
        two.learn(b, 0.5)


@given(
    data=st.data(),
    n=st.integers(1, 15),
    J=st.integers(1, 8),
    K=st.integers(1, 9),
    as_catalogue=st.booleans(),
)
def test_sparse_costs_give_the_choices_of_the_dense_matrix(data, n, J, K, as_catalogue):
    phi = data.draw(rows(J, 5))
    dense, sparse = (
        tr.PessimisticOptimistic(reward=tr.Ridge(5, bonus=0.2), constraints=K, slater=0.2, horizon=100)
        for _ in range(2)
    )
    features = tr.policies.Catalogue(phi) if as_catalogue else phi
    drawn, limits = np.abs(data.draw(numbers(n, J, K))), 0.4 * np.abs(data.draw(numbers(n, K)))
    for t in range(n):
        # About a sixth of the entries are used at all.
        usage = np.where(drawn[t] > 5 / 6, drawn[t], 0.0)
        costs = tr.policies.SparseCosts(scipy.sparse.csr_array(usage), limits[t])
        W = usage - limits[t]
        np.testing.assert_allclose([costs.row(j) for j in range(J)], W, atol=1e-15)
        a, b = dense.decide(phi, W), sparse.decide(features, costs)
        gaps = np.sort(a.explain().values.max() - a.explain().values)
        assert a.action == b.action or (gaps[1:] < 1e-9).any()
        if a.action != b.action:
            return
        np.testing.assert_allclose(dense.queue, sparse.queue, atol=1e-12)
        dense.learn(a, 0.5)
        sparse.learn(b, 0.5)


def test_ten_thousand_constraints():
    rng = np.random.default_rng(0)
    J, K = 50, 10_000
    dense, sparse = (
        tr.PessimisticOptimistic(reward=tr.Ridge(6), constraints=K, slater=0.05, horizon=1000)
        for _ in range(2)
    )
    phi = unit_rows(rng, J, 6)
    for _ in range(5):
        usage = scipy.sparse.random_array((J, K), density=3 / K, rng=rng, format="csr")
        a, b = (
            dense.decide(phi, usage.toarray() - 0.01),
            sparse.decide(phi, tr.policies.SparseCosts(usage, np.full(K, 0.01))),
        )
        assert a.action == b.action
        dense.learn(a, 1.0)
        sparse.learn(b, 1.0)
    np.testing.assert_allclose(dense.queue, sparse.queue, rtol=1e-12)
    assert "more penalties" in str(b.explain())


def refused(message, features, costs=None, policy=None):
    policy = policy or tr.PessimisticOptimistic(reward=tr.Ridge(2), constraints=1, slater=0.2)
    before = policy.hooks.state()
    with pytest.raises(tr.InvalidInput, match=message):
        policy.decide(features, costs)
    assert all(np.array_equal(before[name], array) for name, array in policy.hooks.state().items())


def test_bad_input_is_refused_and_nothing_changes():
    catalogue = tr.policies.Catalogue(np.eye(2))
    ones = scipy.sparse.csr_array(np.ones((2, 1)))
    refused("costs must have shape", catalogue, np.zeros((3, 1)))
    refused(r"costs\[1, 0\] must lie in", catalogue, np.array([[0.0], [1.5]]))
    refused(
        "costs must have shape", catalogue, tr.policies.SparseCosts(scipy.sparse.csr_array((3, 1)), [0.5])
    )
    refused("must have 2 features", tr.policies.Catalogue(np.eye(3)), np.zeros((3, 1)))
    refused("norm", np.array([[2.0, 0.0], [0.0, 1.0]]), tr.policies.SparseCosts(ones, [0.5]))
    arms = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.2)
    refused("need a Ridge reward model", catalogue, np.zeros((2, 1)), arms)
    measured = tr.PessimisticOptimistic(reward=tr.Ridge(2), constraints=1)
    refused("can't be measured on SparseCosts", catalogue, tr.policies.SparseCosts(ones, [0.5]), measured)
    with pytest.raises(tr.InvalidInput, match="takes only features and costs"):
        tr.policies.LinUCB(tr.Ridge(2)).decide(catalogue, actions=[0, 1])
    for bad in (np.ones((2, 2)), np.full((2, 2), np.nan), np.zeros((0, 2)), np.eye(2, dtype=np.float32)):
        with pytest.raises(tr.InvalidInput, match="features"):
            tr.policies.Catalogue(bad)
    with pytest.raises(tr.InvalidInput, match=r"usage\[0, 0\]"):
        tr.policies.SparseCosts(scipy.sparse.csr_array([[1.8]]), [0.1])
    with pytest.raises(tr.InvalidInput, match=r"scipy\.sparse"):
        tr.policies.SparseCosts(np.ones((2, 2)), [0.1, 0.1])


def test_a_measured_slater_constant_goes_with_a_catalogue():
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(2), constraints=1)
    policy.decide(tr.policies.Catalogue(np.eye(2)), np.array([[0.5], [-0.25]]))
    assert policy.slater == pytest.approx(0.25)
