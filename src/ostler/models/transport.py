"""The Transport contract: send one POST, get a status, headers and the body as it arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol


class Reply(Protocol):
    """The head of an answer. Closing it frees its connection, however much of the body was read."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case."""
        ...

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, piece by piece as it arrives. Raises `StreamBroken` where it breaks off."""
        ...

    async def aclose(self) -> None: ...


class Transport(Protocol):
    """Carries requests to a vendor.

    - `post` returns once the status is known. It raises `ConnectionFailed` when there was no connection, and
      `StreamBroken` when the request was sent and the connection then ended without an answer.
    - Redirects are handed back as they are: following one would carry the key to another host.
    - It bounds the time to connect and nothing else; who waits for an answer decides how long.
    - No message of an error holds a header's value or a part of the address that may be secret.
    """

    def prepare(self, url: str) -> None:
        """Does ahead of the first request what can be done without the network; any thread may call it."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply: ...

    async def aclose(self) -> None: ...


def default_transport() -> Transport:
    """A transport of its own. Imports the HTTP library, which is why it is asked for late."""
    from ostler.models.httpx_transport import HttpxTransport

    return HttpxTransport()
