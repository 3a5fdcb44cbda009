"""Tokens of the server: who may use it. They are stored as hashes in one private file."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from ostler.models.credentials import write_privately
from ostler.schema.errors import ConfigurationError, NotFound, UsageError
from ostler.schema.ids import new_id
from ostler.store.consent import require_own_consent
from ostler.store.paths import state_folder

TokenScope = Literal["observe", "all"]

Access = Literal["none", "observe", "all"]
"""What a token must allow."""

COOKIE_SECONDS = 30 * 24 * 3600

CODE_SECONDS = 600
"""Seconds for which a printed link can be used, once."""

LONGEST_NAME = 100

FIRST = "first"
"""The name of the token that is created at the first start."""


class Token(msgspec.Struct, frozen=True):
    id: str
    name: str
    scope: TokenScope
    sha256: str
    created_ms: int


class TokenFile(msgspec.Struct, omit_defaults=True):
    tokens: list[Token] = []
    cookie_key: str = ""
    """Signs cookies; a new key invalidates all of them."""


class Principal(msgspec.Struct, frozen=True):
    """The sender of an authenticated request."""

    token: str
    """The id of the token."""
    scope: TokenScope
    cookie_until: int = 0
    """When the cookie expires, in seconds; 0 with a token."""

    @property
    def by_cookie(self) -> bool:
        return self.cookie_until > 0


class TokenStore:
    """The tokens in a file, which is read again when another process has changed it."""

    def __init__(self, path: Path | None = None, now: Callable[[], float] = time.time) -> None:
        self.path = path or state_folder() / "tokens.json"
        self._now = now
        self._cached = TokenFile()
        self._version: tuple[int, int] | None = None
        self._codes: dict[str, float] = {}
        """The hashes of codes in links, and when each expires."""

    # --- changing -------------------------------------------------------------------------------------

    def new(self, name: str, scope: TokenScope) -> str:
        """Creates a token and returns it; only its hash is stored."""
        if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            raise UsageError(f"a token needs a name of at most {LONGEST_NAME} letters")
        require_own_consent()
        with self._changing() as file:
            if any(name in (one.name, one.id) for one in file.tokens):
                raise UsageError(f"there is a token {name!r} already; revoke it, or use another name")
            return self._added(file, name, scope)

    def _added(self, file: TokenFile, name: str, scope: TokenScope) -> str:
        token = f"ostler_{secrets.token_urlsafe(32)}"
        file.tokens.append(Token(new_id("tok"), name, scope, _hash(token), int(self._now() * 1000)))
        return token

    def revoke(self, name: str) -> Token:
        with self._changing() as file:
            token = next((one for one in file.tokens if name in (one.name, one.id)), None)
            if token is None:
                raise NotFound(f"there is no token {name!r}; see `ostler token list`")
            file.tokens.remove(token)
        return token

    def name_of(self, principal: Principal) -> str:
        """The name of the token, which may have been revoked meanwhile."""
        names = [one.name for one in self._file().tokens if one.id == principal.token]
        return names[0] if names else principal.token

    def all(self) -> list[Token]:
        return list(self._file().tokens)

    def first(self) -> str:
        """Creates the first token; empty if there is one already."""
        if self._file().tokens:
            return ""
        with self._changing() as file:
            return "" if file.tokens else self._added(file, FIRST, "all")

    @contextmanager
    def _changing(self) -> Iterator[TokenFile]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self.path.with_suffix(".lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                file = _read(self.path)
                file.cookie_key = file.cookie_key or secrets.token_hex(32)
                yield file
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

    # --- authentication -------------------------------------------------------------------------------

    def of_token(self, token: str) -> Principal | None:
        hashed = _hash(token)
        for one in self._file().tokens:
            if hmac.compare_digest(one.sha256, hashed):
                return Principal(one.id, one.scope)
        return None

    def knows(self, principal: Principal) -> bool:
        """Whether the token was not revoked, and the cookie has not expired."""
        if principal.by_cookie and principal.cookie_until < self._now():
            return False
        return any(one.id == principal.token for one in self._file().tokens)

    def code(self) -> str:
        """A code for a link: it logs in once, within some minutes, with the first token of scope `all`."""
        code = secrets.token_urlsafe(24)
        self._codes[_hash(code)] = self._now() + CODE_SECONDS
        return code

    def of_code(self, code: str) -> Principal | None:
        """Accepts the code of a link, once."""
        until = self._codes.pop(_hash(code), 0.0)
        owners = sorted(self._file().tokens, key=lambda one: one.scope != "all")
        return Principal(owners[0].id, owners[0].scope) if owners and self._now() < until else None

    def cookie(self, principal: Principal) -> str:
        content = f"{principal.token}.{int(self._now()) + COOKIE_SECONDS}"
        return f"{content}.{self._signature(content)}"

    def of_cookie(self, cookie: str) -> Principal | None:
        content, _, signature = cookie.rpartition(".")
        token, _, until = content.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(content).encode()):
            return None
        if not until.isdecimal() or int(until) < self._now():
            return None
        owner = next((one for one in self._file().tokens if one.id == token), None)
        return Principal(owner.id, owner.scope, int(until)) if owner else None

    def _signature(self, content: str) -> str:
        key = self._file().cookie_key or os.urandom(32).hex()
        return hmac.new(key.encode(), content.encode(), hashlib.sha256).hexdigest()

    @property
    def cookie_name(self) -> str:
        """Different for each home, because cookies ignore the port."""
        return f"ostler_{hashlib.sha256(str(self.path).encode()).hexdigest()[:8]}"


def _read(path: Path) -> TokenFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=TokenFile)
    except FileNotFoundError:
        return TokenFile()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError:
        raise ConfigurationError(f"{path} is damaged: remove it and create new tokens") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
