"""The transcript in the terminal: from changes of items to what is printed once, and to the open tail.

When a session is opened, only its end is shown, and no more of the log is read than that takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.app.question_queue import answer_text, question_text
from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
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
    ReasoningItem,
    RunEndItem,
    SourcesItem,
    SummaryItem,
    TextItem,
    UserItem,
)
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import Image
from ostler.tui.extension_ui import ExtensionViews
from ostler.tui.render.items import ItemRenderer, OpenCallView, PrintableItem, TextPart, notice
from ostler.tui.render.spans import apart, height

if TYPE_CHECKING:
    from ostler.tui.render import markdown_stream
    from ostler.tui.render.images import Way
    from ostler.tui.render.markdown_stream import MarkdownStream
else:
    markdown_stream = lazy_module("ostler.tui.render.markdown_stream")

_NOTICES = (
    "retry",
    "fallback",
    "warned",
    "request_refused",
    "prompts_held",
    "compaction_undone",
    "store_failed",
)
"""The codes of the notices that the terminal prints."""

_CUT: dict[str, tuple[str, str]] = {
    "length": (
        "completed",
        "the answer was cut: it is as long as the model's answers may be (`max_output_tokens`)",
    ),
    "refusal": ("refused", "the model, or its vendor, declined to answer"),
}
"""How the run ends then, and why the answer is not complete."""


class TranscriptView:
    """Events in, printable items out. What is not closed yet is the tail.

    It needs no terminal, and keeps nothing of what is closed: a long session takes no more memory than a
    short one.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic, cwd: Path | None = None) -> None:
        self._now = now
        self._cwd = cwd
        """Where the files are that calls are about to change."""
        self._builder = ItemBuilder("open", now)
        self._text: MarkdownStream | None = None
        self._text_key = ""
        """The item that grew last."""
        self._reasoning: list[str] = []
        self._reasoning_since = 0.0
        self._streamed: deque[str] = deque(maxlen=4)
        """The last messages that were printed as they streamed."""
        self._calls: dict[str, OpenCallView] = {}
        self._has_child_news = False
        """Children are drawn in the rows of their calls."""
        self._cut: TextItem | None = None
        """An answer that was cut, until the reason is printed below it."""
        self._explained = ""
        """The status of a run that needs no reason: it was printed below the answer."""
        self.last_reasoning = ""

    @property
    def calls(self) -> list[OpenCallView]:
        """The calls without a result."""
        return list(self._calls.values())

    def take(self, batch: Iterable[Fact | Event]) -> list[PrintableItem]:
        """Applies events, and returns what is final now, in its order."""
        closed: list[PrintableItem] = []
        for change in self._builder.apply(batch):
            if type(change) is not Grown:
                self._apply(change, closed)
            elif change.key == self._text_key and self._text is not None:
                for part in self._text.feed(change.text):
                    closed.append(TextPart(part))
            else:
                self._grow(change, closed)
        if self._cut is not None:
            self._close_cut(closed)
        return closed

    def tail(self) -> list[PrintableItem | OpenCallView]:
        """What still changes."""
        tail: list[PrintableItem | OpenCallView] = []
        if self._reasoning:
            tail.append(self._reasoning_item())
        if self._text is not None and (part := self._text.open_part()) is not None:
            tail.append(TextPart(part))
        self._update_children()
        now = self._now()
        for call in self._calls.values():
            call.seconds = now - call.since
            tail.append(call)
        return tail

    def _update_children(self) -> None:
        if self._has_child_news:
            self._has_child_news = False
            for item in self._builder.open_items():
                if isinstance(item, CallItem) and item.key in self._calls:
                    self._calls[item.key].item = item

    def _grow(self, change: Grown, closed: list[PrintableItem]) -> None:
        field, text = change.field, change.text
        if field == "activity":
            self._has_child_news = True
        elif field == "text" and change.key.startswith("reasoning:"):
            self._reasoning.append(text)
        elif field == "text":
            self._feed(text, closed)
        elif (call := self._calls.get(change.key)) is not None:
            if field == "output":
                call.output.feed(text)
            else:
                call.write(text)

    def _apply(self, change: Change, closed: list[PrintableItem]) -> None:
        match change:
            case Opened(item=ChildItem()) | Closed(item=ChildItem()):
                self._has_child_news = True
            case Opened(item=item):
                self._open(item, closed)
            case Changed(item=CallItem() as item) if item.key in self._calls:
                self._calls[item.key].change(item, self._now())
            case Closed(item=item):
                if self._cut is not None and getattr(item, "message", "") != self._cut.message:
                    self._close_cut(closed)
                self._close(item, closed)

    def _open(self, item: Item, closed: list[PrintableItem]) -> None:
        match item:
            case TextItem(message=message, text=text):
                self._text_key = item.key
                self._close_reasoning(closed)
                self._stream(message)
                self._feed(text, closed)
            case ReasoningItem(message=message, text=text):
                if not self._reasoning:
                    self._reasoning_since = self._now()
                self._stream(message)
                self._reasoning.append(text)
            case CallItem():
                if item.stage == "writing":
                    self._close_answer(closed)
                self._calls[item.key] = OpenCallView(item, self._now(), self._cwd)

    def _close(self, item: Item, closed: list[PrintableItem]) -> None:
        match item:
            case TextItem(message=message) | ReasoningItem(message=message):
                self._close_block(item, message, closed)
            case CallItem():
                self._calls.pop(item.key, None)
                if not item.hidden and item.stage != "abandoned":
                    closed.append(item)
            case UserItem(hidden=False) | PrintedItem():
                closed.append(item)
            case RunEndItem():
                self._close_answer(closed)
                is_explained = item.status == self._explained
                closed.append(msgspec.structs.replace(item, reason="") if is_explained else item)
            case _:
                if (shown := _as_notice(item)) is not None:
                    closed.append(shown)

    # --- answers --------------------------------------------------------------------------------------

    def _stream(self, message: str) -> None:
        if message not in self._streamed:
            self._streamed.append(message)

    def _feed(self, text: str, closed: list[PrintableItem]) -> None:
        if self._text is None:
            self._text = markdown_stream.MarkdownStream()
        closed += map(TextPart, self._text.feed(text))

    def _close_block(self, item: TextItem | ReasoningItem, message: str, closed: list[PrintableItem]) -> None:
        """Its text was printed as it streamed; or, in a stored session, it is new."""
        if message and message in self._streamed:
            self._close_answer(closed)
        elif item.complete and isinstance(item, ReasoningItem):
            self.last_reasoning = item.text
            closed.append(item)
        elif item.complete and item.text:
            self._feed(item.text, closed)
            self._close_answer(closed)
        if isinstance(item, TextItem) and item.complete:
            self._explained = _CUT.get(item.cut, ("", ""))[0]
            self._cut = item if item.cut else None

    def _close_cut(self, closed: list[PrintableItem]) -> None:
        if self._cut is not None:
            closed.append(notice(_CUT[self._cut.cut][1], "warning"))
            self._cut = None

    def _close_answer(self, closed: list[PrintableItem]) -> None:
        """What has streamed so far will not grow any more."""
        self._close_reasoning(closed)
        if self._text is not None:
            closed += map(TextPart, self._text.finish())
            self._text = None

    def _close_reasoning(self, closed: list[PrintableItem]) -> None:
        if self._reasoning:
            item = self._reasoning_item()
            closed.append(item)
            self.last_reasoning, self._reasoning = item.text, []

    def _reasoning_item(self) -> ReasoningItem:
        text = "".join(self._reasoning)
        return ReasoningItem("", text=text, seconds=self._now() - self._reasoning_since)


def _as_notice(item: Item) -> NoticeItem | None:
    match item:
        case NoticeItem(code=code) if code in _NOTICES:
            return item
        case SourcesItem(sources=sources):
            cited = {source.url: f"{source.title} {source.url}".strip() for source in sources}
            return notice("\n".join(["sources:", *cited.values()]))
        case QuestionItem():
            return _answer_notice(item)
        case ExtensionItem(command=command, text=text, failed=failed) if command and text:
            return notice(text, "error" if failed else "info")
        case SummaryItem(source="compaction", tokens_before=before, tokens_after=after):
            return notice(f"the context was compacted: {before:,} tokens to {after:,}")
        case SummaryItem(source="branch", text=text):
            return notice(f"a branch was left; the model receives its summary: {text}")
        case SummaryItem(text=text):
            return notice(text)
    return None


def _answer_notice(item: QuestionItem) -> NoticeItem | None:
    """A permission that was given here is visible by what follows, and so is a window that was closed; all
    other answers are printed."""
    if item.asked is None or (item.state == "withdrawn" and not item.answered_seq):
        return None
    question = item.asked.question
    is_own_permission = question.kind == "permission" and not item.by
    if is_own_permission or (question.details or {}).get("dialog") == "overlay":
        return None
    given = answer_text(question, item.answer) if item.state == "answered" else item.state
    by = f" by {item.by}" if item.by else ""
    return notice(f"{question_text(question)} → {given}{by}")


LINES = 3
"""Waiting calls that have a line of their own."""

_LEAST = 5
"""Rows of a call: its edges, a blank one, and two of its output."""


def tail_rows(
    tail: Sequence[PrintableItem | OpenCallView],
    draw: ItemRenderer,
    width: int,
    most: int,
    *,
    after_blank: bool,
) -> list[str]:
    """Running calls share the room; calls that wait for them have a line each, as long as they are few."""
    runs = any(isinstance(item, OpenCallView) and item.state == "running" for item in tail)
    behind = [item for item in tail if runs and isinstance(item, OpenCallView) and item.state == "waiting"]
    seen = [item for item in tail if item not in behind]
    lines = [draw.waiting_call(call, width) for call in behind[:LINES]]
    if len(behind) > LINES:
        lines.append(draw.note(f"{len(behind) - LINES} more wait", width)[0])
    room = most - len(lines) - bool(lines)
    share = max(_LEAST, room // max(1, len(seen)))
    shown = apart((draw.opened(item, width, share) for item in seen), after_blank=after_blank)
    kept = shown[-room:] if room > 0 else []
    return apart([kept, ["", *lines]] if lines else [kept], after_blank=after_blank)


FACTS = 300
"""The facts that are read first; four times as many whenever that was too little."""

_UNSEEN = frozenset(
    {"model_called", "usage", "step_started", "step_ended", "run_started", "audited", "request_refused"}
)
"""Frequent types that are not shown, and need not be decoded. A refused request is news only at the time."""


async def restored_facts(journal: Journal, blocks: int) -> tuple[list[Fact], bool]:
    """Facts on the path to the leaf that make at least so many items, and whether there are more before
    them."""
    last, window = journal.state.last_seq, FACTS
    while True:
        after = max(0, last - window)
        facts = [fact for fact in await journal.history(after) if fact.seq <= last]
        on_path = visible_facts(facts, journal.state.leaf)
        if after == 0 or len(TranscriptView().take(on_path)) >= blocks:
            return on_path, after > 0
        window *= 4


def visible_facts(facts: Sequence[Fact], leaf: int) -> list[Fact]:
    """The entries on the path to the leaf, and the records of their runs."""
    entries = {fact.seq: fact for fact in facts if fact.parent is not None}
    path: set[int] = set()
    while (entry := entries.get(leaf)) is not None and entry.parent is not None:
        path.add(leaf)
        leaf = entry.parent
    runs = {entries[seq].run for seq in path} | {""}
    return [
        fact
        for fact in facts
        if fact.type not in _UNSEEN and (fact.seq in path if fact.parent is not None else fact.run in runs)
    ]


def last_rows(
    blocks: Iterable[PrintableItem], draw: Callable[[PrintableItem], list[str]], most: int, width: int
) -> list[str]:
    """The rows of the last items, as many as fill so many rows of a terminal."""
    drawn: list[list[str]] = []
    count = 0
    for block in reversed(list(blocks)):
        if count >= most:
            break
        drawn.append(draw(block))
        count += sum(height(row, width) for row in drawn[-1])
    return apart(reversed(drawn), after_blank=False)


class TranscriptPrinter:
    """Prints items in their order, also when one takes a moment: an image, or one of an extension."""

    def __init__(
        self,
        draw: ItemRenderer,
        extensions: ExtensionViews,
        width: Callable[[], int],
        out: Callable[[Sequence[str]], None],
        ends_blank: Callable[[], bool],
        pictures: Way = "",
    ) -> None:
        self._draw = draw
        self._extensions = extensions
        self._width = width
        self._out = out
        self._ends_blank = ends_blank
        self._pictures: Way = pictures
        self._waiting: deque[PrintableItem] = deque()
        self._work: asyncio.Task[None] | None = None

    def take(self, blocks: Sequence[PrintableItem]) -> None:
        if not self._waiting and not any(map(self._takes_time, blocks)):
            width = self._width()
            drawn = (self._draw.closed(block, width) for block in blocks)
            self._out(apart(drawn, after_blank=self._ends_blank()))
            return
        self._waiting += blocks
        if self._work is None or self._work.done():
            self._work = asyncio.ensure_future(self._print())

    async def _print(self) -> None:
        while self._waiting:
            block, width = self._waiting[0], self._width()
            dress = await self._extensions.dress(block, width) if isinstance(block, CallItem) else None
            rows = [*self._draw.closed(block, width, dress), *await self._pictures_of(block, width)]
            self._out(apart([rows], after_blank=self._ends_blank()))
            self._waiting.popleft()

    def _takes_time(self, block: PrintableItem) -> bool:
        return self._extensions.renderer(block) is not None or bool(self._pictures and _images(block))

    async def _pictures_of(self, block: PrintableItem, width: int) -> list[str]:
        if not self._pictures or not (images := _images(block)):
            return []
        from ostler.tui.render.images import picture_rows

        made = [await asyncio.to_thread(picture_rows, one, self._pictures, width) for one in images]
        return [row for rows in made if rows for row in (*rows, "")]

    async def finish(self) -> None:
        if self._work is not None:
            await self._work


def _images(item: PrintableItem) -> tuple[Image, ...]:
    if isinstance(item, CallItem):
        return item.result.images if item.result else ()
    return item.images if isinstance(item, UserItem) else ()
