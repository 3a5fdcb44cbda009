"""`ostler sessions`: everything that can be done with sessions without running them."""
# MERGED: `ostler sessions list|show|search`: looking at sessions.
# MERGED: Sessions and what a search found, a line each: for a terminal, or whole and stable for a pipe.

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
from ostler.history.export import EXTENSIONS, export_text, format_of, read_export_file, write_export
from ostler.schema.errors import NotFound
from ostler.schema.text import age, cells, cut, cut_start, one_line, printable, short_ids
from ostler.sessions.run_tree import current_status
from ostler.store import fork as forking
from ostler.store.paths import home_folder, store_file

if TYPE_CHECKING:
    from ostler.history import export as export_formats
    from ostler.history import item_builder
    from ostler.store import portable
else:
    export_formats = lazy_module("ostler.history.export")
    item_builder = lazy_module("ostler.history.item_builder")
    portable = lazy_module("ostler.store.portable")

SEARCH_LIMIT = 50

LIST_LIMIT = 20


async def list_sessions(options: argparse.Namespace, store: Store) -> None:

    here = str(working_directory()) if options.here else None
    known = await store.sessions()
    shown = [one for one in known if here is None or one.cwd == here]
    if not options.all:
        shown = [one for one in shown if not one.child_of and (one.preview or one.status)]
    limit = options.limit or (None if options.all else LIST_LIMIT)
    listed = [await current_status(store, one) for one in shown[:limit]]
    if options.json:
        for one in listed:
            print_json(one)
        return
    for line in rows(listed, known):
        print(line)
    if not shown:
        print_stderr(
            f"there are no sessions of {here} yet"
            if here
            else "there are no sessions to show; --all shows empty ones"
        )
    elif limit is not None and len(shown) > limit:
        print_stderr(f"{len(shown) - limit} more; --limit or --all shows them")


async def show(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    facts = await store.read(session)
    if options.json:
        for fact in facts:
            sys.stdout.buffer.write(fact.line() + b"\n")
        return
    for line in export_formats.transcript(
        await current_status(store, await store.summary(session)), item_builder.as_revised(facts)
    ):
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
        print_stderr("no message holds all of these words")


Command = Callable[[argparse.Namespace, Store], Awaitable[int | None]]


_ABOUT_ALL = (
    list_sessions,
    search,
    session_maintenance.check,
    session_maintenance.repair,
    session_maintenance.prune,
)
"""Those that have nothing to do, and are not mistaken, when there is no session."""


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
    """Looking at sessions must not make a file; there is nothing in it to see yet."""
    if options.command not in _ABOUT_ALL or getattr(options, "ids", None):
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` begins one")
    print_stderr("there are no sessions yet; `ostler -p PROMPT…` begins one")


def _sessions_parser() -> Parser:
    parser = Parser(
        prog="ostler sessions",
        description="Sessions: list, show, search, copy, branch, check and delete them.",
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
    one.add_argument("--here", action="store_true", help="only those of this directory")
    one.add_argument("--all", action="store_true", help="also children and empty ones, and without a limit")
    limit = LIST_LIMIT
    one.add_argument("--limit", metavar="N", type=at_least_one, help=f"at most so many (default: {limit})")
    _add_json(one, "one JSON object a line")
    one = add("show", show, "print a session to read")
    _add_id(one)
    _add_json(one, "its facts, one JSON object a line")
    one = add("search", search, "find messages that hold all the words")
    one.add_argument("words", metavar="WORD", nargs="+")
    _add_json(one, "one JSON object a line")


def _add_copying(add: Add) -> None:
    one = add("export", export, "write a session to a file: to import it again, or to read it")
    _add_id(one)
    one.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="or a directory (default: standard output)"
    )
    one.add_argument(
        "--format",
        choices=tuple(EXTENSIONS),
        help="jsonl can be imported; markdown and html are to read (default: as FILE ends, else jsonl)",
    )
    one = add(
        "import",
        import_,
        "add a session from a portable file, in this directory; prints its new id",
    )
    one.add_argument("file", metavar="FILE", help="or - for standard input")
    one = add("fork", fork, "begin a new session with a copy of another's path; prints its id")
    _add_id(one)
    one.add_argument("--at", metavar="N", type=int, help="the last entry to copy (default: the newest)")
    one.add_argument("--title", metavar="TEXT", default="", help="of the new session")


def _add_branching(add: Add) -> None:
    one = add("tree", session_maintenance.tree, "show the branches of a session, and where it stands")
    _add_id(one)
    _add_json(one, "its entries, one JSON object a line")
    one = add("navigate", session_maintenance.navigate, "go to an entry: what is said next follows it")
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number; 0 is before the first")
    one = add(
        "collapse", session_maintenance.collapse, "let a model tell a branch that was left in a summary here"
    )
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="the end of that branch")
    one.add_argument("words", metavar="WISH", nargs="*", help="what the summary should not leave out")
    one.add_argument("--model", metavar="PROVIDER/ID", help="who writes it (default: as for a prompt)")
    one = add("compact", session_maintenance.compact, "let a model tell the older messages in a summary")
    _add_id(one)
    one.add_argument("words", metavar="WISH", nargs="*", help="what the summary should not leave out")
    one.add_argument("--model", metavar="PROVIDER/ID", help="who writes it (default: as for a prompt)")
    one = add("uncompact", session_maintenance.uncompact, "tell in full again what a compaction replaced")
    _add_id(one)
    one.add_argument(
        "compaction", metavar="NUMBER", nargs="?", type=_entry, help="of its entry (default: the newest)"
    )
    one = add("label", session_maintenance.label, "give an entry a name; without one, take its name away")
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number")
    one.add_argument("words", metavar="NAME", nargs="*")
    one = add("rename", session_maintenance.rename, "give a session a title")
    _add_id(one)
    one.add_argument("words", metavar="TITLE", nargs="+")


def _add_caring(add: Add) -> None:
    one = add(
        "check",
        session_maintenance.check,
        "look whether sessions and the store are sound; exit code 1 if not",
    )
    one.add_argument("ids", metavar="ID", nargs="*", help="of a session (default: all, and the file itself)")
    _add_json(one, "one JSON object a problem")
    add("repair", session_maintenance.repair, "mend what follows from the facts, after a copy of the store")
    one = add(
        "prune", session_maintenance.prune, "delete old sessions, and give back the room that nothing uses"
    )
    one.add_argument(
        "--older-than",
        metavar="AGE",
        type=session_maintenance.age,
        help="delete those not used for 30d, 8w, …",
    )
    one.add_argument(
        "--keep", metavar="N", type=at_least_one, help="delete all others, but never the N newest"
    )
    one.add_argument("--waiting", action="store_true", help="also those that wait for an answer")
    one.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    one.add_argument("--yes", action="store_true", help="do not ask")
    one = add("delete", session_maintenance.delete, "delete sessions for good")
    one.add_argument("ids", metavar="ID", nargs="+", help="unique beginnings will do")
    one.add_argument("--yes", action="store_true", help="do not ask")


def _add_id(one: Parser) -> None:
    one.add_argument("id", metavar="ID", help="of the session; a unique beginning will do")


def _add_json(one: Parser, about: str) -> None:
    one.add_argument("--json", action="store_true", help=about)


def _entry(text: str) -> int:
    """With or without the `#` that the tree shows it with."""
    number = text.removeprefix("#")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of an entry")
    return int(number)


_FOLDER_WIDTH = 30

_NARROWEST_TEXT = 12


def rows(shown: Sequence[SessionSummary], known: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, age, status, title or first prompt, folder. `known` are all there are: ids are cut to be unique."""
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
    """Id, number of the message, and the words around what was found."""
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
