"""What `decide` returns: the action, and on request why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.validation import Array


class Decision:
    """One decision: `action` (an id), `row` (its row among those on offer), `number` (counts the policy's decisions from 0).

    `explain` shows the numbers behind it. A decision is what `learn` takes when the outcome is known; the number alone does too.
    """

    __slots__ = ("_behind", "action", "number", "owner", "row")

    def __init__(
        self,
        action: int,
        row: int,
        number: int,
        owner: int,
        ids: NDArray[np.int64] | None,
        trace: Array | Callable[[], Array] | None,
        names: tuple[tuple[str, ...] | None, tuple[str, ...] | None],
        probability: float = 1.0,
        shown: int | None = None,
    ) -> None:
        self.action = action
        self.row = row
        self.number = number
        self.owner = owner
        # One attribute for what is seldom asked for: setting each on its own would cost every decision.
        self._behind = (ids, trace, names, probability, shown)

    @property
    def probability(self) -> float:
        """With what probability a randomised policy took this action; 1 for one that is not randomised."""
        return self._behind[3]

    @property
    def trace(self) -> Array | None:
        """The numbers behind the decision, packed as in `tightrope.kernels`; None where the policy keeps none."""
        trace = self._behind[1]
        return trace() if callable(trace) else trace

    def explain(self) -> Explanation:
        """The optimistic reward, the penalty by constraint and the value of every action on offer.

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
        ids, _, (actions, constraints), _, shown = self._behind
        trace = self.trace
        if trace is None or ids is None:
            raise InvalidInput("only a pessimistic-optimistic policy keeps the numbers behind its decisions.")
        seen = kernels.trace_views(trace, len(ids))
        names = map(str, range(len(seen.queue))) if constraints is None else constraints
        return Explanation(
            round=self.number + 1,
            row=self.row if shown is None else shown,
            actions=tuple(str(a) if actions is None else actions[a] for a in ids.tolist()),
            constraints=tuple(names),
            rewards=seen.rewards.copy(),
            costs=seen.costs.copy(),
            penalties=seen.costs * seen.queue / seen.V,
            values=seen.values.copy(),
            queue=seen.queue.copy(),
            V=seen.V,
            epsilon=seen.epsilon,
        )

    def __repr__(self) -> str:
        return f"Decision(action={self.action}, row={self.row}, number={self.number})"


@dataclass(frozen=True, eq=False)
class Explanation:
    """The numbers behind a decision; `print` it for a table. value = reward − Σ penalties, by action."""

    round: int
    row: int
    actions: tuple[str, ...]
    constraints: tuple[str, ...]
    rewards: Array
    costs: Array
    penalties: Array
    values: Array
    queue: Array
    V: float
    epsilon: float

    def rows(self) -> list[dict[str, str | float | bool | dict[str, float]]]:
        """One plain dict for each action on offer, ready for JSON."""
        return [
            {
                "action": name,
                "chosen": j == self.row,
                "reward": float(self.rewards[j]),
                "penalties": {c: float(v) for c, v in zip(self.constraints, self.penalties[j])},
                "value": float(self.values[j]),
            }
            for j, name in enumerate(self.actions)
        ]

    def __str__(self) -> str:
        # Many constraints make a wide table: show the ones that weigh most, and the rest as one sum.
        weight = np.abs(self.penalties).max(axis=0, initial=0.0)
        shown = sorted(np.argsort(-weight, kind="stable")[:_SHOWN].tolist())
        rest = [k for k in range(len(self.queue)) if k not in shown]
        columns = [("action", list(self.actions)), ("reward ≤", _numbers(self.rewards))]
        columns += [(f"penalty {self.constraints[k]}", _numbers(self.penalties[:, k])) for k in shown]
        if rest:
            columns.append((f"{len(rest)} more penalties", _numbers(self.penalties[:, rest].sum(axis=1))))
        columns.append(("value", _numbers(self.values)))
        widths = [max(len(head), 6, *map(len, cells)) + 3 for head, cells in columns]
        lines = [" " + "".join(head.rjust(w) for (head, _), w in zip(columns, widths))]
        for j in range(len(self.actions)):
            mark = "→" if j == self.row else " "
            lines.append(mark + "".join(cells[j].rjust(w) for (_, cells), w in zip(columns, widths)))
        last = f"round {self.round}"
        if len(self.queue):
            queue = ", ".join(f"{q:.4g}" for q in self.queue[:_SHOWN]) + (
                ", …" if len(self.queue) > _SHOWN else ""
            )
            last += f": V = {self.V:.4g}, ε = {self.epsilon:.4g}, queue = ({queue})"
        return "\n".join([*lines, last])


_SHOWN = 6


def _numbers(values: Array) -> list[str]:
    return [f"{v:.4f}" for v in np.round(values, 4) + 0.0]  # + 0.0 turns −0 into 0
