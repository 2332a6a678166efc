"""The terms of a run on any engine: its size, the rounds recorded, what regret is measured against, and its `Result`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.environments.custom import Custom
from tightrope.environments.drifting import Drifting, Environment
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.policies.hooks import Player, traits_of
from tightrope.result import Result
from tightrope.rules import Units
from tightrope.validation import Array, finite_number, whole_number

GRID_POINTS = 200


def policy_name(policy: object) -> str:
    """The registered name of a policy, or the name of its class."""
    kind = getattr(policy, "kind", None)
    if kind == "pessimistic-optimistic" and traits_of(policy).n_constraints == 0:
        return "linucb"
    return kind.rpartition(":")[2] if isinstance(kind, str) else type(policy).__name__


def recorded_rounds(rounds: int, record: int | Sequence[int] | None) -> NDArray[np.int64]:
    """The rounds to record: geometric and even spacing combined, always including the last round."""
    if record is None or isinstance(record, (int, np.integer)):
        points = GRID_POINTS if record is None else whole_number("record", record, low=1)
        if points >= rounds:
            return np.arange(1, rounds + 1)
        half = max(1, points // 2)
        even = points - half + 1
        chosen = np.r_[np.geomspace(1, rounds, half).round(), np.linspace(rounds / even, rounds, even)]
        return np.unique(chosen.round().astype(np.int64))
    given = np.array([whole_number(f"record[{i}]", r, low=1) for i, r in enumerate(record)], dtype=np.int64)
    if len(given) and given.max() > rounds:
        raise InvalidInput(field="record", must=f"hold rounds from 1 to {rounds}", got=int(given.max()))
    return np.unique(np.append(given, rounds))


class Terms(NamedTuple):
    """How much is run: replications, rounds and the seed of their draws; `grid` holds the rounds to record."""

    rounds: int
    replications: int
    seed: int
    grid: NDArray[np.int64]
    keep_choices: bool

    @classmethod
    def of(
        cls,
        rounds: int,
        replications: int,
        seed: int,
        record: int | Sequence[int] | None,
        keep_choices: bool,
        most: tuple[int | None, int | None] = (None, None),
    ) -> Terms:
        """The checked terms of a run, with at most `most` rounds and replications."""
        rounds = whole_number("rounds", rounds, low=1, high=most[0])
        replications = whole_number("replications", replications, low=1, high=most[1])
        grid = recorded_rounds(rounds, record)
        return cls(rounds, replications, whole_number("seed", seed), grid, keep_choices)

    def result(
        self,
        policy: Player,
        env: Environment | Custom,
        best: Optimum,
        records: Array,
        *,
        name: str,
        settings: dict[str, Any] | None = None,
        **rest: Any,
    ) -> Result:
        """The `Result` of replications whose tallies are `records`, (R, G, fields)."""
        tallies = kernels.tally_views(records, env.n_actions, env.n_constraints)
        described = {"policy": repr(policy), "environment": repr(env), "rounds": self.rounds}
        return Result(
            policy=name,
            scenario=env.name,
            rounds=self.grid,
            reward=np.ascontiguousarray(tallies.mean_reward),
            observed_reward=np.ascontiguousarray(tallies.reward),
            cost=np.ascontiguousarray(tallies.costs),
            mean_cost=np.ascontiguousarray(tallies.mean_costs),
            counts=np.ascontiguousarray(tallies.counts),
            seed=self.seed,
            actions=env.actions,
            constraints=env.constraints,
            scales=tuple(Units.of(env.rules, env.n_constraints).scales.tolist()),
            settings={**described, "replications": len(records), **(settings or {})},
            **best._asdict(),
            **rest,
        )


class Optimum(NamedTuple):
    """The optimum per round, its interval and its source; and its earnings by each recorded round if it changes."""

    optimum: float | None
    optimum_interval: tuple[float, float] | None
    baseline: str
    optimal_reward: Array | None = None


def known_optimum(env: Environment | Custom, optimum: float | None, grid: NDArray[np.int64]) -> Optimum:
    """What regret is measured against at the recorded rounds: as given, from the LP, or as the environment knows it."""
    if optimum is not None:
        return Optimum(finite_number("optimum", optimum), None, "given")
    if isinstance(env, Custom) and (env.optimum is not None or env.means is None):
        return Optimum(env.optimum, None, "given")
    try:
        from tightrope.oracle import benchmark
    except ModuleNotFoundError:
        return Optimum(None if isinstance(env, Drifting) else env.optimum, None, "given")
    try:
        found = benchmark(env, int(grid[-1]))
    except InfeasibleProblem:
        return Optimum(None, None, "fluid")
    earned = found.earned(grid) if isinstance(env, Drifting) else None
    return Optimum(found.value, found.interval, found.baseline, earned)
