"""What a person said shall always hold, for a project or for everything: a file in the user's own folder.

Never in the project: a project must not give itself rights. A rule of a project counts in its folder only.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ostler.core.files import write_atomically
from ostler.permissions.rules import Effect, Rule, parse_rule
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.store.paths import permissions_file, project_folder


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    rule: str
    effect: Effect = "allow"


class Memory(msgspec.Struct, omit_defaults=True):
    """By project's folder; `user` is what holds everywhere."""

    user: list[Remembered] = []
    projects: dict[str, list[Remembered]] = {}

    def of(self, project: Path | None) -> list[Remembered]:
        """What is remembered for a project, or for everything."""
        return self.user if project is None else self.projects.get(str(project), [])


def remember(rule: str, effect: Effect, project: Path | None) -> bool:
    """Keeps a rule; one that said something else about the same is replaced. False if it was known."""
    parse_rule(rule, effect)
    with _changing() as memory:
        known = memory.of(project)
        if Remembered(rule, effect) in known:
            return False
        kept = [one for one in known if one.rule != rule]
        _put(memory, project, [*kept, Remembered(rule, effect)])
    return True


def forget(rule: str, project: Path | None) -> bool:
    """False if it was not known."""
    with _changing() as memory:
        known = memory.of(project)
        kept = [one for one in known if one.rule != rule]
        _put(memory, project, kept)
    return len(kept) < len(known)


def remembered_rules(cwd: Path) -> list[Rule]:
    """The rules that hold in a working directory."""
    memory = read_memory()
    project = project_folder(cwd)
    rules = [_rule(one, "", "remembered for you") for one in memory.user]
    return rules + [_rule(one, str(project), "remembered for this project") for one in memory.of(project)]


def _rule(one: Remembered, base: str, origin: str) -> Rule:
    try:
        return parse_rule(one.rule, one.effect, base=base, origin=origin)
    except UsageError as error:
        raise ConfigurationError(f"{permissions_file()} is damaged ({error.message})") from None


def read_memory() -> Memory:
    path = permissions_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Memory)
    except FileNotFoundError:
        return Memory()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{path} is damaged ({error}); mend or remove it") from None


def _put(memory: Memory, project: Path | None, rules: list[Remembered]) -> None:
    if project is None:
        memory.user = rules
    elif rules:
        memory.projects[str(project)] = rules
    else:
        memory.projects.pop(str(project), None)


@contextmanager
def _changing() -> Iterator[Memory]:
    """The memory, written back at the end; two processes that change it wait for each other."""
    path = permissions_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.with_suffix(".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            memory = read_memory()
            yield memory
            write_atomically(path, msgspec.json.format(msgspec.json.encode(memory)), private=True)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
