"""Everything that one round brings, in one frozen object made in one place: from arguments, a request, a row or an entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.actions import Actions
from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.errors import InvalidInput
from tightrope.problem import Learner
from tightrope.rules import Rules
from tightrope.validation import COST_LIMIT, LARGEST, Array, is_plain, real_array, require_range, whole_number
from tightrope.words import Shown

Ids = NDArray[np.int64]

_NEED_RULES = "usage and group need rules: make the policy with constraints=Rules([...])."
# Policies that need dense costs accept at most this many numbers per round.
MOST_DENSE = 10_000_000


class Offer(msgspec.Struct, frozen=True):
    """One round: ids of the actions on offer (J,), φ and ψ (J, d), costs W (J, K), and the rest of the context.

    `uses` (J, M): what each action uses of every limit per window, or may use at most; nan where that is not known.
    φ and ψ have a single row if one x serves all actions. `group`, `usage`, `keys` and `time` are those of the context; `context`
    is its number, for policies that use it. `catalogue`: the catalogue that φ comes from, which never changes. `whole`: every
    action is on offer, in the order of ids.
    """

    ids: Ids
    phi: Array | None = None
    W: Array = np.empty((0, 0))
    psi: Array | None = None
    group: str | tuple[str, ...] | None = None
    context: int | None = None
    catalogue: Array | None = None
    usage: Mapping[str, Any] | None = None
    keys: Mapping[str, Any] | None = None
    time: Any = None
    whole: bool = False
    uses: Array | None = None

    def row_of(self, name: str, action: int) -> int:
        rows = np.flatnonzero(self.ids == action)
        if not len(rows):
            must = f"be on offer in every round, but action {action} is not among {self.ids.tolist()}"
            raise InvalidInput(field=name, must=must)
        return int(rows[0])

    def only(self, rows: Sequence[int]) -> Offer:
        def own(given: Array | None) -> Array | None:
            return given if given is None or len(given) < len(self.ids) else given[rows]

        return msgspec.structs.replace(
            self,
            ids=self.ids[rows],
            phi=own(self.phi),
            psi=own(self.psi),
            W=self.W[rows],
            whole=False,
            uses=None if self.uses is None else self.uses[rows],
        )


class Costs(Protocol):
    """Turns usage into costs: `Rules`, or their compiled form."""

    def costs(self, usage: Any, group: Any, ids: Any, /) -> Array: ...

    def observed(self, usage: Any, action: int, group: Any, /) -> Array: ...

    def force(self, group: Any, /) -> Any:
        """What counts in a context of this group; `rules` says which do, None where all do."""


class OfferReader:
    """Makes offers for one policy: what its models read, its K constraints, which of them are `known` before acting, (K,).

    `rule_costs` turns usage into costs, by the `rules`. `n_actions` is used if neither models nor rules say it. With `any_unit`,
    features and costs need only be finite; otherwise the code that computes with them checks them. With `ignores`, features, costs,
    usage and groups that the policy does not look at are ignored instead of refused.

    >>> import tightrope as tr
    >>> read = OfferReader(tr.ArmMeans(2), None, 1, np.array([True]))
    >>> read.offer(costs=[[0.5], [-0.5]]).ids
    array([0, 1])
    """

    def __init__(
        self,
        reward: Learner | None,
        cost: Learner | None,
        K: int,
        known: NDArray[np.bool_],
        *,
        rules: Rules | None = None,
        rule_costs: Costs | None = None,
        n_actions: int | None = None,
        any_unit: bool = False,
        ignores: bool = False,
    ) -> None:
        self.reward, self.cost, self.rules, self.K = reward, cost, rules, K
        self.rule_costs, self.any_unit, self.ignores = rule_costs, any_unit, ignores
        self.known_columns = np.flatnonzero(known)
        self.columns = np.flatnonzero(~known).astype(np.int64)
        sizes = {
            "reward": None if reward is None else reward.n_actions,
            "cost": None if cost is None else cost.n_actions,
            "rules": None if rules is None else len(rules.actions),
        }
        said = {name: n for name, n in sizes.items() if n is not None}
        if len(set(said.values())) > 1:
            must = "have the same number of actions"
            raise InvalidInput(field="reward, cost and rules", must=must, got=said)
        self.n_actions = next(iter(said.values()), n_actions)
        self.constraints = tuple(map(str, range(K))) if rules is None else rules.names
        # Whether ψ defaults to φ.
        self.same_features = False
        if cost is not None and reward is not None:
            alike = (cost.n_actions is None) == (reward.n_actions is None)
            self.same_features = alike and 0 < cost.n_features == reward.n_features
        self.names = None if rules is None else tuple(map(str, rules.actions))
        self.registry = Actions(self.n_actions) if rules is None else rules.registry

    def offer(
        self,
        features: Any = None,
        costs: Any = None,
        cost_features: Any = None,
        actions: Any = None,
        usage: Any = None,
        group: Any = None,
        *,
        context: int | None = None,
        keys: Mapping[str, Any] | None = None,
        time: Any = None,
    ) -> Offer:
        catalogue = None
        if isinstance(features, Catalogue) or isinstance(costs, SparseCosts):
            if actions is not None or usage is not None or group is not None:
                raise InvalidInput("with a Catalogue or SparseCosts, decide() takes only features and costs.")
            if isinstance(features, Catalogue):
                catalogue = features.features
                # Compiled code doesn't write to these arrays, but is compiled for writeable ones.
                features = catalogue if is_plain(catalogue) else catalogue.copy()
            costs = _dense(costs)
        group = plain_group(group)
        costs, cost_features = self._told_apart(features, costs, cost_features)
        ids = self._on_offer(actions)
        J = None if ids is None else len(ids)
        phi = psi = None
        if self.reward is not None:
            phi, J = _feature_rows("features", features, self.reward, J)
        if self.cost is not None:
            psi, J = _feature_rows("cost_features", cost_features, self.cost, J)
        elif cost_features is not None and not self.ignores:
            raise InvalidInput("cost_features need a policy with cost=; here costs are seen before acting.")
        W = self._cost_matrix(costs, usage, group, ids, J)
        whole = ids is None
        if ids is None:
            _require_rows(self.n_actions, len(W))
            ids = np.arange(len(W))
        if self.any_unit and len(self.columns):
            W[:, self.columns] = 0.0
        uses, limits = None, None if self.rules is None else self.rules.windows
        if limits:
            assert self.rules is not None
            keys, time = limits.read_keys(keys), limits.read_time(time)
            uses = self.rules.window_uses(usage, group, ids)
        offer = Offer(ids, phi, W, psi, group, context, catalogue, usage, keys, time, whole, uses)
        self.require_valid(offer)
        return offer

    def _on_offer(self, actions: Any) -> Ids | None:
        """The ids of the actions on offer, None for all; those that are paused or retired never are."""
        if actions is None:
            return None if self.registry.whole else np.array(self.registry.active, dtype=np.int64)
        ids = self.registry.ids(actions, once=True)
        for action in ids if self.registry.states else ():
            if (state := self.registry.state(action)) != "active":
                name = self.registry.name(action)
                raise InvalidInput(
                    field="actions", must="name actions on offer", got=Shown(f"{name!r}, which is {state}")
                )
        return np.array(ids, dtype=np.int64)

    def require_valid(self, offer: Offer) -> None:
        """Refuse bad numbers that no later step checks, and a missing group that rules need."""
        if self.any_unit:
            for name, rows in (("features", offer.phi), ("cost_features", offer.psi), ("costs", offer.W)):
                if rows is not None:
                    # Not finite, or too large to be squared.
                    require_range(name, rows, -LARGEST, LARGEST)
            self.in_force(offer.group)  # raises if something is missing, before anything is changed

    def observed(self, costs: Any, usage: Any, action: int, group: Any) -> Array:
        """The costs seen after acting, (K_after,), given as such or by the names of usages."""
        if usage is not None:
            if costs is not None:
                raise InvalidInput("give costs or usage, not both.")
            if not isinstance(usage, Mapping):
                raise InvalidInput(field="usage", must="be a mapping from names to numbers", got=usage)
            if self.rule_costs is None:
                raise InvalidInput(_NEED_RULES)
            costs = self.rule_costs.observed(dict(usage), action, group)
        elif isinstance(costs, Mapping):
            must = "be numbers in the order of the constraints; pass numbers by name as usage="
            raise InvalidInput(field="costs", must=must)
        n = len(self.columns)
        shapes = [(n,), *([()] if n == 1 else []), *([(self.K,)] if n < self.K else [])]
        given = real_array("costs", costs, *shapes)
        w = given.reshape(n) if given.size == n else given[self.columns]
        if self.any_unit:
            require_range("costs", w, -LARGEST, LARGEST)
        return w

    def in_force(self, group: Any) -> NDArray[np.bool_] | None:
        force = None if self.rule_costs is None else self.rule_costs.force(group)
        return None if force is None else cast("NDArray[np.bool_] | None", force.rules)

    def _told_apart(self, features: Any, costs: Any, cost_features: Any) -> tuple[Any, Any]:
        """Costs and cost features: if no cost is known before acting, the second argument of `decide` means the latter."""
        if self.cost is not None and costs is not None and len(self.columns) == self.K:
            if cost_features is not None:
                said = "here costs are seen after acting; decide() takes cost_features but no costs."
                raise InvalidInput(said)
            if not self.cost.n_features:
                raise InvalidInput("here costs are seen after acting; pass them to learn(), not to decide().")
            costs, cost_features = None, costs
        elif len(self.columns) and costs is not None and cost_features is None and np.ndim(costs) == 1:
            # One x: costs would have a row for each action.
            costs, cost_features = None, costs
        if cost_features is None and self.same_features:
            cost_features = features
        return costs, cost_features

    def _cost_matrix(self, costs: Any, usage: Any, group: Any, ids: Any, J: int | None) -> Array:
        """W (J, K); columns that are seen after acting hold nothing yet."""
        K, known = self.K, self.known_columns
        if self.ignores:
            usage, costs = None, costs if len(known) else None
        elif usage is not None or group is not None:
            if self.rule_costs is None:
                raise InvalidInput(_NEED_RULES)
            if costs is not None and usage is not None:
                raise InvalidInput("give costs or usage, not both.")
        if costs is None and self.rule_costs is not None:
            W = self.rule_costs.costs(usage, group, ids)
            _require_rows(len(W), J)
            return W
        if not len(known) and (costs is None or K):
            if costs is not None:
                raise InvalidInput("here no cost is seen before acting, so decide() takes no costs.")
            J = self.n_actions if J is None and self.ignores else J
            if J is None:
                said = "cannot infer the number of actions on offer; pass features= or actions=."
                raise InvalidInput(said)
            return np.empty((J, K))
        if costs is None:
            wanted = f"(J, {len(known)}), one row per action and one column per constraint"
            raise InvalidInput(field="costs", problem=f"are missing: they have shape {wanted}")
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
            limit = LARGEST if self.any_unit else COST_LIMIT
            require_range("costs", given, -limit, limit)
            W[:, known] = given
        return W


def _require_rows(n_actions: int | None, rows: int | None) -> None:
    if None not in (n_actions, rows) and n_actions != rows:
        said = f"there are {n_actions} actions, but {rows} rows came"
        raise InvalidInput(f"{said}; use actions= to say which they are.")


def _feature_rows(name: str, value: Any, model: Learner, J: int | None) -> tuple[Array | None, int | None]:
    """Rows that `model` reads, one for each action or one for all, and the number of actions if the rows say it."""
    if not _are_given(name, value, model, "action"):
        return None, J if J is not None else model.n_actions
    p = model.n_features
    if model.n_actions is not None:
        J = model.n_actions if J is None else J
        if getattr(value, "shape", None) == (1, p):
            # A frame with one row: the x of all actions.
            value = real_array(name, value, (1, p))[0]
        rows = real_array(name, value, (p,), (J, p))
        return (rows[None, :] if rows.ndim == 1 else rows), J
    rows = real_array(name, value, (J, p))
    if not len(rows):
        raise InvalidInput(f"at least one action must be on offer, but {name} has no row.")
    return rows, len(rows)


def rows_for_each(rows: Array | None, J: int) -> Array | None:
    if rows is None or len(rows) == J:
        return rows
    return np.array(np.broadcast_to(rows, (J, rows.shape[1])), order="C")


def logged_rows(name: str, value: Any, model: Learner, n: int) -> Array | None:
    given = _are_given(name, value, model, "decision")
    return real_array(name, value, (n, model.n_features)) if given else None


def plain_group(group: Any) -> str | tuple[str, ...] | None:
    if group is None or isinstance(group, str):
        return group
    names = tuple(group) if isinstance(group, Iterable) else (group,)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(field="group", must="be a name or several", got=name)
    return tuple(sorted(names))


def rounds_of(given: Mapping[str, Any], rounds: int | None) -> list[dict[str, Any]]:
    """The arguments of each of several rounds, from arguments with one entry for each; `rounds` says how many if none is given."""
    lengths = {name: _rounds_given(name, value) for name, value in given.items() if value is not None}
    if rounds is not None:
        lengths["rounds"] = whole_number("rounds", rounds)
    if not lengths:
        raise InvalidInput("decide_many needs rounds=, or an argument with one entry for each round.")
    if len(set(lengths.values())) > 1:
        raise InvalidInput(
            f"the arguments must have one entry for each round, but their lengths differ: {lengths}."
        )
    n = next(iter(lengths.values()))
    return [{name: None if one is None else one[i] for name, one in given.items()} for i in range(n)]


def _rounds_given(name: str, value: Any) -> int:
    if isinstance(value, (str, bytes)) or not (isinstance(value, Sequence) or np.ndim(value)):
        raise InvalidInput(field=name, must="have one entry for each round", got=value)
    return len(value)


def _are_given(name: str, value: Any, model: Learner, of: str) -> bool:
    """Whether there are features: they must be given exactly if the model takes them."""
    if model.n_features and value is None:
        raise InvalidInput(f"{type(model).__name__} needs {name}: {model.n_features} numbers per {of}.")
    if not model.n_features and value is not None:
        raise InvalidInput(f"{type(model).__name__} takes no {name}: leave them out.")
    return model.n_features > 0


def _dense(costs: Any) -> Any:
    if not isinstance(costs, SparseCosts):
        return costs
    J, K = costs.shape
    if J * K > MOST_DENSE:
        problem = f"are too large for this policy, which reads up to {MOST_DENSE:,} numbers per round"
        raise InvalidInput(field=f"SparseCosts of {J} × {K}", problem=problem)
    W = np.tile(-costs.limits, (J, 1))
    W[np.repeat(np.arange(J), np.diff(costs.offsets)), costs.indices] += costs.data
    return W
