"""Items of the model's answers: fragments as they stream, and the facts with the whole message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ostler.history.call_items import CallItems, OpenCall, StreamedText
from ostler.history.item_store import ItemStore
from ostler.history.items import Grown, MediaItem, ReasoningItem, Source, SourcesItem, TextItem, UserItem
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import Block, File, Image, Reasoning, Text, ToolCall, text_of

Delta = events.TextDelta | events.ReasoningDelta


class OpenBlock(StreamedText):
    """A block of an answer that streams."""

    def __init__(self, key: str, event: Delta, anchor: int, now: Callable[[], float]) -> None:
        super().__init__()
        self.key = key
        self.delta = type(event)
        self.message = event.message
        self.block = event.block
        self.anchor = anchor
        self.seconds: float | None = None
        """How long it took; None while it grows."""
        self._now = now
        self._since = now()
        self.append(event.text)

    def item(self) -> TextItem | ReasoningItem:
        fields: dict[str, Any] = {"key": self.key, "anchor": self.anchor, "message": self.message}
        fields |= {"block": self.block, "text": self.text}
        if self.delta is events.TextDelta:
            return TextItem(**fields)
        return ReasoningItem(**fields, seconds=self.elapsed())

    def elapsed(self) -> float:
        return self._now() - self._since if self.seconds is None else self.seconds


class OpenSources:
    """The sources of an answer that still streams."""

    def __init__(self, base: dict[str, Any], message: str) -> None:
        self.key = base["key"]
        self.sources: list[Source] = []
        self._fields = base | {"message": message}

    def item(self) -> SourcesItem:
        return SourcesItem(**self._fields, sources=tuple(self.sources))


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
        """The last message of a terminal agent, which may still revise it."""

    def on_text_delta(self, event: events.TextDelta, fact: Fact | None) -> None:
        self._stream(event, f"text:{event.message}:{event.block}")

    def on_reasoning_delta(self, event: events.ReasoningDelta, fact: Fact | None) -> None:
        self._stream(event, f"reasoning:{event.message}:{event.block}")

    def _stream(self, event: Delta, key: str) -> None:
        block = self._store.get(key)
        if block is None and event.offset == 0:
            self.end_block()
            self.growing = OpenBlock(key, event, self._store.leaf, self._now)
            self._store.open(self.growing)
        elif isinstance(block, OpenBlock) and event.offset <= block.length:
            self.growing = block
            if event.offset == block.length:
                block.append(event.text)
                self._store.changes.append(Grown(key, "text", event.text))
            else:
                block.replace_from(event.offset, event.text)
                self._store.change_open(block)

    def end_block(self) -> None:
        if self.growing is not None and self.growing.seconds is None:
            self.growing.seconds = self.growing.elapsed()
        self.growing = None

    def on_tool_input_started(self, event: events.ToolInputStarted, fact: Fact | None) -> None:
        self.end_block()
        self._calls.open_input(event)

    def on_assistant_message(self, event: events.AssistantMessage, fact: Fact | None) -> None:
        self.end_block()
        base = self._store.base(fact)
        message = event.call
        if event.suppressed:
            self._store.notice("withheld", "an answer was withheld", fact)
        content = event.content if event.shown is None else event.shown
        cut = event.stop_reason if event.stop_reason in ("length", "refusal") else ""
        fields: dict[str, Any] = {"message": message, "complete": True}
        text_fields = {"model": event.model, "cut": cut, "drawn": self.driver == "terminal"}
        items = self._close_blocks(() if event.suppressed else content, base, fields, text_fields)
        texts = [item for item in items if isinstance(item, TextItem)]
        if cut and not texts and not event.suppressed:
            key = f"text:{message or base.get('seq', 0)}:{len(content)}"
            fields |= text_fields
            self._store.close(TextItem(**(base | {"key": key}), **fields, block=len(content)))
        keys = {item.key for item in items}
        for block in event.content:
            if isinstance(block, ToolCall):
                keys.add(self._calls.message_call(block, message, base))
        self._drop_streamed(message, keys)
        self._close_sources(message, base["anchor"])
        if not message:
            self._drawn = (base, texts[-1] if texts else None)

    def _close_blocks(
        self,
        content: Sequence[Block],
        base: dict[str, Any],
        fields: dict[str, Any],
        text_fields: dict[str, Any],
    ) -> list[TextItem | ReasoningItem | MediaItem]:
        """Closes the items of the blocks of a message, and returns them."""
        items: list[TextItem | ReasoningItem | MediaItem] = []
        for index, block in enumerate(content):
            name = f"{fields['message'] or base.get('seq', 0)}:{index}"
            match block:
                case Text(text=text) if text.strip():
                    about = base | {"key": f"text:{name}", **fields, **text_fields}
                    items.append(TextItem(**about, block=index, text=text))
                case Reasoning(text=text) if text.strip():
                    about = base | {"key": f"reasoning:{name}", **fields}
                    streamed = self._store.get(about["key"])
                    seconds = streamed.elapsed() if isinstance(streamed, OpenBlock) else 0.0
                    items.append(ReasoningItem(**about, block=index, text=text, seconds=seconds))
                case Image() | File() if fields["complete"]:
                    about = base | {"key": f"media:{name}", "message": fields["message"]}
                    items.append(MediaItem(**about, block=index, content=block))
        for item in items:
            self._store.close(item)
        return items

    def _drop_streamed(self, message: str, keys: set[str]) -> None:
        """Removes streamed items of a message that its fact does not have."""
        for record in self._store.records():
            is_streamed = isinstance(record, OpenBlock) or (isinstance(record, OpenCall) and record.is_live)
            if is_streamed and record.key not in keys and getattr(record, "message", None) == message:
                self._store.drop(record)

    def abandon(self) -> None:
        """Drops the unfinished answers of a run that has ended."""
        self.end_block()
        for record in self._store.records():
            if isinstance(record, OpenBlock):
                self._store.drop(record)
            elif isinstance(record, OpenSources):
                self._store.close(record.item())

    def on_model_called(self, event: events.ModelCalled, fact: Fact | None) -> None:
        self.model = event.model

    def on_model_failed(self, event: events.ModelFailed, fact: Fact | None) -> None:
        self.end_block()
        base = self._store.base(fact)
        items = self._close_blocks(event.partial, base, {"message": event.call, "complete": False}, {})
        self._drop_streamed(event.call, {item.key for item in items})
        failure, message = event.failure, event.failure.message
        if event.rescue:
            text = f"{message}; continuing with {event.rescue}"
            self._store.notice("fallback", text, fact, "warning", {"model": event.rescue})
        elif event.retry_in is None:
            self._store.notice("model_failed", message, fact, "error", {"kind": failure.kind})
        else:
            text = f"{message}; trying again in {event.retry_in:g} s"
            if failure.kind == "context_overflow":
                text = f"{message}; trying again with a summary of the earlier messages"
            details = {"attempt": event.attempt, "retry_in": event.retry_in}
            self._store.notice("retry", text, fact, "warning", details)

    def on_source_cited(self, event: events.SourceCited, fact: Fact | None) -> None:
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
        """Moves the sources, which the model cites while it writes, below the answer."""
        record = self._store.get(f"sources:{message}")
        if isinstance(record, OpenSources):
            self._store.remove(record.key)
            self._store.close(msgspec.structs.replace(record.item(), anchor=anchor))

    def on_message_revised(self, event: events.MessageRevised, fact: Fact | None) -> None:
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
