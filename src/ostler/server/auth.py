"""Who asks, from a token or a cookie, whether that is enough, and for how long."""
# MERGED: Who may do what at the server: tokens, of which only hashes are kept, and cookies of who logged
# MERGED: in.
# MERGED: A wall before an application that knows no tokens, where other machines can reach it.

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.models.credentials import write_privately
from ostler.schema.errors import ConfigurationError, NotFound, OstlerError, UsageError
from ostler.schema.ids import new_id
from ostler.server.middleware import Buckets, address_of
from ostler.server.problems import Forbidden, NotAllowed, ServerBusy, TooMany, problem_of, problem_response
from ostler.store.paths import state_folder

TokenScope = Literal["observe", "all"]

Access = Literal["none", "observe", "all"]
"""What a token must allow."""


COOKIE_SECONDS = 30 * 24 * 3600

CODE_SECONDS = 600
"""For which a link that was printed can be used, once."""

LONGEST_NAME = 100

FIRST = "first"
"""The name of the token that is made at the first start."""


class Token(msgspec.Struct, frozen=True):
    id: str
    name: str
    scope: TokenScope
    sha256: str
    created_ms: int


class TokenFile(msgspec.Struct, omit_defaults=True):
    tokens: list[Token] = []
    cookie_key: str = ""
    """Signs cookies; a new one logs everybody out."""


class Principal(msgspec.Struct, frozen=True):
    """Somebody who may do something."""

    token: str
    """The id of their token."""
    scope: TokenScope
    cookie_until: int = 0
    """When the cookie ends by which they are known, in seconds; 0 with a token."""

    @property
    def by_cookie(self) -> bool:
        return self.cookie_until > 0


def token_file() -> Path:
    return state_folder() / "tokens.json"


class TokenBook:
    """The tokens of a file that other processes change, too: it is read anew when it has changed."""

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.path = path or token_file()
        self._now = now
        self._read = TokenFile()
        self._version: tuple[int, int] | None = None
        self._codes: dict[str, float] = {}
        """Hashes of the codes in links, and until when each can be used."""

    # --- changing -------------------------------------------------------------------------------------

    def new(self, name: str, scope: TokenScope) -> str:
        """Makes a token, and returns what is never seen again."""
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise UsageError(f"a token needs a name of at most {LONGEST_NAME} letters: say what it is for")
        with self._changing() as kept:
            if any(name in (one.name, one.id) for one in kept.tokens):
                raise UsageError(f"there is a token {name!r} already; revoke it, or take another name")
            return self._added(kept, name, scope)

    def _added(self, kept: TokenFile, name: str, scope: TokenScope) -> str:
        token = f"ostler_{secrets.token_urlsafe(32)}"
        kept.tokens.append(Token(new_id("tok"), name, scope, _hash(token), int(self._now() * 1000)))
        return token

    def revoke(self, name: str) -> Token:
        with self._changing() as kept:
            found = next((one for one in kept.tokens if name in (one.name, one.id)), None)
            if found is None:
                raise NotFound(f"there is no token {name!r}; `ostler token` lists those there are")
            kept.tokens.remove(found)
        return found

    def all(self) -> list[Token]:
        return list(self._kept().tokens)

    def first(self) -> str:
        """The token of the first start; empty if it was made before."""
        if self._kept().tokens:
            return ""
        with self._changing() as kept:
            return "" if kept.tokens else self._added(kept, FIRST, "all")

    @contextmanager
    def _changing(self) -> Iterator[TokenFile]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self.path.with_suffix(".lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                kept = _read(self.path)
                kept.cookie_key = kept.cookie_key or secrets.token_hex(32)
                yield kept
                write_privately(self.path, msgspec.json.format(msgspec.json.encode(kept)))
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be written: {error.strerror}") from None

    def _kept(self) -> TokenFile:
        try:
            found = self.path.stat()
        except OSError:
            return TokenFile()
        if (version := (found.st_mtime_ns, found.st_ino)) != self._version:
            self._read, self._version = _read(self.path), version
        return self._read

    # --- who is it ------------------------------------------------------------------------------------

    def of_token(self, token: str) -> Principal | None:
        hashed = _hash(token)
        for one in self._kept().tokens:
            if hmac.compare_digest(one.sha256, hashed):
                return Principal(one.id, one.scope)
        return None

    def knows(self, principal: Principal) -> bool:
        """Whether they still are who they were: a token can be revoked, and a cookie ends."""
        if principal.by_cookie and principal.cookie_until < self._now():
            return False
        return any(one.id == principal.token for one in self._kept().tokens)

    def code(self) -> str:
        """For a link: it logs in once, within some minutes, as the first who may do all."""
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = self._now() + CODE_SECONDS
        return code

    def of_code(self, code: str) -> Principal | None:
        """Who logs in with the code of a link; it cannot be used again."""
        until = self._codes.pop(_hash(code), 0.0)
        owners = sorted(self._kept().tokens, key=lambda one: one.scope != "all")
        return Principal(owners[0].id, owners[0].scope) if owners and self._now() < until else None

    def cookie(self, principal: Principal) -> str:
        said = f"{principal.token}.{int(self._now()) + COOKIE_SECONDS}"
        return f"{said}.{self._signature(said)}"

    def of_cookie(self, cookie: str) -> Principal | None:
        said, _, signature = cookie.rpartition(".")
        token, _, until = said.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(said).encode()):
            return None
        if not until.isdecimal() or int(until) < self._now():
            return None
        owner = next((one for one in self._kept().tokens if one.id == token), None)
        return Principal(owner.id, owner.scope, int(until)) if owner else None

    def _signature(self, said: str) -> str:
        key = self._kept().cookie_key or os.urandom(32).hex()
        return hmac.new(key.encode(), said.encode(), hashlib.sha256).hexdigest()

    @property
    def cookie_name(self) -> str:
        """Of its own for each home: cookies do not tell ports apart."""
        return f"ostler_{hashlib.sha256(str(self.path).encode()).hexdigest()[:8]}"


def _read(path: Path) -> TokenFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=TokenFile)
    except FileNotFoundError:
        return TokenFile()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError:
        raise ConfigurationError(f"{path} is damaged: remove it, and make new tokens") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


READING = frozenset({"GET", "HEAD", "OPTIONS"})

CSRF_HEADER = "x-ostler"
"""A page of somebody else cannot set it without being asked first whether it may."""

WRONG_A_MINUTE = 20.0
"""Attempts with a wrong token, from one address."""

LOOKING = 1.0
"""Seconds after which it is seen that a token was revoked."""


class Doorkeeper:
    def __init__(self, book: TokenBook) -> None:
        self.book = book
        self._wrong = Buckets(WRONG_A_MINUTE / 60, WRONG_A_MINUTE)
        self._visits: set[Visit] = set()

    def require(self, request: Request, access: Access) -> Principal | None:
        """Raises `NotAllowed` or `Forbidden`."""
        if access == "none":
            return None
        principal = self.principal(request)
        if principal is None:
            raise NotAllowed("say who you are: with the header `Authorization: Bearer TOKEN`, or by a login")
        if principal.by_cookie:
            _require_own_page(request)
        if access == "all" and principal.scope != "all":
            raise Forbidden("this token may only observe")
        return principal

    def principal(self, request: Request) -> Principal | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            if kind.lower() == "bearer":
                return self.checked(request, self.book.of_token(token.strip()))
            cookie = request.cookies.get(self.book.cookie_name)
            return self.book.of_cookie(cookie) if cookie else None
        except ConfigurationError:  # its words are for whoever can see the file
            raise ServerBusy("the server's tokens cannot be read: `ostler token` there says why") from None

    def checked(self, request: Request, found: Principal | None) -> Principal | None:
        """Whoever guesses is slowed down."""
        if found is None and not self._wrong.take(address_of(request.scope)):
            raise TooMany("too many wrong tokens: wait a minute")
        return found

    @contextmanager
    def visit(self) -> Iterator[Visit]:
        """A request that is under way; when the token of its principal is revoked, it ends."""
        visit = Visit()
        self._visits.add(visit)
        try:
            yield visit
        finally:
            self._visits.discard(visit)

    async def watch(self) -> None:
        """Ends the visits of those who are not known any more."""
        while True:
            await asyncio.sleep(LOOKING)
            for visit in [one for one in self._visits if one.principal and not self._knows(one.principal)]:
                visit.end()

    def _knows(self, principal: Principal) -> bool:
        try:
            return self.book.knows(principal)
        except ConfigurationError:
            return False


class Visit:
    """`principal` is there as soon as it is known who asks."""

    def __init__(self) -> None:
        self.principal: Principal | None = None
        self._under_way: set[asyncio.Timeout] = set()

    def end(self) -> None:
        for one in self._under_way:
            one.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator[None]:
        """What is done as long as the token counts. Raises `NotAllowed`."""
        try:
            async with asyncio.timeout(None) as ending:
                self._under_way.add(ending)
                try:
                    yield
                finally:
                    self._under_way.discard(ending)
        except TimeoutError:
            if not ending.expired():
                raise
            raise NotAllowed("the token was revoked") from None

    def receiving(self, receive: Receive) -> Receive:
        """To whoever streams, a revoked token is a connection that has ended."""

        async def received() -> Message:
            try:
                async with self.lasting():
                    return await receive()
            except NotAllowed:
                return {"type": "http.disconnect"}

        return received


def _require_own_page(request: Request) -> None:
    """Cookies go along with whatever a browser is made to ask: only our own page may use them."""
    if request.method not in READING and not request.headers.get(CSRF_HEADER):
        raise Forbidden("a request with a cookie must have the header `X-Ostler: 1`")
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Forbidden("another page may not use the cookie of this one")


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
