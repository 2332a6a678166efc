"""What a policy with constraints is given, brought into the kernels' form, or refused with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.actions import ActionNames
from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.models.ridge_regression import require_rows_in_ball
from tightrope.policies.offer import Offer, feature_rows, logged_rows, offered_ids, plain_group
from tightrope.policies.rule_costs import RuleCosts
from tightrope.problem import Seen, when_seen, which_before
from tightrope.rules import Rules
from tightrope.validation import (
    COST_LIMIT,
    COST_ROUNDING,
    LARGEST,
    Array,
    first,
    real_array,
    require_finite,
    require_range,
    whole_number,
)

if TYPE_CHECKING:
    from tightrope.encoder import Encoder


class Log(NamedTuple):
    """Logged decisions: actions, φ, rewards, and where they were seen the costs with their ψ."""

    ids: list[int]
    phi: Array | None
    rewards: Array
    costs: Array | None
    psi: Array | None


class Input:
    """The models, rules and costs of one policy, and what of a round's input fits them."""

    # How large a cost may be that is known before acting.
    cost_limit: ClassVar[float] = COST_LIMIT

    def __init__(
        self, reward: Any, cost: Model | None, rules: Rules | None, K: int, known: NDArray[np.bool_]
    ) -> None:
        # A policy without sizes has no models yet; it has some before it reads its first round.
        self.reward, self.cost, self.rules, self.K = reward, cost, rules, K
        self.rule_costs = None if rules is None else RuleCosts(rules)
        self.known_columns = np.flatnonzero(known)
        self.columns = np.flatnonzero(~known).astype(np.int64)
        sizes = {
            name: getattr(model, "n_actions", None) for name, model in (("reward", reward), ("cost", cost))
        }
        if rules is not None:
            sizes["rules"] = len(rules.actions)
        said = {name: n for name, n in sizes.items() if n is not None}
        if len(set(said.values())) > 1:
            raise InvalidInput(
                f"reward, cost and rules must know the same number of actions, but got {said}."
            )
        self.n_actions = next(iter(said.values()), None)
        self.constraints = tuple(map(str, range(K))) if rules is None else rules.names
        # Whether ψ is φ where none is given.
        self.same_features = (
            cost is not None
            and reward is not None
            and cost.takes_features
            and cost.n_features == reward.n_features
            and (cost.n_actions is None) == (reward.n_actions is None)
        )
        self.names = None if rules is None else tuple(map(str, rules.actions))
        self.action_names = ActionNames(self.n_actions if rules is None else rules.actions)

    def offer(
        self, features: Any, costs: Any, cost_features: Any, actions: Any, usage: Any, group: Any
    ) -> Offer:
        """One round's input in the kernels' form."""
        group = plain_group(group)
        if self.cost is not None and costs is not None and len(self.columns) == self.K:
            if cost_features is not None:
                raise InvalidInput(
                    "costs are seen after acting here: give the cost features once, not costs as well."
                )
            if not self.cost.takes_features:
                raise InvalidInput("costs are seen after acting here: give them to learn, not to decide.")
            costs, cost_features = None, costs
        elif len(self.columns) and costs is not None and cost_features is None and np.ndim(costs) == 1:
            # One x: costs would have a row for each action.
            costs, cost_features = None, costs
        if cost_features is None and self.same_features:
            cost_features = features
        ids = offered_ids(actions, self.action_names)
        J = None if ids is None else len(ids)
        phi, J = feature_rows("features", features, self.reward, J)
        psi = None
        if self.cost is not None:
            psi, J = feature_rows("cost_features", cost_features, self.cost, J)
        elif cost_features is not None:
            raise InvalidInput(
                "cost_features are for a policy with cost=: costs are seen before acting here."
            )
        W = self._cost_matrix(costs, usage, group, ids, J)
        if ids is None:
            J = len(W)
            if self.n_actions is not None and self.n_actions != J:
                raise InvalidInput(
                    f"there are {self.n_actions} actions, but {J} rows came: say with actions= which they are."
                )
            ids = np.arange(J)
        return Offer(ids, phi, W, psi, group)

    def _cost_matrix(self, costs: Any, usage: Any, group: Any, ids: Any, J: int | None) -> Array:
        """W (J, K); columns that are seen after acting hold nothing yet."""
        K, known = self.K, self.known_columns
        if usage is not None or group is not None:
            if self.rule_costs is None:
                raise InvalidInput(
                    "usage and group need rules: make the policy with constraints=Rules([...])."
                )
            if costs is not None and usage is not None:
                raise InvalidInput("give costs, or usage, not both.")
        if costs is None and self.rule_costs is not None:
            W = self.rule_costs.costs(usage, group, ids)
            if J is not None and len(W) != J:
                raise InvalidInput(
                    f"there are {len(W)} actions, but {J} rows came: say with actions= which they are."
                )
            return W
        if not len(known) and (costs is None or K):
            if costs is not None:
                raise InvalidInput("no constraint is seen before acting here, so costs can't be given.")
            if J is None:
                raise InvalidInput("how many actions are on offer can't be told: give features or actions.")
            return np.empty((J, K))
        if costs is None:
            raise InvalidInput(
                f"costs of shape (J, {len(known)}) are needed: one row an action, one column a constraint."
            )
        shapes: list[tuple[int | None, ...]] = [(J, K)] if len(known) == K else [(J, len(known)), (J, K)]
        given = real_array("costs", costs, *shapes)
        if not len(given):
            raise InvalidInput("at least one action must be on offer, but costs has no row.")
        if len(known) == K:
            return given
        W = np.zeros((len(given), K))
        if given.shape[1] == K:
            W[:, known] = given[:, known]
        else:
            require_range("costs", given, -self.cost_limit, self.cost_limit)
            W[:, known] = given
        return W

    def require_valid(self, offer: Offer) -> None:
        """Name the entry that is wrong."""
        for name, rows, model in (
            ("features", offer.phi, self.reward),
            ("cost_features", offer.psi, self.cost),
        ):
            if rows is not None and model is not None:
                require_readable(name, rows, model)
        known = self.known_columns
        bad = ~(np.abs(offer.W[:, known]) <= COST_LIMIT)
        if bad.any():
            j, i = first(bad)
            raise InvalidInput(
                f"costs[{j}, {known[i]}] must lie in [-1, 1], but got {offer.W[j, known[i]]:g}."
            )

    def logged_costs(self, costs: Any, usage: Any, group: Any, actions: Any) -> Any:
        """Costs that were logged, or by name what was used, made costs by the rules."""
        if usage is None:
            return costs
        if costs is not None:
            raise InvalidInput("give costs, or usage by name, not both.")
        if self.rules is None:
            raise InvalidInput("usage needs rules: make the policy with constraints=Rules([...]).")
        if not isinstance(usage, Mapping):
            raise InvalidInput(f"usage must be a mapping from names to numbers, but got {usage!r}")
        return self.rules.logged(usage, actions, group, after=True)

    def log(
        self, features: Any, actions: Any, rewards: Any, costs: Any, cost_features: Any, ranges: Array
    ) -> Log:
        """Logged decisions, all of them checked."""
        y = real_array("rewards", rewards, (None,))
        require_range("rewards", y, -LARGEST, LARGEST)
        n = len(y)
        ids = self._logged_ids(actions, n)
        phi, w, psi = self._logged_rows("features", features, self.reward, n), None, None
        if costs is not None:
            if self.cost is None:
                raise InvalidInput("costs are seen before acting here: warm_start takes the rewards alone.")
            K = len(self.columns)
            given = real_array(
                "costs", costs, (n, K), *([(n,)] if K == 1 else []), *([(n, self.K)] if K < self.K else [])
            )
            w = given.reshape(n, K) if given.size == n * K else given[:, self.columns]
            w = require_in_ranges(w, ranges)
            if cost_features is None and self.cost.takes_features:
                cost_features = features
            psi = self._logged_rows("cost_features", cost_features, self.cost, n)
        elif cost_features is not None:
            raise InvalidInput("cost_features come with the costs that were seen, but costs is None.")
        return Log(ids, phi, y, w, psi)

    def _logged_rows(self, name: str, value: Any, model: Model, n: int) -> Array | None:
        rows = logged_rows(name, value, model, n)
        if rows is not None:
            require_readable(name, rows, model)
        return rows

    def _logged_ids(self, actions: Any, n: int) -> list[int]:
        if actions is None:
            if any(model is not None and model.n_actions is not None for model in (self.reward, self.cost)):
                raise InvalidInput("actions are needed: the models tell actions apart.")
            return [0] * n
        ids = self.action_names.ids(actions) if len(actions) else []
        if len(ids) != n:
            raise InvalidInput(f"actions must have one entry for each of {n} rewards, but got {len(ids)}.")
        return ids

    def observed(self, costs: Any, action: int, group: Any) -> Array:
        """The costs seen after acting, (K_after,), given as such or by the names of usages."""
        if isinstance(costs, Mapping):
            if self.rule_costs is None:
                raise InvalidInput(
                    "costs by usage name need rules: make the policy with constraints=Rules([...])."
                )
            costs = self.rule_costs.observed(costs, action, group)
        n = len(self.columns)
        given = real_array(
            "costs", costs, (n,), *([()] if n == 1 else []), *([(self.K,)] if n < self.K else [])
        )
        return given.reshape(n) if given.size == n else given[self.columns]


def encoded(
    encoder: Encoder | None, features: Any, cost_features: Any, offers: Any = None
) -> tuple[Any, Any, Any]:
    """Features, those of costs and those of offers, made by an encoder of the rows that they are; as they are without one."""
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
    """Refuse rows that a model can't read: NaN, Inf, or norms above 1 where that is asked for."""
    if model.unit_features:
        require_rows_in_ball(name, rows)
    else:
        require_finite(name, rows)


def require_in_ranges(costs: Array, ranges: Array) -> Array:
    """Refuse observed costs outside what they are known to lie in."""
    require_range("costs", costs, ranges[:, 0] - COST_ROUNDING, ranges[:, 1] + COST_ROUNDING)
    return costs


def read_constraints(
    constraints: Any, cost: Any
) -> tuple[Rules | None, int, tuple[Seen, ...] | None, NDArray[np.bool_]]:
    """Constraints given as their number, as rules, or by when each is seen: rules, K, when, and which are seen before acting.

    `cost` is the model of those that are seen after acting, if one was given.
    """
    if isinstance(constraints, Rules):
        known = np.asarray(constraints.seen, dtype=bool)
        if cost is not None and known.all():
            raise InvalidInput(
                "cost is a model of costs that are seen after acting, but every rule here is seen before."
            )
        return constraints, constraints.n_constraints, None, known
    if (
        isinstance(constraints, tuple | list)
        and constraints
        and all(isinstance(one, str) for one in constraints)
    ):
        K = len(constraints)
        seen = when_seen("constraints", constraints, K)
        before = which_before(seen, K)
        if cost is not None and before.all():
            raise InvalidInput(
                "cost is the model of the costs that are seen after acting: here all are seen before."
            )
        return None, K, seen if isinstance(seen, tuple) else None, before
    K = whole_number("constraints must be Rules or their number, which", constraints)
    return None, K, None, np.full(K, cost is None)
