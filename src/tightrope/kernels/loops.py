"""The simulator's loops: one replication of a policy in a tabular environment."""

from __future__ import annotations

from collections import namedtuple

from tightrope.kernels import layout, models, step
from tightrope.kernels.comparators import opb_mixture, round_robin_choice, uniform_choice
from tightrope.kernels.compile import inlined, kernel, released
from tightrope.kernels.draws import draw_costs, draw_reward, own_uniform, pick, uniforms
from tightrope.kernels.lazy import Candidates, best_candidate, make_highest_bound_exact, tighten_bounds
from tightrope.kernels.linear_algebra import add_scaled, copy
from tightrope.validation import VIOLATION

# A tabular environment in the loop's form; the actions on offer in context c are ids[offsets[c] : offsets[c + 1]].
TabularArrays = namedtuple(
    "TabularArrays",
    "cdf offsets ids rewards reward_kind reward_scale means locations cost_kind cost_scale spans before",
)

# Which replication it is, its length and which rounds are recorded (grid); where its numbers go, see `Replication`; and the flag
# that asks it to stop.
Run = namedtuple("Run", "seed replication rounds grid records last_violation choices tally drawn stop")

# A model of either kind; the arrays of the other kind mean nothing.
ModelArrays = namedtuple("ModelArrays", "kind ridge arms")

# A ridge model's features: of context c those of action a at (c·per_context + a)·p, or one row for all; and its `flat`.
# buffer has room for a row for each action.
RidgeArrays = namedtuple("RidgeArrays", "rows per_context flat buffer")

# The arrays of an `ArmMeans`.
ArmArrays = namedtuple("ArmArrays", "counts sums stat")

# The pessimistic-optimistic policy: the ranges and columns of the learnt costs, and `core`.
PolicyArrays = namedtuple("PolicyArrays", "reward cost ranges columns core")

# A policy that looks at neither features nor costs before acting: what its kind needs, the seed of its own draws, how many
# decisions it has made, and (2, J) for `opb_mixture`.
ComparatorArrays = namedtuple("ComparatorArrays", "kind table shares counts sums settings seed made mixture")

# Where the loop writes its intermediate results: for J actions, K constraints, C contexts and p features.
# trace as in `layout`, costs (JK,), y (1,), inverse (2p²,), bounds of the widths (CJ,), penalty, rewards and values (J,), and
# fresh (J,), which says where values are exact.
Workspace = namedtuple("Workspace", "trace costs y inverse bounds penalty rewards values fresh")


@released
def simulate_pessimistic_optimistic(env, policy, workspace, run):
    """One replication of the pessimistic-optimistic policy; returns the number of rounds run (fewer when stopped)."""
    core = policy.core
    J = env.rewards.shape[1]
    K = env.means.shape[2]
    means = env.means.reshape(env.means.size)
    K_policy = int(core[layout.CONSTRAINTS])
    blind = K_policy == 0 or not env.before
    at = 0
    for t in range(1, run.rounds + 1):
        if t % 1024 == 0 and run.stop[0] != 0:
            return t - 1
        u, v = uniforms(run.seed, run.replication, t, layout.CONTEXT_SLOT)
        c = pick(env.cdf, u)
        ids = env.ids[env.offsets[c] : env.offsets[c + 1]]
        W = workspace.costs
        w = 0
        if blind:
            optimistic_costs(policy, c, ids, J, W, K_policy)
        elif env.cost_kind == layout.FIXED and ids.shape[0] == J:
            W = means
            w = c * J * K
        else:
            offered_costs(env, run.seed, run.replication, t, c, ids, W)
        if policy.reward.kind == layout.RIDGE_MODEL:
            row = choose_lazily_and_step(policy.reward.ridge, c, ids, J, W, w, core, workspace)
        else:
            arms = policy.reward.arms
            models.optimistic_rewards_arms(ids, arms.counts, arms.sums, arms.stat, core, workspace.trace)
            row = step.choose_and_step(ids.shape[0], W, w, core, workspace.trace)
        a = ids[row]
        mean = env.rewards[c, a]
        reward = draw_reward(run.seed, run.replication, t, v, mean, env.reward_kind, env.reward_scale)
        workspace.y[0] = reward
        model_learn(policy.reward, c, a, workspace.y, core, workspace)
        if blind:
            chosen_costs(env, run.seed, run.replication, t, c, a, run.drawn)
            add_to_tally(
                run.tally, t, a, mean, reward, run.drawn, 0, means, (c * J + a) * K, run.last_violation
            )
            model_learn(policy.cost, c, a, run.drawn, core, workspace)
        else:
            w += row * K
            add_to_tally(run.tally, t, a, mean, reward, W, w, W, w, run.last_violation)
        at = record(run, t, at, a)
    return run.rounds


@released
def simulate_comparator(env, policy, run):
    """One replication of a policy that looks at neither features nor costs before acting."""
    J = env.rewards.shape[1]
    K = env.means.shape[2]
    means = env.means.reshape(env.means.size)
    made = policy.made
    at = 0
    for t in range(1, run.rounds + 1):
        if t % 1024 == 0 and run.stop[0] != 0:
            return t - 1
        u, v = uniforms(run.seed, run.replication, t, layout.CONTEXT_SLOT)
        c = pick(env.cdf, u)
        ids = env.ids[env.offsets[c] : env.offsets[c + 1]]
        if policy.kind == layout.UNIFORM:
            a = uniform_choice(ids, own_uniform(policy.seed, made))
        elif policy.kind == layout.STATIC:
            a = pick(policy.table[c], own_uniform(policy.seed, made))
        elif policy.kind == layout.ROUND_ROBIN:
            a = round_robin_choice(ids, policy.shares, policy.counts)
        else:
            i, j, weight = opb_mixture(policy.counts, policy.sums, policy.settings, policy.mixture)
            a = j if own_uniform(policy.seed, made) < weight else i
        made += 1
        mean = env.rewards[c, a]
        reward = draw_reward(run.seed, run.replication, t, v, mean, env.reward_kind, env.reward_scale)
        chosen_costs(env, run.seed, run.replication, t, c, a, run.drawn)
        policy.counts[a] += 1.0
        if policy.kind == layout.OPB:
            policy.sums[a, 0] += reward
            policy.sums[a, 1] += run.drawn[0]
        add_to_tally(run.tally, t, a, mean, reward, run.drawn, 0, means, (c * J + a) * K, run.last_violation)
        at = record(run, t, at, a)
    return run.rounds


@inlined
def record(run, t, at, action):
    """Record the choice of round t if choices are kept, and the tally if it is round `at` of the grid; returns the next `at`."""
    if run.choices.shape[0] > 0:
        run.choices[t - 1] = action
    if t != run.grid[at]:
        return at
    size = run.tally.shape[0]
    copy(run.records.reshape(run.records.size), at * size, run.tally, 0, size)
    return at + 1


@kernel
def add_to_tally(tally, t, action, mean_reward, reward, costs, c, mean_costs, m, last_violation):
    """Add one round to the tally, and record for each constraint the last round whose cumulative cost is above 0."""
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


@inlined
def offered_rows(model, c, ids, J):
    """Where in model.rows the features of the actions on offer in context c are; −1 if they had to be copied to model.buffer."""
    R = model.per_context
    p = int(model.flat[layout.FEATURES])
    if R == 1 or ids.shape[0] == J:
        return c * R * p
    for i in range(ids.shape[0]):
        copy(model.buffer, i * p, model.rows, (c * R + ids[i]) * p, p)
    return -1


@inlined
def chosen_costs(env, seed, replication, t, c, action, out):
    location = env.locations[c, action]
    draw_costs(seed, replication, t, action, location, env.cost_kind, env.cost_scale, env.spans, out)


@kernel
def offered_costs(env, seed, replication, t, c, ids, out):
    K = env.spans.shape[0]
    for i in range(ids.shape[0]):
        chosen_costs(env, seed, replication, t, c, ids[i], out[i * K : (i + 1) * K])


@inlined
def optimistic_costs(policy, c, ids, J, W, K):
    _, model, ranges, columns, core = policy
    if model.kind == layout.RIDGE_MODEL:
        flat, one_row = model.ridge.flat, model.ridge.per_context == 1
        at = offered_rows(model.ridge, c, ids, J)
        psi = model.ridge.rows if at >= 0 else model.ridge.buffer
        models.optimistic_costs_ridge(flat, psi, max(0, at), one_row, ids, core, ranges, columns, W, K)
    elif model.kind == layout.ARM_MODEL:
        counts, sums, stat = model.arms
        models.optimistic_costs_arms(ids, counts, sums, stat, core, ranges, columns, W, K)


@kernel
def choose_lazily_and_step(ridge, c, ids, J, W, w, core, workspace):
    """One decision on a ridge reward model, computing only the widths that could change it; moves the queue, returns the row."""
    _, _, _, _, bounds, penalty, rewards, values, fresh = workspace
    at = offered_rows(ridge, c, ids, J)
    phi = ridge.rows if at >= 0 else ridge.buffer
    one_row = ridge.per_context == 1
    n = ids.shape[0]
    K = int(core[layout.CONSTRAINTS])
    V_t, eps_t = step.schedule_values(core)
    root_beta = models.ridge_bonus(ridge.flat, core)
    bounds = bounds[c * J : (c + 1) * J]
    least = models.least_reward(core)
    candidates = Candidates(
        n, ridge.flat, phi, max(0, at), one_row, ids, root_beta, least, penalty, V_t, bounds, rewards, values, fresh
    )  # fmt: skip
    step.penalties(W, w, core, layout.QUEUE, K, n, penalty, 0)
    for j in range(n):
        # r̂ is at most 1.
        values[j] = step.pseudo_action_value(1.0, penalty[j], V_t)
        fresh[j] = False
    top = make_highest_bound_exact(candidates)
    tighten_bounds(top, candidates)
    row = best_candidate(top, candidates)
    step.queue_step(W, w + row * K, eps_t, core)
    return row


@inlined
def model_learn(model, c, a, Y, core, workspace):
    if model.kind == layout.RIDGE_MODEL:
        rows, per_context, flat, _ = model.ridge
        p = int(flat[layout.FEATURES])
        x = (c * per_context + (a if per_context > 1 else 0)) * p
        g = a if flat[layout.BLOCKS] > 1.0 else 0
        if models.ridge_learn(flat, g, rows, x, Y, 0, core, layout.scratch_at(core, p)):
            models.ridge_refresh(flat, g, workspace.inverse)
    elif model.kind == layout.ARM_MODEL:
        models.arms_learn(a, Y, model.arms.counts, model.arms.sums, model.arms.stat)
