"""A policy as a notebook shows it."""

from __future__ import annotations

from typing import Any

from tightrope import displays
from tightrope.policies.hooks import Watched
from tightrope.policies.watch import constraint_words


def policy_page(policy: Watched) -> str:
    """The policy's settings and current state; totals are in the units of the rules."""
    hooks = policy.hooks
    known: list[tuple[str, Any]] = [
        ("decisions", policy.rounds),
        ("waiting for an outcome", len(hooks.pending)),
    ]
    for what, model in (("reward by", hooks.reward), ("costs by", hooks.cost)):
        known += [] if model is None else [(what, repr(model))]
    known += [("actions", hooks.labels.actions)] if hooks.labels.actions is not None else []
    return displays.page(
        f"{type(policy).__name__} ({policy.kind})",
        displays.facts(known),
        _constraints(policy),
        displays.lines_of(map(str, policy.concerns()), warning=True),
    )


def _constraints(policy: Watched) -> displays.Html:
    hooks = policy.hooks
    if not hooks.n_constraints:
        return displays.Html("")
    units = (policy.totals * hooks.cost_scales()).tolist()
    stands = [f"{displays.text(abs(one))} {'above' if one > 0 else 'below'}" for one in units]
    prices = getattr(policy, "prices", None)
    weights = (hooks.dual() if prices is None else prices).tolist()
    head = ("rule", "total against its limit", "weight" if prices is None else "price of a unit")
    words = constraint_words(hooks.rules, hooks.n_constraints)
    return displays.table(head, zip(words, stands, weights, strict=True))
