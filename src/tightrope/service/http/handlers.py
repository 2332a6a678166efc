"""The operations on an experiment and their answers: each is a function of a batch and a request.

`app.ROUTES` says which request calls which operation, `Experiment.process` runs them. The first line of a docstring is the
summary in the OpenAPI document.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from tightrope.actions import counted
from tightrope.errors import InfeasibleProblem, SolverError
from tightrope.ledger.hard_caps import HardCap
from tightrope.models.hooks import Corrected
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.rules import Units
from tightrope.service import requests
from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment import Batch, corrections
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.journal import JournalDamaged, entries
from tightrope.service.journal.contract import Snapshot, bound_snapshots, fault_of
from tightrope.service.journal.rows import Row, entry_of, tag_of
from tightrope.service.requests import fingerprint
from tightrope.version import __version__
from tightrope_client import responses

log = logging.getLogger("tightrope.service")

_ROWS_AT_ONCE: Final = 16
_Part: TypeAlias = tuple[Literal["reward", "usage"], int]
_PARTS: Final[tuple[_Part, ...]] = (("reward", AWAITS_REWARD), ("usage", AWAITS_COSTS))

# --- what callers do ---


def decide(batch: Batch, request: requests.DecisionRequest) -> Answer:
    """Choose an action, once for each event_id."""
    event_id = request.event_id if request.event_id is not None else _new_event_id()
    entry = batch.decision_of(event_id)
    if entry is None:
        entry = batch.state.decide(event_id, request, time=batch.now)
        batch.write(entry)
    elif entry.fingerprint != fingerprint(request):
        why = f"event_id {event_id!r} was already decided for a different request; use a new event_id"
        raise Refusal(409, "differs", why)
    return Answer.of(_decision(batch.state, entry, explain=request.explain))


def learn(batch: Batch, request: requests.OutcomeRequest) -> Answer:
    """The outcome of a decision, each part of it once."""
    state, event_id = batch.state, request.event_id

    def refusal(status: int, code: Literal["late", "unknown", "differs"], why: str) -> Refusal:
        # The journal stores only the usage that an outcome can have here, whatever was sent.
        sent = request.usage
        kept = sent and {name: sent[name] for name in state.input.late_usage if name in sent}
        batch.write(state.refuse(event_id, code, request.reward, kept))
        return Refusal(status, code, why)

    if request.reward is not None:
        state.input.require_reward(request.reward)
    decided = batch.decision_of(event_id)
    if decided is None:
        raise refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    fresh: dict[str, Any] = {}
    told = batch.learnt.get(event_id, ())
    earlier = _outcome([one for one in told if one.correction is None])
    if request.cancelled or "cancelled" in earlier:
        if not (request.cancelled and "cancelled" in earlier):
            if earlier or not request.cancelled:
                if "cancelled" in earlier:
                    why = f"event_id {event_id!r} was cancelled before, so it can't have an outcome"
                else:
                    why = f"event_id {event_id!r} has an outcome already, so it can't be cancelled"
                raise refusal(409, "differs", why)
            if decided.number not in state.waiting:
                why = f"event_id {event_id!r} can't be cancelled any more: the decision expired or was rolled back"
                raise refusal(410, "late", why)
            batch.write(state.cancel(decided.number))
        return Answer.of(responses.Outcome(event_id=event_id, sequence=decided.number, awaits=[]))
    for part in ("reward", "usage"):
        value = getattr(request, part)
        if value is None:
            continue
        if part not in earlier:
            fresh[part] = value
        elif earlier[part] != value:
            was, now = (
                repr(one) if len(repr(one)) <= 200 else f"{one!r:.197}..." for one in (earlier[part], value)
            )
            why = f"event_id {event_id!r} already has the {part} {was}, but this request says {now}"
            why += "; POST /v1/corrections corrects it"
            raise refusal(409, "differs", why)
    waiting = state.waiting.get(decided.number)
    if fresh and waiting is None:
        why = f"the outcome of event_id {event_id!r} is too late: the decision expired or was rolled back"
        raise refusal(410, "late", why)
    if fresh:
        batch.write(state.learn(decided.number, **fresh))
        waiting = state.waiting.get(decided.number)
    awaits = 0 if waiting is None else waiting[0]
    missing = [name for name, bit in _PARTS if awaits & bit]
    return Answer.of(responses.Outcome(event_id=event_id, sequence=decided.number, awaits=missing))


def correct(batch: Batch, request: requests.CorrectionRequest) -> Answer:
    """Correct an outcome that was reported wrongly; the journal keeps both."""
    state, event_id, name = batch.state, request.event_id, request.correction_id
    decided = batch.decision_of(event_id)
    if decided is None:
        raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    learnt = batch.learnt.get(event_id, [])
    effect: Corrected | None = None
    same = [one for one in learnt if one.correction == name]
    if same:
        given = [value for value in (request.reward, request.usage) if value is not None]
        if [value for value in (same[0].reward, same[0].usage) if value is not None] != given:
            why = f"correction_id {name!r} of event_id {event_id!r} said something else before; use a new correction_id"
            raise Refusal(409, "differs", why)
    else:
        was = entries.Reported(**_outcome(learnt))
        corrections.require_reported(was, request)
        ids = corrections.asked(state.spec, decided, state.active_at(decided))
        at = min((row.position for row in batch.journal.find({event_id})), default=state.position)
        earlier = at < state.configured
        entry = corrections.correction_of(state.input, decided, ids, was, request, earlier=earlier)
        effect = state.correct(entry)
        batch.write(entry)
    shown = responses.Correction(
        event_id=event_id,
        sequence=decided.number,
        correction_id=name,
        outcome=_outcome(batch.learnt[event_id]),  # type: ignore[typeddict-item]
        learnt=effect,
    )
    return Answer.of(shown)


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
    return _page(batch, request, "decisions", lambda row: [_listed(batch.state, row)], entries.Decided)


def list_outcomes(batch: Batch, request: requests.OutcomeQuery) -> Answer:
    """Outcomes that came late, were rejected, are missing, or are still awaited."""
    if request.status == "pending":
        listed, before = _pending(batch.state, request)
        return Answer.of({"outcomes": listed, "before": before})

    def shown(row: Row) -> list[dict[str, Any]]:
        when = row.time / 1e6
        entry = _entry(row)
        if entry is None:
            return [{"time": when, "damaged": True}]
        if isinstance(entry, entries.Expired):
            return [
                {"event_id": event_id, "sequence": number, "expired": when}
                for number, event_id in zip(entry.numbers, entry.event_ids, strict=True)
            ]
        if isinstance(entry, entries.Refused) and (entry.reason == "late") == (request.status == "late"):
            return [{**msgspec.structs.asdict(entry), "time": when}]
        return []

    kind = entries.Expired if request.status == "missing" else entries.Refused
    return _page(batch, request, "outcomes", shown, kind)


def show_state(batch: Batch, request: None) -> Answer:
    """Where the experiment stands."""
    state, spec, tally = batch.state, batch.state.spec, batch.state.tally
    known = {} if spec.encoder is None else spec.encoder.ranges
    taken_as = {} if spec.encoder is None else spec.encoder.taken_as
    shown = responses.State(
        experiment=spec.name,
        policy=spec.policies[0].kind,
        position=state.position,
        head=state.head.hex(),
        time=state.time / 1e6,
        **_mode(state),
        decisions=tally.decisions,
        actions=[_action(state, i, name) for i, name in enumerate(spec.actions)],
        scheduled=[
            {"position": one.position, "starts": one.starts / 1e6, "change": one.change, "by": one.by}
            for one in state.schedule
        ],
        constraints=_constraints(state),
        hard_caps=[_hard_cap(state, cap) for cap in state.ledger.caps],
        windows=0 if state.ledger.windows is None else len(state.ledger.windows.limits),
        outcomes={
            "rewards": tally.rewards,
            "mean_reward": _mean(tally.reward_sum, tally.rewards),
            "complete": tally.complete,
            "pending": len(state.waiting),
            "missing": tally.expired,
            "cancelled": tally.cancelled,
            "late": tally.late,
            "rejected": tally.unknown + tally.differs,
            "rolled_back": tally.rolled_back,
        },
        shadow_decisions=tally.shadow,
        outside=[
            {"field": name, "low": low, "high": high, "values": tally.outside[name], "outside": outside}
            for name, (low, high, outside) in known.items()
            if name in tally.outside and outside != "refuse"
        ],
        replaced=[
            {"field": name, "why": why, "values": counts[why], "taken_as": words}
            for name, counts in tally.replaced.items()
            for why, words in taken_as.get(name, {}).items()
            if why in counts
        ],
        holdout=None if spec.holdout is None else spec.holdout.share,
        repeats=0 if state.assignment is None else state.assignment.repeats,
        slater=getattr(state.policy, "slater", None),
        concerns=[
            {"kind": one.kind, "message": one.message, "remedy": one.remedy}
            for one in state.policy.concerns()
        ],
    )
    return Answer.of(shown)


def show_history(batch: Batch, request: None) -> Answer:
    """Where it stood at up to 240 moments since it began."""
    state, trail = batch.state, list(batch.state.trail)
    names, units = [column.name for column in state.columns], _units(state)

    def by_rule(part: str, of: Callable[[Any], Any] = np.asarray) -> dict[str, list[float]]:
        values = np.array([of(getattr(one, part)) for one in trail], dtype=float)
        return dict(zip(names, values.reshape(len(trail), len(names)).T.tolist()))

    shown = responses.History(
        decisions=[float(one.decisions) for one in trail],
        time=[one.time / 1e6 for one in trail],
        rewards=[float(one.rewards) for one in trail],
        reward_sum=[one.reward_sum for one in trail],
        cumulative_costs=by_rule("totals"),
        left=by_rule("totals", lambda totals: 0.0 - units.totals(totals)),
        allowed=by_rule("allowed"),
        queues=by_rule("queue"),
        actions={
            name: [float(counted(one.actions, i)) for one in trail]
            for i, name in enumerate(state.spec.actions)
        },
    )
    if hasattr(state.policy, "prices"):
        shown["prices"] = by_rule("queue", units.unit_prices)
    return Answer.of(shown)


def show_rules(batch: Batch, request: None) -> Answer:
    """Roughly what each rule costs in reward: earnings with all rules, and without each, on remembered rounds."""
    find = batch.state.hooks.cost_of_rules
    found, why = None, "this policy remembers no rounds to judge by"
    if find is not None:
        try:
            found, why = find(), "too few rounds are remembered, or the rules can't all be met on them"
        except SolverError as error:
            why = f"the linear program could not be solved: {error}"
    if found is None:
        return Answer.of(responses.RuleCosts(reward=None, rounds=0, rules=[], why=why))
    rules = [responses.RuleCost(name=name, without=value) for name, value in found.without.items()]
    return Answer.of(responses.RuleCosts(reward=found.reward, rounds=found.rounds, rules=rules, why=None))


def list_changes(batch: Batch, request: requests.PageQuery) -> Answer:
    """Changes of its configuration."""

    def shown(row: Row) -> list[dict[str, Any]]:
        entry = _entry(row)
        if isinstance(entry, entries.Erased) and entry.goes_on:
            return []
        plain = {"kind": tag_of(row), "damaged": True}
        if entry is not None:
            plain = msgspec.to_builtins(entry, builtin_types=(bytes,))
            plain.pop("state", None)
        known = {name: value for name, value in plain.items() if value is not None}
        return [{"position": row.position, "time": row.time / 1e6, **known}]

    return _page(batch, request, "changes", shown, *_CHANGES)


def list_snapshots(batch: Batch, request: None) -> Answer:
    """Snapshots that can be rolled back to."""
    return Answer.of(responses.SnapshotList(snapshots=[_snapshot(one) for one in batch.journal.snapshots()]))


_CHANGES = (
    *(entries.Started, entries.ModeChanged, entries.RolledBack, entries.Erased, entries.WarmStarted),
    *(entries.Scheduled, entries.Cancelled),
)

# --- what administrators change ---


def change_mode(batch: Batch, request: requests.ModeRequest) -> Answer:
    """Go live, into shadow mode, or pause."""
    batch.write(batch.state.change_mode(request.mode, request.default))
    return Answer.of(_mode(batch.state))


def change(batch: Batch, request: requests.ChangeRequest) -> Answer:
    """Change actions and rules, at once or from a time on; or only say whether that is possible."""
    state, starts = batch.state, request.starts
    later = starts is not None and starts > batch.now / 1e6
    try:
        if request.check:
            changes = state.check(request, __version__, time=batch.now)
        elif later:
            changes = state.check(request, __version__, time=batch.now)
            batch.write(_scheduled(batch, request))
        else:
            entry = state.change(request, __version__, time=batch.now)
            batch.write(entry)
            changes = entry.changes
    except InfeasibleProblem as error:
        if not request.check:
            raise Refusal(409, "infeasible", str(error)) from error
        by_rule = {str(rule): move for rule, move in vars(error).get("relaxation", {}).items()}
        return Answer.of(
            responses.Changed(
                possible=False, position=None, starts=None, changes=[], why=str(error), relaxation=by_rule
            )
        )
    return Answer.of(
        responses.Changed(
            possible=True,
            position=None if request.check else state.position,
            starts=starts if later else None,
            changes=changes,
            why=None,
            relaxation={},
        )
    )


def _scheduled(batch: Batch, request: requests.ChangeRequest) -> entries.Scheduled:
    assert request.starts is not None
    change = msgspec.to_builtins(msgspec.structs.replace(request, starts=None))
    entry = entries.Scheduled(starts=int(request.starts * 1e6), change=change, by=batch.by)
    return batch.state.schedule.keep(batch.state.position + 1, entry)


def cancel_change(batch: Batch, request: requests.CancelRequest) -> Answer:
    """Cancel a change that has not begun yet."""
    batch.write(batch.state.schedule.cancel(request.position))
    return Answer.of(responses.Cancelled(position=request.position))


def take_snapshot(batch: Batch, request: requests.SnapshotRequest) -> Answer:
    """Keep the current state under a name."""
    return Answer.of(_snapshot(batch.snapshot(request.label)))


def roll_back(batch: Batch, request: requests.RollbackRequest) -> Answer:
    """Go back to a snapshot. Hard caps stay as they are."""
    state, wanted = batch.state, batch.journal.snapshot(request.position)
    if wanted is None:
        raise Refusal(404, "unknown", f"there is no snapshot at position {request.position}")
    if wanted.position < state.configured:
        why = f"the rules changed at position {state.configured}, after this snapshot was taken"
        raise Refusal(409, "differs", why)
    fault = fault_of(wanted, bound_snapshots(batch.journal))
    if fault is not None:
        raise Refusal(409, "damaged", f"the snapshot at position {request.position} {fault}")
    if request.position in state.stale:
        # Erased data must not come back with it.
        batch.purge(only=request.position)
        if request.position not in batch.rewritten:
            raise Refusal(409, "damaged", f"the snapshot at position {request.position} can't be read")
        wanted = batch.rewritten[request.position]
    batch.write(state.roll_back(request.position, wanted.state, request.restore))
    return Answer.of(responses.Rollback(position=state.position, restored=_snapshot(wanted)))


def erase(batch: Batch, request: requests.ErasureRequest) -> Answer:
    """Erase the inputs and outcomes of events for good; the chain of the journal still holds."""
    known, rows = batch.erase(request.event_ids)
    if not known:
        raise Refusal(404, "unknown", f"nothing was decided or sent for event_id {request.event_ids[0]!r}")
    missing = [event_id for event_id in request.event_ids if event_id not in known]
    return Answer.of(responses.Erasure(erased=sorted(known), unknown=missing, entries=rows))


# --- parts of answers, as plain data for JSON ---


def _decision(state: ExperimentState, entry: entries.Decided, *, explain: bool) -> responses.Decision:
    actions = state.spec.actions
    shown: responses.Decision = {
        "event_id": entry.event_id,
        "action": entry.action,
        "name": actions[entry.action],
        "sequence": entry.number,
        "probability": entry.probability,
    }
    if entry.assigned is not None:
        if entry.assigned.arm is not None:
            shown["arm"] = entry.assigned.arm
        if entry.assigned.repeats is not None:
            shown["repeats"] = entry.assigned.repeats
    if entry.proposed is not None:
        shown["proposed"] = actions[entry.proposed]
    if explain:
        shown["probabilities"] = entries.named_probabilities(entry, actions, state.offered(entry))
        why = state.explain(entry)
        shown["explanation"] = {
            "actions": why.rows(),  # type: ignore[typeddict-item]
            "queue": dict(zip(why.constraints, why.queue.tolist(), strict=True)),
            "V": why.V,
            "epsilon": why.epsilon,
        }
        words = [*_who_decided(entry), *why.words]
        if words:
            shown["explanation"]["words"] = words
    return shown


def _who_decided(entry: entries.Decided) -> list[str]:
    """If it was not the policy: who, since the numbers that follow are what the policy thinks of it."""
    assigned = entry.assigned
    if assigned is not None and assigned.repeats is not None:
        return [f"The user has had this action since decision {assigned.repeats}."]
    if assigned is not None and assigned.arm == "control":
        return ["This decision is in the control group: the baseline took the action."]
    return []


def _outcome(parts: Sequence[entries.Learnt]) -> dict[str, Any]:
    given = [(name, getattr(part, name)) for part in parts for name in ("reward", "usage", "cancelled")]
    return {name: value for name, value in given if value is not None}


def _pending(
    state: ExperimentState, request: requests.OutcomeQuery
) -> tuple[list[dict[str, Any]], int | None]:
    """Oldest first, since these will be missing next; `before` is the number at which the next page begins."""
    listed: list[dict[str, Any]] = []
    # A copy, because the writer continues meanwhile.
    for number, (*_, event) in list(state.waiting.items()):
        if request.before is not None and number < request.before:
            continue
        if len(listed) == request.limit:
            return listed, number
        listed.append({"event_id": event.event_id, "sequence": number, "time": event.time / 1e6})
    return listed, None


def _action(state: ExperimentState, i: int, name: str) -> responses.ActionShare:
    tally, told = state.tally, state.spec.action(name)
    n = counted(tally.actions, i)
    return {
        "name": name,
        "decisions": n,
        "share": n / max(1, tally.decisions),
        "offered": counted(tally.offered, i),
        "state": told.state,
        "description": told.description,
        "was": list(told.was),
    }


def _constraints(state: ExperimentState) -> list[responses.ConstraintState]:
    totals, queue, policy = state.ledger.totals.tolist(), state.queue.tolist(), state.policy
    prices = _units(state).unit_prices(queue) if hasattr(policy, "prices") else None
    infeasible = getattr(policy, "infeasible", np.zeros(len(queue), dtype=bool))
    return [
        {
            "name": column.name,
            "rule": str(column.rule),
            "side": column.side,
            "seen": column.rule.seen,
            "limit": column.limit,
            "unit": column.rule.unit,
            "one_more": column.rule.one_more(column.side),
            "decisions": account.decisions,
            "used": account.used,
            "allowed": account.allowed,
            "left": account.left,
            "cumulative_cost": totals[k],
            "queue": queue[k],
            **({} if prices is None else {"price": float(prices[k])}),  # type: ignore[typeddict-item]
            "infeasible": bool(infeasible[k]),
            "earlier": _earlier(state, column.name),
        }
        for k, (column, account) in enumerate(zip(state.columns, state.ledger.limits, strict=True))
    ]


def _earlier(state: ExperimentState, column: str) -> responses.EarlierLimit | None:
    held = state.held.get(column)
    if held is None:
        return None
    known = math.isfinite(held.used)
    return {
        "until": held.since / 1e6,
        "decisions": held.decisions,
        "used": held.used if known else None,
        "allowed": held.allowed if known else None,
    }


def _units(state: ExperimentState) -> Units:
    return Units.of(state.spec.rules, len(state.columns))


def _hard_cap(state: ExperimentState, cap: HardCap) -> responses.HardCapState:
    tally, run = state.tally, cap.withheld
    shown = responses.HardCapState(
        name=cap.name,
        rule=str(cap.rule),
        unit=cap.rule.unit,
        total=float(cap.allowed),
        used=float(cap.taken),
        reserved=float(cap.reserved),
        left=float(cap.left),
        withheld=None,
    )
    if run is not None:
        shown["withheld"] = {
            "since": run.time / 1e6,
            "sequence": run.number,
            "decisions": run.decisions,
            "actions": {name: n for name, n in zip(state.spec.actions, run.actions) if n},
            "mean_reward_before": _mean(run.reward_sum, run.rewards),
            "mean_reward_since": _mean(tally.reward_sum - run.reward_sum, tally.rewards - run.rewards),
        }
    return shown


def _mean(total: float, n: int) -> float | None:
    return total / n if n else None


def _mode(state: ExperimentState) -> responses.ModeState:
    default = state.default
    return {"mode": state.mode, "default": None if default is None else state.spec.actions[default]}


def _snapshot(taken: Snapshot) -> responses.Snapshot:
    position, time, digest, label, _ = taken
    return {"position": position, "time": time / 1e6, "digest": digest, "label": label}


def _page(
    batch: Batch,
    request: requests.PageQuery,
    name: str,
    shown: Callable[[Row], list[dict[str, Any]]],
    *kinds: type[Any],
) -> Answer:
    """What rows of some kinds hold, newest first, and the position at which the next page begins.

    Rows are read a few at a time, and a page ends when it has enough bytes: rows may be long, and callers may ask for a thousand.
    """
    numbers, listed, size = [entries.KINDS[kind] for kind in kinds], list[msgspec.Raw](), 0
    before, left = request.before, request.limit
    while left:
        few = min(left, _ROWS_AT_ONCE)
        rows = batch.journal.select(numbers, before=before, limit=few)
        for row in rows:
            encoded = [msgspec.json.encode(one) for one in shown(row)]
            size += sum(map(len, encoded))
            if size > requests.LIMITS.page_bytes and listed:
                return Answer.of({name: listed, "before": before})
            listed += map(msgspec.Raw, encoded)
            before = row.position
        left -= len(rows)
        if len(rows) < few:
            return Answer.of({name: listed, "before": None})
    return Answer.of({name: listed, "before": before})


def _entry(row: Row) -> entries.Entry | None:
    """The entry in a row of a list; None if it can't be read, so that the others are still shown."""
    try:
        return entry_of(row)
    except JournalDamaged as error:
        log.error("%s", error)
        return None


def _listed(state: ExperimentState, row: Row) -> dict[str, Any]:
    place = {"position": row.position, "time": row.time / 1e6}
    entry = _entry(row)
    if isinstance(entry, entries.Blank):
        what = {"event_id": entry.event_id, "sequence": entry.number, "action": entry.action}
        return {**what, **place, "erased": True}
    if isinstance(entry, entries.Decided):
        try:
            return {**_explained(state, entry), **place, "request": entry.request}
        except JournalDamaged as error:
            log.error("%s", error)
    return {"event_id": row.event_id, **place, "damaged": True}


def _explained(state: ExperimentState, entry: entries.Decided) -> responses.Decision:
    """A decision and why it was taken; or `JournalDamaged` if its numbers can't be those of a decision."""
    try:
        return _decision(state, entry, explain=True)
    except (LookupError, ValueError, StopIteration) as error:
        words = f"decision {entry.number}, of event_id {entry.event_id!r}, is damaged: {error!r}"
        raise JournalDamaged(words) from error


def _new_event_id() -> str:
    """Unique and increasing with time, which keeps the journal's index compact."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
