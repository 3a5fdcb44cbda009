"""Transcript items: what people see of a session, whichever front end shows it.

`ItemBuilder` makes them from events. An item is never changed in place: a changed item is a new object with
the same key. An answer has one item per block, in the order in which the blocks stream; all of them have the
`seq` of their message.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import lazy_module
from ostler.permissions.rules import preview, preview_line
from ostler.schema.errors import Failure
from ostler.schema.events import Printed, QuestionAsked, RunStatus, TodoItem, Totals
from ostler.schema.messages import BlobRef, Block, File, Image, PlainBlock, Text, text_of
from ostler.schema.outcomes import Display

if TYPE_CHECKING:
    from ostler.context import tokenizers
    from ostler.tools import truncation
else:
    tokenizers = lazy_module("ostler.context.tokenizers")
    truncation = lazy_module("ostler.tools.truncation")


class BaseItem(msgspec.Struct, frozen=True, tag_field="kind"):
    """The fields of every item."""

    key: str
    """Stays the same while the item changes: `fact:12`, `text:MSG:0`, `call:ID`."""
    seq: int = 0
    """The number of the fact with its content; 0 while only live events describe it."""
    anchor: int = 0
    """The entry it belongs to: it is on the path while that entry is. 0: always."""
    run: str = ""
    time_ms: int = 0
    label: str = ""
    hidden: bool = False


class UserItem(BaseItem, frozen=True, tag="user"):
    """A message to the model: a prompt, a steer, a reminder."""

    content: tuple[PlainBlock, ...] = ()
    source: str = "prompt"
    request: str = ""
    delivered: bool = False
    """A terminal agent has accepted it."""

    @property
    def text(self) -> str:
        """The first text: what was typed. The others hold the files that it mentions."""
        return first_text(self.content)

    @property
    def attachments(self) -> tuple[str, ...]:
        return attachments_of(self.content)

    @property
    def images(self) -> tuple[Image, ...]:
        return images_in(self.content)


class TextItem(BaseItem, frozen=True, tag="text"):
    """A text block of an answer."""

    message: str = ""
    block: int = 0
    text: str = ""
    model: str = ""
    complete: bool = False
    cut: Literal["", "length", "refusal"] = ""
    """Why the model stopped before the end. Only then can the text be empty."""
    drawn: bool = False
    """Copied from an agent's terminal: it is no Markdown."""
    revised: bool = False


class ReasoningItem(BaseItem, frozen=True, tag="reasoning"):
    """A reasoning block of an answer."""

    message: str = ""
    block: int = 0
    text: str = ""
    seconds: float = 0.0
    complete: bool = False


class MediaItem(BaseItem, frozen=True, tag="media"):
    """An image or a file in an answer."""

    message: str = ""
    block: int = 0
    content: Image | File = Image("")


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    url: str = ""
    title: str = ""
    id: str = ""


class SourcesItem(BaseItem, frozen=True, tag="sources"):
    """The sources that an answer cites."""

    message: str = ""
    sources: tuple[Source, ...] = ()


class CallResult(msgspec.Struct, frozen=True):
    """The result of a call."""

    seq: int = 0
    content: tuple[PlainBlock, ...] = ()
    failed: str | None = None
    details: dict[str, Any] | None = None
    summary: str = ""
    output: BlobRef | None = None
    """The whole output, where `content` has only a part of it."""
    duration_ms: int = 0
    repeats: int = 0

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def diff(self) -> str:
        return str((self.details or {}).get("diff") or "")

    @property
    def images(self) -> tuple[Image, ...]:
        return images_in(self.content)


class ChildItem(BaseItem, frozen=True, tag="child"):
    """A child session, below its call or, if an extension started it between runs, on its own."""

    session: str = ""
    agent: str = ""
    task: str = ""
    extension: str = ""
    status: RunStatus | Literal["running"] = "running"
    reason: str = ""
    totals: Totals | None = None
    """Of its own runs."""
    children: Totals = Totals()
    """Of its children."""
    activity: str = ""
    """The last line that it wrote, or the call that it makes."""
    talking: bool = False
    """`activity` is text that still grows."""


CallStage = Literal[
    "writing",
    "called",
    "asking",
    "running",
    "deferred",
    "done",
    "failed",
    "refused",
    "cancelled",
    "abandoned",
]


class CallItem(BaseItem, frozen=True, tag="call"):
    """A tool call, from the first character of its arguments to its result; or a person's `!command`."""

    call: str = ""
    message: str = ""
    called_seq: int = 0
    """The number of its `tool_called`."""
    name: str = ""
    tool_kind: str = "other"
    display: Display | None = None
    arguments: dict[str, Any] | None = None
    arguments_text: str = ""
    malformed: str = ""
    stage: CallStage = "writing"
    output: str = ""
    """What it printed so far; empty once there is a result."""
    allowed_by: str = ""
    question: str = ""
    """The id of the last question about it."""
    note: str = ""
    """What a deferred call waits for."""
    children: tuple[ChildItem, ...] = ()
    result: CallResult | None = None

    @property
    def title(self) -> str:
        """What the call is about, in one line: as its tool declares it, or from its arguments."""
        return call_title(self.name, self.arguments or {}, self.display)


class QuestionItem(BaseItem, frozen=True, tag="question"):
    """A question to a person."""

    id: str = ""
    session: str = ""
    agent: str = ""
    """The child that asks; empty for the session itself."""
    asked: QuestionAsked | None = None
    state: Literal["open", "answered", "declined", "withdrawn"] = "open"
    answer: Any = None
    by: str = ""
    identity: str = ""
    """Who answered: `user:NAME` or `token:NAME`."""
    answered_seq: int = 0
    """The number of its `question_answered`; 0 if it is open, or ended with its run."""


class TodoListItem(BaseItem, frozen=True, tag="todo_list"):
    """A to-do list as it is from here on."""

    list: str = "main"
    items: tuple[TodoItem, ...] = ()


class ExtensionItem(BaseItem, frozen=True, tag="extension"):
    """An entry of an extension, or a command of one that a person ran."""

    extension: str = ""
    name: str = ""
    command: str = ""
    """The command line; empty for an entry."""
    data: Any = None
    text: str = ""
    failed: bool = False


class PrintedItem(BaseItem, frozen=True, tag="printed"):
    """What an extension printed."""

    printed: Printed = Printed("")


class RunEndItem(BaseItem, frozen=True, tag="run_end"):
    """The end of a run."""

    status: RunStatus = "completed"
    reason: str = ""
    failure: Failure | None = None
    own: Totals = Totals()
    children: Totals = Totals()


class SummaryItem(BaseItem, frozen=True, tag="summary"):
    """What the model receives in place of earlier messages, or of a branch."""

    source: Literal["compaction", "branch", "history"] = "compaction"
    text: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    undone: bool = False


NoticeCode = Literal[
    "retry",
    "fallback",
    "model_failed",
    "step_refused",
    "warned",
    "request_refused",
    "prompts_held",
    "waiting",
    "settings",
    "permission",
    "withheld",
    "compaction_undone",
    "unknown",
    "store_failed",
    "stream_incomplete",
]

Level = Literal["info", "warning", "error"]


class NoticeItem(BaseItem, frozen=True, tag="notice"):
    """A sentence about the session. A front end chooses by `code` which ones it shows."""

    code: NoticeCode = "warned"
    level: Level = "info"
    text: str = ""
    request: str = ""
    details: dict[str, Any] | None = None


Item = (
    UserItem
    | TextItem
    | ReasoningItem
    | MediaItem
    | SourcesItem
    | CallItem
    | ChildItem
    | QuestionItem
    | TodoListItem
    | ExtensionItem
    | PrintedItem
    | RunEndItem
    | SummaryItem
    | NoticeItem
)


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A new item that will change."""

    item: Item


class Grown(msgspec.Struct, frozen=True, gc=False):
    """Text was appended to a field of an open item."""

    key: str
    field: Literal["text", "arguments_text", "output", "activity"]
    text: str


class Changed(msgspec.Struct, frozen=True, gc=False):
    """An item is different now; one that was closed before stays closed."""

    item: Item


class Closed(msgspec.Struct, frozen=True, gc=False):
    """An item is final. It need not have been opened. A hidden one that was open is no longer an item."""

    item: Item


class PathMoved(msgspec.Struct, frozen=True, gc=False):
    """The session continues at another entry: items elsewhere are off the path now."""

    leaf: int


Change = Opened | Grown | Changed | Closed | PathMoved


def call_title(name: str, arguments: dict[str, Any], display: Display | None = None) -> str:
    title = display.title_for(arguments) if display else ""
    return preview_line(title) if title else preview(name, arguments)


def images_in(content: Sequence[Block]) -> tuple[Image, ...]:
    return tuple([block for block in content if isinstance(block, Image)])


def first_text(content: Sequence[Block]) -> str:
    return next((block.text for block in content if isinstance(block, Text)), "")


_HEADING = re.compile(r"--- (.+), (?:as read shows it|without what is ignored or hidden) ---")
"""What `context/mentions.py` writes above the content of a file or a folder."""


def attachments_of(content: Sequence[Block]) -> tuple[str, ...]:
    """The files, folders and images of a prompt by name, without their content."""
    first = next((block for block in content if isinstance(block, Text)), None)
    names: list[str] = []
    is_captioned = False
    for block in content:
        if block is first:
            continue
        if not (is_captioned and isinstance(block, Image)):
            names.append(_attachment_name(block))
        is_captioned = isinstance(block, Text)  # an image file follows a text with its name
    return tuple(filter(None, names))


def _attachment_name(block: Block) -> str:
    match block:
        case Text(text=text):
            heading, _, body = text.rstrip("\n").partition("\n")
            lines = len(body.splitlines())
            return _HEADING.sub(r"\1", heading) + (f" · {lines} line{'s' * (lines > 1)}" if lines else "")
        case Image():
            return image_text(block)
        case File(name=name, media_type=media_type):
            return name or media_type
        case _:
            return ""


def image_text(image: Image) -> str:
    """`image · image/png · 640×480 · 12.3 KiB`, as far as it is known."""
    content = image_bytes(image)
    size = tokenizers.picture_size(content)
    about = [
        f"{size[0]}×{size[1]}" if size else "",
        truncation.size_text(len(content)) if content else "",
        image.url if not content else "",
    ]
    return " · ".join(filter(None, ["image", image.media_type, *about]))


def image_bytes(image: Image) -> bytes:
    try:
        return b64decode(image.data)
    except (NotBase64, ValueError):
        return b""
