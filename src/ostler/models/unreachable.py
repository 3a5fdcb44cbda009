"""The words for a server that cannot be reached, or that breaks off: the same on every transport."""

from __future__ import annotations

import os
import socket
import ssl
from urllib.parse import urlsplit

from ostler.models.transport import CONNECT_SECONDS
from ostler.vocabulary.errors import ConnectionFailed, InvalidRequest, StreamBroken


def shown_host(url: str) -> str:
    """The part of an address that may be shown."""
    return urlsplit(url).netloc.rpartition("@")[2] or "the given address"


def unsendable(host: str) -> InvalidRequest:
    return InvalidRequest(
        f"the request to {host} cannot be sent: check the base URL, the key and the extra headers"
    )


def unreachable(host: str, error: Exception) -> ConnectionFailed:
    cause = _origin(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ConnectionFailed(
            f"cannot trust {host}: {cause.verify_message}; name your own authority's file in SSL_CERT_FILE"
        )
    if isinstance(cause, ssl.SSLError):
        return ConnectionFailed(f"cannot speak TLS with {host} ({cause.reason}); is it an http:// address?")
    if isinstance(cause, socket.gaierror):
        return ConnectionFailed(f"cannot find {host}: its name is unknown; check the address and the network")
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionFailed(f"cannot reach {host}: connection refused; is the server running?")
    return ConnectionFailed(f"cannot reach {host}: {reason_of(error)}; check the network")


def proxy_unreachable(host: str, proxy: str, variable: str, reason: str) -> ConnectionFailed:
    return ConnectionFailed(
        f"cannot reach {host}: the proxy {proxy} cannot be used ({reason}); correct or unset {variable}"
    )


def timed_out(host: str) -> ConnectionFailed:
    return ConnectionFailed(
        f"cannot reach {host}: no connection within {CONNECT_SECONDS:.0f} s; check the network"
    )


def unanswered(host: str, error: Exception) -> StreamBroken:
    """The request may have been taken: a second one could be paid, or done, twice."""
    return StreamBroken(
        f"{host} closed the connection without an answer ({reason_of(error)}); try again", stream_opened=True
    )


def broken_off(host: str, error: Exception) -> StreamBroken:
    return StreamBroken(f"{host} broke off its answer ({reason_of(error)}); try again", stream_opened=True)


def _origin(error: BaseException) -> BaseException:
    """The operating system's own error at the bottom of a chain, or the last of the chain."""
    seen = error
    while not (isinstance(seen, OSError) and seen.errno is not None):
        if isinstance(seen, BaseExceptionGroup):
            seen = seen.exceptions[0]
            continue
        below = seen.__cause__ or seen.__context__
        if below is None:
            break
        seen = below
    return seen


def reason_of(error: Exception) -> str:
    cause = _origin(error)
    if isinstance(cause, OSError) and cause.strerror:
        if cause.errno and not isinstance(cause, socket.gaierror | ssl.SSLError):
            return os.strerror(cause.errno).lower()  # asyncio's words for it repeat the address
        return cause.strerror.lower()
    return str(error).rstrip(".") or type(error).__name__
