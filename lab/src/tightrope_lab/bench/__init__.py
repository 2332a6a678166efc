"""How fast the package is: ratios to plain NumPy loops with the same mathematics, measured in one run, with the error beside the time."""

from tightrope_lab.bench.contests import CASES, Contest
from tightrope_lab.bench.run import ONE_THREAD, bench, measure, tables, write

__all__ = ["CASES", "ONE_THREAD", "Contest", "bench", "measure", "tables", "write"]
