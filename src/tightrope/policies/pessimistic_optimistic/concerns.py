"""What the pessimistic-optimistic policy can't do: keep tightened rules, learn from clipped rewards, trust a small m."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.concerns import Concern
from tightrope.models import hooks
from tightrope.policies.watch import FIRST_LOOK
from tightrope.schedules import Schedule
from tightrope.validation import Array

# If the typical optimistic reward is this high, nearly all are at the limit of 1: at 1.04 three in four were, at 1.6 all.
CLIPPED = 1.25
# Beyond this round, no round is named.
_FAR = 10**12


class OutsideRewards:
    """Rewards outside [0, 1]: how many, their range, and the sum of squared distances. Not saved, like all reports.

    The paper's rewards have means in [0, 1] and noise that is 1-sub-Gaussian, so a reward may well lie outside; but the squares of
    the distances then sum to about one per reward at most, and are reported if they are clearly more.
    """

    __slots__ = ("count", "far", "high", "low", "squares")

    def __init__(self) -> None:
        self.count, self.squares, self.low, self.high = 0, 0.0, 0.0, 1.0
        self.far = False

    def note(self, rewards: Any, n_learnt: int) -> bool:
        """Look at newly learnt rewards and the number learnt so far; returns whether there is something to report."""
        given = np.atleast_1d(np.asarray(0.0 if rewards is None else rewards, dtype=float))
        distances = np.maximum(-given, given - 1.0)
        outside = distances > 0.0
        if not outside.any():
            return False
        self.count += int(outside.sum())
        self.squares += float((distances[outside] ** 2).sum())
        self.low, self.high = min(self.low, float(given.min())), max(self.high, float(given.max()))
        n = max(self.count, n_learnt)
        self.far = self.far or self.squares > n + 5.0 * math.sqrt(2.0 * n) + 10.0
        return self.far

    def concerns(self) -> list[Concern]:
        if not self.far:
            return []
        lie = "reward lies" if self.count == 1 else "rewards lie"
        return [
            Concern(
                "rewards outside [0, 1]",
                f"{self.count:,} {lie} outside [0, 1], all of them in [{self.low:g}, {self.high:g}], farther out than noise of "
                "standard deviation 1 explains. The paper's policy expects mean rewards in [0, 1] and clips its estimates at 1: "
                "beyond that it promises nothing.",
                "Divide by the largest reward that can occur, or use the shadow-price policy, which works in any unit.",
            )
        ]


class Standing(NamedTuple):
    """A policy's current state: its rounds, rules in words, schedules in `core`, horizon, ranges of costs (K, 2), models and δ."""

    rounds: int
    words: tuple[str, ...]
    core: Array
    horizon: int | None
    ranges: Array
    reward: Any
    cost: Any
    capped: bool
    slater: float | None


def tightening(at: Standing) -> list[Concern]:
    """ε_t exceeds what any action gives back under some rule, by the range of its costs: the rule's queue can only grow."""
    n, K = at.rounds, len(at.words)
    if n < FIRST_LOOK or not K:
        return []
    back = -at.ranges[:, 0]
    eps, k = epsilon(at, n + 1), int(np.argmin(back))
    if eps <= back[k]:
        return []
    others = int((back < eps).sum()) - 1
    return [
        Concern(
            "epsilon above every cost",
            f"{at.words[k]}: in round {n + 1:,} it is tightened by ε = {eps:.3g}, but no action gives back more "
            f"than {back[k]:.3g}, so the tightened rule can't be met {_until(at, float(back[k]))}"
            f"{f'; the same holds for {others} more' if others else ''}.",
            f"The shadow-price policy tightens nothing; for this policy {_capped(at)}a much longer horizon, or an "
            "`epsilon` below what actions give back.",
        )
    ]


def clipped(at: Standing) -> list[Concern]:
    """Optimism lifts every action's typical reward well above the limit of 1."""
    model, n = at.reward, at.rounds
    learnt = hooks.n_learnt(model)
    if n < FIRST_LOOK or learnt < FIRST_LOOK:
        return []
    radius = hooks.radius(model, _confidence(at, n + 1.0) if model.n_features else n + 1.0)
    least = hooks.least_optimism(model, radius)
    # A model that has a least optimism has a bonus.
    if least is None or not least >= CLIPPED:
        return []
    return [
        Concern(
            "rewards at the clip",
            f"After {learnt:,} rewards the confidence radius is {radius:.3g}, and with it the optimistic reward of every "
            "action is usually at its limit of 1: the choice depends on costs, and hardly on the rewards learnt.",
            f"A `bonus` of the reward model well below {model.bonus:g} (which promises less), fewer features, or the shadow-price "
            "policy.",
        )
    ]


def norms(at: Standing) -> list[Concern]:
    """‖θ̂‖ exceeds m by more than its error."""
    n = at.rounds
    if n < FIRST_LOOK:
        return []
    found = []
    for part, model in (("reward", at.reward), ("cost", at.cost)):
        if model is None or getattr(model, "m", None) is None:
            continue
        least = hooks.least_norm(model, _confidence(at, n + 1.0))
        if least is not None and least.max(initial=0.0) > model.m:
            found.append(
                Concern(
                    f"m of the {part} model",
                    f"m = {model.m:.3g} bounds the norm of the {part} model's parameters, but after "
                    f"{hooks.n_learnt(model):,} outcomes their norm is at least {least.max():.3g}: its confidence sets miss the "
                    "truth.",
                    f"An `m` of {_rounded_up(float(least.max()))} or more in the {part} model, or the shadow-price policy, which "
                    "needs none.",
                )
            )
    return found


def remedy_of_totals(at: Standing) -> str:
    """The remedy for totals that stay above zero, and why they do, as far as ε_t and δ show."""
    own = f"{_capped(at)}a longer horizon or a smaller `epsilon`"
    remedy = f"The shadow-price policy corrects its prices by the totals themselves; for this policy {own}."
    eps, delta = epsilon(at, at.rounds + 1), at.slater
    if delta is None or eps <= delta:
        return remedy
    return (
        f"Rules are tightened by ε = {eps:.3g} in this round, more than the slack of {delta:.3g} that some mix of actions leaves "
        f"(slater): {_until(at, delta)} queues trade one rule against another. {remedy}"
    )


def epsilon(at: Standing, t: int) -> float:
    core = kernels.core_views(at.core)
    return min(float(core.limits[0]), Schedule(*core.epsilon.tolist())(t, at.horizon))


def _confidence(at: Standing, t: float) -> float:
    return float(at.horizon or t)


def _capped(at: Standing) -> str:
    """The variant that helps if costs are seen before acting, unless it is already in use."""
    return 'tightening "capped", ' if at.cost is None and not at.capped else ""


def _until(at: Standing, slack: float) -> str:
    """The round until which ε_t is above `slack`, in words."""
    low = high = at.rounds + 1
    while epsilon(at, high) > slack:
        if high > _FAR or slack <= 0.0:
            return "in any round"
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(at, middle) > slack else (low, middle)
    horizon = at.horizon
    beyond = f" (the horizon is {horizon:,})" if horizon is not None and high > horizon else ""
    return f"before round {high:,}{beyond}"


def _rounded_up(value: float) -> str:
    """`value` rounded up to two digits."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / digit) * digit:g}"
