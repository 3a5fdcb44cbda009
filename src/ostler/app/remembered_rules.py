"""The permission rules that apply in a directory, and how to revoke one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from ostler.app.console import aligned
from ostler.app.session_choice import new_request_id, submit_and_wait
from ostler.app.settings import RULES, read_project_file, read_user_file
from ostler.app.stores import find_session, opened_store
from ostler.core.state import fold
from ostler.permissions.memory import forget, read_memory
from ostler.permissions.trust import is_trusted
from ostler.schema.errors import NotFound, UsageError
from ostler.schema.requests import RevokePermission
from ostler.schema.text import one_line
from ostler.store.paths import configuration_file, project_folder, store_file

NEWEST_SESSIONS = 20
Scope = Literal["configuration", "user", "project", "session"]


class StoredRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule that applies here, and where it is stored."""

    number: int
    effect: str
    rule: str
    scope: Scope
    where: str
    note: str = ""


def lines_of(rules: Sequence[StoredRule]) -> list[str]:
    rows = [
        (str(one.number), one.effect, one_line(one.rule), one.scope, one_line(one.where), one.note)
        for one in rules
    ]
    return list(aligned(rows))


Row = tuple[str, str, Scope, str, str]


def stored_rules(cwd: Path, session: str) -> Iterator[StoredRule]:
    rows = _of_session(cwd, session) if session else _all(cwd)
    return (StoredRule(number, *row) for number, row in enumerate(rows, 1))


def _all(cwd: Path) -> Iterator[Row]:
    project = project_folder(cwd)
    memory = read_memory()
    for one in memory.user:
        yield one.effect, one.rule, "user", "", ""
    for one in memory.of(project):
        yield one.effect, one.rule, "project", str(project), ""
    yield from _of_session(cwd, "")
    for effect in RULES:
        for rule in read_user_file().get(effect, ()):
            yield effect, rule, "configuration", str(configuration_file()), ""
    if (file := read_project_file(cwd)) is None:
        return
    is_ignored = not is_trusted(file.path.parent, file.content)
    for effect in RULES:
        note = "(ignored until `ostler trust`)" if effect == "allow" and is_ignored else ""
        for rule in file.values.get(effect, ()):
            yield effect, rule, "configuration", str(file.path), note


def _of_session(cwd: Path, session: str) -> Iterator[Row]:
    if not store_file().exists():
        if session:
            raise NotFound(f"there is no session {session}")
        return
    for name, permissions in asyncio.run(_rules_in_sessions(cwd, session)):
        for rule, effect in permissions.items():
            yield effect, rule, "session", name, ""


async def _rules_in_sessions(cwd: Path, session: str) -> list[tuple[str, dict[str, str]]]:
    async with opened_store() as store:
        if session:
            names = [await find_session(store, session)]
        else:
            names = [one.id for one in await store.sessions(cwd=str(cwd), limit=NEWEST_SESSIONS)]
        return [(name, fold(await store.read_opening(name)).permissions) for name in names]


def revoke_rule(stored: StoredRule) -> None:
    if stored.scope == "configuration":
        raise UsageError(f"{stored.rule} is set in {stored.where}: remove it there")
    if stored.scope == "session":
        asyncio.run(_revoke_in_session(stored.where, stored.rule))
    else:
        forget(stored.rule, Path(stored.where) if stored.scope == "project" else None)


async def _revoke_in_session(session: str, rule: str) -> None:
    """Revokes the rule in the process that holds the session, or here if none does."""
    async with opened_store() as store:
        await submit_and_wait(store, session, RevokePermission(id=new_request_id(), by="cli", rule=rule))
