"""The formulas of the algorithm, compiled: arrays in, arrays out, one function for each formula.

`decide`, `learn` and the simulator's loop all call these functions, so each formula is in one place. They avoid BLAS and
`fastmath`, and run only independent elements side by side (`lanes`): sums are formed in the same order wherever a function is
inlined, so every path gets the same bits.

None of them allocates: they are passed everything they need, so they can be compiled without Numba's reference counting, which
would add a cost for every array argument and every view. Arrays are read by flat addresses: an array and the index of an element.
Small quantities are packed into flat vectors; `layout` knows what is where.
"""

from tightrope.kernels import bootstrap as bootstrap
from tightrope.kernels import forgetting as forgetting
from tightrope.kernels import logistic as logistic
from tightrope.kernels import pacing as pacing
from tightrope.kernels import prices as prices
from tightrope.kernels import probabilities as probabilities
from tightrope.kernels import shadow as shadow
from tightrope.kernels import shadow_loop as shadow_loop
from tightrope.kernels import standardised as standardised
from tightrope.kernels import tree_growth as tree_growth
from tightrope.kernels import trees as trees
from tightrope.kernels.checks import *
from tightrope.kernels.comparators import *
from tightrope.kernels.compile import *
from tightrope.kernels.draws import *
from tightrope.kernels.exact_sums import *
from tightrope.kernels.layout import *
from tightrope.kernels.lazy import *
from tightrope.kernels.linear_algebra import *
from tightrope.kernels.loops import *
from tightrope.kernels.models import *
from tightrope.kernels.step import *
from tightrope.kernels.usage import *
from tightrope.validation import COST_LIMIT as COST_LIMIT
from tightrope.validation import COST_ROUNDING as COST_ROUNDING
from tightrope.validation import NORM_LIMIT as NORM_LIMIT
from tightrope.validation import VIOLATION as VIOLATION
