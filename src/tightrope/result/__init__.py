"""What a simulation leaves behind: curves with intervals, a table, files and figures.

Three different things are called violation, and all three are reported. In round τ, with cumulative costs S_k(τ):

`violation`       Σ_k (E[S_k(τ)])⁺, the paper's: the expectation over runs is inside, so a run above zero may be offset by another
`path_violation`  Σ_k (S_k(τ))⁺ within each run, as seen by whoever lives through it
`last_violated`   the last round in which S_k > 0, run by run

A cumulative cost counts as above zero when it exceeds 1e-9: less than that may be rounding error.
"""

from tightrope.result.curves import Curve, Estimate, LastViolated
from tightrope.result.result import Result, Summary, write_summary

__all__ = ["Curve", "Estimate", "LastViolated", "Result", "Summary", "write_summary"]
