"""Many decisions or outcomes in one request: how they are cut, and what the service's results mean for each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tightrope_client.endpoints import Request, new_event_id
from tightrope_client.errors import TRANSIENT, ServiceError, refusal

if TYPE_CHECKING:
    from tightrope_client.retries import Unanswered

# As many as the service takes in one request.
MOST: Final = 256


def batches(items: Iterable[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The items in batches of the size that the service takes.

    >>> [len(batch) for batch in batches([{}] * 300)]
    [256, 44]
    """
    rest = iter(items)
    while batch := list(itertools.islice(rest, MOST)):
        yield batch


@dataclass(frozen=True)
class Part:
    """The items of one request, each with an event id."""

    items: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, items: Sequence[Mapping[str, Any]]) -> Part:
        return cls(
            [one if one.get("event_id") is not None else {**one, "event_id": new_event_id()} for one in items]
        )

    def answers(
        self, told: Mapping[str, Any], name: str, unanswered: Unanswered, request: Request[Any]
    ) -> list[Any]:
        """What each item got, or the error that its result means; one that may be sent again stays among the unanswered."""
        found: list[Any] = []
        for item, result in zip(self.items, told["results"], strict=True):
            if result["status"] == 200:
                found.append(result[name])
                continue
            content = json.dumps({"error": result["error"]}).encode()
            found.append(refusal(result["status"], content, item["event_id"]))
            if result["status"] in TRANSIENT and item["event_id"] in request.decisions:
                again = {item["event_id"]: request.decisions[item["event_id"]]}
                unanswered.add(Request("POST", request.target, decisions=again))
        return found

    def failed(self, error: ServiceError) -> list[Any]:
        """The error of a request that failed as a whole, once for each item."""
        kind = type(error)
        return [kind(error.status, error.code, error.message, item["event_id"]) for item in self.items]
