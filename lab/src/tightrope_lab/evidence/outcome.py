"""What a run left, whoever ran it: reward, totals, and how far and how long the totals were above zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.engine import simulate
from tightrope.environments.drifting import Environment
from tightrope.intervals import mean_interval, positive_part
from tightrope.policies import Policy
from tightrope.result import Estimate
from tightrope.validation import VIOLATION, Array


@dataclass(frozen=True, eq=False)
class Outcome:
    """R runs of a policy in a scenario, at G recorded rounds.

    `reward` (R, G) is the mean reward earned; `end` (R, K) are the totals after the last round. `path` (R,) is the largest Σ_k S_k⁺ of
    any round, each total in units of the largest cost that its rule is declared to have; `last` (R,) the last round with a total
    above zero, 0 for never; `above` (R,) the number of such rounds.
    """

    policy: str
    scenario: str
    rounds: NDArray[np.int64]
    reward: Array
    end: Array
    path: Array
    last: Array
    above: Array

    def named(self, name: str) -> Outcome:
        return replace(self, policy=name)

    def excess(self, units: Array) -> Array:
        """Of each run: Σ_k S_k⁺ after the last round, in units of the largest costs."""
        return np.asarray(positive_part(self.end / units).sum(axis=1))

    @property
    def violation(self) -> float:
        """Σ_k (mean over runs of S_k)⁺ after the last round."""
        return float(positive_part(self.end.mean(axis=0)).sum())

    @property
    def kept(self) -> bool:
        """Whether the rules were kept at the end: on average over runs, or in every one of them."""
        return self.violation <= VIOLATION or not self.ends_above.any()

    @property
    def ends_above(self) -> Array:
        """(R,) of bool: which runs ended with a total above zero."""
        return np.asarray((self.end > VIOLATION).any(axis=1))

    def rows(self, optimum: float, **more: Any) -> list[dict[str, Any]]:
        """One row for each recorded round, ready for JSON."""
        whole = {
            "violation": self.violation,
            "kept": self.kept,
            "runs_in_violation": float(self.ends_above.mean()),
            "path": float(self.path.mean()),
            "last_violation": float(self.last.mean()),
            "last_violation_median": float(np.median(self.last)),
            "rounds_above": float(self.above.mean()),
            "replications": len(self.reward),
        }
        found = []
        for g, at in enumerate(self.rounds.tolist()):
            regret, low, high = estimate(at * optimum - self.reward[:, g])
            share = float(self.reward[:, g].mean() / (at * optimum))
            row = {"policy": self.policy, "scenario": self.scenario, "round": at, "regret": regret}
            found.append({**row, "regret_low": low, "regret_high": high, "share": share, **whole, **more})
        return found


def outcome_of(
    policy: Policy,
    env: Environment,
    rounds: int,
    replications: int,
    seed: int = 0,
    *,
    record: Sequence[int] = (),
    workers: int | None = None,
    name: str | None = None,
) -> Outcome:
    """Simulate, looking at every round."""
    how: dict[str, Any] = {"workers": workers, "name": name, "progress": False, "warn": False}
    run = simulate(policy, env, rounds, replications, seed, record=rounds, optimum=0.0, **how)
    if run.interrupted:
        raise KeyboardInterrupt
    units = np.maximum(np.abs(env.cost_range).max(axis=1), 1e-300)
    excess = np.where(run.cost > VIOLATION, run.cost / units, 0.0).sum(axis=2)
    kept = np.unique(np.array([*(r for r in record if r <= rounds), rounds]))
    return Outcome(
        run.policy,
        run.scenario,
        kept,
        run.reward[:, kept - 1],
        run.cost[:, -1],
        excess.max(axis=1, initial=0.0),
        run.last_violated().values.astype(float),
        (excess > 0).sum(axis=1).astype(float),
    )


def estimate(values: Array) -> Estimate:
    """Mean over runs with its 95 % t-interval; the mean alone with one run."""
    mean, low, high = map(float, mean_interval(values))
    return Estimate(mean, low, high) if np.isfinite([low, high]).all() else Estimate(mean, mean, mean)
