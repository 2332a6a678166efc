"""A table of many rows at once: passes over its rows at given prices, and the settling of single rows.

The n rows have J actions each, with a score r_ij (−inf where the action is not eligible) and costs. A limit l has Σ_i w_l(i, a_i) ≤
b_l. The K dense limits look at all rows: w_k(i, j) = weights[p, j, k] · u, where p is the pattern of the row (which groups it
belongs to) and u = 1, a usage, or whether j differs from what the row had before, as counts[k] says. The keyed limits are one for
each key of a rule: w(i, j) = keyed_weights[b, j] · u counts towards the limit keys[i, b] alone. With prices λ ≥ 0 the dual of the
allocation program is

    D(λ) = Σ_i max_j (r_ij − Σ_l λ_l w_l(i, j)) + Σ_l λ_l b_l,

an upper bound for what any allocation earns. Because prices are the same for all rows of a pattern, they are first summed into
`base` (P, J) and `rate` (P, U, J), so that a row takes J (1 + U) multiplications however many limits there are.
"""

from __future__ import annotations

import math
from collections import namedtuple

from tightrope.kernels.compile import inlined, released

# scores (n, J); usage (n, C); pattern (n,); keys (n, B): numbers of keyed limits, −1 for none; previous (n,): −1 for none
Rows = namedtuple("Rows", "scores usage pattern keys previous")
# weights (P, J, K); counts (K,) and keyed_counts (B,): a usage or one of the two below; keyed_weights (B, J);
# source (U, J): the column of a usage, or −1 where it is constant (U, J)
Book = namedtuple("Book", "weights counts keyed_weights keyed_counts source constant")
# base (P, J), rate (P, U, J), price (L,) of all limits, change: that of leaving the previous action
Prices = namedtuple("Prices", "base rate price change")
# head: Σ of the (smoothed) maxima, and how many rows changed; share (P, J), spent (P, U, J), keyed (Q,): what was chosen
Sums = namedtuple("Sums", "head share spent keyed")
# dense (K, K); own (Q,) and cross (Q, K) of keyed limits
Curvature = namedtuple("Curvature", "dense own cross")

DECISIONS, CHANGES = -1, -2
# Actions less likely than e^−24 are left out of the smoothed sums.
FAR = 24.0
# The quadratic model is minimised price by price, in at most this many sweeps, until no price moves by this much of its scale.
SWEEPS, STILL = 200, 1e-7


@inlined
def amount(rows, book, i, j, counted):
    """What action j of row i counts as: 1, its usage, or whether it is a change."""
    if counted == DECISIONS:
        return 1.0
    if counted == CHANGES:
        return 1.0 if rows.previous[i] >= 0 and rows.previous[i] != j else 0.0
    column = book.source[counted, j]
    return book.constant[counted, j] if column < 0 else float(rows.usage[i, column])


@inlined
def dense_cost(rows, book, i, j, k):
    weight = book.weights[rows.pattern[i], j, k]
    return 0.0 if weight == 0.0 else weight * amount(rows, book, i, j, book.counts[k])


@inlined
def keyed_cost(rows, book, i, j, b):
    weight = book.keyed_weights[b, j]
    return 0.0 if weight == 0.0 else weight * amount(rows, book, i, j, book.keyed_counts[b])


@inlined
def values_of_row(rows, book, prices, i, room):
    """r_ij − λ·w(i, j) into room (J,)."""
    J = rows.scores.shape[1]
    p = rows.pattern[i]
    for j in range(J):
        room[j] = rows.scores[i, j] - prices.base[p, j]
    for u in range(book.source.shape[0]):
        for j in range(J):
            column = book.source[u, j]
            used = book.constant[u, j] if column < 0 else float(rows.usage[i, column])
            room[j] -= prices.rate[p, u, j] * used
    for b in range(rows.keys.shape[1]):
        limit = rows.keys[i, b]
        if limit >= 0 and prices.price[limit] > 0.0:
            for j in range(J):
                room[j] -= prices.price[limit] * keyed_cost(rows, book, i, j, b)
    if prices.change > 0.0 and rows.previous[i] >= 0:
        for j in range(J):
            if j != rows.previous[i]:
                room[j] -= prices.change


@inlined
def add_choice(rows, book, i, j, share, sums, first):
    """Count action j of row i with a share; keyed limits begin with number `first`."""
    p = rows.pattern[i]
    sums.share[p, j] += share
    for u in range(book.source.shape[0]):
        column = book.source[u, j]
        used = book.constant[u, j] if column < 0 else float(rows.usage[i, column])
        sums.spent[p, u, j] += share * used
    for b in range(rows.keys.shape[1]):
        limit = rows.keys[i, b]
        if limit >= 0:
            sums.keyed[limit - first] += share * keyed_cost(rows, book, i, j, b)
    if rows.previous[i] >= 0 and rows.previous[i] != j:
        sums.head[1] += share


@released
def choose_rows(rows, book, prices, actions, margins, sums, room):
    """The best action of each row, by how much it is better than the next, and the sums of what is chosen; ties go to the first."""
    n, J = rows.scores.shape
    first = book.counts.shape[0]
    for i in range(n):
        values_of_row(rows, book, prices, i, room)
        best, second, at = -math.inf, -math.inf, 0
        for j in range(J):
            if room[j] > best:
                second, best, at = best, room[j], j
            elif room[j] > second:
                second = room[j]
        actions[i] = at
        margins[i] = best - second
        sums.head[0] += best
        add_choice(rows, book, i, at, 1.0, sums, first)


@released
def smooth_rows(rows, book, prices, tau, sums, curvature, room, costs):
    """The sums and the curvature of τ log Σ_j exp(value_j / τ), over the rows; costs (J, K + B) is room for those of one row."""
    n, J = rows.scores.shape
    K, B = book.counts.shape[0], rows.keys.shape[1]
    for i in range(n):
        values_of_row(rows, book, prices, i, room)
        best = -math.inf
        for j in range(J):
            best = max(best, room[j])
        total, live, last = 0.0, 0, 0
        for j in range(J):
            away = (room[j] - best) / tau
            if away > -FAR:
                room[j] = math.exp(away)
                total += room[j]
                live += 1
                last = j
            else:
                room[j] = 0.0
        sums.head[0] += best
        if live == 1:
            add_choice(rows, book, i, last, 1.0, sums, K)
            continue
        sums.head[0] += tau * math.log(total)
        for j in range(J):
            if room[j] > 0.0:
                room[j] /= total
                add_choice(rows, book, i, j, room[j], sums, K)
                for k in range(K):
                    costs[j, k] = dense_cost(rows, book, i, j, k)
                for b in range(B):
                    costs[j, K + b] = keyed_cost(rows, book, i, j, b)
        center_costs(room, costs, J, K + B)
        for j in range(J):
            if room[j] > 0.0:
                for k in range(K):
                    e = room[j] * costs[j, k]
                    if e != 0.0:
                        for m in range(k + 1):
                            curvature.dense[k, m] += e * costs[j, m]
                for b in range(B):
                    limit = rows.keys[i, b]
                    if limit >= 0:
                        e = room[j] * costs[j, K + b]
                        curvature.own[limit - K] += e * costs[j, K + b]
                        for k in range(K):
                            curvature.cross[limit - K, k] += e * costs[j, k]


@inlined
def center_costs(shares, costs, J, n):
    """Subtract from each of n costs its mean over the actions, weighted by their shares."""
    for k in range(n):
        mean = 0.0
        for j in range(J):
            if shares[j] > 0.0:
                mean += shares[j] * costs[j, k]
        for j in range(J):
            if shares[j] > 0.0:
                costs[j, k] -= mean


@released
def minimise_model(slope, dense, own, cross, point, cap, scale):
    """Move `point` (L,) to the least value of a quadratic model within 0 ≤ point ≤ cap, price by price; `slope` moves along.

    The curvature is `dense` (K, K) among dense limits, `own` (Q,) of keyed ones, and `cross` (Q, K) between the two. Returns how
    many sweeps it took.
    """
    K, Q = dense.shape[0], own.shape[0]
    sweeps = 0
    moved = math.inf
    while sweeps < SWEEPS and moved > STILL:
        sweeps += 1
        moved = 0.0
        for k in range(K):
            step = max(0.0, min(point[k] - slope[k] / dense[k, k], cap[k])) - point[k]
            if step != 0.0:
                point[k] += step
                moved = max(moved, abs(step) / scale[k])
                for m in range(K):
                    slope[m] += step * dense[k, m]
                for q in range(Q):
                    slope[K + q] += step * cross[q, k]
        for q in range(Q):
            step = max(0.0, min(point[K + q] - slope[K + q] / own[q], cap[K + q])) - point[K + q]
            if step != 0.0:
                point[K + q] += step
                moved = max(moved, abs(step) / scale[K + q])
                slope[K + q] += step * own[q]
                for k in range(K):
                    slope[k] += step * cross[q, k]
    return sweeps


@inlined
def change_of_excess(rows, book, i, j, a, used, limits, size):
    """By how much the sum of what is beyond the limits, in their sizes, grows when row i takes j instead of a."""
    K = book.counts.shape[0]
    change = 0.0
    for k in range(K):
        step = dense_cost(rows, book, i, j, k) - dense_cost(rows, book, i, a, k)
        if step != 0.0:
            change += (max(0.0, used[k] + step - limits[k]) - max(0.0, used[k] - limits[k])) / size[k]
    for b in range(rows.keys.shape[1]):
        at = rows.keys[i, b]
        if at >= 0:
            step = keyed_cost(rows, book, i, j, b) - keyed_cost(rows, book, i, a, b)
            if step != 0.0:
                change += (max(0.0, used[at] + step - limits[at]) - max(0.0, used[at] - limits[at])) / size[
                    at
                ]
    return change


@inlined
def move_row(rows, book, i, j, actions, used):
    """Row i takes j."""
    a = actions[i]
    for k in range(book.counts.shape[0]):
        used[k] += dense_cost(rows, book, i, j, k) - dense_cost(rows, book, i, a, k)
    for b in range(rows.keys.shape[1]):
        at = rows.keys[i, b]
        if at >= 0:
            used[at] += keyed_cost(rows, book, i, j, b) - keyed_cost(rows, book, i, a, b)
    actions[i] = j


@released
def repair_rows(rows, book, prices, actions, used, limits, size, dearest, room):
    """Move rows, in order, to the action that removes most of what is beyond the limits for its price.

    A move may lose at most `dearest` of priced value for each size of excess that it removes. Returns the excess removed.
    """
    removed = 0.0
    for i in range(actions.shape[0]):
        a = actions[i]
        chosen, least, gained = -1, dearest, 0.0
        valued = False
        for j in range(room.shape[0]):
            if j == a or rows.scores[i, j] == -math.inf:
                continue
            change = change_of_excess(rows, book, i, j, a, used, limits, size)
            if change < -1e-12:
                if not valued:
                    values_of_row(rows, book, prices, i, room)
                    valued = True
                rate = (room[a] - room[j]) / -change
                if rate <= least and (chosen < 0 or rate < least):
                    chosen, least, gained = j, rate, -change
        if chosen >= 0:
            move_row(rows, book, i, chosen, actions, used)
            removed += gained
    return removed


@released
def improve_rows(rows, book, actions, used, limits, least):
    """Move rows, in order, to the action with the highest score that no limit forbids, if it gains at least that much.

    Returns the sum of what was gained.
    """
    n, J = rows.scores.shape
    K = book.counts.shape[0]
    total = 0.0
    for i in range(n):
        a = actions[i]
        chosen, most = -1, least
        for j in range(J):
            gain = float(rows.scores[i, j]) - float(rows.scores[i, a])
            if not (gain > 0.0 and gain >= most and (chosen < 0 or gain > most)):
                continue
            fits = True
            for k in range(K):
                step = dense_cost(rows, book, i, j, k) - dense_cost(rows, book, i, a, k)
                if step > 0.0 and used[k] + step > limits[k]:
                    fits = False
                    break
            for b in range(rows.keys.shape[1]):
                at = rows.keys[i, b]
                if fits and at >= 0:
                    step = keyed_cost(rows, book, i, j, b) - keyed_cost(rows, book, i, a, b)
                    fits = not (step > 0.0 and used[at] + step > limits[at])
            if fits:
                chosen, most = j, gain
        if chosen >= 0:
            move_row(rows, book, i, chosen, actions, used)
            total += most
    return total
