"""From usage to costs: the columns of W that count what decisions use."""

from __future__ import annotations

from tightrope.kernels.compile import kernel


@kernel
def costs_of_usage(values, base, ranges, counted, W):
    """W_jk = (weight_j·u_j − offset) / scale for every column k that counts a usage u, and base elsewhere.

    values holds J numbers for each of n usages, ranges (n, 2) what they must lie in: False, and W as it was, where one does not.
    A row of counted has the column of W (J, K), the number of the usage, offset, scale, and the weights of the J actions.
    """
    J, K = base.shape
    u = values.reshape(values.size)
    for i in range(ranges.shape[0]):
        for j in range(i * J, i * J + J):
            if not (u[j] >= ranges[i, 0] and u[j] <= ranges[i, 1]):
                return False
    for j in range(J):
        for k in range(K):
            W[j, k] = base[j, k]
    for c in range(counted.shape[0]):
        k = int(counted[c, 0])
        first = int(counted[c, 1]) * J
        for j in range(J):
            W[j, k] = (counted[c, 4 + j] * u[first + j] - counted[c, 2]) / counted[c, 3]
    return True
