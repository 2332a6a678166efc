"""A small client, of the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tightrope.errors import InvalidInput, TightropeError


class ServiceError(TightropeError):
    """The service refused: `status` is HTTP's, `code` the service's word for the reason."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code


class Client:
    """Talks to a service over one connection; not for several threads at once.

    Every decision has an event id, of the caller or made here, so that a request whose answer got lost is simply sent again. What
    is refused for now (503, 429, or no connection) is tried again for `patience` seconds.

    Parameters
    ----------
    url : str
        Such as ``http://127.0.0.1:8080``.
    key : str, optional
    experiment : str, optional
        Needed where the service has several.
    patience : float
        Seconds.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:9", patience=0.0)
    >>> client.decide(context={"age": 71, "sex": "f", "prior_inpatient": 2})
    Traceback (most recent call last):
    ...
    tightrope.service.client.ServiceError: 503 unreachable: no answer from the service: ...
    """

    def __init__(
        self, url: str, *, key: str | None = None, experiment: str | None = None, patience: float = 10.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput(f"url must be http://host:port or https://host:port, but got {url!r}.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=30.0)
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._experiment = experiment
        self._patience = patience

    def decide(
        self,
        context: Mapping[str, Any] | None = None,
        *,
        event_id: str | None = None,
        features: Sequence[Any] | None = None,
        usage: Mapping[str, Any] | None = None,
        group: str | Sequence[str] | None = None,
        costs: Sequence[Sequence[float]] | None = None,
        actions: Sequence[str | int] | None = None,
        default: str | int | None = None,
        explain: bool = False,
    ) -> dict[str, Any]:
        """Ask for a decision: `event_id`, `action`, `name`, `sequence` and `probability`, with which the action was served.

        With `explain` also the `probabilities` of all actions on offer, by name, and the `explanation`.
        """
        body = {
            "event_id": uuid.uuid4().hex if event_id is None else event_id,
            "context": context,
            "features": features,
            "usage": usage,
            "group": group,
            "costs": costs,
            "actions": actions,
            "default": default,
            "explain": explain,
        }
        return self._call("POST", "/v1/decisions", body)

    def learn(
        self,
        event_id: str,
        reward: float | None = None,
        costs: Mapping[str, float] | Sequence[float] | None = None,
    ) -> dict[str, Any]:
        """Report the outcome of a decision."""
        return self._call("POST", "/v1/outcomes", {"event_id": event_id, "reward": reward, "costs": costs})

    def decision(self, event_id: str) -> dict[str, Any]:
        """A decision, its outcome so far, and why it was taken."""
        return self._call("GET", f"/v1/decisions/{quote(event_id, safe='')}")

    def state(self) -> dict[str, Any]:
        """Where the experiment stands."""
        return self._call("GET", "/v1/state")

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Any other thing that can be read, such as ``client.get("/v1/outcomes", status="late")``."""
        return self._call("GET", path, **parameters)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Any other thing that can be changed, such as ``client.post("/v1/mode", mode="paused")``."""
        return self._call("POST", path, body)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **parameters: Any
    ) -> dict[str, Any]:
        if self._experiment is not None:
            parameters["experiment"] = self._experiment
        target = self._prefix + path + (f"?{urlencode(parameters)}" if parameters else "")
        content = None
        if body is not None:
            given = {name: value for name, value in body.items() if value is not None}
            content = json.dumps(given, allow_nan=False).encode()
        deadline = time.monotonic() + self._patience
        while True:
            try:
                self._connection.request(method, target, content, self._headers)
                response = self._connection.getresponse()
                status, raw = response.status, response.read()
                pause = float(response.headers.get("Retry-After") or 0.1)
            except (OSError, http.client.HTTPException) as error:
                # What was sent may or may not have been done. The event id makes it safe to send it again.
                with contextlib.suppress(OSError):
                    self._connection.close()
                if time.monotonic() + 0.1 > deadline:
                    raise ServiceError(503, "unreachable", f"no answer from the service: {error}") from error
                time.sleep(0.1)
                continue
            if status in (429, 503) and time.monotonic() + pause <= deadline:
                time.sleep(pause)
                continue
            return _answer(status, raw)


def _answer(status: int, raw: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if status == 200 and isinstance(answer, dict):
        return answer
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        raise ServiceError(status, str(error.get("code")), str(error.get("message")))
    raise ServiceError(status, "unexpected", f"not an answer of the service: {raw[:200]!r}")
