"""What the best policy that knows all means would earn, and whether the paper's assumptions hold.

>>> from tightrope.environments import bandit
>>> round(solve(bandit(threshold=0.1)).value, 9)
0.4
"""

from tightrope.oracle.assumptions import Assumption, Assumptions, check
from tightrope.oracle.curve import LimitCurve
from tightrope.oracle.programs import Baseline, Benchmark, benchmark, slater, solve
from tightrope.oracle.solution import Atoms, Found, Solution

__all__ = ["Assumption", "Assumptions", "Atoms", "Baseline", "Benchmark", "Found", "LimitCurve", "Solution"]
__all__ += ["benchmark", "check", "slater", "solve"]
