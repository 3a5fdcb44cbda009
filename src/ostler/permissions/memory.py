"""Remembered permission rules, for one project or for all, in a file in the user's own folder.

They are never stored in the project, which must not grant itself rights. A project's rules apply only there.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ostler.core.files import write_atomically
from ostler.core.lazy import lazy_module
from ostler.permissions.rules import Effect, Rule, parse_rule
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.store.paths import permissions_file, project_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.store import consent
else:
    consent = lazy_module("ostler.store.consent")


class Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    rule: str
    effect: Effect = "allow"


class Memory(msgspec.Struct, omit_defaults=True):
    """Rules by project folder; those in `user` apply everywhere."""

    user: list[Remembered] = []
    projects: dict[str, list[Remembered]] = {}

    def of(self, project: Path | None) -> list[Remembered]:
        return self.user if project is None else self.projects.get(str(project), [])


def remember(rule: str, effect: Effect, project: Path | None) -> bool:
    """Stores a rule, and replaces one for the same call. False if it is stored already."""
    parse_rule(rule, effect)
    with _locked_memory() as memory:
        rules = memory.of(project)
        if Remembered(rule, effect) in rules:
            return False
        others = [one for one in rules if one.rule != rule]
        _put(memory, project, [*others, Remembered(rule, effect)])
    return True


def forget(rule: str, project: Path | None) -> bool:
    """Removes a rule; False if there is none."""
    with _locked_memory() as memory:
        rules = memory.of(project)
        others = [one for one in rules if one.rule != rule]
        _put(memory, project, others)
    return len(others) < len(rules)


def remembered_rules(cwd: Path) -> list[Rule]:
    """The rules that apply in a working directory."""
    memory = read_memory()
    rules = [_rule(one, "", "remembered for you") for one in memory.user]
    if not memory.projects:  # every call asks, and finding the project looks into each folder above
        return rules
    project = project_folder(cwd)
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
        raise ConfigurationError(f"{path} is damaged ({error}); fix or remove it") from None


def _put(memory: Memory, project: Path | None, rules: list[Remembered]) -> None:
    if project is None:
        memory.user = rules
    elif rules:
        memory.projects[str(project)] = rules
    else:
        memory.projects.pop(str(project), None)


@contextmanager
def _locked_memory() -> Iterator[Memory]:
    """The memory, written back at the end, under a lock between processes. Raises `ConsentRefused`."""
    consent.require_own_consent()
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
