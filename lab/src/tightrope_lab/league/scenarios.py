"""Scenarios by name: problems on which policies are compared, each with what a policy of its setting may be told beforehand.

>>> found = scenario("bandit-binding")
>>> found.env
Tabular('bandit-binding', contexts=1, actions=4, features=0, constraints=1, costs bernoulli, seen after)
>>> round(found.optimum, 9), round(found.slater, 9), found.safe_actions
(0.4, 0.1, (0,))
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import lp
from tightrope.environments.drifting import Drifting, Environment
from tightrope.environments.tabular import Tabular, changed
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Model, Ridge
from tightrope.problem import Problem
from tightrope.validation import Array, whole_number
from tightrope_lab.league.environments import ENVIRONMENTS

FAILURE = 0.01
_ROUNDING = 1e-9
_LINEAR = 1e-8  # means that a linear model misses by no more than this are linear


@dataclass(frozen=True, eq=False)
class Scenario:
    """An environment, in words, with its optimum and the settings that policies are given in it.

    What a policy may be told beforehand is read off the true means, by one rule for all scenarios; see `known`. Nothing is tuned.

    Parameters
    ----------
    env : Tabular or Drifting
        Its name is the scenario's. Costs seen before acting must not be random: the optimum is that of the fluid program.
    description : str
        One paragraph.
    safe : sequence of int, optional
        Actions that are known to be safe; by default the one with the lowest worst mean cost, where that is below 0.
    baseline : int, optional
        The action whose reward a conservative policy must keep up with.
    alpha : float, optional
        The share of the baseline's reward that may be risked.
    delay : int
        Outcomes come late: that of a round is learnt once `delay` further decisions have been made.

    Examples
    --------
    >>> env = Tabular([1.0], rewards=[[0.1, 0.7]], costs=[[[-0.2], [0.3]]], costs_seen="after", name="two arms")
    >>> two = Scenario(env, "A cheap arm and a good one.")
    >>> two.known(100)["safe_cost"], two.lacks["limits"]
    (-0.2, 'the costs are not usage in [0, 1] less a limit, with an action that uses nothing')
    """

    env: Environment
    description: str
    safe: Sequence[int] | None = None
    baseline: int | None = None
    alpha: float | None = None
    delay: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.env, Tabular | Drifting):
            raise InvalidInput(field="env", must="be a Tabular or a Drifting environment", got=self.env)
        if self.baseline is not None and isinstance(self.env, Drifting):
            must = f"be left out where the means change with the round, as in {self.env!r}"
            raise InvalidInput(field="baseline", must=must)
        for name, actions in (("safe", self.safe or ()), ("baseline", (self.baseline,))):
            for action in actions:
                if action is not None and not 0 <= action < self.env.n_actions:
                    must = f"name actions below {self.env.n_actions}"
                    raise InvalidInput(field=name, must=must, got=action)
        if (self.baseline is None) != (self.alpha is None):
            raise InvalidInput("baseline and alpha must be given together.")
        whole_number("delay", self.delay)

    @property
    def name(self) -> str:
        return self.env.name

    @property
    def means(self) -> Tabular:
        """The environment itself, or all phases of one that drifts: every mean that occurs."""
        return self.env.pooled if isinstance(self.env, Drifting) else self.env

    @cached_property
    def optimum(self) -> float:
        """The reward per round of the best policy that meets the constraints on average: the fluid program's value.

        Where the means change with the round, the average over the run of the phases' values, each with its own constraints met.
        """
        env = self.means
        if env.random_before:
            joint = "its optimum is that of the joint program, tr.solve(env)"
            raise InvalidInput(f"{env.name} has random costs that are seen before acting: {joint}.")
        values = [
            lp.allocation(one.weights, one.rewards[shown], one.costs[shown], offsets=offsets).value
            for one, shown, offsets in self._programs
        ]
        return float(np.dot(values, self.env.shares)) if isinstance(self.env, Drifting) else values[0]

    @cached_property
    def slater(self) -> float:
        """Slater's constant of the fluid program; the least of the phases' constants where the means change with the round."""
        return min(
            lp.slater(one.weights, one.costs[shown], offsets=offsets).value
            for one, shown, offsets in self._programs
        )

    @cached_property
    def safe_actions(self) -> tuple[int, ...]:
        """Actions known to be safe: always on offer, every mean cost below 0. Empty where there are none."""
        worst = self._worst_costs
        if self.safe is not None:
            return tuple(self.safe)
        best = int(np.argmin(worst))
        return (best,) if worst[best] < 0.0 else ()

    @cached_property
    def lacks(self) -> dict[str, str]:
        """What a policy may ask for and this scenario can't tell, and why."""
        missing: dict[str, str] = {}
        if not self.safe_actions:
            reason = "no action is known to be safe: always on offer, with mean costs below 0"
            missing |= dict.fromkeys(("safe_action", "safe_arm", "safe_actions", "safe_cost"), reason)
        if self._noop is None:
            reason = "the costs are not usage in [0, 1] less a limit, with an action that uses nothing"
            missing |= dict.fromkeys(("limits", "limit", "noop"), reason)
        elif self.env.n_constraints > 1:
            missing["limit"] = "there is more than one budget"
        if self._shares is None:
            missing["shares"] = "the constraints are not minimum shares of actions"
        if self.baseline is None:
            reason = "there is no baseline whose reward it must keep up with"
            missing |= dict.fromkeys(("baseline", "baseline_reward", "alpha"), reason)
        if self.means.seen_before.all():
            before = "its costs are seen before acting"
            missing["cost"] = f"{before}, but the policy learns them from what is seen after"
        if self.slater <= 0.0:
            missing["slater"] = "Slater's constant is not positive"
        return missing

    def known(self, horizon: int, *, linear: bool = False) -> dict[str, Any]:
        """What a policy may be told by the name of its parameter, for a run of `horizon` rounds.

        `n_actions` (also `n_arms`), `n_features`, `n_constraints` (also `constraints`), `cost_range`, `weights`, `horizon`,
        `slater`, and where they exist `reward_noise` and `cost_noise` (the sub-Gaussian parameters), `safe_action` (also
        `safe_arm`), `safe_actions`, `safe_cost` (its worst mean cost), `noop`, `limits` (`limit` for one budget), `Z`, `shares`,
        `baseline`, `baseline_reward`, `alpha`; `reward` and `cost`, models of the right form and size. Without features they are
        `ArmMeans`, with `linear` instead `Ridge` on φ = e_j. Linear models have m = max(1, ‖θ*‖), or 1 where means are not linear
        in the features, and the least `bonus` that keeps the radius valid for the noise that there is (docs/league.md).
        """
        env = self.means
        known: dict[str, Any] = {
            "n_actions": env.n_actions,
            "n_arms": env.n_actions,
            "n_features": env.n_features,
            "n_constraints": env.n_constraints,
            "constraints": env.problem().constraints,
            "cost_range": env.cost_range[0] if env.n_constraints == 1 else env.cost_range,
            "weights": self.env.weights,
            "horizon": horizon,
            "slater": self.slater,
            "reward": self._model("reward", linear),
        }
        if env.reward_noise != "none":
            known["reward_noise"] = self._noise("reward")
        if not env.seen_before.all():
            known["cost"] = self._model("cost", linear)
            if env.cost_noise != "none":
                known["cost_noise"] = self._noise("cost")
        if self.safe_actions:
            safest = self.safe_actions[0]
            known |= {
                "safe_action": safest,
                "safe_arm": safest,
                "safe_actions": self.safe_actions,
                "safe_cost": float(self._worst_costs[safest]),
            }
        if self._noop is not None:
            limits = -env.cost_range[:, 0]
            known |= {"noop": self._noop, "limits": limits, "limit": float(limits[0])}
            if env.costs_seen == "after":
                known["Z"] = self.optimum / float(limits.min()) + 1.0
        if self._shares is not None:
            known["shares"] = self._shares
        if self.baseline is not None:
            earned = env.rewards[:, self.baseline]
            constant = np.ptp(earned[env.weights > 0]) == 0.0
            known |= {
                "baseline": self.baseline,
                "baseline_reward": float(earned[env.weights > 0][0]) if constant else earned,
                "alpha": self.alpha,
            }
        return {name: value for name, value in known.items() if name not in self.lacks}

    def problem(self, horizon: int, *, linear: bool = False) -> Problem:
        """The problem that it poses, which tells a policy what is `known`."""
        known = self.known(horizon, linear=linear)
        return self.env.problem({name: partial(_same, value) for name, value in known.items()})

    @property
    def _phases(self) -> tuple[Tabular, ...]:
        return self.env.phases if isinstance(self.env, Drifting) else (self.env,)

    @property
    def _programs(self) -> list[tuple[Tabular, Any, NDArray[np.int64] | None]]:
        """Each phase, which of its rows the programs have, and where contexts begin if not all actions are always on offer."""
        return [(one, *_shown(one)) for one in self._phases]

    @property
    def _worst_costs(self) -> Array:
        """The highest mean cost of each action, over contexts and constraints; ∞ where it is not always on offer."""
        env, met = self.means, self.means.weights > 0
        always = env.available[met].all(axis=0)
        worst = env.costs[met].max(axis=(0, 2), initial=-np.inf)
        return np.where(always & np.isfinite(worst), worst, np.inf)

    @property
    def _noop(self) -> int | None:
        env, met = self.means, self.means.weights > 0
        low, high = env.cost_range.T
        usage = ((low < 0.0) & (low >= -1.0) & (high <= 1.0 + low + _ROUNDING)).all()
        idle = (np.abs(env.costs[met] - low) <= _ROUNDING).all(axis=(0, 2)) & env.available[met].all(axis=0)
        return int(np.argmax(idle)) if env.n_constraints and usage and idle.any() else None

    @property
    def _shares(self) -> Array | None:
        """s (J,) where every cost is s_i − 1{a = i} for some i."""
        env = self.means
        shown = _met(env)
        shares = np.zeros(env.n_actions)
        for k in range(env.n_constraints):
            for i in range(env.n_actions):
                w = env.costs[:, :, k] + (np.arange(env.n_actions) == i)
                if np.ptp(w[shown]) <= _ROUNDING and w[shown][0] >= 0.0:
                    shares[i] = w[shown][0]
                    break
            else:
                return None
        return shares if env.n_constraints and shares.sum() <= 1.0 + _ROUNDING else None

    def _model(self, part: str, linear: bool) -> Model:
        env, J = self.means, self.means.n_actions
        features = env.features if part == "reward" else env.cost_features
        if features is None and not linear:
            return ArmMeans(J)
        norm = self._reward_norm if part == "reward" else self._cost_norm
        m = max(1.0, norm)
        R, s = self._noise(part), math.sqrt(2.0 * math.log(1.0 / FAILURE))
        # b (m + s') ≥ ‖θ*‖ + R s' must hold for every s' ≥ s, the least root that occurs in √β.
        bonus = min(1.0, max(R, (norm + R * s) / (m + s)))
        if features is None:
            return Ridge(J, bonus=bonus, m=m)
        if features.ndim == 2:
            return DisjointRidge(J, features.shape[-1], bonus=bonus, m=m)
        return Ridge(features.shape[-1], bonus=bonus, m=m)

    @cached_property
    def _reward_norm(self) -> float:
        return max(_least_norm(one.features, one.rewards[:, :, None], _met(one)) for one in self._phases)

    @cached_property
    def _cost_norm(self) -> float:
        norms = []
        for one in self._phases:
            targets = one.costs
            if self._noop is not None:
                # Budget policies learn usage instead of usage less the limit.
                targets = np.concatenate([targets, targets - one.cost_range[:, 0]], axis=2)
            norms.append(_least_norm(one.cost_features, targets, _met(one)))
        return max(norms)

    def _noise(self, part: str) -> float:
        """The noise is sub-Gaussian with this parameter."""
        env = self.means
        if part == "reward":
            return {"bernoulli": 0.5, "gaussian": env.reward_scale, "none": 0.0}[env.reward_noise]
        width = float(np.ptp(env.cost_range, axis=1).max()) / 2.0
        return {"bernoulli": width, "gaussian": min(width, env.cost_scale), "none": 0.0}[env.cost_noise]


def _same(value: Any) -> Any:
    return value


_SCENARIOS = (resources.files(__package__) / "scenarios.toml").read_text(encoding="utf-8")
SCENARIOS: dict[str, dict[str, Any]] = tomllib.loads(_SCENARIOS)


def scenario(name: str) -> Scenario:
    """The scenario of that name."""
    if name not in SCENARIOS:
        raise InvalidInput(field="scenario", must=f"be one of {', '.join(SCENARIOS)}", got=name)
    told = dict(SCENARIOS[name])
    env = ENVIRONMENTS[told.pop("environment")](**told.pop("settings", {}))
    if isinstance(env, Tabular) and env.name != name:
        env = changed(env, name=name)
    return Scenario(env, **told)


def _shown(env: Tabular) -> tuple[Any, NDArray[np.int64] | None]:
    if env.available.all():
        return slice(None), None
    return env.available, np.concatenate([[0], np.cumsum(env.available.sum(axis=1))])


def _met(env: Tabular) -> NDArray[np.bool_]:
    """The actions on offer in contexts that can occur, (C, J)."""
    return np.asarray(env.available & (env.weights > 0)[:, None])


def _least_norm(features: Array | None, targets: Array, seen: NDArray[np.bool_]) -> float:
    """The largest norm, over outputs, of the least-norm parameters that give the targets (C, J, n); φ = e_j without features.

    1, the paper's own assumption, where no parameters give them: the best fit may be of any length, which bounds nothing.
    """
    if features is None:
        features = np.ones((len(targets), 1))
    n = targets.shape[2]
    if features.ndim == 3:
        groups = [(features[seen], targets[seen])]
    elif (seen == seen[:, :1]).all():
        on = seen[:, 0]
        groups = [(features[on], targets[on].reshape(-1, targets.shape[1] * n))]
    else:
        groups = [(features[on], targets[on, j]) for j, on in enumerate(seen.T) if on.any()]
    squares = np.zeros(n)
    for phi, y in groups:
        theta = np.linalg.lstsq(phi, y, rcond=None)[0]
        if np.abs(phi @ theta - y).max() > _LINEAR:
            return 1.0
        squares += (theta**2).reshape(len(theta), -1, n).sum(axis=(0, 1))
    return float(np.sqrt(squares.max(initial=0.0)))
