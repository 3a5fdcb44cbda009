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


class TokenStore:
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
            raise UsageError(f"a token needs a name of at most {LONGEST_NAME} letters")
        with self._changing() as kept:
            if any(name in (one.name, one.id) for one in kept.tokens):
                raise UsageError(f"there is a token {name!r} already; revoke it, or use another name")
            return self._added(kept, name, scope)

    def _added(self, kept: TokenFile, name: str, scope: TokenScope) -> str:
        token = f"ostler_{secrets.token_urlsafe(32)}"
        kept.tokens.append(Token(new_id("tok"), name, scope, _hash(token), int(self._now() * 1000)))
        return token

    def revoke(self, name: str) -> Token:
        with self._changing() as kept:
            found = next((one for one in kept.tokens if name in (one.name, one.id)), None)
            if found is None:
                raise NotFound(f"there is no token {name!r}; see `ostler token list`")
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
        raise ConfigurationError(f"{path} is damaged: remove it and create new tokens") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
