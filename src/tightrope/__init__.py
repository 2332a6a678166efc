"""Tightrope: learn to decide under rules that hold over time.

>>> import tightrope as tr
>>> rules = tr.Rules([tr.Capacity("icu", at_most=0.2)], actions=["icu", "surgery", "other"])
>>> policy = tr.ShadowPrice(rules)
>>> decision = policy.decide({"age": 41.0, "fever": 38.5})
>>> policy.learn(decision, reward=1.0)

Every public name is loaded when it is first used, so `import tightrope` stays light. Comparators are in `tr.policies`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tightrope.errors import InfeasibleProblem, InvalidInput, TightropeError
from tightrope.version import __version__

if TYPE_CHECKING:
    # `_LISTED` holds only some of these; the others still load on demand.
    from tightrope import engine as engine
    from tightrope import environments, errors, models, policies
    from tightrope import lp as lp
    from tightrope import offpolicy as offpolicy
    from tightrope import oracle as oracle
    from tightrope import rules as rules
    from tightrope import schedules as schedules
    from tightrope.allocation import allocate
    from tightrope.encoder import Encoder
    from tightrope.engine import simulate
    from tightrope.environments import Custom
    from tightrope.fitting import compare_models
    from tightrope.models import (
        ArmMeans,
        Auto,
        DisjointRidge,
        Ensemble,
        Features,
        Logistic,
        Model,
        Ridge,
        Standardised,
    )
    from tightrope.oracle import solve
    from tightrope.policies import Decision, PessimisticOptimistic, Policy, ShadowPrice, load
    from tightrope.result import Result
    from tightrope.rules import Budget, Capacity, Mean, Rules, Share
    from tightrope.schedules import Power
    from tightrope.sweeps import sweep

_HOMES = {
    "allocation": "allocate",
    "encoder": "Encoder",
    "engine": "simulate",
    "environments": "Custom",
    "fitting": "compare_models",
    "models": "ArmMeans Auto DisjointRidge Ensemble Features Logistic Model Ridge Standardised",
    "oracle": "solve",
    "policies": "Decision PessimisticOptimistic Policy ShadowPrice load",
    "result": "Result",
    "rules": "Budget Capacity Mean Rules Share",
    "schedules": "Power",
    "sweeps": "sweep",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_LISTED = "environments errors models policies"
_MODULES = f"{_LISTED} engine lp offpolicy oracle rules schedules".split()

# By subject, as type checkers read it: they know neither `_HOMES` nor sums of other lists.
__all__ = ["PessimisticOptimistic", "Policy", "ShadowPrice", "load"]
__all__ += ["Budget", "Capacity", "Encoder", "Mean", "Rules", "Share"]
__all__ += [
    "ArmMeans",
    "Auto",
    "DisjointRidge",
    "Ensemble",
    "Features",
    "Logistic",
    "Model",
    "Ridge",
    "Standardised",
]
__all__ += [
    "Custom",
    "Decision",
    "Power",
    "Result",
    "allocate",
    "compare_models",
    "simulate",
    "solve",
    "sweep",
]
__all__ += ["InfeasibleProblem", "InvalidInput", "TightropeError"]
__all__ += ["__version__", "environments", "errors", "models", "policies"]


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
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
