"""What a served policy has learnt before its first decision: the past decisions in the table that its spec names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.history import Past
from tightrope.policies import Policy
from tightrope.service.experiment.policy_input import Asked, PolicyInput
from tightrope.service.requests import LIMITS
from tightrope.spec import Spec
from tightrope.validation import Array


def past_of(spec: Spec) -> Past:
    """The table of past decisions that ``[warm_start]`` names."""
    assert spec.warm_start is not None
    try:
        return spec.warm_start.read(spec.policies[0].folder)
    except InvalidInput as error:
        raise spec.error(f"warm_start: {error}") from error


def teach(policy: Policy, spec: Spec, read: PolicyInput, past: Past) -> None:
    """Have a policy that has decided nothing yet learn from past decisions.

    Rewards are learnt, and costs that are seen after acting where the table says what was used. `ShadowPrice` is also shown what
    was on offer, as far as the table and the spec tell, so that it has prices from the first decision on.

    Raises
    ------
    InvalidInput
        Names what in the table does not fit the spec; the policy has learnt nothing.
    """
    learn = getattr(policy, "warm_start", None)
    if learn is None:
        raise spec.error(f"warm_start: {policy.kind!r} can't learn from a table before it decides")
    try:
        rows, names, rewards = zip(*past.taught())
        for reward in (min(rewards), max(rewards)):
            if not abs(reward) <= LIMITS.reward:
                raise InvalidInput(f"rewards must lie in ±{LIMITS.reward:g}, but the table has {reward:g}")
            read.require_reward(reward)
        ids = [read.actions([name], "action")[0] for name in names]
        x = _features(spec, past)
        options: dict[str, Any] = {"cost_features": None}
        costs = _costs(spec, past, rows, ids)
        if costs is not None:
            options["cost_features"] = _done(read, policy._cost, x, rows, ids)
        if "offers" in inspect.signature(learn).parameters:
            options["offers"] = _offers(policy, spec, read, past, x)
        learn(_done(read, policy._reward, x, rows, ids), ids, rewards, costs, **options)
    except InvalidInput as error:
        raise spec.error(f"warm_start: {error}") from error


def _features(spec: Spec, past: Past) -> Array | None:
    """x of each row, (n, p)."""
    if spec.vector is not None:
        raise InvalidInput(
            "a table has columns by name, so the spec needs a [context] in place of [features]"
        )
    return None if spec.encoder is None else spec.encoder.transform(past.columns)


def _done(read: PolicyInput, model: Any, x: Array | None, rows: Any, ids: list[int]) -> Array | None:
    """φ of what was done."""
    if x is None or model is None or not model.takes_features:
        return None
    return np.array([read.rows(model, x[i], [action]) for i, action in zip(rows, ids)]).reshape(len(ids), -1)


def _costs(spec: Spec, past: Past, rows: Any, ids: list[int]) -> Array | None:
    """What is seen after acting, (n, K_after); None where the table does not say what was used."""
    rules = spec.rules
    if rules is None or rules.seen.all():
        return None
    late = {usage for rule in rules if rule.seen == "after" and (usage := rule.quantity.usage) is not None}
    stated = {**spec.usage, **past.history.usage}
    if missing := sorted(late - {*stated}):
        if late - {*missing}:
            raise InvalidInput(
                f"usage.{missing[0]} is missing: a rule counts it after acting, as it does the others"
            )
        return None
    used = {name: _used(past, spec, name) for name in late}
    found = []
    for i, action in zip(rows, ids):
        name = spec.actions[action]
        now = {usage: _at(by_action, name)[i] for usage, by_action in used.items()}
        found.append(rules.observed(now, action=action, group=past.group(i)))
    return np.array(found)


def _used(past: Past, spec: Spec, usage: str) -> Mapping[str | None, Array]:
    if usage in past.history.usage:
        return past.used(usage)
    return {action: past.numbers(value) for action, value in spec.usage[usage].items()}


def _at(by_action: Mapping[str | None, Array], action: str) -> Array:
    """What an action used in each row; what no rule counts may be anything."""
    if None in by_action:
        return by_action[None]
    return by_action[action] if action in by_action else np.zeros_like(next(iter(by_action.values())))


def _offers(
    policy: Policy, spec: Spec, read: PolicyInput, past: Past, x: Array | None
) -> list[dict[str, Any]] | None:
    """What was on offer in the newest rows, as the arguments of `decide`; None where costs known before acting are not told."""
    rules, known = spec.rules, {}
    if rules is not None:
        early = {
            usage for rule in rules if rule.seen == "before" and (usage := rule.quantity.usage) is not None
        }
        for name in early:
            told = past.history.usage.get(name, spec.usage.get(name))
            if not isinstance(told, dict):
                return None
            known[name] = _used(past, spec, name)
        if past.history.group is None and any(rule.among is not None for rule in rules):
            return None
    offers = []
    for i in range(max(0, len(past) - int(getattr(policy, "memory", 0))), len(past)):
        used = {
            name: [float(_at(by_action, action)[i]) for action in spec.actions]
            for name, by_action in known.items()
        }
        group = past.group(i)
        W = rules.costs(usage=used, group=group) if rules is not None and bool(rules.seen.any()) else None
        asked = Asked(None, None if x is None else x[i], used, W, group, None, ())
        offers.append(read.offer(policy, asked))
    return offers
