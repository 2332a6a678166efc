"""When a request is sent again, on a clock of the test's own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tightrope_client import InvalidInput, Unavailable, endpoints, retries
from tightrope_client.endpoints import Request, Settings
from tightrope_client.retries import Attempts, Unanswered
from tightrope_client.transport import Reply, Unsent

BUSY = b'{"error": {"code": "overloaded", "message": "not now"}}'
HANGS = b'{"error": {"code": "unavailable", "message": "not now"}}'


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(retries, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(retries, "random", SimpleNamespace(uniform=lambda low, high: high))
    return now


def attempts(request: Request[object] | None = None, **settings: float) -> Attempts[object]:
    return Attempts(request or Request("GET", "/"), Settings("http://localhost", **settings), Unanswered())


def failed(one: Attempts[object], error: OSError | None = None) -> float:
    """The pause after an attempt that failed."""
    with one:
        raise error or OSError
    return one.pause


def pause_after(one: Attempts[object], reply: Reply) -> float | None:
    """The pause after an answer; None if it is the last."""
    one.take(reply)
    return next((attempt.pause for attempt in one), None)


def test_pauses_double_up_to_two_seconds(clock: list[float]) -> None:
    one = attempts(patience=1000.0)
    assert [failed(one) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    assert all(pause_after(one, Reply(503, {}, BUSY)) == 2.0 for _ in range(2000)), "without end"


def test_retry_after_comes_before_the_pause(clock: list[float]) -> None:
    assert pause_after(attempts(), Reply(429, {"retry-after": "3"}, BUSY)) == 3.1
    for odd in ("-1", "soon", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT", ""):
        assert pause_after(attempts(), Reply(503, {"retry-after": odd}, BUSY)) == 0.1
    assert pause_after(attempts(), Reply(503, {"retry-after": "10"}, BUSY)) is None, "beyond patience"
    assert pause_after(attempts(), Reply(500, {"retry-after": "1"}, BUSY)) is None, "a defect stays one"


def test_patience_and_deadline_end_it(clock: list[float]) -> None:
    one = attempts(patience=5.0)
    clock[0] += 4.9
    assert failed(one) == 0.1
    clock[0] += 0.1
    with pytest.raises(Unavailable, match=r"in 2 attempts: OSError"):
        failed(one)
    hurried = attempts(Request("GET", "/", deadline=0.25), patience=5.0, timeout=3.0)
    assert (hurried.left, hurried.timeout) == (0.25, 0.25)
    clock[0] += 0.2
    assert hurried.left == pytest.approx(0.05)
    with pytest.raises(Unavailable):
        failed(hurried)
    slow = attempts(Request("GET", "/", deadline=60.0), patience=0.0, timeout=3.0)
    assert slow.timeout == 3.0
    assert failed(slow) == 0.1, "a deadline takes the place of patience"


def test_what_may_have_been_done_is_repeated_only_where_that_is_safe(clock: list[float]) -> None:
    once = endpoints.roll_back(Settings("http://localhost"), 3, "all")
    assert not once.repeatable
    assert endpoints.erase(Settings("http://localhost"), "visit-1").repeatable
    assert failed(attempts(once), Unsent()) == 0.1
    with pytest.raises(Unavailable):
        failed(attempts(once))
    for reply, again in (
        (Reply(429, {}, BUSY), True),
        (Reply(503, {}, BUSY), True),
        (Reply(503, {}, HANGS), False),
        (Reply(503, {}, b"<html>"), False),
        (Reply(502, {}, BUSY), False),
    ):
        assert (pause_after(attempts(once), reply) is not None) == again


def test_what_is_no_failure_of_the_network_is_not_tried_again(clock: list[float]) -> None:
    one = attempts()
    with pytest.raises(KeyboardInterrupt), one:
        raise KeyboardInterrupt
    assert one.made == 0


def test_the_newest_of_what_got_no_answer_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_KEPT", 3)
    kept, settings = Unanswered(), Settings("http://localhost")
    asked = [endpoints.decide(settings, {"age": i}, event_id=str(i)) for i in range(5)]
    for request in asked:
        kept.add(request)
    assert list(kept.copy()) == ["2", "3", "4"]
    kept.remove(asked[3])
    kept.remove(asked[0])
    assert kept.copy() == {i: {"event_id": i, "context": {"age": int(i)}} for i in ("2", "4")}


def test_targets_hold_what_an_address_may() -> None:
    settings = Settings("http://localhost/behind/a/proxy/", experiment="ward & annexe")
    assert endpoints.state(settings).target == "/behind/a/proxy/v1/state?experiment=ward+%26+annexe"
    assert endpoints.experiments(settings).target == "/behind/a/proxy/v1/experiments"
    assert endpoints.decision(settings, "a/ä?").target.startswith(
        "/behind/a/proxy/v1/decisions/a%2F%C3%A4%3F?"
    )
    for path in ("v1/state", "/v1/state HTTP/1.1\r\nX: y", "/ä"):
        with pytest.raises(InvalidInput, match="path must begin with /"):
            endpoints.get(settings, path)
    with pytest.raises(InvalidInput, match="key must consist of visible ASCII"):
        Settings("http://localhost", key="a\r\nX: y")
