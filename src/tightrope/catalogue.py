"""Many actions, many constraints: a fixed catalogue of actions, and costs that are mostly zero usage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.validation import COST_LIMIT, NORM_LIMIT, Array, finite_array, first, require_range
from tightrope.words import Place, Shown

_BLOCK = 65_536
_TRANSPOSED = 2**20


class Catalogue:
    """Features of actions that stay the same from round to round, (J, d).

    Given to `decide` in place of an array, it lets the policy skip most widths: ‖φ‖_{Σ⁻¹} never grows, so an earlier width bounds
    today's from above, and only actions that could still be the best are recomputed. The choice is the same.

    Parameters
    ----------
    features : (J, d) array of float64
        Read, not copied, so that a memory-mapped file (`numpy.load(path, mmap_mode="r")`) will do. It must not change afterwards.

    Examples
    --------
    >>> import tightrope as tr
    >>> catalogue = tr.policies.Catalogue(np.eye(3))
    >>> policy = tr.policies.LinUCB(tr.Ridge(3), horizon=100)
    >>> policy.decide(catalogue).action
    0
    """

    def __init__(self, features: Any) -> None:
        read = isinstance(features, np.ndarray)
        rows = features if read else finite_array("features", features, (None, None))
        if rows.ndim != 2 or not len(rows) or rows.dtype != np.float64 or not rows.flags.c_contiguous:
            must = "be a C-contiguous float64 array of shape (J, d) with at least one row"
            came = Shown(f"{rows.dtype} of shape {rows.shape}")
            raise InvalidInput(field="features of a catalogue", must=must, got=came)
        self.features: Array = np.asarray(rows)
        # Transposed, means vectorise over the actions; a large catalogue is read row by row instead, not held twice.
        self.columns: Array = np.ascontiguousarray(rows.T) if rows.size <= _TRANSPOSED else np.empty((0, 0))
        self.norms = np.empty(len(rows))
        for at in range(0, len(rows), _BLOCK):
            block = np.asarray(rows[at : at + _BLOCK])
            self.norms[at : at + _BLOCK] = np.sqrt(np.einsum("ij,ij->i", block, block))
        bad = ~(self.norms <= np.sqrt(NORM_LIMIT))
        if bad.any():
            (j,) = first(bad)
            must = f"be finite with a Euclidean norm of at most 1, but its norm is {self.norms[j]:.6g}"
            raise InvalidInput(field=Place("features", j), must=must)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return f"Catalogue(<{self.features.shape[0]} actions, {self.features.shape[1]} features>)"


class SparseCosts:
    """Costs W = usage − limits where each action uses few of the K resources: given to `decide` in place of a (J, K) array.

    A decision takes time in proportion to the entries of `usage` and one pass over the queues, not to J · K.

    Parameters
    ----------
    usage : scipy.sparse matrix or array (J, K)
        What each action uses; |usage − limit| ≤ 1.
    limits : (K,) array
        In [−1, 1].

    Examples
    --------
    >>> import scipy.sparse
    >>> costs = SparseCosts(scipy.sparse.csr_array([[0.5, 0.0], [0.0, 0.9]]), limits=[0.2, 0.3])
    >>> costs.row(0)
    array([ 0.3, -0.3])
    """

    def __init__(self, usage: Any, limits: Any) -> None:
        if not hasattr(usage, "tocsr") or usage.ndim != 2:
            must, came = "be a scipy.sparse matrix of shape (J, K)", Shown(type(usage).__name__)
            raise InvalidInput(field="usage", must=must, got=came)
        matrix = usage.tocsr()
        if matrix.dtype.kind not in "fiu":
            came = Shown(f"values of type {matrix.dtype}")
            raise InvalidInput(field="usage", must="hold real numbers", got=came)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        self.shape: tuple[int, int] = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.limits = finite_array("limits", limits, (self.shape[1],)).copy()
        require_range("limits", self.limits, -1.0, 1.0)
        self.data = finite_array("usage", matrix.data.astype(np.float64), (None,))
        self.indices: NDArray[np.int64] = matrix.indices.astype(np.int64)
        self.offsets: NDArray[np.int64] = matrix.indptr.astype(np.int64)
        self.most_entries = int(np.diff(self.offsets).max(initial=0))
        costs = self.data - self.limits[self.indices]
        bad = np.abs(costs) > COST_LIMIT
        if bad.any():
            i = int(np.argmax(bad))
            j = int(np.searchsorted(self.offsets, i, side="right")) - 1
            k, came = int(self.indices[i]), Shown(f"{costs[i]:g}")
            raise InvalidInput(field=f"usage[{j}, {k}] − limits[{k}]", must="lie in [-1, 1]", got=came)

    def row(self, j: int) -> Array:
        W: Array = -self.limits
        at = slice(int(self.offsets[j]), int(self.offsets[j + 1]))
        W[self.indices[at]] += self.data[at]
        return W

    def __repr__(self) -> str:
        J, K = self.shape
        return f"SparseCosts(<{J} actions, {K} constraints, {len(self.data)} entries>)"
