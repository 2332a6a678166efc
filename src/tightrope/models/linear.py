"""One name for the linear model that suits a problem."""

from __future__ import annotations

from tightrope.models.arm_means import ArmMeans
from tightrope.models.disjoint_ridge import DisjointRidge
from tightrope.models.model import Model, register
from tightrope.models.ridge import Ridge
from tightrope.models.sizes import Sizes


@register("linear")
class Linear:
    """What "linear" is: `DisjointRidge` for one x for all actions, `Ridge` for features by action, `ArmMeans` without any."""

    @staticmethod
    def fitting(sizes: Sizes) -> type[Model]:
        if not sizes.n_features:
            return ArmMeans
        return Ridge if sizes.per_action else DisjointRidge
