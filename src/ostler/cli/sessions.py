"""`ostler sessions`: lists, shows, searches, exports, imports and forks sessions."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.console import aligned, print_json, print_stderr
from ostler.app.options import Parser, at_least_one
from ostler.app.settings import working_directory
from ostler.app.stores import find_session, open_store
from ostler.cli import session_maintenance
from ostler.core.journal import World
from ostler.core.lazy import lazy_module
from ostler.core.store import Hit, SessionSummary, Store
from ostler.history.export import (
    EXTENSIONS,
    export_text,
    format_of,
    read_export_file,
    transcript,
    write_export,
)
from ostler.schema.errors import NotFound
from ostler.schema.text import age, cells, cut, cut_start, one_line, printable, short_ids
from ostler.sessions.run_tree import current_status
from ostler.store import fork as forking
from ostler.store.paths import home_folder, store_file

if TYPE_CHECKING:
    from ostler.history import item_builder
    from ostler.store import portable
else:
    item_builder = lazy_module("ostler.history.item_builder")
    portable = lazy_module("ostler.store.portable")

SEARCH_LIMIT = 50

LIST_LIMIT = 20


async def list_sessions(options: argparse.Namespace, store: Store) -> None:

    here = str(working_directory()) if options.here else None
    everything = await store.sessions()
    sessions = [one for one in everything if here is None or one.cwd == here]
    if not options.all:
        sessions = [one for one in sessions if not one.child_of and (one.preview or one.status)]
    limit = options.limit or (None if options.all else LIST_LIMIT)
    page = [await current_status(store, one) for one in sessions[:limit]]
    if options.json:
        for one in page:
            print_json(one)
        return
    for line in rows(page, everything):
        print(line)
    if not sessions:
        print_stderr(
            f"{here} has no sessions yet" if here else "there are no sessions; --all lists empty ones, too"
        )
    elif limit is not None and len(sessions) > limit:
        print_stderr(f"{len(sessions) - limit} more; use --limit or --all")


async def show(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    facts = await store.read(session)
    if options.json:
        for fact in facts:
            sys.stdout.buffer.write(fact.line() + b"\n")
        return
    for line in transcript(await current_status(store, await store.summary(session)), facts):
        print(line)


async def search(options: argparse.Namespace, store: Store) -> None:

    hits = await store.search(" ".join(options.words), limit=SEARCH_LIMIT)
    if options.json:
        for hit in hits:
            print_json(hit)
        return
    for line in hit_rows(hits, await store.sessions()):
        print(line)
    if not hits:
        print_stderr("no message contains all of these words")


Command = Callable[[argparse.Namespace, Store], Awaitable[int | None]]


_ABOUT_ALL = (
    list_sessions,
    search,
    session_maintenance.check,
    session_maintenance.repair,
    session_maintenance.prune,
)
"""Commands that succeed without any session."""


def sessions_command(arguments: list[str]) -> int:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["list", *arguments]
    options = _sessions_parser().parse_args(arguments)
    return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    if not store_file().exists() and options.command is not import_:
        _without_store(options)
        return 0
    store = open_store()
    try:
        return await options.command(options, store) or 0
    finally:
        await store.close()


def _without_store(options: argparse.Namespace) -> None:
    """Reports that there are no sessions, without creating a store."""
    if options.command not in _ABOUT_ALL or getattr(options, "ids", None):
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` starts one")
    print_stderr("there are no sessions yet; `ostler -p PROMPT…` starts one")


def _sessions_parser() -> Parser:
    parser = Parser(
        prog="ostler sessions",
        description="Lists, shows, searches, copies, branches, checks and deletes sessions.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, command: Command, about: str) -> Parser:
        one: Parser = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        one.set_defaults(command=command)
        return one

    _add_looking(add)
    _add_copying(add)
    _add_branching(add)
    _add_caring(add)
    return parser


Add = Callable[[str, Command, str], Parser]


def _add_looking(add: Add) -> None:
    one = add("list", list_sessions, "list sessions, newest first (the default)")
    one.add_argument("--here", action="store_true", help="only sessions of this directory")
    one.add_argument("--all", action="store_true", help="also subagents and empty sessions, without a limit")
    limit = LIST_LIMIT
    one.add_argument("--limit", metavar="N", type=at_least_one, help=f"list at most N (default: {limit})")
    _add_json(one, "print one JSON object per line")
    one = add("show", show, "print a session as text")
    _add_id(one)
    _add_json(one, "print its facts, one JSON object per line")
    one = add("search", search, "find messages that contain all the words")
    one.add_argument("words", metavar="WORD", nargs="+")
    _add_json(one, "print one JSON object per line")


def _add_copying(add: Add) -> None:
    one = add("export", export, "export a session to a file: to import it again, or to read it")
    _add_id(one)
    one.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="-",
        help="a file or a directory (default: standard output)",
    )
    one.add_argument(
        "--format",
        choices=tuple(EXTENSIONS),
        help="jsonl can be imported; markdown and html are for reading (default: by FILE's suffix, else "
        "jsonl)",
    )
    one = add(
        "import", import_, "import a session from a JSONL export into this directory, and print its new id"
    )
    one.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    one = add("fork", fork, "copy a session's path into a new session, and print its id")
    _add_id(one)
    one.add_argument("--at", metavar="N", type=int, help="the last entry to copy (default: the newest)")
    one.add_argument("--title", metavar="TEXT", default="", help="the title of the new session")


def _add_branching(add: Add) -> None:
    one = add("tree", session_maintenance.tree, "show the branches of a session, and its current entry")
    _add_id(one)
    _add_json(one, "print its entries, one JSON object per line")
    one = add(
        "navigate", session_maintenance.navigate, "move to an entry: the next message continues from there"
    )
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number; 0 is before the first entry")
    one = add(
        "collapse", session_maintenance.collapse, "summarize an abandoned branch, and add the summary here"
    )
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="the last entry of that branch")
    one.add_argument("words", metavar="WISH", nargs="*", help="what the summary must include")
    one.add_argument(
        "--model", metavar="PROVIDER/ID", help="the model that writes it (default: as for a prompt)"
    )
    one = add(
        "compact", session_maintenance.compact, "replace older messages by a summary that a model writes"
    )
    _add_id(one)
    one.add_argument("words", metavar="WISH", nargs="*", help="what the summary must include")
    one.add_argument(
        "--model", metavar="PROVIDER/ID", help="the model that writes it (default: as for a prompt)"
    )
    one = add(
        "uncompact",
        session_maintenance.uncompact,
        "undo a compaction: the model gets the original messages again",
    )
    _add_id(one)
    one.add_argument(
        "compaction",
        metavar="NUMBER",
        nargs="?",
        type=_entry,
        help="the number of its entry (default: the newest)",
    )
    one = add("label", session_maintenance.label, "name an entry; without a name, remove it")
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number")
    one.add_argument("words", metavar="NAME", nargs="*")
    one = add("rename", session_maintenance.rename, "set the title of a session")
    _add_id(one)
    one.add_argument("words", metavar="TITLE", nargs="+")


def _add_caring(add: Add) -> None:
    one = add(
        "check",
        session_maintenance.check,
        "check sessions and the store for damage; exit code 1 if there is any",
    )
    one.add_argument(
        "ids", metavar="ID", nargs="*", help="sessions to check (default: all, and the file itself)"
    )
    _add_json(one, "print one JSON object per problem")
    add(
        "repair",
        session_maintenance.repair,
        "rebuild what derives from the facts, after a backup of the store",
    )
    one = add("prune", session_maintenance.prune, "delete old sessions, and free unused disk space")
    one.add_argument(
        "--older-than",
        metavar="AGE",
        type=session_maintenance.age,
        help="delete sessions not used for 30d, 8w, …",
    )
    one.add_argument("--keep", metavar="N", type=at_least_one, help="keep the N newest, whatever their age")
    one.add_argument("--waiting", action="store_true", help="also sessions that wait for an answer")
    one.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    one.add_argument("--yes", action="store_true", help="do not ask")
    one = add("delete", session_maintenance.delete, "delete sessions permanently")
    one.add_argument("ids", metavar="ID", nargs="+", help="ids; unique prefixes are enough")
    one.add_argument("--yes", action="store_true", help="do not ask")


def _add_id(one: Parser) -> None:
    one.add_argument("id", metavar="ID", help="the id of the session; a unique prefix is enough")


def _add_json(one: Parser, about: str) -> None:
    one.add_argument("--json", action="store_true", help=about)


def _entry(text: str) -> int:
    """The number of an entry, with or without the `#` of the tree."""
    number = text.removeprefix("#")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of an entry")
    return int(number)


_FOLDER_WIDTH = 30

_NARROWEST_TEXT = 12


def rows(shown: Sequence[SessionSummary], known: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, age, status, title or first prompt, folder. Ids are cut, but stay unique among the `known` ones."""
    if not shown:
        return
    if not sys.stdout.isatty():
        yield from aligned(
            [
                (one.id, moment(one.updated_ms), one.status or "new", _text(one), printable(one.cwd))
                for one in shown
            ]
        )
        return
    width = shutil.get_terminal_size().columns
    short = short_ids([one.id for one in known])
    home, now = home_folder(), time.time()
    left = [(short[one.id], age(now - one.updated_ms / 1000), one.status or "new") for one in shown]
    folders = [cut_start(_under_home(printable(one.cwd), home), _FOLDER_WIDTH) for one in shown]
    taken = sum(max(map(cells, column)) + 2 for column in (*zip(*left, strict=True), folders))
    room = max(_NARROWEST_TEXT, width - taken)
    texts = [cut(_text(one), room) for one in shown]
    table = [(*cells, text, folder) for cells, text, folder in zip(left, texts, folders, strict=True)]
    for line in aligned([("ID", "AGE", "STATUS", "SESSION", "FOLDER"), *table]):
        yield cut(line, width)


def hit_rows(hits: Sequence[Hit], known: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, number of the message, and the words around the match."""
    if not hits:
        return
    has_terminal = sys.stdout.isatty()
    short = short_ids([one.id for one in known])
    table = [
        (
            short.get(hit.session, hit.session) if has_terminal else hit.session,
            f"#{hit.seq}",
            one_line(hit.snippet),
        )
        for hit in hits
    ]
    for line in aligned(table):
        yield cut(line, shutil.get_terminal_size().columns) if has_terminal else line


def _text(summary: SessionSummary) -> str:
    return one_line(summary.title or summary.preview) or "(no prompt)"


def moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _under_home(folder: str, home: Path | None) -> str:
    if home is not None and (folder == str(home) or folder.startswith(f"{home}/")):
        return f"~{folder.removeprefix(str(home))}"
    return folder


async def export(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    wanted = options.format or format_of(options.file)
    if options.file == "-":
        async for piece in export_text(store, session, wanted):
            sys.stdout.buffer.write(piece)
        return
    print(await write_export(store, session, Path(options.file), wanted))


async def import_(options: argparse.Namespace, store: Store) -> None:
    with read_export_file(options.file) as lines:
        print(await portable.import_session(store, lines, str(working_directory()), World()))


async def fork(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    print(await forking.fork(store, session, options.at, World(), " ".join(options.title.split())))
