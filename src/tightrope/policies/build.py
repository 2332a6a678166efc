"""Builds a policy for a problem, from a spec's ``[policy]`` or from any class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.models.sizes import SIZES, model_class, parameters_of, sized
from tightrope.policies.hooks import Player
from tightrope.policies.policy import Policy
from tightrope.policies.registry import POLICIES
from tightrope.policies.sizing import sizes_in
from tightrope.problem import Part, Problem
from tightrope.schedules import Power
from tightrope.spec import ModelSpec, PolicySpec, PowerSpec, SpecError, unknown_field
from tightrope.trust import grant

__all__ = ["build_model", "build_policy", "for_problem"]


def build_policy(spec: PolicySpec, problem: Problem) -> Any:
    """Build the policy that `spec` describes; its kind names the class.

    The constructor gets what it asks for by name: `reward`, `cost`, `constraints`, `cost_range`, `n_actions` (or `n_arms`),
    `n_features`, `n_constraints` and anything in `problem.tells` come from the problem, everything else from the spec.
    A policy of your own, registered by `tightrope.policies.register` or named as ``file.py:Class``, is built the same way.

    Raises
    ------
    SpecError
        Names the field.

    Examples
    --------
    >>> from tightrope.problem import Vectors
    >>> problem = Problem(n_actions=3, features=Vectors(4, per_action=False), n_constraints=2)
    >>> build_policy(PolicySpec(), problem)
    ShadowPrice(reward=Standardised(3, 4), constraints=2)
    >>> paper = PolicySpec(kind="pessimistic-optimistic", reward=ModelSpec(bonus=0.1), slater=0.1)
    >>> build_policy(paper, problem)
    PessimisticOptimistic(reward=DisjointRidge(3, 4, bonus=0.1, m=1, ridge=1), constraints=2, slater=0.1)
    """
    where = spec.where
    if spec.trust:
        # Trust was granted where the spec was read; grant it again, since this may be another process.
        grant(msgspec.to_builtins(spec, enc_hook=str), spec.folder)
    try:
        make = POLICIES.find(spec.kind, spec.folder)
    except InvalidInput as error:
        raise SpecError(error.complaint(), within=f"{where}.kind") from error
    late = problem.n_constraints > 0 and not problem.seen_before.all()
    if problem.rules is not None and getattr(make, "_paces", False):
        # Limits per window are columns of a policy that paces.
        late = late or not problem.rules.windows.seen.all()
    _check_costs_seen(spec, problem)
    if spec.cost is not None and not late:
        raise SpecError(
            f"{where}.cost: is a model of costs that are seen after acting, but here they are all seen before"
        )
    parameters = inspect.signature(make).parameters
    supplied = _sizes(problem)
    if "reward" in parameters:
        supplied["reward"] = build_model(spec.reward, spec, "reward", problem)
    if "cost" in parameters and late:
        supplied["cost"] = build_model(spec.cost, spec, "cost", problem)
    stated = _stated(spec)
    supplied |= {
        name: get() for name, get in problem.tells.items() if name in parameters and name not in stated
    }
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    settable = [
        name
        for name in parameters
        # The spec's own [context] says how contexts become numbers.
        if name != "context" and (name not in supplied or name in ("reward", "cost", "cost_range"))
    ]
    for name in stated:
        if name not in settable and not open_ended:
            allowed = ["kind", "name", "costs_seen", *settable]
            raise unknown_field(where, name, list(dict.fromkeys(allowed)))
    arguments = {name: value for name, value in supplied.items() if name in parameters}
    arguments |= {name: value for name, value in stated.items() if name not in ("reward", "cost")}
    for name in missing_from(parameters_of(make), arguments):
        raise SpecError(f"{where}.{name}: is missing: {spec.kind!r} needs it")
    try:
        return make(**arguments)
    except InvalidInput as error:
        raise SpecError(error, within=where) from error


def build_model(stated: ModelSpec | None, spec: PolicySpec, part: Part, problem: Problem) -> Model:
    """The model of rewards or costs in a policy's spec, sized for the problem; a suitable one by default."""
    stated, where = stated or ModelSpec(), f"{spec.where}.{part}"
    sizes = sizes_in(problem, part)
    kind = stated.model or "linear"
    try:
        made = model_class(kind, sizes, spec.folder)
    except InvalidInput as error:
        raise SpecError(error.complaint(), within=f"{where}.model") from error
    taken, own_sizes = parameters_of(made), (*SIZES, "n_outputs")
    if not sizes.n_features and "n_features" in taken:
        raise SpecError(f'{where}.model: must be "arm-means" where there are no features, but got "{kind}"')
    for name in stated.settings():
        if name not in taken:
            allowed = ["model", *(one for one in taken if one not in own_sizes)]
            raise SpecError(f"{where}: {unknown_field('', name, allowed)} for the model {made.kind!r}")
    for name in missing_from(taken, {**stated.settings(), **dict.fromkeys(own_sizes)}):
        raise SpecError(f"{where}.{name}: is missing: the model {kind!r} needs it")
    try:
        return sized(made, sizes, **stated.settings())
    except InvalidInput as error:
        raise SpecError(error, within=where) from error


def for_problem(policy: Player, problem: Problem) -> Player:
    """A policy ready to play a problem: if it has no sizes yet, it takes the problem's; otherwise it is returned unchanged."""
    return policy.hooks.for_problem(problem) if isinstance(policy, Policy) else policy


def missing_from(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]) -> list[str]:
    return [name for name, one in parameters.items() if one.default is one.empty and name not in given]


def _sizes(problem: Problem) -> dict[str, Any]:
    vectors = problem.features
    sizes = {
        "constraints": problem.constraints,
        "n_constraints": problem.n_constraints,
        "n_actions": problem.n_actions,
        "n_arms": problem.n_actions,
        "n_features": 0 if vectors is None else vectors.length,
    }
    if problem.rules is None and problem.cost_range is not None and problem.n_constraints:
        sizes["cost_range"] = problem.cost_range
    return sizes


def _check_costs_seen(spec: PolicySpec, problem: Problem) -> None:
    rules = problem.rules
    if spec.costs_seen is None or problem.n_constraints == 0:
        return
    if rules is None and isinstance(problem.seen, str) and spec.costs_seen != problem.seen:
        raise SpecError(
            f'{spec.where}.costs_seen: must be "{problem.seen}", which is when costs are seen here, '
            f'but got "{spec.costs_seen}"'
        )
    if rules is not None and spec.costs_seen == "before" and not rules.seen.all():
        late = rules.names[int(rules.seen.argmin())]
        raise SpecError(f'{spec.where}.costs_seen: is "before", but the rule {late!r} is seen after acting')


def _stated(spec: PolicySpec) -> dict[str, Any]:
    typed: dict[str, Any] = {
        "reward": spec.reward,
        "cost": spec.cost,
        "slater": spec.slater,
        "horizon": spec.horizon,
        "V": _power(spec.V, f"{spec.where}.V"),
        "epsilon": _power(spec.epsilon, f"{spec.where}.epsilon"),
    }
    stated = {name: value for name, value in typed.items() if value is not None}
    if stated.get("slater") == "measure":
        stated["slater"] = None
    return {**stated, **spec.settings}


def _power(spec: PowerSpec | None, where: str) -> Power | None:
    try:
        return None if spec is None else Power(spec.scale, spec.exponent)
    except InvalidInput as error:
        raise SpecError(error, within=where) from error
