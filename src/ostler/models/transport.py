"""The `Transport` contract, which transport an address needs, trusted certificates, and connection errors."""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from ostler.core.lazy import load
from ostler.schema.errors import ConnectionFailed, InvalidRequest, StreamBroken

CONNECT_SECONDS = 15.0
IDLE_LIMIT = 64

IDLE_SECONDS = 30.0
"""How long a connection waits for the next request: tools often run for many seconds between two."""


class Reply(Protocol):
    """The head of an answer. Closing it frees its connection, even if the body is not read."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names are in lower case."""
        ...

    @property
    def is_complete(self) -> bool:
        """The whole body has arrived; False also if that is unknown."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body; nothing at its end. Raises `StreamBroken` if it breaks or is closed."""
        ...

    async def aclose(self) -> None: ...


class Transport(Protocol):
    """Carries requests to a vendor.

    - `post` returns once the status has arrived. It raises `ConnectionFailed` without a connection, and
      `StreamBroken` if the connection ends after the request without an answer. Only a reused connection that
      the server closes just as the request is sent may be replaced, once.
    - Redirects are returned, not followed: that would send the key to another host.
    - It limits only the time to connect; the caller decides how long to wait for an answer.
    - No error message contains a header's value or a part of the address that may be secret.
    """

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply: ...

    async def aclose(self) -> None: ...


def request_id(headers: Mapping[str, str]) -> str:
    return headers.get("request-id") or headers.get("x-request-id") or ""


def default_transport(url: str) -> Transport:
    """A new transport for this address. Importing one takes time, so call it when a request is due."""
    name = "http_client:DirectTransport" if _is_plain(url) else "httpx_transport:HttpxTransport"
    transport: Transport = load(f"ostler.models.{name}")()
    return transport


def _is_plain(url: str) -> bool:
    """Whether the address needs no proxy, and the host's name no encoding."""
    scheme, _, address = url.partition("://")
    scheme, host = scheme.lower(), address.partition("/")[0].rpartition("@")[2]
    is_simple = scheme in ("http", "https") and host.isascii() and "%" not in host
    return is_simple and not _has_proxy(scheme)


def proxy_variables(*schemes: str) -> list[str]:
    """The variables that set a proxy for these schemes, in order of precedence."""
    names = [*(f"{scheme}_proxy" for scheme in schemes), "all_proxy"]
    variables = [name for name, value in os.environ.items() if value and name.lower() in names]
    return sorted(variables, key=lambda name: names.index(name.lower()))


def _has_proxy(scheme: str) -> bool:
    """Whether any proxy is set; httpx2 applies the rules of NO_PROXY."""
    if proxy_variables(scheme):
        return True
    if sys.platform != "darwin":
        return False
    from urllib.request import getproxies

    return bool(getproxies())  # includes the system's settings


def display_host(url: str) -> str:
    """The part of an address that is not secret."""
    return urlsplit(url).netloc.rpartition("@")[2] or "the given address"


def unsendable(host: str) -> InvalidRequest:
    advice = "check the base URL, the key and the extra headers"
    return InvalidRequest(f"the request to {host} cannot be sent: {advice}")


def unreachable(host: str, error: Exception) -> ConnectionFailed:
    match _origin(error):
        case ssl.SSLCertVerificationError(verify_message=problem):
            advice = "name your own authority's file in SSL_CERT_FILE"
            return ConnectionFailed(f"cannot trust {host}: {problem}; {advice}")
        case ssl.SSLError(reason=reason):
            return ConnectionFailed(f"TLS with {host} failed ({reason}); is it an http:// address?")
        case socket.gaierror():
            return ConnectionFailed(f"cannot find {host}: unknown name; check the address and the network")
        case ConnectionRefusedError():
            return ConnectionFailed(f"cannot reach {host}: connection refused; is the server running?")
    return ConnectionFailed(f"cannot reach {host}: {reason_of(error)}; check the network")


def timed_out(host: str) -> ConnectionFailed:
    timeout = f"no connection within {CONNECT_SECONDS:.0f} s"
    return ConnectionFailed(f"cannot reach {host}: {timeout}; check the network")


def unanswered(host: str, error: Exception) -> StreamBroken:
    """The server may have accepted the request: a second one could be charged, or run, twice."""
    message = f"{host} closed the connection without an answer ({reason_of(error)}); try again"
    return StreamBroken(message, stream_opened=True)


def broken_off(host: str, error: Exception) -> StreamBroken:
    return StreamBroken(f"{host} broke off its answer ({reason_of(error)}); try again", stream_opened=True)


def _origin(error: BaseException) -> BaseException:
    """The operating system's error in a chain of causes, or the last error of the chain."""
    while not (isinstance(error, OSError) and error.errno is not None):
        if isinstance(error, BaseExceptionGroup):
            cause: BaseException | None = error.exceptions[0]
        else:
            cause = error.__cause__ or error.__context__
        if cause is None:
            break
        error = cause
    return error


def reason_of(error: Exception) -> str:
    cause = _origin(error)
    if isinstance(cause, OSError) and cause.strerror:
        if cause.errno and not isinstance(cause, socket.gaierror | ssl.SSLError):
            return os.strerror(cause.errno).lower()  # asyncio's message would repeat the address
        return cause.strerror.lower()
    return str(error).rstrip(".") or type(error).__name__


# Where distributions keep their bundle; a Python that was built elsewhere does not search there.
_BUNDLES = (
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/ca-bundle.pem",
)

_HASHED = re.compile(r"[0-9a-f]{8}\.\d+")


_preloaded: dict[tuple[str, str], Future[ssl.SSLContext]] = {}
"""By SSL_CERT_FILE and SSL_CERT_DIR."""


def preload_ssl_context() -> None:
    """Begins in a thread what the next `ssl_context` returns. OpenSSL reads the certificates without the GIL,
    which saves most of the 20 ms that it takes."""
    future: Future[ssl.SSLContext] = Future()

    def run() -> None:
        try:
            future.set_result(_load_context())
        except BaseException as error:  # such as a damaged bundle: `ssl_context` raises it
            future.set_exception(error)

    # Not a daemon: OpenSSL crashes if the interpreter ends while it reads.
    threading.Thread(target=run, name="ostler-certificates").start()
    _preloaded[_certificate_variables()] = future


def ssl_context() -> ssl.SSLContext:
    """Trusts the certificates of SSL_CERT_FILE and SSL_CERT_DIR, or else those of the system."""
    preloaded = _preloaded.pop(_certificate_variables(), None)
    return preloaded.result() if preloaded else _load_context()


def _certificate_variables() -> tuple[str, str]:
    return os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")


def _load_context() -> ssl.SSLContext:
    file, directory = _certificate_variables()
    if not file and not directory:
        return _system_context()
    try:
        return ssl.create_default_context(cafile=file or None, capath=directory or None)
    except OSError as error:
        reason = "it contains no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        message = f"SSL_CERT_FILE={file} cannot be used: {reason}; correct or unset it"
        raise ConnectionFailed(message) from error


def _system_context() -> ssl.SSLContext:
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
    """Whether OpenSSL can find authorities in it, one file for each."""
    return directory.is_dir() and any(_HASHED.fullmatch(path.name) for path in directory.iterdir())
