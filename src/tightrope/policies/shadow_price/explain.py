"""The numbers behind a decision of the shadow-price policy: per action, prices in words, exact probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.kernels import probabilities, shadow_trace
from tightrope.offer import OfferReader
from tightrope.policies.decision import Gaps, Labels, Sampling
from tightrope.policies.shadow_price.sampling import gap_probabilities, member_probabilities
from tightrope.rules import Units
from tightrope.validation import Array

# Probabilities are not computed for more actions than this: it would take a second or more.
MOST_ACTIONS = 1024


def labels_of(read: OfferReader, units: Units, windows: Sequence[str] = ()) -> Labels:
    """How to read decisions; limits per window come after the other constraints."""
    names = None if read.rules is None else (*read.rules.names, *windows)
    unpack = partial(unpack_trace, units=units, names=(*read.constraints, *windows))
    return Labels(read.names, names, unpack, choice_probabilities)


def n_constraints(trace: Array, J: int) -> int:
    """K of a trace: the current rules may be different."""
    return (len(trace) - 5 * J) // (J + shadow_trace.TRACE_VECTORS)


def parts(trace: Array, J: int) -> dict[str, Array]:
    K = n_constraints(trace, J)
    mean, deviation, value, mark, costs, rules = shadow_trace.trace_parts(J, K)
    by_rule = trace[rules : shadow_trace.trace_size(J, K)].reshape(shadow_trace.TRACE_VECTORS, K)
    return {
        "rewards": trace[:mean],
        "means": trace[mean:deviation],
        "deviations": trace[deviation:value],
        "values": trace[value:mark],
        "allowed": trace[mark:costs] != 0.0,
        "costs": trace[costs:rules].reshape(J, K),
        **dict(zip(("price", "shadow", "correction", "total", "start", "slope"), by_rule)),
    }


def choice_probabilities(trace: Array, J: int, sampling: Sampling) -> Array:
    """The probability of every action on offer; the guard's ban and the least chance count.

    Exact to 1e-6 if draws are from normal laws (`tightrope.kernels.probabilities`), otherwise to rounding.
    """
    if J > MOST_ACTIONS:
        raise InvalidInput(
            f"probabilities are computed for up to {MOST_ACTIONS} actions on offer, but there are {J}."
        )
    _, _, _, mark, costs, _ = shadow_trace.trace_parts(J, n_constraints(trace, J))
    marks = trace[mark:costs]
    least, found = np.where(marks < 1.0, marks, 0.0), value_probabilities(trace, J, sampling)
    return least + (1.0 - least.sum()) * found if least.any() else found


def value_probabilities(trace: Array, J: int, sampling: Sampling) -> Array:
    """The probability that each action's value is the highest."""
    K = n_constraints(trace, J)
    mean, deviation, value, mark, costs, _ = shadow_trace.trace_parts(J, K)
    if sampling is None:
        found, room = np.empty(J), np.empty(3 * J + probabilities.probabilities_room(J))
        # A trace from a journal is read-only, which would be another type for the compiler.
        whole = trace if trace.flags.writeable else trace.copy()
        probabilities.allowed_probabilities(whole, mean, deviation, mark, found, room)
        return found
    allowed = trace[mark:costs] != 0.0
    if isinstance(sampling, Gaps):
        return gap_probabilities(trace[value:mark], allowed, sampling.slope)
    return member_probabilities(trace[mean:deviation], trace[deviation:value], allowed, sampling.array(J))


def wall_penalties(seen: dict[str, Array]) -> Array:
    """How much the wall below zero takes off each action's value, by rule (J, K)."""
    start = np.where(seen["start"] > 0.0, seen["start"], 1.0)

    def potential(s: Array) -> Array:
        height: Array = 0.5 * start * np.maximum(0.0, s / start + 1.0) ** 2
        return height

    step = potential(seen["total"] + seen["costs"]) - potential(seen["total"])
    return np.where(seen["start"] > 0.0, seen["slope"] * step, 0.0)


def unpack_trace(
    trace: Array, J: int, sampling: Sampling, *, units: Units, names: Sequence[str]
) -> dict[str, Any]:
    seen = parts(trace, J)
    return {
        "rewards": seen["rewards"].copy(),
        "costs": seen["costs"].copy(),
        "values": seen["means"].copy(),
        "queue": seen["price"].copy(),
        "extra": seen["rewards"][:, None] * 0.0 + wall_penalties(seen),
        "probabilities": choice_probabilities(trace, J, sampling)
        if J <= MOST_ACTIONS
        else np.full(J, np.nan),
        # The current policy also reads decisions recorded under other rules.
        "words": price_words(seen, units, names) if len(names) == len(seen["price"]) else (),
    }


def price_words(seen: dict[str, Array], units: Units, names: Sequence[str]) -> tuple[str, ...]:
    """Each price and its parts, in the rule's own units.

    >>> zeros = np.zeros(1)
    >>> seen = {"price": zeros + 0.31, "shadow": zeros + 0.28, "correction": zeros + 0.01, "total": zeros - 4.0}
    >>> price_words(seen, Units.of(None, 1), ["nurse_hours"])
    ('price of nurse_hours 0.31: shadow price 0.28, correction 0.01, running total 0.02 (total -4)',)
    """
    lines = []
    # + 0.0 turns −0 into 0.
    prices, shadows, corrections = (
        units.unit_prices(seen[part]) + 0.0 for part in ("price", "shadow", "correction")
    )
    totals = units.totals(seen["total"])
    for k, name in enumerate(names):
        price, base, extra = prices[k], shadows[k], corrections[k]
        rest = price - base - extra
        lines.append(
            f"price of {name} {price:.4g}: shadow price {base:.4g}, correction {extra:.4g}, "
            f"running total {rest:.4g} (total {totals[k]:.4g})"
        )
    return tuple(lines)
