"""Conflicts between rules, found by independent means: SciPy, exact fractions, brute force."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tightrope.errors import InfeasibleProblem
from tightrope.rules import Budget, Capacity, Mean, Rules, Share

ABC = ["a", "b", "c"]
RANGES = {"hours": (0.0, 1.0), "wait": (-2.0, 6.0), "dose": (1.0, 1.5)}


def refusal(rules):
    """The error that the rules raise together, or None."""
    try:
        Rules(rules, actions=ABC)
    except InfeasibleProblem as conflict:
        return conflict
    return None


@pytest.mark.parametrize(
    ("rules", "conflicting", "total"),
    [
        ([Share("a", 0.6), Share("b", 0.5), Capacity("c", 0.3)], [0, 1], 0.1),
        ([Capacity("a", 0.3), Share("a", 0.1), Capacity("b", 0.3), Capacity("c", 0.3)], [0, 2, 3], 0.1),
        ([Share(["a", "b"], 0.5), Capacity("a", 0.2), Capacity("b", 0.2)], [0, 1, 2], 0.1),
        ([Capacity("b", 0.9), Share("a", 0.5), Capacity("a", 0.2)], [1, 2], 0.3),
        ([Mean("w", at_least=0.6, at_most=0.4)], [0], 0.2),
        ([Mean("w", at_least=0.6), Budget("w", 0.4)], [0, 1], 0.2),
        ([Budget("h", -0.1, range=(0, 1)), Share("a", 0.5)], [0], 0.1),
        ([Budget("h", 1.0, range=(2, 4))], [0], 1.0),
        ([Budget("h", 1.0, "a", range=(2, 4)), Share("a", 0.75)], [0, 1], 0.25),
        ([Mean("w", at_most=-0.1, at_least=1.1)], [0], 1.2),
        ([Share("a", 0.6, among="A"), Share("b", 0.5, among="A"), Share("c", 0.9)], [0, 1], 0.1),
        ([Share("a", 0.6, among=("A", "B")), Share("b", 0.5, among=("B", "A"))], [0, 1], 0.1),
        ([Budget("h", 0.2, seen="after"), Mean("h", at_least=0.3)], [0, 1], 0.1),
    ],
)
def test_classic_conflicts(rules, conflicting, total):
    with pytest.raises(InfeasibleProblem) as caught:
        Rules(rules, actions=ABC)
    assert list(caught.value.rules) == [rules[i] for i in conflicting]
    assert sum(caught.value.relaxation.values()) == pytest.approx(total, abs=1e-9)
    for i in conflicting:
        assert f"'{rules[i]}'" in str(caught.value)
    assert f"{total:g} in total" in str(caught.value)


@pytest.mark.parametrize(
    "rules",
    [
        [Share("a", 0.7), Share("b", 0.2), Share("c", 0.1)],  # sums to 1 but for rounding
        [Capacity(x, 1 / 3) for x in ABC],
        [Share("a", 0.5), Capacity("a", 0.5)],
        [Budget("h", 0.0)],
        [Budget("h", 5.0, range=(0, 1))],
        [Mean("w", at_least=0.3, at_most=0.3)],
        [Share("a", 1.0), Capacity("a", 0.0, among="A")],  # group A may be as rare as it likes
        [Share("a", 1.0, among="A"), Share("b", 1.0, among="B"), Share("c", 1.0, among="C")],
        [Budget("h", 100.0, range=(0, 1e6)), Mean("h", at_least=100.0, range=(0, 1e6)), Share("a", 1.0)],
    ],
)
def test_tight_rule_sets_are_accepted(rules):
    assert len(Rules(rules, actions=ABC)) == len(rules)


def test_two_conflicts_name_one_and_relax_both():
    rules = [Share("a", 0.75), Share("b", 0.5), Share("a", 0.75, among="A"), Share("b", 0.75, among="A")]
    with pytest.raises(InfeasibleProblem) as caught:
        Rules(rules, actions=ABC)
    assert caught.value.rules == tuple(rules[:2])
    assert sum(caught.value.relaxation.values()) == pytest.approx(0.25 + 0.5)


def population_rows(rules):
    """The rules of one population over z = (y, v), v_{u,j} the usage u of action j times how often it is chosen."""
    names = sorted({r.name for r in rules if r.kind in ("budget", "mean")})
    n, width = len(ABC), len(ABC) * (1 + len(names))
    rows, limits, owner = [], [], []
    for rule in rules:
        action = getattr(rule, "action", None)
        members = ABC if action is None else [action] if isinstance(action, str) else list(action)
        row = np.zeros(width)
        start = 0 if rule.kind in ("capacity", "share") else n * (1 + names.index(rule.name))
        row[[start + ABC.index(a) for a in members]] = 1.0
        for side, sign in (("at_most", 1.0), ("at_least", -1.0)):
            limit = getattr(rule, side, None)
            if limit is not None:
                rows.append(sign * row)
                limits.append(sign * limit)
                owner.append(rule)
    links = []
    for i, name in enumerate(names):
        for j in range(n):
            for bound, sign in zip(RANGES[name], (-1.0, 1.0)):
                link = np.zeros(width)
                link[n * (1 + i) + j], link[j] = sign, -sign * bound
                links.append(link)
    return np.array(rows), np.array(limits), owner, np.array(links).reshape(-1, width)


def least_sum_of_changes(rules):
    """By another solver call, in the rules' own units and other variables than the code under test."""
    rows, limits, _, links = population_rows(rules)
    k, width = rows.shape
    found = linprog(
        np.r_[np.zeros(width), np.ones(k)],
        A_ub=np.block([[rows, -np.eye(k)], [links, np.zeros((len(links), k))]]),
        b_ub=np.r_[limits, np.zeros(len(links))],
        A_eq=[np.r_[np.ones(3), np.zeros(width - 3 + k)]],
        b_eq=[1.0],
        bounds=[(0, None)] * 3 + [(None, None)] * (width - 3) + [(0, None)] * k,
    )
    assert found.success
    return found.fun


def feasible(rules, tolerance=1e-7):
    return not rules or least_sum_of_changes(rules) <= tolerance


def random_rules(rng, with_usage):
    """Limits on a coarse grid, so that nothing is infeasible by a hair."""
    rules = set()
    for _ in range(rng.integers(2, 7)):
        members = tuple(rng.permutation(ABC)[: rng.integers(1, 3)].tolist())
        kind = rng.integers(0, 4 if with_usage else 2)
        name = str(rng.choice(sorted(RANGES)))
        low, high = RANGES[name]
        grid = [low + (high - low) * i / 8 for i in range(-1, 10)]
        if kind == 0:
            rules.add(Capacity(members, rng.integers(0, 17) / 16))
        elif kind == 1:
            rules.add(Share(members, rng.integers(0, 17) / 16))
        elif kind == 2:
            action = members if rng.random() < 0.5 else None
            rules.add(Budget(name, float(rng.choice(grid)), action, range=(low, high)))
        else:
            sides = rng.choice(grid, 2)
            rules.add(
                Mean(
                    name,
                    *(s if rng.random() < 0.7 or i == 0 else None for i, s in enumerate(sides)),
                    range=(low, high),
                )
            )
    return sorted(rules, key=repr)


@pytest.mark.parametrize("with_usage", [False, True])
def test_conflicts_are_found_exactly_and_are_irreducible(with_usage):
    rng = np.random.default_rng(20 + with_usage)
    refused = 0
    for _ in range(120):
        rules = random_rules(rng, with_usage)
        conflict = refusal(rules)
        if conflict is None:
            assert feasible(rules)
            continue
        refused += 1
        found = list(conflict.rules)
        assert not feasible(found)
        for i in range(len(found)):
            assert feasible(found[:i] + found[i + 1 :])
        assert sum(conflict.relaxation.values()) == pytest.approx(least_sum_of_changes(rules), abs=1e-8)
        assert set(conflict.relaxation) <= set(rules)
        assert feasible(relaxed(rules, conflict.relaxation))
    assert 20 <= refused <= 110


def relaxed(rules, relaxation):
    """Limits moved as told; where a rule has two sides, both by its whole change."""
    moved = []
    for rule in rules:
        change = relaxation.get(rule, 0.0)
        if rule.kind == "capacity":
            moved.append(Capacity(rule.action, min(1.0, rule.at_most + change)))
        elif rule.kind == "share":
            moved.append(Share(rule.action, max(0.0, rule.at_least - change)))
        elif rule.kind == "budget":
            moved.append(Budget(rule.name, rule.at_most + change, rule.action, range=rule.range))
        else:
            low = None if rule.at_least is None else rule.at_least - change
            moved.append(Mean(rule.name, rule.at_most + change, low, range=rule.range))
    return moved


def exact_least_sum(rules):
    """Minimum over the simplex of Σ (excess)⁺ for shares: convex and piecewise linear, so it is attained where two
    of the lines {rule tight} and {y_j = 0} cross; all crossings are tried, in rational numbers."""
    lines = [([Fraction(int(a == b)) for b in ABC], Fraction(0)) for a in ABC]
    sides = []
    for rule in rules:
        members = {rule.action} if isinstance(rule.action, str) else set(rule.action)
        row = [Fraction(int(a in members)) for a in ABC]
        sign = 1 if rule.kind == "capacity" else -1
        limit = Fraction(rule.at_most if sign == 1 else rule.at_least)
        lines.append((row, limit))
        sides.append((row, limit, sign))
    best = None
    for (r1, l1), (r2, l2) in itertools.combinations(lines, 2):
        # y_c = 1 − y_a − y_b
        a11, a12, b1 = r1[0] - r1[2], r1[1] - r1[2], l1 - r1[2]
        a21, a22, b2 = r2[0] - r2[2], r2[1] - r2[2], l2 - r2[2]
        det = a11 * a22 - a12 * a21
        if det == 0:
            continue
        ya, yb = (b1 * a22 - b2 * a12) / det, (a11 * b2 - a21 * b1) / det
        y = [ya, yb, 1 - ya - yb]
        if min(y) < 0:
            continue
        total = sum(
            max(Fraction(0), sign * (sum(c * v for c, v in zip(row, y)) - limit))
            for row, limit, sign in sides
        )
        best = total if best is None else min(best, total)
    return best


def test_the_relaxation_is_the_smallest_by_brute_force():
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(150):
        rules = random_rules(rng, with_usage=False)
        least = exact_least_sum(rules)
        conflict = refusal(rules)
        if conflict is None:
            assert least == 0
            continue
        refused += 1
        assert least > 0
        assert sum(conflict.relaxation.values()) == pytest.approx(float(least), abs=1e-9)
    assert 20 <= refused <= 130
