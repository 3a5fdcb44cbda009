"""How much the server can hold: every connection takes a descriptor, and so does the work itself."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.faces.web.problems import ServerBusy, problem_of, problem_response
from ostler.faces.web.sse import asks_for_stream

ENOUGH = 65_536
"""Descriptors. The programs that tools start inherit the limit, and some look through all that it allows."""
MOST_RESERVED = 1024


def raise_descriptor_limit() -> None:
    """To what we may have without asking anybody."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # where the system has a lower limit than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Capacity:
    """Refuses with 503 what would take the descriptors that the work itself needs.

    A stream is refused earlier than other requests, which come and go: while nothing new can be followed, a
    run can still be stopped.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not has_room(for_stream=asks_for_stream(scope)):
            busy = ServerBusy("the server has as many connections as it can hold: try again in a moment")
            await problem_response(problem_of(busy))(scope, receive, send)
            return
        await self._app(scope, receive, send)


def has_room(*, for_stream: bool) -> bool:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return True
    reserved = min(soft // 4, MOST_RESERVED)
    if for_stream:
        return _taken() < soft - reserved
    return _lowest_free() < soft - reserved // 2


def _taken() -> int:
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208
    except OSError:  # to look takes one, too
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _lowest_free() -> int:
    """The number that the next descriptor gets: at least as many are taken. Less exact, and costs nothing."""
    try:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.close(descriptor)
    return descriptor
