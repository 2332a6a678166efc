"""Keys: when they expire, and what a file that can't be read does to them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faults.fuzz import lifespan
from tightrope.errors import InvalidInput
from tightrope.service.answer import Refusal
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys, create_key, revoke_key
from workbench import Bench, arms


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is looked at with every request."""
    monkeypatch.setattr("tightrope.service.http.keys._CHECK_SECONDS", 0.0)


def status(keys: Keys, secret: str) -> int:
    try:
        keys.find(f"Bearer {secret}").require("decide", "ward")
    except Refusal as refusal:
        return refusal.status
    return 200


def test_a_missing_key_and_an_unknown_one_are_told_apart(tmp_path: Path) -> None:
    secret = create_key(tmp_path / "keys.json", scopes=["decide"], experiments=["ward"])
    keys = Keys(tmp_path / "keys.json")
    for header in (None, secret):
        with pytest.raises(Refusal, match="send it as `Authorization: Bearer KEY`"):
            keys.find(header)
    for wrong in (secret[:-1], "tr_0_0", ""):
        with pytest.raises(Refusal, match="this key is unknown"):
            keys.find(f"Bearer {wrong}")


@pytest.mark.parametrize("damage", ["empty", "half", "other", "folder", "locked"])
def test_a_file_that_cant_be_read_leaves_the_keys_as_they_were(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    secret = create_key(path)
    keys = Keys(path)
    whole = path.read_bytes()
    if damage == "locked":
        # What stat and open say where the folder is closed to us; root may open anything.
        path.unlink()
        path.symlink_to(path)
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "other": b'{"keys": []}'}[damage])
    with caplog.at_level(logging.ERROR):
        assert [status(keys, secret) for _ in range(3)] == [200] * 3
        assert status(keys, secret + "x") == 401
    assert keys.trouble
    assert len(caplog.records) == 1, "said once"
    path.rmdir() if damage == "folder" else path.unlink()
    path.write_bytes(whole)
    os.utime(path, ns=(1, 1))
    assert status(keys, secret) == 200
    assert not keys.trouble
    revoke_key(path, secret.split("_")[1])
    assert status(keys, secret) == 401


def test_a_bad_file_is_refused_at_the_start_and_one_that_is_gone_revokes_all(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("[")
    with pytest.raises(InvalidInput, match="not a list of keys"):
        Keys(path)
    path.unlink()
    secret = create_key(path)
    keys = Keys(path)
    path.unlink()
    assert status(keys, secret) == 401


def test_keys_expire(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    lasting, short = create_key(path, days=None), create_key(path, days=1)
    keys = Keys(path)
    assert (status(keys, lasting), status(keys, short)) == (200, 200)
    stored = json.loads(path.read_text())
    assert "expires" not in stored[0]
    left = datetime.fromisoformat(stored[1]["expires"]) - datetime.now(UTC)
    assert timedelta(hours=23, minutes=59) < left <= timedelta(days=1)
    stored[1]["expires"] = datetime.fromtimestamp(time.time() - 1, UTC).isoformat()
    path.write_text(json.dumps(stored))
    assert (status(keys, lasting), status(keys, short)) == (200, 401)
    with pytest.raises(Refusal, match="this key has expired"):
        keys.find(f"Bearer {short}")
    stored[1]["expires"] = "2999-01-01T00:00:00"
    path.write_text(json.dumps(stored))
    status(keys, lasting)
    assert "timezone" in keys.trouble, "a time of day that is nowhere is no time"


def test_a_key_may_do_little_and_not_for_ever_unless_someone_says_so(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create_key(path)
    [stored] = json.loads(path.read_text())
    assert stored["scopes"] == ["decide"]
    left = datetime.fromisoformat(stored["expires"]) - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)


def test_days_and_rate_are_positive(tmp_path: Path) -> None:
    for wrong in ({"days": 0.0}, {"days": -1.0}, {"rate": 0.0}, {"rate": float("inf")}, {"days": 1e9}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            create_key(tmp_path / "keys.json", **wrong)
    assert not (tmp_path / "keys.json").exists()


class _Clocks:
    """The wall clock, which can be set, and the steady one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = time.time(), time.monotonic()
        monkeypatch.setattr("tightrope.service.http.keys.time.time", lambda: self.wall)
        monkeypatch.setattr("tightrope.service.http.keys.time.monotonic", lambda: self.steady)


def test_a_clock_that_is_set_back_revives_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.json"
    day = create_key(path, days=1.0)
    week = create_key(path, days=7.0)
    clocks = _Clocks(monkeypatch)
    keys = Keys(path)
    assert [status(keys, one) for one in (day, week)] == [200, 200]
    clocks.wall += 2 * 86_400.0
    clocks.steady += 2 * 86_400.0
    assert [status(keys, one) for one in (day, week)] == [401, 200]
    clocks.wall -= 30 * 86_400.0
    clocks.steady += 60.0
    assert [status(keys, one) for one in (day, week)] == [401, 200], "set back"
    clocks.steady += 6 * 86_400.0
    assert [status(keys, one) for one in (day, week)] == [401, 401], "time goes on while the clock is behind"


def test_a_start_with_the_clock_set_back_goes_by_the_time_of_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    secret = create_key(path, days=1.0)
    bench = Bench(arms())
    bench.now = time.time() + 2 * 86_400.0
    bench.decide({"event_id": "later"})
    keys = Keys(path)
    assert status(keys, secret) == 200
    Service([bench.experiment], keys=keys)
    assert status(keys, secret) == 401


def test_a_key_that_is_revoked_while_its_body_is_on_the_way_decides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secret, other = create_key(path), create_key(path, scopes=["read"])
    bench = Bench(arms())
    service = Service([bench.experiment], keys=Keys(path))

    async def sent(between: Callable[[], object]) -> int:
        """A decision whose body comes in two parts, and what happens between them."""
        parts = iter([b'{"event_id": ', b'"e"}'])
        heard: list[Any] = []

        async def receive() -> dict[str, Any]:
            part = next(parts)
            if part != b'{"event_id": ':
                between()
            return {"type": "http.request", "body": part, "more_body": part == b'{"event_id": '}

        async def send(message: Any) -> None:
            heard.append(message)

        headers = [(b"host", b"x"), (b"authorization", f"Bearer {secret}".encode())]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/decisions",
            "query_string": b"",
            "headers": headers,
        }
        await service(scope, receive, send)
        return int(heard[0]["status"])

    async def main() -> list[int]:
        async with lifespan(service):
            return [await sent(lambda: revoke_key(path, secret.split("_")[1])), await sent(lambda: None)]

    assert asyncio.run(main()) == [401, 401]
    assert not bench.journal.find(["e"])
    assert status(Keys(path), other) == 403
