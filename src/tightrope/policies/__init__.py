"""Policies: one algorithm per file, all registered by name in `POLICIES`.

Other distributions add policies through entry points in the group `tightrope.policies`, name = module:Class.
"""

from typing import TYPE_CHECKING, Any

from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.policies.choices import Choice
from tightrope.policies.decision import Decision, Explanation
from tightrope.policies.fixed_mix import FixedMix
from tightrope.policies.greedy import Greedy
from tightrope.policies.lagrangian import Lagrangian
from tightrope.policies.lints import LinTS
from tightrope.policies.linucb import LinUCB
from tightrope.policies.opb import OPB
from tightrope.policies.oracle import Oracle
from tightrope.policies.pessimistic_optimistic import PessimisticOptimistic
from tightrope.policies.policy import Policy
from tightrope.policies.registry import LABORATORY, POLICIES, load, register
from tightrope.policies.round_robin import RoundRobin
from tightrope.policies.shadow_price import ShadowPrice
from tightrope.policies.uniform import Uniform
from tightrope.registry import additions

__all__ = [
    "OPB",
    "POLICIES",
    "Catalogue",
    "Choice",
    "Decision",
    "Explanation",
    "FixedMix",
    "Greedy",
    "Lagrangian",
    "LinTS",
    "LinUCB",
    "Oracle",
    "PessimisticOptimistic",
    "Policy",
    "RoundRobin",
    "ShadowPrice",
    "SparseCosts",
    "Uniform",
    "load",
    "register",
]

# Hidden from type checkers: if they saw that a name may come from elsewhere, they would accept every misspelt one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for one in additions(__name__):
            if one.attr == name:
                return one.load()
        install = "; pip install tightrope-lab brings it" if name in LABORATORY.values() else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{install}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(one.attr for one in additions(__name__))})
