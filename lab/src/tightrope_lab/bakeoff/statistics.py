"""Which differences between two players are more than chance: paired over seeds, table by table, corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.05


def paired_p(differences: Sequence[float], resolution: float = 0.0) -> float:
    """The two-sided p-value of a paired t-test that the mean difference is 0; 1 with fewer than two pairs.

    `resolution` is the smallest difference that two runs can have: the deviation is not taken to be less, so that a few differences
    that happen to be equal prove nothing.

    >>> round(paired_p([0.1, 0.2, 0.3]), 4)  # t = 2√3 with 2 degrees of freedom: 1 - t / √(2 + t²)
    0.0742
    """
    from scipy import stats

    n = len(differences)
    if n < 2:
        return 1.0
    deviation = max(float(np.std(differences, ddof=1)), resolution)
    mean = float(np.mean(differences))
    if deviation == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2.0 * stats.t.sf(abs(mean) / (deviation / math.sqrt(n)), n - 1))


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects: the chance that any of these is true is at most `level`.

    >>> holm([0.04, 0.01, 0.02])  # 0.01 ≤ 0.05 / 3, 0.02 ≤ 0.05 / 2, 0.04 ≤ 0.05
    [True, True, True]
    >>> holm([0.03, 0.01, 0.03])  # 0.03 > 0.05 / 2: it and all larger ones stand
    [False, True, False]
    """
    rejected = [False] * len(p_values)
    for rank, i in enumerate(np.argsort(p_values, kind="stable").tolist()):
        if p_values[i] > level / (len(p_values) - rank):
            break
        rejected[i] = True
    return rejected


@dataclass(frozen=True)
class Comparison:
    """Tables on which one player is significantly better (`wins`) or worse (`losses`) than another, of those that both played."""

    wins: tuple[str, ...]
    losses: tuple[str, ...]
    tables: int


def compare(
    ours: Mapping[str, Mapping[int, float]],
    theirs: Mapping[str, Mapping[int, float]],
    resolution: Mapping[str, float],
) -> Comparison:
    """Two players by table and seed, over the tables that both have, and on these the seeds that both have."""
    both = [table for table in ours if table in theirs]
    differences = {
        table: [ours[table][seed] - theirs[table][seed] for seed in ours[table] if seed in theirs[table]]
        for table in both
    }
    shown = holm([paired_p(differences[table], resolution[table]) for table in both])
    found = [(table, float(np.mean(differences[table]))) for table, more in zip(both, shown) if more]
    wins = tuple(table for table, mean in found if mean > 0)
    return Comparison(wins, tuple(table for table, mean in found if mean < 0), len(both))
