"""What can be typed behind a slash, and which files can be mentioned behind an `@`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec

from ostler.extensions.lookout import present_host
from ostler.faces.completing.command_entries import CommandEntry, brought_by, expanding_in
from ostler.faces.completing.mention_text import mention_of
from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server

command_operations = Operations("commands")


class Commands(msgspec.Struct, frozen=True):
    commands: list[CommandEntry]


@command_operations.add("GET", "/sessions/{session}/commands")
async def list_commands(server: Server, session: str) -> Commands:
    """Extensions' commands, prompt templates and skills

    A `command` is run with the request `run_command`. A `template` or a `skill` is a prompt that begins with
    its name behind a slash, said with `typed`."""
    harness = await server.folders.of_session(session)
    brought = brought_by(present_host(harness))
    taken = {one.name for one in brought}
    return Commands([*brought, *await asyncio.to_thread(expanding_in, harness.cwd, taken)])


class ArgumentsQuery(msgspec.Struct, frozen=True):
    typed: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    """What stands behind the command so far."""


class Arguments(msgspec.Struct, frozen=True):
    arguments: list[str]
    """All of what could stand there instead."""


@command_operations.add("GET", "/sessions/{session}/commands/{command}/arguments")
async def complete_arguments(server: Server, session: str, command: str, query: ArgumentsQuery) -> Arguments:
    """What may come behind an extension's command

    Nothing where nobody says, and while the session is not open here, for the extension answers in it."""
    host = present_host(await server.folders.of_session(session))
    return Arguments(await host.completions(session, command, query.typed) if host else [])


class FilesQuery(msgspec.Struct, frozen=True):
    cwd: str = ""
    """A folder that a session works in; that of the server if it is left out."""
    q: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    """Letters of the path, in their order. With none, or behind a slash, what lies in a folder."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class MentionedFile(msgspec.Struct, frozen=True):
    path: str
    """Below the folder; a folder ends with a slash."""
    mention: str
    """How it is written in a prompt."""
    positions: tuple[int, ...]
    """The letters of the path that were asked for."""


class Files(msgspec.Struct, frozen=True):
    files: list[MentionedFile]
    """The best first."""
    complete: bool
    """False while there are files that were not found yet: ask again."""


@command_operations.add("GET", "/files")
async def find_files(server: Server, query: FilesQuery) -> Files:
    """Files and folders that a prompt may mention, without those that are ignored

    Nothing outside of the folder is found, whatever the query says."""
    folder = await server.folders.folder(query.cwd)
    listed = await server.folders.search(folder, query.q, query.limit)
    found = [MentionedFile(one.path, mention_of(one.path), one.positions) for one in listed.found]
    return Files(found, listed.is_complete)
