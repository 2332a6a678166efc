"""Policies: one algorithm a file, all known by name in `POLICIES`."""

from tightrope.catalogue import Catalogue, SparseCosts
from tightrope.policies.clucb import CLUCB
from tightrope.policies.decision import Decision, Explanation
from tightrope.policies.greedy import Greedy
from tightrope.policies.lagrangian import Lagrangian
from tightrope.policies.lagrangian_thompson import LagrangianThompson
from tightrope.policies.lfg import LFG
from tightrope.policies.lincbwk import LinCBwK
from tightrope.policies.lints import LinTS
from tightrope.policies.linucb import LinUCB
from tightrope.policies.lp_thompson import LPThompson
from tightrope.policies.opb import OPB
from tightrope.policies.oplb import OPLB
from tightrope.policies.oracle import Oracle
from tightrope.policies.pessimistic_optimistic import PessimisticOptimistic
from tightrope.policies.policy import Choice, Policy
from tightrope.policies.primal_dual_bwk import PrimalDualBwK
from tightrope.policies.provable_shadow_price import ProvableShadowPrice
from tightrope.policies.registry import POLICIES, load, register
from tightrope.policies.round_robin import RoundRobin
from tightrope.policies.safe_lts import SafeLTS
from tightrope.policies.safe_lucb import SafeLUCB
from tightrope.policies.shadow_price import ShadowPrice
from tightrope.policies.ucb_alp import UCBALP
from tightrope.policies.uniform import Uniform

__all__ = [
    "CLUCB",
    "LFG",
    "OPB",
    "OPLB",
    "POLICIES",
    "UCBALP",
    "Catalogue",
    "Choice",
    "Decision",
    "Explanation",
    "Greedy",
    "LPThompson",
    "Lagrangian",
    "LagrangianThompson",
    "LinCBwK",
    "LinTS",
    "LinUCB",
    "Oracle",
    "PessimisticOptimistic",
    "Policy",
    "PrimalDualBwK",
    "ProvableShadowPrice",
    "RoundRobin",
    "SafeLTS",
    "SafeLUCB",
    "ShadowPrice",
    "SparseCosts",
    "Uniform",
    "load",
    "register",
]
