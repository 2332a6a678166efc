"""Fitted trees as flat arrays, walked for all members, actions and rows in one call.

A node is an index into four arrays: `feature` and `threshold` of its question, `child` for "at most" (the one for "more" comes
next) or −1 at a leaf, and `value` there. Trees follow one another, `roots` says where each begins, `first[u]` is the first
tree of ensemble u.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import released


@released
def sum_trees(rows, units, first, roots, feature, threshold, child, value, base, logistic, out):
    """Predictions of ensembles for rows into `out` (M, n, K): `base[u]` plus the leaves of its trees, through a logistic if asked.

    Row i uses the K ensembles u = (m · G + units[i]) · K + k of each member m; there are M · G · K in all.
    """
    M, n, K = out.shape
    G = base.shape[0] // (M * K)
    for m in range(M):
        for i in range(n):
            for k in range(K):
                u = (m * G + units[i]) * K + k
                total = base[u]
                for tree in range(first[u], first[u + 1]):
                    node = roots[tree]
                    at = child[node]
                    while at >= 0:
                        # A child each way: "at most" first. Written as a sum to avoid branch misprediction.
                        node = at + np.int32(not rows[i, feature[node]] <= threshold[node])
                        at = child[node]
                    total += value[node]
                out[m, i, k] = 1.0 / (1.0 + math.exp(-total)) if logistic[u] else total
