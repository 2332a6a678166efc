"""Rounds a second on a GPU, by shape and precision, against what the device could do at most.

    python benchmarks/gpu.py            # the table; half a minute on an H200
    python benchmarks/gpu.py study      # the hospital study with 10,000 replications of 62,500 rounds
    python benchmarks/gpu.py agree      # single against double precision over 10,000 replications
    python benchmarks/gpu.py drift      # how far Σ⁻¹ drifts in a million updates; needs no GPU
    python benchmarks/gpu.py cpu        # the CPU engine on the same shapes, on all cores; needs Numba and no GPU

`--quick` takes a tenth of the rounds.

Times are those of the kernel between two events, metrics included, the median of five launches after a first one; results
are fetched after. "flops" counts the additions and multiplications that one round of the formulas needs, "bytes" the reads and
writes of the models' state in one round, wherever it lies. The floor is the larger of flops over the device's rate (float64 at
its own) and bytes over the bandwidth of its shared memory, or of its global memory where the state is there. "regret" is at the
last round, where the optimum is known: the error beside the time.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tightrope as tr
from tightrope.engine import gpu
from tightrope.engine.gpu_program import Precision, program_for


class Case(NamedTuple):
    name: str
    policy: Any
    env: Any
    replications: int
    rounds: int
    flops: tuple[float, float]  # of float32 (or whatever the estimates are), of float64
    numbers: float  # of the state, read or written in a round


def dense_environment(contexts: int, actions: int, features: int, constraints: int, seed: int = 0) -> Any:
    """Linear rewards, costs that differ by context: like `tr.environments.synthetic`, without an LP."""
    draw = np.random.default_rng(seed)
    u = draw.normal(size=(contexts, actions, features - 1))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    v = draw.normal(size=features - 1)
    phi = np.concatenate([np.ones((contexts, actions, 1)), u], axis=2) / np.sqrt(2.0)
    theta = np.append(1.0, v / np.linalg.norm(v)) / np.sqrt(2.0)
    costs = draw.uniform(-0.9, 0.7, size=(contexts, actions, constraints))
    weights = draw.dirichlet(np.ones(contexts))
    return tr.environments.Tabular(weights, phi, phi @ theta, costs, name="dense")


def ridge_work(J: int, p: int, K: int, blocks: int, outputs: int = 1) -> tuple[float, float]:
    """Flops of one round of a ridge model, and the numbers of its state that a round reads or writes."""
    triangle = p * (p + 1) / 2
    widths = J * (2 * triangle + 3 * p + 2 * p * outputs)
    learn = 2 * p * p + 2 * p + 2 * triangle + p + outputs * 4 * p
    read = (J if blocks > 1 else 1) * (triangle + outputs * p) + triangle + outputs * p
    return widths + learn, read + triangle + outputs * p


def shadow_work(J: int, p: int, K: int, blocks: int, outputs: int = 0) -> tuple[float, float]:
    """The same of a round of `ShadowPrice` without its share of the price solves; `outputs` costs are seen after acting."""
    q = p + 1
    predict, learn = 2 * q * q + 4 * q, 6 * q * q
    flops = J * (predict + 4 * q) + learn + 12 * q + 9 * J * K + 30 * K
    read = (J if blocks > 1 else 1) * (q * q + 2 * q) + 2 * (q * q + 2 * q)
    if outputs:
        flops += J * (predict + outputs * (2 * q + 12)) + learn + 4 * q * outputs
        read += (J if blocks > 1 else 1) * (q * q + outputs * q) + 2 * (q * q + outputs * q)
    return flops, read


def cases(scale: float) -> list[Case]:
    T = max(100, int(10_000 * scale))
    hospital = tr.environments.hospital("any")
    after = tr.environments.hospital("any", stay=True, costs_seen="after")
    bandit = tr.environments.bandit(threshold=0.1)
    dense = dense_environment(360, 6, 20, 18)
    large = dense_environment(50, 50, 64, 4)
    power = {"V": tr.Power(4.0, 0.5), "epsilon": tr.Power(1.0, -0.5), "horizon": T}
    flops_h, numbers_h = ridge_work(6, 10, 18, 6)
    flops_d, numbers_d = ridge_work(6, 20, 18, 1)
    flops_b, numbers_b = ridge_work(6, 10, 18, 6, 18)
    flops_l, numbers_l = ridge_work(50, 64, 4, 1)
    flops_s, numbers_s = shadow_work(6, 10, 18, 6)
    flops_t, numbers_t = shadow_work(6, 10, 18, 6, 18)
    queue_a = 2 * 6 * 18 + 3 * 18
    return [
        Case(
            "4 arms, K = 1",
            tr.PessimisticOptimistic(
                reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=(-0.1, 0.9),
                V=tr.Power(1.0, 0.5), epsilon=tr.Power(6.0, -0.5),
            ),
            bandit, 540_672, T, (4 * 8 + 12, 4), 0,
        ),
        Case(
            "hospital: J = 6, p = 10 disjoint, K = 18, C = 360",
            tr.PessimisticOptimistic(reward=tr.DisjointRidge(6, 10, bonus=0.1), constraints=18, **power),
            hospital, 33_792, T, (flops_h, queue_a), numbers_h,
        ),
        Case(
            "dense: d = 20, J = 6, K = 18, C = 360",
            tr.PessimisticOptimistic(reward=tr.Ridge(20), constraints=18, **power),
            dense, 59_136, T, (flops_d, queue_a), numbers_d,
        ),
        Case(
            "hospital, costs seen after",
            tr.PessimisticOptimistic(
                reward=tr.DisjointRidge(6, 10, bonus=0.1), cost=tr.DisjointRidge(6, 10, bonus=0.1), constraints=18,
                cost_range=after.cost_range, **power,
            ),
            after, 33_792, T // 10, (flops_h + flops_b + queue_a, 18), numbers_h + numbers_b,
        ),
        Case(
            "hospital, ShadowPrice",
            tr.ShadowPrice(reward=tr.DisjointRidge(6, 10), constraints=18),
            hospital, 33_792, T, (flops_s, 3 * 18), numbers_s,
        ),
        Case(
            "hospital, ShadowPrice, costs seen after",
            tr.ShadowPrice(reward=tr.DisjointRidge(6, 10), cost=tr.DisjointRidge(6, 10), constraints=18),
            after, 16_896, T // 10, (flops_t, 6 * 18), numbers_t,
        ),
        Case(
            "large: d = 64, J = 50, K = 4",
            tr.PessimisticOptimistic(reward=tr.Ridge(64), constraints=4, **power),
            large, 4_224, T // 20, (flops_l, 2 * 50 * 4 + 12), numbers_l,
        ),
        Case(
            "OPB, 4 arms",
            tr.policies.OPB(4, safe_cost=-0.1, horizon=T, cost_range=(-0.1, 0.9)),
            bandit, 270_336, T // 5, (0, 16 * 8), 0,
        ),
        Case("round-robin, 6 wards", tr.policies.RoundRobin(6), hospital, 270_336, T // 5, (0, 24), 0),
    ]  # fmt: skip


def device_rates() -> tuple[str, float, float, float, float]:
    """Name, flops a second in float32 and float64, bytes a second of all shared memory and of the global memory."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    units = properties["multiProcessorCount"]
    hertz = cupy.cuda.runtime.deviceGetAttribute(13, 0) * 1000.0
    source = cupy.ones(2**28, cupy.float32)
    target = cupy.empty_like(source)
    seconds = []
    for _ in range(6):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        cupy.copyto(target, source)
        end.record()
        end.synchronize()
        seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1000.0)
    bandwidth = 2 * source.nbytes / statistics.median(seconds[1:])
    single = 2.0 * 128 * units * hertz
    double = single / (2 if properties["major"] in (6, 7, 8, 9, 10) and properties["minor"] == 0 else 64)
    return properties["name"].decode(), single, double, 128.0 * units * hertz, bandwidth


def kernel_seconds(case: Case, precision: Precision, repeats: int) -> tuple[float, str]:
    """Median seconds of the kernel, and the regret at the end."""
    seconds = []
    for _ in range(repeats + 1):
        (run,) = gpu.simulate_many(
            [case.policy], case.env, case.rounds, case.replications, seed=1, record=10, precision=precision
        )
        seconds.append(run.settings["device seconds"])
    regret = "–" if run.optimum is None else f"{run.regret.mean[-1]:.4g}"
    return statistics.median(seconds[1:]), regret


def heading(where: str) -> None:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    print(f"{today}, {where}, NumPy {np.__version__}, `python {' '.join(sys.argv)}`\n")


def main() -> None:
    jobs: dict[str, Callable[[float], None]] = {
        "table": table,
        "study": study,
        "agree": agree,
        "drift": drift,
        "cpu": cpu,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", nargs="?", default="table", choices=jobs)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rounds")
    given = parser.parse_args()
    jobs[given.job](0.1 if given.quick else 1.0)


def table(scale: float) -> None:
    name, single, double, shared, bandwidth = device_rates()
    heading(
        f"{name} ({single / 1e12:.0f} and {double / 1e12:.0f} TFLOP/s, copies at {bandwidth / 1e12:.1f} TB/s)"
    )
    print(
        "| shape | precision | replications × rounds | seconds | 10⁹ rounds/s | flops | bytes | floor, 10⁹/s | of it | regret |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for case in cases(scale):
        for precision in ("single", "double"):
            if precision == "single" and not isinstance(
                case.policy, (tr.PessimisticOptimistic, tr.ShadowPrice)
            ):
                continue
            seconds, regret = kernel_seconds(case, precision, 5)
            total = case.replications * case.rounds
            estimates, exact = case.flops
            needed = exact / double + estimates / (single if precision == "single" else double)
            program = program_for(case.policy, case.env, precision, False)
            bytes_ = case.numbers * (4 if precision == "single" else 8)
            floor = 1.0 / max(needed, bytes_ / (shared if program.shared else bandwidth))
            rate = total / seconds
            size = f"{case.replications:,} × {case.rounds:,}"
            print(
                f"| {case.name} | {precision} | {size} | {seconds:.4f} | {rate / 1e9:.3g} | {estimates + exact:,.0f} "
                f"| {bytes_:,.0f} | {floor / 1e9:.3g} | {rate / floor:.0%} | {regret} |",
                flush=True,
            )


def study(scale: float) -> None:
    name, *_ = device_rates()
    heading(name)
    env = tr.environments.hospital("any")
    T, R = int(62_500 * scale), 10_000
    for bonus in (1.0, 0.1):
        policy = tr.PessimisticOptimistic(
            reward=tr.DisjointRidge(6, 10, bonus=bonus), constraints=18, horizon=T,
            V=tr.Power(4.0, 0.5), epsilon=tr.Power(1.0, -0.5),
        )  # fmt: skip
        for _ in range(2):
            run = tr.simulate(
                policy, env, rounds=T, replications=R, seed=0, engine="gpu", optimum=env.optimum
            )
        last = run.last_violated()
        print(
            f"bonus {bonus:g}: {R:,} replications of {T:,} rounds in {run.settings['device seconds']:.3f} s of device time, "
            f"{run.seconds:.2f} s with results on the host; regret {run.regret.at()}, last violated round {last.mean:.1f}, "
            f"at most {last.max:,}"
        )


def agree(scale: float) -> None:
    name, *_ = device_rates()
    heading(name)
    print("| shape | rounds | precision | regret | path violation | last violated round | equal actions |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for case in cases(scale)[:6]:
        T, R = max(case.rounds, int(5_000 * scale)), 10_000
        runs = {}
        for precision in ("double", "single"):
            (runs[precision],) = gpu.simulate_many(
                [case.policy], case.env, T, R, seed=5, record=[T], keep_choices=True, precision=precision
            )
            run = runs[precision]
            regret = "–" if run.optimum is None else str(run.regret.at())
            equal = (run.choices == runs["double"].choices).mean()
            print(
                f"| {case.name} | {T:,} | {precision} | {regret} | {run.path_violation.at()} "
                f"| {run.last_violated().estimate} | {equal:.4f} |",
                flush=True,
            )


def drift(scale: float) -> None:
    """Rank-one updates of Σ⁻¹ and θ̂ against a fresh solution, at the worst of 360 contexts."""
    heading(platform.machine())
    draw = np.random.default_rng(0)
    hospital = tr.environments.hospital("any")
    u = draw.normal(size=(360, 19))
    dense = np.column_stack([np.ones(360), u / np.linalg.norm(u, axis=1, keepdims=True)]) / np.sqrt(2.0)
    T = int(1_000_000 * scale)
    print("| features | λ | precision | updates | width, relative error | mean, absolute error |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    for name, rows, weights in (
        ("hospital, p = 10", hospital.features, hospital.weights),
        ("d = 20", dense, None),
    ):
        order = draw.choice(360, T, p=weights)
        outcomes = (draw.random(T) < 0.6).astype(np.float64)
        for ridge in (1.0, 1e-4):
            for real in (np.float32, np.float64):
                X, A, theta = (
                    rows.astype(real),
                    np.eye(rows.shape[1], dtype=real) / real(ridge),
                    np.zeros(rows.shape[1], real),
                )
                for t in range(T):
                    x = X[order[t]]
                    v = A @ x
                    s = 1 / (1 + x @ v)
                    theta += s * (real(outcomes[t]) - theta @ x) * v
                    A -= s * np.outer(v, v)  # symmetric to the bit, as the kernels keep it
                    if t + 1 in (T // 100, T // 10, T):
                        seen = rows[order[: t + 1]]
                        Sigma = ridge * np.eye(rows.shape[1]) + seen.T @ seen
                        exact = np.linalg.solve(Sigma, rows.T)
                        widths = np.sqrt(np.einsum("ij,ji->i", rows, exact))
                        mine = np.sqrt(np.einsum("ij,jk,ik->i", rows, A.astype(np.float64), rows))
                        means = rows @ np.linalg.solve(Sigma, seen.T @ outcomes[: t + 1])
                        worst = np.abs(mine / widths - 1.0).max(), np.abs(rows @ theta - means).max()
                        print(
                            f"| {name} | {ridge:g} | {real.__name__} | {t + 1:,} | {worst[0]:.1e} | {worst[1]:.1e} |",
                            flush=True,
                        )


def cpu(scale: float) -> None:
    heading(f"{platform.machine()}, {os.cpu_count()} cores, CPU engine (Numba)")
    print("| shape | rounds/s |\n| --- | ---: |")
    for case in cases(scale):
        rounds = min(case.rounds, 2_000)
        tr.simulate(case.policy, case.env, rounds=100, replications=2, optimum=0.0)
        run = tr.simulate(
            case.policy, case.env, rounds=rounds, replications=200, seed=1, record=10, optimum=0.0
        )
        print(f"| {case.name} | {rounds * 200 / run.seconds:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
