"""What a running call may know and do; its output: live, stored in a blob, and bounded for the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ostler.core.budget import Budget
from ostler.core.cancellation import CancelToken, Stopwatch
from ostler.core.children import TASK_EXCERPT, ChildRequest, ChildResult, child_session, publish_child_events
from ostler.core.harness import OpenSession
from ostler.core.journal import Journal
from ostler.core.processes import ProcessId
from ostler.core.questions import NOBODY_TO_ASK, withdraw_question
from ostler.core.run_state import CallState
from ostler.core.secrets import MaskedStream
from ostler.core.store import Blobs
from ostler.core.tool import FileRules, ResultLimits
from ostler.schema import events
from ostler.schema.errors import CallRefused, StoreError
from ostler.schema.facts import Fact, storage_problem
from ostler.schema.messages import BlobRef, PlainBlock, Text, text_of
from ostler.schema.outcomes import Failed, Question, failed
from ostler.schema.usage import Usage

FLUSH_AFTER = 0.2
FLUSH_SIZE = 256 * 1024
TAIL_SIZE = 4 * 1024

KEEP_AT_MOST = 256 * 1024 * 1024
"""A command that never stops printing must not fill the disk."""


def blob_of_call(call: str) -> str:
    """The name of the blob with a call's output: the same before and after a crash."""
    return f"out_{call}"


class OutputSpool:
    """The whole output of a call. It is in the blob store after `FLUSH_AFTER` seconds at the latest, so that
    a crash loses almost nothing; a short, quick call writes nothing."""

    def __init__(self, journal: Journal, call: str) -> None:
        self._journal = journal
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: list[str] = []
        self._waiting_size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._closed = False
        self._masked = MaskedStream()
        self._stream: Literal["out", "err"] = "out"
        self.tail = ""
        """The end of the output, for the result of a call that was stopped."""
        self.size = 0
        self._stored = 0

    def write(self, text: str, stream: Literal["out", "err"]) -> None:
        """May be called from any thread: tools that are plain functions run in one."""
        if threading.get_ident() == self._thread:
            self._write(text, stream)
        else:
            self._loop.call_soon_threadsafe(self._write, text, stream)

    def _write(self, text: str, stream: Literal["out", "err"]) -> None:
        if not text or self._closed:
            return
        text = self._masked.feed(replace_surrogates(text).encode()).decode()
        self._show(text, stream)

    def _show(self, text: str, stream: Literal["out", "err"]) -> None:
        if not text:
            return
        self._stream = stream
        self._journal.publish([events.ToolOutput(self._call, self.size, text, stream)])
        self.size += len(text)
        self.tail = (self.tail + text)[-TAIL_SIZE:]
        if self.size > KEEP_AT_MOST:
            return
        self._waiting.append(text)
        self._waiting_size += len(text)
        if self._waiting_size >= FLUSH_SIZE:
            self._flush_soon()
        elif self._timer is None:
            self._timer = self._loop.call_later(FLUSH_AFTER, self._flush_soon)

    async def close(self, sent: int) -> BlobRef | None:
        """The blob with the whole output, if the model gets fewer characters than there are."""
        self._closed = True
        self._show(self._masked.end().decode(), self._stream)
        if self._timer:
            self._timer.cancel()
        if self._flushing:
            await self._flushing
        if self._stored or self.size > sent:
            await self._flush()
        journal, blob = self._journal, blob_of_call(self._call)
        return await journal.store.blob(journal.session, blob) if self._stored else None

    def _flush_soon(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush())
        elif self._waiting:
            self._timer = self._loop.call_later(FLUSH_AFTER, self._flush_soon)

    async def _flush(self) -> None:
        data = "".join(self._waiting).encode()
        self._waiting, self._waiting_size = [], 0
        if not data:
            return
        try:
            await self._journal.store.append_blob(self._journal.session, blob_of_call(self._call), data)
        except StoreError as error:
            self._journal.fail(error)
            return
        self._stored += len(data)


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates replaced: they come from file names, and cannot be stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


async def bounded(
    content: tuple[PlainBlock, ...], limits: ResultLimits, blobs: Blobs, session: str, call: str
) -> tuple[tuple[PlainBlock, ...], BlobRef | None]:
    """Content that fits the limits: the middle is left out, and a blob has the whole."""
    texts = [block.text for block in content if isinstance(block, Text)]
    is_short = sum(map(len, texts)) <= limits.characters
    if is_short and (limits.lines is None or sum(text.count("\n") + 1 for text in texts) <= limits.lines):
        return content, None
    whole = "\n".join(texts)
    name = f"result_{call}"
    await blobs.append_blob(session, name, whole.encode())
    head, tail = _ends(whole, limits)
    left_out = len(whole) - len(head) - len(tail)
    note = f"\n\n[… {left_out} characters left out; read blob:{name} for all of it …]\n\n"
    others = tuple(block for block in content if not isinstance(block, Text))
    return (Text(head + note + tail), *others), await blobs.blob(session, name)


def _ends(whole: str, limits: ResultLimits) -> tuple[str, str]:
    head = tail = whole
    lines = whole.split("\n")
    if limits.lines is not None and len(lines) > limits.lines:
        first = (limits.lines + 1) // 2
        head, tail = "\n".join(lines[:first]), "\n".join(lines[len(lines) - limits.lines + first :])
    half = max(1, limits.characters // 2)
    return head[:half], tail[-half:]


def cut_short(
    text: str, output: str, kind: Literal["tool_cancelled", "tool_timed_out", "tool_interrupted"]
) -> Failed:
    """The result of a call that was stopped, with the end of its output."""
    content = f"{text}\nOutput before that:\n{output}" if output.strip() else text
    return failed(content, kind=kind, summary=text)


class CallContext:
    """The `ToolContext` of a running call."""

    def __init__(
        self,
        session: OpenSession,
        budget: Budget,
        call: CallState,
        step: int,
        spool: OutputSpool,
        cancel: CancelToken,
    ) -> None:
        journal, harness, run = session.journal, session.harness, session.journal.state.run
        assert run is not None
        self.journal = journal
        self.harness = harness
        self.budget = budget
        self.position = session.position
        self.children = session.children
        self._questions = session.questions
        self._spool = spool
        self._run = run
        self._child_count = 0
        self.session = journal.session
        self.run = run.id
        self.root_run = run.started.root or run.id
        self.parent_run = run.started.parent_run
        self.trace = run.started.trace or self.root_run
        self.depth = run.started.depth
        self.tags = dict(run.started.tags)
        self.step = step
        self.call = call.called.call
        self.attempt = call.started.attempt if call.started else 1
        self.cwd: Path = harness.cwd
        self.judged: Path | None = None
        self.cancel = cancel
        self.memory = session.memory
        self.services = harness.services
        self.stopwatch = Stopwatch()
        self.answer: Any = None
        self.state: Any = None
        self.confined = False
        self.process_limits = harness.process_limits

    def output(self, text: str, stream: Literal["out", "err"] = "out") -> None:
        self._spool.write(text, stream)

    @cached_property
    def file_rules(self) -> FileRules | None:
        rules = {**(self.position.permissions() if self.position else {}), **self.journal.state.permissions}
        return self.harness.file_rules(tuple(rules.items()))

    async def own_process(self, process: ProcessId) -> None:
        self.journal.has_processes = True
        await self.journal.store.own_process(self.journal.lease, self.call, process)

    async def ask(self, question: Question) -> Any:
        asker = self.harness.asker
        if asker is None:
            raise CallRefused(NOBODY_TO_ASK)
        question_id = self.journal.world.new_id("q")
        asked = events.QuestionAsked(question_id, question, self.call, asked_by="tool", durable=False)
        if problem := storage_problem(asked):
            raise CallRefused(f"the question cannot be asked: {problem}")
        self.journal.record(asked)
        self._questions.expect(asked)
        self.stopwatch.pause()
        try:
            await self.journal.commit()
            answer = await self._questions.ask(asked, asker, self.journal)
        finally:
            self.stopwatch.resume()
            withdraw_question(self.journal, asked)
        await self.journal.commit()
        if answer.outcome != "answered":
            raise CallRefused("The user did not answer the question.")
        return answer.answer

    @property
    def citation_offset(self) -> int:
        return self._run.citations

    @property
    def todo(self) -> tuple[events.TodoItem, ...]:
        return self.journal.state.todo.get("main", ())

    async def update_todo(self, items: Sequence[events.TodoItem]) -> None:
        updated = events.TodoUpdated(tuple(items))
        if problem := storage_problem(updated):
            raise CallRefused(f"the to-do list cannot be stored: {problem}")
        self.journal.record(updated)
        await self.journal.commit()

    async def working_history(self) -> list[Fact]:
        return await self.journal.history()

    async def persisted_history(self) -> list[Fact]:
        return await self.journal.store.read(self.session, limit=self._run.first_seq - 1)

    def publish_trace(self, child: str, events: Sequence[events.Event | Fact]) -> None:
        publish_child_events(self.journal, self.call, child, events)

    def record_use(self, child: str, usage: Usage) -> None:
        """Records what another vendor's agent used for the call; ignored after the run."""
        run = self.journal.state.run
        if run is not None and run.id == self.run and not self.journal.failed:
            self.journal.record(events.ChildUsed(self.call, child, usage))

    def run_child(self, request: ChildRequest) -> Coroutine[Any, Any, ChildResult]:
        # Counted when it is called, not when the coroutine starts: it must be the same after a crash.
        self._child_count += 1
        return self._run_child(child_session(self.session, self.call, self._child_count), request)

    async def _run_child(self, child: str, request: ChildRequest) -> ChildResult:
        children = self.children
        if children is None:
            raise CallRefused("No child can be run here.")
        if child not in self._run.children:
            task = text_of(request.prompt)[:TASK_EXCERPT]
            self.journal.record(events.ChildStarted(self.call, child, request.agent, task))
            await self.journal.commit()
        return await children.run(child, request, self)

    def results(self) -> AsyncIterator[events.ToolResultFact]:
        return results_in(self.journal)

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        return await self.journal.store.read_blob(self.session, blob, start, size)


async def results_in(journal: Journal) -> AsyncIterator[events.ToolResultFact]:
    """The results on the session's path, oldest first."""
    for fact in await journal.store.read_opening(journal.session):
        if fact.type == "tool_result" and isinstance(fact.event, events.ToolResultFact):
            yield fact.event
