"""A policy from a spec's ``[policy]`` and the sizes of the problem that it is for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.models import MODELS, ArmMeans, DisjointRidge, Ridge
from tightrope.policies.registry import POLICIES
from tightrope.rules import Rules
from tightrope.schedules import Power
from tightrope.spec import ModelSpec, PolicySpec, PowerSpec, Seen, SpecError, unknown_field

__all__ = ["build_policy"]

Model = Ridge | DisjointRidge | ArmMeans


def build_policy(
    spec: PolicySpec,
    *,
    n_actions: int,
    n_features: int = 0,
    disjoint: bool = True,
    n_cost_features: int | None = None,
    cost_disjoint: bool | None = None,
    constraints: int | Rules = 0,
    costs_seen: Seen = "before",
    cost_range: Any = None,
    known: Mapping[str, Callable[[], Any]] | None = None,
) -> Any:
    """The policy that `spec` states, of the class that is registered under its kind.

    The constructor is given what it asks for by name: `reward`, `cost`, `constraints`, `cost_range`, `n_actions` (or
    `n_arms`), `n_features` and `n_constraints` come from the problem, everything else from the spec. A policy of one's own,
    registered by `tightrope.policies.register`, is built the same way.

    Parameters
    ----------
    spec : PolicySpec
    n_actions : int
        J.
    n_features : int
        Length of the feature vectors; 0 for arms without features.
    disjoint : bool
        Whether one vector x serves all actions, instead of one φ for each.
    n_cost_features, cost_disjoint
        The same for the features of costs; by default as above.
    constraints : int or Rules
    costs_seen : "before" or "after"
        For constraints that are only counted; rules say it themselves.
    cost_range : pair or (K, 2), optional
        What the costs are known to lie in; rules say it themselves.
    known : mapping of names to functions, optional
        What else a constructor may ask for by name; a function is called only where that is so and the spec does not say.

    Raises
    ------
    SpecError
        Names the field.

    Examples
    --------
    >>> spec = PolicySpec(reward=ModelSpec(bonus=0.1), slater=0.1)
    >>> build_policy(spec, n_actions=3, n_features=4, constraints=2)
    PessimisticOptimistic(reward=DisjointRidge(3, 4, bonus=0.1, m=1, ridge=1), constraints=2, slater=0.1)
    """
    where = spec.where
    if spec.kind not in POLICIES:
        listed = ", ".join(repr(kind) for kind in sorted(POLICIES))
        raise SpecError(f"{where}.kind: must be one of {listed}, but got {spec.kind!r}")
    make = POLICIES[spec.kind]
    rules = constraints if isinstance(constraints, Rules) else None
    n_constraints = rules.n_constraints if rules is not None else int(constraints)  # type: ignore[arg-type]
    after = n_constraints > 0 and (costs_seen == "after" if rules is None else not rules.seen.all())
    _check_costs_seen(spec, rules, n_constraints, costs_seen)
    if spec.cost is not None and not after:
        raise SpecError(
            f"{where}.cost: is a model of costs that are seen after acting, but here they are all seen before"
        )

    def model(part: str, stated: ModelSpec | None, width: int, shared: bool) -> Model:
        return _model(stated or ModelSpec(), f"{where}.{part}", n_actions, width, shared)

    parameters = inspect.signature(make).parameters
    supplied: dict[str, Any] = {
        "constraints": constraints,
        "n_constraints": n_constraints,
        "n_actions": n_actions,
        "n_arms": n_actions,
        "n_features": n_features,
    }
    if "reward" in parameters:
        supplied["reward"] = model("reward", spec.reward, n_features, disjoint)
    if "cost" in parameters and after:
        width = n_features if n_cost_features is None else n_cost_features
        shared = disjoint if cost_disjoint is None else cost_disjoint
        supplied["cost"] = model("cost", spec.cost, width, shared)
    if rules is None and cost_range is not None and n_constraints:
        supplied["cost_range"] = cost_range
    stated = _stated(spec)
    supplied |= {
        name: get() for name, get in (known or {}).items() if name in parameters and name not in stated
    }
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    settable = [
        name for name in parameters if name not in supplied or name in ("reward", "cost", "cost_range")
    ]
    for name in stated:
        if name not in settable and not open_ended:
            allowed = ["kind", "name", "costs_seen", *settable]
            raise unknown_field(where, name, list(dict.fromkeys(allowed)))
    arguments = {name: value for name, value in supplied.items() if name in parameters}
    arguments |= {name: value for name, value in stated.items() if name not in ("reward", "cost")}
    for name, parameter in parameters.items():
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if needed and name not in arguments:
            raise SpecError(f"{where}.{name}: is missing: {spec.kind!r} needs it")
    try:
        return make(**arguments)
    except InvalidInput as error:
        raise SpecError(f"{where}: {error}") from error


def _check_costs_seen(spec: PolicySpec, rules: Rules | None, n_constraints: int, costs_seen: Seen) -> None:
    if spec.costs_seen is None or n_constraints == 0:
        return
    if rules is None and spec.costs_seen != costs_seen:
        raise SpecError(
            f'{spec.where}.costs_seen: must be "{costs_seen}", which is when costs are seen here, '
            f'but got "{spec.costs_seen}"'
        )
    if rules is not None and spec.costs_seen == "before" and not rules.seen.all():
        late = rules.names[int(rules.seen.argmin())]
        raise SpecError(f'{spec.where}.costs_seen: is "before", but the rule {late!r} is seen after acting')


def _model(spec: ModelSpec, where: str, n_actions: int, n_features: int, disjoint: bool) -> Model:
    kind = spec.model
    if kind is None:
        kind = "arm-means" if not n_features else "disjoint-ridge" if disjoint else "ridge"
    if kind != "arm-means" and not n_features:
        raise SpecError(f'{where}.model: must be "arm-means" where there are no features, but got "{kind}"')
    sizes = {
        "arm-means": (n_actions,),
        "disjoint-ridge": (n_actions, n_features),
        "ridge": (n_actions * n_features if disjoint else n_features,),
    }
    settings = spec.settings()
    taken = inspect.signature(MODELS[kind]).parameters
    for name in settings:
        if name not in taken:
            allowed = ["model", *(one for one in ("bonus", "m", "ridge") if one in taken)]
            raise SpecError(f"{where}: {unknown_field('', name, allowed)} for the model {kind!r}")
    try:
        return MODELS[kind](*sizes[kind], **settings)  # type: ignore[arg-type]
    except InvalidInput as error:
        raise SpecError(f"{where}: {error}") from error


def _stated(spec: PolicySpec) -> dict[str, Any]:
    """What the spec says, by the names of the constructor's parameters."""
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
        raise SpecError(f"{where}: {error}") from error
