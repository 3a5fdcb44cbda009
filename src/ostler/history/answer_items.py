"""Items of the model's answers: fragments as they stream, and the facts with the whole message."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from ostler.history.call_items import CallItems, OpenCall, StreamedText
from ostler.history.item_store import ItemStore
from ostler.history.items import Grown, MediaItem, ReasoningItem, Source, SourcesItem, TextItem, UserItem
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, File, Image, Reasoning, Text, ToolCall, text_of

Delta = type[events.TextDelta] | type[events.ReasoningDelta]


class OpenBlock(StreamedText):
    """A block of an answer that streams."""

    def __init__(self, key: str, delta: Delta, message: str, block: int, anchor: int) -> None:
        super().__init__()
        self.key = key
        self.delta = delta
        self.message = message
        self.block = block
        self.anchor = anchor
        self.since = 0.0
        self.seconds: float | None = None
        """How long it took; None while it grows."""
        self.now: Callable[[], float] = time.monotonic

    def item(self) -> TextItem | ReasoningItem:
        about: dict[str, Any] = {"key": self.key, "anchor": self.anchor, "message": self.message}
        if self.delta is events.TextDelta:
            return TextItem(**about, block=self.block, text=self.text)
        return ReasoningItem(**about, block=self.block, text=self.text, seconds=self.elapsed())

    def elapsed(self) -> float:
        return self.now() - self.since if self.seconds is None else self.seconds


class OpenSources:
    """The sources of an answer that is still written."""

    def __init__(self, base: dict[str, Any], message: str) -> None:
        self.key = base["key"]
        self.base = base
        self.message = message
        self.sources: list[Source] = []

    def item(self) -> SourcesItem:
        return SourcesItem(**self.base, message=self.message, sources=tuple(self.sources))


class AnswerItems:
    """The part of `ItemBuilder` for answers."""

    def __init__(self, store: ItemStore, calls: CallItems, now: Callable[[], float]) -> None:
        self.model = ""
        """The model that was called last."""
        self.driver = "agent"
        self.growing: OpenBlock | None = None
        """The block that grew last."""
        self._store = store
        self._calls = calls
        self._now = now
        self._drawn: tuple[dict[str, Any], TextItem | None] | None = None
        """The last message of a terminal agent, which it may draw again."""

    def text_delta(self, event: events.TextDelta, fact: Fact | None) -> None:
        self._stream(event, f"text:{event.message}:{event.block}")

    def reasoning_delta(self, event: events.ReasoningDelta, fact: Fact | None) -> None:
        self._stream(event, f"reasoning:{event.message}:{event.block}")

    def _stream(self, event: events.TextDelta | events.ReasoningDelta, key: str) -> None:
        block = self._store.get(key)
        if block is None and event.offset == 0:
            self.end_block()
            block = OpenBlock(key, type(event), event.message, event.block, self._store.leaf)
            block.now, block.since = self._now, self._now()
            block.append(event.text)
            self.growing = block
            self._store.open(block)
        elif isinstance(block, OpenBlock) and event.offset <= block.length:
            self.growing = block
            if event.offset == block.length:
                block.append(event.text)
                self._store.changes.append(Grown(key, "text", event.text))
            else:
                block.replace_from(event.offset, event.text)
                self._store.change_open(block)

    def end_block(self) -> None:
        """Another block begins, or none will."""
        if self.growing is not None and self.growing.seconds is None:
            self.growing.seconds = self.growing.elapsed()
        self.growing = None

    def input_started(self, event: events.ToolInputStarted, fact: Fact | None) -> None:
        self.end_block()
        self._calls.input_started(event, fact)

    def assistant_message(self, event: events.AssistantMessage, fact: Fact | None) -> None:
        self.end_block()
        base = self._store.base(fact)
        message = event.call
        if event.suppressed:
            self._store.notice("withheld", "an answer was withheld", fact)
        content = event.content if event.shown is None else event.shown
        about: dict[str, Any] = {"message": message, "complete": True}
        cut = event.stop_reason if event.stop_reason in ("length", "refusal") else ""
        text_about = about | {"model": event.model, "cut": cut, "drawn": self.driver == "terminal"}
        keys: set[str] = set()
        last_text: TextItem | None = None
        for index, block in enumerate(() if event.suppressed else content):
            item = self._block_item(block, index, base, text_about, about)
            if item is not None:
                keys.add(item.key)
                self._store.close(item)
                last_text = item if isinstance(item, TextItem) else last_text
        if cut and last_text is None and not event.suppressed:
            key = f"text:{message or base.get('seq', 0)}:{len(content)}"
            self._store.close(TextItem(**(base | {"key": key}), **text_about, block=len(content)))
        for block in event.content:
            if isinstance(block, ToolCall):
                keys.add(self._calls.message_call(block, message, base))
        self._drop_streamed(message, keys)
        self._close_sources(message, base["anchor"])
        if not message:
            self._drawn = (base, last_text)

    def _block_item(
        self,
        block: Block,
        index: int,
        base: dict[str, Any],
        text_about: dict[str, Any],
        about: dict[str, Any],
    ) -> TextItem | ReasoningItem | MediaItem | None:
        name = f"{about['message'] or base.get('seq', 0)}:{index}"
        match block:
            case Text(text=text) if text.strip():
                return TextItem(**(base | {"key": f"text:{name}"}), **text_about, block=index, text=text)
            case Reasoning(text=text) if text.strip():
                key = f"reasoning:{name}"
                streamed = self._store.get(key)
                seconds = streamed.elapsed() if isinstance(streamed, OpenBlock) else 0.0
                return ReasoningItem(
                    **(base | {"key": key}), **about, block=index, text=text, seconds=seconds
                )
            case Image() | File():
                base = base | {"key": f"media:{name}"}
                return MediaItem(**base, message=about["message"], block=index, content=block)
        return None

    def _drop_streamed(self, message: str, keys: set[str]) -> None:
        """Removes the items of deltas of a message that its fact does not have."""
        for record in self._store.records():
            is_streamed = isinstance(record, OpenBlock) or (isinstance(record, OpenCall) and record.is_live)
            if is_streamed and record.key not in keys and getattr(record, "message", None) == message:
                self._store.drop(record)

    def abandon(self) -> None:
        """The run has ended: no answer of it goes on."""
        self.end_block()
        for record in self._store.records():
            if isinstance(record, OpenBlock):
                self._store.drop(record)
            elif isinstance(record, OpenSources):
                self._store.close(record.item())

    def model_called(self, event: events.ModelCalled, fact: Fact | None) -> None:
        self.model = event.model

    def model_failed(self, event: events.ModelFailed, fact: Fact | None) -> None:
        self.end_block()
        base = self._store.base(fact)
        about: dict[str, Any] = {"message": event.call, "complete": False}
        keys: set[str] = set()
        for index, block in enumerate(event.partial):
            item = self._block_item(block, index, base, about, about)
            if item is not None and not isinstance(item, MediaItem):
                keys.add(item.key)
                self._store.close(item)
        self._drop_streamed(event.call, keys)
        failure, message = event.failure, event.failure.message
        if event.rescue:
            text = f"{message}; continuing with {event.rescue}"
            self._store.notice("fallback", text, fact, "warning", {"model": event.rescue})
        elif event.retry_in is None:
            self._store.notice("model_failed", message, fact, "error", {"kind": failure.kind})
        else:
            text = f"{message}; trying again in {event.retry_in:g} s"
            if failure.kind == "context_overflow":
                text = f"{message}; what came before is summarised, and it is tried again"
            details = {"attempt": event.attempt, "retry_in": event.retry_in}
            self._store.notice("retry", text, fact, "warning", details)

    def source_cited(self, event: events.SourceCited, fact: Fact | None) -> None:
        key = f"sources:{event.call}"
        record = self._store.get(key)
        source = Source(event.url, event.title, event.id)
        if isinstance(record, OpenSources):
            record.sources.append(source)
            self._store.change_open(record)
        elif record is None:
            record = OpenSources(self._store.base(fact, key), event.call)
            record.sources.append(source)
            self._store.open(record)

    def _close_sources(self, message: str, anchor: int) -> None:
        """The model cites its sources while it writes; they belong below the answer."""
        record = self._store.get(f"sources:{message}")
        if isinstance(record, OpenSources):
            self._store.remove(record.key)
            self._store.close(msgspec.structs.replace(record.item(), anchor=anchor))

    def message_revised(self, event: events.MessageRevised, fact: Fact | None) -> None:
        text = text_of(event.content)
        if self._drawn is not None and self._drawn[0].get("seq") == event.message:
            base, item = self._drawn
            if item is None:  # it was empty when it became a fact
                drawn = self.driver == "terminal"
                item = TextItem(**(base | {"key": f"text:{event.message}:0"}), complete=True, drawn=drawn)
            item = msgspec.structs.replace(item, text=text, revised=True)
            self._drawn = (base, item)
            self._store.change(item)
            return
        for other in self._store.items_at(event.message):
            if isinstance(other, TextItem):
                self._store.change(msgspec.structs.replace(other, text=text, revised=True))
            elif isinstance(other, UserItem):
                content = tuple([block for block in event.content if isinstance(block, Text | Image | File)])
                self._store.change(msgspec.structs.replace(other, content=content))


ANSWER_HANDLERS: dict[type, str] = {
    events.TextDelta: "text_delta",
    events.ReasoningDelta: "reasoning_delta",
    events.ToolInputStarted: "input_started",
    events.AssistantMessage: "assistant_message",
    events.ModelCalled: "model_called",
    events.ModelFailed: "model_failed",
    events.SourceCited: "source_cited",
    events.MessageRevised: "message_revised",
}
