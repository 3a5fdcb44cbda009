"""The Transport contract: send one POST, get a status, headers and the body as it arrives."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Protocol

CONNECT_SECONDS = 15.0
IDLE_LIMIT = 64
IDLE_SECONDS = 30.0
"""How long a connection is kept for the next request: tools often run for many seconds between two."""


class Reply(Protocol):
    """The head of an answer. Closing it frees its connection, however much of the body was read."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case."""
        ...

    @property
    def is_complete(self) -> bool:
        """The whole body has come; False also where that is not known."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body as it arrives; nothing at its end. Raises `StreamBroken` where it breaks
        off, or was closed."""
        ...

    async def aclose(self) -> None: ...


class Transport(Protocol):
    """Carries requests to a vendor.

    - `post` returns once the status is known. It raises `ConnectionFailed` when there was no connection, and
      `StreamBroken` when the request was sent and the connection then ended without an answer. Only a kept
      connection that the server closes just as the request is sent may be replaced, once.
    - Redirects are handed back as they are: following one would carry the key to another host.
    - It bounds the time to connect and nothing else; who waits for an answer decides how long.
    - No message of an error holds a header's value or a part of the address that may be secret.
    """

    def prepare(self, url: str) -> None:
        """Does ahead of the first request what can be done without the network; any thread may call it."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply: ...

    async def aclose(self) -> None: ...


def default_transport(url: str) -> Transport:
    """A transport of its own for this address. Imports what it is made of: ask for it late."""
    if _is_plain(url):
        from ostler.models.direct_transport import DirectTransport

        return DirectTransport()
    from ostler.models.httpx_transport import HttpxTransport

    return HttpxTransport()


def _is_plain(url: str) -> bool:
    """No proxy stands before such addresses, and the host's name needs no translation."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0].rpartition("@")[2]
    return (
        scheme.lower() in ("http", "https")
        and host.isascii()
        and "%" not in host
        and not _has_proxy(scheme.lower())
    )


def proxy_variables(*schemes: str) -> list[str]:
    """Those that are set and name a proxy for such addresses, the one that counts first."""
    meant = [*(f"{scheme}_proxy" for scheme in schemes), "all_proxy"]
    named = [name for name, value in os.environ.items() if value and name.lower() in meant]
    return sorted(named, key=lambda name: meant.index(name.lower()))


def _has_proxy(scheme: str) -> bool:
    """Whether one is set at all. httpx2 knows the rules of NO_PROXY; they are not worth having twice."""
    if proxy_variables(scheme):
        return True
    if sys.platform != "darwin":
        return False
    from urllib.request import getproxies

    return bool(getproxies())  # also those of the system's settings
