"""The dashboard: one page, its script and style, and plotly.js from the installed plotly package. Nothing comes from outside.

The page holds no data: its script reads the same routes as any other caller, with the key that its reader types in.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import importlib.util
import re
from pathlib import Path
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tightrope import templates

_HERE: Final = Path(__file__).parent
_TYPES: Final = {
    "dashboard.css": "text/css",
    "dashboard_words.js": "text/javascript",
    "dashboard_changes.js": "text/javascript",
    "dashboard.js": "text/javascript",
    "plotly.min.js": "text/javascript",
}
_STYLE_IDS: Final = re.compile(rb'document\.getElementById\("([0-9a-f]{64})"\)')
_SAFETY: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def routes() -> list[Route]:
    """The page at `/`, and what it loads from `/static/`. No key is needed for them."""
    return [Route("/", _page), Route("/static/{name}", _static)]


class _Asset(NamedTuple):
    body: bytes
    zipped: bytes
    tag: str


async def _page(request: Request) -> Response:
    return _answer(request, await asyncio.to_thread(_html), "text/html", "no-cache")


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    asset = await asyncio.to_thread(_load, name) if name in _TYPES else None
    if asset is None:
        raise HTTPException(404, "Not Found")
    # The page's URLs contain the version, so browsers may cache them for good.
    named = request.query_params.get("v") == asset.tag
    caching = "public, max-age=31536000, immutable" if named else "no-cache"
    return _answer(request, asset, _TYPES[name], caching)


def _answer(request: Request, asset: _Asset, media_type: str, caching: str) -> Response:
    headers = {**_SAFETY, "cache-control": caching, "etag": f'W/"{asset.tag}"', "vary": "accept-encoding"}
    if headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.zipped, headers={**headers, "content-encoding": "gzip"}, media_type=media_type)
    return Response(asset.body, headers=headers, media_type=media_type)


@functools.cache
def _html() -> _Asset:
    assets = {name: _load(name) for name in _TYPES}
    # Without plotly the page still works, and says that its charts are missing.
    versions = {name: "none" if asset is None else asset.tag for name, asset in assets.items()}
    plotly = assets["plotly.min.js"]
    # plotly.js adds a style for maps, which the policy of the page forbids, unless an element has the id of that style.
    ids = sorted({one.decode() for one in _STYLE_IDS.findall(b"" if plotly is None else plotly.body)})
    page = templates.render("tightrope.service.http/dashboard.html", versions=versions, ids=ids)
    return _asset(page.encode())


@functools.cache
def _load(name: str) -> _Asset | None:
    path = _HERE / name
    if name == "plotly.min.js":
        # Found, not imported: the package takes a second and 50 MB that the service has no use for.
        found = importlib.util.find_spec("plotly")
        if found is None or not found.submodule_search_locations:
            return None
        path = Path(found.submodule_search_locations[0], "package_data", name)
    try:
        return _asset(path.read_bytes())
    except OSError:
        return None


def _asset(body: bytes) -> _Asset:
    return _Asset(body, gzip.compress(body, 6, mtime=0), hashlib.sha256(body).hexdigest()[:16])
