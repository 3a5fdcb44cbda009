"""`ostler sessions tree|navigate|collapse|label|rename`: the branches of a session, and names in it."""

from __future__ import annotations

import argparse
import shutil
import sys

from ostler.faces.cli.columns import cut
from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.kernel.harness import Harness
from ostler.kernel.journal import World
from ostler.kernel.store import Store
from ostler.runs.asking import ask
from ostler.runs.stores import find_session
from ostler.runs.tree_requests import TreeRequest
from ostler.vocabulary.requests import CollapseBranch, Label, Navigate, Rename


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
    await _ask(options, store, Navigate(id=_new_id(), by="cli", entry=options.entry))


async def label(options: argparse.Namespace, store: Store) -> None:
    name = " ".join(" ".join(options.words).split())
    await _ask(options, store, Label(id=_new_id(), by="cli", entry=options.entry, label=name))


async def rename(options: argparse.Namespace, store: Store) -> None:
    title = " ".join(" ".join(options.words).split())
    await _ask(options, store, Rename(id=_new_id(), by="cli", title=title))


async def collapse(options: argparse.Namespace, store: Store) -> None:
    request = CollapseBranch(
        id=_new_id(), by="cli", leaf=options.entry, instructions=" ".join(" ".join(options.words).split())
    )
    await _ask(options, store, request, _harness(options.model))


def _harness(model: str | None) -> Harness:
    from ostler.runs.assembly import make_harness
    from ostler.runs.settings import load_settings

    cwd = working_directory()
    loaded = load_settings(cwd, {"model": model})
    for notice in loaded.notices:
        say(notice)
    return make_harness(loaded.settings, cwd)


async def _ask(
    options: argparse.Namespace,
    store: Store,
    request: TreeRequest | CollapseBranch,
    harness: Harness | None = None,
) -> None:
    session = await find_session(store, options.id)
    if not await ask(store, session, request, World(), harness):
        say(f"session {session} is held by another process, which takes this up when it gets to it")


def _new_id() -> str:
    return World().new_id("req")
