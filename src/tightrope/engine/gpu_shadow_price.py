"""The shadow-price policy on a GPU: the macros and arrays of `shadow_price.cu`, or why it can't run there.

The device solves for prices between rounds: a few lanes of a warp run one replication, from its draws to its Newton steps. In
either precision the rows of a solve are drawn in the same rounds as on the CPU, and prices take effect in the same round; double
precision makes the same choices. As in all GPU kernels, Σ⁻¹ is not refreshed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.cpu import first_equal_contexts
from tightrope.engine.gpu_arrays import cost_tables, padded_rows
from tightrope.engine.replication import model_rows
from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput
from tightrope.kernels import prices, rare, shadow, shadow_solve, shadow_trace, standardised, wander
from tightrope.kernels.spread import spread_parts
from tightrope.models import Standardised, hooks
from tightrope.policies import ShadowPrice
from tightrope.problem import Part

Macros = dict[str, int | str]

FILES = ["shadow_replication.cuh", "shadow_prices.cuh", "shadow_price.cu"]
# The settings of a policy that are not macros; after them, a prior standard deviation for the reward and one for each cost
EXPLORE, CAUTION, PRIORS = range(3)
CONSTANTS = {
    shadow: "GAIN WALL CARRY CARRY_KEPT COST_DRAWS LEAST_DRAWS FADE CAP AT_CAP ENOUGH_ROUNDS ERRORS_ABOVE LEAST_RHO SAME"
    " LEAST_EXCESS MEMORY_SLOT SOLVE_SLOT MOST_NUMBERS LEAST_CAPACITY BUDGET LAST_BUDGETS UNIT_OFF MOST_STEPS",
    shadow_trace: "CHOICE_SLOT",
    wander: "RISES BARELY",
    rare: "FAR",
    standardised: "ROUNDING LARGEST_RATIO SMALLEST WIDEST CONSTANT UNVARIED UNITS_GROWTH LOOK FIRST_LOOK LOOK_GROWTH"
    " DRAWN DRAWN_OF_ONE",
    prices: "FIRST_SMOOTHING LAST_SMOOTHING SMOOTHING_FACTOR STEPS TRIALS SHORTER ENOUGH_DESCENT ENOUGH_GAIN LEAST_CURVATURE SWEEPS"
    " STILL NEGLIGIBLE",
}
# Up to this many actions, sums over pairs are kept in registers; beyond that, at least this many rows are multiplied together.
FEW_ACTIONS = 8
LIKELY_ROWS = 16
# A warp has 32 lanes; a replication gets as few as its actions need, or more if shared memory would otherwise hold too few warps to
# hide latency. In double precision, registers allow at most this many.
FEWEST_LANES, MOST_LANES, ENOUGH_WARPS = 8, 32, {"float": 12, "double": 7}
ALIGNED = 32


def cuda_constants() -> Macros:
    """The macros that don't depend on the shape."""
    values = {name: getattr(module, name) for module, names in CONSTANTS.items() for name in names.split()}
    return {
        **{name: f"{v}u" if isinstance(v, int) and v >= 2**31 else repr(v) for name, v in values.items()},
        "SETTINGS_EXPLORE": EXPLORE,
        "SETTINGS_CAUTION": CAUTION,
        "SETTINGS_PRIORS": PRIORS,
    }


def shadow_price_sizes(
    policy: ShadowPrice, env: Tabular, real: str, common: Macros, shared_bytes: int
) -> tuple[Macros, int, int]:
    """Macros, threads of a block and its bytes of shared memory; refuses a policy that has already run."""
    _require_fresh(policy, env)
    J, C, K, K_policy = env.n_actions, env.n_contexts, env.n_constraints, policy.hooks.n_constraints
    state, settings = policy.hooks.compiled_state(), policy.hooks.settings()
    late = int(len(state.columns) > 0)
    reward, cost = _size("reward", state.reward, env), _size("cost", state.cost, env)
    tables, _ = cost_tables(env)
    fewest = int(env.available.sum(axis=1).min())
    capacity = min(settings["memory"], max(shadow.LEAST_CAPACITY, shadow.MOST_NUMBERS // (fewest * (1 + K))))
    q, cost_q = float(int(reward["P"]) + 1), float(int(cost["P"]) + 1)
    row_work = shadow_solve.draw_work(q, cost_q * late, float(K_policy * late))
    macros: Macros = {
        **common,
        "REAL": real,
        "K_POLICY": K_policy,
        "LATE": late,
        **reward,
        **{f"COST_{name}": value for name, value in cost.items()},
        "COMMON_COSTS": int(
            not late and tables.max(initial=0) == 0 and bool(env.available.all()) and J <= FEW_ACTIONS
        ),
        "LIKELY_ROWS": max(J, LIKELY_ROWS),
        "GUARD": int(settings["guard"]),
        "MEMORY": settings["memory"],
        "CAPACITY": capacity,
        "ENTRIES": min(C, capacity),
        "FIRST_SOLVE": int(state.core[shadow.NEXT_SOLVE]),
        "DRAW_WORK": repr(float(row_work)),
        "SOLVE_WORK": repr(float(shadow_solve.solve_work(row_work, K_policy))),
        **kernels.cuda_tally(J, K, env.cost_noise != "none"),
    }
    if int(macros["ENTRIES"]) * J * (1 + late * K) >= 2**32:
        raise InvalidInput(
            f"a solve on a GPU draws up to 2³² normals, but {macros['ENTRIES']:,} remembered rounds need more; use engine='cpu'."
        )
    hot, cold = _bytes(macros)
    lanes = _lanes(J, hot, shared_bytes, ENOUGH_WARPS[real])
    threads = 2 * MOST_LANES
    shared = threads // lanes * hot
    if shared > shared_bytes:
        threads, shared = MOST_LANES, MOST_LANES // lanes * hot
    if shared > shared_bytes:
        shared = 0
    blocks = shared_bytes // shared if shared else 1
    macros |= {
        "HOT": hot,
        "COLD": cold,
        "HOT_IN_SHARED": int(shared > 0),
        "LANES": lanes,
        "LAUNCH_BOUNDS": f"__launch_bounds__({threads}, {blocks})",
    }
    return macros, threads, shared


def shadow_price_arguments(policies: Sequence[ShadowPrice], env: Tabular, real: type[Any]) -> list[Any]:
    """Offers, rows, costs and settings; arrays that depend on the replication come later."""
    policy = policies[0]
    state = policy.hooks.compiled_state()
    J, K = env.n_actions, env.n_constraints
    _, context = cost_tables(env)
    shown = np.arange(env.n_contexts) if not env.available.all() else context
    on_offer = env.available[shown, :, None]
    size = np.abs(env.costs[shown]) * on_offer
    n = on_offer.sum(axis=1)
    sizes = np.stack([size.sum(axis=1) / n, (size**2).sum(axis=1) / n], axis=2)
    costs = np.swapaxes(env.costs[context], 1, 2)
    settings = np.zeros((len(policies), PRIORS + 1 + K))
    for row, one in zip(settings, policies):
        own, stated = one.hooks.compiled_state(), one.hooks.settings()
        row[EXPLORE], row[CAUTION] = stated["explore"], stated["caution"]
        row[PRIORS] = _priors(own.reward)[0]
        if own.cost is not None:
            row[PRIORS + 1 :] = _priors(own.cost)
    return [
        np.concatenate([[0], np.cumsum(env.available.sum(axis=1))]).astype(np.uint32),
        np.nonzero(env.available)[1].astype(np.uint16),
        _rows("reward", state.reward, env, real),
        _rows("cost", state.cost, env, real),
        np.ascontiguousarray(np.pad(costs, ((0, 0), (0, 0), (0, -J % 4)))).astype(real),
        first_equal_contexts(policy, env).astype(np.uint32),
        np.ascontiguousarray(sizes),
        settings,
    ]


def _require_fresh(policy: ShadowPrice, env: Tabular) -> None:
    state = policy.hooks.compiled_state()
    if not policy.hooks.compiles():
        raise InvalidInput(
            "a GPU can't run a shadow-price policy whose model has no kernels or explores by members or gaps; use engine='cpu'."
        )
    fading = [getattr(one, "half_life", None) for one in (state.reward, state.cost)]
    if any(one is not None for one in (policy.hooks.settings()["half_life"], *fading)):
        raise InvalidInput("a GPU can't run a shadow-price policy with a half_life; use engine='cpu'.")
    if policy.hooks.settings()["least_chance"]:
        raise InvalidInput(
            "a GPU can't run a shadow-price policy with a least_chance; set least_chance to 0, or use engine='cpu'."
        )
    if env.costs_seen == "before" and env.random_costs and policy.hooks.n_constraints:
        raise InvalidInput(
            "a GPU's memory counts on rounds that repeat, but here the costs seen before acting are random; use engine='cpu'."
        )
    models: list[Any] = [state.reward, state.cost]
    learnt = sum(hooks.n_learnt(model) for model in models if model is not None)
    if policy.rounds or learnt or len(state.memory):
        raise InvalidInput(
            f"a shadow-price policy runs on a GPU from its first round on, but this one has {policy.rounds:,} rounds, has learnt "
            f"{learnt:,} outcomes and remembers {len(state.memory):,} rounds: use engine='cpu'."
        )


def _size(part: Part, model: Any, env: Tabular) -> Macros:
    if model is None:
        return {"P": 0, "BLOCKS": 1, "ROWS": 1, "CENTRED": 0, "RIDGE": "1.0"}
    assert isinstance(model, Standardised)
    p = model.n_features
    return {
        "P": p,
        "BLOCKS": model.n_actions or 1,
        "ROWS": model_rows(env, part, model).shape[1] if p else 1,
        "CENTRED": int(model.centred),
        "RIDGE": repr(float(standardised.ridge_of(p))),
    }


def _rows(part: Part, model: Any, env: Tabular, real: type[Any]) -> NDArray[Any]:
    """Feature rows, each feature multiplied with a power of two that makes it at most 1: what is learnt does not depend on it."""
    rows = padded_rows(part, model, env, np.float64)
    if rows.ndim < 3:
        return np.asarray(rows, dtype=real)
    rows[np.abs(rows) <= standardised.SMALLEST] = 0.0
    scaled: NDArray[Any] = np.ldexp(rows, -np.frexp(np.abs(rows).max(axis=(0, 1)))[1]).astype(real)
    return scaled


def _priors(model: Any) -> NDArray[np.float64]:
    M, _, _, _, at = spread_parts(model.spread)
    priors: NDArray[np.float64] = model.spread[at : at + M]
    return priors


def _bytes(macros: Macros) -> tuple[int, int]:
    """What `Hot` and `Cold` take at most, each a multiple of what their members are aligned to."""
    J, K, C, E, policy, late, common = (
        int(macros[name]) for name in ("J", "K", "C", "ENTRIES", "K_POLICY", "LATE", "COMMON_COSTS")
    )
    itemsize = 4 if macros["REAL"] == "float" else 8
    q, cost_q = int(macros["P"]) + 1, int(macros["COST_P"]) + 1
    constrained = int(policy > 0)

    def padded(n: int) -> int:
        return -(-n // 4) * 4

    doubles = (
        2 * (q + cost_q * late)
        + max(K, 1) * (1 + int(macros["SEPARATE_MEANS"]))
        + (3 + 2 * int(macros["GUARD"])) * K * constrained
        + 4 * K * late
    )
    blocks, cost_blocks = int(macros["BLOCKS"]), int(macros["COST_BLOCKS"])
    model = blocks * ((q + 4) * padded(q) + 1) + 2 * padded(q)
    solve = 17 * K + K * K + (J + J * (J - 1) // 2 + 1 if common else 2 * K + int(macros["LIKELY_ROWS"]) * K)
    cost_model = (
        cost_blocks * (cost_q + K + 3) * padded(cost_q) + 2 * padded(cost_q) + 2 * J * K + 2 * J + 4 * K
    )
    reals = model + 3 * padded(J) + constrained * solve + late * cost_model
    integers = max(K, 1) + 2 * J + K * constrained + 2 * blocks + 2 * cost_blocks * late
    hot = 8 * doubles + itemsize * reals + 4 * integers + 2 * ALIGNED
    sample = E * J * (2 - common + late * K) * itemsize
    cold = constrained * (sample + 4 * (int(macros["CAPACITY"]) + 5 * E + C + 3)) + ALIGNED
    cold += (blocks + 2) * q * padded(q) * itemsize
    hot, cold = (-(-n // ALIGNED) * ALIGNED for n in (hot, cold))
    # Replications side by side should not begin in the same bank.
    return hot + (ALIGNED if hot % 128 == 0 else 0), cold


def _lanes(J: int, hot: int, shared_bytes: int, warps: int) -> int:
    lanes = FEWEST_LANES
    while lanes < MOST_LANES and (lanes < J or MOST_LANES // lanes * hot * warps > shared_bytes):
        lanes *= 2
    return lanes
