"""What an outcome moves in the shadow-price policy: models, totals and bookings, and prices if the world has changed."""

from __future__ import annotations

from tightrope.kernels import standardised
from tightrope.kernels.compile import kernel
from tightrope.kernels.shadow import (
    BOOKED,
    CHANGED,
    CHANGES,
    CLOCK,
    CONSTRAINTS,
    CORRECTION,
    MOVED,
    NEXT_SOLVE,
    PRICE,
    RHO,
    ROUNDS,
    SIZE,
    SQUARE,
    UNIT_OFF,
    add_to_total,
    at,
    typical_size,
)
from tightrope.kernels.standardised import SMALLEST
from tightrope.validation import LARGEST


@kernel
def learn_reward(g, x, reward, flat, spread, core, room):
    """Learn one reward at φ = x by block g of a compiled model; returns whether to refresh the block. room has 2q + 5 numbers."""
    if abs(reward) > SMALLEST and standardised.nothing_seen(spread, 0):
        correct_reward_unit(core, abs(reward))
    return standardised.learn_reward(g, x, reward, flat, spread, room)


@kernel
def refresh(g, flat, spread, core, scratch):
    """Recompute block g of a compiled model that asks for it; returns whether the world was found to have changed."""
    changed = standardised.refresh(flat, spread, g, scratch)
    if changed:
        note_change(core)
    return changed


@kernel
def note_change(core):
    """The world was found to have changed: the memory is renewed, and prices solved for, as quickly as from the first round on."""
    core[CHANGES] += 1.0
    core[CHANGED] = core[ROUNDS]
    core[NEXT_SOLVE] = core[ROUNDS] + 1.0


@kernel
def correct_reward_unit(core, reward):
    """The first reward above SMALLEST was seen: convert prices guessed as if rewards were about 1 to its unit."""
    core[RHO] *= reward
    for k in range(int(core[CONSTRAINTS])):
        core[at(core, PRICE) + k] *= reward
        core[at(core, CORRECTION) + k] *= reward


@kernel
def take_costs(costs, z, p, columns, core, spread):
    """Add costs seen after acting to the totals, in place of their bookings (after p numbers in z).

    Call it before their model learns them: `spread` is that model's, empty if it has none.
    """
    booked, moved = at(core, BOOKED), at(core, MOVED)
    for i in range(columns.shape[0]):
        k = columns[i]
        if spread.shape[0] > 0 and abs(costs[i]) > SMALLEST and standardised.unit_is_guessed(spread, i):
            correct_unit(core, k, abs(costs[i]))
        core[booked + k] -= z[p + i]
        add_to_total(core, k, costs[i])
        core[moved + k] += costs[i] * costs[i]


@kernel
def learn_outcome(
    action, x, z, reward, costs, unseen, columns, core, flat, spread, cost, cost_spread, outputs, alone, last, room
):  # fmt: skip
    """A reward and costs seen after acting, into the totals and into compiled models. −1: not valid, and nothing changes.

    Otherwise 1 if the block of the reward model needs a refresh, plus 2 if that of the cost model does. A rule that is not in
    force shows no cost: for the costs in `unseen` the model learns its own prediction. outputs: 0, …, M − 1. alone: room
    for one id. last: nothing else is booked. room: `predictions_room` and 2q + 3M + 5 numbers.
    """
    M = columns.shape[0]
    for i in range(M):
        if not abs(costs[i]) <= LARGEST:
            return -1
        room[i] = costs[i]
    p = int(cost[1]) - 1
    take_costs(costs, z, p, columns, core, cost_spread)
    told, free = room[:M], room[M:]
    if unseen.shape[0] > 0:
        alone[0] = action
        standardised.fill_unseen(z, alone, outputs, unseen, told, cost, cost_spread, free)
    if last:
        booked = at(core, BOOKED)
        for k in range(int(core[CONSTRAINTS])):
            core[booked + k] = 0.0
    due = 0
    if standardised.learn_costs(action if cost[0] > 1.0 else 0, z, told, cost, cost_spread, free):
        due = 2
    if learn_reward(action if flat[0] > 1.0 else 0, x, reward, flat, spread, core, room):
        due += 1
    return due


@kernel
def correct_unit(core, k, cost):
    """The first cost of rule k was seen: if it is far from the guessed size, act as if its own size had been used all along."""
    m = typical_size(core, k)
    ratio = cost / m if m > 0.0 else 1.0
    if ratio > UNIT_OFF or ratio * UNIT_OFF < 1.0:
        core[at(core, SIZE) + k] *= ratio
        core[at(core, SQUARE) + k] *= ratio * ratio
        core[at(core, CLOCK) + k] *= ratio * ratio
        core[at(core, PRICE) + k] /= ratio
        core[at(core, CORRECTION) + k] /= ratio
