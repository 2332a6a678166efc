"""What the best policy that knows all means would earn, and whether the paper's assumptions hold.

>>> from tightrope.environments import bandit
>>> round(solve(bandit(threshold=0.1)).value, 9)
0.4
"""

from tightrope.oracle.assumptions import Assumption as Assumption
from tightrope.oracle.assumptions import Assumptions as Assumptions
from tightrope.oracle.assumptions import check as check
from tightrope.oracle.programs import Baseline as Baseline
from tightrope.oracle.programs import Benchmark as Benchmark
from tightrope.oracle.programs import benchmark as benchmark
from tightrope.oracle.programs import slater as slater
from tightrope.oracle.programs import solve as solve
from tightrope.oracle.solution import Atoms as Atoms
from tightrope.oracle.solution import Found as Found
from tightrope.oracle.solution import Solution as Solution
