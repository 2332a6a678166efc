"""Engines that run a policy in an environment many times: `simulate`."""

from tightrope.engine.simulation import simulate

__all__ = ["simulate"]
