"""The simulator's loop of the shadow-price policy: one replication in a tabular environment.

In a tabular world the memory is a count per context: a remembered round is its context, so equal rounds are one entry with a
weight. Entries are numbered as the policy object numbers them, lowest free number first, and the sample of a solve is drawn in that
order, so both paths make the same draws and get the same prices.
"""

from __future__ import annotations

import math
from collections import namedtuple

from tightrope.kernels import (
    layout,
    prices,
    shadow,
    shadow_learning,
    shadow_solve,
    shadow_trace,
    standardised,
)
from tightrope.kernels.compile import inlined, kernel, released
from tightrope.kernels.draws import draw_reward, pick, uniforms
from tightrope.kernels.look_ahead import look_ahead
from tightrope.kernels.loops import add_to_tally, chosen_costs, record
from tightrope.kernels.rare import predict_rewards
from tightrope.kernels.standardised import ZERO, predict_costs

# Models: the rows of every context (per_context of them, or one for all actions), `flat` and `spread`; and the costs' columns.
# buffer has room for a row for each action.
StandardisedArrays = namedtuple("StandardisedArrays", "rows per_context flat spread buffer")

# slots: the entry of each remembered round; by entry its context and how many slots hold it; by context its entry, or −1, and the
# first context with exactly the same offer.
# The sample of a solve: contexts, weights, offsets, drawn rewards and costs, the solver's vector, and `state`.
MemoryArrays = namedtuple("MemoryArrays", "slots contexts counts entries twins")
SampleArrays = namedtuple("SampleArrays", "contexts weights offsets rewards costs solver state")
ShadowArrays = namedtuple("ShadowArrays", "reward cost columns core memory sample seed")

# trace as in `shadow`, costs (JK,), y (1,), room, and inverse (2q²,) for recomputing a block
ShadowWorkspace = namedtuple("ShadowWorkspace", "trace costs y booked room inverse")

# the state of a solve: rounds in the sample (0: none in progress), how many are drawn, the round it began in and its deadline, the
# sum of weighted spreads, the sum of weights, and whether the solver has begun
SAMPLED, DRAWN, BEGUN, DEADLINE, SPREAD, WEIGHT, STARTED = range(7)
SAMPLE_STATE = 7


@released
def simulate_shadow_price(env, policy, workspace, run):
    """One replication of the shadow-price policy; returns the number of rounds run (fewer when stopped)."""
    core = policy.core
    J = env.rewards.shape[1]
    K = env.means.shape[2]
    means = env.means.reshape(env.means.size)
    K_policy = int(core[shadow.CONSTRAINTS])
    late = policy.columns.shape[0]
    trace, y, room = workspace.trace, workspace.y, workspace.room
    at = 0
    for t in range(1, run.rounds + 1):
        if t % 1024 == 0 and run.stop[0] != 0:
            return t - 1
        u, v = uniforms(run.seed, run.replication, t, layout.CONTEXT_SLOT)
        c = pick(env.cdf, u)
        ids = env.ids[env.offsets[c] : env.offsets[c + 1]]
        n = ids.shape[0]
        if K_policy > 0:
            work_on_prices(env, policy, workspace)
        _, deviations, _, _, W, _ = shadow_trace.trace_parts(n, K_policy)
        for i in range(n):
            for k in range(K_policy):
                trace[W + i * K_policy + k] = means[(c * J + ids[i]) * K + k]
                room[i * K_policy + k] = 0.0
        free = room[n * K_policy :]
        reward_flat, reward_spread = policy.reward.flat, policy.reward.spread
        phi, x, one = rows_of(policy.reward, c, ids, J)
        predict_rewards(reward_flat, reward_spread, phi, x, one, ids, trace, ZERO, deviations, free)
        if late > 0:
            psi, b, one_cost = rows_of(policy.cost, c, ids, J)
            flat, spread = policy.cost.flat, policy.cost.spread
            predict_costs(
                flat, spread, psi, b, one_cost, ids, policy.columns, trace, W, room, ZERO, K_policy, free
            )
        row = shadow.step(n, room, core, trace, policy.seed, shadow.CHOOSE)
        best = shadow_trace.best_mean(n, K_policy, trace)
        look_ahead(reward_flat, reward_spread, phi, x, one, ids, best, free)
        if core[shadow.SLOT] >= 0.0:
            remember(policy.memory, int(core[shadow.SLOT]), policy.memory.twins[c])
        a = ids[row]
        mean = env.rewards[c, a]
        reward = draw_reward(run.seed, run.replication, t, v, mean, env.reward_kind, env.reward_scale)
        chosen_costs(env, run.seed, run.replication, t, c, a, run.drawn)
        learn(policy.reward, c, a, reward, core, workspace)
        if late > 0:
            for i in range(late):
                y[i] = run.drawn[policy.columns[i]]
                workspace.booked[i] = trace[W + row * K_policy + policy.columns[i]]
            shadow_learning.take_costs(y, workspace.booked, ZERO, policy.columns, core, policy.cost.spread)
            learn_costs(policy.cost, c, a, core, workspace)
        add_to_tally(run.tally, t, a, mean, reward, run.drawn, 0, means, (c * J + a) * K, run.last_violation)
        at = record(run, t, at, a)
    return run.rounds


@inlined
def rows_of(model, c, ids, J):
    """The rows of the actions on offer in context c: an array, where they start in it, and whether one row stands for all."""
    R = model.per_context
    p = int(model.flat[layout.FEATURES]) - 1
    one = R == 1 and J != 1
    if R == 1 or ids.shape[0] == J:
        return model.rows, c * R * p, one
    for i in range(ids.shape[0]):
        for k in range(p):
            model.buffer[i * p + k] = model.rows[(c * R + ids[i]) * p + k]
    return model.buffer, 0, one


@inlined
def learn(model, c, a, reward, core, workspace):
    """Learn one reward."""
    x, g = row_and_block(model, c, a)
    p = int(model.flat[layout.FEATURES]) - 1
    row = model.rows[x : x + p]
    if shadow_learning.learn_reward(g, row, reward, model.flat, model.spread, core, workspace.room):
        shadow_learning.refresh(g, model.flat, model.spread, core, workspace.inverse)


@inlined
def learn_costs(model, c, a, core, workspace):
    """Learn the costs in workspace.y."""
    x, g = row_and_block(model, c, a)
    p = int(model.flat[layout.FEATURES]) - 1
    row = model.rows[x : x + p]
    if standardised.learn_costs(g, row, workspace.y, model.flat, model.spread, workspace.room):
        shadow_learning.refresh(g, model.flat, model.spread, core, workspace.inverse)


@inlined
def row_and_block(model, c, a):
    """Where the row of action a in context c starts, and the block that learns it."""
    R = model.per_context
    p = int(model.flat[layout.FEATURES]) - 1
    return (c * R + (a if R > 1 else 0)) * p, a if model.flat[layout.BLOCKS] > 1.0 else 0


# The memory


@kernel
def remember(memory, slot, c):
    """Put context c into a slot of the memory."""
    old = memory.slots[slot]
    if old >= 0:
        memory.counts[old] -= 1.0
        if memory.counts[old] == 0.0:
            memory.entries[memory.contexts[old]] = -1
    e = memory.entries[c]
    if e < 0:
        e = 0
        while memory.counts[e] > 0.0:
            e += 1
        memory.contexts[e] = c
        memory.entries[c] = e
    memory.counts[e] += 1.0
    memory.slots[slot] = e


# A solve


@kernel
def work_on_prices(env, policy, workspace):
    """Start a solve if it is time, and continue the one in progress for as long as a decision may wait."""
    core, sample = policy.core, policy.sample
    state = sample.state
    t = core[shadow.ROUNDS] + 1.0
    K = int(core[shadow.CONSTRAINTS])
    cost_row, cost_outputs = 0.0, 0.0
    if policy.columns.shape[0] > 0:
        cost_row, cost_outputs = policy.cost.flat[layout.FEATURES], policy.cost.flat[layout.OUTPUTS] - 1.0
    row_work = shadow_solve.draw_work(policy.reward.flat[layout.FEATURES], cost_row, cost_outputs)
    if t >= core[shadow.NEXT_SOLVE] and core[shadow.REMEMBERED] > 0.0:
        start_solve(env, policy.memory, sample, t, shadow_solve.rows_allowed(t, row_work, K))
        rows = sample.offsets[int(state[SAMPLED])]
        state[DEADLINE] = shadow_solve.deadline(t, rows, row_work, K)
        core[shadow.NEXT_SOLVE] = shadow_solve.next_solve(t, state[DEADLINE], core)
    if state[SAMPLED] == 0.0:
        return
    budget = shadow.BUDGET if t < state[DEADLINE] else math.inf
    n = int(state[SAMPLED])
    while state[DRAWN] < n and budget > 0.0:
        i = int(state[DRAWN])
        state[SPREAD] += sample.weights[i] * draw_entry(env, policy, workspace, i)
        state[WEIGHT] += sample.weights[i]
        state[DRAWN] += 1.0
        budget -= (sample.offsets[i + 1] - sample.offsets[i]) * row_work
    if state[DRAWN] < n:
        return
    if state[STARTED] == 0.0:
        rho = shadow_solve.typical_difference(core, state[SPREAD], state[WEIGHT])
        shadow_solve.begin_solve(core, sample.solver, rho, workspace.room)
        state[STARTED] = 1.0
    if budget > 0.0:
        prices.advance_prices(
            sample.solver,
            sample.rewards,
            sample.costs,
            sample.offsets[: n + 1],
            sample.weights[:n],
            workspace.room,
            budget,
        )
    if t >= state[DEADLINE]:
        shadow_solve.finish_solve(core, sample.solver, state[WEIGHT])
        state[SAMPLED] = 0.0


@kernel
def start_solve(env, memory, sample, t, most_rows):
    """Make a sample of the remembered rounds, each distinct one with its weight, as many as allowed."""
    state = sample.state
    n = 0
    sample.offsets[0] = 0
    for e in range(memory.counts.shape[0]):
        if memory.counts[e] > 0.0 and (n == 0 or sample.offsets[n] < most_rows):
            c = memory.contexts[e]
            sample.contexts[n] = c
            sample.weights[n] = memory.counts[e]
            sample.offsets[n + 1] = sample.offsets[n] + env.offsets[c + 1] - env.offsets[c]
            n += 1
    for i in range(SAMPLE_STATE):
        state[i] = 0.0
    state[SAMPLED] = n
    state[BEGUN] = t


@kernel
def draw_entry(env, policy, workspace, i):
    """Draw round i of the sample with the current models; returns its spread of rewards."""
    sample, core = policy.sample, policy.core
    c = sample.contexts[i]
    J, K = env.means.shape[1], env.means.shape[2]
    ids = env.ids[env.offsets[c] : env.offsets[c + 1]]
    means = env.means.reshape(env.means.size)
    W = workspace.costs
    for j in range(ids.shape[0]):
        for k in range(K):
            W[j * K + k] = means[(c * J + ids[j]) * K + k]
    phi, a, one = rows_of(policy.reward, c, ids, J)
    psi, b, one_cost = rows_of(policy.cost, c, ids, J)
    return shadow_solve.draw_remembered(
        phi,
        a,
        one,
        psi,
        b,
        one_cost,
        ids,
        W,
        0,
        policy.reward.flat,
        policy.reward.spread,
        policy.cost.flat,
        policy.cost.spread,
        policy.columns,
        core,
        sample.rewards,
        sample.costs,
        sample.offsets[i],
        policy.seed,
        state_round(sample),
        workspace.room,
    )


@inlined
def state_round(sample):
    """The round in which the solve began."""
    return sample.state[BEGUN]
