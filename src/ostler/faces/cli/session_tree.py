"""`ostler sessions tree|navigate|collapse|compact|uncompact|label|rename`: a session's path, and names."""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path

from ostler.faces.cli.columns import cut
from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.requesting import ask_session, new_request_id
from ostler.faces.cli.saying import print_json, say
from ostler.kernel.harness import Harness
from ostler.kernel.state import SessionState
from ostler.kernel.store import Store
from ostler.runs.run_tree import state_of
from ostler.runs.stores import find_session
from ostler.runs.tree_requests import TreeRequest
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import CollapseBranch, Compact, Label, Navigate, Rename, UndoCompaction


async def tree(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.tree_rows import nodes_of, rows

    nodes = nodes_of(await store.read(await find_session(store, options.id)))
    if options.json:
        for node in nodes:
            print_json(node)
        return
    for line in rows(nodes):
        print(cut(line, shutil.get_terminal_size().columns) if sys.stdout.isatty() else line)
    if not any(node.leaf for node in nodes):
        say("the next entry goes before the first one" if nodes else "the session has no entries yet")


async def navigate(options: argparse.Namespace, store: Store) -> None:
    await _ask(options, store, Navigate(id=new_request_id(), by="cli", entry=options.entry))


async def label(options: argparse.Namespace, store: Store) -> None:
    name = " ".join(" ".join(options.words).split())
    await _ask(options, store, Label(id=new_request_id(), by="cli", entry=options.entry, label=name))


async def rename(options: argparse.Namespace, store: Store) -> None:
    title = " ".join(" ".join(options.words).split())
    await _ask(options, store, Rename(id=new_request_id(), by="cli", title=title))


async def collapse(options: argparse.Namespace, store: Store) -> None:
    request = CollapseBranch(
        id=new_request_id(),
        by="cli",
        leaf=options.entry,
        instructions=" ".join(" ".join(options.words).split()),
    )
    await _ask(options, store, request, needs_model=True)


async def compact(options: argparse.Namespace, store: Store) -> None:
    wish = " ".join(" ".join(options.words).split())
    request = Compact(id=new_request_id(), by="cli", instructions=wish)
    await _ask(options, store, request, needs_model=True)


async def uncompact(options: argparse.Namespace, store: Store) -> None:
    number = options.compaction
    if number is None:
        from ostler.runs.told_steps import compactions

        in_force = [*compactions(await store.read(await find_session(store, options.id)))]
        if not in_force:
            raise UsageError("nothing in this session is compacted")
        number = in_force[-1].seq
    await _ask(options, store, UndoCompaction(id=new_request_id(), by="cli", compaction=number))


async def _harness(options: argparse.Namespace, state: SessionState) -> Harness:
    """What the session's own process would have: its directory, its model, and the extensions there."""
    from ostler.faces.cli.extending import extended
    from ostler.runs.assembly import make_harness
    from ostler.runs.settings import load_settings

    cwd = _directory_of(state)
    loaded = load_settings(cwd, {"model": options.model or state.settings.model or None})
    for notice in loaded.notices:
        say(notice)
    harness = make_harness(loaded.settings, cwd)
    await extended(_NO_OPTIONS, loaded.settings, harness)
    return harness


def _directory_of(state: SessionState) -> Path:
    return Path(state.cwd) if Path(state.cwd).is_dir() else working_directory()


_NO_OPTIONS = argparse.Namespace(extension=(), no_extensions=False, trust=False)


async def _ask(
    options: argparse.Namespace,
    store: Store,
    request: TreeRequest | CollapseBranch | Compact | UndoCompaction,
    *,
    needs_model: bool = False,
) -> None:
    session = await find_session(store, options.id)
    make = partial(_harness, options, await state_of(store, session)) if needs_model else None
    if not await ask_session(store, session, request, make):
        say(f"session {session} is held by another process, which takes this up when it gets to it")
