"""From usage to costs: the columns of W that count what decisions use, and rounds whose costs are given as usage.

Anything that does not depend on the numbers is computed beforehand, once per group and list of usages. base has a row for each
action, ranges (n, 2) the range of each of n usages. A row of counted has the column of W that counts a usage, the usage's number,
offset, scale, and the weight of each action. values holds J numbers for each usage.

Kernels whose names end in `_by_usage` first compute the costs and then call the kernel of that name: one call of compiled code is
cheaper than two. If a usage is outside its range they refuse it as those kernels do, and nothing else changes.
"""

from __future__ import annotations

from tightrope.kernels import shadow, shadow_learning, step
from tightrope.kernels.compile import kernel


@kernel
def costs_of_usage(values, base, ranges, counted, ids, W):
    """W_jk = (weight·u_j − offset) / scale for every column k that counts a usage u, otherwise base; row j is action ids[j].

    Returns False, with W unchanged, if a usage is outside its range.
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


@kernel
def costs_of_outcome(values, base, ranges, counted, action, alone, w):
    """`costs_of_usage` of one action, for the columns seen after acting, into w (1, M). alone: room for one id."""
    alone[0] = action
    return costs_of_usage(values, base, ranges, counted, alone, w)


# The pessimistic-optimistic policy


@kernel
def decide_ridge_by_usage(values, base, ranges, counted, phi, ids, W, flat, core, trace, x):
    """`decide_ridge` on the costs of usage, which are left in W."""
    if not costs_of_usage(values, base, ranges, counted, ids, W):
        return -1
    return step.decide_ridge(phi, ids, W, flat, core, trace, x)


@kernel
def decide_with_learnt_costs_by_usage(
    values, base, ranges, counted, phi, psi, ids, W, flat, cost_flat, cost_ranges, columns, idle, core, trace, x, z
):  # fmt: skip
    """`decide_with_learnt_costs` on the costs of usage, which are left in W."""
    if not costs_of_usage(values, base, ranges, counted, ids, W):
        return -1
    return step.decide_with_learnt_costs(
        phi, psi, ids, W, flat, cost_flat, cost_ranges, columns, idle, core, trace, x, z
    )


@kernel
def learn_reward_and_costs_by_usage(
    values, base, ranges, counted, action, alone, w, g, h, x, z, reward, flat, cost_flat, cost_ranges, columns, core
):  # fmt: skip
    """`learn_reward_and_costs` of the costs of usage, which are left in w."""
    if not costs_of_outcome(values, base, ranges, counted, action, alone, w):
        return -1
    return step.learn_reward_and_costs(
        g, h, x, z, reward, w.reshape(w.size), flat, cost_flat, cost_ranges, columns, core
    )


# The shadow-price policy


@kernel
def decide_known_by_usage(
    values, base, ranges, counted, features, ids, W, reward, reward_spread, core, trace, x, seed, room
):
    """`shadow.decide_known` on the costs of usage, which are left in W."""
    if not costs_of_usage(values, base, ranges, counted, ids, W):
        return -1
    return shadow.decide_known(features, ids, W, reward, reward_spread, core, trace, x, seed, room)


@kernel
def decide_by_usage(
    values, base, ranges, counted, phi, psi, ids, W, reward, reward_spread, cost, cost_spread, columns, idle, core, trace, x, z,
    seed, room
):  # fmt: skip
    """`shadow.decide` on the costs of usage, which are left in W."""
    if not costs_of_usage(values, base, ranges, counted, ids, W):
        return -1
    return shadow.decide(
        phi, psi, ids, W, reward, reward_spread, cost, cost_spread, columns, idle, core, trace, x, z, seed, room
    )  # fmt: skip


@kernel
def learn_outcome_by_usage(
    values, base, ranges, counted, w, action, x, z, reward, unseen, columns, core, flat, spread, cost, cost_spread, outputs, alone,
    last, room
):  # fmt: skip
    """`shadow_learning.learn_outcome` of the costs of usage, which are left in w."""
    if not costs_of_outcome(values, base, ranges, counted, action, alone, w):
        return -1
    return shadow_learning.learn_outcome(
        action, x, z, reward, w.reshape(w.size), unseen, columns, core, flat, spread, cost, cost_spread, outputs, alone, last, room
    )  # fmt: skip
