"""What can be asked of an experiment, and what is answered: each operation is a function of a batch and a request.

`app.ROUTES` says which request calls which operation, `Experiment.process` runs them. The first line of a docstring is the
summary in the OpenAPI document.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.service.bodies import (
    Answer,
    DecisionRequest,
    EventQuery,
    ModeRequest,
    OutcomeQuery,
    OutcomeRequest,
    PageQuery,
    Refusal,
    RollbackRequest,
    SnapshotRequest,
    fingerprint,
)
from tightrope.service.experiment import Batch
from tightrope.service.experiment_state import ExperimentState
from tightrope.service.journal import (
    KINDS,
    Decided,
    Expired,
    Learnt,
    ModeChanged,
    Refused,
    RolledBack,
    Row,
    Snapshot,
    Started,
    entry_of,
)
from tightrope.service.snapshots import digest_of

__all__ = [
    "change_mode",
    "decide",
    "learn",
    "list_changes",
    "list_decisions",
    "list_outcomes",
    "list_snapshots",
    "roll_back",
    "show_decision",
    "show_history",
    "show_state",
    "take_snapshot",
]


# --- what callers do ---


def decide(batch: Batch, request: DecisionRequest) -> Answer:
    """Choose an action, once for each event_id."""
    event_id = request.event_id if request.event_id is not None else _new_event_id()
    entry = batch.decided.get(event_id)
    if entry is None:
        entry = batch.state.decide(event_id, request, time=batch.now)
        batch.write(entry)
    elif entry.fingerprint != fingerprint(request):
        raise Refusal(
            409,
            "differs",
            f"event_id {event_id!r} was decided already, for another request: one decision for each event",
        )
    return Answer.of(_decision(batch.state, entry, explain=request.explain))


def learn(batch: Batch, request: OutcomeRequest) -> Answer:
    """The outcome of a decision, each part of it once."""
    state, event_id = batch.state, request.event_id
    decided = batch.decided.get(event_id)
    if decided is None:
        batch.write(state.refuse(event_id, "unknown", request.reward, request.costs))
        raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    fresh: dict[str, Any] = {}
    earlier = _outcome(batch.learnt.get(event_id, ()))
    for part in ("reward", "costs"):
        value = getattr(request, part)
        if value is None:
            continue
        if part not in earlier:
            fresh[part] = value
        elif earlier[part] != value:
            batch.write(state.refuse(event_id, "differs", request.reward, request.costs))
            raise Refusal(
                409,
                "differs",
                f"{part} of event_id {event_id!r} was {earlier[part]!r} before, but now is {value!r}",
            )
    waiting = state.waiting.get(decided.number)
    if fresh and waiting is None:
        batch.write(state.refuse(event_id, "late", request.reward, request.costs))
        raise Refusal(
            410,
            "late",
            f"the decision of event_id {event_id!r} is waited for no longer: it expired, or was rolled back",
        )
    if fresh:
        batch.write(state.learn(decided.number, **fresh))
        waiting = state.waiting.get(decided.number)
    awaits = 0 if waiting is None else waiting[0]
    missing = [name for name, bit in (("reward", AWAITS_REWARD), ("costs", AWAITS_COSTS)) if awaits & bit]
    return Answer.of({"event_id": event_id, "sequence": decided.number, "awaits": missing})


# --- what readers ask ---


def show_decision(batch: Batch, request: EventQuery) -> Answer:
    """One decision, its outcome so far, and why it was taken."""
    event_id = request.event_id
    entry = batch.decided.get(event_id)
    if entry is None:
        raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    return Answer.of(
        {
            **_decision(batch.state, entry, explain=True),
            "request": entry.request,
            "outcome": _outcome(batch.learnt.get(event_id, ())),
            "pending": entry.number in batch.state.waiting,
        }
    )


def list_decisions(batch: Batch, request: PageQuery) -> Answer:
    """The newest decisions, and why they were taken."""
    rows = batch.journal.select([KINDS[Decided]], before=request.before, limit=request.limit)
    listed = []
    for row in rows:
        entry = entry_of(row)
        assert isinstance(entry, Decided)
        shown = _decision(batch.state, entry, explain=True)
        shown |= {"position": row.position, "time": row.time / 1e6, "request": entry.request}
        listed.append(shown)
    return Answer.of({"decisions": listed, "before": _next_page(rows, request)})


def list_outcomes(batch: Batch, request: OutcomeQuery) -> Answer:
    """Outcomes that came late, were rejected, are missing, or are still waited for."""
    if request.status == "pending":
        listed, at = _pending(batch.state, request)
        return Answer.of({"outcomes": listed, "before": at})
    kind = Expired if request.status == "missing" else Refused
    rows = batch.journal.select([KINDS[kind]], before=request.before, limit=request.limit)
    listed = []
    for row in rows:
        entry, when = entry_of(row), row.time / 1e6
        if isinstance(entry, Expired):
            listed += [
                {"event_id": event_id, "sequence": number, "expired": when}
                for number, event_id in zip(entry.numbers, entry.event_ids, strict=True)
            ]
        elif isinstance(entry, Refused) and (entry.reason == "late") == (request.status == "late"):
            listed.append({**msgspec.structs.asdict(entry), "time": when})
    return Answer.of({"outcomes": listed, "before": _next_page(rows, request)})


def show_state(batch: Batch, request: None) -> Answer:
    """Where the experiment stands."""
    state = batch.state
    spec, tally = state.spec, state.tally
    decisions = sum(tally.actions)
    totals, queue = state.totals.tolist(), state.queue.tolist()
    return Answer.of(
        {
            "experiment": spec.name,
            "position": state.position,
            "time": state.time / 1e6,
            **_mode(state),
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
                {"name": cap.name, "rule": str(cap.rule), "total": float(cap.total), "used": float(cap.used)}
                for cap in state.caps
            ],
            "outcomes": {
                "rewards": tally.rewards,
                "mean_reward": tally.reward_sum / tally.rewards if tally.rewards else None,
                "complete": tally.complete,
                "pending": len(state.waiting),
                "missing": tally.expired,
                "late": tally.late,
                "rejected": tally.unknown + tally.differs,
                "rolled_back": tally.rolled_back,
            },
            "shadow_decisions": tally.shadow,
            "slater": state.slater,
        }
    )


def show_history(batch: Batch, request: None) -> Answer:
    """Where it stood, at up to 240 moments since its beginning."""
    spec = batch.state.spec
    names = () if spec.rules is None else spec.rules.names
    K = len(batch.state.queue)
    edges = [4, 4 + K, 4 + 2 * K]
    points = np.array(batch.state.trail, dtype=float).reshape(-1, edges[2] + len(spec.actions))
    return Answer.of(
        {
            "decisions": points[:, 0].tolist(),
            "time": (points[:, 1] / 1e6).tolist(),
            "rewards": points[:, 2].tolist(),
            "reward_sum": points[:, 3].tolist(),
            "cumulative_costs": {name: points[:, edges[0] + k].tolist() for k, name in enumerate(names)},
            "queues": {name: points[:, edges[1] + k].tolist() for k, name in enumerate(names)},
            "actions": {name: points[:, edges[2] + j].tolist() for j, name in enumerate(spec.actions)},
        }
    )


def list_changes(batch: Batch, request: PageQuery) -> Answer:
    """Changes of its configuration."""
    kinds = [KINDS[kind] for kind in (Started, ModeChanged, RolledBack)]
    rows = batch.journal.select(kinds, before=request.before, limit=request.limit)
    listed = []
    for row in rows:
        plain = msgspec.to_builtins(entry_of(row), builtin_types=(bytes,))
        plain.pop("state", None)
        listed.append({"position": row.position, "time": row.time / 1e6, **plain})
    return Answer.of({"changes": listed, "before": _next_page(rows, request)})


def list_snapshots(batch: Batch, request: None) -> Answer:
    """Snapshots that can be rolled back to."""
    return Answer.of({"snapshots": [_snapshot(one) for one in batch.journal.snapshots()]})


# --- what administrators change ---


def change_mode(batch: Batch, request: ModeRequest) -> Answer:
    """Go live, into shadow mode, or pause."""
    batch.write(batch.state.change_mode(request.mode, request.default))
    return Answer.of(_mode(batch.state))


def take_snapshot(batch: Batch, request: SnapshotRequest) -> Answer:
    """Keep the present state under a name."""
    return Answer.of(_snapshot(batch.snapshot(request.label)))


def roll_back(batch: Batch, request: RollbackRequest) -> Answer:
    """Go back to a snapshot. Hard caps stay as they are."""
    state, wanted = batch.state, batch.journal.snapshot(request.position)
    if wanted is None:
        raise Refusal(404, "unknown", f"there is no snapshot at position {request.position}")
    if wanted.position < state.configured:
        raise Refusal(
            409,
            "differs",
            f"the rules have changed at position {state.configured}, after this snapshot was taken",
        )
    if digest_of(wanted.state) != wanted.digest:
        raise Refusal(
            409, "damaged", f"the snapshot at position {request.position} does not match its digest"
        )
    batch.write(state.roll_back(request.position, wanted.state, request.restore))
    return Answer.of({"position": state.position, "restored": _snapshot(wanted)})


# --- parts of answers, as plain data for JSON ---


def _decision(state: ExperimentState, entry: Decided, *, explain: bool) -> dict[str, Any]:
    """The answer to whoever asked for a decision."""
    actions = state.spec.actions
    shown: dict[str, Any] = {
        "event_id": entry.event_id,
        "action": entry.action,
        "name": actions[entry.action],
        "sequence": entry.number,
    }
    if entry.proposed is not None:
        shown["proposed"] = actions[entry.proposed]
    if explain:
        why = state.explain(entry)
        shown["explanation"] = {
            "actions": why.rows(),
            "queue": dict(zip(why.constraints, why.queue.tolist(), strict=True)),
            "V": why.V,
            "epsilon": why.epsilon,
        }
    return shown


def _outcome(parts: Sequence[Learnt]) -> dict[str, Any]:
    """The parts of an outcome together."""
    together: dict[str, Any] = {}
    for part in parts:
        if part.reward is not None:
            together["reward"] = part.reward
        if part.costs is not None:
            together["costs"] = part.costs
    return together


def _pending(state: ExperimentState, request: OutcomeQuery) -> tuple[list[dict[str, Any]], int | None]:
    """Oldest first, since these will be missing next; `before` is the number at which the next page begins."""
    listed: list[dict[str, Any]] = []
    for number, (*_, event) in state.waiting.items():
        if request.before is not None and number < request.before:
            continue
        if len(listed) == request.limit:
            return listed, number
        listed.append({"event_id": event.event_id, "sequence": number, "time": event.time / 1e6})
    return listed, None


def _mode(state: ExperimentState) -> dict[str, Any]:
    """Live, shadow or paused, and what shadow mode serves."""
    default = state.default
    return {"mode": state.mode, "default": None if default is None else state.spec.actions[default]}


def _snapshot(taken: Snapshot) -> dict[str, Any]:
    """A snapshot without its state."""
    position, time, digest, label, _ = taken
    return {"position": position, "time": time / 1e6, "digest": digest, "label": label}


def _next_page(rows: Sequence[Row], request: PageQuery) -> int | None:
    return rows[-1].position if len(rows) == request.limit else None


def _new_event_id() -> str:
    """Unique, and in the order of time, which keeps the journal's index compact."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
