"""The server itself: is it alive, does it take work, what does it offer."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler import __version__
from ostler.faces.web.operations import Operations
from ostler.faces.web.problems import ServerBusy
from ostler.faces.web.server import Server

operations = Operations("server")


class Health(msgspec.Struct, frozen=True):
    status: str
    version: str


@operations.add("GET", "/health", access="none")
async def health() -> Health:
    """The process is alive"""
    return Health("ok", __version__)


@operations.add("GET", "/ready", access="none")
async def ready(server: Server) -> Health:
    """The server takes work: its store answers, and it is not about to end"""
    if server.is_draining:
        raise ServerBusy("the server is about to end")
    await server.store.sessions(limit=1)
    return Health("ready", __version__)


@operations.add("GET", "/openapi.json")
async def describe() -> dict[str, Any]:
    """This document"""
    from ostler.faces.web.app import OPERATIONS, PREFIX
    from ostler.faces.web.openapi import openapi

    return openapi(OPERATIONS, PREFIX)
