"""A run as a person reads it, printed as it happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ostler.kernel.partial_json import GrowingString
from ostler.tools.permissions import preview
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import text_of

_STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class LivePrinter:
    """Prints text as it streams, files as they are written, and what came of each call."""

    def __init__(self, *, shows_answers: bool = True) -> None:
        self._shows_answers = shows_answers
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._styled = sys.stdout.isatty() and not plain
        self._at_line_start = True
        self._inputs: dict[str, tuple[str, GrowingString, GrowingString]] = {}
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
                self._inputs[call] = (name, GrowingString("path"), GrowingString("content"))
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
