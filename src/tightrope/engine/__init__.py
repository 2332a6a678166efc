"""Engines that run a policy in an environment many times: `simulate`."""

from tightrope.engine.simulate import simulate

__all__ = ["simulate"]
