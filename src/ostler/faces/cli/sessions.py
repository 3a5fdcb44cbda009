"""`ostler sessions`: everything that can be done with sessions without running them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from ostler.faces.cli.arguments import Parser, at_least_one
from ostler.faces.cli.directory import working_directory
from ostler.kernel.journal import World, open_journal
from ostler.kernel.processes import current_process
from ostler.kernel.store import SessionSummary, Store
from ostler.runs.home import store_file
from ostler.runs.session import delete_session
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary.errors import NotFound, SessionHeld, UsageError
from ostler.vocabulary.events import SessionRenamed

SEARCH_LIMIT = 50
LIST_LIMIT = 20

Command = Callable[[argparse.Namespace, Store], Awaitable[None]]


def run(arguments: list[str]) -> int:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["list", *arguments]
    options = _parser().parse_args(arguments)
    asyncio.run(_run(options))
    return 0


async def _run(options: argparse.Namespace) -> None:
    if not store_file().exists() and options.command is not _import:
        return _without_store(options)
    store = open_store()
    try:
        await options.command(options, store)
    finally:
        await store.close()


def _without_store(options: argparse.Namespace) -> None:
    """Looking at sessions must not make a file; there is nothing in it to see yet."""
    if options.command not in (_list, _search):
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` begins one")
    _say("there are no sessions yet; `ostler -p PROMPT…` begins one")


def _parser() -> Parser:
    parser = Parser(prog="ostler sessions", description="Sessions: list, show, search, copy and delete them.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, command: Command, about: str) -> Parser:
        one: Parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        one.set_defaults(command=command)
        return one

    def add_id(one: Parser) -> None:
        one.add_argument("id", metavar="ID", help="of the session; a unique beginning will do")

    def add_json(one: Parser, about: str) -> None:
        one.add_argument("--json", action="store_true", help=about)

    one = add("list", _list, "list sessions, newest first (the default)")
    one.add_argument("--here", action="store_true", help="only those of this directory")
    one.add_argument("--all", action="store_true", help="also children and empty ones, and without a limit")
    one.add_argument(
        "--limit", metavar="N", type=at_least_one, help=f"at most so many (default: {LIST_LIMIT})"
    )
    add_json(one, "one JSON object a line")
    one = add("show", _show, "print a session to read")
    add_id(one)
    add_json(one, "its facts, one JSON object a line")
    one = add("search", _search, "find messages that hold all the words")
    one.add_argument("words", metavar="WORD", nargs="+")
    add_json(one, "one JSON object a line")
    one = add("export", _export, "write a session to a portable file")
    add_id(one)
    one.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="or a directory (default: standard output)"
    )
    one = add("import", _import, "add a session from a portable file, in this directory; prints its new id")
    one.add_argument("file", metavar="FILE", help="or - for standard input")
    one = add("fork", _fork, "begin a new session with a copy of another's path; prints its id")
    add_id(one)
    one.add_argument("--at", metavar="N", type=int, help="the last entry to copy (default: the newest)")
    one.add_argument("--title", metavar="TEXT", default="", help="of the new session")
    one = add("rename", _rename, "give a session a title")
    add_id(one)
    one.add_argument("words", metavar="TITLE", nargs="+")
    one = add("delete", _delete, "delete sessions for good")
    one.add_argument("ids", metavar="ID", nargs="+", help="unique beginnings will do")
    one.add_argument("--yes", action="store_true", help="do not ask")
    return parser


async def _list(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.session_rows import rows

    here = str(working_directory()) if options.here else None
    known = await store.sessions()
    shown = [one for one in known if here is None or one.cwd == here]
    if not options.all:
        shown = [one for one in shown if not one.child_of and (one.preview or one.status)]
    limit = options.limit or (None if options.all else LIST_LIMIT)
    listed = [await _as_it_is(store, one) for one in shown[:limit]]
    if options.json:
        for one in listed:
            _print_json(one)
        return
    for line in rows(listed, known):
        print(line)
    if not shown:
        _say(
            f"there are no sessions of {here} yet"
            if here
            else "there are no sessions to show; --all shows empty ones"
        )
    elif limit is not None and len(shown) > limit:
        _say(f"{len(shown) - limit} more; --limit or --all shows them")


async def _as_it_is(store: Store, summary: SessionSummary) -> SessionSummary:
    """A run that nobody drives any more was cut, whatever the last fact of its log says."""
    if summary.status != "running" or await store.holder(summary.id) is not None:
        return summary
    return msgspec.structs.replace(summary, status="cut")


async def _show(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    facts = await store.read(session)
    if options.json:
        for fact in facts:
            sys.stdout.buffer.write(fact.line() + b"\n")
        return
    from ostler.faces.cli.transcript import transcript

    for line in transcript(await _as_it_is(store, await store.summary(session)), facts):
        print(line)


async def _search(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.session_rows import hit_rows

    hits = await store.search(" ".join(options.words), limit=SEARCH_LIMIT)
    if options.json:
        for hit in hits:
            _print_json(hit)
        return
    for line in hit_rows(hits, await store.sessions()):
        print(line)
    if not hits:
        _say("no message holds all of these words")


async def _export(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.portable_file import export_target, writing
    from ostler.log.portable import export_session

    session = await find_session(store, options.id)
    if options.file == "-":
        async for line in export_session(store, session):
            sys.stdout.buffer.write(line)
        return
    target = export_target(Path(options.file), await store.summary(session))
    with writing(target) as file:
        async for line in export_session(store, session):
            file.write(line)
    print(target)


async def _import(options: argparse.Namespace, store: Store) -> None:
    from ostler.faces.cli.portable_file import reading
    from ostler.log.portable import import_session

    with reading(options.file) as lines:
        print(await import_session(store, lines, str(working_directory()), World()))


async def _fork(options: argparse.Namespace, store: Store) -> None:
    from ostler.log.fork import fork

    session = await find_session(store, options.id)
    print(await fork(store, session, options.at, World(), " ".join(options.title.split())))


async def _rename(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    title = " ".join(" ".join(options.words).split())
    try:
        lease = await store.acquire(session, current_process())
    except SessionHeld:
        await _ask_holder_to_rename(store, session, title)
        return
    journal = await open_journal(store, lease, World())
    journal.record(SessionRenamed(title))
    await journal.commit()
    await store.release(lease)


async def _ask_holder_to_rename(store: Store, session: str, title: str) -> None:
    from ostler.vocabulary.requests import Rename

    await store.submit(session, Rename(id=World().new_id("req"), by="cli", title=title))
    _say(f"session {session} is at work; it takes its new title up by itself")


async def _delete(options: argparse.Namespace, store: Store) -> None:
    sessions = list(dict.fromkeys([await find_session(store, one) for one in options.ids]))
    if not options.yes and not await _may_delete(store, sessions):
        _say("nothing was deleted")
        return
    for session in sessions:
        await delete_session(store, session)
        print(f"deleted {session}")


async def _may_delete(store: Store, sessions: list[str]) -> bool:
    from ostler.faces.cli.columns import one_line

    if not sys.stdin.isatty():
        raise UsageError("deleting cannot be undone: say --yes when there is nobody to ask")
    for session in sessions:
        summary = await store.summary(session)
        print(f"{session}  {one_line(summary.title or summary.preview)}", file=sys.stderr)
    print("delete for good? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_json(value: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def _say(text: str) -> None:
    print(f"ostler: {text}", file=sys.stderr)
