"""What models share that have a block of parameters for each action, or one for all, and read features in any unit."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models.model import Ids, Model, size
from tightrope.models.sizes import Sizes, shared_or_each
from tightrope.validation import Array, real_array, require_finite


class BlockModel(Model):
    """Parameters for each action, or shared by all; 0 features for arms alone. Its constructor takes both sizes first."""

    def _set_sizes(self, n_actions: Any, n_features: Any) -> bool:
        """Check and keep the sizes; whether they are known."""
        p = size("n_features", n_features, low=0)
        self.n_actions = size("n_actions", n_actions, low=1)
        if p == 0 and self.n_actions is None:
            raise InvalidInput(
                "a model without features needs n_actions: nothing else tells its outcomes apart."
            )
        self.takes_features = p != 0
        return self._take_sizes(n_features=p)

    @classmethod
    def sized(cls, sizes: Sizes, **settings: Any) -> Self:
        """Shared parameters where each action has its own features, else parameters for each action."""
        return cls(**shared_or_each(sizes) | settings)

    def _shown_sizes(self) -> str:
        """For a `repr`: as they are given."""
        J, p = self.n_actions, self.n_features
        known = {"n_actions": J, "n_features": p}
        both = None not in known.values()
        return f"{J}, {p}" if both else ", ".join(f"{k}={n}" for k, n in known.items() if n is not None)

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
