"""Decisions over HTTP, on a journal that loses nothing.

`serve` runs specs behind HTTP (the command `tightrope serve`); `Client` and `AsyncClient` talk to them; `verify` and `export` read
their journals.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tightrope.extras import explained

if TYPE_CHECKING:
    from tightrope.service.calls import ServiceError
    from tightrope.service.client import AsyncClient, Client
    from tightrope.service.keys import create_key, revoke_key
    from tightrope.service.replay import export, verify
    from tightrope.service.server import serve, serving

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
    "AsyncClient": "client",
    "Client": "client",
    "ServiceError": "calls",
    "create_key": "keys",
    "export": "replay",
    "revoke_key": "keys",
    "serve": "server",
    "serving": "server",
    "verify": "replay",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tightrope.service' has no attribute {name!r}")
    with explained(f"tightrope.service.{name}"):
        return getattr(importlib.import_module(f"tightrope.service.{_HOMES[name]}"), name)
