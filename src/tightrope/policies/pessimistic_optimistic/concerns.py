"""What the pessimistic-optimistic policy can't do: keep tightened rules, learn from clipped rewards, trust a small m."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.concerns import Concern
from tightrope.models.hooks import least_norm, least_optimism
from tightrope.policies.watch import FIRST_LOOK, constraint_words
from tightrope.schedules import Schedule

# So high must the typical optimistic reward be for nearly all to be at the limit of 1: at 1.04 three in four were, at 1.6 all.
CLIPPED = 1.25
# Beyond this a round is not named.
_FAR = 10**12


class OutsideRewards:
    """Rewards outside [0, 1]: how many, from what to what, and how far in sum of squares. Not saved, as nothing that was told is.

    The paper's rewards have means in [0, 1] and noise that is 1-sub-Gaussian, so a reward may well lie outside; but the squares of
    the distances then sum to about one for each reward at most, and are told where they are clearly more.
    """

    __slots__ = ("count", "far", "high", "low", "squares")

    def __init__(self) -> None:
        self.count, self.squares, self.low, self.high = 0, 0.0, 0.0, 1.0
        self.far = False

    def note(self, policy: Any, rewards: Any) -> None:
        """Look at rewards that were learnt, and tell at once where they can't be noise."""
        given = np.atleast_1d(np.asarray(0.0 if rewards is None else rewards, dtype=float))
        distances = np.maximum(-given, given - 1.0)
        outside = distances > 0.0
        if not outside.any():
            return
        self.count += int(outside.sum())
        self.squares += float((distances[outside] ** 2).sum())
        self.low, self.high = min(self.low, float(given.min())), max(self.high, float(given.max()))
        n = max(self.count, policy._reward.n_learnt)
        self.far = self.far or self.squares > n + 5.0 * math.sqrt(2.0 * n) + 10.0
        if self.far:
            policy._watch.tell(policy, self.concerns())

    def concerns(self) -> list[Concern]:
        """In words, where they can't be noise."""
        if not self.far:
            return []
        lie = "reward lies" if self.count == 1 else "rewards lie"
        return [
            Concern(
                "rewards outside [0, 1]",
                f"{self.count:,} {lie} outside [0, 1], all of them in [{self.low:g}, {self.high:g}], which noise of standard "
                "deviation 1 does not explain: the paper's policy takes mean rewards in [0, 1], clips its estimates at 1, and "
                "promises nothing beyond.",
                "Divide by the largest reward that can occur, or use the shadow-price policy, which works in any unit.",
            )
        ]


def tightening(policy: Any) -> list[Concern]:
    """ε_t is above what any action gives back under some rule, by the range of its costs: the rule's queue can only grow."""
    n, K = policy.rounds, policy.n_constraints
    if n < FIRST_LOOK or not K:
        return []
    back = -np.array(policy._settings["cost_range"]).reshape(K, 2)[:, 0]
    eps, k = epsilon(policy, n + 1), int(np.argmin(back))
    if eps <= back[k]:
        return []
    others = int((back < eps).sum()) - 1
    return [
        Concern(
            "epsilon above every cost",
            f"{constraint_words(policy)[k]}: in round {n + 1:,} it is tightened by ε = {eps:.3g}, but no action gives back more "
            f"than {back[k]:.3g}, so the tightened rule can't be met {_until(policy, float(back[k]))}"
            f"{f'; the same holds of {others} more' if others else ''}.",
            f"The shadow-price policy tightens nothing; for this policy {_capped(policy)}a horizon that is long beside that, or an "
            "`epsilon` below what actions give back.",
        )
    ]


def clipped(policy: Any) -> list[Concern]:
    """Optimism lifts every action's typical reward well above the limit of 1."""
    model, n = policy._reward, policy.rounds
    if n < FIRST_LOOK or model.n_learnt < FIRST_LOOK:
        return []
    radius = model.radius(_confidence(policy, n + 1.0) if model.takes_features else n + 1.0)
    least = least_optimism(model, radius)
    # A model that can tell has a bonus.
    if least is None or not least >= CLIPPED:
        return []
    return [
        Concern(
            "rewards at the clip",
            f"After {model.n_learnt:,} rewards the confidence radius is {radius:.3g}, and with it the optimistic reward of every "
            "action is at its limit of 1 as a rule: the choice depends on costs, and hardly on what was learnt of rewards.",
            f"A `bonus` of the reward model well below {model.bonus:g} (which promises less), fewer features, or the shadow-price "
            "policy.",
        )
    ]


def norms(policy: Any) -> list[Concern]:
    """‖θ̂‖ is above m by more than its error."""
    n = policy.rounds
    if n < FIRST_LOOK:
        return []
    found = []
    for part, model in (("reward", policy._reward), ("cost", policy._cost)):
        if model is None or getattr(model, "m", None) is None:
            continue
        least = least_norm(model, _confidence(policy, n + 1.0))
        if least is not None and least.max(initial=0.0) > model.m:
            found.append(
                Concern(
                    f"m of the {part} model",
                    f"m = {model.m:.3g} bounds the norm of the {part} model's parameters, but after {model.n_learnt:,} outcomes "
                    f"they are at least {least.max():.3g} long: its confidence sets leave the truth out.",
                    f"An `m` of {_rounded_up(float(least.max()))} or more in the {part} model, or the shadow-price policy, which "
                    "needs none.",
                )
            )
    return found


def remedy_of_totals(policy: Any) -> str:
    """What helps where totals stay above zero, and why they do, as far as ε_t and δ tell."""
    own = f"{_capped(policy)}a longer horizon or a smaller `epsilon`"
    remedy = f"The shadow-price policy corrects its prices by the totals themselves; for this policy {own}."
    eps, delta = epsilon(policy, policy.rounds + 1), policy.slater
    if delta is None or eps <= delta:
        return remedy
    return (
        f"Rules are tightened by ε = {eps:.3g} in this round, more than the slack of {delta:.3g} that some mix of actions leaves "
        f"(slater): {_until(policy, delta)} queues trade one rule against another. {remedy}"
    )


def epsilon(policy: Any, t: int) -> float:
    """ε_t, capped where it is."""
    core = kernels.core_views(policy._core)
    return min(float(core.limits[0]), Schedule(*core.epsilon.tolist())(t, policy._settings["horizon"]))


def _confidence(policy: Any, t: float) -> float:
    """T of the confidence sets in round t."""
    return float(policy._settings["horizon"] or t)


def _capped(policy: Any) -> str:
    """The variant that helps where costs are seen before acting, if it is not in use."""
    return 'tightening "capped", ' if policy._cost is None and not policy._capped else ""


def _until(policy: Any, slack: float) -> str:
    """Up to which round ε_t is above `slack`, in words."""
    low = high = policy.rounds + 1
    while epsilon(policy, high) > slack:
        if high > _FAR or slack <= 0.0:
            return "in any round"
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(policy, middle) > slack else (low, middle)
    horizon = policy._settings["horizon"]
    beyond = f" (the horizon is {horizon:,})" if horizon is not None and high > horizon else ""
    return f"before round {high:,}{beyond}"


def _rounded_up(value: float) -> str:
    """A number with two digits that is not below `value`."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / digit) * digit:g}"
