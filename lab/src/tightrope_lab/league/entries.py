"""Who plays in the league: the roster, the policies of a spec, classes of your own; each made of what a scenario tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tightrope import policies
from tightrope.environments.drifting import Drifting
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans, model_from_settings
from tightrope.models.sizes import parameters_of
from tightrope.oracle import solve
from tightrope.policies.build import build_policy, missing_from
from tightrope.schedules import Power, known_costs
from tightrope.spec import PolicySpec, Spec, SpecError
from tightrope.trust import absolute
from tightrope.validation import Array
from tightrope_lab.league.ranking import CENTRE
from tightrope_lab.league.scenarios import Scenario


class Unfit(Exception):
    """A policy can't be made for a scenario; `reasons` say why, and `error` is there where what a spec says was refused."""

    def __init__(self, reasons: Sequence[str], error: SpecError | None = None) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(dict.fromkeys(reasons))
        self.error = error


@dataclass(frozen=True)
class Entry:
    """A policy in the league: its name, and how it is made for a scenario and a number of rounds (or `Unfit` is raised)."""

    name: str
    make: Callable[[Scenario, int], Any]
    own: bool = False


def own_entry(source: str | type, name: str | None = None) -> Entry:
    """A policy of your own: a class, `"module:Class"`, or `"path/to/file.py:Class"`, which is trusted.

    Its constructor is given what it asks for by name, as those of the package are. The name is by default that of the class, or what
    it was registered under.

    >>> own_entry("no_such_file.py:Mine")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: policy 'no_such_file.py:Mine': there is no file no_such_file.py.
    """
    made: Any = source if isinstance(source, type) else policies.POLICIES.find(source, trust=True)
    kind = getattr(made, "kind", ":")
    label = name or (made.__name__ if ":" in kind else kind)
    place = source if isinstance(source, type) else absolute(source)
    return Entry(str(label), partial(_own, place), own=True)


def spec_entry(spec: PolicySpec, folder: Path = Path()) -> Entry:
    """A policy as a spec's ``[policy]`` states it; what it does not say comes from the scenario.

    `kind` may also be a class of your own as in `own_entry`, where the path starts in `folder`.

    >>> entry = spec_entry(PolicySpec(kind="pessimistic-optimistic", name="bold", slater=0.5))
    >>> from tightrope_lab.league.scenarios import scenario
    >>> entry.make(scenario("tight-slater"), 100)
    PessimisticOptimistic(reward=Ridge(4, bonus=0.62392, m=1, ridge=1), constraints=2, slater=0.5, horizon=100)
    """
    own = ":" in spec.kind
    if own:
        spec = msgspec.structs.replace(spec, kind=absolute(spec.kind, folder))
        policies.POLICIES.find(spec.kind, trust=spec.trust)
    return Entry(spec.name, partial(_stated, spec), own=own)


def chosen_entries(names: Sequence[str] = (), spec: Spec | None = None) -> list[Entry]:
    """Who plays: the league, or those of it that are named; with them the classes of your own that are named, and a spec's policies."""
    for name in names:
        if name not in ROSTER and ":" not in name:
            raise InvalidInput(
                f"policy must be one of {', '.join(ROSTER)}, or a class of your own as module:Class or path/to/file.py:Class, "
                f"but got {name!r}."
            )
    league = [name for name in ROSTER if name not in _ON_REQUEST]
    entries = {name: ROSTER[name] for name in [name for name in names if name in ROSTER] or league}
    if spec is not None:
        # What the spec says of a policy goes before the league's own form of it.
        entries |= {one.name: spec_entry(one, Path(spec.source).parent) for one in spec.policies}
    own = [own_entry(name) for name in names if name not in ROSTER]
    return [*entries.values(), *own]


def _own(source: str | type, scenario: Scenario, horizon: int) -> Any:
    made = source if isinstance(source, type) else policies.POLICIES.find(source, trust=True)
    return _fitted(made, scenario, horizon)


def _stated(spec: PolicySpec, scenario: Scenario, horizon: int) -> Any:
    problem = scenario.problem(horizon, linear=spec.kind in _LINEAR)
    if spec.kind == "oracle":
        problem = scenario.env.problem({"x": lambda: _optimal_mixture(scenario)})
    try:
        return build_policy(spec, problem)
    except SpecError as error:
        raise Unfit([str(error)], error) from error


def _fitted(
    make: Callable[..., Any], scenario: Scenario, horizon: int, *, linear: bool = False, **settings: Any
) -> Any:
    """`make` with the settings, and of what the scenario knows all that it has a parameter for."""
    known = {**scenario.known(horizon, linear=linear), **settings}
    parameters = parameters_of(make)
    missing = missing_from(parameters, known)
    if missing:
        unknown = "it asks for {!r}, which no scenario tells"
        raise Unfit([scenario.lacks.get(name, unknown.format(name)) for name in missing])
    try:
        return make(**{name: known[name] for name in parameters if name in known})
    except InvalidInput as error:
        raise Unfit([str(error).rstrip(".")]) from error


def _light_schedules(scenario: Scenario, horizon: int) -> Any:
    """The schedules of costs seen before acting, where they are seen after."""
    env, K = scenario.env, scenario.env.n_constraints
    if K == 0 or env.costs_seen == "before":
        why = "its costs are seen before acting, so these are the schedules of pessimistic-optimistic"
        raise Unfit([why])
    V, epsilon = known_costs(K)
    given = {"V": V.times(max(scenario.slater, 1e-6)), "epsilon": epsilon}
    powers: dict[str, Any] = {name: Power(one.scale, one.exponent) for name, one in given.items()}
    return _fitted(policies.PessimisticOptimistic, scenario, horizon, **powers)


def _constrained(what: str, scenario: Scenario, horizon: int, **settings: Any) -> Any:
    """The paper's policy with settings that are about constraints."""
    if scenario.env.n_constraints == 0:
        raise Unfit([f"it has no constraints, so there is no {what}"])
    return _fitted(policies.PessimisticOptimistic, scenario, horizon, **settings)


def _forgetful(scenario: Scenario, horizon: int) -> Any:
    """What was learnt and remembered counts half after a tenth of the run: a stated number, as everybody's, and not a tuned one."""
    half_life = max(1.0, horizon / 10.0)
    known = scenario.known(horizon)
    fading: dict[str, Any] = {}
    for part in ("reward", "cost"):
        if (model := known.get(part)) is not None:
            fading[part] = model_from_settings({**model.settings(), "half_life": half_life})
    return _fitted(policies.ShadowPrice, scenario, horizon, **fading, half_life=half_life)


def _opb(scenario: Scenario, horizon: int) -> Any:
    if scenario.env.n_constraints != 1:
        raise Unfit([f"it has {scenario.env.n_constraints} constraints, but the policy has 1"])
    return _fitted(policies.OPB, scenario, horizon)


def _prudent(scenario: Scenario, horizon: int) -> Any:
    """The guard on averages by action, whatever the context: `examples/own_policy.py` with a confidence bound for its noise."""
    means = ArmMeans(scenario.env.n_actions)
    return _fitted(policies.Lagrangian, scenario, horizon, reward=means, cost=None, **_GUARD)


def _oracle(scenario: Scenario, horizon: int) -> Any:
    return policies.Oracle(_optimal_mixture(scenario))


def _optimal_mixture(scenario: Scenario) -> Array:
    if isinstance(scenario.env, Drifting):
        raise Unfit(["its optimum changes with the round, and the policy plays one mixture throughout"])
    return solve(scenario.env, baseline="fluid").policy


def _keeping_shares(policy: type, scenario: Scenario, horizon: int) -> Any:
    """The minimum shares where there are some, with the rest of the rounds spread evenly; else equal shares."""
    J = scenario.env.n_actions
    least = np.asarray(scenario.known(horizon).get("shares", np.zeros(J)))
    return policy(J, shares=least + (1.0 - least.sum()) / J)


_GUARD: dict[str, Any] = {"step": 0.0, "guard": True}

# Policies whose models must be linear, also where there are arms alone.
_LINEAR = ("oplb", "safe-lucb", "safe-lts", "lincbwk", "clucb", "lints", "greedy")

_PAPER = "pessimistic-optimistic"

# They play only where they are named: they have no compiled code. One is there for its proof, one to be evaluated on logs.
_ON_REQUEST = ("provable-shadow-price", "fixed-mix")

# Those that are not simply given what a scenario knows.
_MAKERS: dict[str, Callable[[Scenario, int], Any]] = {
    f"{CENTRE}-forgetful": _forgetful,
    f"{_PAPER}-a": _light_schedules,
    f"{_PAPER}-measured": partial(_constrained, "Slater's constant to measure", slater=None),
    f"{_PAPER}-capped": partial(_constrained, "tightening to cap", tightening="capped"),
    "opb": _opb,
    "linucb": partial(_fitted, policies.LinUCB),
    "plain-lagrangian": partial(_fitted, policies.Lagrangian, margin=0.0),
    "guarded-lagrangian": partial(_fitted, policies.Lagrangian, guard=True),
    # tr.policies.LinUCB clips there too.
    "guarded-linucb": partial(_fitted, policies.Lagrangian, clip=1.0, **_GUARD),
    "prudent": _prudent,
    "round-robin": partial(_keeping_shares, policies.RoundRobin),
    "fixed-mix": partial(_keeping_shares, policies.FixedMix),
    "oracle": _oracle,
}
_ORDER = f"""{CENTRE} {CENTRE}-forgetful {_PAPER} {_PAPER}-a {_PAPER}-measured {_PAPER}-capped lp-ts lag-ts lagrangian plain-lagrangian guarded-lagrangian
    guarded-linucb prudent opb oplb safe-lucb safe-lts lincbwk primal-dual-bwk ucb-alp lfg clucb linucb lints greedy round-robin uniform oracle""".split()

policies.POLICIES.discover()
_OTHERS = [name for name, made in policies.POLICIES.items() if made.__module__.startswith("tightrope")]
ROSTER = {
    name: Entry(name, _MAKERS.get(name) or partial(_fitted, policies.POLICIES[name], linear=name in _LINEAR))
    for name in dict.fromkeys([*_ORDER, *_OTHERS])
}
