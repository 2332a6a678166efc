"""At most a certain average usage."""

from __future__ import annotations

from dataclasses import dataclass, field

from tightrope.rules.rule import ChosenActions, Groups, Limit, Name, Range, UsageRule, When, register


@register("budget")
@dataclass(frozen=True, repr=False)
class Budget(UsageRule):
    """What the decisions use up stays, on average, below a limit.

    Its cost is (usage·1{a = action} − at_most) / scale; without `action`, the usage of every action counts.

    Parameters
    ----------
    name : str
        Name of the usage, as `Rules.costs` is given it.
    at_most : float
        Limit per decision.
    action : name, or sequence of names, optional
        Only what these actions use counts.
    among, seen
        As in `Capacity`.
    range : (low, high), optional
        The known range of the usage: anything else is refused. Without it, any number is accepted.

    Examples
    --------
    >>> print(Budget("nurse_hours", at_most=0.1875, action="icu"))
    nurse_hours used by icu: at most 0.1875 per decision on average
    """

    name: Name
    at_most: Limit
    action: ChosenActions | None = None
    among: Groups | None = field(default=None, kw_only=True)
    seen: When = field(default="before", kw_only=True)
    range: Range | None = field(default=None, kw_only=True)
