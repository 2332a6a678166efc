"""Rules that no policy can meet: which of them conflict, and the smallest change of their limits that would help."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tightrope.actions import Actions
from tightrope.errors import InfeasibleProblem, SolverError
from tightrope.rules.rule import Rule, members
from tightrope.rules.usage import Ranges
from tightrope.validation import Array

_TOLERANCE = 1e-9  # exceeding a limit by this fraction of the rule's scale is rounding


def refuse_conflicts(rules: Sequence[Rule], names: Actions, ranges: Ranges) -> None:
    """Raise unless some policy meets the rules for some usage, within `ranges`, and some frequencies of the groups.

    Let z be a policy that meets the rules without `among`, and p_g one that meets those of group g. If each
    group has frequency ε and follows p_g, and all other contexts follow z, then the groups' rules hold and
    the rest are exceeded by O(ε). So each population is judged by itself.
    """
    populations: dict[frozenset[str], list[Rule]] = {}
    for rule in rules:
        populations.setdefault(frozenset(members(rule.among)), []).append(rule)
    conflict: list[Rule] = []
    relaxation: dict[Rule, float] = {}
    moves: list[str] = []
    for population in populations.values():
        if _can_meet(population, names, ranges):
            continue
        conflict = conflict or _irreducible(population, names, ranges)
        for rule, changes in _least_changes(population, names, ranges, own_units=True).items():
            for (side, _), change in zip(rule.sides, changes, strict=True):
                if change > _TOLERANCE * rule.scale:
                    relaxation[rule] = relaxation.get(rule, 0.0) + change
                    moves.append(rule.moved(side, f"{change:.6g}"))
    if not conflict:
        return
    *most, last = (f"'{rule}'" for rule in conflict)
    named = f"{', '.join(most)} and {last} conflict" if most else f"{last} is out of reach"
    way_out = f"changing limits by {sum(relaxation.values()):.6g} in total would do: {', '.join(moves)}"
    error = InfeasibleProblem(f"no policy can meet these rules: {named}; {way_out}")
    vars(error).update(rules=tuple(conflict), relaxation=relaxation)
    raise error


def _can_meet(population: Sequence[Rule], names: Actions, ranges: Ranges) -> bool:
    changes = _least_changes(population, names, ranges, own_units=False)
    return sum(sum(sides) / rule.scale for rule, sides in changes.items()) <= _TOLERANCE


def _irreducible(population: Sequence[Rule], names: Actions, ranges: Ranges) -> list[Rule]:
    """Deletion filter: drop every rule that the conflict does not need."""
    kept = list(population)
    for rule in population:
        others = [other for other in kept if other is not rule]
        if not _can_meet(others, names, ranges):
            kept = others
    return kept


def _least_changes(
    population: Sequence[Rule], names: Actions, ranges: Ranges, *, own_units: bool
) -> dict[Rule, list[float]]:
    """For each rule and side, how far its limit moves when the sum of the moves is least.

    The sum is over changes in the rules' own units, or over changes divided by the rules' scales. The
    variables are y_j, how often action j is chosen; t_{u,j} in [0, y_j] for each usage u, so that low·y_j +
    (high − low)·t_{u,j} runs through what the choices of j can use; and s_k ≥ 0, the change of limit k over
    the scale of its rule.
    """
    if not population:
        return {}
    n = len(names)
    usages = dict.fromkeys(rule.quantity.usage for rule in population if rule.quantity.usage is not None)
    start = {usage: n * (1 + i) for i, usage in enumerate(usages)}
    first_change = n * (1 + len(start))
    n_sides = sum(len(rule.sides) for rule in population)
    width = first_change + n_sides

    rows, bounds, prices = np.zeros((n_sides, width)), np.zeros(n_sides), np.zeros(width)
    each = ((rule, side, limit) for rule in population for side, limit in rule.sides)
    for k, (rule, side, limit) in enumerate(each):
        usage, actions, _ = rule.quantity
        counted = np.arange(n) if actions is None else np.array(names.ids(actions))
        sign = 1.0 if side == "at_most" else -1.0
        if usage is None:
            rows[k, counted] = sign
        else:
            low, high = ranges[usage]
            rows[k, counted] = sign * low / rule.scale
            rows[k, start[usage] + counted] = sign * (high - low) / rule.scale
        rows[k, first_change + k] = -1.0
        bounds[k] = sign * limit / rule.scale
        prices[first_change + k] = rule.scale if own_units else 1.0
    links = np.zeros((n * len(start), width))
    for i, offset in enumerate(start.values()):
        block = links[n * i : n * (i + 1)]
        block[:, offset : offset + n] = np.eye(n)
        block[:, :n] = -np.eye(n)
    # Only active actions can be chosen.
    simplex = np.zeros((2, width))
    simplex[1, :n] = 1.0
    simplex[0, list(names.active)], simplex[1, list(names.active)] = 1.0, 0.0

    if _mixture_meets(population, names, rows[:, :first_change], bounds):
        return {rule: [0.0] * len(rule.sides) for rule in population}
    from tightrope.lp import solve_lp  # HiGHS is slow to import, and most rule sets don't need it

    solution = solve_lp(
        prices / prices.max(),
        A_ub=np.vstack([rows, links]),
        b_ub=np.concatenate([bounds, np.zeros(len(links))]),
        A_eq=simplex,
        b_eq=[1.0, 0.0],
        maximise=False,
    )
    if solution.status != "optimal":
        raise SolverError(f"the program of least changes must have a solution, but it is {solution.status}")
    changes = iter(solution.x[first_change:].tolist())
    return {rule: [max(0.0, next(changes)) * rule.scale for _ in rule.sides] for rule in population}


def _mixture_meets(population: Sequence[Rule], names: Actions, rows: Array, bounds: Array) -> bool:
    """Whether the mixture half-way between the actions' own limits meets the rules at the least, middle or greatest usage."""
    n = len(names)
    low, high = np.zeros(n), np.zeros(n)
    high[list(names.active)] = 1.0
    for rule in population:
        quantity = rule.quantity
        if quantity.usage is None and quantity.actions is not None and len(quantity.actions) == 1:
            j = names.id(quantity.actions[0])
            for side, limit in rule.sides:
                if side == "at_least":
                    low[j] = max(low[j], limit)
                else:
                    high[j] = min(high[j], limit)
    room = high - low
    if (room < 0.0).any() or not room.sum() > 0.0:
        return False
    y = low + (1.0 - low.sum()) / room.sum() * room
    if (y < 0.0).any():
        return False
    usages = rows.shape[1] // n - 1
    used = (np.concatenate([y, *[share * y] * usages]) for share in (0.0, 0.5, 1.0))
    return any(bool((rows @ point <= bounds + _TOLERANCE / len(bounds)).all()) for point in used)
