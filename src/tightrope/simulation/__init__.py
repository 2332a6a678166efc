"""`tightrope simulate`: every policy of a spec in its environment, and the page about the results."""

from tightrope.simulation.run import simulate_spec

__all__ = ["simulate_spec"]
