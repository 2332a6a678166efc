"""Where every number is in the flat arrays that kernels read, and the codes that they understand.

No other module computes places in these arrays: it asks for a view by name, or for the address of a part. CUDA gets the same
numbers as macros.

core     the state of a policy beside its models: round counter, horizon, the constants of V_t and ε_t, K, then Q (K,),
         cumulative costs (K,), 1 where a cost is seen before acting (K,), the most that ε_t and the least that r̂ may be (±inf in
         the paper), and scratch space for intermediate results
flat     a ridge model: G blocks, p features, M outputs, `stat`, then Θ (G, M, p), Σ⁻¹ and Σ (G, p, p), b (G, M, p), wear (G, 2)
stat     of any model: outcomes learnt, bonus, m, λ, and the dimension in √β
trace    behind a decision: r̂ (J,), values (J,), W as used (J, K), Q before the step (K,), V_t, ε_t
tally    of a simulation: mean reward, drawn reward, drawn costs (K,), costs with the noise averaged out where the action can't
         depend on it (K,), choices (J,)
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from tightrope.kernels.compile import inlined
from tightrope.validation import VIOLATION as VIOLATION

# core
ROUNDS, HORIZON, V_SCALE, V_EXPONENT, V_LOG = range(5)
EPSILON_SCALE, EPSILON_EXPONENT, EPSILON_LOG, CONSTRAINTS, QUEUE = range(5, 10)
# flat
BLOCKS, FEATURES, OUTPUTS, STAT = range(4)
# stat
LEARNT, BONUS, NORM, RIDGE, DIMENSION = range(5)
STAT_SIZE = 5
# wear, of a block: updates since Σ⁻¹ was last recomputed, and how much of the allowed error is used up
SINCE, DRIFT = range(2)
WEAR_SIZE = 2
# tally
TALLY_MEAN_REWARD, TALLY_REWARD, TALLY_COSTS = range(3)

# Actions whose values differ by less than this fraction of the best are tied.
TIE = 1e-12
# How many rows a decision on a catalogue keeps the numbers of.
SHOWN = 10

# Kinds of noise, of models, of comparators
FIXED, BERNOULLI, GAUSSIAN = range(3)
NO_MODEL, RIDGE_MODEL, ARM_MODEL = range(3)
UNIFORM, STATIC, ROUND_ROBIN, OPB = range(4)
# The settings of OPB
OPB_THRESHOLD_ARM, OPB_SAFE_COST, OPB_HIGH, OPB_ALPHA_REWARD, OPB_ALPHA_COST, OPB_LOG = range(6)
OPB_SETTINGS = 6

# Philox4x32-10, and the slots of a round: 0 has two uniforms, for the context and for a Bernoulli reward; then one slot for each
# normal or jump.
PHILOX_M0, PHILOX_M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
PHILOX_W0, PHILOX_W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
PHILOX_ROUNDS = 10
TO_UNIT = 2.0**-53
CONTEXT_SLOT, GAUSSIAN_REWARD_SLOT, COST_SLOT = range(3)


@inlined
def tied_with(best):
    """The least value that ties with the best one: a fraction below it, so that the unit of the values does not matter."""
    return best - TIE * abs(best) if abs(best) < math.inf else best


@inlined
def totals_at(core):
    return QUEUE + int(core[CONSTRAINTS])


@inlined
def known_at(core):
    return QUEUE + 2 * int(core[CONSTRAINTS])


@inlined
def limits_at(core):
    """The address in core of the most that ε_t may be; the least that r̂ may be comes next."""
    return QUEUE + 3 * int(core[CONSTRAINTS])


@inlined
def scratch_at(core, p):
    return core.shape[0] - scratch_size(p)


@inlined
def scratch_size(p):
    """Eight rows of p features as columns, as many partial sums, their eight widths, and one outcome."""
    return 16 * p + 9


@inlined
def scratch_parts(r, p):
    """The addresses of columns, partial sums and widths in the scratch space at r."""
    return r, r + 8 * p, r + 16 * p


@inlined
def outcome_at(core):
    return core.shape[0] - 1


def new_core(K, p, horizon, V, epsilon, known, limits=(math.inf, -math.inf)):
    """A policy's state before its first round; V and epsilon are scale, exponent and power of the logarithm, horizon 0 for none."""
    core = np.zeros(QUEUE + 3 * K + len(limits) + scratch_size(p))
    core[:QUEUE] = [0.0, horizon, *V, *epsilon, K]
    views = core_views(core)
    views.known[:], views.limits[:] = known, limits
    return core


CoreViews = namedtuple("CoreViews", "V epsilon queue totals known limits saved")


def core_views(core):
    K = int(core[CONSTRAINTS])
    totals, known, end = QUEUE + K, QUEUE + 2 * K, QUEUE + 3 * K
    return CoreViews(
        core[V_SCALE : V_LOG + 1],
        core[EPSILON_SCALE : EPSILON_LOG + 1],
        core[QUEUE:totals],
        core[totals:known],
        core[known:end],
        core[end : end + 2],
        core[:end],
    )


def carry_over(old, names, new, new_names):
    """Copy the rounds of one core into another, and by name the queues and cumulative costs of constraints that both have."""
    new[ROUNDS] = old[ROUNDS]
    was, now = core_views(old), core_views(new)
    for k, name in enumerate(new_names):
        if name in names:
            at = names.index(name)
            now.queue[k], now.totals[k] = was.queue[at], was.totals[at]


# flat


@inlined
def ridge_stat(flat):
    """Outcomes learnt, bonus, m, λ, and the dimension in √β."""
    s = STAT
    return flat[s + LEARNT], flat[s + BONUS], flat[s + NORM], flat[s + RIDGE], flat[s + DIMENSION]


@inlined
def ridge_parts(flat):
    """G, p, M, and the addresses in flat of Θ, Σ⁻¹, Σ, b and wear; stat is at STAT."""
    G = int(flat[BLOCKS])
    p = int(flat[FEATURES])
    M = int(flat[OUTPUTS])
    theta = STAT + STAT_SIZE
    inverse = theta + G * M * p
    sigma = inverse + G * p * p
    b = sigma + G * p * p
    return G, p, M, theta, inverse, sigma, b, b + G * M * p


RidgeViews = namedtuple("RidgeViews", "stat Theta Sigma_inv Sigma B wear")


def new_ridge(G, p, M):
    """`flat` for this many blocks, features and outputs; everything else is 0."""
    head = np.array([G, p, M], dtype=float)
    wear = ridge_parts(head)[-1]
    return np.concatenate([head, np.zeros(wear + WEAR_SIZE * G - len(head))])


def ridge_views(flat):
    G, p, M, theta, inverse, sigma, b, wear = ridge_parts(flat)
    return RidgeViews(
        flat[STAT:theta],
        flat[theta:inverse].reshape(G, M, p),
        flat[inverse:sigma].reshape(G, p, p),
        flat[sigma:b].reshape(G, p, p),
        flat[b:wear].reshape(G, M, p),
        flat[wear:].reshape(G, WEAR_SIZE),
    )


@inlined
def trace_parts(J, K):
    """The addresses in trace of values, W, Q, V_t and ε_t; r̂ comes first."""
    queue = 2 * J + J * K
    return J, 2 * J, queue, queue + K, queue + K + 1


def trace_size(J, K):
    return trace_parts(J, K)[-1] + 1


TraceViews = namedtuple("TraceViews", "rewards values costs queue V epsilon")


def trace_views(trace, J):
    """Views on the trace of a decision among J actions, K from its length; V and epsilon are numbers."""
    K = (len(trace) - trace_size(J, 0)) // (J + 1)
    values, costs, queue, V, epsilon = trace_parts(J, K)
    return TraceViews(
        trace[:values],
        trace[values:costs],
        trace[costs:queue].reshape(J, K),
        trace[queue:V],
        float(trace[V]),
        float(trace[epsilon]),
    )


@inlined
def tally_parts(K):
    """The addresses in tally of drawn costs, mean costs and choices."""
    return TALLY_COSTS, TALLY_COSTS + K, TALLY_COSTS + 2 * K


def tally_size(J, K, separate=True):
    return tally_parts(K)[2 if separate else 1] + J


TallyViews = namedtuple("TallyViews", "mean_reward reward costs mean_costs counts")


def tally_views(tallies, J, K):
    """Views on tallies in the last axis; mean costs are the drawn ones if they have none of their own."""
    costs, means, _ = tally_parts(K)
    drawn, counts = tallies[..., costs:means], tallies.shape[-1] - J
    own = tallies[..., means:counts] if counts > means or K == 0 else drawn
    rewards = tallies[..., TALLY_MEAN_REWARD], tallies[..., TALLY_REWARD]
    return TallyViews(*rewards, drawn, own, tallies[..., counts:])


# The GPU. `packed` is for the kernel that gives each replication one thread: triangles of Σ⁻¹, and values derived from the
# counts and sums of arms stored beside them.

STEP_COLUMNS = ("inverse_V", "eps", "reward_bonus", "cost_bonus")
# 1/√N of an arm without an outcome: its width exceeds every limit.
UNSEEN = 1e30


def cuda_constants():
    """Macros for everything that does not depend on the shape of a problem."""
    names = (
        "TIE VIOLATION FIXED BERNOULLI GAUSSIAN NO_MODEL RIDGE_MODEL ARM_MODEL UNIFORM STATIC ROUND_ROBIN OPB TO_UNIT"
        " PHILOX_M0 PHILOX_M1 PHILOX_W0 PHILOX_W1 PHILOX_ROUNDS CONTEXT_SLOT GAUSSIAN_REWARD_SLOT COST_SLOT"
        " TALLY_MEAN_REWARD TALLY_REWARD TALLY_COSTS"
        " OPB_THRESHOLD_ARM OPB_SAFE_COST OPB_HIGH OPB_ALPHA_REWARD OPB_ALPHA_COST OPB_LOG"
    )
    values = {name: globals()[name] for name in names.split()}
    return {
        **{name: f"{v:#x}u" if isinstance(v, np.uint64) else repr(v) for name, v in values.items()},
        "STEP_COLUMNS": ", ".join(STEP_COLUMNS),
        "PADDED(n)": "(((n) + 3) / 4 * 4)",
        "TRIANGLE(n)": "((n) * ((n) + 1) / 2)",
        "ARM_COUNT(j)": "(j)",
        "ARM_SPREAD(j)": "(J + (j))",
        "ARM_SUM(j, m, M)": "(2 * J + (j) * (M) + (m))",
        "ARM_MEAN(j, m, M)": "((2 + (M)) * J + (j) * (M) + (m))",
        "BLOCK_ARM_SUM(j, m, M)": "(J + (j) * (M) + (m))",
    }


def cuda_tally(J, K, separate):
    size = tally_size(J, K, separate)
    _, means, _ = tally_parts(K)
    places = {"TALLY_MEAN_COSTS": means, "TALLY_CHOICES": size - J}
    return {"SEPARATE_MEANS": int(separate), "FIELDS": size, **places}


def cuda_models(sizes):
    """Macros for the models of reward and costs, one after the other; for each, the size of its Σ⁻¹ and of the whole model."""
    (inverse, reward), (cost_inverse, cost) = sizes
    costs = {"COST_AT": reward, "COST_THETA_AT": reward + cost_inverse}
    return {"REWARD_AT": 0, "REWARD_THETA_AT": inverse, **costs, "STATE": reward + cost}


def cuda_block(J, K, state, features, itemsize):
    """Macros for the memory of a block that runs one replication: doubles, then numbers in the estimates' precision."""
    doubles = {
        "VALUES": J, "COSTS": J * K, "QUEUE": K, "TOTALS": K, "MEAN_TOTALS": K, "LAST_VIOLATION": K, "CHOICES": J
    }  # fmt: skip
    at, macros = 0, {}
    for name, size in doubles.items():
        macros[f"WORK_{name}"] = at
        at += size
    drawn = state + features
    macros |= {"WORK_REALS": at, "REALS_PRODUCT": state, "REALS_DRAWN": drawn}
    return macros | {"WORK": at + math.ceil((drawn + K) * itemsize / 8)}


def device_ridge_size(G, p, M, packed):
    """How many numbers Σ⁻¹ takes, and how many the whole model takes."""
    inverse = G * (p * (p + 1) // 2 if packed else p * p)
    return inverse, inverse + G * M * p


def device_arms_size(J, M, packed):
    """How many numbers the model takes; there is no Σ⁻¹."""
    return 0, J * (2 + 2 * M if packed else 1 + M)


def device_ridge(Sigma_inv, Theta, packed):
    inverse = Sigma_inv[(slice(None), *np.tril_indices(Sigma_inv.shape[1]))] if packed else Sigma_inv
    return np.concatenate([inverse.ravel(), Theta.ravel()])


def device_arms(counts, sums, packed):
    if not packed:
        return np.concatenate([counts, sums.ravel()])
    seen = np.maximum(counts, 1.0)
    spread = np.where(counts > 0, 1.0 / np.sqrt(seen), UNSEEN)
    return np.concatenate([counts, spread, sums.ravel(), (sums / seen[:, None]).ravel()])
