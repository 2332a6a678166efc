"""What the state of an experiment looks like to those who read it, as plain data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.service.journal import Decided, Learnt, Snapshot
from tightrope.service.machine import Machine

__all__ = ["decision", "history", "mode", "outcome", "pending", "snapshot", "state"]


def decision(machine: Machine, entry: Decided, *, explain: bool) -> dict[str, Any]:
    """The answer to whoever asked for a decision."""
    actions = machine.spec.actions
    shown: dict[str, Any] = {
        "event_id": entry.event_id,
        "action": entry.action,
        "name": actions[entry.action],
        "sequence": entry.number,
    }
    if entry.proposed is not None:
        shown["proposed"] = actions[entry.proposed]
    if explain:
        why = machine.explain(entry)
        shown["explanation"] = {
            "actions": why.rows(),
            "queue": dict(zip(why.constraints, why.queue.tolist(), strict=True)),
            "V": why.V,
            "epsilon": why.epsilon,
        }
    return shown


def outcome(parts: Sequence[Learnt]) -> dict[str, Any]:
    """The parts of an outcome together."""
    together: dict[str, Any] = {}
    for part in parts:
        if part.reward is not None:
            together["reward"] = part.reward
        if part.costs is not None:
            together["costs"] = part.costs
    return together


def mode(machine: Machine) -> dict[str, Any]:
    """Live, shadow or paused, and what shadow mode serves."""
    default = machine.default
    return {"mode": machine.mode, "default": None if default is None else machine.spec.actions[default]}


def state(machine: Machine) -> dict[str, Any]:
    """Where an experiment stands."""
    spec, tally = machine.spec, machine.tally
    decisions = sum(tally.actions)
    totals, queue = machine.policy.totals.tolist(), machine.queue.tolist()
    return {
        "experiment": spec.name,
        "position": machine.position,
        "time": machine.time / 1e6,
        **mode(machine),
        "decisions": decisions,
        "actions": [
            {"name": name, "decisions": n, "share": n / decisions if decisions else 0.0}
            for name, n in zip(spec.actions, tally.actions, strict=True)
        ],
        "constraints": [
            {
                "name": column.name,
                "rule": str(column.rule),
                "side": column.side,
                "seen": column.rule.seen,
                "cumulative_cost": totals[k],
                "queue": queue[k],
            }
            for k, column in enumerate(spec.rules.columns if spec.rules is not None else ())
        ],
        "hard_caps": [
            {
                "name": cap.name,
                "rule": str(cap.rule),
                "total": float(cap.total),
                "used": float(cap.used),
            }
            for cap in machine.caps
        ],
        "outcomes": {
            "rewards": tally.rewards,
            "mean_reward": tally.reward_sum / tally.rewards if tally.rewards else None,
            "complete": tally.complete,
            "pending": len(machine.waiting),
            "missing": tally.expired,
            "late": tally.late,
            "rejected": tally.unknown + tally.differs,
            "rolled_back": tally.rolled_back,
        },
        "shadow_decisions": tally.shadow,
        "slater": machine.policy.slater,
    }


def history(machine: Machine) -> dict[str, Any]:
    """Where it stood, at some moments since its beginning."""
    spec = machine.spec
    K = machine.policy.n_constraints
    names = () if spec.rules is None else spec.rules.names
    edges = [4, 4 + K, 4 + 2 * K]
    points = np.array(machine.trail, dtype=float).reshape(-1, edges[2] + len(spec.actions))
    return {
        "decisions": points[:, 0].tolist(),
        "time": (points[:, 1] / 1e6).tolist(),
        "rewards": points[:, 2].tolist(),
        "reward_sum": points[:, 3].tolist(),
        "cumulative_costs": {name: points[:, edges[0] + k].tolist() for k, name in enumerate(names)},
        "queues": {name: points[:, edges[1] + k].tolist() for k, name in enumerate(names)},
        "actions": {name: points[:, edges[2] + j].tolist() for j, name in enumerate(spec.actions)},
    }


def pending(machine: Machine, before: int | None, limit: int) -> tuple[list[dict[str, Any]], int | None]:
    """Oldest first, since these will be missing next; `before` is the number at which the next page begins."""
    listed: list[dict[str, Any]] = []
    for number, entry in machine.waiting.items():
        if before is not None and number < before:
            continue
        if len(listed) == limit:
            return listed, number
        listed.append({"event_id": entry.event_id, "sequence": number, "time": entry.time / 1e6})
    return listed, None


def snapshot(taken: Snapshot) -> dict[str, Any]:
    """A snapshot without its state."""
    return {
        "position": taken.position,
        "time": taken.time / 1e6,
        "digest": taken.digest,
        "label": taken.label,
    }
