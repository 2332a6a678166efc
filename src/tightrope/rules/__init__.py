"""Rules in plain words, and the costs that they stand for.

A rule limits the long-run average of a quantity: how often an action is chosen, or what the choices use up.
Its cost W is usage − limit (or minimum − share): 0 is exactly on the limit, and the rule asks that the
costs of the decisions made so far never sum to more than 0.

>>> beds, hours = Capacity("icu", at_most=0.25), Budget("nurse_hours", at_most=0.5)
>>> rules = Rules([beds, hours], actions=["icu", "other"])
>>> print(rules)
icu: at most 25% of decisions
nurse_hours: at most 0.5 per decision on average
>>> rules.costs(usage={"nurse_hours": [1.0, 0.25]})
array([[ 0.75,  0.5 ],
       [-0.25, -0.25]])

A kind of rule is one file in `kinds`; one of your own, in a file of yours, subclasses `Rule` and is registered by `register`.
"""

from tightrope.rules.columns import Column as Column
from tightrope.rules.kinds.budget import Budget as Budget
from tightrope.rules.kinds.capacity import Capacity as Capacity
from tightrope.rules.kinds.mean import Mean as Mean
from tightrope.rules.kinds.share import Share as Share
from tightrope.rules.rule import RULE_KINDS as RULE_KINDS
from tightrope.rules.rule import DecisionRule as DecisionRule
from tightrope.rules.rule import Quantity as Quantity
from tightrope.rules.rule import Rule as Rule
from tightrope.rules.rule import UsageRule as UsageRule
from tightrope.rules.rule import register as register
from tightrope.rules.rule import rule_fields as rule_fields
from tightrope.rules.rules import Plan as Plan
from tightrope.rules.rules import Rules as Rules
from tightrope.rules.rules import moves_in_words as moves_in_words
from tightrope.rules.units import Units as Units
