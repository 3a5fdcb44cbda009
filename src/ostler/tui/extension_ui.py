"""What extensions show: widgets around the input line, status, panels and their own renderings."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.extensions.idle_host import active_host
from ostler.extensions.ui.themes import ThemeColors
from ostler.extensions.ui.types import BarView, Rendering, StatusView, Visibility, WidgetView
from ostler.history.items import CallItem
from ostler.schema.events import Event, LiveValue
from ostler.schema.facts import Fact
from ostler.schema.text import cut, one_line, printable
from ostler.sessions.session import Session
from ostler.tui.front_end import TuiFrontEnd
from ostler.tui.panels.panel import ModalPanel
from ostler.tui.plain.items import plain
from ostler.tui.render.boxes import barred, framed, inside
from ostler.tui.render.items import CallRendering, ItemRenderer, PrintableItem
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import Piece, drawn, fitted, muted_row, sgr, styled, wrapped
from ostler.tui.render.terminal_text import terminal_rows

if TYPE_CHECKING:
    from ostler.extensions.extension import ToolRenderer
    from ostler.extensions.host import ExtensionHost
    from ostler.tui.command_context import CommandContext

MOST_ROWS = 1000
"""Rows of content that scrolls, at most."""

_MOST_CACHED = 32


class ContentRows:
    """Caches rows, since each frame needs the same ones. A long text costs only the rows that are visible."""

    def __init__(self, colors: Callable[[], ThemeColors | None]) -> None:
        self._colors = colors
        self._cache: dict[tuple[object, ...], list[str]] = {}

    def text(self, text: str, width: int, most: int) -> list[str]:
        """Lines of text with their own colours."""
        return fitted(self._cached(_text_rows, _beginning(text, most, width), width), width)[:most]

    def markdown(self, text: str, width: int, most: int) -> list[str]:
        return fitted(self._cached(markdown_rows, _beginning(text, 4 * most, width), width), width)[:most]

    def _cached(
        self, draw: Callable[[str, int, ThemeColors | None], list[str]], text: str, width: int
    ) -> list[str]:
        colors = self._colors()
        key = (draw, text, width, colors)
        if key not in self._cache:
            while len(self._cache) >= _MOST_CACHED:
                del self._cache[next(iter(self._cache))]
            self._cache[key] = draw(text, width, colors)
        return self._cache[key]

    def shortened(self, rows: list[str], most: int) -> list[str]:
        """The rows that fit; the last one says that there are more."""
        if len(rows) <= most or most < 2:
            return rows[:most]
        return [*rows[: most - 1], muted_row("…", 1, self._colors())]


def shares(wanted: Sequence[int], room: int) -> list[int]:
    """Divides the rows, so that a large one leaves room for the others."""
    rows = [0] * len(wanted)
    while room > 0 and rows != [*wanted]:
        for place, want in enumerate(wanted):
            if rows[place] < want and room > 0:
                rows[place] += 1
                room -= 1
    return rows


def _beginning(text: str, lines: int, width: int) -> str:
    """The beginning of a text, a little more than fits."""
    longest = lines * max(1, width) * 2
    return "\n".join(text[: 4 * longest].split("\n", lines + 1)[: lines + 1])[:longest]


def _text_rows(text: str, width: int, colors: ThemeColors | None) -> list[str]:
    if "\x1b" in text:
        return terminal_rows(text, width, colors)
    return [drawn(row) for row in wrapped([Piece(printable(text))], width)] if text else []


_MOST_RENDERINGS = 64


class Renderings:
    """Shows the last rendering while the next one runs, at its own rate. Only visible ones are renewed."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._cache: dict[Hashable, tuple[str | None, float]] = {}
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}

    def get(
        self, key: Hashable, render: Callable[[], Awaitable[str | None]], hz: float = 0.0
    ) -> tuple[bool, str | None]:
        """Whether it has been rendered, and the result."""
        loop = asyncio.get_running_loop()
        cached = self._cache.get(key)
        is_old = cached is None or (hz > 0 and loop.time() - cached[1] >= 1 / hz)
        if is_old and key not in self._tasks:
            self._tasks[key] = asyncio.ensure_future(self._render(key, render, loop.time()))
        if hz > 0 and key not in self._timers:
            self._timers[key] = loop.call_later(1 / hz, self._expire, key)
        return (False, None) if cached is None else (True, cached[0])

    async def _render(self, key: Hashable, render: Callable[[], Awaitable[str | None]], now: float) -> None:
        before = self._cache.get(key)
        try:
            text = await render()
        finally:
            del self._tasks[key]
        while len(self._cache) >= _MOST_RENDERINGS and key not in self._cache:
            del self._cache[next(iter(self._cache))]
        self._cache[key] = text, now
        if before is None or text != before[0]:
            self._changed()

    def _expire(self, key: Hashable) -> None:
        del self._timers[key]
        self._changed()

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()


_KEY_NAMES = {"pgup": "pageup", "pgdown": "pagedown"}

_PROTOCOL_KEYS = frozenset(
    {"up", "down", "left", "right", "enter", "tab", "backspace", "delete", "home", "end", "esc", "ctrl+c"}
    | {*_KEY_NAMES.values()}
)


class ExtensionPanel(ModalPanel[None]):
    """A panel of an extension process, which draws the lines. `press` gets the names of keys."""

    def __init__(
        self, view: dict[str, Any], renderer: ItemRenderer, press: Callable[[str, str], None]
    ) -> None:
        self.view = view
        """The live value with `title`, `lines` and `footer`."""
        self._renderer = renderer
        self._press = press

    def rows(self, width: int, most: int) -> list[str]:
        colors, room = self._renderer.colors, inside(width)
        rows = [row for line in self.view["lines"] for row in terminal_rows(line, room, colors) or [""]]
        footer = self._renderer.note(self.view["footer"], room) if self.view["footer"] else []
        rows = [*fitted(rows, room)[: max(1, most - 2 - len(footer))], *footer]
        return framed(rows, width, colors, title=self.view["title"], slot="accent")[:most]

    def key(self, key: str) -> None:
        if len(key) == 1:
            self._press("rune", key)
        else:
            name = _KEY_NAMES.get(key, key)
            self._press(name if name in _PROTOCOL_KEYS else "unknown", "")


PROMPT = "> "
_LONGEST_NOTE = 40
"""Cells of a status note, at most."""


class ExtensionViews:
    """Follows the live values of the session, and draws the regions of extensions.

    It never waits for their code: late results appear when they arrive.
    """

    def __init__(self, context: CommandContext, front_end: TuiFrontEnd) -> None:
        self._context = context
        self._front_end = front_end
        self._renderer = renderer = context.rows
        self._panels = context.panels
        self._values: dict[str, Any] = {}
        self._open: dict[str, ExtensionPanel] = {}
        self._size = (0, 0)
        self._line: str | None = None
        """The last rendering of the input line, until the next one arrives."""
        self.renderings = Renderings(self._changed)
        self._content = ContentRows(lambda: renderer.colors)
        renderer.open_rendering = self.open_rendering

    @property
    def _session(self) -> Session:
        return self._context.conversation.session

    def _changed(self) -> None:
        self._context.app.refresh()

    @property
    def host(self) -> ExtensionHost | None:
        host = active_host(self._session.harness)
        if host is not None:
            self._front_end.use_themes(host.ui.themes)
        return host

    def begin(self) -> None:
        """Takes the present live values, at the start and for another session."""
        for name in tuple(self._values):
            self._take(name, None)
        if self.host is not None:
            for name, value in self.host.ui.live_values(self._session.id).items():
                self._take(name, value)

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            if isinstance(one, LiveValue):
                self._take(one.name, one.value)

    def _take(self, name: str, value: Any) -> None:
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value
        if name.startswith("panel:"):
            self._take_panel(name, value)
        self._changed()

    def _take_panel(self, name: str, value: Any) -> None:
        if value is None:
            if name in self._open:
                self._panels.close(self._open.pop(name))
        elif name in self._open:
            self._open[name].view = value
        else:
            panel = ExtensionPanel(value, self._renderer, partial(self._press, name))
            self._open[name] = panel
            self._panels.open(panel)

    def _press(self, panel: str, key: str, text: str) -> None:
        if self.host is None or not self.host.ui.panel_key(self._session.id, panel, key, text):
            self._take(panel, None)  # its extension is gone

    def report_size(self) -> None:
        """Called before each frame: reports a new size of the terminal."""
        size = self._front_end.size()
        if size != self._size and self._size != (0, 0) and self.host is not None:
            self.host.ui.resized(*size)
        self._size = size

    # --- around the line --------------------------------------------------------------------------------

    def header(self, width: int, most: int) -> list[str]:
        return self._bar("header", width, most)

    def footer(self, width: int, most: int) -> list[str]:
        return self._bar("footer", width, most)

    def above(self, width: int, most: int) -> list[str]:
        return self._widgets("above", width, most)

    def below(self, width: int, most: int) -> list[str]:
        return self._widgets("below", width, most)

    def _bar(self, name: str, width: int, most: int) -> list[str]:
        if name not in self._values:
            return []
        return self._framed([msgspec.convert(self._values[name], BarView)], width, max(1, most // 2))

    def _widgets(self, placement: str, width: int, most: int) -> list[str]:
        views = [msgspec.convert(one, WidgetView) for one in self._named("widget:")]
        views = sorted(views, key=lambda one: (one.priority, one.order))
        return self._framed([one for one in views if one.placement == placement], width, max(1, most // 2))

    def _framed(self, views: Sequence[BarView], width: int, most: int) -> list[str]:
        """Widgets, one below the other; each leaves room for the others."""
        contents = []
        for view in views:
            room = width if view.style.borderless else inside(width)
            contents.append(self.content_rows(view.text, view.markdown, view.render, room, most + 1))
        rows: list[str] = []
        for view, content, share in zip(views, contents, shares([*map(len, contents)], most), strict=True):
            content = self._content.shortened(content, share)
            rows += content if view.style.borderless else self._bordered(view, content, width)
        return rows

    def _bordered(self, view: BarView, rows: list[str], width: int) -> list[str]:
        colors = self._renderer.colors
        border = styled(view.style.border) if colors and colors.name else ""
        return barred(rows, width, border or sgr(colors, "border"))

    def content_rows(
        self, text: str, markdown: str, render: Rendering | None, width: int, most: int = MOST_ROWS
    ) -> list[str]:
        """The rows of a widget or an overlay."""
        if render is not None and (host := self.host) is not None:
            session, id = self._session.id, render.id
            _, lines = self.renderings.get((id, width), lambda: host.ui.render(session, id, width), render.hz)
            if lines is not None:
                return self._content.text(lines, width, most)
        if markdown:
            return self._content.markdown(markdown, width, most)
        return self._content.text(text, width, most)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the status row, in order."""
        views = [msgspec.convert(one, StatusView) for one in self._named("status:")]
        views = sorted(views, key=lambda one: (one.priority, one.order))
        return tuple(cut(text, _LONGEST_NOTE) for one in views if (text := one_line(plain(one.text))))

    @property
    def visibility(self) -> Visibility:
        return msgspec.convert(self._values.get("visibility", {}), Visibility)

    def _named(self, prefix: str) -> list[Any]:
        return [value for name, value in self._values.items() if name.startswith(prefix)]

    # --- the line itself --------------------------------------------------------------------------------

    def line(self, width: int, most: int) -> list[str]:
        """The input line as an extension draws it; empty if none does, or not yet."""
        host, editor = self.host, self._front_end.editor
        if host is None or editor is None or editor.render is None:
            return []
        default = f"{PROMPT}{self._front_end.editor_text()}"
        is_rendered, text = self.renderings.get(
            ("line", id(editor), default, width), lambda: host.ui.editor_lines(width, default)
        )
        if is_rendered:
            self._line = text if text != default else None
        return terminal_rows(self._line, width, self._renderer.colors)[:most] if self._line else []

    # --- calls ------------------------------------------------------------------------------------------

    def renderer(self, item: PrintableItem) -> ToolRenderer | None:
        if self.host is None or not isinstance(item, CallItem):
            return None
        return self.host.ui.tool_renderer(item.name)

    def open_rendering(self, item: CallItem, width: int) -> CallRendering | None:
        """An extension's rendering of a running call."""
        host, renderer = self.host, self.renderer(item)
        if host is None or renderer is None:
            return None
        session, name, arguments = self._session.id, item.name, item.arguments
        header = None
        if renderer.header is not None and arguments is not None:
            header = self.renderings.get(
                ("header", item.call, item.stage, width),
                lambda: host.ui.tool_header(session, name, arguments, inside(width)),
            )[1]
        return _call_rendering(renderer, header)

    async def render_call(self, item: PrintableItem, width: int) -> CallRendering | None:
        """An extension's rendering of a finished call."""
        host, renderer = self.host, self.renderer(item)
        if host is None or renderer is None or not isinstance(item, CallItem):
            return None
        session, room = self._session.id, inside(width)
        header = await host.ui.tool_header(session, item.name, item.arguments or {}, room)
        text = item.result.text if item.result else ""
        body = await host.ui.tool_body(session, item.name, text, item.stage != "done", room)
        return _call_rendering(renderer, header, body)


def _call_rendering(tool: ToolRenderer, header: str | None, body: str | None = None) -> CallRendering:
    return CallRendering(tool.title, tool.color, tool.background, tool.markdown, header, body)
