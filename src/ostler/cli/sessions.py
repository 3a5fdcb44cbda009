"""`ostler sessions`: lists, shows, searches, exports, imports and forks sessions."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.console import aligned, print_json, print_lines, print_stderr
from ostler.app.options import Parser, add_json, at_least_one, command_adder, default_to_list
from ostler.app.settings import working_directory
from ostler.app.stores import NO_SESSIONS, find_session, opened_store
from ostler.cli import session_maintenance as maintenance
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
        print_json(*page)
        return
    print_lines(rows(page, everything), fits=True)
    if not sessions:
        none = "there are no sessions; --all lists empty ones, too"
        print_stderr(f"{here} has no sessions yet" if here else none)
    elif limit is not None and len(sessions) > limit:
        print_stderr(f"{len(sessions) - limit} more; use --limit or --all")


async def show(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    facts = await store.read(session)
    if options.json:
        for fact in facts:
            sys.stdout.buffer.write(fact.line() + b"\n")
        return
    print_lines(transcript(await current_status(store, await store.summary(session)), facts))


async def search(options: argparse.Namespace, store: Store) -> None:
    hits = await store.search(" ".join(options.words), limit=SEARCH_LIMIT)
    if options.json:
        print_json(*hits)
        return
    print_lines(hit_rows(hits, await store.sessions()), fits=True)
    if not hits:
        print_stderr("no message contains all of these words")


_ABOUT_ALL = (list_sessions, search, maintenance.check, maintenance.repair, maintenance.prune)
"""Commands that succeed without any session."""


def sessions_command(arguments: list[str]) -> int:
    return asyncio.run(_run(_sessions_parser().parse_args(default_to_list(arguments))))


async def _run(options: argparse.Namespace) -> int:
    if not store_file().exists() and options.command is not import_:
        if options.command not in _ABOUT_ALL or getattr(options, "ids", None):
            raise NotFound(NO_SESSIONS)
        print_stderr(NO_SESSIONS)
        return 0
    async with opened_store() as store:
        return await options.command(options, store) or 0


def _sessions_parser() -> Parser:
    parser = Parser(
        prog="ostler sessions",
        description="Lists, shows, searches, copies, branches, checks and deletes sessions.",
    )
    add = command_adder(parser)
    _add_reading(add)
    _add_copying(add)
    _add_branching(add)
    _add_maintenance(add)
    return parser


Add = Callable[..., Parser]


def _add_reading(add: Add) -> None:
    one = add("list", "list sessions, newest first (the default)", list_sessions)
    one.add_argument("--here", action="store_true", help="only sessions of this directory")
    one.add_argument("--all", action="store_true", help="also subagents and empty sessions, without a limit")
    about = f"list at most N (default: {LIST_LIMIT})"
    one.add_argument("--limit", metavar="N", type=at_least_one, help=about)
    add_json(one)
    one = add("show", "print a session as text", show)
    _add_id(one)
    add_json(one, "print its facts, one JSON object per line")
    one = add("search", "find messages that contain all the words", search)
    one.add_argument("words", metavar="WORD", nargs="+")
    add_json(one)


def _add_copying(add: Add) -> None:
    one = add("export", "export a session to a file: to import it again, or to read it", export)
    _add_id(one)
    about = "a file or a directory (default: standard output)"
    one.add_argument("file", metavar="FILE", nargs="?", default="-", help=about)
    about = "jsonl can be imported; markdown and html are for reading (default: by FILE's suffix, else jsonl)"
    one.add_argument("--format", choices=tuple(EXTENSIONS), help=about)
    one = add(
        "import", "import a session from a JSONL export into this directory, and print its new id", import_
    )
    one.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    one = add("fork", "copy a session's path into a new session, and print its id", fork)
    _add_id(one)
    one.add_argument("--at", metavar="N", type=int, help="the last entry to copy (default: the newest)")
    one.add_argument("--title", metavar="TEXT", default="", help="the title of the new session")


def _add_branching(add: Add) -> None:
    one = add("tree", "show the branches of a session, and its current entry", maintenance.tree)
    _add_id(one)
    add_json(one, "print its entries, one JSON object per line")
    about = "move to an entry: the next message continues from there"
    one = add("navigate", about, maintenance.navigate)
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number; 0 is before the first entry")
    about = "summarize an abandoned branch, and add the summary here"
    one = add("collapse", about, maintenance.collapse)
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="the last entry of that branch")
    _add_summary_options(one)
    one = add("compact", "replace older messages by a summary that a model writes", maintenance.compact)
    _add_id(one)
    _add_summary_options(one)
    about = "undo a compaction: the model gets the original messages again"
    one = add("uncompact", about, maintenance.uncompact)
    _add_id(one)
    about = "the number of its entry (default: the newest)"
    one.add_argument("compaction", metavar="NUMBER", nargs="?", type=_entry, help=about)
    one = add("label", "name an entry; without a name, remove it", maintenance.label)
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number")
    one.add_argument("words", metavar="NAME", nargs="*", help="the new name")
    one = add("rename", "set the title of a session", maintenance.rename)
    _add_id(one)
    one.add_argument("words", metavar="TITLE", nargs="+")


def _add_summary_options(one: Parser) -> None:
    one.add_argument("words", metavar="INSTRUCTIONS", nargs="*", help="what the summary must include")
    about = "the model that writes it (default: as for a prompt)"
    one.add_argument("--model", metavar="PROVIDER/ID", help=about)


def _add_maintenance(add: Add) -> None:
    about = "check sessions and the store for damage; exit code 1 if there is any"
    one = add("check", about, maintenance.check)
    about = "sessions to check (default: all, and the file itself)"
    one.add_argument("ids", metavar="ID", nargs="*", help=about)
    add_json(one, "print one JSON object per problem")
    add("repair", "rebuild what derives from the facts, after a backup of the store", maintenance.repair)
    one = add("prune", "delete old sessions, and free unused disk space", maintenance.prune)
    about = "delete sessions not used for 30d, 8w, …"
    one.add_argument("--older-than", metavar="AGE", type=maintenance.age, help=about)
    one.add_argument("--keep", metavar="N", type=at_least_one, help="keep the N newest, whatever their age")
    one.add_argument("--waiting", action="store_true", help="also sessions that wait for an answer")
    one.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    one.add_argument("--yes", action="store_true", help="do not ask")
    one = add("delete", "delete sessions permanently", maintenance.delete)
    one.add_argument("ids", metavar="ID", nargs="+", help="ids; unique prefixes are enough")
    one.add_argument("--yes", action="store_true", help="do not ask")


def _add_id(one: Parser) -> None:
    one.add_argument("id", metavar="ID", help="the id of the session; a unique prefix is enough")


def _entry(text: str) -> int:
    """The number of an entry, with or without the `#` of the tree."""
    number = text.removeprefix("#")
    if not number.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of an entry")
    return int(number)


_FOLDER_WIDTH = 30
_NARROWEST_TEXT = 12


def rows(page: Sequence[SessionSummary], everything: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, age, status, title or first prompt, folder. For a terminal, ids are cut, but stay unique."""
    if not page or not sys.stdout.isatty():
        return aligned(
            [
                (one.id, moment(one.updated_ms), one.status or "new", _text(one), printable(one.cwd))
                for one in page
            ]
        )
    short = short_ids([one.id for one in everything])
    home, now = home_folder(), time.time()
    left = [(short[one.id], age(now - one.updated_ms / 1000), one.status or "new") for one in page]
    folders = [cut_start(_under_home(printable(one.cwd), home), _FOLDER_WIDTH) for one in page]
    taken = sum(max(map(cells, column)) + 2 for column in (*zip(*left, strict=True), folders))
    room = max(_NARROWEST_TEXT, shutil.get_terminal_size().columns - taken)
    texts = [cut(_text(one), room) for one in page]
    table = [(*cells, text, folder) for cells, text, folder in zip(left, texts, folders, strict=True)]
    return aligned([("ID", "AGE", "STATUS", "SESSION", "FOLDER"), *table])


def hit_rows(hits: Sequence[Hit], sessions: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, number of the message, and the words around the match."""
    short = short_ids([one.id for one in sessions]) if sys.stdout.isatty() else {}
    return aligned(
        [(short.get(hit.session, hit.session), f"#{hit.seq}", one_line(hit.snippet)) for hit in hits]
    )


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
    format = options.format or format_of(options.file)
    if options.file == "-":
        async for piece in export_text(store, session, format):
            sys.stdout.buffer.write(piece)
        return
    print(await write_export(store, session, Path(options.file), format))


async def import_(options: argparse.Namespace, store: Store) -> None:
    with read_export_file(options.file) as lines:
        imported = await portable.import_session(store, lines, str(working_directory()), World())
    print(imported.session)
    for line in imported.dropped:
        print_stderr(f"dropped {one_line(line)}")


async def fork(options: argparse.Namespace, store: Store) -> None:
    session = await find_session(store, options.id)
    print(await forking.fork(store, session, options.at, World(), " ".join(options.title.split())))
