"""What a person typed into a prompt: a command, a template, a skill, mentioned files.

It is expanded here, before it is put into the session's inbox, as the command line and the terminal do:
whoever drives the session, it is told the same, and whoever reads the log sees what the model was told.
"""

from __future__ import annotations

import asyncio
import re

import msgspec

from ostler.extensions.lookout import present_host
from ostler.faces.cli.expanding import Expansion, expansion_of, see
from ostler.faces.web.server import Server
from ostler.kernel.harness import Harness
from ostler.runs.absent_model import harness_without_model
from ostler.vocabulary.events import Printed
from ostler.vocabulary.messages import Text
from ostler.vocabulary.requests import AnyRequest, Prompt, RunCommand, Steer

_COMMAND = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)


class Meant(msgspec.Struct, frozen=True):
    """What was asked for in fact."""

    request: AnyRequest
    expansion: Expansion | None = None


async def meant_by(server: Server, session: str, request: AnyRequest) -> Meant:
    """Of a prompt or a steer the first text is what was typed; all else was attached, and is data. What is
    typed to another vendor's agent is that one's to understand.

    Raises `UsageError` for a command that nobody has.
    """
    if not isinstance(request, Prompt | Steer) or not request.content:
        return Meant(request)
    first, *attached = request.content
    if not isinstance(first, Text):
        return Meant(request)
    typed = first.text.strip()
    if not typed.startswith("/") and "@" not in typed:
        return Meant(request)
    if (await server.store.summary(session)).driver != "agent":
        return Meant(request)
    harness, names = await _surroundings(server, session, typed)
    command = _COMMAND.fullmatch(typed)
    if command and not attached and (host := present_host(harness)) and host.command_named(command[1]):
        arguments = (command[2] or "").strip()
        return Meant(RunCommand(id=request.id, by=request.by, name=command[1], arguments=arguments))
    expansion = await asyncio.to_thread(expansion_of, (typed,), typed, harness, names)
    content = (*expansion.blocks, *attached)
    return Meant(msgspec.structs.replace(request, content=content), expansion)


async def _surroundings(server: Server, session: str, typed: str) -> tuple[Harness, list[str]]:
    """Mentions need the folder only: no extension is loaded for them."""
    if not typed.startswith("/"):
        return harness_without_model((await server.store.summary(session)).cwd), []
    harness = await server.folders.of_session(session)
    host = present_host(harness)
    return harness, list(host.commands()) if host else []


def tell(server: Server, session: str, meant: Meant) -> None:
    """Once it is submitted: the session has seen the files, and who follows it is told what is missing."""
    if meant.expansion is None:
        return
    if (opened := server.supervisor.driven(session)) is not None:
        see(opened.harness, meant.expansion)
    for hub in server.watch.hubs():
        if hub.session == session and meant.expansion.notices:
            hub.see([Printed(notice, "info") for notice in meant.expansion.notices])
