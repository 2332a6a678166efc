"""What a model passes on that is made of other models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from tightrope.models import hooks
from tightrope.models.background import BackgroundWork
from tightrope.models.model import Model, make_room, more_actions


class Composite(Model):
    """A model made of others: each of them hears all that it is told, and their arrays are part of its own."""

    @abstractmethod
    def _parts(self) -> dict[str, Model]:
        """The models that it is made of, each by what its arrays are called after."""

    @abstractmethod
    def _own_arrays(self) -> dict[str, NDArray[Any]]:
        """The state beside that of its parts, by name."""

    def check_outcome(self, outcome: Any) -> None:
        """Refuse what one of them refuses."""
        for model in self._parts().values():
            hooks.check_outcome(model, outcome)

    def note_decision(self, number: int) -> None:
        """Each is told."""
        for model in self._parts().values():
            hooks.note_decision(model, number)

    def forget_inputs(self, numbers: Collection[int]) -> None:
        """Each drops the rows that it keeps of these decisions."""
        for model in self._parts().values():
            hooks.forget_inputs(model, numbers)

    def elapse(self, time: float) -> None:
        """So much time goes by, for each."""
        for model in self._parts().values():
            hooks.elapse(model, time)

    def shift(self, output: int, by: float) -> None:
        """All outcomes of one output, those that were learnt too, become larger by so much."""
        for model in self._parts().values():
            hooks.shift(model, output, by)

    def background(self) -> list[BackgroundWork]:
        """That of all of them."""
        return [one for model in self._parts().values() for one in hooks.background(model)]

    def grow(self, n_actions: int) -> None:
        """Each knows so many actions."""
        if more_actions(self, n_actions):
            for model in self._parts().values():
                model.grow(n_actions)
            self.n_actions = n_actions

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state, by name: its own, and that of each part behind the part's name."""
        found = self._own_arrays()
        for part, model in self._parts().items():
            found |= {f"{part}/{name}": array for name, array in model.arrays().items()}
        return found

    def make_room(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Have room for as much as these arrays keep of each part."""
        for part, model in self._parts().items():
            own = f"{part}/"
            make_room(
                model, {name.removeprefix(own): one for name, one in arrays.items() if name.startswith(own)}
            )
