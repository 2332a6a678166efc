"""One round of the algorithm: r̂ and W, pseudo action values, the choice, the queue step; and what is learnt from its outcome."""

from __future__ import annotations

from tightrope import schedules
from tightrope.kernels import layout, models
from tightrope.kernels.checks import costs_are_valid, rows_are_short, rows_fit
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.lanes import load8, positive, spread8, store8
from tightrope.kernels.linear_algebra import copy, inner
from tightrope.validation import COST_ROUNDING

power_law = kernel(schedules.power_law)


@kernel
def decide_ridge(phi, ids, W, flat, core, trace, x):
    """One decision on a ridge reward model, its features also into x; −1, with nothing else changed, if an input is not valid.

    phi (J, p), or (p,) or (1, p) if each action has a block of its own; W (J, K).
    """
    J = ids.shape[0]
    costs = W.reshape(W.size)
    fits = W.shape[1] == core[layout.CONSTRAINTS] and rows_fit(phi, flat, J)
    if not (fits and costs_are_valid(costs, J, core)):
        return -1
    one_row = phi.size < J * x.shape[0]
    models.optimistic_rewards_ridge(flat, phi.reshape(phi.size), 0, one_row, ids, core, trace)
    row = choose_and_step(J, costs, 0, core, trace)
    copy_chosen_row(phi, row, J, x)
    return row


@kernel
def decide_with_learnt_costs(phi, psi, ids, W, flat, cost_flat, ranges, columns, idle, core, trace, x, z):
    """`decide_ridge` if costs in `columns` are seen after acting, with ridge models of both; the features of both into x and z.

    The other columns of W (J, K) are seen before acting, and those in idle are known to be 0.
    """
    J = ids.shape[0]
    K = W.shape[1]
    known = W.reshape(W.size)
    fits = core[layout.CONSTRAINTS] == K and rows_fit(phi, flat, J) and rows_fit(psi, cost_flat, J)
    if not (fits and costs_are_valid(known, J, core)):
        return -1
    _, costs, _, _, _ = layout.trace_parts(J, K)
    copy(trace, costs, known, 0, J * K)
    learnt_costs(J, K, psi, ids, cost_flat, ranges, columns, core, trace, z)
    for k in idle:
        for j in range(J):
            trace[costs + j * K + k] = 0.0
    return decide_by_costs_in_trace(J, K, phi, psi, ids, flat, core, trace, x, z)


@inlined
def learnt_costs(J, K, psi, ids, cost_flat, ranges, columns, core, trace, z):
    """W̌ of a ridge model into the costs in trace."""
    _, costs, queue, _, _ = layout.trace_parts(J, K)
    one_row = psi.size < J * z.shape[0]
    models.optimistic_costs_ridge(
        cost_flat, psi.reshape(psi.size), 0, one_row, ids, core, ranges, columns, trace[costs:queue], K
    )


@inlined
def decide_by_costs_in_trace(J, K, phi, psi, ids, flat, core, trace, x, z):
    """r̂ of a ridge model, the choice by the costs in trace, and the features of the choice into x and z."""
    _, costs, _, _, _ = layout.trace_parts(J, K)
    one_row = phi.size < J * x.shape[0]
    models.optimistic_rewards_ridge(flat, phi.reshape(phi.size), 0, one_row, ids, core, trace)
    row = choose_and_step(J, trace, costs, core, trace)
    copy_chosen_row(phi, row, J, x)
    copy_chosen_row(psi, row, J, z)
    return row


@kernel
def decide_many_ridge(phis, ids, Ws, flat, core, traces, rows):
    """Successive decisions on one state of a model for all actions; False, with nothing changed, if an input is not valid."""
    p = int(flat[layout.FEATURES])
    n, J, K = Ws.shape
    if phis.shape[1] != J or phis.shape[2] != p or core[layout.CONSTRAINTS] != K:
        return False
    features = phis.reshape(phis.size)
    costs = Ws.reshape(Ws.size)
    if not rows_are_short(features, n * J, p):
        return False
    for i in range(n):
        if not costs_are_valid(costs[i * J * K : (i + 1) * J * K], J, core):
            return False
    for i in range(n):
        models.optimistic_rewards_ridge(flat, features, i * J * p, False, ids, core, traces[i])
        rows[i] = choose_and_step(J, costs, i * J * K, core, traces[i])
    return True


@kernel
def decide_arms(ids, W, counts, sums, stat, core, trace):
    """One decision on arm means, W (J, K); −1, with nothing changed, if a cost is not valid."""
    J = ids.shape[0]
    costs = W.reshape(W.size)
    if W.shape[1] != core[layout.CONSTRAINTS] or not costs_are_valid(costs, J, core):
        return -1
    models.optimistic_rewards_arms(ids, counts, sums, stat, core, trace)
    return choose_and_step(J, costs, 0, core, trace)


@kernel
def learn_reward(g, x, reward, flat, core):
    y = layout.outcome_at(core)
    core[y] = reward
    return models.ridge_learn(flat, g, x, 0, core, y, core, layout.scratch_at(core, x.shape[0]))


@kernel
def learn_reward_and_costs(g, h, x, z, reward, w, flat, cost_flat, ranges, columns, core):
    """`ridge_learn` of a reward at x by block g, and of costs w at z by block h; −1, with nothing changed, for a cost out of range.

    Otherwise 1 if the reward model needs a refresh, plus 2 if the cost model does.
    """
    K = columns.shape[0]
    if w.shape[0] != K:
        return -1
    for i in range(K):
        if not (w[i] >= ranges[i, 0] - COST_ROUNDING and w[i] <= ranges[i, 1] + COST_ROUNDING):
            return -1
    due = 1 if learn_reward(g, x, reward, flat, core) else 0
    if models.ridge_learn(cost_flat, h, z, 0, w, 0, core, layout.scratch_at(core, z.shape[0])):
        due += 2
    totals = layout.totals_at(core)
    for i in range(K):
        core[totals + columns[i]] += w[i]
    return due


@kernel
def choose_and_step(J, W, w, core, trace):
    """Choose by r̂ in trace[:J] and W, move the queue, the known totals and the round counter; return the row."""
    K = int(core[layout.CONSTRAINTS])
    values, costs, queue, V, epsilon = layout.trace_parts(J, K)
    V_t, eps_t = schedule_values(core)
    pseudo_action_values(W, w, core, J, V_t, trace)
    row = first_of_the_best(trace[values:costs])
    copy(trace, costs, W, w, J * K)
    copy(trace, queue, core, layout.QUEUE, K)
    trace[V] = V_t
    trace[epsilon] = eps_t
    queue_step(W, w + row * K, eps_t, core)
    return row


@kernel
def schedule_values(core):
    """V_t and ε_t of the next round, ε_t at most its limit; 1 and 0 without constraints."""
    if core[layout.CONSTRAINTS] == 0.0:
        return 1.0, 0.0
    t = core[layout.ROUNDS] + 1.0
    T = models.horizon_at(core, t)
    V_t = power_law(t, core[layout.V_SCALE], core[layout.V_EXPONENT], core[layout.V_LOG], T)
    eps_t = power_law(
        t, core[layout.EPSILON_SCALE], core[layout.EPSILON_EXPONENT], core[layout.EPSILON_LOG], T
    )
    return V_t, min(core[layout.limits_at(core)], eps_t)


@kernel
def schedule_values_ahead(core, out):
    """`schedule_values` for the next rounds, one for each row of out (n, 2); core is used up."""
    for i in range(out.shape[0]):
        out[i, 0], out[i, 1] = schedule_values(core)
        core[layout.ROUNDS] += 1.0


@kernel
def pseudo_action_values(W, w, core, J, V_t, trace):
    """r̂_j − Σ_k W_jk Q_k / V_t of every action into trace, which holds r̂."""
    K = int(core[layout.CONSTRAINTS])
    values, _, _, _, _ = layout.trace_parts(J, K)
    if K > 0:
        penalties(W, w, core, layout.QUEUE, K, J, trace, values)
        for j in range(J):
            trace[values + j] = pseudo_action_value(trace[j], trace[values + j], V_t)
    else:
        copy(trace, values, trace, 0, J)


@inlined
def pseudo_action_value(reward, penalty, V_t):
    """r̂_j − Σ_k W_jk Q_k / V_t, where penalty is the sum."""
    return reward - penalty / V_t


@kernel
def penalties(W, w, Q, q, K, J, out, o):
    for j in range(J):
        out[o + j] = inner(W, w + j * K, Q, q, K)


@kernel
def first_of_the_best(values):
    """The lowest row whose value ties with the best (`layout.tied_with`)."""
    best = values[0]
    for j in range(1, values.shape[0]):
        if values[j] > best:
            best = values[j]
    least = layout.tied_with(best)
    for j in range(values.shape[0]):
        if values[j] >= least:
            return j
    return 0


@kernel
def queue_step(W, w, eps_t, core):
    """`queue_update` by the costs W_a of the choice; the known totals and the round counter move too."""
    K = int(core[layout.CONSTRAINTS])
    totals = layout.totals_at(core)
    known = layout.known_at(core)
    if K >= 8:
        # The last eight may overlap those before them: as in `add_scaled`, they are read first and written last.
        eps = spread8(eps_t)
        end = K - 8
        costs = load8(W, w + end)
        last_totals = load8(core, totals + end) + load8(core, known + end) * costs
        last_queues = queue_update(load8(core, layout.QUEUE + end), costs, eps)
        k = 0
        while k + 8 < K:
            costs = load8(W, w + k)
            store8(core, totals + k, load8(core, totals + k) + load8(core, known + k) * costs)
            store8(core, layout.QUEUE + k, queue_update(load8(core, layout.QUEUE + k), costs, eps))
            k += 8
        store8(core, totals + end, last_totals)
        store8(core, layout.QUEUE + end, last_queues)
    else:
        for k in range(K):
            core[totals + k] += core[known + k] * W[w + k]
            core[layout.QUEUE + k] = queue_update(core[layout.QUEUE + k], W[w + k], eps_t)
    core[layout.ROUNDS] += 1.0


@inlined
def queue_update(Q, W, eps_t):
    """max(0, Q + W + ε_t), of one number or of eight side by side."""
    return positive(Q + W + eps_t)


@inlined
def copy_chosen_row(phi, row, J, x):
    p = x.shape[0]
    copy(x, 0, phi.reshape(phi.size), row * p if phi.size == J * p else 0, p)
