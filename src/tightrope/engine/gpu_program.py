"""What is compiled for a GPU: the kernel and sizes for a policy and an environment, or why there is none."""

from __future__ import annotations

import functools
import importlib.resources
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.engine import gpu_shadow_price
from tightrope.engine.cpu import COMPARATORS
from tightrope.engine.gpu_arrays import cost_tables, guide_bits
from tightrope.engine.replication import KINDS, model_rows
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Ridge, hooks
from tightrope.policies import PessimisticOptimistic, Policy, ShadowPrice
from tightrope.policies.hooks import Player
from tightrope.problem import Part

Precision = Literal["single", "double"]
Model = Ridge | DisjointRidge | ArmMeans

LARGEST = {"actions": 1024, "features": 256, "constraints": 256}
# Σ⁻¹ is never refreshed: below these, and beyond MOST_UPDATES in float32, its drift could matter (measured in docs/gpu.md).
SMALLEST_RIDGE = {"single": 1e-4, "double": 1e-6}
MOST_UPDATES = 2_000_000
MOST_PULLS = 2**24  # float32 has no odd number beyond

# The kernels of `replicate.cu` and `shadow_price.cu`, which are named so in lower case.
ONE_THREAD, ONE_BLOCK, COMPARATOR, SHADOW_PRICE = 1, 2, 3, 4
CODES = dict(enumerate(("ONE_THREAD", "ONE_BLOCK", "COMPARATORS", "SHADOW_PRICE"), start=1))
# Shapes that one thread can hold.
FEW_ACTIONS, FEW_FEATURES, FEW_CONSTRAINTS, FEW_ARM_COSTS = 16, 32, 32, 64
# r̂ as in `kernels.clipped_reward`, by its lower limit.
_CLIPPED_REWARD = {-math.inf: "fmin((REAL)1, x)", 0.0: "fmax((REAL)0, fmin((REAL)1, x))"}
SHARED_BYTES = 232_448  # the most for a block on a device of compute capability 9.0
BLOCK_THREADS = 128


@dataclass(frozen=True)
class Program:
    """What is compiled: one of the kernels with the sizes of a shape."""

    kernel: int
    sizes: tuple[tuple[str, int | str], ...]  # macros
    fused: bool  # whether a·b + c may be rounded once
    threads: int  # of a block
    shared: int  # bytes of shared memory of a block

    @property
    def name(self) -> str:
        return CODES[self.kernel].lower()

    @property
    def source(self) -> str:
        own = self.kernel == SHADOW_PRICE
        macros = [
            *kernels.cuda_constants().items(),
            *(gpu_shadow_price.cuda_constants().items() if own else ()),
            *((name, code) for code, name in CODES.items()),
            *self.sizes,
        ]
        files = ["world.cuh", *(gpu_shadow_price.FILES if own else ["replicate.cu"])]
        return "\n".join([*(f"#define {name} {value}" for name, value in macros), *map(_text, files)])

    @property
    def together(self) -> int:
        """Replications of a block."""
        if self.kernel == ONE_BLOCK:
            return 1
        return self.threads // int(self["LANES"]) if self.kernel == SHADOW_PRICE else self.threads

    def __getitem__(self, name: str) -> Any:
        return dict(self.sizes)[name]


def program_for(
    policy: Player, env: Tabular, precision: Precision, keep_choices: bool, shared_bytes: int = SHARED_BYTES
) -> Program:
    J, K = env.n_actions, env.n_constraints
    for name, size in (("actions", J), ("constraints", K)):
        _require_size(name, size)
    env.problem().require_fit(policy)
    cost_table, _ = cost_tables(env)
    common: dict[str, int | str] = {
        "J": J,
        "K": K,
        "K_STRIDE": K + K % 2,
        "C": env.n_contexts,
        "GUIDE_BITS": guide_bits(env.n_contexts),
        "COST_TABLES": int(cost_table.max(initial=0)) + 1,
        "REWARD_KIND": KINDS[env.reward_noise],
        "COST_KIND": KINDS[env.cost_noise],
        "SLEEPING": int(not env.available.all()),
        "KEEP_CHOICES": int(keep_choices),
    }
    if not isinstance(policy, Policy) or (loop := policy.hooks.loop) is None:
        raise InvalidInput(f"{type(policy).__name__} can't run on a GPU; use engine='cpu'.")
    if loop in COMPARATORS:
        kind = COMPARATORS[loop]
        _, state = kernels.device_arms_size(J, 2 if kind == kernels.OPB else 0, False)
        common |= {"REAL": "double", "K_POLICY": 0, "KNOWN_COSTS": 0, "COMPARATOR": kind}
        common |= {"STRIDE": BLOCK_THREADS, "STATE": state, "SETTINGS": max(J, kernels.OPB_SETTINGS)}
        common |= kernels.cuda_tally(J, K, env.cost_noise != "none")
        return Program(COMPARATOR, _sizes(common, COMPARATOR), False, BLOCK_THREADS, 0)
    if isinstance(policy, ShadowPrice):
        real = "float" if precision == "single" else "double"
        macros, threads, shared = gpu_shadow_price.shadow_price_sizes(policy, env, real, common, shared_bytes)
        _require_size("features", max(int(macros["P"]), int(macros["COST_P"])))
        return Program(SHADOW_PRICE, _sizes(macros, SHADOW_PRICE), precision == "single", threads, shared)
    assert isinstance(policy, PessimisticOptimistic)
    if not policy.hooks.compiles():
        raise InvalidInput(
            "a GPU can't measure Slater's constant, nor run a model without kernels; pass slater= or use engine='cpu'."
        )
    return _policy_program(policy, env, precision, common, shared_bytes)


def require_short(policy: PessimisticOptimistic | ShadowPrice, rounds: int) -> None:
    state = policy.hooks.compiled_state()
    for model in (state.reward, state.cost):
        most = MOST_PULLS if model is not None and hooks.compiled(model) == "arms" else MOST_UPDATES
        if model is not None and rounds + hooks.n_learnt(model) > most:
            raise InvalidInput(
                f"in single precision {model!r} is accurate for up to {most:,} rounds, but got {rounds:,}; use precision='double'."
            )


def _policy_program(
    policy: PessimisticOptimistic,
    env: Tabular,
    precision: Precision,
    common: dict[str, int | str],
    shared_bytes: int,
) -> Program:
    J, K = env.n_actions, env.n_constraints
    state = policy.hooks.compiled_state()
    reward, cost = state.reward, state.cost
    one, two = _part("reward", reward, env), _part("cost", cost, env)
    p = max(one.features, two.features)
    for part in (one, two):
        _require_size("features", part.features)
        if part.ridge is not None and part.ridge < SMALLEST_RIDGE[precision]:
            remedy = "precision='double' or " if part.ridge >= SMALLEST_RIDGE["double"] else ""
            raise InvalidInput(
                f"ridge must be at least {SMALLEST_RIDGE[precision]:g} on a GPU in {precision} precision, where Σ⁻¹ is never "
                f"refreshed, but got {part.ridge:g}: use {remedy}engine='cpu'."
            )
    arm_costs = J * K if two.kind == kernels.ARM_MODEL else 0
    few = J <= FEW_ACTIONS and K <= FEW_CONSTRAINTS
    small = few and arm_costs <= FEW_ARM_COSTS and p <= FEW_FEATURES
    kernel = ONE_THREAD if small else ONE_BLOCK
    models = kernels.cuda_models([part.sizes(kernel) for part in (one, two)])
    memory = models["STATE"]
    itemsize = 4 if precision == "single" else 8
    threads = BLOCK_THREADS if p == 0 or not small else 32
    shared = threads * memory * itemsize if small else 0
    if shared > shared_bytes:
        threads, shared = BLOCK_THREADS, 0
    constrained, known = policy.hooks.n_constraints > 0, env.costs_seen == "before"
    common |= {
        "REAL": "float" if precision == "single" else "double",
        "K_POLICY": K if constrained else 0,
        "KNOWN_COSTS": int(known),
        "CLIPPED_REWARD(x)": _CLIPPED_REWARD[float(kernels.least_reward(state.core))],
        **dict(zip(("REWARD_MODEL", "P", "BLOCKS", "ROWS"), one[:4])),
        **dict(zip(("COST_MODEL", "COST_P", "COST_BLOCKS", "COST_ROWS"), two[:4])),
        **models,
        **kernels.cuda_tally(J, K, env.cost_noise != "none" and not (constrained and known)),
    }
    if kernel == ONE_THREAD:
        arms = cost is not None and hooks.compiled(reward) == hooks.compiled(cost) == "arms"
        common |= {
            "STRIDE": threads,
            "STATE_IN_SHARED": int(shared > 0),
            "SAME_COUNTS": int(arms and np.array_equal(reward.counts, cost.counts)),
            "TILE": 3 if p <= 24 else 2,
            "LAUNCH_BOUNDS": f"__launch_bounds__({threads})",
        }
    else:
        # How many actions a warp handles at a time: several, if they share a matrix and every warp still has some.
        shared_matrix = one.blocks == two.blocks == 1
        common |= {"ACTION_TILE": min(4, math.ceil(J / (BLOCK_THREADS // 32))) if shared_matrix else 1}
        common |= kernels.cuda_block(J, K, memory, max(p, 1), itemsize)
    return Program(kernel, _sizes(common, kernel), precision == "single", threads, shared)


class _ModelSize(NamedTuple):
    kind: int
    features: int
    blocks: int
    rows: int
    outputs: int
    actions: int
    ridge: float | None

    def sizes(self, kernel: int) -> tuple[int, int]:
        """Numbers in its Σ⁻¹, and in all of its state."""
        packed = kernel == ONE_THREAD
        if self.kind == kernels.NO_MODEL:
            return 0, 0
        if self.kind == kernels.ARM_MODEL:
            return tuple(kernels.device_arms_size(self.actions, self.outputs, packed))
        return tuple(kernels.device_ridge_size(self.blocks, self.features, self.outputs, packed))


def _part(part: Part, model: Any, env: Tabular) -> _ModelSize:
    J = env.n_actions
    if model is None:
        return _ModelSize(kernels.NO_MODEL, 0, 1, 1, 0, J, None)
    if hooks.compiled(model) == "arms":
        return _ModelSize(kernels.ARM_MODEL, 0, 1, 1, model.n_outputs, J, None)
    _, rows, p = model_rows(env, part, model).shape
    return _ModelSize(kernels.RIDGE_MODEL, p, model.n_actions or 1, rows, model.n_outputs, J, model.ridge)


def _sizes(macros: Mapping[str, int | str], kernel: int) -> tuple[tuple[str, int | str], ...]:
    return (("KERNEL", kernel), *sorted(macros.items()))


def _require_size(name: str, size: int) -> None:
    if size > LARGEST[name]:
        raise InvalidInput(f"a GPU takes up to {LARGEST[name]:,} {name}, but got {size:,}: use engine='cpu'.")


@functools.cache
def _text(file: str) -> str:
    return importlib.resources.files("tightrope.engine").joinpath(file).read_text(encoding="utf-8")
