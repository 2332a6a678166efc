"""The simulator's loops: one replication of a policy in a tabular environment."""

from __future__ import annotations

from collections import namedtuple

from tightrope.kernels import layout
from tightrope.kernels.comparators import opb_mixture, round_robin_choice, uniform_choice
from tightrope.kernels.compile import kernel, released
from tightrope.kernels.draws import draw_costs, draw_reward, own_uniform, pick, uniforms
from tightrope.kernels.lazy import Candidates, best_candidate, make_highest_bound_exact, tighten_bounds
from tightrope.kernels.linear_algebra import add_scaled, copy
from tightrope.kernels.models import (
    arms_learn,
    optimistic_costs_arms,
    optimistic_costs_ridge,
    optimistic_rewards_arms,
    ridge_bonus,
    ridge_learn,
    ridge_refresh,
)
from tightrope.kernels.step import (
    choose_and_step,
    penalties,
    pseudo_action_value,
    queue_step,
    schedule_values,
)
from tightrope.validation import VIOLATION

# A tabular environment in the loop's form; the actions on offer in context c are ids[offsets[c] : offsets[c + 1]].
TabularArrays = namedtuple(
    "TabularArrays",
    "cdf offsets ids rewards reward_kind reward_scale means locations cost_kind cost_scale spans before",
)


# A ridge model's features: of context c those of action a at (c·per_context + a)·p, or one row for all; and its `flat`.
# buffer is as long as a row for each action.
RidgeArrays = namedtuple("RidgeArrays", "rows per_context flat buffer")


# The arrays of an `ArmMeans`.
ArmArrays = namedtuple("ArmArrays", "counts sums stat")


# What the loop writes its intermediate results to: for J actions, K constraints, C contexts and p features.
# trace as in `layout`, costs (JK,), y (1,), inverse (2p²,), bounds of the widths (CJ,), penalty, rewards and values (J,), and
# fresh (J,), which says where values are exact.
Workspace = namedtuple("Workspace", "trace costs y inverse bounds penalty rewards values fresh")


@released
def simulate_pessimistic_optimistic(
    env,
    constrained,
    reward_kind,
    reward_ridge,
    reward_arms,
    cost_kind,
    cost_ridge,
    cost_arms,
    ranges,
    columns,
    core,
    workspace,
    seed,
    replication,
    rounds,
    grid,
    records,
    last_violation,
    choices,
    tally,
    drawn,
    stop,
):
    """One replication of the pessimistic-optimistic policy; returns the rounds that were run (fewer when stopped)."""
    J = env.rewards.shape[1]
    K = env.means.shape[2]
    means = env.means.reshape(env.means.size)
    blind = not constrained or not env.before
    K_policy = K if constrained else 0
    size = tally.shape[0]
    written = records.reshape(records.size)
    at = 0
    for t in range(1, rounds + 1):
        if t % 1024 == 0 and stop[0] != 0:
            return t - 1
        u, v = uniforms(seed, replication, t, layout.CONTEXT_SLOT)
        c = pick(env.cdf, u)
        ids = env.ids[env.offsets[c] : env.offsets[c + 1]]
        W = workspace.costs
        w = 0
        if blind:
            optimistic_costs(cost_kind, cost_ridge, cost_arms, c, ids, J, core, ranges, columns, W, K_policy)
        elif env.cost_kind == layout.FIXED and ids.shape[0] == J:
            W = means
            w = c * J * K
        else:
            offered_costs(env, seed, replication, t, c, ids, W)
        if reward_kind == layout.RIDGE_MODEL:
            row = choose_lazily_and_step(reward_ridge, c, ids, J, W, w, core, workspace)
        else:
            optimistic_rewards_arms(
                ids, reward_arms.counts, reward_arms.sums, reward_arms.stat, core, workspace.trace
            )
            row = choose_and_step(ids.shape[0], W, w, core, workspace.trace)
        a = ids[row]
        mean = env.rewards[c, a]
        reward = draw_reward(seed, replication, t, v, mean, env.reward_kind, env.reward_scale)
        workspace.y[0] = reward
        model_learn(reward_kind, reward_ridge, reward_arms, c, a, workspace.y, core, workspace)
        if blind:
            chosen_costs(env, seed, replication, t, c, a, drawn)
            add_to_tally(tally, t, a, mean, reward, drawn, 0, means, (c * J + a) * K, last_violation)
            model_learn(cost_kind, cost_ridge, cost_arms, c, a, drawn, core, workspace)
        else:
            add_to_tally(tally, t, a, mean, reward, W, w + row * K, W, w + row * K, last_violation)
        if choices.shape[0] > 0:
            choices[t - 1] = a
        if t == grid[at]:
            copy(written, at * size, tally, 0, size)
            at += 1
    return rounds


@released
def simulate_comparator(
    env,
    kind,
    table,
    shares,
    counts,
    sums,
    settings,
    policy_seed,
    made,
    seed,
    replication,
    rounds,
    grid,
    records,
    last_violation,
    choices,
    tally,
    drawn,
    stop,
    mixture,
):
    """One replication of a policy that looks at neither features nor costs before acting."""
    J = env.rewards.shape[1]
    K = env.means.shape[2]
    means = env.means.reshape(env.means.size)
    written = records.reshape(records.size)
    size = tally.shape[0]
    at = 0
    for t in range(1, rounds + 1):
        if t % 1024 == 0 and stop[0] != 0:
            return t - 1
        u, v = uniforms(seed, replication, t, layout.CONTEXT_SLOT)
        c = pick(env.cdf, u)
        ids = env.ids[env.offsets[c] : env.offsets[c + 1]]
        if kind == layout.UNIFORM:
            a = uniform_choice(ids, own_uniform(policy_seed, made))
        elif kind == layout.STATIC:
            a = pick(table[c], own_uniform(policy_seed, made))
        elif kind == layout.ROUND_ROBIN:
            a = round_robin_choice(ids, shares, counts)
        else:
            i, j, weight = opb_mixture(counts, sums, settings, mixture)
            a = j if own_uniform(policy_seed, made) < weight else i
        made += 1
        mean = env.rewards[c, a]
        reward = draw_reward(seed, replication, t, v, mean, env.reward_kind, env.reward_scale)
        chosen_costs(env, seed, replication, t, c, a, drawn)
        counts[a] += 1.0
        if kind == layout.OPB:
            sums[a, 0] += reward
            sums[a, 1] += drawn[0]
        add_to_tally(tally, t, a, mean, reward, drawn, 0, means, (c * J + a) * K, last_violation)
        if choices.shape[0] > 0:
            choices[t - 1] = a
        if t == grid[at]:
            copy(written, at * size, tally, 0, size)
            at += 1
    return rounds


@kernel
def add_to_tally(tally, t, action, mean_reward, reward, costs, c, mean_costs, m, last_violation):
    """Add one round to the tally, and note for each constraint the last round whose cumulated cost is above 0."""
    K = last_violation.shape[0]
    drawn, means, counts = layout.tally_parts(K)
    tally[layout.TALLY_MEAN_REWARD] += mean_reward
    tally[layout.TALLY_REWARD] += reward
    add_scaled(tally, drawn, 1.0, costs, c, K)
    add_scaled(tally, means, 1.0, mean_costs, m, K)
    for k in range(K):
        if tally[drawn + k] > VIOLATION:
            last_violation[k] = t
    tally[counts + action] += 1.0


@kernel
def offered_rows(model, c, ids, J):
    """Where in model.rows the features of the actions on offer in context c are; −1 where they had to be put into model.buffer."""
    R = model.per_context
    p = int(model.flat[layout.FEATURES])
    if R == 1 or ids.shape[0] == J:
        return c * R * p
    for i in range(ids.shape[0]):
        copy(model.buffer, i * p, model.rows, (c * R + ids[i]) * p, p)
    return -1


@kernel
def chosen_costs(env, seed, replication, t, c, action, out):
    """The K costs of one action in context c."""
    draw_costs(
        seed,
        replication,
        t,
        action,
        env.locations[c, action],
        env.cost_kind,
        env.cost_scale,
        env.spans,
        out,
    )


@kernel
def offered_costs(env, seed, replication, t, c, ids, out):
    """The costs of the actions on offer, seen before acting."""
    K = env.spans.shape[0]
    for i in range(ids.shape[0]):
        chosen_costs(env, seed, replication, t, c, ids[i], out[i * K : (i + 1) * K])


@kernel
def optimistic_costs(kind, ridge, arms, c, ids, J, core, ranges, columns, W, K):
    """Optimistic costs into W, of a model of either kind."""
    if kind == layout.RIDGE_MODEL:
        at = offered_rows(ridge, c, ids, J)
        psi = ridge.rows if at >= 0 else ridge.buffer
        one_row = ridge.per_context == 1
        optimistic_costs_ridge(ridge.flat, psi, max(0, at), one_row, ids, core, ranges, columns, W, K)
    elif kind == layout.ARM_MODEL:
        optimistic_costs_arms(ids, arms.counts, arms.sums, arms.stat, core, ranges, columns, W, K)


@kernel
def choose_lazily_and_step(ridge, c, ids, J, W, w, core, workspace):
    """One decision on a ridge reward model, computing only the widths that could change it; moves the queue, returns the row."""
    at = offered_rows(ridge, c, ids, J)
    n = ids.shape[0]
    K = int(core[layout.CONSTRAINTS])
    V_t, eps_t = schedule_values(core)
    candidates = Candidates(
        n,
        ridge.flat,
        ridge.rows if at >= 0 else ridge.buffer,
        max(0, at),
        ridge.per_context == 1,
        ids,
        ridge_bonus(ridge.flat, core),
        workspace.penalty,
        V_t,
        workspace.bounds[c * J : (c + 1) * J],
        workspace.rewards,
        workspace.values,
        workspace.fresh,
    )
    penalties(W, w, core, layout.QUEUE, K, n, workspace.penalty, 0)
    for j in range(n):
        # r̂ is at most 1.
        workspace.values[j] = pseudo_action_value(1.0, workspace.penalty[j], V_t)
        workspace.fresh[j] = False
    top = make_highest_bound_exact(candidates)
    tighten_bounds(top, candidates)
    row = best_candidate(top, candidates)
    queue_step(W, w + row * K, eps_t, core)
    return row


@kernel
def model_learn(kind, ridge, arms, c, a, Y, core, workspace):
    """Outcomes Y of action a in context c into a model of either kind."""
    if kind == layout.RIDGE_MODEL:
        p = int(ridge.flat[layout.FEATURES])
        x = (c * ridge.per_context + (a if ridge.per_context > 1 else 0)) * p
        g = a if ridge.flat[layout.BLOCKS] > 1.0 else 0
        if ridge_learn(ridge.flat, g, ridge.rows, x, Y, 0, core, layout.scratch_at(core, p)):
            ridge_refresh(ridge.flat, g, workspace.inverse)
    elif kind == layout.ARM_MODEL:
        arms_learn(a, Y, arms.counts, arms.sums, arms.stat)
