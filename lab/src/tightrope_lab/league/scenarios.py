"""Scenarios by name: problems on which policies are compared, each with what a policy of its setting may be told beforehand.

>>> found = scenario("bandit-binding")
>>> found.env
Tabular('bandit-binding', contexts=1, actions=4, features=0, constraints=1, costs bernoulli, seen after)
>>> round(found.optimum, 9), round(found.slater, 9), found.safe_actions
(0.4, 0.1, (0,))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import lp
from tightrope.environments import model_routing
from tightrope.environments.bandit import bandit
from tightrope.environments.drifting import Drifting, Environment
from tightrope.environments.hospital import hospital
from tightrope.environments.synthetic import synthetic
from tightrope.environments.tabular import Tabular, changed
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, DisjointRidge, Model, Ridge
from tightrope.problem import Problem
from tightrope.registry import Registry
from tightrope.rules import Capacity, Rules, Share
from tightrope.validation import Array, whole_number
from tightrope_lab.real_tables import breast_cancer, digits, wine

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
    safe : tuple of int, optional
        Actions that are known to be safe; by default the one with the lowest worst mean cost, where that is below 0.
    baseline : int, optional
        The action whose reward must not be fallen behind, for conservative policies.
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
    safe: tuple[int, ...] | None = None
    baseline: int | None = None
    alpha: float | None = None
    delay: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.env, Tabular | Drifting):
            raise InvalidInput(f"env must be a Tabular or a Drifting environment, but got {self.env!r}.")
        if self.baseline is not None and isinstance(self.env, Drifting):
            raise InvalidInput(
                f"baseline must be left out where the means change with the round, as in {self.env!r}."
            )
        for name, actions in (("safe", self.safe or ()), ("baseline", (self.baseline,))):
            for action in actions:
                if action is not None and not 0 <= action < self.env.n_actions:
                    raise InvalidInput(
                        f"{name} must name actions below {self.env.n_actions}, but got {action}."
                    )
        if (self.baseline is None) != (self.alpha is None):
            raise InvalidInput("baseline and alpha must be given together.")
        whole_number("delay", self.delay)

    @property
    def name(self) -> str:
        """The environment's."""
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
            raise InvalidInput(
                f"{env.name} has random costs that are seen before acting: its optimum is that of the joint program, tr.solve(env)."
            )
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
            return self.safe
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
            reason = "there is no baseline whose reward must not be fallen behind"
            missing |= dict.fromkeys(("baseline", "baseline_reward", "alpha"), reason)
        if self.means.seen_before.all():
            missing["cost"] = (
                "its costs are seen before acting, but the policy learns them from what is seen after"
            )
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
        usage = env.n_constraints > 0 and bool(
            ((low < 0.0) & (low >= -1.0) & (high <= 1.0 + low + _ROUNDING)).all()
        )
        idle = (np.abs(env.costs[met] - low) <= _ROUNDING).all(axis=(0, 2)) & env.available[met].all(axis=0)
        return int(np.argmax(idle)) if usage and idle.any() else None

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


SCENARIOS = Registry("scenario")


def scenario(name: str) -> Scenario:
    """The scenario of that name.

    >>> scenario("bandit-bindin")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: scenario must be one of bandit-slack, bandit-binding, ..., but got 'bandit-bindin'.
    """
    if name not in SCENARIOS:
        raise InvalidInput(f"scenario must be one of {', '.join(SCENARIOS)}, but got {name!r}.")
    found: Scenario = SCENARIOS[name]()
    return found


# --- the scenarios ---


@SCENARIOS.register("bandit-slack")
def _bandit_slack() -> Scenario:
    return Scenario(
        changed(bandit(threshold=0.5), name="bandit-slack"),
        "Four arms with Bernoulli rewards and costs, average cost at most 0.5, seen after acting: the paper's first experiment. "
        "No arm's mean cost exceeds the limit, so the constraint never binds and the best arm alone is optimal.",
    )


@SCENARIOS.register("bandit-binding")
def _bandit_binding() -> Scenario:
    return Scenario(
        changed(bandit(threshold=0.1), name="bandit-binding"),
        "The same four arms with the limit at 0.1: only the first arm, which costs nothing and earns little, is safe by itself, "
        "and the optimum mixes it half and half with the last.",
    )


@SCENARIOS.register("hospital")
def _hospital() -> Scenario:
    return Scenario(
        hospital(),
        "Patients of 360 kinds go to one of six wards under 18 rules (capacity, fair shares, nursing), known before acting: the "
        "paper's second experiment on public data. Slater's constant is 0.00625, and wards differ little, so the rules are hard "
        "and there is little to learn.",
    )


@SCENARIOS.register("fair-jobs")
def _fair_jobs() -> Scenario:
    rules = Rules(
        [Share("south", at_least=0.25), Share("east", at_least=0.15), Capacity("north", at_most=0.5)],
        actions=["north", "south", "east"],
    )
    rewards = [[0.9, 0.8, 0.6], [0.7, 0.75, 0.5], [0.8, 0.4, 0.3], [0.6, 0.35, 0.2]]
    return Scenario(
        Tabular(
            [0.4, 0.3, 0.2, 0.1],
            np.eye(4),
            rewards,
            np.broadcast_to(rules.costs(), (4, 3, 3)),
            cost_range=rules.cost_range,
            actions=["north", "south", "east"],
            rules=rules,
            name="fair-jobs",
        ),
        "Delivery jobs of four kinds are spread over three depots. The fast one may take half of them at most, the other two must "
        "have a quarter and 15 % at least. Which depot delivers in time depends on the kind of job.",
    )


@SCENARIOS.register("ads-budget")
def _ads_budget() -> Scenario:
    limit = 0.3
    rewards = np.array([[0.0, 0.8, 0.3], [0.0, 0.2, 0.5], [0.0, 0.25, 0.3], [0.0, 0.1, 0.05]])
    # A feature for each kind of visitor and ad; showing nothing has φ = 0 and earns exactly nothing.
    phi = np.zeros((4, 3, 8))
    for c, ad in product(range(4), (1, 2)):
        phi[c, ad, 2 * c + ad - 1] = 1.0
    shown = np.broadcast_to([0.0, 1.0, 1.0], (4, 3))
    return Scenario(
        Tabular(
            [0.15, 0.25, 0.3, 0.3],
            phi,
            rewards,
            (shown - limit)[:, :, None],
            cost_features=np.stack([np.ones((4, 3)), shown], axis=2) / math.sqrt(2.0),
            cost_range=(-limit, 1.0 - limit),
            costs_seen="after",
            actions=["nothing", "ad one", "ad two"],
            constraints=["budget"],
            name="ads-budget",
        ),
        "Visitors of four kinds, two ads, and a budget that pays for an ad in 30 % of the rounds. Every ad shown uses one unit, "
        "and showing nothing is free: the budget must be paced and kept for the visitors who are worth most.",
    )


@SCENARIOS.register("model-routing")
def _model_routing() -> Scenario:
    quality = [[0.70, 0.80, 0.84, 0.86], [0.40, 0.62, 0.78, 0.88], [0.25, 0.45, 0.60, 0.92]]
    price = np.array([[0.02, 0.10, 0.40, 0.70], [0.03, 0.15, 0.50, 0.90], [0.03, 0.15, 0.55, 1.00]])
    cap = 0.35
    return Scenario(
        Tabular(
            [0.5, 0.3, 0.2],
            np.eye(3),
            quality,
            (price - cap)[:, :, None],
            cost_range=(-cap, 1.0 - cap),
            actions=["small", "medium", "large", "reasoning"],
            constraints=["price"],
            name="model-routing",
        ),
        "Queries of three kinds (chat, code, mathematics) go to one of four language models whose prices are known beforehand; the "
        "average price is capped. The dearest model pays only where the cheap ones fail.",
    )


@SCENARIOS.register("safe-dosing")
def _safe_dosing() -> Scenario:
    return Scenario(
        _dosing("safe-dosing"),
        "Six doses for patients of three degrees of sensitivity. Effect and toxicity rise linearly with the dose, toxicity faster "
        "in sensitive patients, and toxicity is measured after treatment; the two lowest doses are known to be safe.",
        safe=(0, 1),
    )


@SCENARIOS.register("late-outcomes")
def _late_outcomes() -> Scenario:
    return Scenario(
        _dosing("late-outcomes"),
        "The doses and patients of safe-dosing, but effect and toxicity show late: what became of a patient is known only after "
        "500 more have been treated, and whatever was wrong with their doses has then been done to all of them.",
        safe=(0, 1),
        delay=500,
    )


def _dosing(name: str) -> Tabular:
    dose, sensitivity = np.linspace(0.0, 1.0, 6), np.array([0.0, 0.5, 1.0])
    x, s = np.meshgrid(dose, sensitivity)
    phi = np.stack([np.ones_like(x), x, x * s], axis=2) / math.sqrt(3.0)
    return Tabular(
        [0.5, 0.3, 0.2],
        phi,
        0.2 + 0.6 * x - 0.1 * x * s,
        (-0.25 + 0.3 * x + 0.25 * x * s)[:, :, None],
        cost_noise="gaussian",
        cost_scale=0.1,
        costs_seen="after",
        actions=[f"dose {d:.1f}" for d in dose],
        constraints=["toxicity"],
        name=name,
    )


@SCENARIOS.register("sleeping-fractions")
def _sleeping_fractions() -> Scenario:
    awake_with = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    shares = np.array([0.0, 0.1, 0.15, 0.15, 0.2])
    patterns = np.array([one for one in product((False, True), repeat=5) if any(one)])
    weights = np.where(patterns, awake_with, 1.0 - awake_with).prod(axis=1)
    C = len(patterns)
    costs = shares - np.eye(5)
    return Scenario(
        Tabular(
            weights / weights.sum(),
            None,
            np.broadcast_to([0.9, 0.7, 0.5, 0.4, 0.2], (C, 5)),
            np.broadcast_to(costs[:, 1:], (C, 5, 4)),
            available=patterns,
            constraints=[f"share of arm {i}" for i in range(1, 5)],
            name="sleeping-fractions",
        ),
        "Five arms, each asleep some of the time, and the worse an arm, the larger the share of all rounds that it must have: the "
        "setting of fair sleeping bandits.",
    )


@SCENARIOS.register("knapsack-stop")
def _knapsack_stop() -> Scenario:
    usage = np.array([[0.0, 0.0], [0.1, 0.3], [0.3, 0.2], [0.5, 0.4], [0.9, 0.6], [0.2, 0.05]])
    limits = np.array([0.25, 0.2])
    return Scenario(
        Tabular(
            [1.0],
            None,
            [[0.0, 0.3, 0.5, 0.6, 0.8, 0.4]],
            (usage - limits)[None],
            cost_noise="bernoulli",
            cost_range=np.column_stack([-limits, 1.0 - limits]),
            costs_seen="after",
            actions=["stop", "a", "b", "c", "d", "e"],
            constraints=["first resource", "second resource"],
            name="knapsack-stop",
        ),
        "Five arms that use up two resources at random, and one that uses nothing. Budgets are for the whole run: who spends too "
        "fast must stop early.",
    )


@SCENARIOS.register("conservative-baseline")
def _conservative_baseline() -> Scenario:
    draw = np.random.default_rng(3)
    alpha, C, J = 0.1, 10, 6
    v = np.array([0.8, 0.6, 0.0])
    u = draw.normal(size=(C, J, 3))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    u[:, 0] = [0.0, 0.0, 1.0]
    phi = np.concatenate([np.ones((C, J, 1)), u], axis=2) / math.sqrt(2.0)
    rewards = (1.0 + u @ v) / 2.0
    owed = (1.0 - alpha) * rewards[0, 0]
    return Scenario(
        Tabular(
            np.full(C, 1.0 / C),
            phi,
            rewards,
            (owed - rewards)[:, :, None],
            cost_noise="bernoulli",
            cost_range=(owed - 1.0, owed),
            costs_seen="after",
            constraints=["behind the baseline"],
            name="conservative-baseline",
        ),
        "A running system earns 0.5 a round, and at no time may the learner's total fall below 90 % of what that system would have "
        "earned. The cost of a round is 0.45 less a success; many actions are far worse than the baseline, some far better.",
        safe=(0,),
        baseline=0,
        alpha=alpha,
    )


@SCENARIOS.register("tight-slater")
def _tight_slater() -> Scenario:
    return Scenario(
        _random_linear("tight-slater", actions=5, constraints=2, slater=0.01, seed=1),
        "A random linear instance, two costs seen before acting, with Slater's constant 0.01: there is almost no room between what "
        "the rules ask and what can be done.",
    )


@SCENARIOS.register("loose-slater")
def _loose_slater() -> Scenario:
    return Scenario(
        _random_linear("loose-slater", actions=5, constraints=2, slater=0.4, seed=1),
        "The same random linear instance with Slater's constant 0.4: the rules leave much room.",
    )


@SCENARIOS.register("many-constraints")
def _many_constraints() -> Scenario:
    return Scenario(
        _random_linear("many-constraints", actions=8, constraints=50, slater=0.1, seed=2),
        "A random linear instance with fifty costs at once, seen before acting, and Slater's constant 0.1.",
    )


@SCENARIOS.register("changing-actions")
def _changing_actions() -> Scenario:
    env = synthetic(contexts=60, actions=10, features=4, constraints=2, slater=0.3, seed=3)
    available = np.random.default_rng(4).random((60, 10)) < 0.4
    available[np.arange(60), np.arange(60) % 10] = True
    return Scenario(
        changed(env, name="changing-actions", available=available),
        "A random linear instance in which other actions are on offer in every context, from two to eight of ten; two costs seen "
        "before acting.",
    )


@SCENARIOS.register("switching-best")
def _switching_best() -> Scenario:
    return Scenario(
        model_routing.switching_best(),
        "Queries of three kinds go to one of four language models. The average price is capped, and the dearest model "
        "takes 10 % at most. Two models, blue and green, cost the same, and half-way their qualities change places, of "
        "which nobody is told. Both rules bind in both halves, at the same shadow prices, so nothing is gained by saving "
        "up for the second.",
    )


@SCENARIOS.register("slow-drift")
def _slow_drift() -> Scenario:
    return Scenario(
        model_routing.slow_drift(),
        "The queries, models and rules of switching-best, but blue and green change places in twenty small steps, spread over "
        "the run: no round differs from the one before by anything that could be noticed.",
    )


@SCENARIOS.register("seasons")
def _seasons() -> Scenario:
    return Scenario(
        model_routing.seasons(),
        "The queries, models and rules of switching-best, with two summers and two winters: blue and green change places, back, "
        "and once more.",
    )


@SCENARIOS.register("tightened-limit")
def _tightened_limit() -> Scenario:
    return Scenario(
        model_routing.tightened_limit(),
        "The queries, models and rules of switching-best, where nothing is to be learnt anew, but half-way the cap on the average "
        "price falls from 0.35 to 0.25: the costs that are shown before acting change, and prices that were right are too low.",
    )


@SCENARIOS.register("digits")
def _digits() -> Scenario:
    return Scenario(
        digits(),
        "Scans of handwritten digits, 1,797 of a public table, go to ten desks, one for each digit, and only the right "
        "desk can use it. Three desks take 8 % at most, the desk for noughts must have 12 %, and reading time is "
        "limited. Which desk is right is not linear in the pixels, so linear models never learn all of it.",
    )


@SCENARIOS.register("breast-cancer")
def _breast_cancer() -> Scenario:
    return Scenario(
        breast_cancer(),
        "Tumours of a public table, 569 with thirty measurements each, get a biopsy, a review or a discharge; what that "
        "is worth depends on the diagnosis. Biopsies are few, some must be of small tumours, and 15 % are reviewed for "
        "audit: all three rules bind.",
    )


@SCENARIOS.register("wine")
def _wine() -> Scenario:
    return Scenario(
        wine(),
        "Wines of three growers, 178 of a public table with thirteen measurements each, go to three shelves, and only "
        "the grower's own is right. One shelf takes few strong wines, one few light ones, one few of any: all three "
        "rules bind.",
    )


def _random_linear(name: str, **settings: Any) -> Tabular:
    return changed(synthetic(contexts=50, features=4, **settings), name=name)


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
