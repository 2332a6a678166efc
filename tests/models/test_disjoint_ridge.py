"""DisjointRidge is Ridge on the Kronecker features."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tightrope as tr
from strategies import numbers, rows, wholes
from tightrope.models.hooks import dimension


@given(
    data=st.data(),
    n=st.integers(0, 40),
    J=st.integers(1, 5),
    p=st.integers(1, 5),
    M=st.integers(1, 3),
    ridge=st.sampled_from([1.0, 0.3]),
)
def test_disjoint_ridge_is_ridge_on_the_kronecker_features(data, n, J, p, M, ridge):
    settings = {"ridge": ridge, "bonus": 0.7, "m": 3.0, "n_outputs": M}
    disjoint, shared = tr.DisjointRidge(J, p, **settings), tr.Ridge(J * p, **settings)
    for x, j, y in zip(data.draw(rows(n, p)), data.draw(wholes(n, below=J)), data.draw(numbers(n, M))):
        disjoint.learn(x, y, action=int(j))
        shared.learn(np.kron(np.eye(J)[j], x), y)
    x = data.draw(rows(p))
    phi = np.kron(np.eye(J), x)
    np.testing.assert_allclose(disjoint.means(x), shared.means(phi), atol=1e-12)
    np.testing.assert_allclose(disjoint.widths(x), shared.widths(phi), atol=1e-12)
    assert disjoint.radius(100) == shared.radius(100)
    assert dimension(disjoint) == dimension(shared) == J * p
    for j in range(J):
        block = slice(j * p, (j + 1) * p)
        np.testing.assert_allclose(disjoint.sigma[j], shared.sigma[block, block], atol=1e-12)
        np.testing.assert_allclose(disjoint.sigma_inverse[j], shared.sigma_inverse[block, block], atol=1e-12)
    own = data.draw(rows(J, p))
    each = np.array([np.kron(np.eye(J)[j], own[j]) for j in range(J)])
    np.testing.assert_allclose(disjoint.means(own), shared.means(each), atol=1e-12)
