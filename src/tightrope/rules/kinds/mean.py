"""The average of a quantity, within limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from tightrope.rules.rule import Groups, Limit, Name, Range, UsageRule, When, register


@register("mean")
@dataclass(frozen=True, repr=False)
class Mean(UsageRule):
    """The average of a quantity stays within limits: one column of costs for each side given.

    The costs are (usage − at_most) / scale and (at_least − usage) / scale.

    Parameters
    ----------
    name : str
        Name of the quantity, as `Rules.costs` is given it under `usage`.
    at_most, at_least : float, optional
        One of them, or both.
    among, seen
        As in `Capacity`.
    range : (low, high), optional
        The known range of the quantity: anything else is refused. Without it, any number is accepted.

    Examples
    --------
    >>> print(Mean("wait", at_least=0.1, at_most=0.6))
    wait: at least 0.1 and at most 0.6 per decision on average
    """

    name: Name
    at_most: Limit | None = None
    at_least: Limit | None = None
    among: Groups | None = field(default=None, kw_only=True)
    seen: When = field(default="before", kw_only=True)
    range: Range | None = field(default=None, kw_only=True)
