"""Serves the built web page, which ships with the package and makes no third-party requests."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from html import escape
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.schema.errors import NotFound
from ostler.server.agentapi.bodies import plain
from ostler.server.problems import error_response

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors "
)

HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}

FOR_EVER = "public, max-age=31536000, immutable"
"""For files with a hash of their content in the name."""

Wire = Literal["native", "agentapi"]
_WIRE = b'<meta name="ostler-wire" content="%b"'


class Pages:
    """Serves the page's files, and the page itself for any other path.

    The page refers to its files by relative paths, so it works below any prefix of a proxy.
    """

    def __init__(self, wire: Wire = "native", framed_by: Sequence[str] = ()) -> None:
        """`wire` is the API that the page uses: with `agentapi` it shows the one agent that is served one
        folder above. `framed_by` are origins whose pages may show it in a frame."""
        # In memory, because an update of the package would remove files that an open page asks for.
        self._files = dict(_files(resources.files("ostler.server") / "page"))
        self._wire = wire
        policy = _POLICY + (" ".join(["'self'", *framed_by]) if framed_by else "'none'")
        self._headers = {"content-security-policy": policy, **HEADERS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        path = request.path_params.get("path", "")
        await self._answer(request.method, path, request.url.path)(scope, receive, send)

    def _answer(self, method: str, path: str, address: str) -> Response:
        if path.startswith("api/") or method not in ("GET", "HEAD") or "index.html" not in self._files:
            return error_response(NotFound(f"there is nothing at /{path[:200]}"))
        name = path if path in self._files else "index.html"
        if name == "index.html" and path.startswith("assets/"):  # of an older page
            return error_response(NotFound(f"there is nothing at /{path[:200]}"))
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        caching = FOR_EVER if name.startswith("assets/") else "no-cache"
        content = self._files[name]
        if name == "index.html":
            content = content.replace(b'"./assets/', b'"%bassets/' % _way(path, address).encode())
            content = content.replace(_WIRE % b"native", _WIRE % self._wire.encode())
        return Response(content, headers={**self._headers, "cache-control": caching}, media_type=kind)


def _way(path: str, address: str) -> str:
    """From an address to where the page is mounted; `path` is what of it lies below."""
    if not path and not address.endswith("/"):
        return f"./{address.rpartition('/')[2]}/"
    return "../" * path.count("/") or "./"


def _files(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    if not folder.is_dir():
        return []
    files: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        name = prefix + one.name
        files += _files(one, f"{name}/") if one.is_dir() else [(name, one.read_bytes())]
    return files


MOUNT = "/chat"
_PAGES = frozenset({"", "embed", "embed/"})


class Chat:
    """Always mounted at the same place; `base` is where browsers see it, through a proxy."""

    def __init__(self, base: str, framed_by: Sequence[str]) -> None:
        self.base = base.removesuffix("/")
        self._pages = Pages("agentapi", framed_by)

    def redirect(self, request: Request) -> Response:
        target = quote(f"{self.base}/embed", safe="/%:@!$&'()*+,;=~")
        if request.method not in ("GET", "HEAD"):
            return Response(status_code=307, headers={"location": target})
        body = f'<a href="{escape(target)}">Temporary Redirect</a>.\n\n'
        return Response(body, 307, {"location": target}, "text/html")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        below = scope["path"].removeprefix(MOUNT)
        path = below.removeprefix("/")
        app: ASGIApp = plain("404 page not found", 404)
        if path in _PAGES or path.startswith("assets/"):
            app = self._pages
            address = {"path": self.base + below, "root_path": "", "path_params": {"path": path}}
            scope = {**scope, **address}
        await app(scope, receive, send)
