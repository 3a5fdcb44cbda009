"""What extensions show in a session: around the line to type in, in the status, and in panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.extensions.lookout import present_host
from ostler.extensions.showing.ui_data import Rendering, Shown, ShownStatus, ShownWidget, Visibility
from ostler.faces.tui.block_rows import BlockRows, CallDress
from ostler.faces.tui.block_words import plain
from ostler.faces.tui.blocks import CallBlock, Item
from ostler.faces.tui.drawing.boxes import barred, inside
from ostler.faces.tui.drawing.pieces import cut, one_line, sgr, styled
from ostler.faces.tui.drawing.terminal_text import terminal_rows
from ostler.faces.tui.extension_content import MOST_ROWS, ContentRows, shares
from ostler.faces.tui.face import TuiFace
from ostler.faces.tui.foreign_panel import ForeignPanel
from ostler.faces.tui.panels import Panels
from ostler.faces.tui.renderings import Renderings
from ostler.runs.session import Session
from ostler.vocabulary.events import Event, LiveValue
from ostler.vocabulary.facts import Fact

if TYPE_CHECKING:  # loaded when there are extensions
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.registrations import ToolRenderer

PROMPT = "> "
_LONGEST_NOTE = 40
"""Cells: a longer one would never find room in the status."""


class ExtensionUi:
    """Follows the live values of the session that is shown, and draws every region that is theirs.

    Code of extensions is never waited for: what is late is shown when it is there.
    """

    def __init__(
        self,
        session: Callable[[], Session],
        face: TuiFace,
        draw: BlockRows,
        panels: Panels,
        changed: Callable[[], None],
    ) -> None:
        self._shown = session
        self._face = face
        self._draw = draw
        self._panels = panels
        self._changed = changed
        self._values: dict[str, Any] = {}
        self._open: dict[str, ForeignPanel] = {}
        self._size = (0, 0)
        self._line: str | None = None
        """How the line to type in was drawn last: it is seen until the next one is there."""
        self.renderings = Renderings(changed)
        self._content = ContentRows(lambda: draw.colors)
        draw.open_dress = self.open_dress

    @property
    def _session(self) -> Session:
        return self._shown()

    @property
    def host(self) -> ExtensionHost | None:
        host = present_host(self._session.harness)
        if host is not None:
            self._face.take_book(host.themes)
        return host

    def begin(self) -> None:
        """With what is shown already: at first, and whenever another session is shown."""
        for name in tuple(self._values):
            self._take(name, None)
        if self.host is not None:
            for name, value in self.host.live_values(self._session.id).items():
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
        panel = self._open.get(name)
        if value is None:
            if panel is not None:
                self._panels.close(self._open.pop(name))
        elif panel is not None:
            panel.shown = value
        else:
            panel = ForeignPanel(value, self._draw, lambda key, text: self._press(name, key, text))
            self._open[name] = panel
            self._panels.open(panel)

    def _press(self, panel: str, key: str, text: str) -> None:
        if self.host is None or not self.host.panel_key(self._session.id, panel, key, text):
            self._take(panel, None)  # its extension is gone

    def look_at_size(self) -> None:
        """Before each frame: whether the terminal has another size now."""
        size = self._face.size()
        if size != self._size and self._size != (0, 0) and self.host is not None:
            self.host.resized(*size)
        self._size = size

    def stop(self) -> None:
        self.renderings.stop()

    # --- around the line ------------------------------------------------------------------------------

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
        return self._framed([msgspec.convert(self._values[name], Shown)], width, max(1, most // 2))

    def _widgets(self, placement: str, width: int, most: int) -> list[str]:
        shown = [msgspec.convert(self._values[name], ShownWidget) for name in self._named("widget:")]
        chosen = sorted(
            (one for one in shown if one.placement == placement), key=lambda one: (one.priority, one.order)
        )
        return self._framed(chosen, width, max(1, most // 2))

    def _framed(self, shown: Sequence[Shown], width: int, most: int) -> list[str]:
        """One below the other; none of them takes the room of all."""
        drawn = [
            self.content_rows(
                one.text,
                one.markdown,
                one.render,
                width if one.style.borderless else inside(width),
                most + 1,
            )
            for one in shown
        ]
        given = shares([len(rows) for rows in drawn], most)
        return [
            row
            for one, rows, room in zip(shown, drawn, given, strict=True)
            for row in self._bordered(one, self._content.shortened(rows, room), width)
        ]

    def _bordered(self, shown: Shown, rows: list[str], width: int) -> list[str]:
        if shown.style.borderless:
            return rows
        colors = self._draw.colors
        border = styled(shown.style.border) if colors and colors.name else ""
        return barred(rows, width, border or sgr(colors, "border"))

    def content_rows(
        self, text: str, markdown: str, render: Rendering | None, width: int, most: int = MOST_ROWS
    ) -> list[str]:
        """Of a widget or an overlay, at a width."""
        lines = self._rendered(render, width) if render is not None else None
        if lines is not None:
            return self._content.text(lines, width, most)
        if markdown:
            return self._content.markdown(markdown, width, most)
        return self._content.text(text, width, most)

    def _rendered(self, render: Rendering, width: int) -> str | None:
        host = self.host
        if host is None:
            return None
        session, id = self._session.id, render.id
        return self.renderings.look((id, width), lambda: host.render(session, id, width), render.hz)[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """For the status, in their order."""
        shown = [msgspec.convert(self._values[name], ShownStatus) for name in self._named("status:")]
        texts = (one.text for one in sorted(shown, key=lambda one: (one.priority, one.order)))
        return tuple(cut(words, _LONGEST_NOTE) for text in texts if (words := one_line(plain(text))))

    @property
    def visibility(self) -> Visibility:
        return msgspec.convert(self._values.get("visibility", {}), Visibility)

    def _named(self, prefix: str) -> list[str]:
        return [name for name in self._values if name.startswith(prefix)]

    # --- the line itself ------------------------------------------------------------------------------

    def line(self, width: int, most: int) -> list[str]:
        """How an extension draws the line to type in; nothing, if none does, or not yet."""
        host, editor = self.host, self._face.editor
        if host is None or editor is None or editor.render is None:
            return []
        default = f"{PROMPT}{self._face.editor_text()}"
        is_there, made = self.renderings.look(
            ("line", id(editor), default, width), lambda: host.editor_lines(width, default)
        )
        if is_there:
            self._line = made if made != default else None
        return terminal_rows(self._line, width, self._draw.colors)[:most] if self._line else []

    # --- calls ----------------------------------------------------------------------------------------

    def renderer(self, block: Item) -> ToolRenderer | None:
        if self.host is None or not isinstance(block, CallBlock):
            return None
        return self.host.tool_renderer(block.name)

    def open_dress(self, block: CallBlock, width: int) -> CallDress | None:
        """How a call looks that is under way."""
        host, renderer = self.host, self.renderer(block)
        if host is None or renderer is None:
            return None
        session, name, arguments = self._session.id, block.name, block.arguments
        header = None
        if renderer.header is not None and block.stage != "writing":
            header = self.renderings.look(
                ("header", block.call, block.stage, width),
                lambda: host.tool_header(session, name, arguments, inside(width)),
            )[1]
        return CallDress(renderer.title, renderer.color, renderer.background, renderer.markdown, header)

    async def dress(self, block: CallBlock, width: int) -> CallDress | None:
        """How a call looks that is over."""
        host, renderer = self.host, self.renderer(block)
        if host is None or renderer is None:
            return None
        session, room = self._session.id, inside(width)
        header = await host.tool_header(session, block.name, block.arguments, room)
        body = await host.tool_body(session, block.name, block.result, block.stage != "done", room)
        return CallDress(renderer.title, renderer.color, renderer.background, renderer.markdown, header, body)
