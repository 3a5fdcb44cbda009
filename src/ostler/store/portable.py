"""Export and import of sessions as JSON lines with a version.

    {"type":"ostler_export","version":1,"ostler":…,"session":…,"facts":…,"blobs":…}
    a line for each fact, as `--json` prints it
    {"type":"ostler_blob","blob":…,"media_type":…,"size":…,"data":…}, in pieces, for each blob that facts name

Bodies survive byte for byte, including events and fields of newer versions. The session's folder is not
exported: it is empty in the file, and replaced by the folder of the import.

A file gives no consent: `session_started` says how many facts came from it, and nothing in those authorises a
call. Its history stays, except for an answer that a call still waited to use: that becomes an `audited` fact,
so that its question is open again.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ostler import __version__
from ostler.core.journal import World
from ostler.core.store import BlobPart, Store
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.events import EVENT_TYPES, Entry
from ostler.schema.facts import Fact, decode_event, encode_event
from ostler.schema.text import plural
from ostler.store.rules import blobs_named_by, read_in_parts

VERSION = 1

_PAGE = 100
_HAS_CWD = ("session_started", "run_started")
_EPOCH = datetime.fromtimestamp(0, UTC)

_LINE = re.compile(
    rb'\{"type":"(?P<type>[^"\\]+)","seq":(?P<seq>\d+),"session":"[^"\\]*","run":"(?P<run>[^"\\]*)"'
    rb',"time":"(?P<time>[^"\\]*)"(?:,"parent":(?P<parent>\d+))?(?:,"origin":"(?P<origin>[^"\\]*)")?(?=[,}])'
)
"""The start of a line as `Fact.line` writes it."""


class _Header(msgspec.Struct, frozen=True, tag_field="type", tag="ostler_export"):
    version: int
    ostler: str = ""
    session: str = ""
    facts: int | None = None
    blobs: int | None = None


class _BlobLine(msgspec.Struct, frozen=True, tag_field="type", tag="ostler_blob"):
    blob: str
    media_type: str
    size: int
    """Of the whole blob."""
    data: str


class _Envelope(msgspec.Struct, frozen=True):
    """A line's envelope and type, in any order."""

    type: str
    seq: int
    time: str
    run: str = ""
    parent: int | None = None
    origin: str = ""


# --- export -----------------------------------------------------------------------------------------


async def export_session(store: Store, session: str) -> AsyncIterator[bytes]:
    """The lines of the file, with the facts at the time of the call."""
    last = await store.last_seq(session)
    named: dict[str, None] = {}
    async for page in _pages(store, session, last):
        named |= blobs_named_by(page)
    blobs = [stored for blob in named if (stored := await store.blob(session, blob))]
    yield msgspec.json.encode(_Header(VERSION, __version__, session, last, len(blobs))) + b"\n"
    async for page in _pages(store, session, last):
        for fact in page:
            yield _without_folders(fact).line() + b"\n"
    for blob in blobs:
        async for part in read_in_parts(store, session, blob.id):
            line = _BlobLine(part.blob, part.media_type, blob.size, b64encode(part.data).decode())
            yield msgspec.json.encode(line) + b"\n"


async def _pages(store: Store, session: str, last: int) -> AsyncIterator[list[Fact]]:
    for after in range(0, last, _PAGE):
        yield await store.read(session, after, min(_PAGE, last - after))


def _without_folders(fact: Fact) -> Fact:
    """The same fact without the names of folders of this machine."""
    if fact.type in _HAS_CWD:
        return _with_cwd(fact, "")
    if fact.type == "permission_remembered" and b'"scope":"project"' in fact.body:
        return _with_fields(fact, {"where": msgspec.Raw(b'""')})
    if fact.type == "question_asked" and b'"project":' in fact.body:
        question = msgspec.json.decode(fact.body)["question"]
        if isinstance(question.get("details"), dict):
            question["details"].pop("project", None)
        return _with_fields(fact, {"question": msgspec.Raw(msgspec.json.encode(question))})
    return fact


def _with_cwd(fact: Fact, cwd: str) -> Fact:
    """The same fact in another folder; its other fields stay, even unknown ones."""
    return _with_fields(fact, {"cwd": msgspec.Raw(msgspec.json.encode(cwd))})


def _with_fields(fact: Fact, changes: dict[str, msgspec.Raw]) -> Fact:
    fields = msgspec.json.decode(fact.body, type=dict[str, msgspec.Raw]) | changes
    return msgspec.structs.replace(fact, body=msgspec.json.encode(fields), _event=None)


# --- import ------------------------------------------------------------------------------------------


class Imported(msgspec.Struct, frozen=True):
    """The new session, and what of the file does not count here, a line each."""

    session: str
    dropped: tuple[str, ...] = ()


async def import_session(store: Store, lines: Iterable[bytes], cwd: str, world: World) -> Imported:
    """Adds the session of an export, in the folder `cwd`, under a new id.

    Facts keep their numbers. An incomplete or damaged file adds nothing; the error names the line.
    """
    export = read_export(lines, world.new_id("ses"), cwd)
    return await add_export(store, export)


async def add_export(store: Store, export: ReadExport) -> Imported:
    """Adds a session from a file, without the consent in it."""
    facts, dropped = without_consent(export.facts)
    await store.import_session(facts, export.blobs)
    return Imported(export.session, dropped)


def without_consent(facts: Sequence[Fact]) -> tuple[list[Fact], tuple[str, ...]]:
    """The facts of a file as this store takes them, and what was dropped."""
    facts, opened = list(facts), _OpenCalls(facts)
    answers = opened.unused_answers()
    for fact in answers:
        facts[fact.seq - 1] = _dropped_answer(fact)
    facts[0] = _marked(facts[0], len(facts))
    rules = [fact.event.rule for fact in facts if isinstance(fact.event, events.PermissionRemembered)]
    started = opened.started()
    parts = (
        (answers, f"{plural(len(answers), 'answer')} to open questions: they are asked here"),
        (rules, f"{plural(len(rules), 'remembered rule')}: {', '.join(dict.fromkeys(rules))}"),
        (started, f"{plural(len(started), 'call')} that had started: interrupted"),
        (opened.children, f"{plural(len(opened.children), 'subagent')} of the open run"),
    )
    return facts, tuple(line for what, line in parts if what)


def _marked(first: Fact, count: int) -> Fact:
    """The first fact with the number of imported facts. A parent's session is not here, and one that has its
    id is not the parent."""
    names = msgspec.json.decode(first.body, type=dict[str, msgspec.Raw])
    unlinked: dict[str, msgspec.Raw] = {
        name: msgspec.Raw(b'""') for name in ("child_of", "call") if name in names
    }
    return _with_fields(first, {**unlinked, "imported": msgspec.Raw(str(count).encode())})


def as_own(first: Fact) -> Fact:
    """The first fact of a session as if the session had not been imported."""
    is_imported = isinstance(first.event, events.SessionStarted) and first.event.imported
    return _with_fields(first, {"imported": msgspec.Raw(b"0")}) if is_imported else first


class _OpenCalls:
    """The calls of the run that is open at the end of a file."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        self._calls: dict[str, bool] = {}
        """Whether each has started."""
        self._questions: dict[str, str] = {}
        self._answers: dict[str, list[Fact]] = {}
        self.children: set[str] = set()
        for fact in facts:
            self._take(fact)

    def _take(self, fact: Fact) -> None:
        match fact.event:
            case events.RunStarted() | events.RunEnded():
                self._calls, self._questions, self._answers, self.children = {}, {}, {}, set()
            case events.ToolCalled(call=call):
                self._calls[call] = False
            case events.ToolStarted(call=call):
                self._calls[call] = True
            case events.ToolResultFact(call=call):
                self._calls.pop(call, None)
            case events.QuestionAsked(id=id, call=call):
                self._questions[id] = call
            case events.QuestionAnswered(id=id, outcome="answered" | "declined"):
                self._answers.setdefault(self._questions.get(id, ""), []).append(fact)
            case events.ChildStarted(child=child) if fact.run:
                self.children.add(child)
            case events.ChildEnded(child=child):
                self.children.discard(child)

    def unused_answers(self) -> list[Fact]:
        waiting = [call for call, has_started in self._calls.items() if not has_started]
        return [fact for call in waiting for fact in self._answers.get(call, ())]

    def started(self) -> list[str]:
        return [call for call, has_started in self._calls.items() if has_started]


def _dropped_answer(fact: Fact) -> Fact:
    answered = fact.event
    assert isinstance(answered, events.QuestionAnswered)
    details = {name: getattr(answered, name) for name in ("id", "outcome", "answer", "by", "identity")}
    reason = "the answer was given in another store: it does not count here"
    body = encode_event(events.Audited("import.drop_answer", reason, details))
    return Fact(fact.seq, fact.session, fact.run, fact.time_ms, body, origin=fact.origin)


def read_export(lines: Iterable[bytes], session: str, cwd: str) -> ReadExport:
    """The content of a file, for a session with that id. Raises `UsageError`."""
    reader = ReadExport(session, cwd)
    number = 0
    for number, line in enumerate(lines, 1):
        if line := line.strip():
            try:
                reader.take(line)
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                raise UsageError(f"line {number} cannot be imported: {error}") from None
    reader.check_is_whole(number)
    return reader


class ReadExport:
    """The facts and blobs of an export, read line by line; the first invalid line raises."""

    def __init__(self, session: str, cwd: str) -> None:
        self.session = session
        self.facts: list[Fact] = []
        self.blobs: list[BlobPart] = []
        self._cwd = cwd
        self._header: _Header | None = None
        self._entries = {0}
        self._missing: dict[str, int] = {}

    def take(self, line: bytes) -> None:
        if self._header is None:
            self._header = _header(line)
        elif line.startswith(b'{"type":"ostler_blob"'):
            self._take_blob(msgspec.json.decode(line, type=_BlobLine))
        else:
            self._take_fact(read_line(line, self.session))

    def _take_blob(self, piece: _BlobLine) -> None:
        data = b64decode(piece.data, validate=True)
        self.blobs.append(BlobPart(piece.blob, data, piece.media_type))
        self._missing[piece.blob] = self._missing.get(piece.blob, piece.size) - len(data)

    def _take_fact(self, fact: Fact) -> None:
        expected = len(self.facts) + 1
        if fact.seq != expected:
            raise ValueError(f"it is fact {fact.seq}, but {expected} comes next")
        if (fact.seq == 1) != (fact.type == "session_started"):
            raise ValueError("session_started must be the first fact, and only the first")
        msgspec.json.decode(fact.body, type=msgspec.Raw)
        decode_event(fact.body)
        event_type = EVENT_TYPES.get(fact.type)
        if event_type is not None and issubclass(event_type, Entry) != (fact.parent is not None):
            raise ValueError(f"a {fact.type} {'needs a' if fact.parent is None else 'has no'} parent")
        if fact.parent is not None:
            if fact.parent not in self._entries:
                raise ValueError(f"its parent {fact.parent} is no entry before it")
            self._entries.add(fact.seq)
        self.facts.append(_with_cwd(fact, self._cwd) if fact.type in _HAS_CWD else fact)

    def check_is_whole(self, lines: int) -> None:
        if self._header is None:
            raise UsageError("the file is empty: there is nothing to import")
        truncated = f"the file is truncated at line {lines}"
        for what, announced, count in (
            ("facts", self._header.facts, len(self.facts)),
            ("blobs", self._header.blobs, len({part.blob for part in self.blobs})),
        ):
            if announced is not None and count < announced:
                raise UsageError(f"{truncated}: it has {count} of {announced} {what}")
            if announced is not None and count > announced:
                raise UsageError(f"the file has {count} {what}, but its first line says {announced}")
        if not self.facts:
            raise UsageError("the file contains no session: it has no facts")
        for blob, missing in self._missing.items():
            if missing:
                raise UsageError(f"{truncated}: {missing} bytes of {blob!r} are missing")


def _header(line: bytes) -> _Header:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except msgspec.MsgspecError:
        raise ValueError("it is not the first line of an ostler export") from None
    if header.version > VERSION:
        raise ValueError(
            f"it has version {header.version}, and this ostler reads up to {VERSION}: upgrade it"
        )
    return header


def read_line(line: bytes, session: str) -> Fact:
    """A fact from its line, in that session. Raises `ValueError` or `MsgspecError`."""
    match = _LINE.match(line)
    if match is None:
        return _read_edited_line(line, session)
    run, time, origin = ((match[name] or b"").decode() for name in ("run", "time", "origin"))
    parent = None if match["parent"] is None else int(match["parent"])
    body = b'{"type":"%b"%b' % (match["type"], line[match.end() :])
    return Fact(int(match["seq"]), session, run, _milliseconds(time), body, parent=parent, origin=origin)


def _read_edited_line(line: bytes, session: str) -> Fact:
    """A line that was written by hand or reordered: the same fields, encoded with the type first."""
    envelope = msgspec.json.decode(line, type=_Envelope)
    fields: dict[str, Any] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    for name in ("type", "seq", "session", "run", "time", "parent", "origin"):
        fields.pop(name, None)
    body, time_ms = msgspec.json.encode({"type": envelope.type, **fields}), _milliseconds(envelope.time)
    return Fact(envelope.seq, session, envelope.run, time_ms, body, "", envelope.parent, envelope.origin)


def _milliseconds(time: str) -> int:
    moment = datetime.fromisoformat(time)
    if moment.tzinfo is None:
        raise ValueError(f"its time {time!r} has no time zone")
    return (moment - _EPOCH) // timedelta(milliseconds=1)
