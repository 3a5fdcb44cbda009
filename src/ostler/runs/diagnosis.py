"""What `ostler doctor` looks at: what there is, whether it is sound, and what could answer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import msgspec

from ostler import __version__
from ostler.runs.first_run import Answering, Finding, Surroundings, can_answer
from ostler.runs.home import configuration_file, key_file, state_folder, store_file
from ostler.runs.settings import load_settings, read_project_file
from ostler.runs.stores import open_store
from ostler.runs.trust import is_trusted
from ostler.tools.programs import find_program
from ostler.tools.search_ripgrep import ripgrep
from ostler.vocabulary.errors import ConfigurationError, OstlerError

EXTRAS = {
    "images": ("PIL", "large images are scaled down"),
    "keyring": ("keyring", "keys in the system's keyring"),
    "local": ("xllamacpp", "models in GGUF files"),
    "search": ("", "ripgrep, where the system has none"),
}
"""The module of each extra, and what it is for. Ripgrep is a program, not a module."""

PROGRAMS = {
    "bash": "the bash tool",
    "git": "repositories",
    "rg": "fast searches; without it Python searches",
    "node": "tools of others that need it",
}


class Place(msgspec.Struct, frozen=True):
    """A file or folder of the user's."""

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


class Diagnosis(msgspec.Struct, frozen=True):
    version: str
    python: str
    platform: str
    places: tuple[Place, ...]
    findings: tuple[Finding, ...]
    extras: tuple[Part, ...]
    programs: tuple[Part, ...]
    answering: Answering

    @property
    def can_answer(self) -> bool:
        return bool(self.answering.model)


async def diagnose(cwd: Path) -> Diagnosis:
    """Looks at everything. What is broken is part of the answer, never an error."""
    findings: tuple[Finding, ...] = ()
    places: list[Place] = []
    try:
        settings = load_settings(cwd, {}).settings
        places = [_configuration(), *_project(cwd)]
        around = Surroundings(settings)
        findings = tuple(around.findings())
        answering = _judged(around)
    except OstlerError as error:
        answering = Answering("", "nothing", error.message)
    places += [_state(), await _store(), *_key_file()]
    return Diagnosis(
        version=__version__,
        python=f"{sys.version.split()[0]} at {sys.executable}",
        platform=f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        places=tuple(places),
        findings=findings,
        extras=tuple(_extras()),
        programs=tuple(_programs()),
        answering=answering,
    )


def _judged(around: Surroundings) -> Answering:
    """What would answer; a model that is named counts only if its key and its address are known."""
    answering = can_answer(around)
    if answering.why == "named" and answering.model != "demo":
        problem = _problem_of_named(around)
        if problem:
            return Answering("", "nothing", problem)
    return answering


def _problem_of_named(around: Surroundings) -> str:
    """Why the named model cannot be made. No command is run and no keyring asked for its key."""
    from ostler.models.catalogue import Catalogue
    from ostler.models.providers import make_model, split_name

    settings = around.settings
    catalogue = Catalogue(settings.models, settings.aliases)
    name = catalogue.resolve(settings.model.strip())
    try:
        provider, _ = split_name(name, around.providers)
        make_model(
            name,
            base_url=settings.base_url,
            api_key="known" if provider.name in around.key_places else "",
            environment=around.environment,
            providers=around.providers,
            catalogue=catalogue,
        )
    except OstlerError as error:
        return error.message
    return ""


def _configuration() -> Place:
    path = configuration_file()
    if not path.exists():
        return Place("configuration", str(path), "not there; it need not be")
    if path.stat().st_mode & 0o077 and b"api_key" in path.read_bytes():
        return Place("configuration", str(path), "holds a key and is open to others: chmod 600", sound=False)
    return Place("configuration", str(path), "ok")


def _project(cwd: Path) -> Iterator[Place]:
    project = read_project_file(cwd)
    if project is None:
        return
    state = "ok"
    if project.risky:
        named = ", ".join(sorted(project.risky))
        trusted = is_trusted(project.path.parent, project.content)
        state = f"trusted with {named}" if trusted else f"not trusted: {named} ignored; see `ostler trust`"
    yield Place("project", str(project.path), state)


def _state() -> Place:
    folder = state_folder()
    if not folder.exists():
        return Place("state", str(folder), "not there yet")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return Place("state", str(folder), "cannot be written: check its owner and mode", sound=False)
    return Place("state", str(folder), "ok")


async def _store() -> Place:
    path = store_file()
    if not path.exists():
        return Place("store", str(path), "not there yet")
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
    from ostler.models.key_file import read_key_file

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
