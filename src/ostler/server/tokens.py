"""Tokens of the server: who may use it. They are stored as hashes in one private file."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from ostler.models.credentials import write_privately
from ostler.schema.errors import ConfigurationError, NotFound, UsageError
from ostler.schema.ids import new_id
from ostler.store.consent import require_own_consent
from ostler.store.paths import state_folder

TokenScope = Literal["observe", "prompt", "approve", "all", "admin"]
"""What a token allows; `server/scopes.py` has the table."""

ABOUT_SCOPES: dict[TokenScope, str] = {
    "observe": "read and follow everything, and change nothing",
    "prompt": "also start sessions, and prompt, steer and stop runs; not answer questions",
    "approve": "read, and answer questions; nothing else",
    "all": "everything, with permission profiles up to the server's `--max-permissions`",
    "admin": "everything, with any permission profile",
}

DAY = 24 * 3600

LOGIN_DAYS = 30
"""Days until a browser must log in again."""

TOKEN_DAYS = 90
"""Days until a new token expires, unless another time is given."""

LINK_SECONDS = 600
"""Seconds for which a link can be used, once."""

USE_INTERVAL_MS = 60_000
"""The last use of a token is stored this often."""

LONGEST_NAME = 100

FIRST = "first"
"""The name of the token that is created at the first start."""

LINK = "link"
"""The name of a login by a link, which belongs to no token."""


class Token(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    name: str
    scope: TokenScope
    sha256: str
    created_ms: int
    expires_ms: int = 0
    """0 if it does not expire."""
    used_ms: int = 0
    """When it was last used, to the minute; 0 if never."""


class Login(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A browser that is logged in. It has a token of its own, which counts only at its origin."""

    id: str
    token: str = ""
    """The id of the token that it logged in with; empty after a link."""
    name: str
    scope: TokenScope
    origin: str
    """The origin of its page, such as `http://127.0.0.1:8420`."""
    sha256: str
    cookie_sha256: str = ""
    """Under TLS, the hash of a cookie that must come with the token."""
    created_ms: int
    expires_ms: int
    used_ms: int = 0


class Link(msgspec.Struct, frozen=True):
    """A login link that was not used yet."""

    sha256: str
    scope: TokenScope
    expires_ms: int


class TokenFile(msgspec.Struct, omit_defaults=True):
    tokens: list[Token] = []
    cookie_key: str = ""
    """Unused: earlier versions signed cookies with it."""
    logins: list[Login] = []
    links: list[Link] = []


class Principal(msgspec.Struct, frozen=True):
    """The sender of an authenticated request."""

    token: str
    """The id of the token, or of the login of a page."""
    scope: TokenScope
    name: str = ""
    """The name of the token."""
    login: Login | None = None
    """The login of a page."""


class NewLogin(msgspec.Struct, frozen=True):
    login: Login
    token: str
    cookie: str = ""
    """Under TLS, the value of the cookie."""


Record = TypeVar("Record", Token, Login)


class TokenStore:
    """The tokens in a file, which is read again when another process has changed it."""

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.path = path or state_folder() / "tokens.json"
        self._now = now
        self._cached = TokenFile()
        self._version: tuple[int, int] | None = None
        self._used: dict[str, int] = {}
        """By id, uses that are not stored yet."""

    # --- changing -------------------------------------------------------------------------------------

    def new(self, name: str, scope: TokenScope, days: float = TOKEN_DAYS) -> str:
        """Creates a token and returns it; only its hash is stored. With 0 days it never expires."""
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise UsageError(f"a token needs a name of at most {LONGEST_NAME} letters")
        require_own_consent()
        with self._changing() as file:
            if any(name in (one.name, one.id) for one in file.tokens):
                raise UsageError(f"there is a token {name!r} already; revoke it, or use another name")
            return self._added(file, name, scope, days)

    def _added(self, file: TokenFile, name: str, scope: TokenScope, days: float) -> str:
        token = f"ostler_{secrets.token_urlsafe(32)}"
        now = self._now_ms()
        expires = now + int(days * DAY * 1000) if days else 0
        file.tokens.append(Token(new_id("tok"), name, scope, _hash(token), now, expires))
        return token

    def revoke(self, name: str) -> Token | Login:
        """Revokes a token, with the logins that were made with it, or one login."""
        with self._changing() as file:
            found: list[Token | Login] = [*file.tokens, *file.logins]
            token = next((one for one in found if one.id == name), None)
            token = token or next((one for one in file.tokens if one.name == name), None)
            if token is None:
                raise NotFound(f"there is no token {name!r}; see `ostler token list`")
            file.tokens = [one for one in file.tokens if one.id != token.id]
            file.logins = [one for one in file.logins if token.id not in (one.id, one.token)]
        return token

    def all(self) -> list[Token]:
        return list(self._file().tokens)

    def logins(self) -> list[Login]:
        return list(self._file().logins)

    def first(self) -> str:
        """Creates the first token; empty if there is one already."""
        if self._file().tokens:
            return ""
        with self._changing() as file:
            return "" if file.tokens else self._added(file, FIRST, "all", TOKEN_DAYS)

    def link_code(self, scope: TokenScope = "admin") -> str:
        """A code for a link: it logs in once, within some minutes."""
        require_own_consent()
        code = secrets.token_urlsafe(24)
        with self._changing() as file:
            file.links.append(Link(_hash(code), scope, self._now_ms() + LINK_SECONDS * 1000))
        return code

    def log_in(
        self, secret: str, origin: str, *, with_cookie: bool, days: float = LOGIN_DAYS
    ) -> NewLogin | None:
        """A login with a token or the code of a link, which then counts no more; None if it is neither."""
        hashed, now = _hash(secret), self._now_ms()
        owner = self._valid(self._file().tokens, hashed)
        if owner is None and not any(_is_same(one.sha256, hashed) for one in self._file().links):
            return None  # without the lock, because anybody may try
        token = f"ostler_login_{secrets.token_urlsafe(32)}"
        cookie = secrets.token_urlsafe(32) if with_cookie else ""
        with self._changing() as file:
            owner = self._valid(file.tokens, hashed)
            link = next((one for one in file.links if _is_same(one.sha256, hashed)), None)
            if link is not None:
                file.links.remove(link)
            if owner is None and (link is None or link.expires_ms <= now):
                return None
            scope = owner.scope if owner else link.scope  # type: ignore[union-attr]
            expires = now + LOGIN_DAYS * DAY * 1000
            login = Login(
                id=new_id("login"),
                token=owner.id if owner else "",
                name=owner.name if owner else LINK,
                scope=scope,
                origin=origin,
                sha256=_hash(token),
                cookie_sha256=_hash(cookie) if cookie else "",
                created_ms=now,
                expires_ms=min(expires, owner.expires_ms or expires) if owner else expires,
                used_ms=now,
            )
            file.logins.append(login)
        return NewLogin(login, token, cookie)

    @contextmanager
    def _changing(self) -> Iterator[TokenFile]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self.path.with_suffix(".lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                file = _read(self.path)
                yield file
                now = self._now_ms()
                file.logins = [one for one in file.logins if one.expires_ms > now]
                file.links = [one for one in file.links if one.expires_ms > now]
                write_privately(self.path, msgspec.json.format(msgspec.json.encode(file)))
        except OSError as error:
            raise ConfigurationError(f"{self.path} cannot be written: {error.strerror}") from None

    def _file(self) -> TokenFile:
        try:
            status = self.path.stat()
        except OSError:
            return TokenFile()
        if (version := (status.st_mtime_ns, status.st_ino)) != self._version:
            self._cached, self._version = _read(self.path), version
        return self._cached

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    # --- authentication -------------------------------------------------------------------------------

    def of_token(self, token: str) -> Principal | None:
        """The principal of a token, or of a login's token: then the caller checks its origin and cookie."""
        file, hashed = self._file(), _hash(token)
        if (found := self._valid(file.tokens, hashed)) is not None:
            return self._seen(Principal(found.id, found.scope, found.name))
        if (login := self._valid(file.logins, hashed)) is not None:
            return self._seen(Principal(login.id, login.scope, login.name, login))
        return None

    def _valid(self, records: list[Record], hashed: str) -> Record | None:
        found = next((one for one in records if _is_same(one.sha256, hashed)), None)
        return found if found is not None and self._is_current(found) else None

    def _is_current(self, record: Token | Login) -> bool:
        return not record.expires_ms or self._now_ms() < record.expires_ms

    def _seen(self, principal: Principal) -> Principal:
        self._used[principal.token] = self._now_ms()
        return principal

    def knows(self, principal: Principal) -> bool:
        """Whether the token was neither revoked nor has expired."""
        file = self._file()
        records: list[Token | Login] = [*file.tokens, *file.logins]
        return any(one.id == principal.token and self._is_current(one) for one in records)

    def save_uses(self) -> None:
        """Stores when tokens were last used, where that has changed by some time. Waits for other processes
        that change the file: not for the event loop."""
        used, file = dict(self._used), self._file()
        records: list[Token | Login] = [*file.tokens, *file.logins]
        if not any(used.get(one.id, 0) >= one.used_ms + USE_INTERVAL_MS for one in records):
            return
        with suppress(ConfigurationError), self._changing() as file:  # the server works without it
            file.tokens = [_used(one, used) for one in file.tokens]
            file.logins = [_used(one, used) for one in file.logins]


def _used(record: Record, used: dict[str, int]) -> Record:
    return msgspec.structs.replace(record, used_ms=max(record.used_ms, used.get(record.id, 0)))


def is_cookie_of(login: Login, cookie: str) -> bool:
    """Whether the login needs no cookie, or this is its cookie."""
    return not login.cookie_sha256 or _is_same(login.cookie_sha256, _hash(cookie))


def _read(path: Path) -> TokenFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=TokenFile)
    except FileNotFoundError:
        return TokenFile()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError:
        raise ConfigurationError(f"{path} is damaged: remove it and create new tokens") from None


def _is_same(stored: str, hashed: str) -> bool:
    return hmac.compare_digest(stored, hashed)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
