"""Corrected outcomes: the journal keeps both, and totals, hard caps and what was learnt are as if the later one had come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.ledger.account import amount
from tightrope.ledger.ledger import Ledger
from tightrope.models.hooks import Corrected
from tightrope.policies import Policy
from tightrope.policies.corrections import Lesson, correct
from tightrope.rules import Rules
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.journal.entries import Decided, Learnt, Reported
from tightrope.service.requests import CorrectionRequest
from tightrope.spec import Spec
from tightrope.validation import Array
from tightrope.words import Key, Place


def asked(spec: Spec, decided: Decided, active: Sequence[int]) -> list[int]:
    """The ids of the actions that a request was about, in the order of its rows, whatever they are called now.

    `active` are those that were active then.
    """
    if decided.request.actions is None:
        return list(active)
    names = {former: i for i, name in enumerate(spec.actions) for former in spec.action(name).was}
    named = (names.get(one, one) if isinstance(one, str) else one for one in decided.request.actions)
    return spec.registry.ids(list(named))


def correction_of(
    read: PolicyInput,
    decided: Decided,
    ids: Sequence[int],
    was: Reported,
    sent: CorrectionRequest,
    *,
    earlier: bool,
) -> Learnt:
    """The entry for a correction of an outcome: all that it takes to apply it, here and in a replay.

    `ids` are those of the actions in the order of the request's rows; `earlier`: the decision is from an earlier configuration.
    """
    usage = sent.usage
    for name in read.bounded_usage if usage is not None else ():
        problem = "can't be corrected: a limit per window counts it, and its window may be gone"
        raise InvalidInput(field=Place("usage", Key(name)), problem=problem)
    if sent.reward is not None:
        read.require_reward(sent.reward)
    if usage is not None:
        read.require_in_ranges(usage)
        usage = {**(was.usage or {}), **usage}
    x = read.x(decided.request, len(ids))
    if x is not None and x.ndim == 2:
        x = x[ids.index(decided.action)]
    return Learnt(
        event_id=decided.event_id,
        number=decided.number,
        reward=sent.reward,
        usage=usage,
        correction=sent.correction_id,
        was=was,
        action=decided.action,
        x=None if x is None else x.tobytes(),
        group=decided.request.group,
        earlier=earlier,
    )


def apply(entry: Learnt, policy: Policy, read: PolicyInput, rules: Rules | None, ledger: Ledger) -> Corrected:
    """Correct models, totals and hard caps; after `InvalidInput` nothing has changed.

    A hard cap may have begun after a decision of an earlier configuration, without counting it: then it gives nothing back.
    """
    was, action = entry.was, entry.action
    assert was is not None
    assert action is not None
    x = None if entry.x is None else np.frombuffer(entry.x)
    phi, psi = (_first(rows) for rows in read.features(x, np.array([action])))
    reward = None
    if entry.reward is not None and was.reward is not None:
        reward = Lesson(phi, np.array([was.reward]), np.array([entry.reward]), action)
    used, reported = entry.usage, was.usage
    if rules is None or used is None or reported is None:
        return correct(policy, entry.number, reward, None, read.late_columns)
    before, now = (rules.observed(one, action=action, group=entry.group) for one in (reported, used))
    costs = Lesson(psi, before, now, action)
    effect = correct(policy, entry.number, reward, costs, read.late_columns)
    ledger.book(now - before, read.late_columns)
    force = rules.in_force(entry.group)
    for cap in ledger.caps:
        if cap.after and cap.usage is not None and cap.need(action, 0, {}, force):
            more = min(amount(used[cap.usage]), cap.high) - min(amount(reported[cap.usage]), cap.high)
            if more > 0 or not entry.earlier:
                cap.book(more)
    return effect


def require_reported(was: Reported, sent: CorrectionRequest) -> None:
    """Refuse to correct what has not been reported yet."""
    for name, now, before in (("reward", sent.reward, was.reward), ("usage", sent.usage, was.usage)):
        if now is not None and before is None:
            problem = "has not been reported for this event yet, so there is nothing to correct"
            raise InvalidInput(field=name, problem=problem, remedy="Send it to /v1/outcomes.")


def _first(rows: Array | None) -> Any:
    return None if rows is None else rows[0]
