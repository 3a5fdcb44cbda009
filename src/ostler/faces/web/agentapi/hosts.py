"""By which names the server may be asked for, and from pages of which origins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.faces.web.agentapi.answers import plain
from ostler.vocabulary.errors import UsageError

ANY = "*"
_NO_HOST = re.compile(r"[^\w!$%&'()*+,\-.:;=\[\]~]")


def parse_allowed_hosts(items: Sequence[str]) -> list[str]:
    """The names as they are compared. Raises `UsageError`."""
    try:
        return _parsed_hosts(items)
    except ValueError as error:
        raise UsageError(f"failed to parse allowed hosts: {error}") from None


def parse_allowed_origins(items: Sequence[str]) -> list[str]:
    """Each as `scheme://host[:port]`; one may have a `*` in it. Raises `UsageError`."""
    try:
        return _parsed_origins(items)
    except ValueError as error:
        raise UsageError(f"failed to parse allowed origins: {error}") from None


def _parsed_hosts(items: Sequence[str]) -> list[str]:
    _check_list(items)
    if ANY in items:
        return [ANY]
    for item in items:
        if "http://" in item or "https://" in item:
            raise ValueError(f"'{item}' must not include http:// or https://")
    split = []
    for item in items:
        try:
            split.append((item, *split_host(re.split("[/?#]", item)[0])))
        except ValueError as error:
            raise ValueError(f"'{item}' is not a valid host: {error}") from None
    for item, _, port in split:
        if port:
            raise ValueError(f"'{item}' must not include a port")
    return [name for _, name, _ in split]


def _parsed_origins(items: Sequence[str]) -> list[str]:
    _check_list(items)
    if ANY in items:
        return [ANY]
    origins = []
    for item in items:
        try:
            parts = urlsplit(item)
        except ValueError as error:
            raise ValueError(f"'{item}' is not a valid origin: {error}") from None
        origins.append(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")
    return origins


def _check_list(items: Sequence[str]) -> None:
    if not items:
        raise ValueError("the list must not be empty")
    for item in [] if ANY in items else items:
        if any(character.isspace() for character in item):
            raise ValueError(f"'{item}' contains whitespace characters, which are not allowed")
        if "," in item:
            raise ValueError(f"'{item}' contains comma characters, which are not allowed")


def split_host(text: str) -> tuple[str, str]:
    """A name and a port, if there is one. Raises `ValueError`."""
    if wrong := _NO_HOST.search(text):
        raise ValueError(f"invalid character {wrong[0]!r} in host name")
    if text.startswith("["):
        name, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise ValueError("missing ']' in host")
    else:
        colon = text.rfind(":")
        name, rest = (text, "") if colon < 0 else (text[:colon], text[colon:])
    if not re.fullmatch("(?::[0-9]*)?", rest):
        raise ValueError(f'invalid port "{rest}" after host')
    return name, rest[1:]


class AllowedHosts:
    """Refuses requests for other names: a page elsewhere could lead its own name here."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app = app
        self._shown = ", ".join(hosts)
        self._allowed = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if ANY not in self._allowed and not self._is_allowed(", ".join(Headers(scope=scope).getlist("host"))):
            app = plain(f"Invalid host header. Allowed hosts: {self._shown}", 400)
        await app(scope, receive, send)

    def _is_allowed(self, host: str) -> bool:
        try:
            return bool(host) and split_host(host)[0].lower() in self._allowed
        except ValueError:
            return False
