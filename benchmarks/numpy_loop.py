"""Where the time of a round goes: in the NumPy loops that `tightrope bench` measures against, and in our own `decide` and `learn`.

    python benchmarks/numpy_loop.py

The loops themselves are `tightrope_lab.bench.numpy_loops`. Of NumPy's round each step is timed on its own, on the arrays of a
run; of ours the compiled parts, what it takes to call them, and what Python does around them. One core, one thread, processor time,
the fastest of several runs, so that the parts can be added up.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tightrope as tr
from tightrope import kernels
from tightrope.policies.decision import Decision
from tightrope_lab import bench

SHAPES = ((10, 20, 3), (50, 100, 10))


def fastest(work: Callable[[], Any], seconds: float = 0.02) -> float:
    """Microseconds of a call, less those of a call that does nothing."""

    def timed(function: Callable[[], Any], times: int) -> float:
        started = time.process_time()
        for _ in range(times):
            function()
        return (time.process_time() - started) / times * 1e6

    times = max(10, int(seconds * 1e6 / max(0.05, timed(work, 20))))
    return min(timed(work, times) for _ in range(9)) - min(timed(lambda: None, times) for _ in range(3))


def numpy_steps(J: int, d: int, K: int) -> dict[str, Callable[[], Any]]:
    """The lines of `numpy_loops.shared`."""
    draw = np.random.default_rng(0)
    phi, W, Q, theta = (draw.uniform(0.0, 0.1, size=shape) for shape in ((J, d), (J, K), K, d))
    Sigma_inv = np.eye(d)
    P, widths = phi @ Sigma_inv, np.ones(J)
    values, x, u = widths.copy(), phi[0], P[0]
    gain = u / 2.0

    def change() -> None:
        nonlocal Sigma_inv
        Sigma_inv -= 0.0 * gain[:, None] * u

    return {
        "φΣ⁻¹": lambda: phi @ Sigma_inv,
        "widths": lambda: np.sqrt(np.vecdot(P, phi)),
        "√β": lambda: 1.0 + math.sqrt(2.0 * math.log(1e4) + d * math.log(1.0 + 300 / d)),
        "r̂": lambda: np.minimum(1.0, phi @ theta + 3.0 * widths),
        "values": lambda: widths - W @ (Q / 2.0),
        "choice": lambda: int(np.argmax(values >= values.max() - 1e-12)),
        "queue": lambda: np.maximum(0.0, Q + W[0] + 0.1),
        "θ̂": lambda: (1.0 - theta @ x) * (u / (1.0 + widths[0] ** 2)),
        "Σ⁻¹": change,
    }


def our_steps(J: int, d: int, K: int) -> dict[str, Callable[[], Any]]:
    """The compiled parts of a round, and the objects that it makes."""
    draw = np.random.default_rng(0)
    phi, W = draw.normal(size=(J, d)), draw.uniform(-1.0, 1.0, size=(J, K))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(d), constraints=K, slater=0.1, horizon=10_000)
    for _ in range(300):
        policy.learn(policy.decide(phi, W), 0.5)
    ids, trace, x = np.arange(J), np.empty(kernels.trace_size(J, K)), phi[0].copy()
    flat, core = policy._flat, policy._core
    rows, costs, widths = phi.reshape(-1), W.reshape(-1), np.empty(J)
    room = np.empty(kernels.scratch_size(d))

    def both() -> None:
        policy.learn(policy.decide(phi, W), 0.5)

    return {
        "decide, compiled": lambda: kernels.decide_ridge(phi, ids, W, flat, core, trace, x),
        "of it: input checks": lambda: (
            kernels.rows_are_valid(phi) and kernels.costs_are_valid(costs, J, core)
        ),
        "of it: widths": lambda: kernels.ridge_widths(flat, rows, 0, False, ids, room, 0, widths, 0, 1),
        "learn, compiled": lambda: kernels.learn_reward(0, x, 0.5, flat, core),
        "a call of compiled code": lambda: kernels.horizon_at(core, 1.0),
        "room for the numbers behind": lambda: np.empty(len(trace)),
        "room for the row to learn from": lambda: np.empty(d),
        "a Decision": lambda: Decision(0, 0, 0, 0, 0, ids, trace, (None, None)),
        "decide + learn": both,
    }


def show(title: str, steps: dict[str, Callable[[], Any]], add_up: bool) -> None:
    measured = {name: fastest(step) for name, step in steps.items()}
    if add_up:
        measured["all"] = sum(measured.values())
    else:
        compiled = measured["decide, compiled"] + measured["learn, compiled"]
        measured["of it: outside compiled code"] = measured["decide + learn"] - compiled
    print(f"\n{title}\n")
    print("| step | µs |\n| --- | ---: |")
    for name, value in measured.items():
        print(f"| {name} | {value:.2f} |")


def main() -> None:
    if any(os.environ.get(name) != "1" for name in bench.ONE_THREAD):
        # The number of threads is read when NumPy is loaded.
        sys.exit(subprocess.call([sys.executable, *sys.argv], env={**os.environ, **bench.ONE_THREAD}))
    bench.scaling.pin()
    for J, d, K in SHAPES:
        show(f"NumPy, J = {J}, d = {d}, K = {K}", numpy_steps(J, d, K), add_up=True)
        show(f"Tightrope, J = {J}, d = {d}, K = {K}", our_steps(J, d, K), add_up=False)


if __name__ == "__main__":
    main()
