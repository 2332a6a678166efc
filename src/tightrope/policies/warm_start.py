"""Decisions logged before a policy goes live; all are checked before the first is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tightrope.errors import InvalidInput
from tightrope.models import Model, hooks
from tightrope.models.ridge_regression import require_rows_in_ball
from tightrope.offer import OfferReader, logged_rows
from tightrope.validation import COST_ROUNDING, LARGEST, Array, real_array, require_finite, require_range

if TYPE_CHECKING:
    from tightrope.encoder import Encoder


class Lessons(NamedTuple):
    """Logged decisions: actions, φ, rewards, and the costs with their ψ if they were seen."""

    ids: list[int]
    phi: Array | None
    rewards: Array
    costs: Array | None
    psi: Array | None

    def learn(self, reward: Model, cost: Model | None) -> None:
        """Teach the models, row by row; nothing is learnt if one of the rows can't be."""
        for i in range(len(self.ids)):
            hooks.check_outcome(reward, self.rewards[i : i + 1])
            if self.costs is not None and cost is not None:
                hooks.check_outcome(cost, self.costs[i])
        for i, action in enumerate(self.ids):
            reward.learn(None if self.phi is None else self.phi[i], self.rewards[i : i + 1], action)
            if self.costs is not None and cost is not None:
                cost.learn(None if self.psi is None else self.psi[i], self.costs[i], action)


def read_log(
    read: OfferReader,
    reward: Model,
    cost: Model | None,
    ranges: Array,
    features: Any,
    actions: Any,
    rewards: Any,
    costs: Any,
    cost_features: Any,
    usage: Any,
    group: Any,
) -> Lessons:
    """The arguments of `warm_start`, checked. `ranges` (K_after, 2): the range that observed costs must lie in."""
    if usage is not None:
        costs = _costs_of_usage(read, costs, usage, group, actions)
    y = real_array("rewards", rewards, (None,))
    require_range("rewards", y, -LARGEST, LARGEST)
    n = len(y)
    ids = _ids(read, actions, n, [reward] if cost is None else [reward, cost])
    phi, w, psi = _rows(read, "features", features, reward, n), None, None
    if costs is not None:
        if cost is None:
            raise InvalidInput("here costs are seen before acting; warm_start() takes only the rewards.")
        K = len(read.columns)
        given = real_array(
            "costs", costs, (n, K), *([(n,)] if K == 1 else []), *([(n, read.K)] if K < read.K else [])
        )
        w = given.reshape(n, K) if given.size == n * K else given[:, read.columns]
        w = require_in_ranges(w, ranges)
        if cost_features is None and cost.n_features:
            cost_features = features
        psi = _rows(read, "cost_features", cost_features, cost, n)
    elif cost_features is not None:
        raise InvalidInput("cost_features come with the costs that were seen, but costs is None.")
    return Lessons(ids, phi, y, w, psi)


def encoded(
    encoder: Encoder | None, features: Any, cost_features: Any, offers: Any = None
) -> tuple[Any, Any, Any]:
    """Features, cost features and offers, encoded from table rows; unchanged without an encoder."""
    if encoder is None:
        return features, cost_features, offers
    features, cost_features = (
        None if one is None else encoder.transform(one) for one in (features, cost_features)
    )
    if offers is not None:
        offers = [
            {
                name: encoder.transform(one) if name in ("features", "cost_features") else one
                for name, one in given.items()
            }
            for given in offers
        ]
    return features, cost_features, offers


def require_readable(name: str, rows: Array, model: Model) -> None:
    if hooks.unit_features(model):
        require_rows_in_ball(name, rows)
    else:
        require_finite(name, rows)


def require_in_ranges(costs: Array, ranges: Array) -> Array:
    require_range("costs", costs, ranges[:, 0] - COST_ROUNDING, ranges[:, 1] + COST_ROUNDING)
    return costs


def _costs_of_usage(read: OfferReader, costs: Any, usage: Any, group: Any, actions: Any) -> Any:
    if costs is not None:
        raise InvalidInput("give costs, or usage by name, not both.")
    if read.rules is None:
        raise InvalidInput("usage needs rules: make the policy with constraints=Rules([...]).")
    if not isinstance(usage, Mapping):
        raise InvalidInput(field="usage", must="be a mapping from names to numbers", got=usage)
    return read.rules.logged(usage, actions, group, after=True)


def _rows(read: OfferReader, name: str, value: Any, model: Model, n: int) -> Array | None:
    rows = logged_rows(name, value, model, n)
    if rows is not None:
        require_readable(name, rows, model)
        if read.any_unit:
            require_range(name, rows, -LARGEST, LARGEST)
    return rows


def _ids(read: OfferReader, actions: Any, n: int, models: list[Model]) -> list[int]:
    if actions is None:
        if any(model.n_actions is not None for model in models):
            raise InvalidInput("actions are needed: the models tell actions apart.")
        return [0] * n
    ids = read.registry.ids(actions) if len(actions) else []
    if len(ids) != n:
        raise InvalidInput(field="actions", must=f"have one entry for each of {n} rewards", got=len(ids))
    return ids
