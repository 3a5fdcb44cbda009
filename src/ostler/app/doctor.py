"""`ostler doctor`: checks keys, models, files and programs, and says what to fix."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ostler import __version__
from ostler.app.console import aligned, print_json, print_lines
from ostler.app.default_model import ModelChoice, ModelProbe, ProbeResult, choose_model, with_model
from ostler.app.options import Parser, add_json
from ostler.app.settings import (
    Settings,
    find_project_file,
    load_settings,
    read_project_file,
    read_user_file,
    working_directory,
)
from ostler.app.stores import opened_store
from ostler.core.confinement import confinement_status
from ostler.core.process_limits import limits_status
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


class Safeguard(msgspec.Struct, frozen=True):
    """A restriction of tool processes, and whether and how it is in force."""

    name: str
    in_force: bool
    about: str


class DoctorReport(msgspec.Struct, frozen=True):
    version: str
    python: str
    platform: str
    places: tuple[Place, ...]
    findings: tuple[ProbeResult, ...]
    extras: tuple[Part, ...]
    programs: tuple[Part, ...]
    safeguards: tuple[Safeguard, ...]
    answering: ModelChoice

    @property
    def has_model(self) -> bool:
        return bool(self.answering.model)


async def run_doctor(cwd: Path) -> DoctorReport:
    """Checks everything. A problem is part of the report, not an error."""
    findings: tuple[ProbeResult, ...] = ()
    settings = Settings()
    places = [_configuration(), *_project(cwd)]
    try:
        settings = load_settings(cwd, {}).settings
        probe = ModelProbe(settings)
        findings = tuple(probe.findings())
        answering = choose_model(probe)
        settings = with_model(settings, answering)
        fallbacks = tuple(_fallbacks(probe, settings))
        findings += fallbacks
        answering = _checked_choice(answering, probe, settings, fallbacks)
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
        safeguards=tuple(_safeguards(settings)),
        answering=answering,
    )


class _NoServer(NoModel):
    """The model can be created, but no server answers for it."""


def _checked_choice(
    answering: ModelChoice, probe: ModelProbe, settings: Settings, fallbacks: Iterable[ProbeResult]
) -> ModelChoice:
    """The choice, unless the model cannot be created or its server does not answer."""
    if not answering.model:
        return answering
    try:
        doubt = _doubt(probe, settings, answering.model)
    except _NoServer as error:
        if fallback := next((one.name for one in fallbacks if one.found), ""):
            return ModelChoice(fallback, answering.why, f"as a fallback, for {error.message}")
        return ModelChoice("", "nothing", error.message)
    except OstlerError as error:
        return ModelChoice("", "nothing", error.message)
    because = f"{answering.because}, though {doubt}" if doubt else answering.because
    return msgspec.structs.replace(answering, because=because)


def _fallbacks(probe: ModelProbe, settings: Settings) -> Iterator[ProbeResult]:
    for name in settings.fallback:
        try:
            yield ProbeResult("fallback", name, True, _doubt(probe, settings, name) or "ready")
        except OstlerError as error:
            yield ProbeResult("fallback", name, False, error.message)


def _doubt(probe: ModelProbe, settings: Settings, name: str) -> str:
    """Creates the model; returns what may keep it from answering, and raises what surely does."""
    make = ModelFactory(settings, probe.environment, _key_or_placeholder)
    owner, _, model = make(name).name.partition("/")
    provider = probe.providers.get(owner)
    server = _server(probe, settings, provider) if provider else None
    if provider is None or server is None:
        return ""
    has_key = _key_or_placeholder(provider, key_search(settings, provider, probe.environment)) is not None
    if server.is_absent or (server.wants_key and not has_key):
        raise _NoServer(f"{name} cannot answer at {server.address}: {server.problem}")
    if server.wants_key or server not in probe.servers:
        return ""
    if server.problem:
        return f"at {server.address} {server.problem}"
    listed = {model, f"{model}:latest"} & set(server.models)
    return "" if listed else f"{server.address} lists no such model"


def _server(probe: ModelProbe, settings: Settings, provider: Provider) -> LocalServer | None:
    """The server of the provider's models, if it is on this machine."""
    named = settings.base_url if names_vendor_of_key(settings, provider) else ""
    address = named or probe.environment.get(provider.base_url_variable, "")
    if not address:
        return next((one for one in probe.servers if one.provider == provider.name), None)
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
        state = "contains a key and is readable by others: chmod 600"
        return Place("configuration", str(path), state, sound=False)
    return Place("configuration", str(path), "ok")


def _project(cwd: Path) -> Iterator[Place]:
    path = find_project_file(cwd)
    try:
        project = read_project_file(cwd)
    except ConfigurationError as error:
        if path is not None and str(path) in error.message:  # else the user's own file is invalid
            yield _unsound("project", path, error)
        return
    if project is None:
        return
    state = "ok"
    if project.risky:
        names = ", ".join(sorted(project.risky))
        trusted = is_trusted(project.path.parent, project.content)
        state = f"trusted with {names}" if trusted else f"not trusted: {names} ignored; see `ostler trust`"
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
        async with opened_store() as store:
            any_session = await store.sessions(limit=1)
    except OstlerError as error:
        return Place("store", str(path), error.message, sound=False)
    size = sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))
    return Place("store", str(path), f"ok, {size / 1e6:.1f} MB{'' if any_session else ', empty'}")


def _key_file() -> Iterator[Place]:
    path = key_file()
    if not path.exists():
        return
    try:
        state, sound = f"ok, for {', '.join(sorted(read_key_file(path))) or 'no provider'}", True
    except ConfigurationError as error:
        state, sound = error.message, False
    yield Place("keys", str(path), state, sound)


def _extras() -> Iterator[Part]:
    for name, (module, about) in EXTRAS.items():
        yield Part(name, (find_spec(module) if module else ripgrep()) is not None, about)


def _programs() -> Iterator[Part]:
    for name, about in PROGRAMS.items():
        path = ripgrep() if name == "rg" else find_program(name)
        yield Part(name, path is not None, about, path or "")


def _safeguards(settings: Settings) -> Iterator[Safeguard]:
    status = confinement_status()
    if not settings.confine_harmless:
        yield Safeguard("confinement", False, "switched off by the setting confine_harmless")
    elif status.is_active:
        about = "commands that were only judged harmless can neither write files nor open sockets"
        yield Safeguard("confinement", True, f"{about}, {status.text}")
    else:
        yield Safeguard("confinement", False, f"commands that were judged harmless run freely: {status.text}")
    for limit in limits_status(settings.tool_limits):
        yield Safeguard(limit.name, bool(limit.means), limit.text)


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
    add_json(parser, "print everything as one JSON object")
    options = parser.parse_args(arguments)
    report = asyncio.run(run_doctor(working_directory()))
    if options.json:
        print_json({"can_answer": report.has_model, "ways": WAYS} | msgspec.to_builtins(report))
    else:
        print_lines(map(printable, report_lines(report)))
    return 0 if report.has_model else NoModel.exit_code


def report_lines(report: DoctorReport) -> Iterator[str]:
    yield f"ostler {report.version}, Python {report.python}, {report.platform}"
    yield ""
    yield from aligned([_marked(one.sound, one.name, one.path, one.state) for one in report.places])
    for kind, heading in HEADINGS.items():
        if rows := [_row(one) for one in report.findings if one.kind == kind]:
            yield from ("", f"{heading}:")
            yield from aligned(rows)
    yield from ("", "extras:")
    hints = ["" if one.found else how_to_install(one.name) for one in report.extras]
    extras = zip(report.extras, hints, strict=True)
    yield from aligned([_marked(one.found, one.name, one.about, hint) for one, hint in extras])
    yield from ("", "programs:")
    programs = report.programs
    yield from aligned([_marked(one.found, one.name, one.path or "not found", one.about) for one in programs])
    yield from ("", "tool processes:")
    yield from aligned([_marked(one.in_force, one.name, one.about) for one in report.safeguards])
    yield ""
    answering = report.answering
    if report.has_model:
        yield f"{answering.model} answers: {answering.because}"
        return
    yield f"no model can answer: {answering.because}"
    yield from (f"  {number}. {way}" for number, way in enumerate(WAYS, 1))


def _row(finding: ProbeResult) -> tuple[str, ...]:
    more = ("…",) if len(finding.models) > _MODELS_SHOWN else ()
    models = ", ".join((*finding.models[:_MODELS_SHOWN], *more))
    return _marked(finding.found, finding.name, finding.detail, models, finding.to_do)


def _marked(good: bool, *cells: str) -> tuple[str, ...]:
    return ("  +" if good else "  -", *cells)
