"""Trees grown by compiled code, as the flat arrays that `kernels.trees` walks.

A library for any kind of data spends a third of a millisecond on each tree before it looks at the first row. A model that grows a
thousand small trees while decisions wait can't afford that.
"""

from __future__ import annotations

import math

from tightrope.kernels.compile import released
from tightrope.kernels.draws import uniforms

# Takes the place of the replication, so that these draws share no block with others of the same seed.
STREAM = 0x74726565


@released
def grow_forest(
    x, y, w, seed, tries, least, most, order, features, begin, end, roots, feature, threshold, child, value
):
    """Extremely randomised trees (Geurts et al. 2006): the best of `tries` features, each cut at a random place.

    Rows x (n, d) with outcomes y count w times. Each tree is grown from at most `most` of them, until outcomes in a node are equal
    or a cut would leave fewer than `least` rows on a side. Their leaves sum up to their mean. Returns the number of nodes.
    """
    n, d = x.shape
    trees = roots.shape[0]
    free = 0
    for tree in range(trees):
        slot = 0
        for i in range(n):
            order[i] = i
        used = min(n, most)
        if used < n:
            for i in range(used):
                u, _ = uniforms(seed, STREAM, tree, slot)
                slot += 1
                j = i + int(u * (n - i))
                order[i], order[j] = order[j], order[i]
        roots[tree] = free
        begin[free], end[free] = 0, used
        node = free
        free += 1
        while node < free:
            first, last = begin[node], end[node]
            total, mass, low, high = 0.0, 0.0, math.inf, -math.inf
            for i in range(first, last):
                row = order[i]
                total += w[row] * y[row]
                mass += w[row]
                low, high = min(low, y[row]), max(high, y[row])
            feature[node], threshold[node], child[node] = 0, math.inf, -1
            value[node] = total / mass / trees
            best, best_feature, best_cut = -math.inf, -1, 0.0
            left, tried = d, 0
            while low < high and last - first >= 2 * least and left > 0 and tried < tries:
                u, v = uniforms(seed, STREAM, tree, slot)
                slot += 1
                at = int(u * left)
                left -= 1
                f = features[at]
                features[at], features[left] = features[left], f
                least_x, most_x = math.inf, -math.inf
                for i in range(first, last):
                    one = x[order[i], f]
                    least_x, most_x = min(least_x, one), max(most_x, one)
                if not least_x < most_x:
                    continue
                tried += 1
                cut = least_x + v * (most_x - least_x)
                if not cut < most_x:
                    cut = least_x
                part, part_mass, count = 0.0, 0.0, 0
                for i in range(first, last):
                    row = order[i]
                    if x[row, f] <= cut:
                        part += w[row] * y[row]
                        part_mass += w[row]
                        count += 1
                if min(count, last - first - count) < least:
                    continue
                gain = part * part / part_mass + (total - part) * (total - part) / (mass - part_mass)
                if gain > best:
                    best, best_feature, best_cut = gain, f, cut
            if best_feature >= 0:
                middle = _parted(x, order, first, last, best_feature, best_cut)
                feature[node], threshold[node], child[node], value[node] = best_feature, best_cut, free, 0.0
                begin[free], end[free], begin[free + 1], end[free + 1] = first, middle, middle, last
                free += 2
            node += 1
    return free


@released
def _parted(x, order, first, last, feature, cut):
    """Move the rows with at most `cut` to the front; returns where the others begin."""
    low, high = first, last - 1
    while low <= high:
        if x[order[low], feature] <= cut:
            low += 1
        else:
            order[low], order[high] = order[high], order[low]
            high -= 1
    return low


@released
def bin_rows(x, edges, codes):
    """How many of its feature's edges (d, B − 1), in increasing order, each number of x (n, d) exceeds, into `codes`."""
    n, d = x.shape
    for i in range(n):
        for f in range(d):
            low, high = 0, edges.shape[1]
            while low < high:
                middle = (low + high) // 2
                if x[i, f] <= edges[f, middle]:
                    high = middle
                else:
                    low = middle + 1
            codes[i, f] = low


@released
def grow_boosted(
    codes, edges, y, w, rate, least, leaves, order, sums, begin, end, cut, best, mass_of, total_of,
    roots, feature, threshold, child, value,
):  # fmt: skip
    """Boosted trees with at most `leaves` leaves, each fitted to what the ones before left in y, which is overwritten.

    The leaf whose cut explains most is cut next. Cuts are between bins, and leave rows that count at least `least` on each side.
    Workspace: `sums` (d, B, 2), and `cut` (…, 2), `best`, `mass_of`, `total_of` for each node of a tree. Returns the number of
    nodes.
    """
    n = codes.shape[0]
    free = 0
    for tree in range(roots.shape[0]):
        for i in range(n):
            order[i] = i
        root = free
        roots[tree] = root
        begin[0], end[0] = 0, n
        _best_cut(codes, y, w, least, order, sums, begin, end, cut, best, mass_of, total_of, 0)
        nodes = 1
        feature[root], threshold[root], child[root] = 0, math.inf, -1
        for _ in range(leaves - 1):
            node = 0
            for one in range(1, nodes):
                if best[one] > best[node]:
                    node = one
            if not best[node] > 0.0:
                break
            f, b = cut[node, 0], cut[node, 1]
            low, high = begin[node], end[node] - 1
            while low <= high:
                if codes[order[low], f] <= b:
                    low += 1
                else:
                    order[low], order[high] = order[high], order[low]
                    high -= 1
            best[node] = -1.0
            feature[root + node], threshold[root + node], child[root + node] = f, edges[f, b], root + nodes
            begin[nodes], end[nodes], begin[nodes + 1], end[nodes + 1] = begin[node], low, low, end[node]
            for one in range(nodes, nodes + 2):
                feature[root + one], threshold[root + one], child[root + one] = 0, math.inf, -1
                _best_cut(codes, y, w, least, order, sums, begin, end, cut, best, mass_of, total_of, one)
            nodes += 2
        for node in range(nodes):
            value[root + node] = 0.0
            if child[root + node] < 0:
                step = rate * total_of[node] / mass_of[node]
                value[root + node] = step
                for i in range(begin[node], end[node]):
                    y[order[i]] -= step
        free = root + nodes
    return free


@released
def _best_cut(codes, y, w, least, order, sums, begin, end, cut, best, mass_of, total_of, node):
    """The cut of a leaf that lowers the squared error most, and by how much; 0 if there is none."""
    d, bins, _ = sums.shape
    for f in range(d):
        for b in range(bins):
            sums[f, b, 0] = sums[f, b, 1] = 0.0
    total, mass = 0.0, 0.0
    for i in range(begin[node], end[node]):
        row = order[i]
        part, weight = w[row] * y[row], w[row]
        total += part
        mass += weight
        for f in range(d):
            sums[f, codes[row, f], 0] += part
            sums[f, codes[row, f], 1] += weight
    best[node], mass_of[node], total_of[node] = 0.0, mass, total
    if mass < 2 * least:
        return
    # A tenth of a billionth of what there is to explain is rounding.
    most = total * total / mass * (1.0 + 1e-10) + 1e-12
    for f in range(d):
        part, part_mass = 0.0, 0.0
        for b in range(bins - 1):
            part += sums[f, b, 0]
            part_mass += sums[f, b, 1]
            if part_mass < least:
                continue
            rest = mass - part_mass
            if rest < least:
                break
            gain = part * part / part_mass + (total - part) * (total - part) / rest
            if gain > most:
                most = gain
                best[node] = gain - total * total / mass
                cut[node, 0], cut[node, 1] = f, b
