"""What an agent works with: tools, and the extensions that bring some of them."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.extensions.lookout import present_host
from ostler.extensions.rows import ExtensionRow, row_of
from ostler.faces.web.api.models import FolderQuery
from ostler.faces.web.extension_face import WebFace
from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.kernel.harness import Harness

tool_operations = Operations("tools")


class OfferedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema."""
    kind: str
    extension: str = ""
    """Which one brings it."""


class Tools(msgspec.Struct, frozen=True):
    tools: list[OfferedTool]


@tool_operations.add("GET", "/tools")
async def list_tools(server: Server, query: FolderQuery) -> Tools:
    """The tools that a new session in a folder would have"""
    return _tools(await server.folders.harness(await server.folders.folder(query.cwd)))


@tool_operations.add("GET", "/sessions/{session}/tools")
async def list_session_tools(server: Server, session: str) -> Tools:
    """The tools of a session: those that it has, or would have if it were opened now"""
    return _tools(await server.folders.of_session(session))


def _tools(harness: Harness) -> Tools:
    host = present_host(harness)
    brought = {name: one.name for one in host.loaded for name in one.registered.tools} if host else {}
    specs = [harness.tools[name].spec for name in sorted(harness.tools)]
    return Tools(
        [
            OfferedTool(one.name, one.description, one.schema, one.kind, brought.get(one.name, ""))
            for one in specs
        ]
    )


class Extensions(msgspec.Struct, frozen=True):
    extensions: list[ExtensionRow]
    """In the order in which they are asked; also those that were left out, each with its problem."""
    notices: list[str]
    """What a person should know of them: that a project's must be looked at first, for example."""


@tool_operations.add("GET", "/extensions")
async def list_extensions(server: Server, query: FolderQuery) -> Extensions:
    """The extensions that a new session in a folder would have, and those that are left out"""
    return _extensions(await server.folders.harness(await server.folders.folder(query.cwd)))


@tool_operations.add("GET", "/sessions/{session}/extensions")
async def list_session_extensions(server: Server, session: str) -> Extensions:
    """The extensions of a session: those that it has, or would have if it were opened now"""
    return _extensions(await server.folders.of_session(session))


def _extensions(harness: Harness) -> Extensions:
    host = present_host(harness)
    if host is None:
        return Extensions([], [])
    notices = host.face.notices if isinstance(host.face, WebFace) else []
    return Extensions([row_of(one) for one in host.extensions.values()], notices)
