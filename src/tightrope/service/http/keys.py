"""Keys: who may do what with which experiment. The file holds only hashes."""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from tightrope.errors import InvalidInput
from tightrope.files import write
from tightrope.service.answer import Refusal

Scope: TypeAlias = Literal["decide", "outcome", "read", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

log = logging.getLogger("tightrope.service")

# What a key may do, and for how long, by default.
LEAST: tuple[Scope, ...] = ("decide",)
DAYS = 90.0

_CHECK_SECONDS = 1.0


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A key as the file stores it."""

    # The part of the key that is not secret.
    id: str
    # SHA-256 of the whole key. A key is 256 random bits, so a slow hash would protect nothing more.
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    scopes: tuple[Scope, ...]
    # Their names; "*" is all.
    experiments: tuple[str, ...]
    # When it expires; None: never.
    expires: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    # Requests per second; None: as many as the service can handle.
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None

    def opens(self, scope: Scope, experiment: str) -> bool:
        return scope in self.scopes and ("*" in self.experiments or experiment in self.experiments)

    def require(self, scope: Scope, experiment: str) -> None:
        if not self.opens(scope, experiment):
            # The same message whether or not the experiment exists.
            raise Refusal(403, "forbidden", f"this key does not have the scope {scope!r} for this experiment")


class Keys:
    """The keys in a file, read again when it changes. If it can't be fully read, the previous keys stay in force."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._keys: dict[str, Key] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._next_check = 0.0
        # The latest known time, and when that was on the steady clock: setting the wall clock back revives no key.
        self._latest, self._latest_at = time.time(), time.monotonic()
        # The time of the journals, which go back further than this process: the clock may have been set back before it started.
        self.passed: Callable[[], float] = lambda: 0.0
        # What is wrong with the file now, while an earlier version stays in force.
        self.trouble = ""
        self._load()

    def find(self, authorization: str | None, *, afresh: bool = False) -> Key:
        """The key in an `Authorization` header, or 401. The file is checked once a second, or now if `afresh`."""
        if afresh or time.monotonic() >= self._next_check:
            self._refresh()
        scheme, _, token = (authorization or "").partition(" ")
        _, _, rest = token.strip().partition("_")
        known = self._keys.get(rest.partition("_")[0])
        given = hashlib.sha256(token.strip().encode(errors="replace")).hexdigest()
        if scheme.lower() != "bearer":
            raise Refusal(401, "unauthorized", "a key is required; send it as `Authorization: Bearer KEY`")
        if known is None or not hmac.compare_digest(known.hash, given):
            raise Refusal(
                401, "unauthorized", "this key is unknown: it was revoked, or is not written in full"
            )
        if known.expires is not None and self._now() >= known.expires.timestamp():
            raise Refusal(401, "unauthorized", "this key has expired")
        return known

    def _now(self) -> float:
        """The time for the expiry of keys: the wall clock, but never earlier than before or than a journal's time."""
        at = time.monotonic()
        self._latest = max(time.time(), self._latest + (at - self._latest_at))
        self._latest_at = at
        return self._latest

    def _refresh(self) -> None:
        self._next_check = time.monotonic() + _CHECK_SECONDS
        self._latest = max(self._now(), self.passed())
        trouble = ""
        try:
            self._load()
        except InvalidInput as error:
            trouble = str(error)
        if trouble and trouble != self.trouble:
            log.error("the previous keys stay in force: %s", trouble)
        self.trouble = trouble

    def _load(self) -> None:
        try:
            status = self.path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._keys = {key.id: key for key in _read(self.path)}
                self._stamp = stamp
        except FileNotFoundError:
            # A file that is gone revokes everything.
            self._keys, self._stamp = {}, None
        except OSError as error:
            raise InvalidInput(f"{self.path}: can't be read: {error.strerror or error}") from error


def create_key(
    path: str | os.PathLike[str],
    *,
    scopes: Sequence[str] = LEAST,
    experiments: Sequence[str] = ("*",),
    days: float | None = DAYS,
    rate: float | None = None,
) -> str:
    """Add a key to the file, creating the file if necessary, and return the key. It can't be recovered from the file.

    Parameters
    ----------
    path : path
    scopes : sequence of "decide", "outcome", "read", "admin"
        What it may do; by default only decide.
    experiments : sequence of str
        Names; "*" is all.
    days : float, optional
        How long it is valid, 90 by default; None never expires.
    rate : float, optional
        Requests per second, beyond which it gets a 429.
    """
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(field="scopes", must=f"be among {', '.join(SCOPES)}", got=scope)
    if not scopes or not experiments:
        raise InvalidInput("a key needs at least one scope and one experiment.")
    for what, value in (("days", days), ("rate", rate)):
        if value is not None and not 0 < value < math.inf:
            raise InvalidInput(field=what, must="be a positive number", got=value)
    try:
        expires = None if days is None else datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    except OverflowError:
        raise InvalidInput(field="days", must="lead to a year before 10000", got=days) from None
    target = Path(path)
    known = _read(target) if target.exists() else []
    name = secrets.token_hex(4)
    secret = f"tr_{name}_{secrets.token_urlsafe(32)}"
    key = Key(
        name,
        hashlib.sha256(secret.encode()).hexdigest(),
        tuple(scopes),  # type: ignore[arg-type]
        tuple(experiments),
        expires,
        rate,
    )
    _write(target, [*known, key])
    return secret


def revoke_key(path: str | os.PathLike[str], name: str) -> None:
    """Remove the key with this id, the part of the key between the first two underscores."""
    target = Path(path)
    known = _read(target)
    if name not in [key.id for key in known]:
        raise InvalidInput(f"{target}: no key has the id {name!r}.")
    _write(target, [key for key in known if key.id != name])


def _read(path: Path) -> list[Key]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Key])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: is not a list of keys: {error}") from error


def _write(path: Path, keys: list[Key]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, msgspec.json.format(msgspec.json.encode(keys)) + b"\n", private=True)
