"""One round of the shadow-price policy: what is on offer, prices, values, a choice, and what it moves.

`core` is the policy's state beside its models and its memory: a head of single numbers, then vectors of K. Use the names of
places with the module's name (`shadow.PRICE`), because other layouts use the same names.

The price of rule k has three parts, λ_k = [p_k + q_k + f_k]⁺: the shadow price p of the allocation program on remembered rounds;
the feedback f = (T + b)/V of the running total T, which is steered to −b; and q, what the feedback had to add in the long run.
Units are the program's own: m_k is the typical size of a cost that can be chosen, `moved` how far T has moved so far (the square
root of a sum of squares), ρ the typical difference between the rewards of a round. V = GAIN·moved·m/ρ is a gain in price units,
b = caution · √(moved·m) is `caution` standard deviations of T under that gain, and more where T was seen to rise further
(`wander`). From −WALL·b on a convex potential Φ rises: an action pays for its step on Φ, and one that leads back is credited. An
action whose known costs would lead T across 0 is not taken where another keeps all such totals at or below 0.
Without caution there is neither.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.draws import uniforms
from tightrope.kernels.exact_sums import total_after
from tightrope.kernels.linear_algebra import inner
from tightrope.kernels.look_ahead import look_ahead, look_room
from tightrope.kernels.rare import predict_rewards
from tightrope.kernels.shadow_trace import (
    best_mean,
    draw_values,
    trace_parts,
)
from tightrope.kernels.standardised import (
    SMALLEST,
    ZERO,
    predict_costs,
    predictions_room,
)
from tightrope.kernels.wander import is_above, rise_after, widened, window_ends
from tightrope.validation import LARGEST

# the head of core
(
    CONSTRAINTS,  # K
    ROUNDS,
    SOLVES,  # prices solved for so far
    RHO,  # ρ in force, 1 before the first solve
    EXPLORE,
    CAUTION,
    GUARD,
    CAPACITY,  # how many rounds are remembered at most; −memory until the first offer shows how large they are
    REMEMBERED,
    SLOT,  # where the current round enters the memory, −1 if it does not
    MARK,  # its fingerprint
    NEXT_SOLVE,  # the round in which the next solve starts
    LEAST_CHANCE,  # the probability with which the action is any that takes no total above 0
    AVOIDABLE,  # rounds whose action led a known total above 0, though another on offer would have led none there
    RECALL,  # a full memory takes a round with at least this probability for each round it holds
    CHANGED,  # the last round after which the world was found to have changed
    CHANGES,  # how often it was
) = range(17)
HEAD = 17
# vectors of K: known cumulative costs and the rests of these sums (`exact_sums`), estimates booked for outcomes to come,
# Σ mean size, Σ mean square size and Σ of realised squares; shadow price, correction, the clock of the correction, whether the rule
# can't be met, whether it is seen before acting; the present rise of the total, the highest of this window of rounds and of the one
# before (`wander`), and how it is paced; then the half-life, if there is one
TOTALS, RESTS, BOOKED, SIZE, SQUARE, MOVED, PRICE, CORRECTION, CLOCK, INFEASIBLE, KNOWN = range(11)
RISE, HIGHEST, EARLIER, PACING = range(11, 15)
VECTORS = 15

# How a rule is paced: not at all, since its total has no end; by a price that is set before each decision and stands by itself; or
# by such a price, and no action takes its total, that of the window in progress, above 0 unless all do.
NOT_PACED, PRICED, STOPPED = 0.0, 1.0, 2.0

GAIN = 4.0
# With a half-life, a total is at most this many typical costs away from 0: further away makes no difference.
MOST_STEPS = 1e30
# The wall starts at this fraction of the buffer below 0.
WALL = 0.6
# The lasting part of the feedback is carried over within this many √clock rounds, and halved when a new price comes.
CARRY, CARRY_KEPT = 64.0, 0.5
# Draws of unknown costs: their fraction of a standard deviation, and the least fraction of that if there is no slack.
COST_DRAWS, LEAST_DRAWS = 0.7, 0.4
# Until one is seen, rewards and costs without a declared range are assumed to be about 1. The first reward is the unit from then
# on; for costs, a guess that is off by more than this factor is dropped.
UNIT_OFF = 100.0
# Old rounds fade: a full memory takes the current one with probability FADE · capacity / t, or with a half-life capacity · ln 2 /
# half-life if that is more; each of them then leaves at that rate. Prices are solved again at least this often in a half-life.
FADE = 2.0
LN2, SOLVES_IN_HALF_LIFE = math.log(2.0), 4.0
# Prices are at most this many ρ/m; a rule can't be met if its price is there, enough rounds are remembered and its mean cost is
# this many standard errors above 0.
CAP, AT_CAP, ENOUGH_ROUNDS, ERRORS_ABOVE = 20.0, 0.999, 8.0, 2.0
# ρ falls to no less than this fraction of itself in one solve.
LEAST_RHO = 1e-9
# Rewards that differ by less than this fraction of the largest are the same.
SAME = 1e-12
# The excess of any action that is above zero at all.
LEAST_EXCESS = 1e-300
# The slots of a round's draws besides those of its values: whether and where it enters the memory, whether its action is any, and
# those of a solve that starts in it.
MEMORY_SLOT, LEAST_SLOT, SOLVE_SLOT = 0, 2**31 - 1, 2**31
# How many numbers all remembered rounds may take together, and the least number of rounds.
MOST_NUMBERS, LEAST_CAPACITY = 4_000_000, 64
# The multiplications of a solve that a decision may wait for, about half a millisecond; how many of these budgets the last one
# may use; the usual number of passes in a solve; and what a row of a pass takes beside its products
BUDGET, LAST_BUDGETS, USUAL_PASSES, ROW_WORK = 500_000.0, 20.0, 24.0, 24.0


def new_core(K, explore, caution, memory, guard, known, half_life=None, least_chance=0.0, paced=NOT_PACED):
    """The state before the first round; `paced` says how each rule is."""
    core = np.zeros(HEAD + VECTORS * K + (half_life is not None))
    core[[CONSTRAINTS, RHO, EXPLORE, CAUTION, GUARD]] = K, 1.0, explore, caution, guard
    core[[CAPACITY, SLOT, NEXT_SOLVE, LEAST_CHANCE]] = -memory, -1.0, 2.0, least_chance
    if half_life is not None:
        core[-1] = half_life
    vector(core, KNOWN)[:] = known
    vector(core, PACING)[:] = paced
    return core


def vector(core, which):
    """A view on one of the vectors."""
    K = int(core[CONSTRAINTS])
    return core[HEAD + which * K : HEAD + (which + 1) * K]


@inlined
def at(core, which):
    """The address of one of the vectors."""
    return HEAD + which * int(core[CONSTRAINTS])


@inlined
def half_life(core):
    """Rounds after which what was remembered and measured counts half; ∞ if it always counts in full."""
    return core[at(core, VECTORS)] if core.shape[0] > at(core, VECTORS) else math.inf


ENTERS, CHOOSE = -2, np.int64(-1)


def room_size(J, K, q):
    """How much room `decide` needs for J actions, K constraints and models of at most q numbers per row."""
    return J * K + max(predictions_room(q, max(1, K)), look_room(q)) + 3 * K + 8


MARKS = np.modf(0.6180339887498949 * np.arange(1, 1025) ** 2)[0] + 0.5


@kernel
def fingerprint(x, y, marks):
    """A number that equal pairs of arrays share, and different ones hardly ever do; marks: MARKS."""
    total = 0.0
    n = marks.shape[0]
    for i in range(0, x.shape[0], n):
        total += inner(x, i, marks, 0, min(n, x.shape[0] - i)) * (1.0 + i)
    for i in range(0, y.shape[0], n):
        total -= inner(y, i, marks, 0, min(n, y.shape[0] - i)) * (1.5 + i)
    return total


# One round


@kernel
def decide(
    features, cost_features, ids, W, reward, reward_spread, cost, cost_spread, columns, idle, core, trace, x, z, seed, room
):  # fmt: skip
    """One decision with compiled models: the row; its φ into x, its ψ and the costs booked for it into z. −1: not valid.

    ENTERS − row if the round enters the memory. W (J, K) has the costs seen before acting in their columns; `columns`
    are the other columns, which are set to 0; those in `idle` do not count in this round.
    """
    J = ids.shape[0]
    K = int(core[CONSTRAINTS])
    phi = features.reshape(features.size)
    psi = cost_features.reshape(cost_features.size)
    costs = W.reshape(W.size)
    late = columns.shape[0]
    if costs.shape[0] == J * K:
        for i in range(late):
            for j in range(J):
                costs[j * K + columns[i]] = 0.0
    if costs.shape[0] != J * K or not known_are_small(costs, J, core) or not rows_fit(phi, reward, J):
        return -1
    if late > 0 and not rows_fit(psi, cost, J):
        return -1
    q = int(reward[1])
    one_row = phi.shape[0] == q - 1 and J != 1
    free = room[J * K :]
    _, deviations, _, _, W_at, _ = trace_parts(J, K)
    for i in range(J * K):
        trace[W_at + i] = costs[i]
        room[i] = 0.0
    predict_rewards(reward, reward_spread, phi, ZERO, one_row, ids, trace, ZERO, deviations, free)
    if late > 0:
        one_cost_row = psi.shape[0] == int(cost[1]) - 1 and J != 1
        predict_costs(
            cost, cost_spread, psi, ZERO, one_cost_row, ids, columns, trace, W_at, room, ZERO, K, free
        )
        for i in range(idle.shape[0]):
            for j in range(J):
                trace[W_at + j * K + idle[i]] = 0.0
                room[j * K + idle[i]] = 0.0
    row = step(J, room, core, trace, seed, CHOOSE)
    look_ahead(reward, reward_spread, phi, ZERO, one_row, ids, best_mean(J, K, trace), free)
    p = q - 1
    first = 0 if one_row else row * p
    for i in range(p):
        x[i] = phi[first + i]
    if late > 0:
        p = int(cost[1]) - 1
        first = 0 if one_cost_row else row * p
        for i in range(p):
            z[i] = psi[first + i]
        for i in range(late):
            z[p + i] = trace[W_at + row * K + columns[i]]
    return entering(row, phi, costs, core)


@kernel
def decide_known(features, ids, W, reward, reward_spread, core, trace, x, seed, room):
    """`decide` if all costs are seen before acting."""
    J = ids.shape[0]
    K = int(core[CONSTRAINTS])
    phi = features.reshape(features.size)
    costs = W.reshape(W.size)
    if costs.shape[0] != J * K or not rows_fit(phi, reward, J):
        return -1
    if not inner(costs, 0, costs, 0, J * K) < LARGEST * LARGEST:
        return -1
    p = int(reward[1]) - 1
    one_row = phi.shape[0] == p and J != 1
    _, deviations, _, _, W_at, _ = trace_parts(J, K)
    for i in range(J * K):
        trace[W_at + i] = costs[i]
        room[i] = 0.0
    predict_rewards(reward, reward_spread, phi, ZERO, one_row, ids, trace, ZERO, deviations, room[J * K :])
    row = step(J, room, core, trace, seed, CHOOSE)
    look_ahead(reward, reward_spread, phi, ZERO, one_row, ids, best_mean(J, K, trace), room[J * K :])
    first = 0 if one_row else row * p
    for i in range(p):
        x[i] = phi[first + i]
    return entering(row, phi, costs, core)


@inlined
def entering(row, phi, costs, core):
    """The row, or ENTERS − row if the round enters the memory, with its fingerprint in core."""
    if core[SLOT] < 0.0:
        return row
    core[MARK] = fingerprint(phi, costs, MARKS)
    return ENTERS - row


@inlined
def rows_fit(phi, flat, J):
    """Whether phi holds a model's features, none too large: a row for each of J actions, or one for all if each has a block."""
    p = int(flat[1]) - 1
    if phi.shape[0] != J * p and not (phi.shape[0] == p and flat[0] > 1.0):
        return False
    return inner(phi, 0, phi, 0, phi.shape[0]) < LARGEST * LARGEST


@inlined
def known_are_small(costs, J, core):
    """Whether the costs seen before acting are small enough."""
    K = int(core[CONSTRAINTS])
    known = at(core, KNOWN)
    bad = 0
    for j in range(J):
        for k in range(K):
            bad += core[known + k] != 0.0 and not abs(costs[j * K + k]) < LARGEST
    return bad == 0


@kernel
def step(J, spreads, core, trace, seed, forced):
    """One round after predictions are in trace (r̂, their deviations and the costs) and in spreads (J, K): returns the row.

    Moves scales, correction, totals and bookings, counts the round, and says where it enters the memory. `forced` is the row
    if somebody else chose it, otherwise −1.
    """
    weigh(J, spreads, core, trace)
    row = draw_values(J, int(core[CONSTRAINTS]), trace, seed, core[ROUNDS])
    row = any_row(J, core, trace, row, seed)
    if forced >= 0:
        row = forced
    count(J, spreads, core, trace, row, seed)
    return row


@inlined
def weigh(J, spreads, core, trace):
    """The first part of `step`: count the round, set prices; values' means and deviations, and which actions may be taken."""
    K = int(core[CONSTRAINTS])
    means, deviations, _, marks, W, rules = trace_parts(J, K)
    core[ROUNDS] += 1.0
    if K > 0:
        measure(J, spreads, core, trace, W)
        set_prices(core, trace, rules)
    explore = core[EXPLORE]
    open_rows = 0
    for j in range(J):
        above = 0
        mean = trace[j]
        s = explore * trace[deviations + j]
        variance = s * s
        for k in range(K):
            w = trace[W + j * K + k]
            price = trace[rules + k]
            mean -= price * w
            start = trace[rules + 4 * K + k]
            T = trace[rules + 3 * K + k]
            slope = trace[rules + 5 * K + k]
            if slope > 0.0:
                mean -= slope * (wall(T + w, start) - wall(T, start))
            # A rule that seems impossible to meet is given up only where its total is above 0.
            if is_above(T + w, start) and start > 0.0 and (slope > 0.0 or not is_above(T, start)):
                above += core[at(core, KNOWN) + k] != 0.0
            above += core[at(core, PACING) + k] == STOPPED and T + w > 0.0
            if spreads[j * K + k] > 0.0:
                s = explore * draw_scale(core, trace, rules, k) * price * spreads[j * K + k]
                variance += s * s
        trace[means + j] = mean
        trace[deviations + j] = math.sqrt(variance)
        trace[marks + j] = 0.0 if above > 0 else 1.0
        open_rows += above == 0
    if (core[GUARD] != 0.0 and K > 0) or open_rows == 0:
        keep_least_excess(J, core, trace)
    if core[LEAST_CHANCE] > 0.0:
        share_least_chance(J, spreads, core, trace)


@inlined
def may_stop(core, k):
    """Whether this rule may: one that is paced so, or with the guard on one that is known before acting."""
    pacing = core[at(core, PACING) + k]
    return pacing == STOPPED or (
        core[GUARD] != 0.0 and pacing == NOT_PACED and core[at(core, KNOWN) + k] != 0.0
    )


@inlined
def count(J, spreads, core, trace, row, seed):
    """The last part of `step`: the costs of the row taken, and whether the round is remembered."""
    K = int(core[CONSTRAINTS])
    _, _, _, _, W, rules = trace_parts(J, K)
    ends = window_ends(core[ROUNDS], half_life(core))
    above = 0
    for k in range(K):
        w = trace[W + row * K + k]
        note_rise(core, k, w - spreads[row * K + k], trace[rules + 3 * K + k], trace[rules + 4 * K + k], ends)
        if core[at(core, KNOWN) + k] != 0.0:
            over = is_above(trace[rules + 3 * K + k] + w, trace[rules + 4 * K + k])
            above += over and core[at(core, PACING) + k] == NOT_PACED
            add_to_total(core, k, w)
        else:
            core[at(core, BOOKED) + k] += w
    if above > 0:
        core[AVOIDABLE] += none_above(J, core, trace)
    enter_memory(J, core, seed)


@kernel
def none_above(J, core, trace):
    """Whether an action on offer leads no total above 0, for rules known before acting."""
    K = int(core[CONSTRAINTS])
    _, _, _, _, W, rules = trace_parts(J, K)
    for j in range(J):
        above = 0
        for k in range(K):
            total = trace[rules + 3 * K + k] + trace[W + j * K + k]
            counts = core[at(core, KNOWN) + k] != 0.0 and core[at(core, PACING) + k] == NOT_PACED
            above += counts and is_above(total, trace[rules + 4 * K + k])
        if above == 0:
            return True
    return False


@inlined
def note_rise(core, k, step, total, start, ends):
    """Count a step of rule k, as far as it is sure; up only from where the total is steered to. ends: with it a window does."""
    rise, highest = at(core, RISE) + k, at(core, HIGHEST) + k
    core[rise] = rise_after(core[rise], step, WALL * total + start > 0.0)
    core[highest] = max(core[rise], core[highest])
    if ends:
        core[at(core, EARLIER) + k] = core[highest]
        core[highest] = 0.0


@inlined
def add_to_total(core, k, cost):
    """Count a cost of rule k that is now known."""
    total, rest = at(core, TOTALS) + k, at(core, RESTS) + k
    core[total], core[rest] = total_after(core[total], core[rest], cost)


@kernel
def measure(J, spreads, core, trace, W):
    """Measure how large the costs are that can be chosen, and for those known before acting how far they move the total."""
    K = int(core[CONSTRAINTS])
    size, square, moved, known = at(core, SIZE), at(core, SQUARE), at(core, MOVED), at(core, KNOWN)
    if half_life(core) < math.inf:
        kept = math.exp(-LN2 / half_life(core))
        for which in (SIZE, SQUARE, MOVED, CLOCK):
            for k in range(K):
                core[at(core, which) + k] *= kept
    for k in range(K):
        sizes = 0.0
        squares = 0.0
        for j in range(J):
            w = trace[W + j * K + k]
            s = spreads[j * K + k]
            s2 = w * w + s * s
            squares += s2
            sizes += math.sqrt(s2)
        core[size + k] += sizes / J
        core[square + k] += squares / J
        if core[known + k] != 0.0:
            core[moved + k] += squares / J


@inlined
def typical_size(core, k):
    """m of rule k; 0 if it has never cost anything, or less than SMALLEST."""
    size = core[at(core, SIZE) + k]
    m = core[at(core, SQUARE) + k] / size if size > SMALLEST else 0.0
    return m if m > SMALLEST else 0.0


@kernel
def set_prices(core, trace, rules):
    """λ, p, q, T, z and ρ/m of every rule into trace; moves the correction q."""
    K = int(core[CONSTRAINTS])
    rho = core[RHO]
    for k in range(K):
        m = typical_size(core, k)
        paced = core[at(core, PACING) + k] != NOT_PACED
        total = core[at(core, TOTALS) + k] + (0.0 if paced else core[at(core, BOOKED) + k])
        p = core[at(core, PRICE) + k]
        correction = at(core, CORRECTION) + k
        price = p if paced else 0.0
        start = 0.0
        slope = 0.0
        if m > 0.0 and not paced:
            moved2 = max(core[at(core, MOVED) + k], core[at(core, SQUARE) + k])
            moved = math.sqrt(moved2)
            buffer = buffer_of(core, k, m)
            feedback = (total + buffer) * rho / (GAIN * moved * m)
            most = MOST_STEPS * rho / m
            feedback = max(-most, min(most, feedback))
            unmet = core[at(core, INFEASIBLE) + k] != 0.0
            if unmet:
                feedback = min(feedback, 0.0)
            passed = moved2 - core[at(core, CLOCK) + k]
            core[at(core, CLOCK) + k] = moved2
            q = max(-p, core[correction] + feedback * passed / (CARRY * moved * m))
            core[correction] = min(q, 0.0) if unmet else q
            price = max(0.0, p + core[correction] + feedback)
            start = WALL * buffer
            slope = 0.0 if unmet or start == 0.0 else rho / m
        trace[rules + k] = price
        trace[rules + K + k] = p
        trace[rules + 2 * K + k] = core[correction]
        trace[rules + 3 * K + k] = total
        trace[rules + 4 * K + k] = start
        trace[rules + 5 * K + k] = slope


@kernel
def buffer_of(core, k, m):
    """b: `caution` standard deviations of the total, as it fluctuates under the gain V, and at least what it was seen to rise."""
    square = core[at(core, SQUARE) + k]
    moved = core[at(core, MOVED) + k]
    noise = math.sqrt(max(1.0, moved / square))
    buffer = core[CAUTION] * noise * math.sqrt(math.sqrt(max(moved, square)) * m)
    return widened(buffer, core[CAUTION], max(core[at(core, HIGHEST) + k], core[at(core, EARLIER) + k]))


@inlined
def wall(s, start):
    """Φ(s) = ½ z (s/z + 1)₊², z = start."""
    u = min(MOST_STEPS, max(0.0, s / start + 1.0))
    return 0.5 * start * u * u


@inlined
def draw_scale(core, trace, rules, k):
    """How much of its deviation an unknown cost is drawn with: least where the total is near 0."""
    K = int(core[CONSTRAINTS])
    start = trace[rules + 4 * K + k]
    slack = abs(trace[rules + 3 * K + k]) * WALL / start if start > 0.0 else 1.0
    return COST_DRAWS * min(1.0, max(LEAST_DRAWS, slack))


@kernel
def keep_least_excess(J, core, trace):
    """Mark the actions that take no total above 0, for rules that may stop one; if there are none, those with the least sum.

    Each rule counts in its own size. Totals are compared exactly: nothing above zero is forgiven.
    """
    K = int(core[CONSTRAINTS])
    _, _, _, marks, W, _ = trace_parts(J, K)
    least = math.inf
    for j in range(J):
        excess = 0.0
        for k in range(K):
            if may_stop(core, k):
                total, rest = at(core, TOTALS) + k, at(core, RESTS) + k
                over, _ = total_after(core[total], core[rest], trace[W + j * K + k])
                if over > 0.0:
                    m = typical_size(core, k)
                    excess += max(LEAST_EXCESS, over / m if m > 0.0 else over)
        trace[marks + j] = excess
        least = min(least, excess)
    for j in range(J):
        trace[marks + j] = 1.0 if trace[marks + j] <= least else 0.0


@kernel
def share_least_chance(J, spreads, core, trace):
    """Mark the actions that share the least chance with their part of it; if there are none, nothing changes."""
    K = int(core[CONSTRAINTS])
    marks = trace_parts(J, K)[3]
    n = 0
    for j in range(J):
        n += trace[marks + j] != 0.0 and keeps_totals(J, K, j, spreads, trace)
    share = core[LEAST_CHANCE] / max(1, n)
    for j in range(J):
        if share > 0.0 and trace[marks + j] != 0.0 and keeps_totals(J, K, j, spreads, trace):
            trace[marks + j] = share


@inlined
def keeps_totals(J, K, j, spreads, trace):
    """Whether action j takes no total above 0, nor one up that is there; unknown costs count one standard deviation more."""
    _, _, _, _, W, rules = trace_parts(J, K)
    above = 0
    for k in range(K):
        w = trace[W + j * K + k] + spreads[j * K + k]
        above += w > 0.0 and trace[rules + 3 * K + k] + w > 0.0
    return above == 0


@kernel
def any_row(J, core, trace, row, seed):
    """With the least chance, any of the rows that share it, each as likely as the others; otherwise `row`."""
    if core[LEAST_CHANCE] == 0.0:
        return row
    u, v = uniforms(seed, 0, core[ROUNDS], LEAST_SLOT)
    if u >= core[LEAST_CHANCE]:
        return row
    marks = trace_parts(J, int(core[CONSTRAINTS]))[3]
    n = 0
    for j in range(J):
        n += 0.0 < trace[marks + j] < 1.0
    left = math.floor(v * n)
    for j in range(J):
        if 0.0 < trace[marks + j] < 1.0:
            if left == 0:
                return j
            left -= 1
    return row


@kernel
def enter_memory(J, core, seed):
    """Where the current round enters the memory, into core[SLOT]; −1 if it does not."""
    K = int(core[CONSTRAINTS])
    core[SLOT] = -1.0
    if K == 0:
        return
    if core[CAPACITY] < 0.0:
        core[CAPACITY] = capacity(core, J)
    if core[REMEMBERED] < core[CAPACITY]:
        core[SLOT] = core[REMEMBERED]
        core[REMEMBERED] += 1.0
        return
    u, v = uniforms(seed, 0, core[ROUNDS], MEMORY_SLOT)
    recalled = u * (core[ROUNDS] - core[CHANGED]) < FADE * core[CAPACITY] or u < core[RECALL] * core[CAPACITY]
    if recalled or u * half_life(core) < LN2 * core[CAPACITY]:
        core[SLOT] = math.floor(v * core[CAPACITY])


@kernel
def capacity(core, J):
    """How many rounds are remembered if they are as large as one with J actions."""
    most = max(LEAST_CAPACITY, MOST_NUMBERS // (J * (1 + int(core[CONSTRAINTS]))))
    return min(-core[CAPACITY], float(most), rounds_worth_keeping(core))


@kernel
def rounds_worth_keeping(core):
    """How many rounds a memory may hold so that, with one more in each round, half of them are younger than the half-life."""
    rounds = half_life(core) / LN2
    return max(float(LEAST_CAPACITY), rounds - rounds % 1.0) if rounds < math.inf else math.inf


@kernel
def rounds_that_count(core):
    """How many rounds the measurements rest on: all, or with a half-life the sum of their weights."""
    rate = LN2 / half_life(core)
    return math.expm1(-rate * core[ROUNDS]) / math.expm1(-rate) if rate > 0.0 else core[ROUNDS]
