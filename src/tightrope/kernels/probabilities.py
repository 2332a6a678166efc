"""The probability that each action has the largest of independent Gaussian values: exact, by quadrature.

P(j) = ∫ f_j(y) Π_{i≠j} F_i(y) dy. The line is cut where the values that can win have their mean ± {0, 2, 4, 7} standard deviations,
and each piece takes six Gauss–Legendre nodes: standard deviations may differ by any factor. A uniform grid would miss narrow ones.
The absolute error is below 1e−6, and usually of the order of 1e−8.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.layout import tied_with

# A value this many deviations below another's lower end can't win; where the line is cut; how close two cuts may be.
REACH = 7.0
CUTS = np.array([-7.0, -4.0, -2.0, 0.0, 2.0, 4.0, 7.0])
N_CUTS = 7
NEAREST = 0.25
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(6)
N_NODES = 6
LEAST = 1e-200


def probabilities_room(J):
    return 2 * N_CUTS * J + J


@kernel
def largest_probabilities(mean, sd, out, room):
    """P(value j is the largest) into out (J,), for independent N(mean_j, sd_j²); sd_j may be 0.

    Among equal values that do not vary the lowest row wins, as everywhere. The caller leaves out the values of actions that may not
    be chosen.
    """
    J = mean.shape[0]
    floor = -math.inf
    for j in range(J):
        out[j] = 0.0
        floor = max(floor, mean[j] - REACH * sd[j])
    # The best of the values that do not vary; `floor` is at least as high.
    fixed = -1
    varying = 0
    for j in range(J):
        if sd[j] > 0.0:
            if mean[j] + REACH * sd[j] >= floor:
                varying += 1
        elif fixed < 0 or tied_with(mean[j]) > mean[fixed]:
            fixed = j
    if fixed >= 0 and mean[fixed] < tied_with(floor):
        fixed = -1
    if varying == 0:
        out[fixed] = 1.0
        return
    pieces = cut_points(mean, sd, floor, room)
    products = 2 * N_CUTS * J
    for i in range(pieces - 1):
        low = room[i]
        half = 0.5 * (room[i + 1] - low)
        for node in range(N_NODES):
            y = low + half * (1.0 + NODES[node])
            add_node(mean, sd, floor, y, half * NODE_WEIGHTS[node], out, room, products)
    if fixed >= 0:
        below = 1.0
        for j in range(J):
            if sd[j] > 0.0:
                below *= normal_cdf((mean[fixed] - mean[j]) / sd[j])
        out[fixed] = below
    total = 0.0
    for j in range(J):
        total += out[j]
    if not total > 0.0:
        # Means so large that adding a deviation does not change them: no piece is left between floor and upper end.
        highest = mean[0]
        for j in range(1, J):
            highest = max(highest, mean[j])
        least = tied_with(highest)
        row = 0
        while mean[row] < least:
            row += 1
        for j in range(J):
            out[j] = 1.0 if j == row else 0.0
        return
    for j in range(J):
        out[j] /= total


@kernel
def allowed_probabilities(trace, mean, sd, mark, out, room):
    """The same into out (J,) for the values of a trace whose mark is not 0, by the addresses of means, deviations and marks.

    `room` has 3 · J numbers more than `largest_probabilities` needs.
    """
    J = out.shape[0]
    n = 0
    for j in range(J):
        if trace[mark + j] != 0.0:
            room[n] = trace[mean + j]
            room[J + n] = trace[sd + j]
            n += 1
    largest_probabilities(room[:n], room[J : J + n], room[2 * J : 2 * J + n], room[3 * J :])
    n = 0
    for j in range(J):
        out[j] = 0.0
        if trace[mark + j] != 0.0:
            out[j] = room[2 * J + n]
            n += 1


@inlined
def normal_cdf(z):
    return 0.5 * math.erfc(-0.7071067811865476 * z)


@kernel
def add_node(mean, sd, floor, y, weight, out, room, products):
    """weight · f_j(y) Π_{i≠j} F_i(y) into out[j], for the values that can win."""
    J = mean.shape[0]
    product = weight * 0.3989422804014327
    for j in range(J):
        if sd[j] > 0.0 and mean[j] + REACH * sd[j] >= floor:
            z = (y - mean[j]) / sd[j]
            F = 1.0 if z > 8.5 else max(normal_cdf(z), LEAST)
            room[products + j] = F
            product *= F
    if product == 0.0:
        return
    for j in range(J):
        if sd[j] > 0.0 and mean[j] + REACH * sd[j] >= floor:
            z = (y - mean[j]) / sd[j]
            if abs(z) < 8.5:
                out[j] += product * math.exp(-0.5 * z * z) / (room[products + j] * sd[j])


@kernel
def cut_points(mean, sd, floor, room):
    """The ends of the pieces in ascending order into room, and how many; from floor to the highest upper end.

    A cut is left out if there is already one within a quarter of its own value's deviation.
    """
    J = mean.shape[0]
    n = 1
    room[0] = floor
    room[1] = math.inf
    for j in range(J):
        if sd[j] > 0.0 and mean[j] + REACH * sd[j] >= floor:
            for c in range(N_CUTS):
                y = mean[j] + CUTS[c] * sd[j]
                if y > floor:
                    room[2 * n] = y
                    room[2 * n + 1] = sd[j]
                    n += 1
    sort_pairs(room, n)
    kept = 1
    for i in range(1, n):
        y = room[2 * i]
        if y - room[kept - 1] >= NEAREST * room[2 * i + 1]:
            room[kept] = y
            kept += 1
    return kept


@kernel
def sort_pairs(room, n):
    """Sort n pairs in ascending order of their first numbers (heapsort; ties by the second)."""
    for start in range(n // 2 - 1, -1, -1):
        sift(room, start, n)
    for end in range(n - 1, 0, -1):
        swap(room, 0, end)
        sift(room, 0, end)


@inlined
def swap(room, a, b):
    y, s = room[2 * a], room[2 * a + 1]
    room[2 * a], room[2 * a + 1] = room[2 * b], room[2 * b + 1]
    room[2 * b], room[2 * b + 1] = y, s


@inlined
def before(room, a, b):
    return room[2 * a] < room[2 * b] or (room[2 * a] == room[2 * b] and room[2 * a + 1] < room[2 * b + 1])


@kernel
def sift(room, root, n):
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and before(room, child, child + 1):
            child += 1
        if not before(room, root, child):
            return
        swap(room, root, child)
        root = child
