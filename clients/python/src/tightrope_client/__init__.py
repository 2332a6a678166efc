"""Ask a Tightrope service for decisions, and tell it what came of them: `Client`, and `AsyncClient` for asyncio.

It needs nothing but the standard library.

>>> client = Client("http://127.0.0.1:8080")
>>> client.settings.timeout
10.0
"""

from tightrope_client.client import AsyncClient, Client
from tightrope_client.endpoints import new_event_id
from tightrope_client.errors import (
    Conflict,
    Gone,
    InvalidInput,
    InvalidRequest,
    NotAllowed,
    NotFound,
    ServiceError,
    Unavailable,
)
from tightrope_client.version import __version__

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "Gone",
    "InvalidInput",
    "InvalidRequest",
    "NotAllowed",
    "NotFound",
    "ServiceError",
    "Unavailable",
    "__version__",
    "new_event_id",
]
