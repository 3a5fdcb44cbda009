"""The page, where this wire's clients look for it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.faces.web.agentapi.answers import plain
from ostler.faces.web.pages import Pages

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
            seen = {"path": self.base + below, "root_path": "", "path_params": {"path": path}}
            scope = {**scope, **seen}
        await app(scope, receive, send)
