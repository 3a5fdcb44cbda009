"""Subcommands of `ostler sessions` that change a session's tree, or check, repair and prune the store."""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.console import print_json, print_lines, print_stderr
from ostler.app.default_model import resolve_model
from ostler.app.extension_setup import load_extensions
from ostler.app.harness import build_harness
from ostler.app.options import RunOptions
from ostler.app.session_choice import new_request_id, submit_and_wait
from ostler.app.settings import load_settings, working_directory
from ostler.app.stores import delete_unused, find_session, unused_sessions
from ostler.core.harness import Harness
from ostler.core.journal import World
from ostler.core.lazy import lazy_module, load
from ostler.core.state import SessionState
from ostler.core.store import SessionSummary, Store
from ostler.schema.errors import UsageError
from ostler.schema.requests import CollapseBranch, Compact, Label, Navigate, Rename, UndoCompaction
from ostler.schema.text import one_line, plural
from ostler.sessions.branches import TreeRequest
from ostler.sessions.run_tree import load_state, require_no_parent_at_work
from ostler.sessions.session import delete_session
from ostler.store.paths import store_file
from ostler.store.sqlite_maintenance import Unnamed, collect_output, shrink, unnamed_output

if TYPE_CHECKING:
    from ostler.history import context_trace
    from ostler.history import tree as session_tree
    from ostler.store import sqlite_maintenance
else:
    context_trace = lazy_module("ostler.history.context_trace")
    session_tree = lazy_module("ostler.history.tree")
    sqlite_maintenance = lazy_module("ostler.store.sqlite_maintenance")


async def tree(options: argparse.Namespace, store: Store) -> None:
    entries = session_tree.SessionTree(await store.read(await find_session(store, options.id)))
    nodes = entries.nodes
    if options.json:
        print_json(*nodes)
        return
    print_lines(entries.rows(), fits=True)
    if not any(node.leaf for node in nodes):
        print_stderr(
            "the current entry is before the first one" if nodes else "the session has no entries yet"
        )


async def navigate(options: argparse.Namespace, store: Store) -> None:
    await _submit(options, store, Navigate(id=new_request_id(), by="cli", entry=options.entry))


async def label(options: argparse.Namespace, store: Store) -> None:
    name = _text(options)
    await _submit(options, store, Label(id=new_request_id(), by="cli", entry=options.entry, label=name))


async def rename(options: argparse.Namespace, store: Store) -> None:
    await _submit(options, store, Rename(id=new_request_id(), by="cli", title=_text(options)))


async def collapse(options: argparse.Namespace, store: Store) -> None:
    request = CollapseBranch(id=new_request_id(), by="cli", leaf=options.entry, instructions=_text(options))
    await _submit(options, store, request, needs_model=True)


async def compact(options: argparse.Namespace, store: Store) -> None:
    request = Compact(id=new_request_id(), by="cli", instructions=_text(options))
    await _submit(options, store, request, needs_model=True)


def _text(options: argparse.Namespace) -> str:
    return " ".join(" ".join(options.words).split())


async def uncompact(options: argparse.Namespace, store: Store) -> None:
    number = options.compaction
    if number is None:
        facts = await store.read(await find_session(store, options.id))
        if not (compactions := list(context_trace.compactions(facts))):
            raise UsageError("nothing in this session is compacted")
        number = compactions[-1].seq
    await _submit(options, store, UndoCompaction(id=new_request_id(), by="cli", compaction=number))


async def _harness(options: argparse.Namespace, state: SessionState) -> Harness:
    """The harness that the session's own process would have: directory, model, extensions."""
    cwd = _directory_of(state)
    loaded = load_settings(cwd, {"model": options.model or state.settings.model or None})
    for notice in loaded.notices:
        print_stderr(notice)
    settings = resolve_model(loaded.settings)
    harness = build_harness(settings, cwd)
    make_front_end = partial(load("ostler.cli.front_end:CliFrontEnd"), harness)
    await load_extensions(RunOptions(), settings, harness, make_front_end)
    return harness


def _directory_of(state: SessionState) -> Path:
    return Path(state.cwd) if Path(state.cwd).is_dir() else working_directory()


async def _submit(
    options: argparse.Namespace,
    store: Store,
    request: TreeRequest | CollapseBranch | Compact | UndoCompaction,
    *,
    needs_model: bool = False,
) -> None:
    session = await find_session(store, options.id)
    make = partial(_harness, options, await load_state(store, session)) if needs_model else None
    if not await submit_and_wait(store, session, request, make):
        print_stderr(f"session {session} is held by another process, which will handle this")


_DAY_MS = 24 * 60 * 60 * 1000
_AGE = re.compile(r"([1-9]\d{0,4})([dw])")


async def check(options: argparse.Namespace, store: Store) -> int:
    ids = [await find_session(store, one) for one in options.ids]
    problems = await asyncio.to_thread(sqlite_maintenance.check, store_file(), ids or None)
    if options.json:
        print_json(*problems)
    else:
        print_lines(one_line(str(problem)) for problem in problems)
    if not problems:
        number = len(ids) or len(await store.sessions())
        print_stderr(f"{plural(number, 'session')} checked, no problems")
        return 0
    is_mendable = any(problem.number in sqlite_maintenance.MENDABLE for problem in problems)
    hint = "; `ostler sessions repair` rebuilds what derives from the facts" if is_mendable else ""
    print_stderr(f"{plural(len(problems), 'problem')}{hint}")
    return 1


async def repair(options: argparse.Namespace, store: Store) -> int:
    outcome = await asyncio.to_thread(sqlite_maintenance.repair, store_file(), World())
    for problem in outcome.mended:
        print(f"repaired: {one_line(str(problem))}")
    for problem in outcome.left:
        print(f"not repaired: {one_line(str(problem))}")
    if outcome.copy:
        print_stderr(f"the store before the repair is in {outcome.copy}; delete it when all is well")
    elif not outcome.left:
        print_stderr("there are no problems")
    return 1 if outcome.left else 0


async def prune(options: argparse.Namespace, store: Store) -> None:
    world, path = World(), store_file()
    families = []
    if options.older_than is not None or options.keep is not None:
        since = None if options.older_than is None else world.now_ms() - options.older_than
        keep, sessions = options.keep or 0, await store.sessions()
        candidates = unused_sessions(sessions, unused_since_ms=since, keep=keep, with_waiting=options.waiting)
        families = [family for family in candidates if not await _is_held(store, family)]
    if options.dry_run:
        for family in families:
            _print_family("would delete", family)
        unused = await asyncio.to_thread(unnamed_output, path, world)
        print_stderr(f"{_output(unused)} could be collected; nothing was changed")
        return
    if families and not options.yes and not _is_agreed([one for family in families for one in family]):
        print_stderr("nothing was deleted")
        return
    for family in families:
        if reason := await delete_unused(store, family, world):
            print_stderr(f"kept: {reason}")
        else:
            _print_family("deleted", family)
    collected = await asyncio.to_thread(collect_output, path, world)
    freed = await asyncio.to_thread(shrink, path, world)
    effect = "cannot shrink while other processes use it" if freed is None else f"is {_size(freed)} smaller"
    print_stderr(f"{_output(collected)} collected; the file {effect}")


def age(text: str) -> int:
    """`30d` or `8w`, in milliseconds."""
    match = _AGE.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an age: use 30d for thirty days, or 8w for eight weeks"
        )
    return int(match[1]) * _DAY_MS * (7 if match[2] == "w" else 1)


async def _is_held(store: Store, family: Sequence[SessionSummary]) -> bool:
    return any([await store.holder(one.id) is not None for one in family])


def _print_family(verb: str, family: Sequence[SessionSummary]) -> None:
    for one in family:
        print(f"{verb} {one.id}  {one_line(one.title or one.preview)}".rstrip())


def _output(unused: Sequence[Unnamed]) -> str:
    return f"{plural(len(unused), 'unused output')} ({_size(sum(one.size for one in unused))})"


def _size(number: int) -> str:
    return f"{number / 1_000_000:.1f} MB" if number >= 100_000 else f"{number / 1000:.1f} kB"


async def delete(options: argparse.Namespace, store: Store) -> None:
    sessions = list(dict.fromkeys([await find_session(store, one) for one in options.ids]))
    for session in sessions:
        await require_no_parent_at_work(store, session)
    if not options.yes and not _is_agreed([await store.summary(one) for one in sessions]):
        print_stderr("nothing was deleted")
        return
    for session in sessions:
        await delete_session(store, session)
        print(f"deleted {session}")


def _is_agreed(sessions: list[SessionSummary]) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("deleting cannot be undone: pass --yes to delete without a prompt")
    for one in sessions:
        print(f"{one.id}  {one_line(one.title or one.preview)}", file=sys.stderr)
    print("delete permanently? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
