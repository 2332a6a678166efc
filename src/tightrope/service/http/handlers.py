"""What can be asked of an experiment, and what is answered: each operation is a function of a batch and a request.

`app.ROUTES` says which request calls which operation, `Experiment.process` runs them. The first line of a docstring is the
summary in the OpenAPI document.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from tightrope.actions import counted
from tightrope.errors import SolverError
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.service import journal, requests
from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment import Batch, erasure
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.requests import fingerprint

log = logging.getLogger("tightrope.service")

_ROWS_AT_ONCE: Final = 16

# --- what callers do ---


def decide(batch: Batch, request: requests.DecisionRequest) -> Answer:
    """Choose an action, once for each event_id."""
    event_id = request.event_id if request.event_id is not None else _new_event_id()
    entry = batch.decision_of(event_id)
    if entry is None:
        entry = batch.state.decide(event_id, request, time=batch.now)
        batch.write(entry)
    elif entry.fingerprint != fingerprint(request):
        why = f"event_id {event_id!r} was decided already, for another request: one decision for each event"
        raise Refusal(409, "differs", why)
    return Answer.of(_decision(batch.state, entry, explain=request.explain))


def learn(batch: Batch, request: requests.OutcomeRequest) -> Answer:
    """The outcome of a decision, each part of it once."""
    state, event_id = batch.state, request.event_id
    if request.reward is not None:
        state.require_reward(request.reward)
    decided = batch.decision_of(event_id)
    if decided is None:
        batch.write(state.refuse(event_id, "unknown", request.reward, _plausible(state, request.usage)))
        raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    fresh: dict[str, Any] = {}
    earlier = _outcome(batch.learnt.get(event_id, ()))
    for part in ("reward", "usage"):
        value = getattr(request, part)
        if value is None:
            continue
        if part not in earlier:
            fresh[part] = value
        elif earlier[part] != value:
            batch.write(state.refuse(event_id, "differs", request.reward, _plausible(state, request.usage)))
            was, now = (
                repr(one) if len(repr(one)) <= 200 else f"{one!r:.197}..." for one in (earlier[part], value)
            )
            why = f"{part} of event_id {event_id!r} was {was} before, but now is {now}"
            raise Refusal(409, "differs", why)
    waiting = state.waiting.get(decided.number)
    if fresh and waiting is None:
        batch.write(state.refuse(event_id, "late", request.reward, _plausible(state, request.usage)))
        why = f"the decision of event_id {event_id!r} is waited for no longer: it expired, or was rolled back"
        raise Refusal(410, "late", why)
    if fresh:
        batch.write(state.learn(decided.number, **fresh))
        waiting = state.waiting.get(decided.number)
    awaits = 0 if waiting is None else waiting[0]
    missing = [name for name, bit in (("reward", AWAITS_REWARD), ("usage", AWAITS_COSTS)) if awaits & bit]
    return Answer.of({"event_id": event_id, "sequence": decided.number, "awaits": missing})


# --- what readers ask ---


def show_decision(batch: Batch, request: requests.EventQuery) -> Answer:
    """One decision, its outcome so far, and why it was taken."""
    event_id = request.event_id
    entry = batch.decision_of(event_id)
    if entry is None:
        raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    shown = _explained(batch.state, entry)
    outcome, pending = _outcome(batch.learnt.get(event_id, ())), entry.number in batch.state.waiting
    return Answer.of({**shown, "request": entry.request, "outcome": outcome, "pending": pending})


def list_decisions(batch: Batch, request: requests.PageQuery) -> Answer:
    """The newest decisions, and why they were taken."""
    return _page(batch, request, "decisions", lambda row: [_listed(batch.state, row)], journal.Decided)


def list_outcomes(batch: Batch, request: requests.OutcomeQuery) -> Answer:
    """Outcomes that came late, were rejected, are missing, or are still waited for."""
    if request.status == "pending":
        listed, before = _pending(batch.state, request)
        return Answer.of({"outcomes": listed, "before": before})

    def shown(row: journal.Row) -> list[dict[str, Any]]:
        when = row.time / 1e6
        entry = _entry(row)
        if entry is None:
            return [{"time": when, "damaged": True}]
        if isinstance(entry, journal.Expired):
            return [
                {"event_id": event_id, "sequence": number, "expired": when}
                for number, event_id in zip(entry.numbers, entry.event_ids, strict=True)
            ]
        if isinstance(entry, journal.Refused) and (entry.reason == "late") == (request.status == "late"):
            return [{**msgspec.structs.asdict(entry), "time": when}]
        return []

    kind = journal.Expired if request.status == "missing" else journal.Refused
    return _page(batch, request, "outcomes", shown, kind)


def show_state(batch: Batch, request: None) -> Answer:
    """Where the experiment stands."""
    state = batch.state
    spec, tally = state.spec, state.tally
    decisions = tally.decisions
    return Answer.of(
        {
            "experiment": spec.name,
            "policy": spec.policies[0].kind,
            "position": state.position,
            "head": state.head.hex(),
            "time": state.time / 1e6,
            **_mode(state),
            "decisions": decisions,
            "actions": [
                {
                    "name": name,
                    "decisions": n,
                    "share": n / decisions if decisions else 0.0,
                    "offered": counted(tally.offered, i),
                }
                for i, name in enumerate(spec.actions)
                for n in [counted(tally.actions, i)]
            ],
            "constraints": _constraints(state),
            "hard_caps": [_hard_cap(state, k) for k in range(len(state.ledger.caps))],
            "outcomes": {
                "rewards": tally.rewards,
                "mean_reward": _mean(tally.reward_sum, tally.rewards),
                "complete": tally.complete,
                "pending": len(state.waiting),
                "missing": tally.expired,
                "late": tally.late,
                "rejected": tally.unknown + tally.differs,
                "rolled_back": tally.rolled_back,
            },
            "shadow_decisions": tally.shadow,
            "outside": _outside(state),
            "slater": state.slater,
            "concerns": [
                {"kind": one.kind, "message": one.message, "remedy": one.remedy} for one in state.concerns
            ],
        }
    )


def show_history(batch: Batch, request: None) -> Answer:
    """Where it stood, at up to 240 moments since its beginning."""
    state, trail = batch.state, list(batch.state.trail)
    names = [column.name for column in state.columns]

    def by_rule(values: Any) -> dict[str, list[float]]:
        return dict(zip(names, np.array(values, dtype=float).reshape(len(trail), len(names)).T.tolist()))

    totals, queues = ([list(getattr(one, part)) for one in trail] for part in ("totals", "queue"))
    shown: dict[str, Any] = {
        "decisions": [float(one.decisions) for one in trail],
        "time": [one.time / 1e6 for one in trail],
        "rewards": [float(one.rewards) for one in trail],
        "reward_sum": [one.reward_sum for one in trail],
        "cumulative_costs": by_rule(totals),
        "left": by_rule([0.0 - state.units.totals(one) for one in totals]),
        "allowed": by_rule([one.allowed for one in trail]),
        "queues": by_rule(queues),
    }
    if state.prices is not None:
        shown["prices"] = by_rule([state.units.unit_prices(one) for one in queues])
    shown["actions"] = {
        name: [float(counted(one.actions, i)) for one in trail] for i, name in enumerate(state.spec.actions)
    }
    return Answer.of(shown)


def show_rules(batch: Batch, request: None) -> Answer:
    """About what each rule costs in reward: what is earned with all of them, and without each, on remembered rounds."""
    find = getattr(batch.state.policy, "cost_of_rules", None)
    found, why = None, "this policy keeps no rounds to judge by"
    if find is not None:
        try:
            found, why = find(), "too few rounds are remembered, or the rules can't all be met on them"
        except SolverError as error:
            why = f"the linear program could not be solved: {error}"
    if found is None:
        return Answer.of({"reward": None, "rounds": 0, "rules": [], "why": why})
    rules = [{"name": name, "without": value} for name, value in found.without.items()]
    return Answer.of({"reward": found.reward, "rounds": found.rounds, "rules": rules, "why": None})


def list_changes(batch: Batch, request: requests.PageQuery) -> Answer:
    """Changes of its configuration."""

    def shown(row: journal.Row) -> list[dict[str, Any]]:
        entry = _entry(row)
        if isinstance(entry, journal.Erased) and entry.goes_on:
            return []
        plain = {"kind": journal.tag_of(row), "damaged": True}
        if entry is not None:
            plain = msgspec.to_builtins(entry, builtin_types=(bytes,))
            plain.pop("state", None)
        known = {name: value for name, value in plain.items() if value is not None}
        return [{"position": row.position, "time": row.time / 1e6, **known}]

    return _page(batch, request, "changes", shown, *_CHANGES)


def list_snapshots(batch: Batch, request: None) -> Answer:
    """Snapshots that can be rolled back to."""
    return Answer.of({"snapshots": [_snapshot(one) for one in batch.journal.snapshots()]})


_CHANGES = (journal.Started, journal.ModeChanged, journal.RolledBack, journal.Erased, journal.WarmStarted)

# --- what administrators change ---


def change_mode(batch: Batch, request: requests.ModeRequest) -> Answer:
    """Go live, into shadow mode, or pause."""
    batch.write(batch.state.change_mode(request.mode, request.default))
    return Answer.of(_mode(batch.state))


def take_snapshot(batch: Batch, request: requests.SnapshotRequest) -> Answer:
    """Keep the present state under a name."""
    return Answer.of(_snapshot(batch.snapshot(request.label)))


def roll_back(batch: Batch, request: requests.RollbackRequest) -> Answer:
    """Go back to a snapshot. Hard caps stay as they are."""
    state, wanted = batch.state, batch.journal.snapshot(request.position)
    if wanted is None:
        raise Refusal(404, "unknown", f"there is no snapshot at position {request.position}")
    if wanted.position < state.configured:
        why = f"the rules have changed at position {state.configured}, after this snapshot was taken"
        raise Refusal(409, "differs", why)
    fault = journal.fault_of(wanted, journal.bound_snapshots(batch.journal))
    if fault is not None:
        raise Refusal(409, "damaged", f"the snapshot at position {request.position} {fault}")
    if request.position in state.stale:
        # What was erased must not come back with it.
        batch.purge(only=request.position)
        if request.position not in batch.rewritten:
            raise Refusal(409, "damaged", f"the snapshot at position {request.position} can't be read")
        wanted = batch.rewritten[request.position]
    batch.write(state.roll_back(request.position, wanted.state, request.restore))
    return Answer.of({"position": state.position, "restored": _snapshot(wanted)})


def erase(batch: Batch, request: requests.ErasureRequest) -> Answer:
    """Erase the inputs and outcomes of events for good; the chain of the journal still holds."""
    known, rows = erasure.erase(batch, request.event_ids)
    if not known:
        raise Refusal(404, "unknown", f"nothing was decided or sent for event_id {request.event_ids[0]!r}")
    missing = [event_id for event_id in request.event_ids if event_id not in known]
    return Answer.of({"erased": sorted(known), "unknown": missing, "entries": rows})


# --- parts of answers, as plain data for JSON ---


def _decision(state: ExperimentState, entry: journal.Decided, *, explain: bool) -> dict[str, Any]:
    """The answer to whoever asked for a decision."""
    actions = state.spec.actions
    shown: dict[str, Any] = {
        "event_id": entry.event_id,
        "action": entry.action,
        "name": actions[entry.action],
        "sequence": entry.number,
        "probability": entry.probability,
    }
    if entry.proposed is not None:
        shown["proposed"] = actions[entry.proposed]
    if explain:
        shown["probabilities"] = journal.named_probabilities(entry, actions)
        why = state.explain(entry)
        shown["explanation"] = {
            "actions": why.rows(),
            "queue": dict(zip(why.constraints, why.queue.tolist(), strict=True)),
            "V": why.V,
            "epsilon": why.epsilon,
            **({"words": list(why.words)} if why.words else {}),
        }
    return shown


def _outcome(parts: Sequence[journal.Learnt]) -> dict[str, Any]:
    """The parts of an outcome together."""
    given = [(name, getattr(part, name)) for part in parts for name in ("reward", "usage")]
    return {name: value for name, value in given if value is not None}


def _plausible(state: ExperimentState, usage: requests.Used | None) -> requests.Used | None:
    """What the journal keeps of usage that is refused: no more than an outcome can have here, whatever was sent."""
    late = [rule.quantity.usage for rule in state.spec.rules or () if rule.seen == "after"]
    return usage and {name: usage[name] for name in dict.fromkeys(late) if name in usage}


def _pending(
    state: ExperimentState, request: requests.OutcomeQuery
) -> tuple[list[dict[str, Any]], int | None]:
    """Oldest first, since these will be missing next; `before` is the number at which the next page begins."""
    listed: list[dict[str, Any]] = []
    # A copy, made at once: the writer goes on meanwhile.
    for number, (*_, event) in list(state.waiting.items()):
        if request.before is not None and number < request.before:
            continue
        if len(listed) == request.limit:
            return listed, number
        listed.append({"event_id": event.event_id, "sequence": number, "time": event.time / 1e6})
    return listed, None


def _constraints(state: ExperimentState) -> list[dict[str, Any]]:
    """Each constraint: its words, its sums, in scaled costs and in the rule's own units, and its price."""
    totals, queue, prices, infeasible = (
        state.totals.tolist(),
        state.queue.tolist(),
        state.prices,
        state.infeasible,
    )
    shown = []
    for k, (column, stands) in enumerate(zip(state.columns, state.ledger.standings(), strict=True)):
        shown.append(
            {
                "name": column.name,
                "rule": str(column.rule),
                "side": column.side,
                "seen": column.rule.seen,
                "limit": column.limit,
                "unit": column.rule.unit,
                "one_more": column.rule.one_more(column.side),
                "decisions": stands.decisions,
                "used": stands.used,
                "allowed": stands.allowed,
                "left": stands.left,
                "cumulative_cost": totals[k],
                "queue": queue[k],
                **({} if prices is None else {"price": float(prices[k])}),
                "infeasible": infeasible[k],
            }
        )
    return shown


def _hard_cap(state: ExperimentState, k: int) -> dict[str, Any]:
    """A hard cap, and what it keeps off offer now."""
    cap, tally = state.ledger.caps[k], state.tally
    account, run = cap.account, state.ledger.withheld(k)
    withheld = run and {
        "since": run.time / 1e6,
        "sequence": run.number,
        "decisions": run.decisions,
        "actions": {name: n for name, n in zip(state.spec.actions, run.actions) if n},
        "mean_reward_before": _mean(run.reward_sum, run.rewards),
        "mean_reward_since": _mean(tally.reward_sum - run.reward_sum, tally.rewards - run.rewards),
    }
    used, total = float(account.taken), float(account.allowed)
    shown = {"name": cap.name, "rule": str(cap.rule), "unit": cap.rule.unit, "total": total, "used": used}
    return {**shown, "left": float(account.left), "withheld": withheld}


def _outside(state: ExperimentState) -> list[dict[str, Any]]:
    """The fields of the context whose numbers were outside their range, and how often."""
    known = {} if state.spec.encoder is None else state.spec.encoder.ranges
    counted = state.tally.outside
    return [
        {"field": name, "low": low, "high": high, "values": counted[name], "outside": outside}
        for name, (low, high, outside) in known.items()
        if name in counted
    ]


def _mean(total: float, n: int) -> float | None:
    return total / n if n else None


def _mode(state: ExperimentState) -> dict[str, Any]:
    """Live, shadow or paused, and what shadow mode serves."""
    default = state.default
    return {"mode": state.mode, "default": None if default is None else state.spec.actions[default]}


def _snapshot(taken: journal.Snapshot) -> dict[str, Any]:
    """A snapshot without its state."""
    position, time, digest, label, _ = taken
    return {"position": position, "time": time / 1e6, "digest": digest, "label": label}


def _page(
    batch: Batch,
    request: requests.PageQuery,
    name: str,
    shown: Callable[[journal.Row], list[dict[str, Any]]],
    *kinds: type[Any],
) -> Answer:
    """What rows of some kinds hold, newest first, and the position at which the next page begins.

    Rows are read few at a time, and a page ends where it has enough bytes: rows may be long, and a thousand of them are asked for.
    """
    numbers, listed, size = [journal.KINDS[kind] for kind in kinds], list[msgspec.Raw](), 0
    before, left = request.before, request.limit
    while left:
        few = min(left, _ROWS_AT_ONCE)
        rows = batch.journal.select(numbers, before=before, limit=few)
        for row in rows:
            entries = [msgspec.json.encode(one) for one in shown(row)]
            size += sum(map(len, entries))
            if size > requests.LIMITS.page_bytes and listed:
                return Answer.of({name: listed, "before": before})
            listed += map(msgspec.Raw, entries)
            before = row.position
        left -= len(rows)
        if len(rows) < few:
            return Answer.of({name: listed, "before": None})
    return Answer.of({name: listed, "before": before})


def _entry(row: journal.Row) -> journal.Entry | None:
    """What a row of a list holds; None where that can't be read, which is no reason not to show the others."""
    try:
        return journal.entry_of(row)
    except journal.JournalDamaged as error:
        log.error("%s", error)
        return None


def _listed(state: ExperimentState, row: journal.Row) -> dict[str, Any]:
    """A decision in a list, whole, or what is left of it."""
    place = {"position": row.position, "time": row.time / 1e6}
    entry = _entry(row)
    if isinstance(entry, journal.Blank):
        what = {"event_id": entry.event_id, "sequence": entry.number, "action": entry.action}
        return {**what, **place, "erased": True}
    if isinstance(entry, journal.Decided):
        try:
            return {**_explained(state, entry), **place, "request": entry.request}
        except journal.JournalDamaged as error:
            log.error("%s", error)
    return {"event_id": row.event_id, **place, "damaged": True}


def _explained(state: ExperimentState, entry: journal.Decided) -> dict[str, Any]:
    """A decision and why it was taken; or `JournalDamaged` where its numbers can't be those of a decision."""
    try:
        return _decision(state, entry, explain=True)
    except (LookupError, ValueError, StopIteration) as error:
        words = f"decision {entry.number}, of event_id {entry.event_id!r}, is damaged: {error!r}"
        raise journal.JournalDamaged(words) from error


def _new_event_id() -> str:
    """Unique, and in the order of time, which keeps the journal's index compact."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
