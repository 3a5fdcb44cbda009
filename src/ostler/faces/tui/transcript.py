"""From what happens in a session to blocks: each event closes some, or changes the open tail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from ostler.extensions.parts.children import SubagentEvents
from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.blocks import (
    Block,
    CallBlock,
    NoticeBlock,
    PrintedBlock,
    ReasoningBlock,
    ReceiptBlock,
    TextBlock,
    UserBlock,
)
from ostler.faces.tui.drawing.growing_arguments import GrowingEdit, GrowingWrite
from ostler.faces.tui.drawing.growing_markdown import GrowingMarkdown
from ostler.faces.tui.drawing.terminal_text import TerminalText
from ostler.kernel.partial_json import GrowingString
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact, UnknownEvent
from ostler.vocabulary.messages import File, Image, Reasoning, Text, text_of

_LINE = 200
"""Characters of a child's last words that are kept."""


class Transcript:
    """Takes events in, gives closed blocks out. What is not closed yet is the tail.

    It needs no terminal and keeps nothing of what is closed: a long session takes no more memory than a
    short one.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._text: GrowingMarkdown | None = None
        self._reasoning = ""
        self._reasoning_since = 0.0
        self._streamed: set[str] = set()
        """The calls of models whose text was seen as it came."""
        self._calls: dict[str, OpenCall] = {}

    # --- taking events in -----------------------------------------------------------------------------

    def take(self, batch: Iterable[Fact | Event]) -> list[Block]:
        """The blocks that are closed now, in their order."""
        closed: list[Block] = []
        for one in batch:
            event = one.event if isinstance(one, Fact) else one
            if not isinstance(event, UnknownEvent):
                self._take(event, closed)
        return closed

    def tail(self) -> list[Block | OpenCall]:
        """What is still changing."""
        still: list[Block | OpenCall] = []
        if self._reasoning:
            still.append(ReasoningBlock(self._reasoning, self._now() - self._reasoning_since))
        if self._text is not None and (part := self._text.open_part()) is not None:
            still.append(TextBlock(part))
        for call in self._calls.values():
            call.look(self._now())
            still.append(call)
        return still

    def _take(self, event: Event, closed: list[Block]) -> None:
        match event:
            case events.TextDelta(message=message, text=text):
                self._close_reasoning(closed)
                self._streamed.add(message)
                self._grow(text, closed)
            case events.ReasoningDelta(text=text):
                if not self._reasoning:
                    self._reasoning_since = self._now()
                self._reasoning += text
            case events.ToolInputStarted(call=call, name=name):
                self._close_answer(closed)
                self._calls[call] = OpenCall(CallBlock(call, name, "writing"), self._now())
            case events.ToolInputDelta(call=call, text=text) if call in self._calls:
                self._calls[call].write(text)
            case events.ToolOutput(call=call, text=text) if call in self._calls:
                self._calls[call].print(text)
            case events.ChildEvent(call=call, child=child) if call in self._calls:
                self._calls[call].see_child(child, event)
            case events.Printed():
                closed.append(PrintedBlock(event))
            case events.UserMessage(hidden=False):
                closed.append(_user(event))
            case events.AssistantMessage():
                self._take_answer(event, closed)
            case events.ModelFailed():
                self._take_failure(event, closed)
            case events.ToolCalled():
                self._take_call(event)
            case events.ToolStarted(call=call) if call in self._calls:
                self._calls[call].start(self._now(), event.arguments)
            case events.ToolResultFact():
                self._take_result(event, closed)
            case events.Warned(text=text):
                closed.append(NoticeBlock(text, "warning"))
            case events.RequestRefused(reason=reason):
                closed.append(NoticeBlock(reason, "warning"))
            case events.CommandRan(text=text, failed=failed) if text:
                closed.append(NoticeBlock(text, "error" if failed else "info"))
            case events.Compacted(tokens_before=before, tokens_after=after):
                closed.append(NoticeBlock(f"the context was compacted: {before:,} tokens to {after:,}"))
            case events.RunEnded():
                self._take_end(event, closed)

    # --- answers --------------------------------------------------------------------------------------

    def _grow(self, text: str, closed: list[Block]) -> None:
        if self._text is None:
            self._text = GrowingMarkdown()
        closed += map(TextBlock, self._text.feed(text))

    def _close_answer(self, closed: list[Block]) -> None:
        """What was streamed so far will not grow any more."""
        self._close_reasoning(closed)
        if self._text is not None:
            closed += map(TextBlock, self._text.finish())
            self._text = None

    def _close_reasoning(self, closed: list[Block]) -> None:
        if self._reasoning:
            closed.append(ReasoningBlock(self._reasoning, self._now() - self._reasoning_since))
            self._reasoning = ""

    def _take_answer(self, message: events.AssistantMessage, closed: list[Block]) -> None:
        """Its text was seen as it came, or, of an earlier session or of one a hook replaced, is new."""
        has_streamed = message.call in self._streamed
        self._streamed.discard(message.call)
        if not has_streamed and not self._reasoning and not message.suppressed:
            for block in message.content if message.shown is None else message.shown:
                match block:
                    case Reasoning(text=text) if text:
                        closed.append(ReasoningBlock(text))
                    case Text(text=text) if text.strip():
                        self._grow(text, closed)
                        self._close_answer(closed)
        self._close_answer(closed)

    def _take_failure(self, failed: events.ModelFailed, closed: list[Block]) -> None:
        self._close_answer(closed)
        self._streamed.discard(failed.call)
        writing = [name for name, call in self._calls.items() if call.block.stage == "writing"]
        for name in writing:
            del self._calls[name]
        text = failed.failure.message
        if failed.rescue:
            closed.append(NoticeBlock(f"{text}; going on with {failed.rescue}", "warning"))
        elif failed.retry_in is not None:
            closed.append(NoticeBlock(f"{text}; trying again in {failed.retry_in:g} s", "warning"))

    # --- calls ----------------------------------------------------------------------------------------

    def _take_call(self, called: events.ToolCalled) -> None:
        known = self._calls.get(called.call)
        since = known.since if known else self._now()
        block = CallBlock(
            called.call,
            called.name,
            "waiting",
            called.arguments,
            called.kind,
            called.display,
        )
        self._calls[called.call] = OpenCall(block, since)

    def _take_result(self, result: events.ToolResultFact, closed: list[Block]) -> None:
        known = self._calls.pop(result.call, None)
        block = known.block if known else CallBlock(result.call, result.name, "done")
        stage = "done" if result.failed is None else "failed"
        closed.append(
            msgspec.structs.replace(
                block,
                stage="refused" if result.failed == "call_refused" else stage,
                result=text_of(result.content),
                details=result.details,
                summary=result.summary,
                seconds=result.duration_ms / 1000,
                children=(),
            )
        )

    def _take_end(self, ended: events.RunEnded, closed: list[Block]) -> None:
        self._close_answer(closed)
        self._calls.clear()
        self._streamed.clear()
        both = ended.own + ended.children
        closed.append(
            ReceiptBlock(
                ended.status,
                ended.reason,
                both.tool_calls,
                both.usage.total_tokens,
                both.usage.cost,
                ended.own.duration_ms / 1000,
            )
        )


class OpenCall:
    """A call that has no result yet: its arguments grow, then its output does."""

    def __init__(self, block: CallBlock, since: float) -> None:
        self.block = block
        self.since = since
        self.arguments = _growing(block.name)
        self.output = TerminalText()
        self._children: dict[str, tuple[SubagentEvents, str]] = {}

    def write(self, fragment: str) -> None:
        self.arguments.feed(fragment)

    def start(self, now: float, arguments: dict[str, Any] | None) -> None:
        self.since = now
        changed = self.block.arguments if arguments is None else arguments
        self.block = msgspec.structs.replace(self.block, stage="running", arguments=changed)

    def print(self, text: str) -> None:
        self.output.feed(text)

    def see_child(self, child: str, event: events.ChildEvent) -> None:
        reader, line = self._children.get(child, (SubagentEvents(), ""))
        seen = reader.read(event)
        if seen is not None:
            match seen.kind:
                case "text" | "reasoning":
                    line = "… " + (line.removeprefix("… ") + seen.text).rpartition("\n")[2][-_LINE:]
                case "tool_call":
                    line = f"{seen.tool} {_first_argument(seen.arguments)}".strip()
                case "run_ended":
                    line = seen.text or "done"
        self._children[child] = (reader, line)

    def look(self, now: float) -> None:
        """Brings the block up to date."""
        children = tuple(line for _, line in self._children.values() if line)
        self.block = msgspec.structs.replace(self.block, seconds=now - self.since, children=children)


class GrowingPath:
    """The arguments of any other tool: what they are about is seen as soon as it is there."""

    def __init__(self) -> None:
        self._fields = [
            GrowingString(name) for name in ("path", "command", "query", "pattern", "url", "task")
        ]

    @property
    def path(self) -> str:
        return next((field.value for field in self._fields if field.found), "")

    def feed(self, fragment: str) -> None:
        for field in self._fields:
            field.feed(fragment)

    def tail(self, rows: int, width: int, colors: ThemeColors | None) -> list[str]:
        return []


GrowingArguments = GrowingWrite | GrowingEdit | GrowingPath


def _growing(tool: str) -> GrowingArguments:
    return GrowingWrite() if tool == "write" else GrowingEdit() if tool == "edit" else GrowingPath()


def _first_argument(arguments: dict[str, Any] | None) -> str:
    return str(next(iter(arguments.values()), ""))[:80] if arguments else ""


def _user(message: events.UserMessage) -> UserBlock:
    attached = tuple(_attachment(block) for block in message.content if isinstance(block, Image | File))
    return UserBlock(text_of(message.content), attached, message.source == "steer")


def _attachment(block: Image | File) -> str:
    return getattr(block, "name", "") or block.media_type


def blocks_of(facts: Sequence[Fact]) -> list[Block]:
    """Of facts that lie in the past."""
    return Transcript(lambda: 0.0).take(facts)
