"""Tightrope: learn to decide under rules that must hold at all times.

>>> import tightrope as tr
>>> policy = tr.PessimisticOptimistic(reward=tr.Ridge(3), constraints=1, slater=0.2, horizon=100)
>>> decision = policy.decide([[1, 0, 0], [0, 1, 0]], [[0.5], [-0.5]])
>>> policy.learn(decision, reward=1.0)

Every public name is loaded when it is first used, so `import tightrope` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tightrope.errors import (
    InfeasibleProblem,
    InvalidInput,
    SolverError,
    StateDamagedError,
    StateFileError,
    StateVersionError,
    TightropeError,
)

if TYPE_CHECKING:
    from tightrope import environments, errors, lp, rules, schedules, theory
    from tightrope.estimators import ArmMeans, DisjointRidge, Ridge
    from tightrope.oracle import Solution, check, solve
    from tightrope.policies import Decision, LinUCB, PessimisticOptimistic, load
    from tightrope.rules import Budget, Capacity, Mean, Rules, Share
    from tightrope.schedules import Power

__version__ = "0.1.0"

_HOMES = {
    "ArmMeans": "tightrope.estimators",
    "DisjointRidge": "tightrope.estimators",
    "Ridge": "tightrope.estimators",
    "Decision": "tightrope.policies",
    "LinUCB": "tightrope.policies",
    "PessimisticOptimistic": "tightrope.policies",
    "load": "tightrope.policies",
    "Power": "tightrope.schedules",
    "Budget": "tightrope.rules",
    "Capacity": "tightrope.rules",
    "Mean": "tightrope.rules",
    "Rules": "tightrope.rules",
    "Share": "tightrope.rules",
    "Solution": "tightrope.oracle",
    "check": "tightrope.oracle",
    "solve": "tightrope.oracle",
}
_MODULES = {
    "environments",
    "errors",
    "estimators",
    "lp",
    "oracle",
    "policies",
    "rules",
    "schedules",
    "theory",
}

__all__ = [
    "ArmMeans",
    "Budget",
    "Capacity",
    "Decision",
    "DisjointRidge",
    "InfeasibleProblem",
    "InvalidInput",
    "LinUCB",
    "Mean",
    "PessimisticOptimistic",
    "Power",
    "Ridge",
    "Rules",
    "Share",
    "Solution",
    "SolverError",
    "StateDamagedError",
    "StateFileError",
    "StateVersionError",
    "TightropeError",
    "check",
    "environments",
    "errors",
    "load",
    "lp",
    "rules",
    "schedules",
    "solve",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"tightrope.{name}")
    else:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
