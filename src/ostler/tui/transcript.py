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
from ostler.history import items
from ostler.history.item_builder import ItemBuilder
from ostler.history.items import CallItem, Grown, Item, NoticeItem, ReasoningItem, TextItem
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import Image
from ostler.tui.extension_ui import ExtensionViews
from ostler.tui.render.items import ItemRenderer, OpenCallView, PrintableItem, TextPart, notice
from ostler.tui.render.spans import apart, height

if TYPE_CHECKING:
    from ostler.tui.command_context import Printer
    from ostler.tui.render import images, markdown_stream
    from ostler.tui.render.images import Way
    from ostler.tui.render.markdown_stream import MarkdownStream
else:
    images = lazy_module("ostler.tui.render.images")
    markdown_stream = lazy_module("ostler.tui.render.markdown_stream")

_NOTICES = frozenset(
    {"retry", "fallback", "warned", "request_refused", "prompts_held", "compaction_undone", "store_failed"}
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

    def _apply(self, change: items.Change, closed: list[PrintableItem]) -> None:
        match change:
            case items.Opened(item=items.ChildItem()) | items.Closed(item=items.ChildItem()):
                self._has_child_news = True
            case items.Opened(item=item):
                self._open(item, closed)
            case items.Changed(item=CallItem() as item) if item.key in self._calls:
                self._calls[item.key].change(item, self._now())
            case items.Closed(item=item):
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
            case items.UserItem(hidden=False) | items.PrintedItem():
                closed.append(item)
            case items.RunEndItem():
                self._close_answer(closed)
                is_explained = item.status == self._explained
                closed.append(msgspec.structs.replace(item, reason="") if is_explained else item)
            case _:
                if (item_notice := _as_notice(item)) is not None:
                    closed.append(item_notice)

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
        case items.SourcesItem(sources=sources):
            cited = {source.url: f"{source.title} {source.url}".strip() for source in sources}
            return notice("\n".join(["sources:", *cited.values()]))
        case items.QuestionItem():
            return _answer_notice(item)
        case items.ExtensionItem(command=command, text=text, failed=failed) if command and text:
            return notice(text, "error" if failed else "info")
        case items.SummaryItem(source="compaction", tokens_before=before, tokens_after=after):
            return notice(f"the context was compacted: {before:,} tokens to {after:,}")
        case items.SummaryItem(source="branch", text=text):
            return notice(f"a branch was left; the model receives its summary: {text}")
        case items.SummaryItem(text=text):
            return notice(text)
    return None


def _answer_notice(item: items.QuestionItem) -> NoticeItem | None:
    """The answer; not a permission that was given here or a closed window, which the next items show."""
    if item.asked is None or (item.state == "withdrawn" and not item.answered_seq):
        return None
    question = item.asked.question
    is_own_permission = question.kind == "permission" and not item.by
    if is_own_permission or (question.details or {}).get("dialog") == "overlay":
        return None
    answer = answer_text(question, item.answer) if item.state == "answered" else item.state
    by = f" by {item.by}" if item.by else ""
    return notice(f"{question_text(question)} → {answer}{by}")


LINES = 3
"""Waiting calls that have a line of their own."""

_LEAST_ROWS = 5
"""Rows of a call: its edges, a blank one, and two of its output."""


def tail_rows(
    tail: Sequence[PrintableItem | OpenCallView],
    renderer: ItemRenderer,
    width: int,
    most: int,
    *,
    after_blank: bool,
) -> list[str]:
    """Running calls share the room; calls that wait for them have a line each, as long as they are few."""
    runs = any(isinstance(item, OpenCallView) and item.state == "running" for item in tail)
    waiting = [item for item in tail if runs and isinstance(item, OpenCallView) and item.state == "waiting"]
    others = [item for item in tail if item not in waiting]
    lines = [renderer.waiting_call(call, width) for call in waiting[:LINES]]
    if len(waiting) > LINES:
        lines.append(renderer.note(f"{len(waiting) - LINES} more wait", width)[0])
    room = most - len(lines) - bool(lines)
    share = max(_LEAST_ROWS, room // max(1, len(others)))
    rows = apart((renderer.opened(item, width, share) for item in others), after_blank=after_blank)
    rows = rows[-room:] if room > 0 else []
    return apart([rows, ["", *lines]] if lines else [rows], after_blank=after_blank)


FACTS = 300
"""The facts that are read first; four times as many whenever that was too little."""

_UNSEEN = frozenset(
    {"model_called", "usage", "step_started", "step_ended", "run_started", "audited", "request_refused"}
)
"""Frequent types that are not shown, and need not be decoded. A refused request is news only at the time."""


async def restored_facts(journal: Journal, least: int) -> tuple[list[Fact], bool]:
    """The last facts on the path to the leaf, for at least so many items, and whether there are more."""
    last, window = journal.state.last_seq, FACTS
    while True:
        after = max(0, last - window)
        facts = [fact for fact in await journal.history(after) if fact.seq <= last]
        on_path = visible_facts(facts, journal.state.leaf)
        if after == 0 or len(TranscriptView().take(on_path)) >= least:
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
    printables: Sequence[PrintableItem], renderer: ItemRenderer, most: int, width: int
) -> list[str]:
    """The rows of the last items, as many as fill so many rows of a terminal."""
    blocks: list[list[str]] = []
    count = 0
    for item in reversed(printables):
        if count >= most:
            break
        blocks.append(renderer.closed(item, width))
        count += sum(height(row, width) for row in blocks[-1])
    return apart(reversed(blocks), after_blank=False)


class TranscriptPrinter:
    """Prints items in their order, also when one takes a moment: an image, or one of an extension."""

    def __init__(
        self, renderer: ItemRenderer, extensions: ExtensionViews, app: Printer, pictures: Way = ""
    ) -> None:
        self._renderer = renderer
        self._extensions = extensions
        self._app = app
        self._pictures: Way = pictures
        self._pending: deque[PrintableItem] = deque()
        self._task: asyncio.Task[None] | None = None

    def take(self, printables: Sequence[PrintableItem]) -> None:
        if self._pending or any(map(self._takes_time, printables)):
            self._pending += printables
            if self._task is None or self._task.done():
                self._task = asyncio.ensure_future(self._print_pending())
        else:
            width = self._app.size.columns
            self._print(self._renderer.closed(item, width) for item in printables)

    async def _print_pending(self) -> None:
        while self._pending:
            item, width = self._pending[0], self._app.size.columns
            rendering = await self._extensions.render_call(item, width)
            rows = self._renderer.closed(item, width, rendering)
            self._print([[*rows, *await self._image_rows(item, width)]])
            self._pending.popleft()

    def _print(self, blocks: Iterable[Sequence[str]]) -> None:
        self._app.print(apart(blocks, after_blank=self._app.ends_blank))

    def _takes_time(self, item: PrintableItem) -> bool:
        return self._extensions.renderer(item) is not None or bool(self._pictures and _images(item))

    async def _image_rows(self, item: PrintableItem, width: int) -> list[str]:
        rows: list[str] = []
        for image in _images(item) if self._pictures else ():
            if picture := await asyncio.to_thread(images.picture_rows, image, self._pictures, width):
                rows += [*picture, ""]
        return rows

    async def finish(self) -> None:
        if self._task is not None:
            await self._task


def _images(item: PrintableItem) -> tuple[Image, ...]:
    if isinstance(item, CallItem):
        return item.result.images if item.result else ()
    return item.images if isinstance(item, items.UserItem) else ()
