"""Output of the command line: answers on standard output, notices on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ostler.app.console import print_stderr, print_to_stdout, real_stdout
from ostler.core.lazy import lazy_module
from ostler.core.questions import OpenQuestion
from ostler.history.item_builder import ItemBuilder
from ostler.history.items import (
    CallItem,
    Change,
    Changed,
    ChildItem,
    Closed,
    ExtensionItem,
    Grown,
    Item,
    NoticeItem,
    Opened,
    PrintedItem,
    QuestionItem,
    RunEndItem,
    SourcesItem,
    TextItem,
    UserItem,
)
from ostler.permissions.rules import preview, preview_line
from ostler.schema.events import Event, Printed, RunEnded, RunWaiting, Totals
from ostler.schema.facts import Fact
from ostler.schema.messages import text_of
from ostler.schema.outcomes import Question
from ostler.schema.text import plural, printable

if TYPE_CHECKING:
    from ostler.app import question_queue
    from ostler.history import call_preview, costs, partial_json
    from ostler.history.partial_json import StreamingString
else:
    call_preview = lazy_module("ostler.history.call_preview")
    costs = lazy_module("ostler.history.costs")
    partial_json = lazy_module("ostler.history.partial_json")
    question_queue = lazy_module("ostler.app.question_queue")


class ConsoleOutput:
    """Prints a run.

    Notices go to standard error. With `prints="answer"` the last answer goes to standard output when the run
    ends; with `"everything"` messages go there as they stream, and all calls are printed, too.
    """

    def __init__(
        self,
        prints: Literal["notices", "answer", "everything"] = "answer",
        *,
        shows_work: bool | None = None,
    ) -> None:
        self._prints = prints
        default = prints == "everything" or (prints == "answer" and sys.stderr.isatty())
        self.shows_work = default if shows_work is None else shows_work
        """Whether calls and children are printed as they begin and end."""
        self._builder = ItemBuilder("open")
        self._calls: set[str] = set()
        """The open calls that were printed."""
        self._answer: list[str] = []
        self._answer_seq = 0
        self._answer_message = ""
        self._sources: dict[str, SourcesItem] = {}
        self._stream = _TextStream()

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for event in batch:
            # Only `follow` prints what streams.
            if isinstance(event, Fact | Printed) or self._prints == "everything":
                self._print(self._builder.apply([event]))
        if self._prints == "everything":
            sys.stdout.flush()

    def _print(self, changes: Sequence[Change]) -> None:
        if self._prints == "everything":
            self._stream.print(changes)
        for change in changes:
            match change:
                case Closed(item=item):
                    self._print_closed(item)
                    if self._prints == "answer":
                        self._take_answer(item)
                    elif self._prints == "everything":
                        _print_item(item)
                case Opened(item=item) | Changed(item=item) if self.shows_work:
                    self._print_work(item, is_new=isinstance(change, Opened))

    def _print_closed(self, item: Item) -> None:
        match item:
            case CallItem(stage="refused", name=name, result=result) if result is not None:
                print_stderr(f"refused: {name}: {result.text}")
            case NoticeItem(code="fallback", text=text):
                print_stderr(f"{text} in place of {self._builder.model}")
            case NoticeItem(code="retry" | "warned", text=text) | ExtensionItem(text=text, failed=True):
                print_stderr(text)
            case PrintedItem(printed=printed):
                print_printed(printed)
            case ChildItem(status=status) if self.shows_work:
                own = item.totals or Totals()
                price = costs.priced((own + item.children).usage.cost)
                steps = f"{plural(own.steps, 'step')}, " if own.steps else ""
                print_stderr(f"{_child_name(item)}: {status}, {steps}{price}")
        self._calls.discard(item.key)

    def _print_work(self, item: Item, *, is_new: bool) -> None:
        match item:
            case CallItem(arguments=dict()) if item.key not in self._calls:
                self._calls.add(item.key)
                if item.tool_kind != "agent":  # that is printed when its child begins
                    print_stderr(f"{item.name}: {item.title}")
            case ChildItem(task=task) if is_new:
                print_stderr(f"{_child_name(item)}: {task}")

    def _take_answer(self, item: Item) -> None:
        match item:
            case TextItem(complete=True, hidden=False, text=text) if text:
                if item.seq != self._answer_seq:
                    self._answer = []
                self._answer.append(text)
                self._answer_seq, self._answer_message = item.seq, item.message
            case SourcesItem(message=message):
                self._sources[message] = item
            case ExtensionItem(text=text, failed=False) if item.command and text:
                print_text(text)

    def finish(
        self, outcome: RunEnded | RunWaiting, session: str, questions: Sequence[OpenQuestion], cwd: Path
    ) -> None:
        """Prints the answer and how the run ended; another one may follow."""
        ended = outcome if isinstance(outcome, RunEnded) else None
        if ended and ended.status != "failed" and self._answer:
            print_text("\n".join(self._answer))
            self._print_sources()
        print_run_end(outcome, session, questions, cwd)
        if ended and ended.status == "completed" and not ended.reason and not self._answer:
            print_stderr("the model's answer is empty")
        self._answer = []

    def _print_sources(self) -> None:
        if (item := self._sources.get(self._answer_message)) is not None:
            for source in item.sources:
                where = source.url or (f"document {source.id}" if source.id else "")
                print_stderr(f"source: {printable(', '.join(filter(None, (source.title, where))))}")


def _child_name(item: ChildItem) -> str:
    return item.agent or item.extension or "delegate"


def _print_item(item: Item) -> None:
    """Prints what only `follow` prints."""
    match item:
        case UserItem(hidden=False, source=source, content=content):
            print_stderr(f"{'you' if source == 'prompt' else source}: {text_of(content)}")
        case CallItem(call=call, stage=stage, result=result) if call and result and result.failed:
            if stage != "refused":
                print_stderr(f"{item.name} failed: {result.text}")
        case QuestionItem(answered_seq=seq, state=state, answer=answer) if seq:
            has_answer = state == "answered" and answer is not None
            print_stderr(f"answered: {answer}" if has_answer else f"the question was {state}")


class _TextStream:
    """Answers on standard output, as they stream."""

    def __init__(self) -> None:
        self._message = ""
        """The one whose text is being printed."""
        self._block = 0
        self._printed = ""
        self._open: dict[str, TextItem] = {}
        self._drawn = (0, "")
        """The number and the text of a terminal agent's last message, which it may revise."""

    def print(self, changes: Sequence[Change]) -> None:
        complete: list[TextItem] = []
        for change in changes:
            match change:
                case Opened(item=TextItem() as item):
                    self._open[item.key] = item
                    self._grow(item.message, item.block, item.text)
                case Grown(key=key, field="text", text=text) if key in self._open:
                    item = self._open[key]
                    self._grow(item.message, item.block, text)
                case Changed(item=TextItem(revised=True) as item):
                    self._revise(item)
                case Closed(item=TextItem(complete=True, hidden=False, text=text) as item) if text:
                    complete.append(item)
                    self._open.pop(item.key, None)
                case Closed(item=TextItem() as item):
                    self._open.pop(item.key, None)
                    self._end_line()
                case Closed(item=NoticeItem(code="retry" | "fallback" | "model_failed")):
                    self._end_line()
        if complete:
            self._print_message(complete[0].message, "\n".join([item.text for item in complete]))
            if not complete[0].message:
                self._drawn = (complete[0].seq, complete[0].text)

    def _revise(self, item: TextItem) -> None:
        """Prints what was added to a message; all of it, if it is another text now."""
        before = self._drawn[1] if self._drawn[0] == item.seq else ""
        self._drawn = (item.seq, item.text)
        self._print_message("", item.text.removeprefix(before).lstrip("\n"))

    def _grow(self, message: str, block: int, text: str) -> None:
        if message != self._message:
            self._end_line()
            self._message, self._printed = message, ""
        elif block != self._block:
            text = f"\n{text}"
        self._block = block
        print_piece(text)
        self._printed += text

    def _end_line(self) -> None:
        if self._printed and not self._printed.endswith("\n"):
            print_piece("\n")
        self._message = self._printed = ""

    def _print_message(self, message: str, text: str) -> None:
        """Prints the part that has not streamed."""
        missing = text
        if message == self._message and self._printed:
            missing = "" if self._printed.startswith(text) else text.removeprefix(self._printed)
        if missing == text:
            self._end_line()
        if missing:
            self._grow(message, self._block, missing)
        self._end_line()


def print_run_end(
    outcome: RunEnded | RunWaiting, session: str, questions: Sequence[OpenQuestion], cwd: Path
) -> None:
    if isinstance(outcome, RunWaiting):
        print_waiting(outcome, session, questions, cwd)
    elif outcome.status != "completed":
        has_reason = outcome.reason not in ("", outcome.status)
        print_stderr(f"{outcome.status}: {outcome.reason}" if has_reason else outcome.status)
    elif outcome.reason:
        print_stderr(outcome.reason)


def print_text(text: str) -> None:
    """A terminal would execute control characters; a file gets every byte."""
    print_to_stdout(printable(text) if real_stdout().isatty() else text)


def print_piece(text: str) -> None:
    """A part of a text that is still growing."""
    out = real_stdout()
    out.write(printable(text) if out.isatty() else text)
    out.flush()


def print_waiting(waiting: RunWaiting, session: str, questions: Sequence[OpenQuestion], cwd: Path) -> None:
    """Prints what a run waits for, with all that a call would do below `cwd`, and how to continue it."""
    for one in questions:
        who = f" ({one.agent})" if one.agent else ""
        which = f" [{one.asked.id}]" if len(questions) > 1 else ""
        print_stderr(f"waiting for an answer{who}{which}: {question_queue.value_text(one.asked.question)}")
        for line in _call_lines(one.asked.question, cwd):
            print(f"  {line}", file=sys.stderr)
    if waiting.reason == "paused":
        print_stderr(f"paused; `ostler resume {session}` continues")
    elif questions:
        option = "--question ID " if len(questions) > 1 else ""
        is_permission = all(one.asked.question.kind == "permission" for one in questions)
        command = f"ostler answer {session} {option}{'yes' if is_permission else 'ANSWER'}"
        print_stderr(f"the run waits in session {session}; `{command}` continues it")
    else:
        print_stderr(f"the run waits in session {session} for a deferred call; `ostler runs` shows it")


def _call_lines(question: Question, cwd: Path) -> list[str]:
    """What a call would do, unless the question has all of it."""
    preview = call_preview.preview_of(question.details or {}, cwd)
    is_whole = preview.command == preview_line(preview.command) and not call_preview.marks_in(preview)
    if is_whole and not (preview.diff or preview.content or preview.edits or preview.arguments):
        return []
    return call_preview.preview_lines(preview)


_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class LivePrinter:
    """Prints text as it streams, files as they are written, and the result of each call."""

    def __init__(self, *, shows_answers: bool = True) -> None:
        self._shows_answers = shows_answers
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._styled = sys.stdout.isatty() and not plain
        self._at_line_start = True
        self._builder = ItemBuilder("open")
        self._inputs: dict[str, tuple[str, StreamingString, StreamingString]] = {}
        self._calls: set[str] = set()
        """The open calls that were printed."""
        self._written: set[str] = set()
        """The calls whose file was printed while it was written."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for change in self._builder.apply(batch):
            self._print(change)
        sys.stdout.flush()

    def line(self, text: str = "", style: str = "") -> None:
        if not self._at_line_start:
            self._put("\n")
        self._put(self._in_style(text, style) + "\n")

    def _print(self, change: Change) -> None:
        match change:
            case Grown(key=key, field="arguments_text", text=text):
                self._show_input(key, text)
            case Grown(key=key, field="text", text=text) if key.startswith("text:"):
                self._put(text)
            case Grown(field="output", text=text):
                self._put(self._in_style(text, "dim"))
            case Opened(item=TextItem(text=text)):
                self._put(text)
            case Opened(item=CallItem() as call):
                if call.stage == "writing":
                    self._inputs[call.key] = (
                        call.name,
                        partial_json.StreamingString("path"),
                        partial_json.StreamingString("content"),
                    )
                self._show_call(call)
            case Changed(item=CallItem() as call):
                self._show_call(call)
            case Opened(item=QuestionItem(agent="", asked=asked)) if asked is not None:
                self.line(f"? {asked.question.text}", "yellow")
            case Closed(item=item):
                self._show_closed(item)

    def _show_call(self, call: CallItem) -> None:
        if call.arguments is None or call.key in self._calls:
            return
        self._calls.add(call.key)
        self._inputs.pop(call.key, None)
        if call.name != "write":
            self.line(f"▸ {call.name} {preview(call.name, call.arguments)}", "cyan")

    def _show_input(self, key: str, text: str) -> None:
        name, path, content = self._inputs.get(
            key, ("", partial_json.StreamingString(""), partial_json.StreamingString(""))
        )
        if name != "write":
            return
        had_path = path.done
        path.feed(text)
        if path.done and not had_path:
            self._written.add(key)
            self.line(f"▸ write {path.value}", "cyan")
        self._put(self._in_style(content.feed(text), "dim"))

    def _show_closed(self, item: Item) -> None:
        match item:
            case CallItem(call=call) if call and item.result is not None:
                self._show_result(item)
            case QuestionItem(answered_seq=seq, state=state, answer=answer) if seq and self._shows_answers:
                self.line(f"  {answer if state == 'answered' else state}", "yellow")
            case RunEndItem(status=status, reason=reason, own=own):
                steps = f"{own.steps} steps, {own.tool_calls} tool calls"
                self.line(f"■ {status}{': ' + reason if reason else ''} ({steps})", "bold")

    def _show_result(self, call: CallItem) -> None:
        result = call.result
        self._calls.discard(call.key)
        assert result is not None
        if result.failed:
            self.line(f"✗ {call.name}: {result.text}", "red")
        elif result.diff:
            self.line(f"✓ {result.text}", "green")
            if (result.details or {}).get("created") and call.key in self._written:
                return  # it was printed as it was written
            for row in result.diff.splitlines():
                self.line(f"  {row}", {"+": "green", "-": "red"}.get(row[:1], "dim"))
        else:
            self.line(f"✓ {result.summary or call.name}", "green")

    def _in_style(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._styled and style and text else text

    def _put(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            self._at_line_start = text.endswith(("\n", "\n\x1b[0m"))


def print_printed(printed: Printed) -> None:
    """On standard error: standard output is for the answer, or for `--json`."""
    text, who = printable(printed.text), f"{printed.extension or 'ostler'}: "
    match printed.level:
        case "info":
            text = f"{who}{text}"
        case "error":
            text = f"{who}error: {text}"
        case "block":
            lines = [f"│ {line}".rstrip() for line in text.splitlines()]
            text = "\n".join([*lines, f"╰ {printable(printed.title)}".rstrip()])
    print(text, file=sys.stderr)
