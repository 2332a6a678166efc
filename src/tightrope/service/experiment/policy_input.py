"""A request as the `Offer` that the policy decides on, or an error that names the field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.offer import Offer, plain_group
from tightrope.policies import Policy
from tightrope.problem import Learner
from tightrope.rules.rule import members
from tightrope.rules.usage import entries
from tightrope.service.experiment.configuration import Ranges
from tightrope.service.requests import LIMITS, DecisionRequest, Used
from tightrope.spec import Spec
from tightrope.validation import Array
from tightrope.words import Key, Place, Shown

_KEPT_COSTS = 256


def fixed_usage(spec: Spec) -> dict[str, Any]:
    """What each action uses, if the spec says it and it is known before acting."""
    known = (one for one in spec.rule_specs if one.rule.seen == "before" and one.usage is not None)
    return {name: one.usage for one in known if (name := one.rule.quantity.usage)}


def most_usage(spec: Spec) -> dict[str, Any]:
    """What each action uses at most, if the spec says it and a limit per window holds it until it is known."""
    late = (one for one in spec.rule_specs if one.rule.seen == "after" and one.rule.per is not None)
    return {str(one.rule.quantity.usage): one.usage for one in late if one.usage is not None}


class PolicyInput:
    """Reads requests for the policy of one spec. It has no state that matters: equal requests always give equal offers."""

    def __init__(self, spec: Spec, policy: Policy, ranges: Ranges | None = None) -> None:
        rules = spec.rules
        self._hooks = hooks = policy.hooks
        self._reward, self._cost = hooks.reward, hooks.cost
        rows_of = [
            None if one is None or not one.n_features else one.n_actions is None
            for one in (hooks.reward, hooks.cost)
        ]
        self._same_rows = rows_of[0] == rows_of[1]
        self.windows = None if rules is None or not len(rules.windows) else rules.windows
        late = self.windows is not None and not bool(self.windows.seen.all())
        self.awaits_usage = late or (rules is not None and not bool(rules.seen.all()))
        self._actions = spec.actions
        self._rules = rules
        self._features = spec.encoder
        # Whether some field of a context takes missing or undeclared values.
        self.is_tolerant = spec.encoder is not None and bool(spec.encoder.taken_as)
        self._vector = spec.vector
        self._reward_range = spec.reward_range
        self._ranges = dict(ranges or {})
        self._names = spec.registry
        by_window = () if self.windows is None else self.windows.keys
        self._keys = tuple(dict.fromkeys((*spec.key_names, *by_window)))
        # What is on offer if a request names no actions.
        self.active = spec.registry.active
        self._everyone = np.array(self.active, dtype=np.int64)
        self._no_costs = np.empty((len(self._everyone), 0))
        self._grouped = any(rule.among is not None for rule in rules or ())
        needed = hooks.n_constraints > 0 and (self.awaits_usage or hooks.asks_for_group)
        self._tells_group = self._grouped and (needed or self.windows is not None)
        named = {one for rule in rules or () for one in members(rule.among)}
        self._groups = tuple(sorted(named)) if rules is None or rules.groups is None else rules.groups
        self._fixed = fixed_usage(spec)
        self._most = most_usage(spec)
        # The usages that rules count, before acting and after.
        counted = [(rule.quantity.usage, rule.seen) for rule in rules or ()]
        self.early_usage, self.late_usage = (
            dict.fromkeys(name for name, seen in counted if name is not None and seen == when)
            for when in ("before", "after")
        )
        # What is seen after acting, but may be sent before as an upper bound.
        limits = () if self.windows is None else self.windows.columns
        counted_by_window = {one.rule.quantity.usage for one in limits}
        self.bounded_usage = [name for name in self.late_usage if name in counted_by_window]
        self._costs: dict[Any, Array] = {}
        self._most_uses: dict[Any, Array] = {}
        seen = np.zeros(0, dtype=bool) if rules is None else rules.seen
        self.known_columns, self.late_columns = np.flatnonzero(seen), np.flatnonzero(~seen)

    def require_declared(self, request: DecisionRequest) -> None:
        """Refuse groups and keys that the spec does not know, and a default that is not an action: all would be stored."""
        if request.default is not None:
            self._names.id(request.default, "default")
        for name in request.keys or ():
            if name not in self._keys:
                known = f"; known: {', '.join(self._keys)}" if self._keys else ""
                problem = f"is not a key that the spec uses{did_you_mean(name, self._keys)}{known}"
                raise InvalidInput(field=Place("keys", f"{name:.100}"), problem=problem)
        if not request.group:
            return
        groups = [request.group] if isinstance(request.group, str) else request.group
        if not self._groups:
            raise _wrong("group", "must be left out: the spec declares no groups, and no rule is for one")
        for i, group in enumerate(groups):
            if group not in self._groups:
                near, known = did_you_mean(group, self._groups), ", ".join(self._groups)
                words = f"unknown group {group!r:.100}{near}; known: {known:.200} (declare more with `groups` in the spec)."
                raise InvalidInput(words, field="group")
            if group in groups[:i]:
                raise _wrong("group", f"must name each group once, but {group!r:.100} comes twice")
        size = sum(len(one.encode()) for one in (request.event_id or "", *groups))
        if size > LIMITS.pending_bytes:
            words = f"group and event_id must have at most {LIMITS.pending_bytes} bytes together, but have {size}."
            raise InvalidInput(words)

    def example(self) -> tuple[DecisionRequest, Used | None]:
        """A request that may be accepted, and the smallest valid outcome for its usage."""
        known = [rule.quantity for rule in self._rules or ()]
        least: Used = {one.usage: one.range[0] for one in known if one.usage is not None}
        stated = {**self._fixed, **self._most}
        asked = [name for name in (*self.early_usage, *self.bounded_usage) if name not in stated]
        sent: dict[str, Any] = {name: least[name] for name in asked}
        request = DecisionRequest(
            context=None if self._features is None else self._features.example(),
            features=None if self._vector is None else list(self._vector.example()),
            usage=sent or None,
            group=[] if self._grouped else None,
            keys=dict.fromkeys(self._keys, "example") or None,
        )
        return request, {name: least[name] for name in self.late_usage} or None

    def read(self, request: DecisionRequest, time: int = 0) -> Offer:
        """The offer of a request, whether it has just arrived or comes from a journal entry, at a time in microseconds."""
        if request.actions is not None and self._names.states:
            request = self._without_inactive(request)
        ids = None if request.actions is None else self._names.ids(request.actions, once=True)
        x = self.x(request, len(self._everyone if ids is None else ids))
        usage = self._usage(request.usage)
        W = self._W(request.usage, request.group, usage, ids)
        offer = self.offer(x, W, usage, request.group, ids, request.context)
        if self.windows is None:
            return offer
        keys, uses = self.windows.read_keys(request.keys), self._uses(request, usage, ids)
        return msgspec.structs.replace(offer, keys=keys, time=time / 1e6, uses=uses)

    def offer(
        self,
        x: Array | None,
        W: Array,
        usage: Mapping[str, Any],
        group: str | list[str] | None,
        ids: list[int] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> Offer:
        """An offer of the actions `ids`, None for all: x is one for all of them, or a row for each; W (J, K)."""
        at = self._everyone if ids is None else np.array(ids, dtype=np.int64)
        phi, psi = self.features(x, at)
        number = None
        if self._hooks.sees_context:
            if context is None or self._features is None:
                raise _wrong(
                    "context", "is missing: the policy needs to know which of the declared contexts it is"
                )
            number = self._features.context_number(context)
        told = plain_group(group) if self._tells_group else None
        whole = ids is None and self._names.whole
        return Offer(at, phi, W, psi, told, number, None, usage, whole=whole)

    def _without_inactive(self, request: DecisionRequest) -> DecisionRequest:
        """The request without actions that are paused or retired, and without their rows: callers may not know of that yet."""
        named = self._names.ids(request.actions, once=True)
        rows = [row for row, action in enumerate(named) if action in self.active]
        if not rows:
            raise _wrong("actions", "must name at least one active action, but all are paused or retired")

        def own(given: Any) -> Any:
            by_row = isinstance(given, list) and len(given) == len(named)
            return [given[row] for row in rows] if by_row else given

        features, usage = request.features, request.usage
        if features and isinstance(features[0], list):
            features = own(features)
        return msgspec.structs.replace(
            request,
            actions=[named[row] for row in rows],
            features=features,
            usage=usage and {name: own(given) for name, given in usage.items()},
        )

    def outside(self, request: DecisionRequest) -> Sequence[str]:
        known, context = self._features, request.context
        return known.outside(context) if known is not None and context is not None else ()

    def replaced(self, context: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
        return () if self._features is None else self._features.replaced(context)

    def x(self, request: DecisionRequest, rows: int) -> Array | None:
        """x (p,) of the context, or one for each of `rows` rows; None if the spec declares neither."""
        context, features = request.context, request.features
        if self._features is not None:
            if features is not None:
                raise _wrong("features", "must be left out: the spec declares a [context]; send that instead")
            if context is None:
                raise _wrong("context", f"is missing; required: {', '.join(self._features.columns)}")
            return self._features.vector(context)
        if context:
            raise _wrong("context", "must be left out: the spec declares no [context]")
        if self._vector is None:
            if features is not None:
                raise _wrong(
                    "features",
                    "must be left out: the spec declares no [features] (their number and range)",
                )
            return None
        if features is None:
            raise _wrong("features", f"are missing; send {self._vector.count} numbers")
        return self._vector.rows(features, rows)

    def _usage(self, sent: Mapping[str, Any] | None) -> Mapping[str, Any]:
        if sent is None:
            return self._fixed
        for name in sent:
            if name in self._fixed:
                raise _wrong(Place("usage", Key(name)), "is fixed by the spec; leave it out")
            if name in self.late_usage and name not in self.bounded_usage:
                raise _wrong(Place("usage", Key(name)), "is seen after acting; send it with the outcome")
        self.require_in_ranges(sent)
        return {**self._fixed, **{name: one for name, one in sent.items() if name not in self.late_usage}}

    def require_reward(self, reward: float) -> None:
        known = self._reward_range
        if known is not None and not known[0] <= reward <= known[1]:
            must = f"lie in [{known[0]:g}, {known[1]:g}], the spec's [reward] range"
            raise InvalidInput(field="reward", must=must, got=Shown(f"{reward:g}"))

    def require_in_ranges(self, usage: Mapping[str, Any]) -> None:
        """Refuse usage outside the inferred ranges; the rules themselves check declared ones."""
        for name, given in usage.items():
            known = self._ranges.get(name)
            if known is None:
                continue
            for place, value in entries(name, given):
                if not known[0] <= value <= known[1]:
                    began = "the range that was inferred when the experiment began"
                    raise InvalidInput(
                        field=place,
                        must=f"lie in [{known[0]:g}, {known[1]:g}], {began}",
                        got=Shown(f"{value:g}"),
                        remedy="If that is too narrow, declare `range` in its rule.",
                    )

    def _uses(self, request: DecisionRequest, usage: Mapping[str, Any], ids: list[int] | None) -> Array:
        """What each action uses at most of every limit per window, (J, M); cached if no usage was sent."""
        sent, group = request.usage, request.group
        key = (None if ids is None else tuple(ids), tuple(group) if isinstance(group, list) else group)
        if sent is None and (kept := self._most_uses.get(key)) is not None:
            return kept
        assert self._rules is not None
        told: dict[str, Any] = {**self._most, **usage, **(sent or {})}
        uses = self._rules.window_uses(told, group, ids)
        if sent is None:
            if len(self._most_uses) >= _KEPT_COSTS:
                self._most_uses.clear()
            self._most_uses[key] = uses
        return uses

    def _W(
        self, sent: Any, group: str | list[str] | None, usage: Mapping[str, Any], ids: list[int] | None
    ) -> Array:
        """W (J, K), with empty columns for costs seen after acting; cached for the next request if no usage was `sent`."""
        rules = self._rules
        if rules is None:
            for name, given in (("usage", sent), ("group", group)):
                if given is not None:
                    raise _wrong(name, "must be left out: the spec has no rules")
            return self._no_costs if ids is None else self._no_costs[: len(ids)]
        if self._grouped and group is None:
            raise _wrong(
                "group", "is missing: a rule is for a group; send an empty list for a context in no group"
            )
        key: Any = None
        if sent is None:
            key = (None if ids is None else tuple(ids), tuple(group) if isinstance(group, list) else group)
            kept = self._costs.get(key)
            if kept is not None:
                return kept.copy() if self.awaits_usage else kept
        W = rules.costs(usage=usage, group=group, actions=ids)
        if key is not None:
            if len(self._costs) >= _KEPT_COSTS:
                self._costs.clear()
            # A policy that learns costs writes its expectations into its own copy.
            self._costs[key] = W.copy() if self.awaits_usage else W
        return W

    def features(self, x: Array | None, ids: NDArray[np.int64]) -> tuple[Array | None, Array | None]:
        """φ and ψ of some actions, as the models of reward and costs read them, from one x for all or a row for each."""
        phi = self._rows(self._reward, x, ids)
        return phi, phi if self._same_rows else self._rows(self._cost, x, ids)

    def _rows(self, model: Learner | None, x: Array | None, ids: NDArray[np.int64]) -> Array | None:
        if x is None or model is None or not model.n_features:
            return None
        if model.n_actions is not None:
            return x[None, :] if x.ndim == 1 else x
        # One model over all actions: φ = e_j ⊗ x.
        phi = np.zeros((len(ids), len(self._actions), x.shape[-1]))
        phi[np.arange(len(ids)), ids] = x
        return phi.reshape(len(ids), -1)


def _wrong(field: str | Place, problem: str) -> InvalidInput:
    return InvalidInput(field=field, problem=problem)
