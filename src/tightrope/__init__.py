"""Tightrope: learn to decide under rules that must hold at all times.

>>> import tightrope as tr
>>> policy = tr.ShadowPrice(reward=tr.Ridge(3), constraints=1)
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
    PolicyWarning,
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
    from tightrope.encoder import Encoder
    from tightrope.engine import simulate
    from tightrope.fitting import fit
    from tightrope.models import (
        ArmMeans,
        Auto,
        DisjointRidge,
        Ensemble,
        Features,
        Logistic,
        Ridge,
        Standardised,
    )
    from tightrope.oracle import Solution, check, solve
    from tightrope.policies import (
        CLUCB,
        LFG,
        OPB,
        OPLB,
        UCBALP,
        Decision,
        Greedy,
        Lagrangian,
        LagrangianThompson,
        LinCBwK,
        LinTS,
        LinUCB,
        LPThompson,
        Oracle,
        PessimisticOptimistic,
        PrimalDualBwK,
        ProvableShadowPrice,
        RoundRobin,
        SafeLTS,
        SafeLUCB,
        ShadowPrice,
        Uniform,
        load,
    )
    from tightrope.result import Result
    from tightrope.rules import Budget, Capacity, Mean, Rules, Share
    from tightrope.schedules import Power

_HOMES = {
    "catalogue": "Catalogue SparseCosts",
    "encoder": "Encoder",
    "engine": "simulate",
    "fitting": "fit",
    "models": "ArmMeans Auto DisjointRidge Ensemble Features Logistic Ridge Standardised",
    "oracle": "Solution check solve",
    "policies": "CLUCB LFG LPThompson OPB OPLB UCBALP Decision Greedy Lagrangian LagrangianThompson LinCBwK LinTS LinUCB Oracle "
    "PessimisticOptimistic PrimalDualBwK ProvableShadowPrice RoundRobin SafeLTS SafeLUCB ShadowPrice Uniform load",
    "result": "Result",
    "rules": "Budget Capacity Mean Rules Share",
    "schedules": "Power",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = (
    "engine",
    "environments",
    "errors",
    "lp",
    "models",
    "offpolicy",
    "policies",
    "rules",
    "schedules",
    "theory",
)

# By home, as type checkers read it: they know neither `_HOMES` nor sums of other lists.
__all__ = ["engine", "environments", "errors", "lp", "models", "offpolicy", "policies", "rules", "schedules"]
__all__ += ["__version__", "theory"]
__all__ += ["InfeasibleProblem", "InvalidInput", "SolverError", "StateDamagedError", "StateFileError"]
__all__ += ["PolicyWarning", "StateVersionError", "TightropeError"]
__all__ += ["ArmMeans", "Auto", "Catalogue", "DisjointRidge", "Encoder", "Ensemble", "Features", "Logistic"]
__all__ += ["Ridge", "SparseCosts", "Standardised"]
__all__ += [
    "CLUCB",
    "LFG",
    "OPB",
    "OPLB",
    "UCBALP",
    "Decision",
    "Greedy",
    "LPThompson",
    "Lagrangian",
    "LagrangianThompson",
    "LinCBwK",
    "LinTS",
    "LinUCB",
    "Oracle",
]
__all__ += ["PessimisticOptimistic", "PrimalDualBwK", "ProvableShadowPrice", "RoundRobin", "SafeLTS"]
__all__ += ["SafeLUCB", "ShadowPrice", "Uniform", "load"]
__all__ += ["Budget", "Capacity", "Mean", "Power", "Result", "Rules", "Share", "Solution"]
__all__ += ["check", "fit", "simulate", "solve"]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"tightrope.{_HOME_OF[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"tightrope.{name}")
    else:
        raise AttributeError(f"module 'tightrope' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES})
