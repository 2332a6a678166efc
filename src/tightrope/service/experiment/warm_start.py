"""Warm start: a served policy learns from the past decisions in its spec's table before its first decision."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.log import Codes, Log
from tightrope.offer import Offer
from tightrope.policies import Policy
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.requests import LIMITS
from tightrope.spec import Spec
from tightrope.validation import Array
from tightrope.words import Place


def past_of(spec: Spec) -> Log:
    """The table of past decisions that ``[warm_start]`` names."""
    assert spec.warm_start is not None
    try:
        return spec.warm_start.read(spec.policies[0].folder)
    except InvalidInput as error:
        raise spec.error(f"warm_start: {error}") from error


def teach(policy: Policy, spec: Spec, read: PolicyInput, past: Log) -> None:
    """Let a policy without decisions learn from past ones; it learns nothing if the table does not fit the spec.

    It learns rewards, and, if the table says what was used, costs that are seen after acting. `ShadowPrice` also sees what was on
    offer, as far as the table and the spec say, so that it has prices from the first decision on.
    """
    learn = getattr(policy, "warm_start", None)
    if learn is None:
        raise spec.error(f"warm_start: {policy.kind!r} can't learn from a table before it decides")
    try:
        rows, taken, rewards = past.lessons()
        for reward in (float(rewards.min()), float(rewards.max())):
            if not abs(reward) <= LIMITS.reward:
                must = f"lie in ±{LIMITS.reward:g}, but the table has {reward:g}"
                raise InvalidInput(field="rewards", must=must)
            read.require_reward(reward)
        ids = np.array([spec.registry.id(name) for name in past.action_names])[taken]
        if spec.vector is not None:
            raise InvalidInput("a table has columns by name: the spec needs a [context], not [features]")
        # x of each row, (n, p); φ and ψ of the action taken.
        x = None if spec.encoder is None else spec.encoder.transform(past.frame)
        phi, psi = read.features(None if x is None else x[rows], ids)
        costs = _costs(spec, {*read.late_usage}, past, rows, ids)
        options: dict[str, Any] = {"cost_features": None if costs is None else psi}
        if "offers" in inspect.signature(learn).parameters:
            options["offers"] = _offers(policy, spec, read, past, x)
        learn(phi, ids.tolist(), rewards, costs, **options)
    except InvalidInput as error:
        raise spec.error(f"warm_start: {error}") from error


def _costs(spec: Spec, late: set[str], past: Log, rows: Codes, ids: Codes) -> Array | None:
    """The costs seen after acting, (n, K_after), from the usages `late`; None if the table does not say what was used."""
    rules = spec.rules
    if rules is None or rules.seen.all():
        return None
    stated = {**spec.usage, **past.columns.usage}
    if missing := sorted(late - {*stated}):
        if late - {*missing}:
            problem = "is missing: a rule counts it, and the table has the other usages"
            raise InvalidInput(field=Place("usage", missing[0]), problem=problem)
        return None
    seen: dict[str, Array] = {}
    for name in late:
        used = _used(past, spec, name)
        seen[name] = used[rows] if used.ndim == 1 else used[rows, ids]
    groups = past.context_groups
    return rules.logged(seen, ids.tolist(), None if groups is None else groups[rows].tolist(), after=True)


def _used(past: Log, spec: Spec, usage: str) -> Array:
    """What the action taken used, (n,), or every action of the spec, (n, J); arbitrary where no rule counts it."""
    if usage in past.columns.usage:
        return past.used(usage, spec.actions)
    return np.tile([spec.usage[usage].get(action, 0.0) for action in spec.actions], (len(past), 1))


def _offers(policy: Policy, spec: Spec, read: PolicyInput, past: Log, x: Array | None) -> list[Offer] | None:
    """What was on offer in the newest rows; None if the table lacks costs that are known before acting."""
    rules, known = spec.rules, {}
    if rules is not None:
        for name in read.early_usage:
            told = past.columns.usage.get(name, spec.usage.get(name))
            if not isinstance(told, dict):
                return None
            known[name] = _used(past, spec, name)
        if past.columns.group is None and any(rule.among is not None for rule in rules):
            return None
    offers = []
    room = int(policy.hooks.settings().get("memory", 0))
    for i in range(max(0, len(past) - room), len(past)):
        used = {name: by_action[i].tolist() for name, by_action in known.items()}
        group = past.context_group(i)
        W = np.empty((len(spec.actions), 0)) if rules is None else rules.costs(usage=used, group=group)
        offers.append(read.offer(None if x is None else x[i], W, used, group))
    return offers
