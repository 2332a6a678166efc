"""Random tables with rules, a literal reading of the rules in rational arithmetic, and the integer optimum by SciPy's `milp`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

import tightrope as tr

ACTIONS = ("none", "mail", "call", "visit")


@dataclass
class Case:
    """A table, its rules and how they are told to `allocate`."""

    table: dict[str, Any]
    rules: tr.Rules
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.table["score_mail"])

    def allocate(self, **more: Any) -> Any:
        return tr.allocate(self.table, self.rules, **{**self.told, **more})


def random_case(seed: int, n: int, *, beyond: bool = True) -> Case:
    """Scores, two usages, groups, and with `beyond` also eligibility, fixed rows and few changes."""
    rng = np.random.default_rng(seed)
    worth = rng.gamma(2.0, 1.0, n)
    table: dict[str, Any] = {f"score_{a}": worth * rng.random(n) * i for i, a in enumerate(ACTIONS) if i}
    table |= {f"cost_{a}": rng.integers(1, 9, n) / 4.0 * i for i, a in enumerate(ACTIONS) if i}
    table |= {"hours": rng.random(n).astype(np.float32), "region": rng.choice(["north", "south", "west"], n)}
    table["may_visit"] = rng.random(n) < 0.8
    table["done"] = np.where(rng.random(n) < 0.05, rng.choice(["mail", "call"], n), "")
    table["before"] = rng.choice(["none", "mail", "call", ""], n)
    rules = tr.Rules(
        [
            tr.Capacity("visit", at_most=round(rng.uniform(0.1, 0.3), 3)),
            tr.Capacity(["call", "visit"], at_most=0.45, among="north"),
            tr.Share("mail", at_least=0.15),
            tr.Share("call", at_least=0.1, among=("south", "west")),
            tr.Budget("cost", at_most=round(rng.uniform(1.0, 1.6), 2)),
            tr.Budget("hours", at_most=0.1, action="call"),
            tr.Mean("cost", at_least=0.2),
        ],
        ACTIONS,
    )
    told: dict[str, Any] = {
        "reward": {a: f"score_{a}" if a != "none" else 0.0 for a in ACTIONS},
        "usage": {
            "cost": {a: f"cost_{a}" if a != "none" else 0.0 for a in ACTIONS},
            "hours": {"call": "hours"},
        },
        "group": "region",
    }
    if beyond:
        told |= {
            "eligible": {"visit": "may_visit"},
            "fixed": "done",
            "previous": "before",
            "max_changes": n // 2,
        }
    return Case(table, rules, told)


def costs_of_case(case: Case) -> tuple[np.ndarray, list[Fraction], np.ndarray]:
    """What counts towards each limit, (n, J, L); the exact limits; and which actions are eligible, (n, J)."""
    n, J = case.n, len(ACTIONS)
    column = {name: np.asarray(value) for name, value in case.table.items()}
    costs, limits = [], []
    for rule in case.rules:
        usage, actions, _ = rule.quantity
        amount = np.zeros((n, J))
        for j, action in enumerate(ACTIONS):
            if actions is None or action in actions:
                source = 1.0 if usage is None else case.told["usage"][usage].get(action, 0.0)
                amount[:, j] = column[source] if isinstance(source, str) else source
        among = () if rule.among is None else (rule.among,) if isinstance(rule.among, str) else rule.among
        here = np.isin(column["region"], among) if among else np.ones(n, dtype=bool)
        amount[~here] = 0.0
        for side, limit in rule.sides:
            sign = 1 if side == "at_most" else -1
            exact = Fraction(str(limit)) * int(here.sum())
            costs.append(sign * amount)
            # Rows are counted whole.
            limits.append(sign * exact if usage else Fraction((sign * exact).__floor__()))
    if "max_changes" in case.told:
        before = column["before"]
        costs.append(np.array([[float(b not in ("", a)) for a in ACTIONS] for b in before]))
        limits.append(Fraction(case.told["max_changes"]))
    may = np.ones((n, J), dtype=bool)
    if "eligible" in case.told:
        may[:, 3] = column["may_visit"]
    if "fixed" in case.told:
        for i, done in enumerate(column["done"]):
            if done:
                may[i] = [a == done for a in ACTIONS]
    return np.stack(costs, axis=2), limits, may


def exactly_kept(case: Case, actions: Any) -> bool:
    """Whether all rules hold, in rational arithmetic."""
    costs, limits, may = costs_of_case(case)
    chosen = [ACTIONS.index(action) for action in actions]
    if not all(may[i, j] for i, j in enumerate(chosen)):
        return False
    return all(
        sum((Fraction(str(costs[i, j, k])) for i, j in enumerate(chosen)), Fraction(0)) <= limit
        for k, limit in enumerate(limits)
    )


def value_of_case(case: Case, actions: Any) -> float:
    return float(sum(0.0 if a == "none" else case.table[f"score_{a}"][i] for i, a in enumerate(actions)))


def integer_optimum(case: Case, gap: float = 1e-5, *, whole: bool = True) -> tuple[float, float]:
    """What the best allocation earns at least and at most, by SciPy's integer program; −inf where there is none.

    Without `whole` rows may be split.
    """
    costs, limits, may = costs_of_case(case)
    n, J, L = costs.shape
    scores = np.zeros((n, J))
    for j, action in enumerate(ACTIONS[1:], 1):
        scores[:, j] = case.table[f"score_{action}"]
    each = sp.kron(sp.eye_array(n), np.ones((1, J)), format="csr")
    found = milp(
        -scores.ravel(),
        integrality=np.full(n * J, float(whole)),
        bounds=Bounds(0.0, may.ravel().astype(float)),
        constraints=[
            LinearConstraint(each, 1.0, 1.0),
            LinearConstraint(
                sp.csr_array(costs.reshape(n * J, L).T), -np.inf, [float(one) for one in limits]
            ),
        ],
        options={"mip_rel_gap": gap},
    )
    if found.x is None:
        return -np.inf, -np.inf
    return -float(found.fun), -float(found.mip_dual_bound if whole else found.fun)
