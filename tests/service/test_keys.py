"""Keys: when they expire, and what a file that can't be read does to them."""

from __future__ import annotations

import json
import logging
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tightrope.errors import InvalidInput
from tightrope.service.bodies import Refusal
from tightrope.service.keys import Keys, create_key, revoke_key


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is looked at with every request."""
    monkeypatch.setattr("tightrope.service.keys._CHECK_SECONDS", 0.0)


def status(keys: Keys, secret: str) -> int:
    try:
        keys.find(f"Bearer {secret}").require("decide", "ward")
    except Refusal as refusal:
        return refusal.status
    return 200


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
    lasting, short = create_key(path), create_key(path, days=1)
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


def test_days_and_rate_are_positive(tmp_path: Path) -> None:
    for wrong in ({"days": 0.0}, {"days": -1.0}, {"rate": 0.0}, {"rate": float("inf")}, {"days": 1e9}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            create_key(tmp_path / "keys.json", **wrong)
    assert not (tmp_path / "keys.json").exists()
