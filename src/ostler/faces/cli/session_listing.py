"""`ostler sessions list|show|search`: looking at sessions."""

from __future__ import annotations

import argparse
import sys

import msgspec

from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.saying import print_json, say
from ostler.kernel.store import SessionSummary, Store
from ostler.runs.stores import find_session

SEARCH_LIMIT = 50
LIST_LIMIT = 20


async def list_sessions(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.session_rows import rows

    here = str(working_directory()) if options.here else None
    known = await store.sessions()
    shown = [one for one in known if here is None or one.cwd == here]
    if not options.all:
        shown = [one for one in shown if not one.child_of and (one.preview or one.status)]
    limit = options.limit or (None if options.all else LIST_LIMIT)
    listed = [await as_it_is(store, one) for one in shown[:limit]]
    if options.json:
        for one in listed:
            print_json(one)
        return
    for line in rows(listed, known):
        print(line)
    if not shown:
        say(
            f"there are no sessions of {here} yet"
            if here
            else "there are no sessions to show; --all shows empty ones"
        )
    elif limit is not None and len(shown) > limit:
        say(f"{len(shown) - limit} more; --limit or --all shows them")


async def as_it_is(store: Store, summary: SessionSummary) -> SessionSummary:
    """A run that nobody drives any more was cut, whatever the last fact of its log says."""
    if summary.status != "running" or await store.holder(summary.id) is not None:
        return summary
    return msgspec.structs.replace(summary, status="cut")


async def show(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    facts = await store.read(session)
    if options.json:
        for fact in facts:
            sys.stdout.buffer.write(fact.line() + b"\n")
        return
    from ostler.faces.cli.revising import as_revised
    from ostler.faces.cli.transcript import transcript

    for line in transcript(await as_it_is(store, await store.summary(session)), as_revised(facts)):
        print(line)


async def search(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.session_rows import hit_rows

    hits = await store.search(" ".join(options.words), limit=SEARCH_LIMIT)
    if options.json:
        for hit in hits:
            print_json(hit)
        return
    for line in hit_rows(hits, await store.sessions()):
        print(line)
    if not hits:
        say("no message holds all of these words")
