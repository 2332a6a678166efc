"""A whole table at once: an action for each row, under the rules of a policy.

The rules become limits on sums over all rows, each limit has a price, and each row takes the action that is best at these prices.
`prices` finds them by few passes over the rows, `settle` decides the rows that are torn between two actions, `exact` checks that
every limit holds, and the bound that the prices prove says how much better anything else could be.

>>> import tightrope as tr
>>> rules = tr.Rules([tr.Capacity("call", at_most=0.5)], actions=["call", "wait"])
>>> tr.allocate({"gain": [5.0, 3.0, 4.0, 1.0]}, rules, reward={"call": "gain", "wait": 0.0})
Plan(4 rows, value=9, gap=0.0e+00)
"""

from tightrope.allocation.plan import CurvePoint, Plan
from tightrope.allocation.whole_table import NoneFound, allocate

__all__ = ["CurvePoint", "NoneFound", "Plan", "allocate"]
