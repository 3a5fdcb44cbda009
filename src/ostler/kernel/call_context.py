"""What one running call may know and do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from ostler.kernel.cancel import CancelToken
from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal
from ostler.kernel.output import OutputSpool
from ostler.kernel.processes import ProcessId
from ostler.kernel.questions import NOBODY_TO_ASK, Questions, as_stored
from ostler.kernel.run_state import CallState
from ostler.kernel.stopping import Stopwatch
from ostler.vocabulary.errors import CallRefused
from ostler.vocabulary.events import QuestionAnswered, QuestionAsked, ToolResultFact
from ostler.vocabulary.facts import storing_problem
from ostler.vocabulary.outcomes import Question


class CallContext:
    """The `ToolContext` that the kernel hands to a tool."""

    def __init__(
        self,
        journal: Journal,
        harness: Harness,
        questions: Questions,
        call: CallState,
        step: int,
        spool: OutputSpool,
        cancel: CancelToken,
    ) -> None:
        self._journal = journal
        self._harness = harness
        self._questions = questions
        self._spool = spool
        self.session = journal.session
        self.run = journal.state.run.id if journal.state.run else ""
        self.step = step
        self.call = call.called.call
        self.attempt = call.started.attempt if call.started else 1
        self.cwd: Path = harness.cwd
        self.cancel = cancel
        self.memory = harness.memory
        self.stopwatch = Stopwatch()
        self.answer: Any = None
        self.state: Any = None

    def output(self, text: str, stream: Literal["out", "err"] = "out") -> None:
        self._spool.write(text, stream)

    async def own_process(self, process: ProcessId) -> None:
        self._journal.has_processes = True
        await self._journal.store.own_process(self._journal.lease, self.call, process)

    async def ask(self, question: Question) -> Any:
        asker = self._harness.asker
        if asker is None:
            raise CallRefused(NOBODY_TO_ASK)
        question_id = self._journal.world.new_id("q")
        asked = QuestionAsked(question_id, question, self.call, asked_by="tool", durable=False)
        problem = storing_problem(asked)
        if problem:
            raise CallRefused(f"the question cannot be asked: {problem}")
        self._journal.record(asked)
        self._questions.expect(asked)

        def record(answer: QuestionAnswered) -> None:
            self._journal.record(as_stored(asked, answer), settles=answer.request)

        self.stopwatch.pause()
        try:
            await self._journal.commit()
            answer = await self._questions.ask(asked, asker, record)
        finally:
            self.stopwatch.go_on()
            if question_id in self._journal.state.questions and not self._journal.failed:
                record(QuestionAnswered(question_id, "withdrawn"))
        await self._journal.commit()
        if answer.outcome != "answered":
            raise CallRefused("The person did not answer the question.")
        return answer.answer

    async def results(self) -> AsyncIterator[ToolResultFact]:
        for fact in await self._journal.store.read_opening(self.session):
            if fact.type == "tool_result" and isinstance(fact.event, ToolResultFact):
                yield fact.event

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        return await self._journal.store.read_blob(self.session, blob, start, size)
