"""Requests that nobody should send, in short: no 500, and a 503 only by admission control. `make torture` sends 200,000."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from faults.fuzz import Attempt, Fuzzer, Reply, Verdict, attack, write_keys, write_specs
from tightrope.service.http.server import make_service

pytestmark = pytest.mark.usefixtures("quiet")

# Requests with keys, and without.
COUNTS = (3_000, 1_000)


@pytest.mark.parametrize("keys", [True, False])
def test_no_request_is_answered_by_500(tmp_path: Path, keys: bool) -> None:
    known = write_keys(tmp_path / "keys.json") if keys else []
    service = make_service(
        write_specs(tmp_path), data=tmp_path / "data", keys=tmp_path / "keys.json" if keys else None
    )
    verdict = Verdict()
    asyncio.run(attack(service, Fuzzer(7, known).attempts(COUNTS[not keys]), verdict))
    assert not verdict.wrong, verdict.wrong[:3]
    # It would be easy to be refused at the door.
    for method, path in (("POST", "/v1/decisions"), ("POST", "/v1/outcomes"), ("POST", "/v1/mode")):
        assert verdict.answered(method, path) >= 5, (method, path)
    for path in ("/v1/rules", "/v1/state", "/v1/history", "/v1/decisions", "/v1/changes", "/metrics"):
        assert verdict.answered("GET", path) >= 1, path
    assert verdict.counts["422 invalid"] > 100


def test_the_control_is_found_out() -> None:
    verdict = Verdict()
    error = json.dumps({"error": {"code": "internal", "message": ""}}).encode()
    for status, code, headers in (
        (500, "internal", {}),
        (503, "unavailable", {b"retry-after": b"1"}),
        (503, "overloaded", {}),
        (429, "rate", {}),
    ):
        body = error.replace(b"internal", code.encode())
        verdict.take(Attempt("GET", b"/", (), b""), Reply(status, headers, body))
    verdict.take(
        Attempt("GET", b"/", (), b""),
        Reply(503, {b"retry-after": b"1"}, error.replace(b"internal", b"paused")),
    )
    assert len(verdict.wrong) == 4
