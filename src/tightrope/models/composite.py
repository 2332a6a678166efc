"""What a model made of other models passes on to them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.models import hooks
from tightrope.models.background import BackgroundWork
from tightrope.models.model import Model, make_room, more_actions, under
from tightrope.validation import Array


def _to_each(hook: Callable[..., None]) -> Callable[..., None]:
    def tell(self: Composite, *given: Any) -> None:
        for model in self._parts().values():
            hook(model, *given)

    return tell


class Composite(Model):
    """A model made of others: all of them learn, one answers, and their arrays are part of its own."""

    @abstractmethod
    def _parts(self) -> dict[str, Model]:
        """The models that it is made of, by the prefix of their arrays' names."""

    @abstractmethod
    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        """Its own state, besides that of its parts, by name."""

    @property
    @abstractmethod
    def _in_use(self) -> Model:
        """The part that answers now."""

    def _rows(self, features: Any, actions: Any) -> Any:
        """The features that this part gets."""
        return features

    def means(self, features: Any = None, actions: Any = None) -> Array:
        return self._in_use.means(self._rows(features, actions), actions)

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        return self._in_use.deviations(self._rows(features, actions), actions)

    def predictions(self, features: Any = None, actions: Any = None) -> tuple[Array, Array]:
        return hooks.predictions(self._in_use, self._rows(features, actions), actions)

    @property
    def _guide(self) -> Model:
        """The part that looks ahead."""
        return self._in_use

    def drawn_parts(self, actions: NDArray[np.int64]) -> Array | float:
        return hooks.drawn_parts(self._guide, actions)

    def look_ahead(self, features: Any, actions: NDArray[np.int64], best: int) -> None:
        hooks.look_ahead(self._guide, self._rows(features, actions), actions, best)

    def never_learnt(self) -> NDArray[np.bool_] | None:
        return hooks.never_learnt(self._in_use)

    def resemble(self, action: int, like: int) -> None:
        """Let every part that can begin with another action's beliefs; the one that answers now must be able to."""
        for model in self._parts().values():
            if model is self._in_use or hooks.defines(model, "resemble"):
                hooks.resemble(model, action, like)

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> hooks.Corrected:
        """Let every part correct itself; the answer is that of the part that answers now."""
        found: hooks.Corrected = "not"
        for model in self._parts().values():
            own = hooks.correct(model, features, was, now, action, decision)
            found = own if model is self._in_use else found
        return found

    check_outcome = _to_each(hooks.check_outcome)
    note_decision = _to_each(hooks.note_decision)
    forget_inputs = _to_each(hooks.forget_inputs)
    elapse = _to_each(hooks.elapse)
    shift = _to_each(hooks.shift)

    def background(self) -> list[BackgroundWork]:
        return [one for model in self._parts().values() for one in hooks.background(model)]

    def grow(self, n_actions: int) -> None:
        if more_actions(self, n_actions):
            for model in self._parts().values():
                model.grow(n_actions)
            self.n_actions = n_actions

    def arrays(self) -> dict[str, NDArray[Any]]:
        found = self._own_arrays()
        for part, model in self._parts().items():
            found |= {f"{part}/{name}": array for name, array in model.arrays().items()}
        return found

    def make_room(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for part, model in self._parts().items():
            make_room(model, under(part, arrays))
