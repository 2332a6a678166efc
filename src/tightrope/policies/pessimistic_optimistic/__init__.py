"""The pessimistic-optimistic algorithm of Liu, Li, Shi, Ying (NeurIPS 2021), both forms, and LinUCB as its case K = 0."""

from tightrope.policies.pessimistic_optimistic.policy import PessimisticOptimistic

__all__ = ["PessimisticOptimistic"]
