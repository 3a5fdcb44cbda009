"""Detects model servers on this machine by querying their usual ports in parallel."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec
from httptools import HttpParserError, HttpResponseParser

from ostler.models.providers import Provider

SECONDS = 1.0
"""The time limit for all servers together."""

_LARGEST = 1 << 20
_CANNOT_CHAT = re.compile(
    r"embed|rerank|minilm|whisper|(^|[/_-])(bge|gte|e5|tts|clip)([-_:.]|$)", re.IGNORECASE
)


class LocalServer(msgspec.Struct, frozen=True):
    """The server at a provider's port, or why there is none."""

    provider: str
    base_url: str
    models: tuple[str, ...] = ()
    """Models that can chat, in the server's order, but the provider's default model first."""
    problem: str = ""
    """Why there are no models."""
    is_absent: bool = False
    wants_key: bool = False

    @property
    def address(self) -> str:
        return urlsplit(self.base_url).netloc


class _Listed(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    data: list[_Listed] | None
    """Ollama without models returns null."""


def find_local_servers(providers: Iterable[Provider], seconds: float = SECONDS) -> list[LocalServer]:
    """Queries every local provider for its models, without a key, within the time limit for all."""
    deadline = time.monotonic() + seconds
    local = [provider for provider in providers if provider.is_local]
    servers: dict[str, LocalServer] = {}

    def look(provider: Provider) -> None:
        servers[provider.name] = _query(provider, deadline)

    threads = [threading.Thread(target=look, args=(provider,), daemon=True) for provider in local]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    silent = f"no answer within {seconds:g} s"
    return [servers.get(one.name) or LocalServer(one.name, one.base_url, problem=silent) for one in local]


def _query(provider: Provider, deadline: float) -> LocalServer:
    models: tuple[str, ...] = ()
    is_absent = wants_key = False
    try:
        status, body = _get(f"{provider.base_url.rstrip('/')}/models", deadline)
        if status == 200:
            names = [model.id for model in msgspec.json.decode(body, type=_ModelList).data or []]
            for_chat = [name for name in names if not _CANNOT_CHAT.search(name)]
            models = tuple(sorted(for_chat, key=lambda name: name != provider.default_model))
            problem = "" if models else "it runs, but has no model that can chat"
        elif status in (401, 403):
            wants_key = True
            problem = f"it needs a key: run `ostler key set {provider.name}`, and name its model"
        else:
            problem = "another program is running"
    except ConnectionRefusedError:
        is_absent = True
        problem = "no server is running"
    except TimeoutError:
        problem = "a program is running, but does not answer"
    except (OSError, ValueError, HttpParserError):  # DecodeError is a ValueError
        problem = "another program is running"
    return LocalServer(provider.name, provider.base_url, models, problem, is_absent, wants_key)


class _Answer:
    def __init__(self) -> None:
        self.body = b""
        self.is_complete = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.is_complete = True


def _get(url: str, deadline: float) -> tuple[int, bytes]:
    parts = urlsplit(url)
    request = f"GET {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\nconnection: close\r\n\r\n"
    answer = _Answer()
    parser = HttpResponseParser(answer)
    with socket.create_connection((parts.hostname, parts.port or 80), _left(deadline)) as connection:
        connection.sendall(request.encode())
        while not answer.is_complete and len(answer.body) < _LARGEST:
            connection.settimeout(_left(deadline))
            data = connection.recv(65536)
            if not data:
                break
            parser.feed_data(data)
    return parser.get_status_code(), answer.body


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
