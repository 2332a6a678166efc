"""Many requests in one body: each is the operation that it would be by itself, and one answer holds all of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from tightrope.service import requests
from tightrope.service.answer import Answer

# A batch takes a slot for so many items.
_ITEMS_A_SLOT: Final = 16


def slots(items: int) -> int:
    """How many of the requests that may be in progress a batch counts as."""
    return 1 + (items - 1) // _ITEMS_A_SLOT


def decide_batch(answers: Sequence[Answer], request: requests.DecisionBatch) -> Answer:
    """Choose actions for several events; each item succeeds or fails by itself."""
    return _together(answers, "decision")


def learn_batch(answers: Sequence[Answer], request: requests.OutcomeBatch) -> Answer:
    """The outcomes of several decisions; each item succeeds or fails by itself."""
    return _together(answers, "outcome")


def _together(answers: Sequence[Answer], name: str) -> Answer:
    """One answer; if nothing could be done now for any item, it says so as it would to a single request."""
    if all(answer.status == 503 for answer in answers):
        return answers[0]
    return Answer.of({"results": [_result(answer, name) for answer in answers]})


def _result(answer: Answer, name: str) -> dict[str, Any]:
    if answer.status == 200:
        return {"status": 200, name: msgspec.Raw(answer.body)}
    shown: dict[str, Any] = {"status": answer.status, **msgspec.json.decode(answer.body)}
    return shown if answer.retry_after is None else {**shown, "retry_after": answer.retry_after}
