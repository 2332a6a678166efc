"""When fits of models take effect in the service: as soon as they are made, which an entry of the journal says.

So no request waits for one, and replay takes each up where it was taken up. In journals of before format 5 of entries fits take
effect by themselves, at fixed outcomes.
"""

from __future__ import annotations

import contextlib

from tightrope.errors import InvalidInput
from tightrope.policies import Policy
from tightrope.service.journal import Refitted

_SINCE = 5  # the format of entries


class Fits:
    """The models of a policy that are fitted in the background, in a journal of some format.

    >>> import tightrope as tr
    >>> Fits(tr.ShadowPrice(tr.ArmMeans(2), constraints=1), 5).take() is None
    True
    """

    def __init__(self, policy: Policy, form: int) -> None:
        models = policy.refits()
        for model in models:
            model.deferred = form >= _SINCE
        self._models = models if form >= _SINCE else []

    def take(self) -> Refitted | None:
        """Go on with the fits that have been made; None if there are none."""
        made = [i for i, model in enumerate(self._models) if model.fit_ready]
        return self.repeat(made) if made else None

    def repeat(self, models: list[int]) -> Refitted:
        """Go on with the fits of these models, as an entry says."""
        for i in models:
            if not 0 <= i < len(self._models):
                raise InvalidInput(f"model {i} is not fitted in the background.")
            self._models[i].take_fit()
        return Refitted(models=models)


def prepare(policy: Policy) -> None:
    """Wait for what models need to answer, so that no caller has to; what can't be fitted is for callers to hear."""
    for model in policy.refits():
        with contextlib.suppress(InvalidInput):
            model.prepare()
