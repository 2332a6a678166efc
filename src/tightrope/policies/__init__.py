"""Policies: one algorithm a file, all known by name in `POLICIES`."""

from tightrope.policies.decision import Decision, Explanation
from tightrope.policies.pessimistic_optimistic import LinUCB, PessimisticOptimistic
from tightrope.policies.registry import POLICIES, load, register

__all__ = ["POLICIES", "Decision", "Explanation", "LinUCB", "PessimisticOptimistic", "load", "register"]
