"""What models share that scale features by themselves: their size, and reading rows in any unit."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models.model import Ids, Model
from tightrope.validation import Array, real_array, require_finite, whole_number


class AnyUnit(Model):
    """Parameters for each action, or shared by all; 0 features for arms alone. Its constructor takes both sizes first."""

    def _set_sizes(self, n_features: Any, n_actions: Any, n_outputs: Any) -> tuple[int, int]:
        """Check and keep the sizes; gives p and how many outputs there are."""
        self.n_features = p = whole_number("n_features", n_features)
        self.n_actions = None if n_actions is None else whole_number("n_actions", n_actions, low=1)
        if p == 0 and self.n_actions is None:
            raise InvalidInput(
                "a model without features needs n_actions: nothing else tells its outcomes apart."
            )
        self.takes_features = p > 0
        self.n_outputs = whole_number("n_outputs", n_outputs)
        return p, self.n_outputs

    @classmethod
    def sized(cls, *, n_actions: int, n_features: int, per_action: bool, **settings: Any) -> Self:
        """Shared parameters where each action has its own features, else parameters for each action."""
        return cls(n_features, None if per_action else n_actions, **settings)  # type: ignore[call-arg]

    def _rows_and_ids(self, features: Any, actions: Any) -> tuple[Array, Ids]:
        """Checked rows, one for each action or one for all, and the actions."""
        n = self.n_actions if actions is None else len(actions)
        rows = self._rows(features, n)
        ids: Ids = (
            np.arange(len(rows) if n is None else n)
            if actions is None
            else np.asarray(actions, dtype=np.int64)
        )
        return rows, ids

    def _rows(self, features: Any, n: int | None) -> Array:
        p = self.n_features
        if not self.takes_features:
            return np.empty((1, 0))
        shapes: list[tuple[int | None, ...]] = [(p,), (n if self.n_actions is not None else None, p)]
        rows = real_array("features", features, *shapes)
        require_finite("features", rows)
        return np.ascontiguousarray(np.atleast_2d(rows))

    def _shaped(self, values: Array) -> Array:
        return values.reshape(-1) if self.n_outputs == 1 else values
