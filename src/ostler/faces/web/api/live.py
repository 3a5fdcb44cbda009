"""What is shown in a session now, and is nowhere in its log."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.runs.watching.channel import Listening, listen
from ostler.vocabulary.events import Event, LiveValue

live_operations = Operations("live")


class LiveValues(msgspec.Struct, frozen=True):
    values: dict[str, Any]
    """By name: widgets, header, footer and words of status, as their extensions have set them."""
    open: bool
    """Some process has the session open."""


@live_operations.add("GET", "/sessions/{session}/live")
async def show_live(server: Server, session: str) -> LiveValues:
    """The live values of a session; a stream begins with them, and tells of their changes"""
    owner = await server.store.holder(session)
    is_open = owner is not None or server.supervisor.driven(session) is not None
    for hub in server.watch.hubs():
        if hub.session == session:
            return LiveValues(_values(hub.tail.events()), is_open)
    heard = await listen(session, server.store.meeting_place, owner) if owner else ""
    if not isinstance(heard, Listening):
        return LiveValues({}, is_open)
    heard.close()
    return LiveValues(_values(heard.tail), is_open)


def _values(tail: list[Event]) -> dict[str, Any]:
    return {one.name: one.value for one in tail if isinstance(one, LiveValue)}
