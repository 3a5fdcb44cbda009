"""Routes for what extensions render, and the web page as their front end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ostler.core.harness import Harness
from ostler.extensions.extension import ToolRenderer
from ostler.extensions.idle_host import active_host
from ostler.extensions.ui.front_end import Headless
from ostler.schema.errors import NotFound
from ostler.schema.events import LiveValue, ToolCalled, ToolResultFact
from ostler.schema.messages import text_of
from ostler.server.operations import Operations
from ostler.server.state import ServerState

operations = Operations("rendered")


class ToolDress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to show calls of a tool."""

    tool: str
    title: str = ""
    color: str = ""
    background: str = ""
    markdown: bool = False
    """The body is Markdown."""
    header: bool = False
    """An extension renders its calls: request the fact `tool_called`."""
    body: bool = False
    """An extension renders its results: request the fact `tool_result`."""


class Dresses(msgspec.Struct, frozen=True):
    tools: list[ToolDress]


@operations.add("GET", "/sessions/{session}/renderers")
async def list_renderers(server: ServerState, session: str) -> Dresses:
    """The tools whose calls extensions render themselves"""
    host = active_host(await server.folders.of_session(session))
    tools = sorted({tool for one in host.loaded for tool in one.registered.tool_renderers}) if host else []
    renderers = [one for tool in tools if host and (one := host.ui.tool_renderer(tool))]
    return Dresses([_dress(one) for one in renderers])


def _dress(one: ToolRenderer) -> ToolDress:
    has_header, has_body = one.header is not None, one.body is not None
    return ToolDress(one.tool, one.title, one.color, one.background, one.markdown, has_header, has_body)


class WidthQuery(msgspec.Struct, frozen=True):
    width: Annotated[int, msgspec.Meta(ge=1, le=500)] = 80
    """In columns."""


class LiveQuery(WidthQuery, frozen=True, kw_only=True):
    id: str
    """That of the `render` of a live value, or of a question's details."""


class FactQuery(WidthQuery, frozen=True, kw_only=True):
    seq: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    """The number of a fact `tool_called` or `tool_result`."""


class Rendered(msgspec.Struct, frozen=True):
    text: str | None
    """With terminal colours. Empty to hide it; null if no extension renders it, or if the session is not open
    here: then show it in your own way."""


@operations.add("GET", "/sessions/{session}/live/rendered")
async def render_live(server: ServerState, session: str, query: LiveQuery) -> Rendered:
    """The lines of a live value or an overlay that has a `render`

    Repeat the request `hz` times a second; with 0, once per width."""
    await server.store.summary(session)
    opened = server.supervisor.get(session)
    host = active_host(opened.harness) if opened else None
    return Rendered(await host.ui.render(session, query.id, query.width) if host else None)


@operations.add("GET", "/sessions/{session}/events/rendered")
async def render_fact(server: ServerState, session: str, query: FactQuery) -> Rendered:
    """A call or its result, as rendered by the extension for that tool"""
    facts = await server.store.read(session, query.seq - 1, 1)
    fact = facts[0].event if facts else None
    if not isinstance(fact, ToolCalled | ToolResultFact):
        raise NotFound(f"the fact {query.seq} is neither a call nor a result")
    opened = server.supervisor.get(session)
    host = active_host(opened.harness) if opened else None
    if host is None:
        return Rendered(None)
    if isinstance(fact, ToolCalled):
        return Rendered(await host.ui.tool_header(session, fact.name, fact.arguments, query.width))
    result, failed = text_of(fact.content), fact.failed is not None
    return Rendered(await host.ui.tool_body(session, fact.name, result, failed, query.width))


Switch = Callable[[Path, str, str], Awaitable[str]]
"""Continues in that session, or in a new one in that folder, with this prompt; returns its id."""


class WebFrontEnd(Headless):
    """The front end of extensions for all pages that follow their session, of which there may be none.

    Pages act on two live values after `caught_up`: `switch` names a session to show, `editor` a text for the
    input field. Each has a new `number`, so that the same value can be sent again.
    """

    name = "web"
    interactive = True

    def __init__(self, harness: Harness, switch: Switch) -> None:
        self.notices: list[str] = []
        """Notices from loading extensions."""
        self._harness = harness
        self._switch = switch
        self._number = 0

    def set_editor_text(self, text: str) -> None:
        self._publish("editor", {"text": text})

    async def switch(self, session: str, prompt: str) -> str:
        target = await self._switch(self._harness.cwd, session, prompt)
        self._publish("switch", {"session": target})
        return target

    def _publish(self, name: str, value: dict[str, Any]) -> None:
        self._number += 1
        host = active_host(self._harness)
        for one in host.sessions.values() if host else ():
            if one.session.harness is self._harness:
                one.session.journal.publish([LiveValue(name, {**value, "number": self._number})])
