"""`ostler doctor`: checks keys, models, files and programs, and says what to fix."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ostler import __version__
from ostler.app.console import aligned
from ostler.app.default_model import ModelChoice, ModelProbe, ProbeResult, choose_model, with_model
from ostler.app.options import Parser
from ostler.app.settings import (
    Settings,
    find_project_file,
    load_settings,
    read_project_file,
    read_user_file,
    working_directory,
)
from ostler.app.stores import open_store
from ostler.core.processes import find_program
from ostler.models.credentials import Key, KeySearch, places_of_key, read_key_file
from ostler.models.factory import ModelFactory, key_search, names_vendor_of_key
from ostler.models.local_servers import LocalServer, find_local_servers
from ostler.models.providers import Provider
from ostler.models.scripted import WAYS
from ostler.permissions.trust import is_trusted
from ostler.schema.errors import ConfigurationError, NoModel, OstlerError, how_to_install
from ostler.schema.text import printable
from ostler.store.paths import configuration_file, key_file, state_folder, store_file
from ostler.tools.grep_engines import ripgrep

EXTRAS = {
    "acp": ("acp", "agents of other vendors that speak ACP"),
    "images": ("PIL", "scales down large images"),
    "keyring": ("keyring", "keeps keys in the system's keyring"),
    "local": ("xllamacpp", "models in GGUF files"),
    "search": ("", "ripgrep, if the system has none"),
    "server": ("starlette", "sessions over HTTP, and a web page"),
    "terminals": ("pyghostty", "agents of other vendors, driven by their screen"),
    "tokens": ("splintr", "exact token counts for models with a public vocabulary"),
    "watch": ("watchfiles", "notices changed extensions at once instead of every second"),
}
"""The module of each extra, and what it is for. Ripgrep is a program, not a module."""


PROGRAMS = {
    "bash": "the bash tool",
    "git": "repositories",
    "rg": "fast search; without it Python searches",
    "node": "third-party tools that need it",
}


class Place(msgspec.Struct, frozen=True):
    """A file or folder of the user."""

    name: str
    path: str
    state: str
    sound: bool = True


class Part(msgspec.Struct, frozen=True):
    """An extra or a program."""

    name: str
    found: bool
    about: str
    path: str = ""


class DoctorReport(msgspec.Struct, frozen=True):
    version: str
    python: str
    platform: str
    places: tuple[Place, ...]
    findings: tuple[ProbeResult, ...]
    extras: tuple[Part, ...]
    programs: tuple[Part, ...]
    answering: ModelChoice

    @property
    def has_model(self) -> bool:
        return bool(self.answering.model)


async def run_doctor(cwd: Path) -> DoctorReport:
    """Checks everything. A problem is part of the report, not an error."""
    findings: tuple[ProbeResult, ...] = ()
    places = [_configuration(), *_project(cwd)]
    try:
        settings = load_settings(cwd, {}).settings
        around = ModelProbe(settings)
        findings = tuple(around.findings())
        answering = choose_model(around)
        settings = with_model(settings, answering)
        fallbacks = tuple(_fallbacks(around, settings))
        findings += fallbacks
        answering = _checked_choice(answering, around, settings, fallbacks)
    except OstlerError as error:
        answering = ModelChoice("", "nothing", error.message)
    places += [_state(), await _store(), *_key_file()]
    return DoctorReport(
        version=__version__,
        python=f"{sys.version.split()[0]} at {sys.executable}",
        platform=f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        places=tuple(places),
        findings=findings,
        extras=tuple(_extras()),
        programs=tuple(_programs()),
        answering=answering,
    )


class _NoServer(NoModel):
    """The model can be created, but no server answers for it."""


def _checked_choice(
    answering: ModelChoice, around: ModelProbe, settings: Settings, fallbacks: Iterable[ProbeResult]
) -> ModelChoice:
    """The choice, unless the model cannot be created or its server does not answer."""
    if not answering.model:
        return answering
    try:
        doubt = _doubt(around, settings, answering.model)
    except _NoServer as error:
        if fallback := next((one.name for one in fallbacks if one.found), ""):
            return ModelChoice(fallback, answering.why, f"as a fallback, for {error.message}")
        return ModelChoice("", "nothing", error.message)
    except OstlerError as error:
        return ModelChoice("", "nothing", error.message)
    because = f"{answering.because}, though {doubt}" if doubt else answering.because
    return msgspec.structs.replace(answering, because=because)


def _fallbacks(around: ModelProbe, settings: Settings) -> Iterator[ProbeResult]:
    for name in settings.fallback:
        try:
            yield ProbeResult("fallback", name, True, _doubt(around, settings, name) or "ready")
        except OstlerError as error:
            yield ProbeResult("fallback", name, False, error.message)


def _doubt(around: ModelProbe, settings: Settings, name: str) -> str:
    """Creates the model; returns what may keep it from answering, and raises what surely does."""
    owner, _, model = ModelFactory(settings, around.environment, _key_or_placeholder)(name).name.partition(
        "/"
    )
    provider = around.providers.get(owner)
    server = _server(around, settings, provider) if provider else None
    if provider is None or server is None:
        return ""
    has_key = _key_or_placeholder(provider, key_search(settings, provider, around.environment)) is not None
    if server.is_absent or (server.wants_key and not has_key):
        raise _NoServer(f"{name} cannot answer at {server.address}: {server.problem}")
    if server.wants_key or server not in around.servers:
        return ""
    if server.problem:
        return f"at {server.address} {server.problem}"
    listed = {model, f"{model}:latest"} & set(server.models)
    return "" if listed else f"{server.address} lists no such model"


def _server(around: ModelProbe, settings: Settings, provider: Provider) -> LocalServer | None:
    """The server of the provider's models, if it is on this machine."""
    named = settings.base_url if names_vendor_of_key(settings, provider) else ""
    address = named or around.environment.get(provider.base_url_variable, "")
    if not address:
        return next((one for one in around.servers if one.provider == provider.name), None)
    return next(iter(find_local_servers([msgspec.structs.replace(provider, base_url=address)])), None)


def _key_or_placeholder(provider: Provider, search: KeySearch) -> Key | None:
    """The key, or a placeholder if it would have to come from a command or the keyring."""
    for place in places_of_key(provider, search):
        if not place.value:
            return msgspec.structs.replace(place, value="placeholder")
        if place.value.strip():
            return place
    return None


def _configuration() -> Place:
    path = configuration_file()
    if not path.exists():
        return Place("configuration", str(path), "none, which is fine")
    try:
        read_user_file()
    except ConfigurationError as error:
        return _unsound("configuration", path, error)
    if path.stat().st_mode & 0o077 and b"api_key" in path.read_bytes():
        return Place(
            "configuration", str(path), "contains a key and is readable by others: chmod 600", sound=False
        )
    return Place("configuration", str(path), "ok")


def _project(cwd: Path) -> Iterator[Place]:
    path = find_project_file(cwd)
    try:
        project = read_project_file(cwd)
    except ConfigurationError as error:
        if path is not None and str(path) in error.message:  # it may be the user's own that is wrong
            yield _unsound("project", path, error)
        return
    if project is None:
        return
    state = "ok"
    if project.risky:
        named = ", ".join(sorted(project.risky))
        trusted = is_trusted(project.path.parent, project.content)
        state = f"trusted with {named}" if trusted else f"not trusted: {named} ignored; see `ostler trust`"
    yield Place("project", str(project.path), state)


def _unsound(name: str, path: Path, error: ConfigurationError) -> Place:
    return Place(name, str(path), error.message.removeprefix(str(path)).lstrip(": "), sound=False)


def _state() -> Place:
    folder = state_folder()
    if not folder.exists():
        return Place("state", str(folder), "none yet")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Place("state", str(folder), "not writable: check its owner and mode", sound=False)
    return Place("state", str(folder), "ok")


async def _store() -> Place:
    path = store_file()
    if not path.exists():
        return Place("store", str(path), "none yet")
    try:
        store = open_store()
        try:
            any_session = await store.sessions(limit=1)
        finally:
            await store.close()
    except OstlerError as error:
        return Place("store", str(path), error.message, sound=False)
    size = sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))
    return Place("store", str(path), f"ok, {size / 1e6:.1f} MB{'' if any_session else ', empty'}")


def _key_file() -> Iterator[Place]:
    path = key_file()
    if not path.exists():
        return
    try:
        stored = read_key_file(path)
    except ConfigurationError as error:
        yield Place("keys", str(path), error.message, sound=False)
        return
    yield Place("keys", str(path), f"ok, of {', '.join(sorted(stored)) or 'nobody'}")


def _extras() -> Iterator[Part]:
    for name, (module, about) in EXTRAS.items():
        found = find_spec(module) is not None if module else ripgrep() is not None
        yield Part(name, found, about)


def _programs() -> Iterator[Part]:
    for name, about in PROGRAMS.items():
        path = ripgrep() if name == "rg" else find_program(name)
        yield Part(name, path is not None, about, path or "")


HEADINGS = {
    "key": "keys",
    "server": "servers on this machine",
    "gguf": "model files",
    "fallback": "fallbacks if the model fails",
}

_MODELS_SHOWN = 5


def doctor_command(arguments: list[str]) -> int:
    parser = Parser(
        prog="ostler doctor",
        description="Shows which model would answer and why, checks keys, servers, files and programs, and "
        "says what to fix. Exit code 3: no model can answer. No key is printed.",
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    options = parser.parse_args(arguments)
    diagnosis = asyncio.run(run_doctor(working_directory()))
    if options.json:
        report = {"can_answer": diagnosis.has_model, "ways": WAYS} | msgspec.to_builtins(diagnosis)
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        for line in report_lines(diagnosis):
            print(printable(line))
    return 0 if diagnosis.has_model else NoModel.exit_code


def report_lines(diagnosis: DoctorReport) -> Iterator[str]:
    yield f"ostler {diagnosis.version}, Python {diagnosis.python}, {diagnosis.platform}"
    yield ""
    yield from _table([_marked(one.sound, one.name, one.path, one.state) for one in diagnosis.places])
    for kind, heading in HEADINGS.items():
        rows = [_row(one) for one in diagnosis.findings if one.kind == kind]
        if rows:
            yield from ("", f"{heading}:")
            yield from aligned(rows)
    yield from ("", "extras:")
    yield from _table([_marked(one.found, one.name, one.about, _to_install(one)) for one in diagnosis.extras])
    yield from ("", "programs:")
    yield from _table(
        [_marked(one.found, one.name, one.path or "not found", one.about) for one in diagnosis.programs]
    )
    yield ""
    answering = diagnosis.answering
    if diagnosis.has_model:
        yield f"{answering.model} answers: {answering.because}"
        return
    yield f"no model can answer: {answering.because}"
    yield from (f"  {number}. {way}" for number, way in enumerate(WAYS, 1))


def _row(finding: ProbeResult) -> tuple[str, ...]:
    models = ", ".join(finding.models[:_MODELS_SHOWN])
    if len(finding.models) > _MODELS_SHOWN:
        models += ", …"
    return _marked(finding.found, finding.name, finding.detail, models, finding.to_do)


def _marked(good: bool, *cells: str) -> tuple[str, ...]:
    return ("  +" if good else "  -", *cells)


def _to_install(extra: Part) -> str:
    return "" if extra.found else how_to_install(extra.name)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return aligned(rows) if rows else iter(())
