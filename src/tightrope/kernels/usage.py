"""From usage to costs: the columns of W that count what decisions use."""

from __future__ import annotations

from tightrope.kernels.compile import kernel


@kernel
def costs_of_usage(values, ids, base, ranges, counted, W):
    """W_jk = (weight·u_j − offset) / scale for every column k that counts a usage u, and base elsewhere; row j is action ids[j].

    values holds J numbers for each of n usages, ranges (n, 2) what they must lie in: False, and W as it was, where one does not.
    base has a row for each action. A row of counted has the column of W (J, K), the number of the usage, offset, scale, and the
    weight of each action.
    """
    J, K = W.shape
    u = values.reshape(values.size)
    for i in range(ranges.shape[0]):
        for j in range(i * J, i * J + J):
            if not (u[j] >= ranges[i, 0] and u[j] <= ranges[i, 1]):
                return False
    for j in range(J):
        for k in range(K):
            W[j, k] = base[ids[j], k]
    for c in range(counted.shape[0]):
        k = int(counted[c, 0])
        first = int(counted[c, 1]) * J
        for j in range(J):
            W[j, k] = (counted[c, 4 + ids[j]] * u[first + j] - counted[c, 2]) / counted[c, 3]
    return True
