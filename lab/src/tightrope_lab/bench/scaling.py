"""What a round of the engine costs against J, d, K and C, beside the least that this machine would need for it.

The limit of a round is the larger of its multiplications and additions at the rate of a large BLAS product on one core, and its
bytes at the rate at which one core copies an array as large as what they lie in. Both count what no exact method can do without: the
penalty of every action, the mean and the width of one (an action can be ruled out by its penalty alone, for r̂ ≤ 1), and the update;
one triangle of each symmetric matrix, each number once. Drawing random numbers, logarithms, the tally and every branch come on top.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope.engine.cpu import compiled
from tightrope.engine.recording import Terms
from tightrope.environments.tabular import Tabular
from tightrope.models import Ridge
from tightrope.policies import PessimisticOptimistic
from tightrope.validation import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = {"J": 10, "d": 20, "K": 3, "C": 100}
VARIED: dict[str, tuple[int, ...]] = {
    "J": (2, 5, 10, 20, 50, 100, 200),
    "d": (5, 10, 20, 50, 100, 200),
    "K": (1, 3, 10, 30, 100, 300),
    "C": (10, 100, 1_000, 10_000, 100_000),
}
NAMES = {"J": "Actions J", "d": "Features d", "K": "Constraints K", "C": "Contexts C"}
# Of an array that is copied, in bytes: a second- and third-level cache, and memory. Anything smaller would time the call.
SIZES = (2**18, 2**22, 2**27)
REPEATS = 7
SECONDS = 0.04  # of one measurement
_DRAWN = ("median", "low", "high", "arithmetic", "moving")


def scaling(
    varied: dict[str, tuple[int, ...]] = VARIED, repeats: int = REPEATS, seconds: float = SECONDS
) -> dict[str, Any]:
    """`{"limits", "points"}`: each of J, d, K and C varied alone, microseconds of a round, median and quartiles."""
    limits = machine_limits()
    points = []
    for axis, values in varied.items():
        for value in values:
            size = {**BASE, axis: value}
            took = quartiles(np.array(_times(**size, repeats=repeats, seconds=seconds)) * 1e6)
            arithmetic, moving = (1e6 * part for part in least(**size, limits=limits))
            limit = max(arithmetic, moving)
            point = {"axis": axis, **size, **took, "arithmetic": arithmetic, "moving": moving}
            points.append({**point, "limit": limit, "times_limit": took["median"] / limit})
    return {"limits": limits, "points": points}


def quartiles(times: Array) -> dict[str, float]:
    """Median and quartiles."""
    low, median, high = np.quantile(times, (0.25, 0.5, 0.75)).tolist()
    return {"median": median, "low": low, "high": high}


def least(J: int, d: int, K: int, C: int, limits: dict[str, Any]) -> tuple[float, float]:
    """The seconds that the arithmetic of a round and the moving of its bytes take at least."""
    triangle = d * (d + 1) // 2
    # Penalties, a width and a mean; Σ⁻¹x, rank-one changes of Σ⁻¹ and Σ, and of θ̂ and b with the two products that they need.
    flops = 2 * (J * K + triangle + 2 * d + d * d + 2 * triangle + 4 * d)
    state = 8 * (2 * triangle + 2 * d)
    table = 8 * C * J * (d + K)
    moving = 2 * state / _bandwidth(limits, state) + 8 * (d + J * K) / _bandwidth(limits, table)
    return flops / limits["flops"], moving


def machine_limits() -> dict[str, Any]:
    """What one core of this machine reaches: flops of a BLAS product, and for arrays of some sizes the bytes copied in a second."""
    n = 512
    a = np.random.default_rng(0).normal(size=(n, n))
    out = np.empty_like(a)
    bandwidth = []
    for size in SIZES:
        source = np.ones(size // 8)
        target = np.empty_like(source)
        # A copy reads and writes.
        bandwidth.append([size, 2 * size / _fastest(lambda s=source, t=target: np.copyto(t, s))])  # type: ignore[misc]
    return {"flops": 2 * n**3 / _fastest(lambda: np.matmul(a, a, out=out)), "bandwidth": bandwidth}


def figure(found: dict[str, Any]) -> Figure:
    """Four panels: measured with quartiles, and the machine's limit."""
    from tightrope.report import NamedCurve, Panel, panels_figure

    panels = []
    for axis in dict.fromkeys(point["axis"] for point in found["points"]):
        points = [point for point in found["points"] if point["axis"] == axis]
        x = [float(point[axis]) for point in points]
        column = {name: [point[name] for point in points] for name in _DRAWN}
        curves = [
            NamedCurve("engine, one core", x, column["median"], column["low"], column["high"]),
            NamedCurve("limit: arithmetic", x, column["arithmetic"], reference=True),
            NamedCurve("limit: bytes", x, column["moving"], reference=True),
        ]
        panels.append(Panel(curves, NAMES[axis], "µs a round", logx=True, logy=True))
    return panels_figure(panels, height=300.0)


def pin() -> None:
    """Keep this process on one core, where the system knows how."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _times(J: int, d: int, K: int, C: int, repeats: int, seconds: float) -> list[float]:
    """Processor seconds of a round of one replication, some times over."""
    env = _environment(J, d, K, C)
    policy = PessimisticOptimistic(reward=Ridge(d), constraints=K, slater=0.1, horizon=100_000)
    stop = np.zeros(1, dtype=np.int64)

    def run(rounds: int) -> float:
        play = compiled(policy, env, Terms.of(rounds, 1, 0, 1, False))
        assert play is not None
        started = time.process_time()
        play(0, stop)
        return (time.process_time() - started) / rounds

    # The second run is not the first of its process: what it takes says how many rounds fill the time.
    run(64)
    rounds = max(256, math.ceil(seconds / run(256)))
    return [run(rounds) for _ in range(repeats)]


def _environment(J: int, d: int, K: int, C: int) -> Tabular:
    draw = np.random.default_rng(0)
    phi = draw.normal(size=(C, J, d))
    phi /= np.linalg.norm(phi, axis=2, keepdims=True)
    rewards = 0.5 + 0.5 * phi[:, :, 0]
    costs = draw.uniform(-0.9, 0.7, size=(C, J, K))
    return Tabular(np.full(C, 1.0 / C), phi, rewards, costs, name="scaling")


def _bandwidth(limits: dict[str, Any], size: int) -> float:
    """Of the smallest array measured that is as large."""
    for measured, rate in limits["bandwidth"]:
        if size <= measured:
            return float(rate)
    return float(limits["bandwidth"][-1][1])


def _fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs, each repeated until it can be timed."""

    def taken(times: int) -> float:
        started = time.process_time()
        for _ in range(times):
            work()
        return time.process_time() - started

    times = 1
    while taken(times) <= 0.005:
        times *= 4
    return min(taken(times) for _ in range(9)) / times
