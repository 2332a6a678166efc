"""What can be asked of a service, and when a request is sent again: all that both clients know, without sockets.

Every request may be sent twice without harm, since a decision has an event id of the caller or one made here, and each part of an
outcome counts once. Only a rollback and a snapshot are not repeated once the service may have done them.

>>> call = decide(Settings("http://127.0.0.1:8080"), {"age": 71}, event_id="visit-1")
>>> call.method, call.target, call.content
('POST', '/v1/decisions', b'{"event_id": "visit-1", "context": {"age": 71}}')
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from tightrope.errors import InvalidInput, TightropeError
from tightrope.service import responses
from tightrope.service.transport import Reply

T = TypeVar("T")

# Pauses between attempts double from the first to the longest, each a random part of that, so that callers do not come in step.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_AGAIN: Final = frozenset({429, 502, 503, 504})
_KEPT: Final = 10_000


class ServiceError(TightropeError):
    """The service refused, or did not answer: `status` is HTTP's, `code` the service's word for the reason.

    `event_id` names the event where the call was about one, also where the client had made the id: with it the same request can be
    sent again, later or elsewhere.
    """

    def __init__(self, status: int, code: str, message: str, event_id: str | None = None) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.event_id = event_id


class InvalidRequest(ServiceError):
    """400, 408, 413, 422, 431: the request is not what it must be; the message names the field."""


class NotAllowed(ServiceError):
    """401, 403: no key, an unknown one, or one that does not open this."""


class NotFound(ServiceError):
    """404: no such event, experiment, snapshot or route."""


class Conflict(ServiceError):
    """409: at odds with what was recorded (`differs`), or hard caps leave nothing to choose (`exhausted`)."""


class Gone(ServiceError):
    """410: the outcome came too `late`, or the event was `erased`."""


class Unavailable(ServiceError):
    """429, 502, 503, 504, or no answer at all (`unreachable`), for as long as it was tried: send the same event again later."""


_ERRORS: Final[dict[int, type[ServiceError]]] = {
    **dict.fromkeys((400, 408, 413, 422, 431), InvalidRequest),
    **dict.fromkeys((401, 403), NotAllowed),
    404: NotFound,
    409: Conflict,
    410: Gone,
    **dict.fromkeys(_AGAIN, Unavailable),
}


@dataclass(frozen=True)
class Settings:
    """Where a client asks, and how long it tries."""

    url: str
    key: str | None = None
    experiment: str | None = None
    timeout: float = 10.0
    patience: float = 10.0

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
        if not good:
            raise InvalidInput(f"url must be http://host:port or https://host:port, but got {self.url!r}.")
        if self.key is not None and not re.fullmatch("[!-~]+", self.key):
            raise InvalidInput(
                "key must be of visible ASCII characters, as `tightrope keys create` prints it."
            )
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise InvalidInput(f"timeout must be above 0 seconds, but got {self.timeout!r}.")
        if not self.patience >= 0:
            raise InvalidInput(f"patience must be at least 0 seconds, but got {self.patience!r}.")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, of which a T comes back; `deadline` is how many seconds all of its attempts may take together."""

    method: Literal["GET", "POST"]
    target: str
    content: bytes | None = None
    event_id: str | None = None
    # The arguments of a decision, by which it can be asked for again.
    decision: dict[str, Any] | None = None
    deadline: float | None = None
    repeatable: bool = True


class Unanswered:
    """Decisions that were asked for and not answered, by event id: the arguments with which to ask again. The newest 10,000."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, dict[str, Any]] = {}

    def add(self, call: Call[Any]) -> None:
        """A decision is about to be asked for."""
        if call.decision is not None and call.event_id is not None:
            with self._lock:
                self._requests[call.event_id] = call.decision
                if len(self._requests) > _KEPT:
                    del self._requests[next(iter(self._requests))]

    def remove(self, call: Call[Any]) -> None:
        """It has its answer."""
        with self._lock:
            self._requests.pop(call.event_id or "", None)

    def copy(self) -> dict[str, dict[str, Any]]:
        """As they are now, oldest first."""
        with self._lock:
            return dict(self._requests)


@dataclass
class Attempts(Generic[T]):
    """The attempts at one call: how long each may take, whether there is another, and what comes of it.

    A client sends the request, tells what came (`after_answer`, `after_failure`), and pauses as long as it is told to.
    """

    call: Call[T]
    settings: Settings
    unanswered: Unanswered
    made: int = 0
    began: float = field(default_factory=lambda: time.monotonic())

    def __post_init__(self) -> None:
        self.unanswered.add(self.call)

    @property
    def left(self) -> float | None:
        """Seconds until the call's deadline; None if it has none."""
        if self.call.deadline is None:
            return None
        return max(0.0, self.began + self.call.deadline - time.monotonic())

    @property
    def timeout(self) -> float:
        """Seconds for the next attempt."""
        return min(self.settings.timeout, math.inf if self.left is None else max(0.001, self.left))

    def after_failure(self, error: Exception, *, sent: bool) -> float:
        """The pause after an attempt without an answer; `sent`: the service may have done what it asks."""
        self.made += 1
        pause = self._pause() if self.call.repeatable or not sent else None
        if pause is None:
            times = "1 attempt" if self.made == 1 else f"{self.made} attempts"
            words = f"no answer from the service in {times}: {str(error) or type(error).__name__}"
            raise Unavailable(503, "unreachable", words, self.call.event_id) from error
        return pause

    def after_answer(self, reply: Reply) -> float | None:
        """The pause after an answer that asks to come again; None: what came is the answer, and `result` reads it."""
        self.made += 1
        status, headers, content = reply
        if status not in _AGAIN:
            return None
        # 503 `unavailable` leaves open whether it was done, and a proxy's 502 and 504 too.
        done = status != 429 and (status != 503 or _error(content)[0] in ("unavailable", "unexpected"))
        return self._pause(headers.get("retry-after")) if self.call.repeatable or not done else None

    def result(self, reply: Reply) -> T:
        """What came back, or the error that it says."""
        status, _, content = reply
        if status not in _AGAIN:
            self.unanswered.remove(self.call)
        if status == 200:
            try:
                answer: T = json.loads(content)
            except ValueError:
                pass
            else:
                if isinstance(answer, dict):
                    return answer
        code, message = _error(content)
        raise _ERRORS.get(status, ServiceError)(status, code, message, self.call.event_id)

    def _pause(self, retry_after: str | None = None) -> float | None:
        """Seconds until the next attempt, or None where it would come too late."""
        # Its date form is not for services like this one; a proxy that sends it is treated as if it had said nothing.
        asked = float(retry_after) if retry_after is not None and retry_after.isdigit() else 0.0
        pause = asked + random.uniform(0.5, 1.0) * min(
            _LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.made - 1, 10)
        )
        limit = self.settings.patience if self.call.deadline is None else self.call.deadline
        return pause if time.monotonic() + pause <= self.began + limit else None


def _error(content: bytes) -> tuple[str, str]:
    """Code and message of an answer that is not 200."""
    try:
        error = json.loads(content)["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, TypeError, KeyError):
        return "unexpected", f"not an answer of the service: {content[:200]!r}"


def new_event_id() -> str:
    """An id that no other event has.

    >>> len(new_event_id())
    32
    """
    return uuid.uuid4().hex


# --- what can be asked; both clients have these as methods ---


def decide(
    self: Settings,
    /,
    context: Mapping[str, Any] | None = None,
    *,
    event_id: str | None = None,
    features: Sequence[Any] | None = None,
    usage: Mapping[str, Any] | None = None,
    group: str | Sequence[str] | None = None,
    actions: Sequence[str | int] | None = None,
    default: str | int | None = None,
    explain: bool = False,
    deadline: float | None = None,
) -> Call[responses.Decision]:
    """Ask for a decision: `event_id`, `action`, `name`, `sequence` and `probability`, with which the action was served.

    With `explain` also the `probabilities` of all actions on offer, by name, and the `explanation`. `usage` is what each action
    uses, by the names in the rules and in their units. `deadline`: seconds that the call may take, all attempts together; a
    call that ends without an answer is in `unanswered`.
    """
    event_id = new_event_id() if event_id is None else event_id
    body = {
        "event_id": event_id,
        "context": context,
        "features": features,
        "usage": usage,
        "group": group,
        "actions": actions,
        "default": default,
        "explain": explain or None,
    }
    given = {name: value for name, value in body.items() if value is not None}
    return _post(self, "/v1/decisions", given, event_id=event_id, decision=given, deadline=deadline)


def learn(
    self: Settings,
    /,
    event_id: str,
    reward: float | None = None,
    usage: Mapping[str, float] | None = None,
    *,
    deadline: float | None = None,
) -> Call[responses.Outcome]:
    """Report the outcome of a decision: the reward, what was used, or both, together or one after the other.

    `usage` is what was used, by the names in the rules and in their units: `{"hours": 0.5}` is half an hour, whatever the limit.
    """
    body = {"event_id": event_id, "reward": reward, "usage": usage}
    return _post(self, "/v1/outcomes", body, event_id=event_id, deadline=deadline)


def decision(self: Settings, /, event_id: str) -> Call[responses.RecordedDecision]:
    """A decision, its outcome so far, and why it was taken."""
    return _get(self, f"/v1/decisions/{quote(event_id, safe='')}", event_id=event_id)


def decisions(
    self: Settings, /, *, limit: int = 20, before: int | None = None
) -> Call[responses.DecisionPage]:
    """The newest decisions, and why they were taken; `before` is what the page before gave."""
    return _get(self, "/v1/decisions", limit=limit, before=before)


def outcomes(
    self: Settings,
    /,
    status: Literal["late", "rejected", "missing", "pending"],
    *,
    limit: int = 20,
    before: int | None = None,
) -> Call[responses.OutcomePage]:
    """Outcomes that came late, were rejected, are missing, or are still waited for."""
    return _get(self, "/v1/outcomes", status=status, limit=limit, before=before)


def state(self: Settings, /) -> Call[responses.State]:
    """Where the experiment stands."""
    return _get(self, "/v1/state")


def history(self: Settings, /) -> Call[responses.History]:
    """Where it stood, at up to 240 moments since its beginning."""
    return _get(self, "/v1/history")


def rules(self: Settings, /) -> Call[responses.RuleCosts]:
    """About what each rule costs in reward."""
    return _get(self, "/v1/rules")


def changes(self: Settings, /, *, limit: int = 20, before: int | None = None) -> Call[responses.ChangePage]:
    """Changes of its configuration, newest first."""
    return _get(self, "/v1/changes", limit=limit, before=before)


def snapshots(self: Settings, /) -> Call[responses.SnapshotList]:
    """Snapshots that can be rolled back to."""
    return _get(self, "/v1/snapshots")


def experiments(self: Settings, /) -> Call[responses.ExperimentList]:
    """The experiments that the key opens."""
    return Call("GET", urlsplit(self.url).path.rstrip("/") + "/v1/experiments")


def change_mode(
    self: Settings, /, mode: Literal["live", "shadow", "paused"], default: str | int | None = None
) -> Call[responses.ModeState]:
    """Go live, into shadow mode (which serves `default`), or pause. Needs the scope `admin`, as all that follow."""
    return _post(self, "/v1/mode", {"mode": mode, "default": default})


def take_snapshot(self: Settings, /, label: str) -> Call[responses.Snapshot]:
    """Keep the present state under a name."""
    return _post(self, "/v1/snapshots", {"label": label})


def roll_back(
    self: Settings, /, position: int, restore: Literal["learnt", "all"]
) -> Call[responses.Rollback]:
    """Go back to the snapshot at a position: what was learnt alone, or rounds, queues and totals too."""
    return _post(self, "/v1/rollback", {"position": position, "restore": restore})


def erase(self: Settings, /, event_ids: str | Iterable[str]) -> Call[responses.Erasure]:
    """Erase the inputs and outcomes of events for good, at most 1,000 at once."""
    listed = [event_ids] if isinstance(event_ids, str) else list(event_ids)
    return _post(self, "/v1/erasures", {"event_ids": listed})


def get(self: Settings, path: str, /, **parameters: Any) -> Call[dict[str, Any]]:
    """Any other thing that can be read, such as ``client.get("/v1/outcomes", status="late")``."""
    return _get(self, path, **parameters)


def post(self: Settings, path: str, /, **body: Any) -> Call[dict[str, Any]]:
    """Any other thing that can be changed, such as ``client.post("/v1/mode", mode="paused")``."""
    return _post(self, path, body)


def _get(self: Settings, path: str, *, event_id: str | None = None, **parameters: Any) -> Call[Any]:
    return Call("GET", _target(self, path, parameters), event_id=event_id)


def _post(self: Settings, path: str, body: Mapping[str, Any], **more: Any) -> Call[Any]:
    given = {name: value for name, value in body.items() if value is not None}
    content = json.dumps(given, default=_plain).encode()
    if b"NaN" in content or b"Infinity" in content:
        _require_finite(json.loads(content), "")
    more["repeatable"] = path not in ("/v1/rollback", "/v1/snapshots")
    return Call("POST", _target(self, path, {}), content, **more)


def _target(self: Settings, path: str, parameters: Mapping[str, Any]) -> str:
    if not re.fullmatch("/[!-~]*", path):
        raise InvalidInput(f"path must begin with / and be of visible ASCII characters, but got {path!r}.")
    asked = {"experiment": self.experiment, **parameters}
    query = urlencode({name: value for name, value in asked.items() if value is not None})
    return urlsplit(self.url).path.rstrip("/") + path + (f"?{query}" if query else "")


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and mappings of other kinds, as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | set | frozenset):
        return list(value)
    raise InvalidInput(f"{value!r:.100} can't be sent: a {type(value).__name__} has no form in JSON.")


def _require_finite(value: Any, path: str) -> None:
    """Refuse nan and inf, which JSON does not have, by the field that holds one."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{path} must be finite, but got {value!r}.")
    if isinstance(value, dict):
        for name, one in value.items():
            _require_finite(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            _require_finite(one, f"{path}[{i}]")
