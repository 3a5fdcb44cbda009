"""Routes for models, tools, extensions, slash commands and files to mention."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec

from ostler.app.completion import CommandEntry, expanding_in, mention_of, provided_by
from ostler.app.default_model import Candidate, ModelProbe, ProbeResult, choose_model, known_models
from ostler.app.settings import Settings
from ostler.core.harness import Harness
from ostler.extensions.extension import ExtensionSummary, summary_of
from ostler.extensions.idle_host import active_host
from ostler.models.catalogue import Modality, Prices
from ostler.server.api.extensions import WebFrontEnd
from ostler.server.operations import Operations
from ostler.server.state import ServerState

model_operations = Operations("models")


class FolderQuery(msgspec.Struct, frozen=True):
    cwd: str = ""
    """The folder of a session; default: the server's own."""


class KnownModel(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    provider: str
    ready: bool
    """Whether it can answer now: it has a key, or needs none."""
    to_do: str = ""
    """What is missing before it can answer."""
    default: bool = False
    """Whether it is the default model of its provider."""
    aliases: tuple[str, ...] = ()
    window: int | None = None
    """Tokens of its context window."""
    output_limit: int | None = None
    input: tuple[Modality, ...] = ()
    reasoning: tuple[str, ...] = ()
    """The reasoning levels to choose from."""
    prices: Prices | None = None
    """Dollars per million tokens."""


class Models(msgspec.Struct, frozen=True):
    models: list[KnownModel]
    """Models that can answer now come first."""
    default: str
    """The default model; empty if none can answer."""
    because: str
    notice: str
    """A notice about the choice, for people."""
    looked_for: list[ProbeResult]
    """If none can answer: every source of models, and what to do."""


@model_operations.add("GET", "/models")
async def list_models(server: ServerState, query: FolderQuery) -> Models:
    """The models, with context window and prices, and whether they have a key"""
    settings = server.settings(await server.folders.folder(query.cwd))
    return await asyncio.to_thread(_models, settings)


def _models(settings: Settings) -> Models:
    probe = ModelProbe(settings)
    models = [_model(one) for one in known_models(probe)]
    choice = choose_model(probe)
    if choice.model and all(choice.model not in (one.name, *one.aliases) for one in models):
        models.insert(0, KnownModel(choice.model, choice.model.partition("/")[0], ready=True))
    findings = [] if choice.model else list(probe.findings())
    return Models(models, choice.model, choice.because, choice.notice, findings)


def _model(one: Candidate) -> KnownModel:
    info = one.info
    assert info is not None
    return KnownModel(
        name=one.name,
        provider=one.provider,
        ready=not one.to_do,
        to_do=one.to_do,
        default=one.is_default,
        aliases=one.aliases,
        window=info.context_window,
        output_limit=info.output_limit,
        input=info.input,
        reasoning=info.reasoning_levels,
        prices=info.prices,
    )


tool_operations = Operations("tools")


class OfferedTool(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema."""
    kind: str
    extension: str = ""
    """The extension that registers it."""


class Tools(msgspec.Struct, frozen=True):
    tools: list[OfferedTool]


@tool_operations.add("GET", "/tools")
async def list_tools(server: ServerState, query: FolderQuery) -> Tools:
    """The tools of a new session in a folder"""
    return _tools(await server.folders.harness(await server.folders.folder(query.cwd)))


@tool_operations.add("GET", "/sessions/{session}/tools")
async def list_session_tools(server: ServerState, session: str) -> Tools:
    """The tools of a session, as if it were opened now"""
    return _tools(await server.folders.of_session(session))


def _tools(harness: Harness) -> Tools:
    host = active_host(harness)
    origins = {name: one.name for one in host.loaded for name in one.registered.tools} if host else {}
    specs = [harness.tools[name].spec for name in sorted(harness.tools)]
    tools = [
        OfferedTool(one.name, one.description, one.schema, one.kind, origins.get(one.name, ""))
        for one in specs
    ]
    return Tools(tools)


class Extensions(msgspec.Struct, frozen=True):
    extensions: list[ExtensionSummary]
    """In loading order; also those that were left out, each with its problem."""
    notices: list[str]
    """Notices for people, for example that a project's extensions need a review."""


@tool_operations.add("GET", "/extensions")
async def list_extensions(server: ServerState, query: FolderQuery) -> Extensions:
    """The extensions of a new session in a folder, and those that are left out"""
    return _extensions(await server.folders.harness(await server.folders.folder(query.cwd)))


@tool_operations.add("GET", "/sessions/{session}/extensions")
async def list_session_extensions(server: ServerState, session: str) -> Extensions:
    """The extensions of a session, as if it were opened now"""
    return _extensions(await server.folders.of_session(session))


def _extensions(harness: Harness) -> Extensions:
    host = active_host(harness)
    if host is None:
        return Extensions([], [])
    notices = host.face.notices if isinstance(host.face, WebFrontEnd) else []
    return Extensions([summary_of(one) for one in host.extensions.values()], notices)


command_operations = Operations("commands")


class Commands(msgspec.Struct, frozen=True):
    commands: list[CommandEntry]


@command_operations.add("GET", "/sessions/{session}/commands")
async def list_commands(server: ServerState, session: str) -> Commands:
    """Extensions' commands, prompt templates and skills

    Run a `command` with the request `run_command`. For a `template` or a `skill`, send a prompt that starts
    with a slash and its name, with `typed`."""
    harness = await server.folders.of_session(session)
    commands = provided_by(active_host(harness))
    names = {one.name for one in commands}
    return Commands([*commands, *await asyncio.to_thread(expanding_in, harness.cwd, names)])


class ArgumentsQuery(msgspec.Struct, frozen=True):
    typed: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    """The arguments typed so far."""


class Arguments(msgspec.Struct, frozen=True):
    arguments: list[str]
    """Replacements for all of the arguments."""


@command_operations.add("GET", "/sessions/{session}/commands/{command}/arguments")
async def complete_arguments(
    server: ServerState, session: str, command: str, query: ArgumentsQuery
) -> Arguments:
    """Completions for the arguments of an extension's command

    Empty if the extension offers none, or while the session is not open here."""
    host = active_host(await server.folders.of_session(session))
    return Arguments(await host.ui.completions(session, command, query.typed) if host else [])


class FilesQuery(FolderQuery, frozen=True):
    q: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    """Letters of the path, in order. If empty or ending with a slash: what is in the folder."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class MentionedFile(msgspec.Struct, frozen=True):
    path: str
    """Below the folder; a folder ends with a slash."""
    mention: str
    """How to write it in a prompt."""
    positions: tuple[int, ...]
    """The positions of the matching letters."""


class Files(msgspec.Struct, frozen=True):
    files: list[MentionedFile]
    """The best match first."""
    complete: bool
    """False while the files are still being listed: repeat the request."""


@command_operations.add("GET", "/files")
async def find_files(server: ServerState, query: FilesQuery) -> Files:
    """Files and folders that a prompt can mention, without ignored ones

    Finds nothing outside of the folder."""
    folder = await server.folders.folder(query.cwd)
    search = await server.folders.search(folder, query.q, query.limit)
    files = [MentionedFile(one.path, mention_of(one.path), one.positions) for one in search.matches]
    return Files(files, search.is_complete)
