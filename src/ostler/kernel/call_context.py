"""What one running call may know and do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Raw

from ostler.kernel.budget import Budget
from ostler.kernel.cancel import CancelToken
from ostler.kernel.child import ChildRequest, ChildResult, child_session
from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal
from ostler.kernel.output import OutputSpool
from ostler.kernel.processes import ProcessId
from ostler.kernel.questions import NOBODY_TO_ASK, Questions, as_stored
from ostler.kernel.run_state import CallState
from ostler.kernel.stopping import Stopwatch
from ostler.vocabulary.errors import CallRefused
from ostler.vocabulary.events import (
    ChildEnded,
    ChildEvent,
    ChildStarted,
    ChildUsed,
    Event,
    QuestionAnswered,
    QuestionAsked,
    TodoItem,
    TodoUpdated,
    ToolResultFact,
)
from ostler.vocabulary.facts import Fact, storing_problem
from ostler.vocabulary.messages import text_of
from ostler.vocabulary.outcomes import Question
from ostler.vocabulary.usage import Usage

TASK_EXCERPT = 200


class CallContext:
    """The `ToolContext` that the kernel hands to a tool."""

    def __init__(
        self,
        journal: Journal,
        harness: Harness,
        questions: Questions,
        budget: Budget,
        call: CallState,
        step: int,
        spool: OutputSpool,
        cancel: CancelToken,
    ) -> None:
        run = journal.state.run
        assert run is not None
        self.journal = journal
        self.harness = harness
        self.budget = budget
        self._questions = questions
        self._spool = spool
        self._run = run
        self._children = 0
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
        self.cancel = cancel
        self.memory = harness.memory
        self.services = harness.services
        self.stopwatch = Stopwatch()
        self.answer: Any = None
        self.state: Any = None

    def output(self, text: str, stream: Literal["out", "err"] = "out") -> None:
        self._spool.write(text, stream)

    async def own_process(self, process: ProcessId) -> None:
        self.journal.has_processes = True
        await self.journal.store.own_process(self.journal.lease, self.call, process)

    async def ask(self, question: Question) -> Any:
        asker = self.harness.asker
        if asker is None:
            raise CallRefused(NOBODY_TO_ASK)
        question_id = self.journal.world.new_id("q")
        asked = QuestionAsked(question_id, question, self.call, asked_by="tool", durable=False)
        problem = storing_problem(asked)
        if problem:
            raise CallRefused(f"the question cannot be asked: {problem}")
        self.journal.record(asked)
        self._questions.expect(asked)

        def record(answer: QuestionAnswered) -> None:
            self.journal.record(as_stored(asked, answer), settles=answer.request)

        self.stopwatch.pause()
        try:
            await self.journal.commit()
            answer = await self._questions.ask(asked, asker, record)
        finally:
            self.stopwatch.go_on()
            if question_id in self.journal.state.questions and not self.journal.failed:
                record(QuestionAnswered(question_id, "withdrawn"))
        await self.journal.commit()
        if answer.outcome != "answered":
            raise CallRefused("The person did not answer the question.")
        return answer.answer

    @property
    def citation_offset(self) -> int:
        return self._run.citations

    @property
    def todo(self) -> tuple[TodoItem, ...]:
        return self.journal.state.todo.get("main", ())

    async def update_todo(self, items: Sequence[TodoItem]) -> None:
        updated = TodoUpdated(tuple(items))
        if problem := storing_problem(updated):
            raise CallRefused(f"the to-do list cannot be stored: {problem}")
        self.journal.record(updated)
        await self.journal.commit()

    async def working_history(self) -> list[Fact]:
        return await self.journal.history()

    async def persisted_history(self) -> list[Fact]:
        return await self.journal.store.read(self.session, limit=self._run.first_seq - 1)

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None:
        spelled = [Raw(event.line()) if isinstance(event, Fact) else event for event in events]
        self.journal.publish([ChildEvent(self.call, child, event) for event in spelled])

    def record_use(self, child: str, usage: Usage) -> None:
        """What another vendor's agent used for the call. Told after the run, it counts for no other."""
        run = self.journal.state.run
        if run is not None and run.id == self.run and not self.journal.failed:
            self.journal.record(ChildUsed(self.call, child, usage))

    def run_child(self, request: ChildRequest) -> Coroutine[Any, Any, ChildResult]:
        # Counted when it is called, not when it gets its first turn: it must be the same after a crash.
        self._children += 1
        return self._run_child(child_session(self.session, self.call, self._children), request)

    async def _run_child(self, child: str, request: ChildRequest) -> ChildResult:
        children = self.harness.children
        if children is None:
            raise CallRefused("No child can be run here.")
        if child not in self._run.children:
            task = text_of(request.prompt)[:TASK_EXCERPT]
            self.journal.record(ChildStarted(self.call, child, request.agent, task))
            await self.journal.commit()
        return await children.run(child, request, self)

    def results(self) -> AsyncIterator[ToolResultFact]:
        return results_in(self.journal)

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        return await self.journal.store.read_blob(self.session, blob, start, size)


async def results_in(journal: Journal) -> AsyncIterator[ToolResultFact]:
    """The results on the session's path so far, oldest first."""
    for fact in await journal.store.read_opening(journal.session):
        if fact.type == "tool_result" and isinstance(fact.event, ToolResultFact):
            yield fact.event


def record_child_end(journal: Journal, budget: Budget | None, result: ChildResult) -> None:
    """Makes a fact of a child's end, once: from here on its use counts as its parent's children's."""
    run = journal.state.run
    child = run.children.get(result.session) if run else None
    if child is not None and child.ended is None and not journal.failed:
        ended = ChildEnded(
            child.call, result.session, result.status, result.own, result.children, result.reason
        )
        journal.record(ended)
        if budget is not None:
            budget.forget(result.session)
