"""At most a share of the decisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tightrope.rules.rule import ChosenActions, DecisionRule, Groups, Name, ShareOfDecisions, When, register


@register("capacity")
@dataclass(frozen=True, repr=False)
class Capacity(DecisionRule):
    """An action (or several, counted together) takes at most a share of the decisions.

    Its cost is 1{a = action} − at_most.

    Parameters
    ----------
    action : name, or sequence of names
        Indices where the actions have no names.
    at_most : float
        In [0, 1].
    among : str or sequence of str, optional
        Groups of contexts. The rule then counts only the decisions of these groups, and costs 0 elsewhere.
    seen : "before" or "after"
        When the cost is known: before acting or after.
    name : str, optional
        Name of its column, instead of one made from the action.

    Examples
    --------
    >>> print(Capacity("icu", at_most=0.2))
    icu: at most 20% of decisions
    """

    action: ChosenActions
    at_most: ShareOfDecisions
    among: Groups | None = field(default=None, kw_only=True)
    seen: When = field(default="before", kw_only=True)
    name: Name | None = field(default=None, kw_only=True)
