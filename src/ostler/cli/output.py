"""What a person is told of a run: the answer on standard output, the rest on standard error."""
# MERGED: A run as a person reads it, printed as it happens.
# MERGED: The plain command line as a face of extensions: where they print, how wide it is, and how they
# MERGED: leave.

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ostler.app.console import print_stderr, print_to_stdout, real_stdout
from ostler.core.questions import OpenQuestion
from ostler.history.costs import priced
from ostler.history.partial_json import StreamingString
from ostler.permissions.rules import preview
from ostler.schema import events
from ostler.schema.events import Event, Printed, RunEnded, RunWaiting, Totals
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import text_of
from ostler.schema.text import plural, printable


class NoticePrinter:
    """What a person should know while a run goes on and when it is over, on standard error."""

    shows_work = False
    """Calls and children are told of as they begin and end."""

    def __init__(self) -> None:
        self._asked = ""
        """The model that was asked last."""
        self._children: dict[str, str] = {}
        """The names of children, by their session."""
        self._told: dict[str, Totals] = {}
        """What other vendors' agents say that they have used."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            if isinstance(one, Fact):
                self._see_fact(one.event)
            elif isinstance(one, events.Printed):
                print_printed(one)

    def _see_fact(self, event: Event | UnknownEvent) -> None:
        match event:
            case events.ToolResultFact(failed="call_refused", name=name, content=content):
                print_stderr(f"refused: {name}: {text_of(content)}")
            case events.ModelCalled(model=model):
                self._asked = model
            case events.ModelFailed(failure=failure, rescue=rescue) if rescue:
                print_stderr(f"{failure.message}; going on with {rescue} in place of {self._asked}")
            case events.ModelFailed(failure=failure, retry_in=float()) if failure.kind == "context_overflow":
                print_stderr(f"{failure.message}; what came before is summarised, and it is tried again")
            case events.ModelFailed(failure=failure, retry_in=float(delay)):
                print_stderr(f"{failure.message}; trying again in {delay:g} s")
            case events.Warned(text=text) | events.CommandRan(text=text, failed=True):
                print_stderr(text)
            case events.ChildUsed(child=child):
                self._told[child] = self._told.get(child, Totals()) + event.totals
            case events.ToolCalled() | events.ChildStarted() | events.ChildEnded() if self.shows_work:
                self._show_work(event)

    def _show_work(self, event: events.ToolCalled | events.ChildStarted | events.ChildEnded) -> None:
        match event:
            case events.ToolCalled(kind="agent"):
                pass  # told of when its child begins
            case events.ToolCalled(name=name):
                from ostler.history.items import about_call

                print_stderr(f"{name}: {about_call(event)}")
            case events.ChildStarted(child=child, agent=agent, task=task, extension=extension):
                self._children[child] = agent or extension or "delegate"
                print_stderr(f"{self._children[child]}: {task}")
            case events.ChildEnded(child=child, status=status, own=own, children=below):
                name = self._children.get(child, "delegate")
                price = priced((own + below + self._told.get(child, Totals())).usage.cost)
                steps = f"{plural(own.steps, 'step')}, " if own.steps else ""
                print_stderr(f"{name}: {status}, {steps}{price}")

    def say_end(
        self, quiet: RunEnded | RunWaiting, session: str, questions: Sequence[OpenQuestion] = ()
    ) -> None:
        if isinstance(quiet, RunWaiting):
            print_waiting(quiet, session, questions)
        elif quiet.status != "completed":
            has_reason = quiet.reason not in ("", quiet.status)
            print_stderr(f"{quiet.status}: {quiet.reason}" if has_reason else quiet.status)
        elif quiet.reason:
            print_stderr(quiet.reason)


class ConsoleOutput(NoticePrinter):
    """The last answer on standard output, beside the notices."""

    def __init__(self) -> None:
        super().__init__()
        self._answer = ""
        self._answering_call = ""
        self._sources: list[events.SourceCited] = []
        self.shows_work = sys.stderr.isatty()

    def _see_fact(self, event: Event | UnknownEvent) -> None:
        match event:
            case events.AssistantMessage(suppressed=False) as message:
                text = text_of(message.content if message.shown is None else message.shown)
                if text:
                    self._answer, self._answering_call = text, message.call
            case events.SourceCited() as source:
                self._sources.append(source)
            case events.CommandRan(text=text, failed=False):
                if text:
                    print_text(text)
            case _:
                super()._see_fact(event)

    def finish(
        self, quiet: RunEnded | RunWaiting, session: str, questions: Sequence[OpenQuestion] = ()
    ) -> None:
        """The end of a run; another one may follow."""
        if isinstance(quiet, RunEnded) and quiet.status != "failed" and self._answer:
            print_text(self._answer)
            self._say_sources()
        self.say_end(quiet, session, questions)
        if isinstance(quiet, RunEnded) and not (quiet.status != "completed" or quiet.reason or self._answer):
            print_stderr("the model's answer is empty")
        self._answer = ""

    def _say_sources(self) -> None:
        for source in self._sources:
            if source.call == self._answering_call:
                where = source.url or (f"document {source.id}" if source.id else "")
                print_stderr(f"source: {printable(', '.join(filter(None, (source.title, where))))}")


def print_text(text: str) -> None:
    """A terminal would obey what it is told; a file gets every byte."""
    print_to_stdout(printable(text) if real_stdout().isatty() else text)


def print_piece(text: str) -> None:
    """A part of a text that is still growing."""
    out = real_stdout()
    out.write(printable(text) if out.isatty() else text)
    out.flush()


def print_waiting(waiting: RunWaiting, session: str, questions: Sequence[OpenQuestion]) -> None:
    """What a run waits for, and how it goes on."""
    from ostler.app.question_queue import value_text

    for one in questions:
        who = f" ({one.agent})" if one.agent else ""
        which = f" [{one.asked.id}]" if len(questions) > 1 else ""
        print_stderr(f"waiting for an answer{who}{which}: {value_text(one.asked.question)}")
    if waiting.reason == "paused":
        print_stderr(f"paused; `ostler resume {session}` goes on")
    elif questions:
        named = "--question ID " if len(questions) > 1 else ""
        is_permission = all(one.asked.question.kind == "permission" for one in questions)
        answer = "yes" if is_permission else "ANSWER"
        print_stderr(f"the run waits in session {session}; `ostler answer {session} {named}{answer}` goes on")
    else:
        print_stderr(
            f"the run waits in session {session} for a call that finishes later; `ostler runs` shows it"
        )


_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class LivePrinter:
    """Prints text as it streams, files as they are written, and what came of each call."""

    def __init__(self, *, shows_answers: bool = True) -> None:
        self._shows_answers = shows_answers
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._styled = sys.stdout.isatty() and not plain
        self._at_line_start = True
        self._inputs: dict[str, tuple[str, StreamingString, StreamingString]] = {}
        self._written: set[str] = set()
        """Calls whose file was seen while it was written."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for item in batch:
            self._see(item.event if isinstance(item, Fact) else item)
        sys.stdout.flush()

    def line(self, text: str = "", style: str = "") -> None:
        if not self._at_line_start:
            self._put("\n")
        self._put(self._in_style(text, style) + "\n")

    def _see(self, event: object) -> None:
        match event:
            case events.TextDelta(text=text):
                self._put(text)
            case events.ToolInputStarted(call=call, name=name):
                self._inputs[call] = (name, StreamingString("path"), StreamingString("content"))
            case events.ToolInputDelta(call=call, text=text) if call in self._inputs:
                self._show_input(call, text)
            case events.ToolCalled(call=call, name=name, arguments=arguments):
                if self._inputs.pop(call, (name,))[0] != "write":
                    self.line(f"▸ {name} {preview(name, arguments)}", "cyan")
            case events.ToolOutput(text=text):
                self._put(self._in_style(text, "dim"))
            case events.ToolResultFact() as result:
                self._show_result(result)
            case events.QuestionAsked(question=question):
                self.line(f"? {question.text}", "yellow")
            case events.QuestionAnswered(outcome=outcome, answer=answer) if self._shows_answers:
                self.line(f"  {answer if outcome == 'answered' else outcome}", "yellow")
            case events.RunEnded(status=status, reason=reason, own=own):
                steps = f"{own.steps} steps, {own.tool_calls} tool calls"
                self.line(f"■ {status}{': ' + reason if reason else ''} ({steps})", "bold")

    def _show_input(self, call: str, text: str) -> None:
        name, path, content = self._inputs[call]
        if name != "write":
            return
        path_known = path.done
        path.feed(text)
        if path.done and not path_known:
            self._written.add(call)
            self.line(f"▸ write {path.value}", "cyan")
        self._put(self._in_style(content.feed(text), "dim"))

    def _show_result(self, result: events.ToolResultFact) -> None:
        details = result.details or {}
        if result.failed:
            self.line(f"✗ {result.name}: {text_of(result.content)}", "red")
        elif diff := details.get("diff"):
            self.line(f"✓ {text_of(result.content)}", "green")
            if details.get("created") and result.call in self._written:
                return  # it was seen as it was written
            for row in str(diff).splitlines():
                self.line(
                    f"  {row}", "green" if row.startswith("+") else "red" if row.startswith("-") else "dim"
                )
        else:
            self.line(f"✓ {result.summary or result.name}", "green")

    def _in_style(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._styled and style and text else text

    def _put(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            self._at_line_start = text.endswith(("\n", "\n\x1b[0m"))


def print_printed(printed: Printed) -> None:
    """On standard error, whatever it is: standard output is the answer's, or that of `--json`."""
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
