"""Decisions over HTTP, on a journal that loses nothing.

`serve` runs specs behind HTTP (the command `tightrope serve`); `Client` and `AsyncClient` talk to them; `verify` and `export` read
their journals.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tightrope.extras import explained

if TYPE_CHECKING:
    from tightrope.service.http.keys import create_key, revoke_key
    from tightrope.service.http.server import serve, serving
    from tightrope.service.offline.replay import export, verify
    from tightrope_client import AsyncClient, Client, ServiceError

__all__ = [
    "AsyncClient",
    "Client",
    "ServiceError",
    "create_key",
    "export",
    "revoke_key",
    "serve",
    "serving",
    "verify",
]

_HOMES = {
    "AsyncClient": "tightrope_client",
    "Client": "tightrope_client",
    "ServiceError": "tightrope_client",
    "create_key": "tightrope.service.http.keys",
    "export": "tightrope.service.offline.replay",
    "revoke_key": "tightrope.service.http.keys",
    "serve": "tightrope.service.http.server",
    "serving": "tightrope.service.http.server",
    "verify": "tightrope.service.offline.replay",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tightrope.service' has no attribute {name!r}")
    with explained(f"tightrope.service.{name}"):
        return getattr(importlib.import_module(_HOMES[name]), name)
