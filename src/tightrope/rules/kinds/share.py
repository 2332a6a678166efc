"""At least a share of the decisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from tightrope.rules.rule import ChosenActions, DecisionRule, Groups, Name, ShareOfDecisions, When, register


@register("share")
@dataclass(frozen=True, repr=False)
class Share(DecisionRule):
    """An action (or several, counted together) gets at least a share of the decisions.

    Its cost is at_least − 1{a = action}.

    Parameters
    ----------
    action : name, or sequence of names
        Indices where the actions have no names.
    at_least : float
        In [0, 1].
    among, seen, name
        As in `Capacity`.

    Examples
    --------
    >>> print(Share(["icu", "surgery"], at_least=0.3, among="A"))
    among group A: icu or surgery: at least 30% of that group's decisions
    """

    action: ChosenActions
    at_least: ShareOfDecisions
    among: Groups | None = field(default=None, kw_only=True)
    seen: When = field(default="before", kw_only=True)
    name: Name | None = field(default=None, kw_only=True)
