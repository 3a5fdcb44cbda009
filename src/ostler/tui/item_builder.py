"""From what happens in a session to blocks: each event closes some, or changes the open tail."""
# MERGED: A command that a person ran with `!`, as an entry of the session: told to the model, and seen
# MERGED: again when the session is opened again.

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.question_queue import answer_text, question_text
from ostler.schema import events
from ostler.schema.events import Event, ExtensionEntry
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.messages import Image, PlainBlock, Reasoning, Text, text_of
from ostler.sessions.inbox import TAKEN_BACK
from ostler.tui.call_items import OpenCall
from ostler.tui.items import (
    CallItem,
    CallStage,
    Item,
    NoticeItem,
    PrintedItem,
    ReasoningItem,
    RunEndItem,
    TextItem,
    UserItem,
    attachments_of,
    item_text,
)

if TYPE_CHECKING:
    from ostler.tui.render.markdown_stream import MarkdownStream


_OWNER, _NAME = "tui", "shell"


def shell_entry(block: CallItem) -> ExtensionEntry:
    """No message of the person: it starts no run, and may come while calls are open. The model is told with
    the next prompt, or before its next step."""
    command = block.arguments["command"]
    about = {"command": command, "failed": block.stage == "failed", "seconds": round(block.seconds, 3)}
    said = Text(f"The user ran this command in a shell of their own:\n$ {command}\nIt printed:")
    return ExtensionEntry(_OWNER, _NAME, about, (said, Text(block.result)))


def shell_item(entry: ExtensionEntry) -> CallItem | None:
    """What is seen of it; None if the entry is somebody else's."""
    data = entry.data
    if (entry.extension, entry.name) != (_OWNER, _NAME) or not isinstance(data, dict):
        return None
    return CallItem(
        "",
        "!",
        "failed" if data.get("failed") else "done",
        {"command": str(data.get("command", ""))},
        "execute",
        result=text_of(entry.told[1:]),
        seconds=float(data.get("seconds", 0)),
    )


_CUT: dict[str, tuple[str, str]] = {
    "length": (
        "completed",
        "the answer was cut: it is as long as the model's answers may be (`max_output_tokens`)",
    ),
    "refusal": ("refused", "the model, or its vendor, declined to answer"),
}
"""How the run ends then, and why the answer is not whole."""


_STAGES: dict[str, CallStage] = {
    "call_refused": "refused",
    "tool_cancelled": "stopped",
    "tool_interrupted": "stopped",
}


class Transcript:
    """Takes events in, gives closed blocks out. What is not closed yet is the tail.

    It needs no terminal and keeps nothing of what is closed: a long session takes no more memory than a
    short one.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, cwd: Path | None = None) -> None:
        self._now = now
        self._cwd = cwd
        """Where files are looked at that are about to be changed."""
        self._text: MarkdownStream | None = None
        self._reasoning = ""
        self._reasoning_since = 0.0
        self._streamed: set[str] = set()
        """The calls of models whose text was seen as it came."""
        self._calls: dict[str, OpenCall] = {}
        self._sources: dict[str, str] = {}
        """What the answer under way has cited, by address."""
        self._explained = ""
        """How the run may end without saying why: that was said of the answer."""
        self._asked: dict[str, events.QuestionAsked] = {}
        self.last_reasoning = ""
        """What the model thought last, which is shown folded."""

    @property
    def calls(self) -> list[OpenCall]:
        """Those that have no result yet."""
        return list(self._calls.values())

    # --- taking events in -----------------------------------------------------------------------------

    def take(self, batch: Iterable[Fact | Event]) -> list[Item]:
        """The blocks that are closed now, in their order."""
        closed: list[Item] = []
        for one in batch:
            event = one.event if isinstance(one, Fact) else one
            if not isinstance(event, UnknownEvent):
                self._take(event, closed)
        return closed

    def tail(self) -> list[Item | OpenCall]:
        """What is still changing."""
        still: list[Item | OpenCall] = []
        if self._reasoning:
            still.append(ReasoningItem(self._reasoning, self._now() - self._reasoning_since))
        if self._text is not None and (part := self._text.open_part()) is not None:
            still.append(TextItem(part))
        asked = {one.call for one in self._asked.values()}
        for call in self._calls.values():
            call.look(self._now())
            call.is_asked = call.block.call in asked
            still.append(call)
        return still

    def _take(self, event: Event, closed: list[Item]) -> None:
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
                self._calls[call] = OpenCall(CallItem(call, name, "writing"), self._now(), self._cwd)
            case events.ToolInputDelta(call=call, text=text) if call in self._calls:
                self._calls[call].write(text)
            case events.ToolOutput(call=call, text=text) if call in self._calls:
                self._calls[call].print(text)
            case events.ChildEvent(call=call, child=child) if call in self._calls:
                self._calls[call].see_child(child, event)
            case events.Printed():
                closed.append(PrintedItem(event))
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
            case events.ChildStarted(call=call, child=child) if call in self._calls:
                self._calls[call].begin_child(child, event.agent, event.task)
            case events.ChildUsed(call=call) if call in self._calls:
                self._calls[call].count_child(event)
            case events.ChildEnded(call=call) if call in self._calls:
                self._calls[call].end_child(event)
            case events.SourceCited(url=url, title=title):
                self._sources[url] = title
            case events.QuestionAsked(id=question):
                self._asked[question] = event
            case events.QuestionAnswered():
                self._take_answer_to_question(event, closed)
            case events.Warned(text=text):
                closed.append(NoticeItem(text, "warning"))
            case events.RequestRefused(reason=reason) if reason != TAKEN_BACK:  # whoever did that knows
                closed.append(NoticeItem(reason, "warning"))
            case events.CommandRan(text=text, failed=failed) if text:
                closed.append(NoticeItem(text, "error" if failed else "info"))
            case events.Compacted(tokens_before=before, tokens_after=after):
                closed.append(NoticeItem(f"the context was compacted: {before:,} tokens to {after:,}"))
            case events.ExtensionEntry() if (block := shell_item(event)) is not None:
                closed.append(block)
            case events.RunEnded():
                self._take_end(event, closed)
            case events.CompactionUndone():
                closed.append(NoticeItem("the compaction was undone: the model is told everything again"))
            case events.BranchCollapsed(summary=summary):
                closed.append(NoticeItem(f"a branch was left; the model is told of it: {summary}"))
            case events.HistoryReplaced(messages=messages):
                closed.append(NoticeItem(f"the model is told {len(messages)} messages from elsewhere"))
            case events.PromptsHeld(reason=reason):
                closed.append(NoticeItem(f"prompts wait until you say something: {reason}", "warning"))
            case events.StoreFailed():
                closed.append(NoticeItem(event.failure.message, "error"))

    # --- answers --------------------------------------------------------------------------------------

    def _grow(self, text: str, closed: list[Item]) -> None:
        if self._text is None:
            from ostler.tui.render.markdown_stream import MarkdownStream

            self._text = MarkdownStream()
        closed += map(TextItem, self._text.feed(text))

    def _close_answer(self, closed: list[Item]) -> None:
        """What was streamed so far will not grow any more."""
        self._close_reasoning(closed)
        if self._text is not None:
            closed += map(TextItem, self._text.finish())
            self._text = None

    def _close_reasoning(self, closed: list[Item]) -> None:
        if self._reasoning:
            closed.append(ReasoningItem(self._reasoning, self._now() - self._reasoning_since))
            self.last_reasoning, self._reasoning = self._reasoning, ""

    def _take_answer(self, message: events.AssistantMessage, closed: list[Item]) -> None:
        """Its text was seen as it came, or, of an earlier session or of one a hook replaced, is new."""
        has_streamed = message.call in self._streamed
        self._streamed.discard(message.call)
        if not has_streamed and not self._reasoning and not message.suppressed:
            for block in message.content if message.shown is None else message.shown:
                match block:
                    case Reasoning(text=text) if text:
                        self.last_reasoning = text
                        closed.append(ReasoningItem(text))
                    case Text(text=text) if text.strip():
                        self._grow(text, closed)
                        self._close_answer(closed)
        self._close_answer(closed)
        if self._sources:
            cited = [f"{title} {url}".strip() for url, title in self._sources.items()]
            closed.append(NoticeItem("\n".join(["sources:", *cited])))
            self._sources.clear()
        self._explained, why = _CUT.get(message.stop_reason, ("", ""))
        if why:
            closed.append(NoticeItem(why, "warning"))

    def _take_answer_to_question(self, answered: events.QuestionAnswered, closed: list[Item]) -> None:
        """A permission that was given here is seen by what follows, and a window that was closed is gone; all
        other answers are said."""
        asked = self._asked.pop(answered.id, None)
        by = f" by {answered.by}" if answered.by else ""
        is_permission = asked is not None and asked.question.kind == "permission"
        if asked is None or (is_permission and not by):
            return
        if (asked.question.details or {}).get("dialog") == "overlay":
            return
        question = asked.question
        is_answered = answered.outcome == "answered"
        given = answer_text(question, answered.answer) if is_answered else answered.outcome
        closed.append(NoticeItem(f"{question_text(question)} → {given}{by}"))

    def _take_failure(self, failed: events.ModelFailed, closed: list[Item]) -> None:
        self._close_answer(closed)
        self._streamed.discard(failed.call)
        writing = [name for name, call in self._calls.items() if call.block.stage == "writing"]
        for name in writing:
            del self._calls[name]
        text = failed.failure.message
        if failed.rescue:
            closed.append(NoticeItem(f"{text}; going on with {failed.rescue}", "warning"))
        elif failed.retry_in is not None:
            closed.append(NoticeItem(f"{text}; trying again in {failed.retry_in:g} s", "warning"))

    # --- calls ----------------------------------------------------------------------------------------

    def _take_call(self, called: events.ToolCalled) -> None:
        known = self._calls.get(called.call)
        block = CallItem(
            called.call,
            called.name,
            "waiting",
            called.arguments,
            called.kind,
            called.display,
        )
        if known is None:
            self._calls[called.call] = known = OpenCall(block, self._now(), self._cwd)
            known.write(_json(called.arguments))
        known.block = block

    def _take_result(self, result: events.ToolResultFact, closed: list[Item]) -> None:
        known = self._calls.pop(result.call, None)
        block = known.block if known else CallItem(result.call, result.name, "done")
        children = known.ended_children() if known else ()
        closed.append(
            msgspec.structs.replace(
                block,
                stage=_STAGES.get(result.failed, "failed") if result.failed else "done",
                result=text_of(result.content),
                details=result.details,
                summary=result.summary,
                seconds=result.duration_ms / 1000,
                children=children,
                images=_images(result.content),
            )
        )

    def _take_end(self, ended: events.RunEnded, closed: list[Item]) -> None:
        self._close_answer(closed)
        self._calls.clear()
        self._streamed.clear()
        both = ended.own + ended.children
        used = both.usage
        is_unknown = ended.status == "completed" and used.cost is None and not used.total_tokens
        closed.append(
            RunEndItem(
                ended.status,
                "" if ended.status == self._explained else ended.reason,
                both.tool_calls,
                None if is_unknown else used.total_tokens,
                used.cost,
                ended.own.duration_ms / 1000,
            )
        )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _user(message: events.UserMessage) -> UserItem:
    content = message.content
    return UserItem(item_text(content), attachments_of(content), _images(content), message.source == "steer")


def _images(content: Sequence[PlainBlock]) -> tuple[Image, ...]:
    return tuple(block for block in content if isinstance(block, Image))
