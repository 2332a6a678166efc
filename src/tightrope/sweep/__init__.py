"""Sweeps: many settings of a spec, simulated on one core, on all, or on a cluster; and the search for the best of them.

>>> from tightrope.spec import make_spec
>>> spec = make_spec({"environment": {"kind": "bandit"}, "sweep": {"policy.caution": [1.0, 2.0, 3.0]}})
>>> len(Plan.of(spec))
3
"""

from tightrope.sweep.cells import Plan
from tightrope.sweep.design import Design
from tightrope.sweep.page import write_page
from tightrope.sweep.run import Sweep, run_sweep
from tightrope.sweep.target import Target
from tightrope.sweep.tune import TargetMissed, Tuned, tune

__all__ = ["Design", "Plan", "Sweep", "Target", "TargetMissed", "Tuned", "run_sweep", "tune", "write_page"]
