"""Widgets, overlays and dialogs as data: what extensions pass, and what front ends receive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

Placement = Literal["above", "below"]
"""Where a widget is: above or below the editor."""
Anchor = Literal["center", "top", "bottom"]
RenderFunction = Callable[[int], str | Awaitable[str | None] | None]
"""Returns the lines at a width. An empty string hides it; None falls back to the text or Markdown."""
MAX_HZ = 30.0


class Content(msgspec.Struct, frozen=True):
    """A text, Markdown, or a render function, which takes precedence."""

    text: str = ""
    markdown: str = ""
    render: RenderFunction | None = None
    hz: float = 0
    """How often the function is called per second, 1 to 30; with 0, once for each width."""


class Style(msgspec.Struct, frozen=True):
    border: str = ""
    """Its colour, as `#rrggbb`."""
    borderless: bool = False


class Widget(msgspec.Struct, frozen=True):
    """A persistent display. One with the same id replaces it."""

    id: str
    content: Content | str
    placement: Placement = "above"
    style: Style = Style()
    priority: int = 0
    """Lower values come first; for equal ones, the older."""


class Visibility(msgspec.Struct, frozen=True):
    """Parts of the front end to hide."""

    hide_startup: bool = False
    hide_status: bool = False
    hide_separator: bool = False
    hide_hint: bool = False


class OverlayStyle(msgspec.Struct, frozen=True):
    border: str = ""
    background: str = ""


class Overlay(msgspec.Struct, frozen=True):
    """A modal window, with actions to choose from."""

    title: str = ""
    content: Content | str = ""
    actions: tuple[str, ...] = ()
    style: OverlayStyle = OverlayStyle()
    width: int = 0
    """In columns; 0 is 60 % of the terminal."""
    max_height: int = 0
    """In rows; 0 is 80 % of the terminal."""
    anchor: Anchor = "center"


class SelectResult(msgspec.Struct, frozen=True):
    value: str = ""
    index: int = -1
    cancelled: bool = False


class ConfirmResult(msgspec.Struct, frozen=True):
    value: bool = False
    cancelled: bool = False


class InputResult(msgspec.Struct, frozen=True):
    value: str = ""
    cancelled: bool = False


class MultiSelectResult(msgspec.Struct, frozen=True):
    values: tuple[str, ...] = ()
    indices: tuple[int, ...] = ()
    cancelled: bool = False


class OverlayResult(msgspec.Struct, frozen=True):
    """Without actions, closing it does not count as cancelling: the action is empty and the index -1."""

    action: str = ""
    index: int = -1
    cancelled: bool = False


class Rendering(msgspec.Struct, frozen=True):
    """Ask `host.ui.render(session, id, width)`, at most `hz` times a second."""

    id: str
    hz: float = 0


class BarView(msgspec.Struct, frozen=True, kw_only=True):
    """`header` and `footer`: one of each; the last one wins."""

    extension: str
    text: str = ""
    markdown: str = ""
    render: Rendering | None = None
    style: Style = Style()


class WidgetView(BarView, frozen=True, kw_only=True):
    """`widget:EXTENSION/ID`. Sorted by `priority`, then by `order`."""

    placement: Placement = "above"
    priority: int = 0
    order: int = 0


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """`status:EXTENSION/KEY`: a short text in the status line, sorted like widgets."""

    extension: str
    text: str
    priority: int = 0
    order: int = 0


class ThemeView(msgspec.Struct, frozen=True, kw_only=True):
    """`theme`: its name, and its colours by slot, for light and dark."""

    extension: str
    name: str
    colors: dict[str, dict[str, str]] = {}


class SelectDialog(msgspec.Struct, frozen=True, tag_field="dialog", tag="select"):
    """Answered with one of the question's choices."""


class ConfirmDialog(msgspec.Struct, frozen=True, tag_field="dialog", tag="confirm"):
    """Answered with `yes` or `no`."""

    default: bool = False


class InputDialog(msgspec.Struct, frozen=True, tag_field="dialog", tag="input"):
    """Answered with a text."""

    placeholder: str = ""
    default: str = ""


class MultiSelectDialog(msgspec.Struct, frozen=True, tag_field="dialog", tag="multi_select"):
    """Answered with a list of options."""

    options: tuple[str, ...]
    selected: tuple[int, ...]
    """The preselected options."""


class OverlayDialog(msgspec.Struct, frozen=True, tag_field="dialog", tag="overlay"):
    """Answered with one of the question's choices: an action, or `close` where it has none."""

    title: str = ""
    text: str = ""
    markdown: str = ""
    render: Rendering | None = None
    style: OverlayStyle = OverlayStyle()
    width: int = 0
    max_height: int = 0
    anchor: Anchor = "center"
    actions: tuple[str, ...] = ()


Dialog = SelectDialog | ConfirmDialog | InputDialog | MultiSelectDialog | OverlayDialog


def dialog_of(details: dict[str, Any] | None) -> Dialog | None:
    """How to render an extension's question; None for any other question."""
    if not details or "dialog" not in details:
        return None
    dialog: Dialog = msgspec.convert(details, Dialog)
    return dialog


def overlay_extent(dialog: OverlayDialog, columns: int, rows: int) -> tuple[int, int]:
    """Its width and maximum height in a terminal of this size."""
    width = max(30, dialog.width or columns * 60 // 100)
    return max(1, min(width, columns - 4)), max(1, min(dialog.max_height or rows * 80 // 100, rows))


def as_data(value: msgspec.Struct) -> Any:
    """As read from the log or a stream: lists, not tuples. Raises what encoding raises."""
    return msgspec.json.decode(msgspec.json.encode(value))


def as_content(content: Content | str) -> Content:
    return Content(content) if isinstance(content, str) else content
