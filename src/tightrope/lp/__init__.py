"""Linear programs: the one interface to HiGHS, and the allocation programs that everything else is built on.

An allocation program has a row for each pair (context c, action j) and spreads each context over its rows:

    maximise  Σ p_c r(c,j) x(c,j)   s.t.  Σ_j x(c,j) = 1 for all c,  Σ p_c w_k(c,j) x(c,j) <= -ε_k for all k.

Rows lie context after context; `offsets` (C+1,) says where each context begins, so that contexts may differ in their number of
actions. Small programs go to HiGHS whole. Large ones are decomposed on the K duals λ: pricing is an argmax of r - λ·w in each
context, and a master program over blocks of contexts finds the next λ.

>>> solve_lp([3.0, 2.0], A_ub=[[1.0, 1.0]], b_ub=[1.0]).value
3.0
>>> found = allocation([1.0], [[0.1, 0.7]], [[[-0.1], [0.1]]])  # a safe and a costly action, half and half
>>> round(found.value, 12), found.x.round(12).tolist()
(0.4, [[0.5, 0.5]])
"""

from tightrope.lp.allocations import Family, Method, allocation, least_moves, slater
from tightrope.lp.highs import LPSolution, solve_lp
from tightrope.lp.mixture import MixtureProgram
from tightrope.lp.program import Allocation, Certificate, certify

__all__ = ["Allocation", "Certificate", "Family", "LPSolution", "Method", "MixtureProgram"]
__all__ += ["allocation", "certify", "least_moves", "slater", "solve_lp"]
