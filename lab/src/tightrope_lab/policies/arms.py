"""What policies for a bandit with arms share: the means of their arms."""

from __future__ import annotations

from typing import ClassVar

from tightrope.models import ArmMeans
from tightrope.policies.comparator import Comparator
from tightrope.policies.pending import Pending
from tightrope.policies.state_file import Arrays


class ArmComparator(Comparator):
    """One that keeps the means of its arms, with rewards in [0, 1], in place of models that it is given."""

    _reward_range: ClassVar[tuple[float, float] | None] = (0.0, 1.0)
    _n_actions: int
    _rewards: ArmMeans
    _usage: ArmMeans | None = None

    def _reward_model(self) -> ArmMeans:
        return self._rewards.copy()

    def _cost_model(self) -> ArmMeans | None:
        return None if self._usage is None else self._usage.copy()

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        self._rewards.learn(None, reward, pending[1])

    def _arrays(self) -> Arrays:
        means = {"rewards": self._rewards, "usage": self._usage}
        kept = {part: model for part, model in means.items() if model is not None}
        return {f"{part}/{name}": one for part, model in kept.items() for name, one in model.arrays().items()}
