"""How often a key comes back before its window ends: one table for all keys with the same limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.kernels import pacing
from tightrope.policies.shadow_price.pacing.limits import Standing
from tightrope.policies.state_file import Arrays
from tightrope.validation import Array

# Times of a window, and how many moments of one are looked up when it closes.
TIMES, PROBES = 12, 4096
# What the table keeps of older windows, and how many moments the mean over all pasts counts for.
KEPT, SHRINK = 0.8, 4.0
# The slot of the draws that choose moments; beyond those of choices, below those of solves (`kernels.shadow`).
PROBE_SLOT = 2**31 - 2


class Probe(NamedTuple):
    """A decision of a key: which of its window it was, its cell (the bins of that number, of the time and of the past), and which
    part of the day it was made in.
    """

    key: str
    so_far: int
    cell: tuple[int, int, int]
    time: int


def bin_of(n: int) -> int:
    """0, 1, 2–3, 4–7, … are bins 0, 1, 2, 3, …

    >>> [bin_of(n) for n in (0, 1, 3, 4, 1000)]
    [0, 1, 2, 3, 10]
    """
    return min(n.bit_length(), pacing.BINS - 1)


class KeyTable:
    """Counts by cell of how many decisions were still to come, (BINS, TIMES, BINS, BINS), learnt whenever a window closes; and by
    part of the day in which parts they came, (TIMES, TIMES): a key that is busy now may be gone when most others come.

    >>> table, first = KeyTable(seed=0), Standing(0.0, 0, 0.0, 60.0)
    >>> table.chances(first, 1.0).round(2)  # nothing is known yet
    array([0.09, 0.09, 0.09, 0.09, 0.09, 0.09, 0.09, 0.09, 0.09, 0.09, 0.09])
    >>> table.note("u17", first, 1.0, 3, lambda key, t: Standing(2.0, 2, 0.0, 60.0))
    >>> table.note("u17", Standing(1.0, 1, 0.0, 60.0), 2.0, 4, lambda key, t: Standing(2.0, 2, 0.0, 60.0))
    >>> table.note("u17", Standing(0.0, 0, 60.0, 120.0), 61.0, 3, lambda key, t: Standing(2.0, 2, 0.0, 60.0))
    >>> table.counts.sum(axis=(0, 1, 2))  # one more came after the first, none after the second
    array([1., 1., 0., 0., 0., 0., 0., 0., 0., 0., 0.])
    >>> table.coming(3, np.full(12, 1 / 12)).round(2)[3:6]  # in the next part of the day
    array([0.07, 0.27, 0.07])
    """

    def __init__(self, seed: int) -> None:
        self.seed = np.uint64(seed)
        self.counts = np.zeros((pacing.BINS, TIMES, pacing.BINS, pacing.BINS))
        self.later = np.zeros((TIMES, TIMES))
        self.probes: list[Probe] = []
        # The window in progress, how many decisions it had, how many there were in all, and the time of the last.
        self.start, self.seen, self.made, self.last = -np.inf, 0, 0, -np.inf

    def chances(self, standing: Standing, t: float) -> Array:
        """How likely each bin of decisions still to come is for a key that stands so and decides at t, (BINS,)."""
        cell = self._cell(standing, t)
        wide = self.counts[cell[:2]].sum(axis=0)
        found = self.counts[cell] + SHRINK * (wide + 1.0 / pacing.BINS) / (wide.sum() + 1.0)
        chances: Array = found / found.sum()
        return chances

    def coming(self, time: int, usual: Array) -> Array:
        """Of what a key that decides in this part of the day does later, the share in each; `usual`: of all decisions, (TIMES,)."""
        found = self.later[time] + SHRINK * usual
        shares: Array = found / found.sum()
        return shares

    def note(
        self, key: str, standing: Standing, t: float, time: int, stood: Callable[[str, float], Standing]
    ) -> None:
        """A key that stands so decides at t, in this part of the day; `stood` says where one stands at a time of the window
        before, if that is over.
        """
        if standing.start > self.start:
            self._learn(lambda key: stood(key, self.last).decided)
            self.probes, self.seen, self.start = [], 0, standing.start
        probe = Probe(key, standing.decided + 1, self._cell(standing, t), time)
        if len(self.probes) < PROBES:
            self.probes.append(probe)
        else:
            u = kernels.uniforms(self.seed, 0, float(self.made), PROBE_SLOT)[0]
            if (place := int(u * (self.seen + 1))) < PROBES:
                self.probes[place] = probe
        self.seen, self.made, self.last = self.seen + 1, self.made + 1, t

    def rename(self, name: Callable[[str], str]) -> None:
        """Know each key by the name that it has now."""
        self.probes = [one._replace(key=name(one.key)) for one in self.probes]

    def _learn(self, decided: Callable[[str], int]) -> None:
        self.counts *= KEPT
        for probe in self.probes:
            self.counts[(*probe.cell, bin_of(max(0, decided(probe.key) - probe.so_far)))] += 1.0
        self.later *= KEPT
        after: dict[str, Array] = {}
        for probe in sorted(self.probes, key=lambda one: -one.so_far):
            own = after.setdefault(probe.key, np.zeros(TIMES))
            self.later[probe.time] += own / max(1.0, own.sum())
            own[probe.time] += 1.0

    @staticmethod
    def _cell(standing: Standing, t: float) -> tuple[int, int, int]:
        gone = (t - standing.start) / max(standing.end - standing.start, 1e-9)
        return bin_of(standing.decided + 1), min(int(gone * TIMES), TIMES - 1), bin_of(standing.before)

    # Save, restore

    def arrays(self) -> Arrays:
        texts = [one.key.encode() for one in self.probes]
        return {
            "counts": self.counts.copy(),
            "later": self.later.copy(),
            "probes": np.array(
                [(one.so_far, *one.cell, one.time) for one in self.probes], dtype=np.int64
            ).reshape(-1, 5),
            "names": np.frombuffer(b"".join(texts), dtype=np.uint8),
            "lengths": np.array([len(one) for one in texts], dtype=np.int64),
            "now": np.array([self.start, self.seen, self.made, self.last]),
        }

    def load(self, arrays: Arrays) -> None:
        self.counts[...] = arrays["counts"]
        self.later[...] = arrays["later"]
        texts, ends = arrays["names"].tobytes(), np.cumsum(arrays["lengths"]).tolist()
        names = [texts[first:end].decode() for first, end in zip([0, *ends], ends)]
        rows = arrays["probes"].tolist()
        self.probes = [
            Probe(name, row[0], (row[1], row[2], row[3]), row[4]) for name, row in zip(names, rows)
        ]
        self.start, seen, made, self.last = arrays["now"].tolist()
        self.seen, self.made = int(seen), int(made)
