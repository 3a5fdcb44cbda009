"""`FakeToolContext`, `run_tool` and `FixedTokenizer`, for tests of tools and budgets.

    context = FakeToolContext(tmp_path)
    outcome = await run_tool(my_tool, {"city": "Oslo"}, context)
    assert text_of(outcome.content) == "rain"

`run_tool` does what a session does: it validates, runs, converts what is returned or raised into an outcome,
stores a long output as a blob and adds the result to the session. `reopened` is the same session in another
process: it has the results and blobs, and none of the tools' memory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec.structs import replace

from ostler.core.cancellation import CancelToken
from ostler.core.children import ChildRequest, ChildResult
from ostler.core.context import Count
from ostler.core.json_schema import coerce
from ostler.core.model import ToolOffer
from ostler.core.processes import ProcessId, ProcessLimits
from ostler.core.tool import FileRules, Tool, as_outcome
from ostler.schema.errors import CallRefused, NotFound, OstlerError, kind_of
from ostler.schema.events import Event, TodoItem, ToolResultFact
from ostler.schema.facts import Fact
from ostler.schema.ids import new_id
from ostler.schema.messages import Message, as_content, text_of
from ostler.schema.outcomes import Failed, FailureKind, Ok, Outcome, Question


class FakeToolContext:
    """Implements `ToolContext`. What the tool did is in `outputs`, `processes` and `questions`."""

    def __init__(
        self,
        cwd: Path,
        *,
        answers: Sequence[Any] = (),
        results: Sequence[ToolResultFact] = (),
        blobs: dict[str, bytes] | None = None,
        child_results: Sequence[ChildResult] = (),
    ) -> None:
        self.session = new_id("session")
        self.run = new_id("run")
        self.root_run = self.trace = self.run
        self.parent_run = ""
        self.depth = 0
        self.tags: dict[str, str | int | float | bool] = {}
        self.step = 1
        # Unique, because recovery finds the processes of a call by this name.
        self.call = new_id("call")
        self.attempt = 1
        self.cwd = cwd
        self.judged: Path | None = None
        self.file_rules: FileRules | None = None
        self.cancel = CancelToken()
        self.memory: dict[str, Any] = {}
        self.services: dict[str, Any] = {}
        self.todo: tuple[TodoItem, ...] = ()
        self.citation_offset = 0
        self.facts: list[Fact] = []
        """What `working_history` returns."""
        self.traced: list[tuple[str, Event | Fact]] = []
        self.children: list[ChildRequest] = []
        self.answer: Any = None
        self.state: Any = None
        self.confined = False
        self.process_limits = ProcessLimits()
        self.outputs: list[tuple[Literal["out", "err"], str]] = []
        self.processes: list[ProcessId] = []
        self.questions: list[Question] = []
        self.session_results: list[ToolResultFact] = list(results)
        self.blobs: dict[str, bytes] = dict(blobs or {})
        self._answers = list(answers)
        self._child_results = list(child_results)

    @property
    def output_text(self) -> str:
        """All live output."""
        return "".join(text for _, text in self.outputs)

    def output(self, text: str, stream: Literal["out", "err"] = "out") -> None:
        self.outputs.append((stream, text))

    async def own_process(self, process: ProcessId) -> None:
        self.processes.append(process)

    async def ask(self, question: Question) -> Any:
        """The next of `answers`; refused when there is none left."""
        self.questions.append(question)
        if not self._answers:
            raise CallRefused("nobody can answer here")
        return self._answers.pop(0)

    async def update_todo(self, items: Sequence[TodoItem]) -> None:
        self.todo = tuple(items)

    async def working_history(self) -> list[Fact]:
        return list(self.facts)

    async def persisted_history(self) -> list[Fact]:
        return [fact for fact in self.facts if fact.run != self.run]

    def publish_trace(self, child: str, events: Sequence[Event | Fact]) -> None:
        self.traced += [(child, event) for event in events]

    async def run_child(self, request: ChildRequest) -> ChildResult:
        """The next of `child_results`; refused when there is none left."""
        self.children.append(request)
        if not self._child_results:
            raise CallRefused("No child can be run here.")
        return self._child_results.pop(0)

    async def results(self) -> AsyncIterator[ToolResultFact]:
        for result in list(self.session_results):
            yield result

    async def read_blob(self, blob: str, start: int = 0, size: int | None = None) -> bytes:
        if blob not in self.blobs:
            raise NotFound(f"no blob {blob}")
        data = self.blobs[blob]
        return data[start:] if size is None else data[start : start + size]

    def reopened(self) -> FakeToolContext:
        """A context of the same session after its process has ended."""
        context = FakeToolContext(self.cwd, results=self.session_results, blobs=self.blobs)
        context.session = self.session
        return context


async def run_tool(tool: Tool, arguments: dict[str, Any], context: FakeToolContext) -> Outcome:
    """Runs one call and returns its outcome. Cancelling the task cancels the tool."""
    context.call = new_id("call")
    context.outputs.clear()
    outcome = await _outcome(tool, arguments, context)
    if isinstance(outcome, Ok | Failed):
        if context.output_text:
            context.blobs[f"out_{context.call}"] = context.output_text.encode()
        result = ToolResultFact(context.call, tool.spec.name, outcome.content)
        failed = outcome.kind if isinstance(outcome, Failed) else None
        context.session_results.append(
            replace(result, failed=failed, details=outcome.details, summary=outcome.summary)
        )
    return outcome


async def _outcome(tool: Tool, arguments: dict[str, Any], context: FakeToolContext) -> Outcome:
    try:
        validated = tool.validate(coerce(arguments, tool.spec.schema))
        return as_outcome(await tool.run(validated, context))
    except OstlerError as error:
        kind: Any = kind_of(type(error))
        return Failed(kind if kind in get_args(FailureKind) else "tool_failed", as_content(error.message))
    except Exception as error:
        return Failed("tool_failed", as_content(f"{type(error).__name__}: {error}"))


def result_text(outcome: Outcome) -> str:
    """The text that the model gets."""
    return text_of(outcome.content) if isinstance(outcome, Ok | Failed) else ""


class FixedTokenizer:
    """Implements `Tokenizer`: every text, message and tool counts the same. `models` has the names it got."""

    def __init__(self, *, text: int = 10, message: int = 50, tool: int = 0) -> None:
        self._text, self._message, self._tool = text, message, tool
        self.models: list[str] = []

    def text(self, text: str, model: str) -> Count:
        return self._count(self._text if text else 0, model)

    def message(self, message: Message, model: str) -> Count:
        return self._count(self._message, model)

    def tools(self, offers: Sequence[ToolOffer], model: str) -> Count:
        return self._count(self._tool * len(offers), model)

    def _count(self, tokens: int, model: str) -> Count:
        self.models.append(model)
        return Count(tokens, "tokenizer", "high")
