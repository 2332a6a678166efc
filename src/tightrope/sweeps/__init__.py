"""Sweeps: many settings of a spec, simulated on one core, on all, or on a cluster; and the search for the best of them."""

from tightrope.sweeps.cells import Plan
from tightrope.sweeps.design import Design
from tightrope.sweeps.page import write_page
from tightrope.sweeps.run import Sweep, sweep
from tightrope.sweeps.target import Target
from tightrope.sweeps.tune import TargetMissed, Tuned, tune

__all__ = ["Design", "Plan", "Sweep", "Target", "TargetMissed", "Tuned", "sweep", "tune", "write_page"]
