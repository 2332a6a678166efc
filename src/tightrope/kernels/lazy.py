"""Choices among many actions or under many constraints: penalties first, then widths only where they can still matter."""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from tightrope.kernels import layout
from tightrope.kernels.checks import costs_are_valid
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.lanes import load8, spread8, store8
from tightrope.kernels.linear_algebra import copy, inner
from tightrope.kernels.models import clipped_reward, least_reward, ridge_bonus, ridge_width
from tightrope.kernels.step import penalties, pseudo_action_value, queue_step, queue_update, schedule_values
from tightrope.validation import NORM_LIMIT

# Rows that are made exact one by one, before all the others are done in one pass.
LEADERS = 16
# An earlier width bounds today's in exact arithmetic, and a sum in another order is the same; this is more than
# rounding may take from either.
WIDTH_SLACK = 1.0 + 1e-6
MEAN_SLACK = 1e-12
NO_IDS = np.empty(0, dtype=np.int64)


@kernel
def decide_lazily(phi, columns, W, flat, core, scores, fresh, shown, trace):
    """One decision on a catalogue with dense costs; −1, with nothing changed, if a cost is not valid.

    scores (4, J): bounds of the widths (kept between rounds), penalties, rewards, values. trace is for the rows in shown.
    """
    J = phi.shape[0]
    K = W.shape[1]
    costs = W.reshape(W.size)
    if W.shape[0] != J or core[layout.CONSTRAINTS] != K or not costs_are_valid(costs, J, core):
        return -1, 0
    penalties(costs, 0, core, layout.QUEUE, K, J, scores[1], 0)
    row = lazy_choice(phi, columns, flat, scores[0], scores[1], core, scores[2], scores[3], fresh)
    n = rows_to_show(row, scores[2], scores[3], fresh, shown, trace)
    _, at, queue, V, epsilon = layout.trace_parts(n, K)
    for i in range(n):
        copy(trace, at + i * K, costs, shown[i] * K, K)
    copy(trace, queue, core, layout.QUEUE, K)
    trace[V], eps_t = schedule_values(core)
    trace[epsilon] = eps_t
    queue_step(costs, row * K, eps_t, core)
    return row, n


@kernel
def decide_sparsely(
    phi, columns, offsets, indices, data, limits, flat, core, scores, fresh, shown, trace, before, scratch
):
    """One decision with sparse costs, which are valid; returns the row, and how many rows are in shown.

    scores are as for `decide_lazily`. trace is that of the rows shown, without costs and queue; before (K,) is Q as it was; scratch
    has two numbers for each entry of a row.
    """
    K = limits.shape[0]
    copy(before, 0, core, layout.QUEUE, K)
    sparse_penalties(offsets, indices, data, limits, before, scores[1])
    row = lazy_choice(phi, columns, flat, scores[0], scores[1], core, scores[2], scores[3], fresh)
    n = rows_to_show(row, scores[2], scores[3], fresh, shown, trace)
    _, _, _, V, epsilon = layout.trace_parts(n, 0)
    trace[V], eps_t = schedule_values(core)
    trace[epsilon] = eps_t
    sparse_queue_step(offsets[row], offsets[row + 1], indices, data, limits, eps_t, core, scratch)
    return row, n


@kernel
def lazy_choice(phi, columns, flat, bounds, penalty, core, rewards, values, fresh):
    """The row that the full sweep would choose, computing only the widths that could change it; arrays as in `Candidates`.

    columns is phi transposed, or empty if that would take too much memory.
    """
    _, p, _, theta, _, _, _, _ = layout.ridge_parts(flat)
    J = phi.shape[0]
    rows = phi.reshape(phi.size)
    root_beta = ridge_bonus(flat, core)
    least = least_reward(core)
    V_t, _ = schedule_values(core)
    if columns.shape[0] > 0:
        means_by_columns(columns, flat, theta, rewards)
    else:
        for j in range(J):
            rewards[j] = inner(flat, theta, rows, j * p, p)
    stretch = root_beta * WIDTH_SLACK
    for j in range(J):
        fresh[j] = False
        rewards[j] = clipped_reward(rewards[j] + stretch * bounds[j] + MEAN_SLACK, least)
        values[j] = pseudo_action_value(rewards[j], penalty[j], V_t)
    candidates = Candidates(
        J, flat, rows, 0, False, NO_IDS, root_beta, least, penalty, V_t, bounds, rewards, values, fresh
    )
    return best_candidate(make_highest_bound_exact(candidates), candidates)


# The rows to choose from, J of them, and what is known about each.
# Row j has its features in phi, from `at` on (with one_row they are the same for all), and stands for action ids[j], or j if
# ids is empty. No r̂ is below `least`. bounds, by action, are upper bounds of the widths, 0 if unknown, kept between
# rounds. rewards and values, by row, are exact where fresh is true, otherwise upper bounds.
Candidates = namedtuple(
    "Candidates", "J flat phi at one_row ids root_beta least penalty V_t bounds rewards values fresh"
)


@kernel
def make_highest_bound_exact(candidates):
    """Make the row with the highest bound exact, and return it."""
    top = 0
    for j in range(1, candidates.J):
        if candidates.values[j] > candidates.values[top]:
            top = j
    make_exact(top, candidates)
    return top


@kernel
def tighten_bounds(top, candidates):
    """Better bounds, from means and earlier widths, for the rows that could still beat row `top`, which is exact."""
    # No width is above that of an untaught model.
    widest = math.sqrt(NORM_LIMIT / candidates.flat[layout.STAT + layout.RIDGE])
    for j in range(candidates.J):
        if j != top and candidates.values[j] >= layout.tied_with(candidates.values[top]):
            action, theta, x, _ = candidate(j, candidates)
            mean = inner(candidates.flat, theta, candidates.phi, x, int(candidates.flat[layout.FEATURES]))
            known = candidates.bounds[action]
            bonus = candidates.root_beta * WIDTH_SLACK * (known if known > 0.0 else widest)
            candidates.rewards[j] = clipped_reward(mean + bonus + MEAN_SLACK, candidates.least)
            set_value(j, candidates)


@kernel
def best_candidate(chosen, candidates):
    """The row that the full sweep would choose, given one exact row: makes exact whatever could change the choice."""
    values = candidates.values
    fresh = candidates.fresh
    best = values[chosen]
    # A few leaders one by one, the highest bound first; then all others in one pass.
    for _ in range(LEADERS):
        top = -1
        limit = best
        for j in range(candidates.J):
            v = values[j]
            if v >= layout.tied_with(limit) and not fresh[j] and (v > limit or (j < chosen and top < 0)):
                top = j
                limit = max(limit, v)
        if top < 0:
            return chosen
        make_exact(top, candidates)
        if values[top] > best:
            best = values[top]
            chosen = first_exact_of_the_best(candidates, best)
        elif values[top] >= layout.tied_with(best) and top < chosen:
            chosen = top
    for j in range(candidates.J):
        if not fresh[j] and (values[j] > best or (j < chosen and values[j] >= layout.tied_with(best))):
            make_exact(j, candidates)
            if values[j] > best:
                best = values[j]
                if values[chosen] < layout.tied_with(best):
                    chosen = j
            elif values[j] >= layout.tied_with(best) and j < chosen:
                chosen = j
    return first_exact_of_the_best(candidates, best)


@kernel
def candidate(j, candidates):
    """For row j: the action, the addresses of its θ̂ and its features, and the block of its model."""
    G, p, M, theta, _, _, _, _ = layout.ridge_parts(candidates.flat)
    action = candidates.ids[j] if candidates.ids.shape[0] > 0 else j
    block = action if G > 1 else 0
    x = candidates.at if candidates.one_row else candidates.at + j * p
    return action, theta + block * M * p, x, block


@kernel
def make_exact(j, candidates):
    """Make row j exact; its width replaces the bound."""
    action, theta, x, block = candidate(j, candidates)
    candidates.bounds[action] = ridge_width(candidates.flat, block, candidates.phi, x)
    mean = inner(candidates.flat, theta, candidates.phi, x, int(candidates.flat[layout.FEATURES]))
    upper = mean + candidates.root_beta * candidates.bounds[action]
    candidates.rewards[j] = clipped_reward(upper, candidates.least)
    set_value(j, candidates)
    candidates.fresh[j] = True


@inlined
def set_value(j, candidates):
    candidates.values[j] = pseudo_action_value(candidates.rewards[j], candidates.penalty[j], candidates.V_t)


@kernel
def first_exact_of_the_best(candidates, best):
    """The lowest row among the exact ones whose value ties with the best."""
    for j in range(candidates.J):
        if candidates.fresh[j] and candidates.values[j] >= layout.tied_with(best):
            return j
    return -1


@kernel
def rows_to_show(row, rewards, values, fresh, out, trace):
    """The chosen row and the best of the others computed, at most SHOWN; returns how many. Their r̂ and values go into trace."""
    out[0] = row
    n = 1
    for j in range(values.shape[0]):
        if not fresh[j] or j == row:
            continue
        at = n
        while at > 1 and values[out[at - 1]] < values[j]:
            at -= 1
        if at >= layout.SHOWN:
            continue
        n = min(n + 1, layout.SHOWN)
        for i in range(n - 1, at, -1):
            out[i] = out[i - 1]
        out[at] = j
    for i in range(n):
        trace[i] = rewards[out[i]]
        trace[n + i] = values[out[i]]
    return n


@kernel
def sparse_penalties(offsets, indices, data, limits, Q, out):
    """Σ_k (usage_jk − limit_k) Q_k for every action: the limits' part is the same for all."""
    base = inner(limits, 0, Q, 0, Q.shape[0])
    for j in range(offsets.shape[0] - 1):
        total = 0.0
        for i in range(offsets[j], offsets[j + 1]):
            total += data[i] * Q[indices[i]]
        out[j] = total - base


@kernel
def means_by_columns(columns, V, v, out):
    """⟨v, φ_j⟩ of every action from the transposed features, which vectorises over the actions."""
    d, J = columns.shape
    for j in range(J):
        out[j] = 0.0
    i = 0
    while i + 4 <= d:
        a0, a1, a2, a3 = V[v + i], V[v + i + 1], V[v + i + 2], V[v + i + 3]
        for j in range(J):
            two = out[j] + a0 * columns[i, j] + a1 * columns[i + 1, j]
            out[j] = two + a2 * columns[i + 2, j] + a3 * columns[i + 3, j]
        i += 4
    while i < d:
        a = V[v + i]
        for j in range(J):
            out[j] += a * columns[i, j]
        i += 1


@kernel
def sparse_queue_step(first_entry, end, indices, data, limits, eps_t, core, scratch):
    """`queue_step` by usage − limits; the choice uses the entries from first_entry to end, each with two numbers of scratch."""
    K = limits.shape[0]
    totals = layout.totals_at(core)
    # Used resources are computed first and stored last: in between, every resource takes the step of an unused one.
    for i in range(first_entry, end):
        k = indices[i]
        cost = -limits[k] + data[i]
        scratch[2 * (i - first_entry)] = core[totals + k] + cost
        scratch[2 * (i - first_entry) + 1] = queue_update(core[layout.QUEUE + k], cost, eps_t)
    eps = spread8(eps_t)
    k = 0
    while k + 8 <= K:
        limit = load8(limits, k)
        store8(core, totals + k, load8(core, totals + k) - limit)
        store8(core, layout.QUEUE + k, queue_update(load8(core, layout.QUEUE + k), -limit, eps))
        k += 8
    while k < K:
        core[totals + k] -= limits[k]
        core[layout.QUEUE + k] = queue_update(core[layout.QUEUE + k], -limits[k], eps_t)
        k += 1
    for i in range(first_entry, end):
        k = indices[i]
        core[totals + k] = scratch[2 * (i - first_entry)]
        core[layout.QUEUE + k] = scratch[2 * (i - first_entry) + 1]
    core[layout.ROUNDS] += 1.0
