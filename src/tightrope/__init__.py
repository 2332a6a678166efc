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
from tightrope.version import __version__

if TYPE_CHECKING:
    from tightrope import (
        engine,
        environments,
        errors,
        lp,
        models,
        offpolicy,
        policies,
        rules,
        schedules,
        theory,
    )
    from tightrope.catalogue import Catalogue, SparseCosts
    from tightrope.engine import simulate
    from tightrope.models import ArmMeans, DisjointRidge, Ridge
    from tightrope.oracle import Solution, check, solve
    from tightrope.policies import (
        CLUCB,
        LFG,
        OPB,
        OPLB,
        UCBALP,
        Decision,
        Greedy,
        LinCBwK,
        LinTS,
        LinUCB,
        Oracle,
        PessimisticOptimistic,
        PrimalDualBwK,
        RoundRobin,
        SafeLTS,
        SafeLUCB,
        Uniform,
        load,
    )
    from tightrope.result import Result
    from tightrope.rules import Budget, Capacity, Mean, Rules, Share
    from tightrope.schedules import Power

_HOMES = {
    "tightrope.engine": ("simulate",),
    "tightrope.models": ("ArmMeans", "DisjointRidge", "Ridge"),
    "tightrope.catalogue": ("Catalogue", "SparseCosts"),
    "tightrope.oracle": ("Solution", "check", "solve"),
    "tightrope.policies": (
        "CLUCB",
        "LFG",
        "OPB",
        "OPLB",
        "UCBALP",
        "Decision",
        "Greedy",
        "LinCBwK",
        "LinTS",
        "LinUCB",
        "Oracle",
        "PessimisticOptimistic",
        "PrimalDualBwK",
        "RoundRobin",
        "SafeLTS",
        "SafeLUCB",
        "Uniform",
        "load",
    ),
    "tightrope.result": ("Result",),
    "tightrope.rules": ("Budget", "Capacity", "Mean", "Rules", "Share"),
    "tightrope.schedules": ("Power",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "CLUCB",
    "LFG",
    "OPB",
    "OPLB",
    "UCBALP",
    "ArmMeans",
    "Budget",
    "Capacity",
    "Catalogue",
    "Decision",
    "DisjointRidge",
    "Greedy",
    "InfeasibleProblem",
    "InvalidInput",
    "LinCBwK",
    "LinTS",
    "LinUCB",
    "Mean",
    "Oracle",
    "PessimisticOptimistic",
    "Power",
    "PrimalDualBwK",
    "Result",
    "Ridge",
    "RoundRobin",
    "Rules",
    "SafeLTS",
    "SafeLUCB",
    "Share",
    "Solution",
    "SolverError",
    "SparseCosts",
    "StateDamagedError",
    "StateFileError",
    "StateVersionError",
    "TightropeError",
    "Uniform",
    "__version__",
    "check",
    "engine",
    "environments",
    "errors",
    "load",
    "lp",
    "models",
    "offpolicy",
    "policies",
    "rules",
    "schedules",
    "simulate",
    "solve",
    "theory",
]
_MODULES = {name for name in __all__ if name.islower()} - {"__version__", *_HOME_OF}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"tightrope.{name}")
    else:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES})
