"""The bake-off: multi-class tables as bandits, Tightrope beside other libraries, without rules and with them."""

from tightrope_lab.bakeoff.bakeoff import Finished, bakeoff

__all__ = ["Finished", "bakeoff"]
