"""The choices of policies that look at neither features nor costs before acting."""

from __future__ import annotations

import math

from tightrope.kernels import layout
from tightrope.kernels.compile import kernel


@kernel
def uniform_choice(ids, u):
    """One of the ids, all equally likely."""
    return ids[min(ids.shape[0] - 1, int(u * ids.shape[0]))]


@kernel
def round_robin_choice(ids, shares, counts):
    """The id on offer that is furthest behind its share; the lowest if several are equal."""
    total = 1.0
    for j in range(counts.shape[0]):
        total += counts[j]
    best = ids[0]
    for i in range(1, ids.shape[0]):
        a = ids[i]
        if shares[a] * total - counts[a] > shares[best] * total - counts[best] + layout.TIE:
            best = a
    return best


@kernel
def opb_mixture(counts, sums, settings, scratch):
    """The mixture of at most two arms that solves max Σπu^r s.t. Σπu^w ≤ 0 (Pacchiano et al. 2021, Lemma 5): (i, j, weight of j).

    u^r = mean + α_r w is not clipped; u^w = min(high, mean + α_c w), high for an arm without an outcome, and the known cost for
    the safe arm; w = sqrt(2 log(1/p) / max(n, 1)), p = 1/T². Both go into scratch (2, J).
    """
    J = counts.shape[0]
    safe = int(settings[layout.OPB_THRESHOLD_ARM])
    u_r = scratch[0]
    u_w = scratch[1]
    for a in range(J):
        n = max(1.0, counts[a])
        w = math.sqrt(settings[layout.OPB_LOG] / n)
        u_r[a] = sums[a, 0] / n + settings[layout.OPB_ALPHA_REWARD] * w
        if a == safe:
            u_w[a] = settings[layout.OPB_SAFE_COST]
        elif counts[a] == 0.0:
            u_w[a] = settings[layout.OPB_HIGH]
        else:
            u_w[a] = min(settings[layout.OPB_HIGH], sums[a, 1] / n + settings[layout.OPB_ALPHA_COST] * w)
    best_i = safe
    best_j = safe
    best_weight = 0.0
    best = u_r[safe]
    for i in range(J):
        if u_w[i] > 0.0:
            continue
        if layout.tied_with(u_r[i]) > best:
            best, best_i, best_j, best_weight = u_r[i], i, i, 0.0
        for j in range(J):
            if u_w[j] > 0.0:
                weight = -u_w[i] / (u_w[j] - u_w[i])
                value = (1.0 - weight) * u_r[i] + weight * u_r[j]
                if layout.tied_with(value) > best:
                    best, best_i, best_j, best_weight = value, i, j, weight
    return best_i, best_j, best_weight
