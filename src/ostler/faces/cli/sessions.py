"""`ostler sessions`: everything that can be done with sessions without running them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from ostler.faces.cli.session_copies import export, fork, import_
from ostler.faces.cli import session_care, session_tree
from ostler.faces.cli.arguments import Parser, at_least_one
from ostler.faces.cli.portable_file import EXTENSIONS
from ostler.faces.cli.saying import say
from ostler.faces.cli.session_listing import LIST_LIMIT, list_sessions, search, show
from ostler.kernel.store import Store
from ostler.runs.home import store_file
from ostler.runs.stores import open_store
from ostler.vocabulary.errors import NotFound

Command = Callable[[argparse.Namespace, Store], Awaitable[int | None]]

_ABOUT_ALL = (
    list_sessions,
    search,
    session_care.check,
    session_care.repair,
    session_care.prune,
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
    say("there are no sessions yet; `ostler -p PROMPT…` begins one")


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
    one = add("tree", session_tree.tree, "show the branches of a session, and where it stands")
    _add_id(one)
    _add_json(one, "its entries, one JSON object a line")
    one = add("navigate", session_tree.navigate, "go to an entry: what is said next follows it")
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number; 0 is before the first")
    one = add("collapse", session_tree.collapse, "let a model tell a branch that was left in a summary here")
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="the end of that branch")
    one.add_argument("words", metavar="WISH", nargs="*", help="what the summary should not leave out")
    one.add_argument("--model", metavar="PROVIDER/ID", help="who writes it (default: as for a prompt)")
    one = add("compact", session_tree.compact, "let a model tell the older messages in a summary")
    _add_id(one)
    one.add_argument("words", metavar="WISH", nargs="*", help="what the summary should not leave out")
    one.add_argument("--model", metavar="PROVIDER/ID", help="who writes it (default: as for a prompt)")
    one = add("uncompact", session_tree.uncompact, "tell in full again what a compaction replaced")
    _add_id(one)
    one.add_argument(
        "compaction", metavar="NUMBER", nargs="?", type=_entry, help="of its entry (default: the newest)"
    )
    one = add("label", session_tree.label, "give an entry a name; without one, take its name away")
    _add_id(one)
    one.add_argument("entry", metavar="ENTRY", type=_entry, help="its number")
    one.add_argument("words", metavar="NAME", nargs="*")
    one = add("rename", session_tree.rename, "give a session a title")
    _add_id(one)
    one.add_argument("words", metavar="TITLE", nargs="+")


def _add_caring(add: Add) -> None:
    one = add(
        "check", session_care.check, "look whether sessions and the store are sound; exit code 1 if not"
    )
    one.add_argument("ids", metavar="ID", nargs="*", help="of a session (default: all, and the file itself)")
    _add_json(one, "one JSON object a problem")
    add("repair", session_care.repair, "mend what follows from the facts, after a copy of the store")
    one = add("prune", session_care.prune, "delete old sessions, and give back the room that nothing uses")
    one.add_argument(
        "--older-than", metavar="AGE", type=session_care.age, help="delete those not used for 30d, 8w, …"
    )
    one.add_argument(
        "--keep", metavar="N", type=at_least_one, help="delete all others, but never the N newest"
    )
    one.add_argument("--waiting", action="store_true", help="also those that wait for an answer")
    one.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    one.add_argument("--yes", action="store_true", help="do not ask")
    one = add("delete", session_care.delete, "delete sessions for good")
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
