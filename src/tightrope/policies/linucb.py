"""LinUCB: the highest optimistic reward, regardless of cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tightrope.models import Model
from tightrope.policies.pessimistic_optimistic import PessimisticOptimistic
from tightrope.policies.registry import register

if TYPE_CHECKING:
    from tightrope.encoder import Encoder


@register("linucb")
class LinUCB(PessimisticOptimistic):
    """LinUCB (Abbasi-Yadkori, Pál, Szepesvári 2011): the pessimistic-optimistic policy without constraints.

    Parameters
    ----------
    reward : Model or str
    context : Encoder, or sequence of names; optional
    horizon : int, optional
        As for `PessimisticOptimistic`.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = LinUCB(Ridge(2), horizon=100)
    >>> policy.decide([[1.0, 0.0], [0.0, 1.0]]).action
    0
    """

    _loop: ClassVar[str | None] = "pessimistic-optimistic"

    def __init__(
        self,
        reward: Model | str = "linear",
        *,
        context: Encoder | Sequence[str] | None = None,
        horizon: int | None = None,
    ) -> None:
        PessimisticOptimistic.__init__(self, 0, reward, context=context, horizon=horizon)
