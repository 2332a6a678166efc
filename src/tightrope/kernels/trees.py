"""Fitted trees as flat arrays, walked for all members, actions and rows in one call.

A node is a place in four arrays: `feature` and `threshold` of its question, `child` of the branch for "at most" (the other one stands
behind it) or −1 at a leaf, and `value` there. Trees stand one behind the other, `roots` says where each begins, and `first[u]` which is
the first tree of ensemble u.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import released


@released
def sum_trees(rows, units, first, roots, feature, threshold, child, value, base, logistic, out):
    """Into `out` (M, n, K) what ensembles say of rows: `base[u]` and the leaves of its trees, through a logistic where asked.

    Row i asks the K ensembles u = (m · G + units[i]) · K + k of each member m, where there are M · G · K in all.
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
                        # A child each way: "at most" first. Written as a sum so that no branch has to be guessed.
                        node = at + np.int32(not rows[i, feature[node]] <= threshold[node])
                        at = child[node]
                    total += value[node]
                out[m, i, k] = 1.0 / (1.0 + math.exp(-total)) if logistic[u] else total
