"""The calls of a service: each function makes the request for one call, and both clients have them as methods.

>>> request = decide(Settings("http://127.0.0.1:8080"), {"age": 71}, event_id="visit-1")
>>> request.method, request.target, request.content
('POST', '/v1/decisions', b'{"event_id": "visit-1", "context": {"age": 71}}')
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from tightrope_client.errors import InvalidInput

if TYPE_CHECKING:
    from tightrope_client import responses

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """Which service a client talks to, and how long it keeps trying."""

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
            ascii_only = "must consist of visible ASCII characters, as `tightrope keys create` prints it"
            raise InvalidInput(f"key {ascii_only}.")
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise InvalidInput(f"timeout must be above 0 seconds, but got {self.timeout!r}.")
        if not self.patience >= 0:
            raise InvalidInput(f"patience must be at least 0 seconds, but got {self.patience!r}.")


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request, answered with a T; `deadline` is how many seconds all of its attempts may take together."""

    method: Literal["GET", "POST"]
    target: str
    content: bytes | None = None
    event_id: str | None = None
    # By event id: the arguments of decisions, so that they can be asked for again.
    decisions: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    deadline: float | None = None
    repeatable: bool = True


def new_event_id() -> str:
    """An id that no other event has.

    >>> len(new_event_id())
    32
    """
    return uuid.uuid4().hex


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
    keys: Mapping[str, str | int] | None = None,
    explain: bool = False,
    deadline: float | None = None,
) -> Request[responses.Decision]:
    """Ask for a decision: `event_id`, `action`, `name`, `sequence`, and the `probability` with which the action was served.

    With `explain` also the `probabilities` of all actions on offer, by name, and the `explanation`. `usage` is what each action
    uses, by the names in the rules and in their units. `keys` says whom the decision is for, if a rule or the spec asks, as in
    `{"user": "u17"}`. `deadline`: how many seconds the call may take, all attempts together; a
    call that ends without an answer is in `unanswered`.
    """
    event_id = new_event_id() if event_id is None else event_id
    body: dict[str, Any] = {"event_id": event_id, "context": context, "features": features}
    body |= {"usage": usage, "group": group}
    body |= {"actions": actions, "default": default, "keys": keys, "explain": explain or None}
    given = {name: value for name, value in body.items() if value is not None}
    return _post(
        self, "/v1/decisions", given, event_id=event_id, decisions={event_id: given}, deadline=deadline
    )


def decide_batch(
    self: Settings, /, requests: Iterable[Mapping[str, Any]], *, deadline: float | None = None
) -> Request[responses.DecisionResults]:
    """Ask for up to 256 decisions in one request; each holds the arguments of `decide`, and is answered by itself."""
    asked = [one for request in requests for one in decide(self, **request).decisions.items()]
    body = {"decisions": [given for _, given in asked]}
    return _post(self, "/v1/decisions/batch", body, decisions=dict(asked), deadline=deadline)


def learn_batch(
    self: Settings, /, outcomes: Iterable[Mapping[str, Any]], *, deadline: float | None = None
) -> Request[responses.OutcomeResults]:
    """Report up to 256 outcomes in one request; each holds the arguments of `learn`, and is answered by itself."""
    told = [{name: value for name, value in one.items() if value is not None} for one in outcomes]
    return _post(self, "/v1/outcomes/batch", {"outcomes": told}, deadline=deadline)


def learn(
    self: Settings,
    /,
    event_id: str,
    reward: float | None = None,
    usage: Mapping[str, float] | None = None,
    *,
    cancelled: bool = False,
    deadline: float | None = None,
) -> Request[responses.Outcome]:
    """Report the outcome of a decision: the reward, what was used, or both, together or one after the other.

    `usage` is what was used, by the names in the rules and in their units: `{"hours": 0.5}` is half an hour, whatever the limit.
    `cancelled` says instead that the decision was never carried out: limits per window get back what it booked.
    """
    body = {"event_id": event_id, "reward": reward, "usage": usage, "cancelled": cancelled or None}
    return _post(self, "/v1/outcomes", body, event_id=event_id, deadline=deadline)


def decision(self: Settings, /, event_id: str) -> Request[responses.RecordedDecision]:
    """A decision, its outcome so far, and why it was taken."""
    return _get(self, f"/v1/decisions/{quote(event_id, safe='')}", event_id=event_id)


def decisions(
    self: Settings, /, *, limit: int = 20, before: int | None = None
) -> Request[responses.DecisionPage]:
    """The newest decisions, and why they were taken; `before` comes from the previous page."""
    return _get(self, "/v1/decisions", limit=limit, before=before)


def outcomes(
    self: Settings,
    /,
    status: Literal["late", "rejected", "missing", "pending"],
    *,
    limit: int = 20,
    before: int | None = None,
) -> Request[responses.OutcomePage]:
    """Outcomes that came late, were rejected, are missing, or are still awaited."""
    return _get(self, "/v1/outcomes", status=status, limit=limit, before=before)


def state(self: Settings, /) -> Request[responses.State]:
    """Where the experiment stands."""
    return _get(self, "/v1/state")


def history(self: Settings, /) -> Request[responses.History]:
    """Where it stood at up to 240 moments since it began."""
    return _get(self, "/v1/history")


def rules(self: Settings, /) -> Request[responses.RuleCosts]:
    """About what each rule costs in reward."""
    return _get(self, "/v1/rules")


def windows(
    self: Settings, /, *, rule: str | None = None, key: str | None = None, limit: int = 20
) -> Request[responses.WindowList]:
    """Where limits per window stand: of one `rule` or all, for one `key` or for those closest to their limits."""
    return _get(self, "/v1/windows", rule=rule, key=key, limit=limit)


def lift(self: Settings, /) -> Request[responses.Lift]:
    """What the policy earns and uses more than the control group's baseline."""
    return _get(self, "/v1/lift")


def changes(
    self: Settings, /, *, limit: int = 20, before: int | None = None
) -> Request[responses.ChangePage]:
    """Changes of its configuration, newest first."""
    return _get(self, "/v1/changes", limit=limit, before=before)


def snapshots(self: Settings, /) -> Request[responses.SnapshotList]:
    """Snapshots that can be rolled back to."""
    return _get(self, "/v1/snapshots")


def experiments(self: Settings, /) -> Request[responses.ExperimentList]:
    """The experiments that the key opens."""
    return Request("GET", urlsplit(self.url).path.rstrip("/") + "/v1/experiments")


def correct(
    self: Settings,
    /,
    event_id: str,
    correction_id: str,
    reward: float | None = None,
    usage: Mapping[str, float] | None = None,
) -> Request[responses.Correction]:
    """Correct an outcome that was reported wrongly; parts that are left out stay as they are.

    `correction_id` is your own id for this correction: sent again, it is answered again and changes nothing.
    """
    body = {"event_id": event_id, "correction_id": correction_id, "reward": reward, "usage": usage}
    return _post(self, "/v1/corrections", body, event_id=event_id)


def change(
    self: Settings,
    /,
    *,
    actions: Mapping[str, Mapping[str, Any]] | None = None,
    add: Mapping[str, Mapping[str, Any]] | None = None,
    rules: Mapping[str, Mapping[str, Any] | None] | None = None,
    add_rules: Sequence[Mapping[str, Any]] | None = None,
    starts: float | None = None,
    check: bool = False,
) -> Request[responses.Changed]:
    """Change actions and rules together, at once or from `starts` on; with `check` only say whether that is possible.

    >>> change(Settings("http://localhost"), add={"hospice": {"like": "other"}}, check=True).content
    b'{"add": {"hospice": {"like": "other"}}, "check": true}'
    """
    body = {"actions": actions, "add": add, "rules": rules, "add_rules": add_rules, "starts": starts}
    return _post(self, "/v1/changes", {**body, "check": check or None})


def cancel_change(self: Settings, /, position: int) -> Request[responses.Cancelled]:
    """Cancel a change that has not begun yet; `state()` lists them under `scheduled`."""
    return _post(self, "/v1/changes/cancel", {"position": position})


def change_mode(
    self: Settings, /, mode: Literal["live", "shadow", "paused"], default: str | int | None = None
) -> Request[responses.ModeState]:
    """Go live, into shadow mode (which serves `default`), or pause. Needs the scope `admin`, as do all calls below."""
    return _post(self, "/v1/mode", {"mode": mode, "default": default})


def take_snapshot(self: Settings, /, label: str) -> Request[responses.Snapshot]:
    """Keep the current state under a name."""
    return _post(self, "/v1/snapshots", {"label": label})


def roll_back(
    self: Settings, /, position: int, restore: Literal["learnt", "all"]
) -> Request[responses.Rollback]:
    """Go back to the snapshot at a position: only what was learnt, or rounds, queues and totals too."""
    return _post(self, "/v1/rollback", {"position": position, "restore": restore})


def erase(self: Settings, /, event_ids: str | Iterable[str]) -> Request[responses.Erasure]:
    """Erase the inputs and outcomes of events for good, at most 1,000 at once."""
    listed = [event_ids] if isinstance(event_ids, str) else list(event_ids)
    return _post(self, "/v1/erasures", {"event_ids": listed})


def get(self: Settings, path: str, /, **parameters: Any) -> Request[dict[str, Any]]:
    """Read anything else, such as ``client.get("/v1/outcomes", status="late")``."""
    return _get(self, path, **parameters)


def post(self: Settings, path: str, /, **body: Any) -> Request[dict[str, Any]]:
    """Change anything else, such as ``client.post("/v1/mode", mode="paused")``."""
    return _post(self, path, body)


# What a second request would do again, or be refused for.
_ONCE = ("/v1/rollback", "/v1/snapshots", "/v1/changes", "/v1/changes/cancel")


def _get(self: Settings, path: str, *, event_id: str | None = None, **parameters: Any) -> Request[Any]:
    return Request("GET", _target(self, path, parameters), event_id=event_id)


def _post(self: Settings, path: str, body: Mapping[str, Any], **more: Any) -> Request[Any]:
    given = {name: value for name, value in body.items() if value is not None}
    content = json.dumps(given, default=_plain).encode()
    if b"NaN" in content or b"Infinity" in content:
        _require_finite(json.loads(content), "")
    more["repeatable"] = path not in _ONCE
    return Request("POST", _target(self, path, {}), content, **more)


def _target(self: Settings, path: str, parameters: Mapping[str, Any]) -> str:
    if not re.fullmatch("/[!-~]*", path):
        raise InvalidInput(
            f"path must begin with / and consist of visible ASCII characters, but got {path!r}."
        )
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
    raise InvalidInput(f"{value!r:.100} can't be sent: JSON has no form for a {type(value).__name__}.")


def _require_finite(value: Any, path: str) -> None:
    """Refuse nan and inf, which JSON does not have, and name the field."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{path} must be finite, but got {value!r}.")
    if isinstance(value, dict):
        for name, one in value.items():
            _require_finite(one, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            _require_finite(one, f"{path}[{i}]")
