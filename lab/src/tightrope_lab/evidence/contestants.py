"""Who is compared: the default policy with nothing set, the paper's policy, and the grids that rivals are tuned over in hindsight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tightrope.environments.drifting import Environment
from tightrope.environments.tabular import Tabular
from tightrope.models import ArmMeans, DisjointRidge, Ridge
from tightrope.models.model import Model
from tightrope.policies import PessimisticOptimistic, ShadowPrice
from tightrope.schedules import Power
from tightrope_lab.evidence.outcome import Outcome
from tightrope_lab.evidence.rivals import Rival

DEFAULT, PAPER = "shadow-price", "pessimistic-optimistic"

STEPS, MARGINS = (0.003, 0.01, 0.03, 0.1, 0.3), (0.1, 1.0)
BONUSES = (1.0, 0.3, 0.1, 0.03)
SCHEDULES: dict[str, dict[str, Any]] = {
    "its own schedules": {},
    "V = √t, ε = 1/√t": {"V": Power(1.0, 0.5), "epsilon": Power(1.0, -0.5)},
}


def default_policy(env: Environment, **settings: Any) -> ShadowPrice:
    """`ShadowPrice` with the models that fit the environment, and nothing set unless it is said here.

    Of costs that are seen only after acting it is told what they lie in, as rules in words would tell it.
    """
    if not env.problem().seen_before.all():
        settings = {"cost": _model(env, env.cost_features), "cost_range": env.cost_range, **settings}
    return ShadowPrice(reward=_model(env, env.features), constraints=env.problem().constraints, **settings)


def papers_policy(env: Tabular, *, bonus: float = 1.0, **schedules: Any) -> PessimisticOptimistic:
    """The paper's policy with nothing set, costs seen before acting."""
    reward = DisjointRidge(env.n_actions, env.n_features, bonus=bonus)
    return PessimisticOptimistic(reward=reward, constraints=env.n_constraints, **schedules)


def lagrangians() -> list[Rival]:
    return [Rival("lagrangian", step=step, margin=margin) for step in STEPS for margin in MARGINS]


def best_in_hindsight(
    outcomes: Iterable[Outcome], missed: Callable[[Outcome], float] | None = None, allowed: float = 0.0
) -> Outcome:
    """The one that earned most of those that keep the rules; where none does, the one that missed them least.

    By default an outcome keeps them where it is `kept`; otherwise where `missed` is at most what is `allowed`.
    """

    def by(one: Outcome) -> float:
        return (0.0 if one.kept else one.violation) if missed is None else missed(one)

    found = list(outcomes)
    kept = [one for one in found if by(one) <= allowed]
    return max(kept, key=lambda one: float(one.reward[:, -1].mean())) if kept else min(found, key=by)


def _model(env: Environment, features: Any) -> Model:
    if features is None:
        return ArmMeans(env.n_actions)
    if features.ndim == 2:
        return DisjointRidge(env.n_actions, features.shape[-1])
    return Ridge(features.shape[-1])
