"""Replications on a GPU: tens of thousands at once, by the same formulas and the same draws as on the CPU.

The kernels stand in `replicate.cu` and are compiled for the device and the shape at hand when they are first used. This module
turns policies and a tabular environment into their arguments, and needs NumPy and CuPy alone.

`precision="single"` keeps what is estimated (Σ⁻¹, θ̂, widths, means of arms) in float32; the queues of known costs, the comparison
of actions and every tally are float64 all the same. `precision="double"` is float64 throughout without fused multiply-adds: the
actions are then those of the CPU engine. `docs/gpu.md` has the measurements.
"""

from __future__ import annotations

import functools
import importlib.resources
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.cpu import COMPARATORS, check_fit, policy_seed
from tightrope.engine.terms import known_optimum, policy_name, recorded_rounds
from tightrope.engine.world import KINDS, context_index, rows_for
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Ridge
from tightrope.policies import OPB, Oracle, PessimisticOptimistic, RoundRobin, Uniform
from tightrope.result import Result
from tightrope.validation import Array, whole_number

__all__ = ["Device", "Output", "Precision", "Program", "Work", "simulate_many"]

Precision = Literal["single", "double"]
Model = Ridge | DisjointRidge | ArmMeans

LARGEST = {"actions": 1024, "features": 256, "constraints": 256}
# Σ⁻¹ is never refreshed: below these, and beyond MOST_UPDATES in float32, its drift could matter (measured in docs/gpu.md).
SMALLEST_RIDGE = {"single": 1e-4, "double": 1e-6}
MOST_UPDATES = 2_000_000
MOST_PULLS = 2**24  # float32 has no odd number beyond

ONE_THREAD, ONE_BLOCK, COMPARATOR = 1, 2, 3
NAMES = {ONE_THREAD: "one_thread", ONE_BLOCK: "one_block", COMPARATOR: "comparators"}
# Shapes that one thread can hold.
FEW_ACTIONS, FEW_FEATURES, FEW_CONSTRAINTS, FEW_ARM_COSTS = 16, 32, 32, 64
SHARED_BYTES = 232_448  # that a block may have on a device of compute capability 9.0
BLOCK_THREADS = 128


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
    """Run many policies in `env` on a GPU; those of one shape, such as one policy under many settings, in a single launch.

    Every policy sees the same draws, those of `tightrope.simulate` under the same seed.

    Parameters
    ----------
    policies : sequence
        `PessimisticOptimistic` (so `LinUCB` too), `OPB`, `RoundRobin`, `Uniform` and `Oracle`, in any mixture.
    env : Tabular
    rounds, replications, seed : int
        Of each policy.
    record, optimum, keep_choices
        As for `tightrope.simulate`.
    precision : "single" or "double"
        Of the estimates; "double" makes the choices of the CPU engine.
    names : sequence of str, optional
        What the policies are called in their results.
    device : Device, optional
        Where the kernels run; by default the current CUDA device, by CuPy.

    Returns
    -------
    list of Result
        One for each policy, in order.

    Examples
    --------
    >>> import tightrope as tr
    >>> env = tr.environments.bandit(threshold=0.1)
    >>> policies = [tr.PessimisticOptimistic(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=(-0.1, 0.9),
    ...                                      V=tr.Power(v, 0.5), epsilon=tr.Power(6.0, -0.5)) for v in (0.5, 1.0, 2.0)]
    >>> runs = simulate_many(policies, env, rounds=1000, replications=10_000)  # doctest: +SKIP
    """
    if not isinstance(env, Tabular):
        raise InvalidInput(f"env must be a Tabular environment, but got {env!r}.")
    if precision not in SMALLEST_RIDGE:
        raise InvalidInput(f"precision must be 'single' or 'double', but got {precision!r}.")
    labels = [policy_name(policy) for policy in policies] if names is None else list(names)
    if len(labels) != len(policies):
        raise InvalidInput(
            f"names must have one entry for each of {len(policies)} policies, but has {len(labels)}."
        )
    rounds = whole_number("rounds", rounds, low=1, high=2**31 - 1)
    replications = whole_number("replications", replications, low=1, high=2**32 - 1)
    seed = whole_number("seed", seed)
    grid = recorded_rounds(rounds, record)
    shapes = [_shape(policy, env, precision, keep_choices) for policy in policies]
    value, interval, baseline = known_optimum(env, optimum)
    for policy, shape in zip(policies, shapes):
        if shape["REAL"] == "float":
            _require_short(policy, rounds)
    device = cuda_device() if device is None else device
    if device.shared_bytes < SHARED_BYTES:
        shapes = [_shape(policy, env, precision, keep_choices, device.shared_bytes) for policy in policies]

    groups: dict[Program, list[int]] = {}
    for i, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(i)
    results: list[Result | None] = [None] * len(policies)
    for program, members in groups.items():
        started = time.perf_counter()
        settings = [policies[i] for i in members]
        batches, device_seconds = _launch(
            program, settings, env, rounds, replications, seed, grid, keep_choices, device
        )
        seconds = (time.perf_counter() - started) / len(members)
        for s, i in enumerate(members):
            results[i] = _result(
                batches[s],
                env,
                policy=labels[i],
                rounds=grid,
                optimum=value,
                optimum_interval=interval,
                baseline=baseline,
                seed=seed,
                seconds=seconds,
                settings={
                    "policy": repr(policies[i]),
                    "environment": repr(env),
                    "rounds": rounds,
                    "replications": replications,
                    "engine": f"gpu, {precision} precision",
                    "device": device.name,
                    "device seconds": device_seconds / len(members),
                },
            )
    return [result for result in results if result is not None]


# ------------------------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Program:
    """What is compiled: one of the kernels of `replicate.cu` with the sizes of a shape.

    Attributes
    ----------
    kernel : int
    sizes : tuple of (name, value)
        Macros.
    fused : bool
        Whether a·b + c may be rounded once.
    threads : int
        Of a block.
    shared : int
        Bytes of shared memory of a block.
    """

    kernel: int
    sizes: tuple[tuple[str, int | str], ...]
    fused: bool
    threads: int
    shared: int

    @property
    def name(self) -> str:
        """The kernel's name."""
        return NAMES[self.kernel]

    @property
    def source(self) -> str:
        """The text to compile."""
        macros = [f"#define {name} {value}" for name, value in self.sizes]
        return "\n".join([*macros, _kernel_source()])

    def __getitem__(self, name: str) -> Any:
        return dict(self.sizes)[name]


class Output(NamedTuple):
    """An array that a kernel writes, and the order of axes in which it is wanted."""

    shape: tuple[int, ...]
    dtype: str
    axes: tuple[int, ...]


class Work(NamedTuple):
    """Room that a kernel needs, in bytes."""

    size: int


class Device(Protocol):
    """Where kernels run."""

    name: str
    shared_bytes: int

    def room(self) -> int:
        """Bytes of memory that may be used."""

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        """Launch and wait; the outputs in the order asked for, and the seconds that the kernel took."""


@functools.cache
def _kernel_source() -> str:
    return importlib.resources.files("tightrope.engine").joinpath("replicate.cu").read_text(encoding="utf-8")


def _shape(
    policy: Any, env: Tabular, precision: Precision, keep_choices: bool, shared_bytes: int = SHARED_BYTES
) -> Program:
    """The program for `policy`; refuses what no kernel does."""
    J, K = env.n_actions, env.n_constraints
    for name, size in (("actions", J), ("constraints", K)):
        _require_size(name, size)
    check_fit(policy, env)
    cost_table, _ = cost_tables(env)
    common: dict[str, int | str] = {
        "J": J,
        "K": K,
        "K_STRIDE": K + K % 2,
        "C": env.n_contexts,
        "GUIDE_BITS": _guide_bits(env.n_contexts),
        "COST_TABLES": int(cost_table.max(initial=0)) + 1,
        "REWARD_KIND": KINDS[env.reward_noise],
        "COST_KIND": KINDS[env.cost_noise],
        "SLEEPING": int(not env.available.all()),
        "KEEP_CHOICES": int(keep_choices),
    }
    if type(policy) in COMPARATORS:
        kind = COMPARATORS[type(policy)]
        _require_fit(policy, env)
        common |= {
            "REAL": "double",
            "K_POLICY": 0,
            "KNOWN_COSTS": 0,
            "COMPARATOR": kind,
            "STRIDE": BLOCK_THREADS,
        }
        common |= {"STATE": 3 * J if kind == kernels.OPB else J, "SETTINGS": max(J, 6)}
        return Program(COMPARATOR, _sizes(common, COMPARATOR), False, BLOCK_THREADS, 0)
    if type(policy) is not PessimisticOptimistic:
        raise InvalidInput(f"{type(policy).__name__} has no loop on a GPU: use engine='cpu'.")
    if not policy.compiles:
        raise InvalidInput(
            "a policy that measures Slater's constant needs an LP as it runs: use engine='cpu', or give slater=."
        )
    return _policy_program(policy, env, precision, common, shared_bytes)


def _policy_program(
    policy: PessimisticOptimistic,
    env: Tabular,
    precision: Precision,
    common: dict[str, int | str],
    shared_bytes: int,
) -> Program:
    J, K = env.n_actions, env.n_constraints
    reward, cost = policy._reward, policy._cost
    parts = {
        "reward": _part("reward", reward, env.features, J),
        "cost": _part("cost", cost, env.cost_features, J),
    }
    for part in parts.values():
        _require_size("features", part.features)
        if part.ridge is not None and part.ridge < SMALLEST_RIDGE[precision]:
            remedy = "precision='double' or " if part.ridge >= SMALLEST_RIDGE["double"] else ""
            raise InvalidInput(
                f"ridge must be at least {SMALLEST_RIDGE[precision]:g} on a GPU in {precision} precision, where Σ⁻¹ is never "
                f"refreshed, but got {part.ridge:g}: use {remedy}engine='cpu'."
            )
    one, two = parts["reward"], parts["cost"]
    arm_costs = J * K if two.kind == kernels.ARM_MODEL else 0
    small = (
        J <= FEW_ACTIONS
        and K <= FEW_CONSTRAINTS
        and arm_costs <= FEW_ARM_COSTS
        and max(one.features, two.features) <= FEW_FEATURES
    )
    kernel = ONE_THREAD if small else ONE_BLOCK
    lengths = [part.length(kernel) for part in (one, two)]
    memory = sum(lengths)
    itemsize = 4 if precision == "single" else 8
    threads = BLOCK_THREADS if max(one.features, two.features) == 0 or not small else 32
    shared = threads * memory * itemsize if small else 0
    if shared > shared_bytes:
        threads, shared = BLOCK_THREADS, 0
    room = max(one.features, two.features, 1)
    constrained = policy.n_constraints > 0
    common |= {
        "REAL": "float" if precision == "single" else "double",
        "K_POLICY": K if constrained else 0,
        "KNOWN_COSTS": int(env.costs_seen == "before"),
        "REWARD_MODEL": one.kind,
        "P": one.features,
        "BLOCKS": one.blocks,
        "ROWS": one.rows,
        "COST_MODEL": two.kind,
        "COST_P": two.features,
        "COST_BLOCKS": two.blocks,
        "COST_ROWS": two.rows,
        "STATE": memory,
        "REWARD_AT": 0,
        "COST_AT": lengths[0],
    }
    if kernel == ONE_THREAD:
        common |= {
            "STRIDE": threads,
            "STATE_IN_SHARED": int(shared > 0),
            "SAME_COUNTS": int(_same_counts(reward, cost)),
            "TILE": 3 if max(one.features, two.features) <= 24 else 2,
            "LAUNCH_BOUNDS": f"__launch_bounds__({threads})",
        }
    else:
        reals = memory + room + K
        common |= {
            "ROOM": room,
            "ACTION_TILE": _action_tile(one, two, J),
            "WORK": 2 * J + J * K + 4 * K + math.ceil(reals * itemsize / 8),
        }
    return Program(kernel, _sizes(common, kernel), precision == "single", threads, shared)


def _same_counts(reward: Model, cost: Model | None) -> bool:
    """Whether reward and costs are learnt from the same pulls of the arms."""
    return (
        isinstance(reward, ArmMeans)
        and isinstance(cost, ArmMeans)
        and np.array_equal(reward.counts, cost.counts)
    )


def _action_tile(reward: _Part, cost: _Part, J: int) -> int:
    """Actions that a warp takes at a time: several, where they share a matrix and every warp still has some."""
    if reward.blocks > 1 or cost.blocks > 1:
        return 1
    return min(4, math.ceil(J / (BLOCK_THREADS // 32)))


class _Part(NamedTuple):
    """The size of one model as the kernels hold it."""

    kind: int
    features: int
    blocks: int
    rows: int
    outputs: int
    actions: int
    ridge: float | None

    def length(self, kernel: int) -> int:
        """Numbers in its state."""
        if self.kind == kernels.NO_MODEL:
            return 0
        if self.kind == kernels.ARM_MODEL:
            return self.actions * (2 + 2 * self.outputs if kernel == ONE_THREAD else 1 + self.outputs)
        p = self.features
        return self.blocks * ((p * (p + 1) // 2 if kernel == ONE_THREAD else p * p) + self.outputs * p)


def _part(name: str, model: Model | None, features: Array | None, J: int) -> _Part:
    if model is None:
        return _Part(kernels.NO_MODEL, 0, 1, 1, 0, J, None)
    if isinstance(model, ArmMeans):
        return _Part(kernels.ARM_MODEL, 0, 1, 1, model.n_outputs, J, None)
    rows = rows_for(name, model, features, J)
    blocks = J if isinstance(model, DisjointRidge) else 1
    return _Part(kernels.RIDGE_MODEL, rows.shape[2], blocks, rows.shape[1], model.n_outputs, J, model.ridge)


def _sizes(macros: Mapping[str, int | str], kernel: int) -> tuple[tuple[str, int | str], ...]:
    return (("KERNEL", kernel), *sorted(macros.items()))


def _require_size(name: str, size: int) -> None:
    if size > LARGEST[name]:
        raise InvalidInput(f"a GPU takes up to {LARGEST[name]:,} {name}, but got {size:,}: use engine='cpu'.")


def _require_short(policy: PessimisticOptimistic, rounds: int) -> None:
    """Refuse more rounds than single precision is good for."""
    for model in (policy._reward, policy._cost):
        if model is None:
            continue
        most = MOST_PULLS if isinstance(model, ArmMeans) else MOST_UPDATES
        if rounds + model.stat[kernels.LEARNT] > most:
            raise InvalidInput(
                f"in single precision {model!r} is good for {most:,} rounds, but got {rounds:,}: use precision='double'."
            )


def _require_fit(policy: Any, env: Tabular) -> None:
    size = (
        policy.x.shape
        if isinstance(policy, Oracle)
        else (policy.n_arms if isinstance(policy, OPB) else policy.n_actions)
    )
    if size not in (env.n_actions, (env.n_contexts, env.n_actions)):
        raise InvalidInput(
            f"{policy!r} does not fit an environment of {env.n_contexts} contexts and {env.n_actions} actions."
        )


# ------------------------------------------------------------------------------------------------------------ arguments

UNIT = 2.0**53
UNSEEN = 1e30  # 1/√N of an arm without an outcome: its width is beyond every limit


def thresholds(p: Array) -> NDArray[np.uint64]:
    """ceil(p 2⁵³) as whole numbers: a draw m of 53 bits is below it exactly when m / 2⁵³ < p.

    >>> thresholds(np.array([0.0, 0.5, 1.0])).tolist() == [0, 2**52, 2**53]
    True
    """
    return np.ceil(np.clip(p, 0.0, 1.0) * UNIT).astype(np.uint64)


def cost_thresholds(location: Array, low: Array, high: Array) -> NDArray[np.uint64]:
    """The least m of 53 bits for which `u·(high − low) < location − low`, the kernels' test of a jump, is false at u = m / 2⁵³.

    The test rounds, so the threshold is found by bisection on the test itself, which is monotone in m.

    >>> cost_thresholds(np.array([0.0]), np.array([-1.0]), np.array([1.0])).tolist() == [2**52]
    True
    """
    below = np.zeros(location.shape, dtype=np.uint64)
    above = np.full(location.shape, 2**53, dtype=np.uint64)
    for _ in range(54):
        middle = (below + above) // np.uint64(2)
        jumps = (middle * (1.0 / UNIT)) * (high - low) < location - low
        below = np.where(jumps & (below < above), middle + np.uint64(1), below)
        above = np.where(jumps, above, middle)
    return below


def seed_keys(seed: int) -> NDArray[np.uint32]:
    """The keys of Philox's ten rounds, two by two.

    >>> seed_keys(0)[:3].tolist() == [0, 0, 0x9E3779B9]
    True
    """
    key = int(np.uint64(seed))
    words = (key & 0xFFFFFFFF, key >> 32)
    weyl = (int(kernels.PHILOX_W0), int(kernels.PHILOX_W1))
    rounds = [(word + i * step) & 0xFFFFFFFF for i in range(10) for word, step in zip(words, weyl)]
    return np.array(rounds, dtype=np.uint32)


def cost_tables(env: Tabular) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Contexts share a table where their costs are the same: the table of each context, and a context of each table."""
    if env.n_constraints == 0:
        return np.zeros(env.n_contexts, dtype=np.uint32), np.zeros(1, dtype=np.int64)
    both = np.concatenate([env.costs, env.cost_locations], axis=2).reshape(env.n_contexts, -1)
    _, context, table = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return table.reshape(-1).astype(np.uint32), context


def schedule_steps(policy: PessimisticOptimistic, rounds: int) -> Array:
    """1/V_t, ε_t and what multiplies the widths of reward and costs, (rounds, 4), from the policy's present round on."""
    core = policy._core
    i = np.arange(rounds, dtype=np.float64)
    t = core[kernels.ROUNDS] + 1.0 + i
    out = np.zeros((rounds, 4))
    if policy.n_constraints > 0:
        kernels.schedule_values_ahead(core.copy(), out[:, :2])
        out[:, 0] = 1.0 / out[:, 0]
    for column, model in ((2, policy._reward), (3, policy._cost)):
        if isinstance(model, ArmMeans):
            # Above 0, so that it can't hide the width of an arm without an outcome.
            out[:, column] = np.maximum(model.bonus * np.sqrt(np.log(t)), 1.0 / UNSEEN**0.75)
        elif model is not None:
            kernels.ridge_bonuses_ahead(model.flat.copy(), core.copy(), out[:, column])
    return out


def _guide_bits(contexts: int) -> int:
    return max(1, math.ceil(math.log2(contexts)) + 3)


def _world_arguments(env: Tabular) -> list[Any]:
    """The environment in the order of WORLD_ARGUMENTS."""
    cdf = np.cumsum(env.weights)
    cdf[np.flatnonzero(env.weights)[-1] :] = 1.0
    cuts = thresholds(cdf)
    bits = _guide_bits(env.n_contexts)
    starts = np.arange(2**bits, dtype=np.uint64) << np.uint64(53 - bits)
    rewards = np.zeros(env.rewards.shape, dtype=[("mean", "f8"), ("threshold", "u8")])
    rewards["mean"] = env.rewards
    rewards["threshold"] = thresholds(env.rewards)
    table, context = cost_tables(env)
    low, high = env.cost_range.T
    locations = env.cost_locations[context]
    return [
        cuts,
        np.searchsorted(cuts, starts, side="right").astype(np.uint32),
        rewards,
        table,
        _even(env.costs[context]),
        _even(locations),
        _even(cost_thresholds(locations, low, high))
        if env.cost_noise == "bernoulli"
        else np.zeros(1, np.uint64),
        np.ascontiguousarray(env.cost_range),
        env.available.astype(np.uint8),
        np.float64(env.reward_scale),
        np.float64(env.cost_scale),
    ]


def _even(table: NDArray[Any]) -> NDArray[Any]:
    """Rows of an even length, so that two numbers are loaded at a time."""
    return np.ascontiguousarray(np.pad(table, ((0, 0), (0, 0), (0, table.shape[2] % 2))))


def _rows(
    name: str, model: Model | None, features: Array | None, env: Tabular, real: type[Any]
) -> NDArray[Any]:
    """Feature rows padded to a multiple of four numbers, so that four are loaded at a time."""
    if model is None or isinstance(model, ArmMeans):
        return np.zeros(4, dtype=real)
    rows = context_index(rows_for(name, model, features, env.n_actions), env.n_contexts)
    return np.ascontiguousarray(np.pad(rows, ((0, 0), (0, 0), (0, -rows.shape[2] % 4))).astype(real))


def _model_state(model: Model | None, kernel: int) -> Array:
    if model is None:
        return np.zeros(0)
    if isinstance(model, ArmMeans):
        n, sums = model.counts, model.sums
        if kernel == ONE_BLOCK:
            return np.concatenate([n, sums.ravel()])
        seen = np.maximum(n, 1.0)
        spread = np.where(n > 0, 1.0 / np.sqrt(seen), UNSEEN)
        return np.concatenate([n, spread, sums.ravel(), (sums / seen[:, None]).ravel()])
    inverse = model.Sigma_inv
    if kernel == ONE_THREAD:
        inverse = inverse[(slice(None), *np.tril_indices(inverse.shape[1]))]
    return np.concatenate([inverse.ravel(), model.Theta.ravel()])


def _policy_arguments(
    program: Program, policies: Sequence[PessimisticOptimistic], env: Tabular, rounds: int
) -> list[Any]:
    """Rows, steps, start, start_queue and ranges."""
    real: type[Any] = np.float32 if program["REAL"] == "float" else np.float64
    queue: type[Any] = np.float64 if program["K_POLICY"] and program["KNOWN_COSTS"] else real
    any_policy = policies[0]
    K = env.n_constraints
    start, queues, ranges = [], [], []
    for policy in policies:
        start.append(
            np.concatenate([_model_state(m, program.kernel) for m in (policy._reward, policy._cost)])
        )
        queues.append(policy.queue if policy.n_constraints else np.zeros(max(K, 1)))
        ranges.append(policy._ranges if len(policy._ranges) else np.zeros((max(K, 1), 2)))
    return [
        _rows("reward", any_policy._reward, env.features, env, real),
        _rows("cost", any_policy._cost, env.cost_features, env, real),
        np.stack([schedule_steps(policy, rounds) for policy in policies]).astype(queue),
        np.stack(start).astype(real),
        np.stack(queues).astype(queue),
        np.stack(ranges).astype(real),
    ]


def _comparator_arguments(program: Program, policies: Sequence[Any], env: Tabular) -> list[Any]:
    """Tables, start, settings; what depends on the replication comes later."""
    J = env.n_actions
    tables, start, settings = [], [], []
    for policy in policies:
        tables.append(thresholds(policy.cdf) if isinstance(policy, Oracle) else np.zeros((1, 1), np.uint64))
        counts = policy.counts if isinstance(policy, (RoundRobin, OPB)) else np.zeros(J)
        start.append(np.concatenate([counts, policy.sums.ravel()]) if isinstance(policy, OPB) else counts)
        own = np.zeros(program["SETTINGS"])
        if isinstance(policy, RoundRobin):
            own[:J] = policy.shares
        elif isinstance(policy, OPB):
            own[:6] = policy.settings
        settings.append(own)
    return [np.stack(tables), np.stack(start), np.stack(settings)]


# --------------------------------------------------------------------------------------------------------------- launch


class Batch(NamedTuple):
    """What the replications of one setting leave."""

    records: Array
    last_violation: NDArray[np.int64]
    choices: NDArray[np.int16] | None


def _launch(
    program: Program,
    policies: Sequence[Any],
    env: Tabular,
    rounds: int,
    replications: int,
    seed: int,
    grid: NDArray[np.int64],
    keep_choices: bool,
    device: Device,
) -> tuple[list[Batch], float]:
    """All replications of policies of one shape, in as few launches as the device's memory allows."""
    J, K, S, G = env.n_actions, env.n_constraints, len(policies), len(grid)
    compared = program.kernel == COMPARATOR
    separate = program["COST_KIND"] != kernels.FIXED and not (program["K_POLICY"] and program["KNOWN_COSTS"])
    fields = 2 + K * (2 if separate else 1) + J
    world = _world_arguments(env)
    constants: dict[str, NDArray[Any]] = {"seed_keys": seed_keys(seed)}
    if compared:
        own = _comparator_arguments(program, policies, env)
    else:
        own = _policy_arguments(program, policies, env, rounds)
        if (
            program["K_POLICY"]
            and program["KNOWN_COSTS"]
            and program["COST_KIND"] == kernels.FIXED
            and (program["COST_TABLES"] == 1 and program.kernel == ONE_THREAD)
        ):
            constants["known_costs"] = np.ascontiguousarray(env.costs[0])
    a_replication = _work_bytes(program) + 2 * (8 * G * fields + 4 * K + (2 * rounds if keep_choices else 0))
    most = max(1, device.room() // (S * a_replication))
    batches: list[list[Batch]] = [[] for _ in policies]
    seconds = 0.0
    for first in range(0, replications, most):
        n = min(most, replications - first)
        blocks = n if program.kernel == ONE_BLOCK else math.ceil(n / program.threads)
        randomised: list[Any] = []
        if compared:
            numbers = range(first, first + n)
            randomised = [
                np.array([_own_seeds(policy, seed, numbers) for policy in policies], dtype=np.uint64),
                np.array([policy._ledger.made for policy in policies], dtype=np.uint64),
            ]
        outputs, taken = device.run(
            program,
            blocks * S,
            [
                *world,
                *own,
                *randomised,
                np.uint32(first),
                np.uint32(n),
                np.int32(rounds),
                grid.astype(np.int32),
                np.int32(G),
                np.int32(blocks),
                Work(
                    _work_bytes(program)
                    * blocks
                    * (1 if program.kernel == ONE_BLOCK else program.threads)
                    * S
                ),
                Output((S, G, fields, n), "f8", (0, 3, 1, 2)),
                Output((S, K, n), "i4", (0, 2, 1)),
                Output((S, rounds if keep_choices else 0, n), "u2", (0, 2, 1)),
            ],
            constants,
        )
        seconds += taken
        for s in range(S):
            records, last, choices = (array[s] for array in outputs)
            batches[s].append(
                Batch(records, last.astype(np.int64), choices.astype(np.int16) if keep_choices else None)
            )
    return [_joined(batch) for batch in batches], seconds


def _work_bytes(program: Program) -> int:
    """Global memory that one replication needs for its state."""
    if program.kernel == ONE_THREAD:
        itemsize = 4 if program["REAL"] == "float" else 8
        return 0 if program["STATE_IN_SHARED"] else int(program["STATE"]) * itemsize
    return 8 * int(program["WORK"] if program.kernel == ONE_BLOCK else program["STATE"])


def _own_seeds(policy: Any, seed: int, replications: range) -> list[int]:
    """The seeds that `copy` is given on the CPU, where the policy draws at all."""
    if not isinstance(policy, (Uniform, Oracle, OPB)):
        return [0] * len(replications)
    return [policy_seed(seed, replication) for replication in replications]


def _joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    records, last, choices = zip(*batches)
    return Batch(
        np.concatenate(records), np.concatenate(last), None if choices[0] is None else np.concatenate(choices)
    )


def _result(batch: Batch, env: Tabular, **rest: Any) -> Result:
    J, K = env.n_actions, env.n_constraints
    records = batch.records
    cost = np.ascontiguousarray(records[:, :, 2 : 2 + K])
    separate = records.shape[2] > 2 + K + J
    return Result(
        scenario=env.name,
        reward=np.ascontiguousarray(records[:, :, 0]),
        observed_reward=np.ascontiguousarray(records[:, :, 1]),
        cost=cost,
        mean_cost=np.ascontiguousarray(records[:, :, 2 + K : 2 + 2 * K]) if separate else cost,
        counts=records[:, :, -J:].astype(np.int64),
        last_violation=batch.last_violation,
        actions=env.actions,
        constraints=env.constraints,
        choices=batch.choices,
        **rest,
    )


# ----------------------------------------------------------------------------------------------------------------- CuPy


@dataclass
class _Cuda:
    """The current CUDA device, by CuPy."""

    cupy: Any
    name: str
    shared_bytes: int
    modules: dict[Program, Any] = field(default_factory=dict)

    def room(self) -> int:
        """Half of the memory that is free."""
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        return int(free) // 2

    def run(
        self, program: Program, blocks: int, arguments: Sequence[Any], constants: Mapping[str, NDArray[Any]]
    ) -> tuple[list[NDArray[Any]], float]:
        """Launch and wait; the outputs in the order asked for, and the seconds that the kernel took."""
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
                array = cupy.zeros(argument.shape, argument.dtype)
                outputs.append((array, argument.axes))
                passed.append(array)
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


@functools.cache
def cuda_device() -> Device:
    try:
        import cupy
    except ImportError as error:
        raise InvalidInput(
            "engine='gpu' needs CuPy, which is not installed: install tightrope[gpu], or the cupy package for your CUDA."
        ) from error
    try:
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InvalidInput(f"engine='gpu' needs a CUDA device, but none can be used here: {error}") from error
    return _Cuda(cupy, properties["name"].decode(), properties["sharedMemPerBlockOptin"])
