"""The `Transport` contract, which transport an address needs, trusted certificates, and connection errors."""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from ostler.core.lazy import load
from ostler.schema.errors import ConnectionFailed, InvalidRequest, StreamBroken

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
    """A new transport for this address; importing one takes time, so ask for it when a request is due."""
    name = "http_client:DirectTransport" if _is_plain(url) else "httpx_transport:HttpxTransport"
    transport: Transport = load(f"ostler.models.{name}")()
    return transport


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


def display_host(url: str) -> str:
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


# Where distributions keep their bundle; a Python that was built elsewhere does not look there.
_BUNDLES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)

_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")


def ssl_context() -> ssl.SSLContext:
    """Trusts what SSL_CERT_FILE and SSL_CERT_DIR name, or else what the system trusts."""
    file, directory = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not directory:
        return _trusting_as_the_system()
    try:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConnectionFailed(
            f"SSL_CERT_FILE={file} cannot be used: {reason}; correct or unset it"
        ) from error


def _trusting_as_the_system() -> ssl.SSLContext:
    if sys.platform == "darwin":
        import truststore

        return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    paths = ssl.get_default_verify_paths()
    file = paths.openssl_cafile if Path(paths.openssl_cafile).is_file() else None
    directory = paths.openssl_capath if _is_hashed(Path(paths.openssl_capath)) else None
    if file is None and directory is None:
        file = next((path for path in _BUNDLES if Path(path).is_file()), None)
    if file is not None or directory is not None:
        context.load_verify_locations(file, directory)
    return context


def _is_hashed(directory: Path) -> bool:
    """Whether OpenSSL finds authorities in it, one file for each, when it needs them."""
    return directory.is_dir() and any(_HASHED.fullmatch(path.name) for path in directory.iterdir())
