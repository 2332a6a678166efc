"""Decisions over HTTP, on a journal that loses nothing.

`serve` runs specs behind HTTP (the command `tightrope serve`); `Client` and `AsyncClient` talk to them; `verify` and `export` read
their journals.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tightrope.extras import explained

if TYPE_CHECKING:
    from tightrope.service.http.keys import create_key as create_key
    from tightrope.service.http.keys import revoke_key as revoke_key
    from tightrope.service.http.server import serve as serve
    from tightrope.service.http.server import serving as serving
    from tightrope.service.offline.replay import export as export
    from tightrope.service.offline.replay import verify as verify
    from tightrope_client import AsyncClient as AsyncClient
    from tightrope_client import Client as Client
    from tightrope_client import ServiceError as ServiceError

_NAMES = {
    "tightrope.service.http.keys": "create_key revoke_key",
    "tightrope.service.http.server": "serve serving",
    "tightrope.service.offline.replay": "export verify",
    "tightrope_client": "AsyncClient Client ServiceError",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tightrope.service' has no attribute {name!r}")
    with explained(f"tightrope.service.{name}"):
        return getattr(importlib.import_module(_HOMES[name]), name)
