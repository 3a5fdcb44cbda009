"""`ostler audit`: why a session did what it did."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

from ostler.faces.cli.about_call import about_call
from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import aligned, cut, one_line
from ostler.faces.cli.saying import print_json, say
from ostler.runs.audit import audit_entries, why
from ostler.runs.audit_actions import AuditEntry
from ostler.runs.home import store_file
from ostler.runs.stores import find_session, open_store
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.events import AssistantMessage, ToolCalled
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import ToolCall, text_of

_WIDEST_SUBJECT = 40


def audit_command(arguments: list[str]) -> int:
    options = _audit_parser().parse_args(arguments)
    if not store_file().exists():
        raise NotFound("there are no sessions yet; `ostler -p PROMPT…` begins one")
    facts = asyncio.run(_facts(options.id))
    called = None if options.why is None else _called(facts, options.why)
    entries = list(audit_entries(facts)) if called is None else why(facts, called.call)
    if options.json:
        for entry in entries:
            print_json(entry)
        return 0
    if called:
        for line in _heading(facts, called):
            print(line)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() and not called else None
    for line in _rows(entries):
        print(line if width is None else cut(line, width))
    if called is None and not any(entry.run for entry in entries):
        say("nothing was run in this session yet")
    return 0


def _audit_parser() -> Parser:
    parser = Parser(
        prog="ostler audit",
        description="Why a session did what it did: which model was asked, what was allowed or refused, what "
        "people answered, which limit it met. Everything is read from the facts of the session.",
    )
    parser.add_argument("id", metavar="SESSION", help="its id; a unique beginning will do")
    parser.add_argument(
        "--why", metavar="CALL", help="only what led to one call, by its id or a number of this list"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


async def _facts(session: str) -> list[Fact]:
    store = open_store()
    try:
        return await store.read(await find_session(store, session))
    finally:
        await store.close()


def _called(facts: Sequence[Fact], wanted: str) -> ToolCalled:
    """The call that was meant: by its id, by its own number, or by that of a decision about it."""
    calls = [(fact.seq, fact.event) for fact in facts if isinstance(fact.event, ToolCalled)]
    number = wanted.removeprefix("#")
    decided = {str(entry.seq): entry.call for entry in audit_entries(facts)}
    for seq, called in calls:
        if called.call in (wanted, decided.get(number)) or str(seq) == number:
            return called
    raise NotFound(f"the session has no call {wanted}; `ostler audit` and `ostler sessions show` number them")


def _heading(facts: Sequence[Fact], called: ToolCalled) -> Iterator[str]:
    """The call, and what the model said beside it."""
    yield f"{one_line(called.name)}: {about_call(called)}"
    for fact in facts:
        event = fact.event
        if not isinstance(event, AssistantMessage) or event.suppressed:
            continue
        if any(isinstance(block, ToolCall) and block.id == called.call for block in event.content):
            said = one_line(text_of(event.content if event.shown is None else event.shown))
            if said:
                yield f"the model said: {cut(said, 400)}"
    yield ""


def _rows(entries: Sequence[AuditEntry]) -> Iterator[str]:
    """Number, time, action, what it is about, and why."""
    if not entries:
        return
    has_terminal = sys.stdout.isatty()
    table = [
        (
            f"#{entry.seq}",
            _clock(entry.time) if has_terminal else entry.time,
            one_line(entry.action),
            cut(_subject(entry), _WIDEST_SUBJECT) if has_terminal else _subject(entry),
            one_line(entry.reason),
        )
        for entry in entries
    ]
    yield from aligned([("#", "TIME", "ACTION", "WHAT", "WHY"), *table])


def _clock(time: str) -> str:
    return datetime.fromisoformat(time).astimezone().strftime("%m-%d %H:%M:%S")


def _subject(entry: AuditEntry) -> str:
    name = entry.tool or (entry.model if not entry.what else "") or entry.who
    return one_line(" ".join(filter(None, (name, entry.what))))
