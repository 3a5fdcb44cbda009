"""A wall before an application that knows no tokens, where other machines can reach it."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.faces.web.doorkeeping import CSRF_HEADER, READING, Doorkeeper
from ostler.faces.web.problems import Forbidden, NotAllowed, problem_of, problem_response
from ostler.faces.web.tokens import COOKIE_SECONDS, Principal
from ostler.vocabulary.errors import OstlerError

CODE = "code"


class TokenWall:
    """Whoever has a token passes, and whoever logged in with a link: `/?code=…` becomes a cookie.

    What is under `keeps_itself` has a door of its own. Who looks needs a token that may observe; who sends
    something, one that may do all.
    """

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper, keeps_itself: str) -> None:
        self._app = app
        self._doorkeeper = doorkeeper
        self._keeps_itself = keeps_itself

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or f"{scope['path']}/".startswith(f"{self._keeps_itself}/"):
            await self._app(scope, receive, send)
            return
        with self._doorkeeper.visit() as visit:
            try:
                answer = self._logged_in(request := Request(scope))
                if answer is None and scope["method"] != "OPTIONS":  # a browser asks first, without a token
                    visit.principal = self._allowed(request)
            except OstlerError as error:
                answer = problem_response(problem_of(error))
            await (answer or self._app)(scope, visit.receiving(receive), send)

    def _logged_in(self, request: Request) -> ASGIApp | None:
        code = request.query_params.get(CODE, "")
        if request.url.path != "/" or request.method != "GET" or not code:
            return None
        book = self._doorkeeper.book
        principal = self._doorkeeper.checked(request, book.of_code(code))
        if principal is None:
            raise NotAllowed("this link was used, or is too old: the server prints another when it starts")
        response = RedirectResponse("./", 303)  # a proxy may have us below a path
        response.set_cookie(
            book.cookie_name,
            book.cookie(principal),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    def _allowed(self, request: Request) -> Principal:
        principal = self._doorkeeper.principal(request)
        if principal is None:
            raise NotAllowed("say who you are: with the header `Authorization: Bearer TOKEN`")
        if principal.by_cookie and not _is_own_page(request):
            raise Forbidden("another page may not use the cookie of this one")
        if request.method not in READING and principal.scope != "all":
            raise Forbidden("this token may only observe")
        return principal


def _is_own_page(request: Request) -> bool:
    """Cookies go along with whatever a browser is made to ask. It says from where it sends something."""
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    if request.method in READING or request.headers.get(CSRF_HEADER):
        return True
    return urlsplit(request.headers.get("origin", "")).netloc == request.headers.get("host")
