"""What `solve` returns: the optimum, its proof, and the price and slack of every rule in the rule's own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightrope import displays, lp
from tightrope.errors import InvalidInput
from tightrope.frames import AsFrame
from tightrope.messages import did_you_mean
from tightrope.oracle.curve import POINTS, LimitCurve, Program, limit_curve
from tightrope.rules import Column, Units
from tightrope.validation import Array

Found: TypeAlias = Literal["fluid", "joint", "joint-sampled"]

TIGHT = 1e-7  # a constraint with less slack than this counts as binding
_WORDS = 6  # how many binding constraints are described in words


@dataclass(frozen=True, eq=False, slots=True)
class Atoms:
    """The joint law of context and costs, atom by atom, on which a joint program is solved.

    `contexts` and `costs` are (A,) and (A, J, K); `weights` (A,) are probabilities, equal ones when the atoms are a sample.
    """

    contexts: NDArray[np.intp]
    weights: Array
    costs: Array


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Solution(AsFrame):
    """The optimum of an environment's program, with its proof. `print` shows it as a table.

    Examples
    --------
    >>> from tightrope.environments import bandit
    >>> from tightrope.oracle import solve
    >>> print(solve(bandit(threshold=0.1)))
    value 0.4 (fluid), Slater's constant 0.1, verified to a gap of ...
    rule   left  price  binding
    usage  0     3      yes

    Prices are in the units of the rules:

    >>> import tightrope as tr
    >>> rules = tr.Rules([tr.Budget("cents", at_most=250, range=(0, 1000))], actions=["nothing", "coupon"])
    >>> costs = rules.costs({"cents": [0, 1000]})
    >>> env = tr.environments.Tabular([1.0], rewards=[[0.2, 0.6]], costs=[costs], rules=rules)
    >>> solve(env).duals, solve(env).prices
    (array([0.4]), array([0.0004]))
    """

    value: float  # the reward per round of the best policy that meets the constraints
    policy: Array  # (C, J), or (A, J) for a joint program: how likely each action is in each context or atom
    duals: Array  # (K,), λ >= 0, with which scaled costs are multiplied; `prices` in the units of the rules
    slater: float  # the largest δ <= 1 with all costs at -δ or below, in the same program; 1 when K = 0
    slack: Array  # (K,), -ε_k minus the scaled cost of the policy; `left` in the units of the rules
    binding: NDArray[np.bool_]  # (K,), where the slack is 0 (to 1e-7)
    certificate: lp.Certificate
    baseline: Found
    # Both ends are the value, unless it was found on a sample: then a 95 % interval for the true one.
    interval: tuple[float, float]
    atoms: Atoms | None  # None for a fluid program
    epsilon: Array
    constraints: tuple[str, ...]
    units: Units
    columns: tuple[Column, ...]
    program: Program  # what was solved, which `curve` solves again

    @property
    def prices(self) -> Array:
        """The reward per round that each limit would earn if it moved by one unit of its rule, (K,): the derivative of the value.

        For costs that don't come from rules, the same as `duals`.
        """
        return self.units.prices(self.duals)

    @property
    def left(self) -> Array:
        """How far the policy stays from each limit, (K,): units of the rule per decision that the rule counts."""
        return self.units.means(self.slack)

    def curve(self, rule: str | int, limits: ArrayLike | None = None, *, points: int = POINTS) -> LimitCurve:
        """What the best policy would earn with other limits of one rule; all other limits stay.

        Parameters
        ----------
        rule : str or int
            The name of its column, as in `constraints`, or the number of it.
        limits : sequence of float, optional
            In the units of the rule; by default `points` limits from half of today's to one and a half of it. Today's is added.

        Examples
        --------
        >>> import tightrope as tr
        >>> rules = tr.Rules([tr.Budget("cents", at_most=250, range=(0, 1000))], actions=["nothing", "coupon"])
        >>> costs = rules.costs({"cents": [0, 1000]})
        >>> env = tr.environments.Tabular([1.0], rewards=[[0.2, 0.6]], costs=[costs], rules=rules)
        >>> print(tr.solve(env).curve("cents", [0, 500, 1000]))
        cents: with today's limit of 250 the best policy earns 0.3 per decision.
        A limit of 1,000 would earn 0.3 more.
        From 1,000 on, a higher limit would earn nothing more.
        limit  earns  one more unit earns
            0    0.2               0.0004
          250    0.3               0.0004  today
          500    0.4               0.0004
        1,000    0.6                    0
        """
        k = self._column(rule)
        return limit_curve(
            self.program,
            self.epsilon,
            k,
            self.constraints[k],
            self.columns[k] if self.columns else None,
            unit_margin=float(self.units.prices(np.eye(len(self.constraints))[k])[k]),
            limits=limits,
            points=points,
        )

    def _column(self, rule: str | int) -> int:
        names = list(self.constraints)
        if isinstance(rule, int) and not isinstance(rule, bool) and 0 <= rule < len(names):
            return rule
        if rule not in names:
            known = f"the rules are: {', '.join(names)}" if names else "there is no rule"
            raise InvalidInput(
                f"unknown rule {rule!r}{did_you_mean(str(rule), names)}; {known}", field="rule"
            )
        return names.index(str(rule))

    def words(self) -> list[str]:
        """What each limit that binds costs, in sentences."""
        found = [k for k in np.flatnonzero(self.binding).tolist() if self.duals[k] > TIGHT]
        if self.columns:
            return [self.columns[k].price_words(float(self.prices[k])) for k in found]
        earned = [(self.constraints[k], displays.text(self.duals[k])) for k in found]
        return [f"{name}: a limit higher by 1 would earn {more} per round." for name, more in earned]

    def __repr__(self) -> str:
        binding = [self.constraints[k] for k in np.flatnonzero(self.binding)]
        found = f"value={self.value:.6g}, baseline={self.baseline!r}, slater={self.slater:.6g}"
        return f"Solution({found}, binding={binding})"

    def __str__(self) -> str:
        found = f"value {text(self.value)} ({self.baseline})"
        if self.baseline == "joint-sampled":
            found += f", in [{text(self.interval[0])}, {text(self.interval[1])}] with 95 % confidence"
        found += f", Slater's constant {text(self.slater)}, verified to a gap of {max(0.0, self.certificate.gap):.0e}"
        head = ("rule", "left", *(["unit"] if self.columns else []), "price", "binding")
        rows = []
        for one in self.frame_rows():
            told = {**one, "binding": "yes" if one["binding"] else "no"}
            rows.append(tuple(text(cell) if isinstance(cell := told[name], float) else cell for name in head))
        return table(found, head, rows) if rows else found

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each rule: what is left of its limit per decision, its unit, and what moving the limit by one unit earns."""
        units = [one.rule.unit for one in self.columns] or ["cost"] * len(self.constraints)
        names = ("rule", "left", "unit", "price", "binding")
        columns = self.constraints, self.left.tolist(), units, self.prices.tolist(), self.binding.tolist()
        return [dict(zip(names, row)) for row in zip(*columns, strict=True)]

    def _repr_html_(self) -> str:
        proof = self.certificate
        known: list[tuple[str, Any]] = [("program", self.baseline)]
        if self.baseline == "joint-sampled":
            known.append(("95 % interval", f"{text(self.interval[0])} to {text(self.interval[1])}"))
        margin = f"{text(self.slater)}: all costs can be kept this far below zero at once"
        known.append(("Slater's constant", margin))
        checked = "verified" if proof.verified else "NOT VERIFIED"
        gap = "to the last digit" if proof.gap <= 0.0 else f"to a part of {proof.gap:.0e}"
        known.append(("certificate", f"{checked}: nothing can earn more, {gap}"))
        state = {True: "binds", False: "has slack"}
        found = [{**row, "binding": state[row["binding"]]} for row in self.frame_rows()]
        rows = [[row[name] for name in ("rule", "left", "unit", "binding", "price")] for row in found]
        rules = displays.table(("rule", "left per decision", "unit", "", "price"), rows)
        return displays.page(
            f"The best that can be earned: {text(self.value)} per round",
            displays.facts(known),
            rules if rows else displays.Html(""),
            displays.lines_of(self.words()[:_WORDS]),
        )


def text(number: float) -> str:
    """A number; a rounding error is shown as 0."""
    return f"{0.0 if abs(number) < 1e-12 else number:.6g}"


def table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *rows))
    return "\n".join([title, *lines])
