"""What `decide` returns: the action, and the reasons if you ask for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope import displays
from tightrope.errors import InvalidInput
from tightrope.frames import AsFrame
from tightrope.offer import Offer
from tightrope.validation import Array

NOBODY: Final = -1  # owner of a mere proposal


class Members(msgspec.Struct, frozen=True, tag="members", eq=False):
    """The action is the best for one of M members of the reward model, drawn at random.

    `shifts` (M, J): how far each member is from the mean reward of each action on offer.
    """

    shifts: bytes

    def array(self, J: int) -> Array:
        return np.frombuffer(self.shifts).reshape(-1, J)


class Gaps(msgspec.Struct, frozen=True, tag="gaps", eq=False):
    """The action is drawn by inverse gap weighting, with this slope."""

    slope: float


# How an action was drawn, unless from normal laws or not at all.
Sampling: TypeAlias = Members | Gaps | None


class Labels(NamedTuple):
    """How to read the numbers behind a policy's decisions: names of actions and constraints, and what its traces hold."""

    actions: tuple[str, ...] | None
    constraints: tuple[str, ...] | None
    unpack: Callable[[Array, int, Sampling], dict[str, Any]]
    # For a policy that computes probabilities only when they are read: those of every action, from a trace.
    probabilities: Callable[[Array, int, Sampling], Array] | None = None


class Decision(msgspec.Struct, tag="decision", eq=False):
    """One decision: `action` (an id), `row` (its row among those on offer), `number` (counts the policy's decisions from 0).

    `explain` shows the numbers behind it. Pass the decision, or just its number, to `learn` when the outcome is known.
    `version` is the version of the policy's state at the time: together with the offer, it is enough to recompute the decision.
    """

    action: int
    row: int
    number: int
    owner: int
    version: int
    offered: NDArray[np.int64]
    numbers: Array | Callable[[], Array]
    labels: Labels
    sampling: Sampling = None
    certain: bool = False
    # Its row among the numbers behind it, if those cover only some of the actions.
    shown: int | None = None

    @property
    def name(self) -> str | None:
        """The name of the action, if actions have names."""
        names = self.labels.actions
        return None if names is None else names[self.action]

    @property
    def probability(self) -> float:
        """The probability with which a randomised policy took this action; 1 if the policy is not randomised."""
        return 1.0 if self.certain else float(self.probabilities[self.row])

    @property
    def probabilities(self) -> Array:
        """The probability of every action on offer, by row, computed when read. NaN if there is no closed form."""
        J = len(self.offered)
        if self.labels.probabilities is not None:
            return self.labels.probabilities(self.trace, J, self.sampling)
        given = self.labels.unpack(self.trace, J, self.sampling).get("probabilities")
        if given is None:
            given = np.zeros(J)
            given[self.row if self.shown is None else self.shown] = 1.0
        return np.asarray(given)

    @property
    def trace(self) -> Array:
        """The numbers behind the decision, packed as the policy packs them; replay compares these."""
        if callable(self.numbers):
            self.numbers = self.numbers()
        return self.numbers

    def explain(self) -> Explanation:
        """The estimated reward, the penalty by constraint and the value of every action on offer.

        >>> import tightrope as tr
        >>> policy = tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=100)
        >>> for _ in range(3):
        ...     decision = policy.decide(costs=[[0.5], [-0.5]])
        >>> print(decision.explain())
            action   reward ≤   penalty 0     value
                 0     1.0000      2.9568   -1.9568
        →        1     1.0000     -2.9568    3.9568
        round 3: V = 0.7071, ε = 1.414, queue = (4.182)
        """
        ids, labels = self.offered, self.labels
        numbers = labels.unpack(self.trace, len(ids), self.sampling)
        K = numbers["costs"].shape[1]
        return Explanation(
            round=self.number + 1,
            row=self.row if self.shown is None else self.shown,
            actions=tuple(str(a) if labels.actions is None else labels.actions[a] for a in ids.tolist()),
            constraints=tuple(map(str, range(K))) if labels.constraints is None else labels.constraints,
            **numbers,
        )

    def __repr__(self) -> str:
        named = "" if self.name is None else f"name={self.name!r}, "
        chance = self._chance()
        drawn = "" if chance is None else f"probability={chance:.4g}, "
        return f"Decision(action={self.action}, {named}{drawn}row={self.row}, number={self.number})"

    def _repr_html_(self) -> str:
        why, chance = self.explain(), self._chance()
        called = f"action {self.action}" if self.name is None else f"{self.name} (action {self.action})"
        drawn = "" if chance is None else f", with probability {displays.text(chance)}"
        return displays.page(f"Decision {self.number}: {called}{drawn}", *why.html_parts())

    def _chance(self) -> float | None:
        try:
            chance = self.probability
        except InvalidInput:  # too many actions to compute it
            return None
        return None if np.isnan(chance) else chance


class Quote(msgspec.Struct, frozen=True, eq=False):
    """What a policy would decide on an offer in its current state; `Policy.commit` turns it into a decision.

    `proposed` has the action, its probability and the numbers behind it. `note` is what the policy needs to remember for `commit`.
    `asked` is the offer with the actions that do not fit a hard limit, if there are any and the policy remembers them.
    """

    offer: Offer
    proposed: Decision
    owner: int
    note: Any = None
    asked: Offer | None = None

    @property
    def version(self) -> int:
        return self.proposed.version


@dataclass(frozen=True, eq=False)
class Explanation(AsFrame):
    """The numbers behind a decision; `print` it for a table.

    Per action: `rewards`, the policy's optimistic estimates; `values`, by which it chooses (reward − Σ penalties if there are any,
    −∞ for an action it may not choose); and `probabilities` for randomised policies. Penalties are costs · queue / V, plus anything
    else the policy charges (`extra`). `words` says what the prices are made of.
    """

    round: int
    row: int
    actions: tuple[str, ...]
    constraints: tuple[str, ...]
    rewards: Array
    costs: Array
    values: Array
    queue: Array
    V: float = 1.0
    epsilon: float = 0.0
    probabilities: Array | None = None
    extra: Array | float = 0.0
    words: tuple[str, ...] = ()

    @property
    def penalties(self) -> Array:
        """How much each constraint takes off each action's value, (J, K)."""
        return self.costs * self.queue / self.V + self.extra

    def rows(self) -> list[dict[str, Any]]:
        """One plain dict for each action on offer, ready for JSON."""
        penalties, chances = self.penalties, self.probabilities
        return [
            {
                "action": name,
                "chosen": j == self.row,
                "reward": float(self.rewards[j]),
                "penalties": {c: float(v) for c, v in zip(self.constraints, penalties[j])},
                "value": float(self.values[j]),
                **({} if chances is None else {"probability": float(chances[j])}),
            }
            for j, name in enumerate(self.actions)
        ]

    def frame_rows(self) -> list[dict[str, Any]]:
        return [
            {
                **{name: value for name, value in row.items() if name != "penalties"},
                **{f"penalty {name}": value for name, value in row["penalties"].items()},
            }
            for row in self.rows()
        ]

    def html_parts(self) -> list[displays.Html]:
        columns = self._columns()
        order = list(range(len(self.actions)))
        if len(order) > _ROWS:
            best = np.argsort(-np.nan_to_num(self.values, nan=-np.inf), kind="stable")[:_ROWS].tolist()
            order = sorted({self.row, *best})
        rows = [["→" if j == self.row else "", *(cells[j] for _, cells in columns)] for j in order]
        found = displays.table(["", *(head for head, _ in columns)], rows, marked=order.index(self.row))
        rest = len(self.actions) - len(order)
        below = [f"{rest:,} more actions, of lower value"] if rest else []
        return [found, displays.lines_of([*below, *self._last_lines()])]

    def _repr_html_(self) -> str:
        return displays.page(f"Why {self.actions[self.row]} in round {self.round:,}", *self.html_parts())

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        columns = self._columns()
        widths = [max(len(head), 6, *map(len, cells)) + 3 for head, cells in columns]
        lines = [" " + "".join(head.rjust(w) for (head, _), w in zip(columns, widths))]
        for j in range(len(self.actions)):
            mark = "→" if j == self.row else " "
            lines.append(mark + "".join(cells[j].rjust(w) for (_, cells), w in zip(columns, widths)))
        return "\n".join([*lines, *self._last_lines()])

    def _columns(self) -> list[tuple[str, list[str]]]:
        # Many constraints make a wide table: show the heaviest ones, and the rest as one sum.
        penalties = self.penalties
        weight = np.abs(penalties).max(axis=0, initial=0.0)
        shown = sorted(np.argsort(-weight, kind="stable")[:_SHOWN].tolist())
        rest = [k for k in range(len(self.queue)) if k not in shown]
        columns = [
            ("action", list(self.actions)),
            ("reward" if self.words else "reward ≤", _numbers(self.rewards)),
        ]
        columns += [(f"penalty {self.constraints[k]}", _numbers(penalties[:, k])) for k in shown]
        if rest:
            columns.append((f"{len(rest)} more penalties", _numbers(penalties[:, rest].sum(axis=1))))
        columns.append(("value", _numbers(self.values)))
        if self.probabilities is not None:
            columns.append(("probability", _numbers(self.probabilities)))
        return columns

    def _last_lines(self) -> list[str]:
        last = f"round {self.round}"
        if self.words:
            more = len(self.words) - _SHOWN
            return [*self.words[:_SHOWN], *([f"{more} more prices"] if more > 0 else []), last]
        if len(self.queue):
            queue = ", ".join(f"{q:.4g}" for q in self.queue[:_SHOWN]) + (
                ", …" if len(self.queue) > _SHOWN else ""
            )
            last += f": V = {self.V:.4g}, ε = {self.epsilon:.4g}, queue = ({queue})"
        return [last]


_SHOWN = 6
_ROWS = 20  # of a notebook's table


def _numbers(values: Array) -> list[str]:
    return [f"{v:.4f}" for v in np.round(values, 4) + 0.0]  # + 0.0 turns −0 into 0
