"""Policies: one algorithm a file, all known by name in `POLICIES`."""

from tightrope.policies.decision import Decision, Explanation
from tightrope.policies.opb import OPB
from tightrope.policies.pessimistic_optimistic import LinUCB, PessimisticOptimistic
from tightrope.policies.reference import Oracle, RoundRobin, Uniform
from tightrope.policies.registry import POLICIES, load, register

__all__ = [
    "OPB",
    "POLICIES",
    "Decision",
    "Explanation",
    "LinUCB",
    "Oracle",
    "PessimisticOptimistic",
    "RoundRobin",
    "Uniform",
    "load",
    "register",
]
