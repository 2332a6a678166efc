"""Replications on a GPU: tens of thousands at once, by the same formulas and the same draws as on the CPU.

The kernels stand in `replicate.cu` and `shadow_price.cu` and are compiled for the device and the shape at hand when they are
first used: `gpu_program` says what is compiled, `gpu_arrays` what it reads, `gpu_shadow_price` both for `ShadowPrice`.
All of it needs only NumPy and CuPy.

`precision="single"` keeps estimates (Σ⁻¹, θ̂, widths, means of arms, shadow prices) in float32; the queues of known costs, the
comparison of actions and every tally are still float64. `precision="double"` is float64 throughout without fused multiply-adds: the
actions are then those of the CPU engine. `docs/gpu.md` has the measurements.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.cpu import policy_seed
from tightrope.engine.gpu_arrays import comparator_arguments, policy_arguments, seed_keys, world_arguments
from tightrope.engine.gpu_program import (
    COMPARATOR,
    ONE_BLOCK,
    ONE_THREAD,
    SHADOW_PRICE,
    SHARED_BYTES,
    SMALLEST_RIDGE,
    Precision,
    Program,
    program_for,
    require_short,
)
from tightrope.engine.gpu_shadow_price import shadow_price_arguments
from tightrope.engine.recording import Terms, known_optimum, policy_name
from tightrope.environments.drifting import Drifting
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.policies.build import for_problem
from tightrope.result import Result
from tightrope.validation import require_choice

__all__ = ["cuda_device", "simulate_many"]


def simulate_many(
    policies: Sequence[Any],
    env: Tabular,
    rounds: int,
    replications: int = 1,
    seed: int = 0,
    *,
    record: int | Sequence[int] | None = None,
    optimum: float | None = None,
    keep_choices: bool = False,
    precision: Precision = "single",
    names: Sequence[str] | None = None,
    device: Device | None = None,
) -> list[Result]:
    """Run many policies in `env` on a GPU. Policies of one shape, such as one policy under many settings, share a launch.

    Every policy sees the same draws, those of `tightrope.simulate` under the same seed.

    Parameters
    ----------
    policies : sequence
        `PessimisticOptimistic` (so `LinUCB` too), `ShadowPrice` before its first round, `OPB`, `RoundRobin`, `Uniform` and
        `Oracle`, in any mixture.
    env : Tabular
    rounds, replications, seed, record, optimum, keep_choices
        Of each policy, as for `tightrope.simulate`.
    precision : "single" or "double"
        Of the estimates; "double" makes the choices of the CPU engine.
    names : sequence of str, optional
        The policies' names in their results; one result per policy is returned, in order.
    device : Device, optional
        Where the kernels run; by default the current CUDA device, by CuPy.

    Examples
    --------
    >>> import tightrope as tr
    >>> env = tr.environments.bandit(threshold=0.1)
    >>> policies = [tr.PessimisticOptimistic(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=(-0.1, 0.9),
    ...                                      V=tr.Power(v, 0.5), epsilon=tr.Power(6.0, -0.5)) for v in (0.5, 1.0, 2.0)]
    >>> runs = simulate_many(policies, env, rounds=1000, replications=10_000)  # doctest: +SKIP
    """
    if isinstance(env, Drifting):
        remedy = "Use engine='cpu', which runs its phases."
        raise InvalidInput(field="env", must="not change during the run on a GPU", got=env, remedy=remedy)
    if not isinstance(env, Tabular):
        raise InvalidInput(field="env", must="be a Tabular environment on a GPU", got=env)
    if env.seen_mixed:
        raise InvalidInput(
            "a GPU can't run costs of which some are seen before acting and others after; use engine='cpu'."
        )
    require_choice("precision", precision, SMALLEST_RIDGE)
    labels = list(map(policy_name, policies)) if names is None else list(names)
    if len(labels) != len(policies):
        must = f"have one entry for each of {len(policies)} policies, but has {len(labels)}"
        raise InvalidInput(field="names", must=must)
    terms = Terms.of(rounds, replications, seed, record, keep_choices, most=(2**31 - 1, 2**32 - 1))
    policies = [for_problem(policy, env.problem()) for policy in policies]
    shapes = [program_for(policy, env, precision, keep_choices) for policy in policies]
    best = known_optimum(env, optimum, terms.grid)
    for policy, shape in zip(policies, shapes):
        if shape["REAL"] == "float":
            require_short(policy, terms.rounds)
    device = cuda_device() if device is None else device
    if (room := device.shared_bytes) < SHARED_BYTES:
        shapes = [program_for(policy, env, precision, keep_choices, room) for policy in policies]

    groups: dict[Program, list[int]] = {}
    for i, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(i)
    results: list[Result | None] = [None] * len(policies)
    for program, members in groups.items():
        started = time.perf_counter()
        batches, device_seconds = _launch(program, [policies[i] for i in members], env, terms, device)
        seconds = (time.perf_counter() - started) / len(members)
        more: dict[str, Any] = {"engine": f"gpu, {precision} precision", "device": device.name}
        more["device seconds"] = device_seconds / len(members)
        for left, i in zip(batches, members):
            results[i] = terms.result(
                policies[i], env, best, settings=more, name=labels[i], seconds=seconds, **left
            )
    return [result for result in results if result is not None]


def _launch(
    program: Program, policies: Sequence[Any], env: Tabular, terms: Terms, device: Device
) -> tuple[list[dict[str, Any]], float]:
    """Run all replications of policies of one shape, in as few launches as the device's memory allows; one outcome per policy."""
    rounds, replications, seed, grid, keep_choices = terms
    K, S, G = env.n_constraints, len(policies), len(grid)
    compared, fields, world = program.kernel == COMPARATOR, program["FIELDS"], world_arguments(env)
    constants: dict[str, NDArray[Any]] = {"seed_keys": seed_keys(seed)}
    real: type[Any] = np.float32 if program["REAL"] == "float" else np.float64
    if compared:
        own = comparator_arguments(policies, env, program["SETTINGS"])
    elif program.kernel == SHADOW_PRICE:
        own = shadow_price_arguments(policies, env, real)
    else:
        known, packed = program["K_POLICY"] and program["KNOWN_COSTS"], program.kernel == ONE_THREAD
        queue: type[Any] = np.float64 if known else real
        own = policy_arguments(policies, env, rounds, packed=packed, real=real, queue=queue)
        if known and packed and program["COST_KIND"] == kernels.FIXED and program["COST_TABLES"] == 1:
            constants["known_costs"] = np.ascontiguousarray(env.costs[0])
    a_replication = _work_bytes(program) + 2 * (8 * G * fields + 4 * K + (2 * rounds if keep_choices else 0))
    most = max(1, device.memory() // (S * a_replication))
    launches: list[list[NDArray[Any]]] = []
    seconds = 0.0
    for first in range(0, replications, most):
        n = min(most, replications - first)
        blocks = math.ceil(n / program.together)
        randomised: list[Any] = []
        if compared or program.kernel == SHADOW_PRICE:
            # The seed that `copy` gets on the CPU, if the policy draws at all.
            draws = [hasattr(policy, "seed") for policy in policies]
            seeds = [[policy_seed(seed, i) if one else 0 for i in range(first, first + n)] for one in draws]
            randomised.append(np.array(seeds, dtype=np.uint64))
        if compared:
            randomised.append(np.array([policy.rounds for policy in policies], dtype=np.uint64))
        size = np.uint32(first), np.uint32(n), np.int32(rounds), grid.astype(np.int32), np.int32(G)
        wanted = (
            Output((S, G, fields, n), "f8", (0, 3, 1, 2)),
            Output((S, K, n), "i4", (0, 2, 1)),
            Output((S, rounds if keep_choices else 0, n), "u2", (0, 2, 1)),
        )
        work = Work(_work_bytes(program) * blocks * program.together * S)
        arguments = [*world, *own, *randomised, *size, np.int32(blocks), work, *wanted]
        outputs, taken = device.run(program, blocks * S, arguments, constants)
        seconds += taken
        launches.append(outputs)
    parts = zip(*launches)
    records, last, choices = (one[0] if len(one) == 1 else np.concatenate(one, axis=1) for one in parts)
    kept = choices.astype(np.int16) if keep_choices else [None] * S
    each = zip(records, last.astype(np.int64), kept)
    return [dict(zip(("records", "last_violation", "choices"), one)) for one in each], seconds


def _work_bytes(program: Program) -> int:
    """Global memory that one replication needs for its state."""
    if program.kernel == SHADOW_PRICE:
        return int(program["COLD"]) + (0 if program["HOT_IN_SHARED"] else int(program["HOT"]))
    if program.kernel == ONE_THREAD:
        itemsize = 4 if program["REAL"] == "float" else 8
        return 0 if program["STATE_IN_SHARED"] else int(program["STATE"]) * itemsize
    return 8 * int(program["WORK"] if program.kernel == ONE_BLOCK else program["STATE"])


# --- where kernels run ---


class Device(Protocol):
    """Where kernels run."""

    name: str
    shared_bytes: int

    def memory(self) -> int:
        """Bytes of memory that may be used."""

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        """Launch and wait; the outputs in the order asked for, and the seconds that the kernel took."""


class Output(NamedTuple):
    """An array that a kernel writes, and the order in which to return its axes."""

    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...]


class Work(NamedTuple):
    """Memory that a kernel needs, in bytes."""

    size: int


@functools.cache
def cuda_device() -> Device:
    """The current CUDA device, or an error that says why there is none."""
    try:
        import cupy
    except ImportError as error:
        raise InvalidInput(
            "engine='gpu' needs CuPy, which is not installed: pip install 'tightrope[gpu]', or the cupy package for your CUDA"
        ) from error
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InvalidInput(f"engine='gpu' needs a CUDA device, but none is usable here: {error}") from error
    return _Cuda(cupy, properties["name"].decode(), properties["sharedMemPerBlockOptin"])


@dataclass
class _Cuda:
    cupy: Any
    name: str
    shared_bytes: int
    modules: dict[Program, Any] = field(default_factory=dict)

    def memory(self) -> int:
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        return int(free) // 2  # half of what is free

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        cupy = self.cupy
        module = self.modules.get(program)
        if module is None:
            options = ("--std=c++17", "--use_fast_math" if program.fused else "--fmad=false")
            module = self.modules[program] = cupy.RawModule(code=program.source, options=options)
        kernel = module.get_function(program.name)
        if program.shared > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = program.shared
        for name, value in constants.items():
            there = cupy.ndarray(value.shape, value.dtype, module.get_global(name))
            there[...] = cupy.asarray(value)
        passed, outputs = [], []
        for argument in arguments:
            if isinstance(argument, Output):
                passed.append(cupy.zeros(argument.shape, argument.dtype))
                outputs.append((passed[-1], argument.axes))
            elif isinstance(argument, Work):
                passed.append(cupy.empty(max(argument.size, 8), np.uint8))
            elif isinstance(argument, np.ndarray):
                # CuPy has no records; their bytes are the same.
                plain = argument.view(np.uint8) if argument.dtype.names else argument
                passed.append(cupy.asarray(plain))
            else:
                passed.append(argument)
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel((blocks,), (program.threads,), tuple(passed), shared_mem=program.shared)
        end.record()
        end.synchronize()
        seconds = cupy.cuda.get_elapsed_time(begin, end) / 1000.0
        return [cupy.ascontiguousarray(array.transpose(axes)).get() for array, axes in outputs], seconds
