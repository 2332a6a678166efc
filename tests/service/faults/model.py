"""An experiment as simple as it can be said: dictionaries, exact sums, the policy called by hand; no journal, no batches.

What it answers is what the service must answer, whatever was retried, reordered, repeated or interrupted.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import tightrope as tr
from tightrope.spec import Spec
from workbench import ward

NAMES = ("icu", "surgery", "other")
CAP_ICU, CAP_HOURS = 6, Decimal("9.5")
EXPIRE, MAX_PENDING = 40.0, 12


def model_spec() -> Spec:
    """Two hard caps: one on a count that is known at once, one on hours that are seen after acting."""
    return ward(
        rule=[
            {"kind": "capacity", "action": "icu", "at_most": 0.4, "hard": True, "total": CAP_ICU},
            {
                "kind": "budget",
                "name": "hours",
                "at_most": 0.6,
                "range": [0, 1],
                "seen": "after",
                "hard": True,
                "total": float(CAP_HOURS),
            },
        ]
    )


@dataclass
class Event:
    body: dict[str, Any]
    sequence: int
    action: int
    proposed: int | None
    time: float
    reward: float | None = None
    hours: float | None = None
    waited_for: bool = True


@dataclass
class Model:
    events: dict[str, Event] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    mode: str = "live"
    icu: int = 0
    hours: Decimal = Decimal(0)
    late: int = 0
    rejected: int = 0
    missing: int = 0
    shadow: int = 0

    def __post_init__(self) -> None:
        spec = model_spec()
        assert spec.rules is not None
        self.features = spec.encoder
        self.policy = tr.PessimisticOptimistic(
            reward=tr.DisjointRidge(3, 3), cost=tr.DisjointRidge(3, 3), constraints=spec.rules, slater=0.2
        )

    def copy(self) -> Model:
        return copy.deepcopy(self)

    def begin(self, now: float) -> None:
        """What happens before the operations of a batch: the old, and the oldest of too many, are waited for no longer."""
        excess = len(self.waiting) - MAX_PENDING
        while self.waiting and (excess > 0 or self.events[self.waiting[0]].time <= now - EXPIRE):
            event = self.events[self.waiting.pop(0)]
            event.waited_for = False
            self.policy.forget(event.sequence)
            self.missing += 1
            excess -= 1

    def decide(self, event_id: str, body: dict[str, Any], now: float) -> tuple[int, Any]:
        """Status, and the answer or the error's code."""
        known = self.events.get(event_id)
        if known is not None:
            return (200, self.answer(event_id)) if known.body == body else (409, "differs")
        if self.mode == "paused":
            return 503, "paused"
        room = self.hours + 1 <= CAP_HOURS
        allowed = [j for j in range(3) if room and (j != 0 or self.icu < CAP_ICU)]
        if not allowed:
            return 409, "exhausted"
        x = self.features.vector(body["context"])
        ids = None if len(allowed) == 3 else allowed
        proposed = None
        if self.mode == "shadow":
            proposed = self.policy.copy().decide(x, cost_features=x, actions=ids).action
            decision = self.policy.decide(x, cost_features=x, actions=[2])
            self.shadow += 1
        else:
            decision = self.policy.decide(x, cost_features=x, actions=ids)
        self.icu += decision.action == 0
        self.hours += 1
        self.events[event_id] = Event(body, decision.number, decision.action, proposed, now)
        self.waiting.append(event_id)
        return 200, self.answer(event_id)

    def answer(self, event_id: str) -> dict[str, Any]:
        event = self.events[event_id]
        shown: dict[str, Any] = {
            "event_id": event_id,
            "action": event.action,
            "name": NAMES[event.action],
            "sequence": event.sequence,
            "probability": 1.0,  # the policy does not draw
        }
        if event.proposed is not None:
            shown["proposed"] = NAMES[event.proposed]
        return shown

    def learn(self, event_id: str, reward: float | None, hours: float | None) -> tuple[int, Any]:
        event = self.events.get(event_id)
        if event is None:
            self.rejected += 1
            return 404, "unknown"
        for new, old in ((reward, event.reward), (hours, event.hours)):
            if new is not None and old is not None and new != old:
                self.rejected += 1
                return 409, "differs"
        fresh = reward if event.reward is None else None, hours if event.hours is None else None
        if fresh != (None, None):
            if not event.waited_for:
                self.late += 1
                return 410, "late"
            self._apply(event_id, event, *fresh)
        awaits = [
            name
            for name, value in (("reward", event.reward), ("usage", event.hours))
            if event.waited_for and value is None
        ]
        return 200, {"event_id": event_id, "sequence": event.sequence, "awaits": awaits}

    def _apply(self, event_id: str, event: Event, reward: float | None, hours: float | None) -> None:
        self.policy.learn(event.sequence, reward, usage=None if hours is None else {"hours": hours})
        if reward is not None:
            event.reward = reward
        if hours is not None:
            event.hours = hours
            self.hours += Decimal(repr(hours)) - 1
        if event.reward is not None and event.hours is not None:
            event.waited_for = False
            self.waiting.remove(event_id)

    def state(self) -> dict[str, Any]:
        """The part of the service's state that can be said from here."""
        rewards = [event.reward for event in self.events.values() if event.reward is not None]
        decided = [event.action for event in self.events.values()]
        return {
            "mode": self.mode,
            "actions": [decided.count(j) for j in range(3)],
            "queue": self.policy.queue.tolist(),
            "costs": self.policy.totals.tolist(),
            "caps": [float(self.icu), float(self.hours)],
            "rewards": len(rewards),
            "pending": len(self.waiting),
            "missing": self.missing,
            "late": self.late,
            "rejected": self.rejected,
            "shadow": self.shadow,
        }


def shown(state: dict[str, Any]) -> dict[str, Any]:
    """The same part of what the service answers."""
    outcomes = state["outcomes"]
    return {
        "mode": state["mode"],
        "actions": [one["decisions"] for one in state["actions"]],
        "queue": [one["queue"] for one in state["constraints"]],
        "costs": [one["cumulative_cost"] for one in state["constraints"]],
        "caps": [one["used"] for one in state["hard_caps"]],
        "shadow": state["shadow_decisions"],
        **{name: outcomes[name] for name in ("rewards", "pending", "missing", "late", "rejected")},
    }
