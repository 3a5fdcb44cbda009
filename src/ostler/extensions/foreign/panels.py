"""Panels: a few lines that an extension draws, and keys that it gets while people look at them."""

from __future__ import annotations

import msgspec

from ostler.extensions.context import ExtensionContext
from ostler.extensions.foreign import frames
from ostler.extensions.foreign.client import Client


class ShownPanel(msgspec.Struct, frozen=True):
    """What faces get of a panel."""

    title: str
    lines: list[str]
    footer: str


class Panels:
    """Those that are open. A panel is a live value `panel:<extension>/<id>` of its session."""

    def __init__(self, extension: str, client: Client) -> None:
        self._extension = extension
        self._client = client
        self._open: dict[tuple[str, str], tuple[ExtensionContext, frames.Panel]] = {}

    def open(self, context: ExtensionContext, panel: frames.Panel) -> None:
        self._open[context.session_id, panel.id] = context, panel
        self._show(context, panel)
        if (size := context.face.size()) != (0, 0):
            self.resize(context.session_id, *size)

    def render(self, frame: frames.PanelRender) -> None:
        """Draws what is open anew; an empty title keeps the old one. What was closed meanwhile stays so."""
        for key in self._named(frame.session, frame.panel_id):
            context, panel = self._open[key]
            drawn = frames.Panel(panel.id, frame.title or panel.title, frame.lines, frame.footer)
            self._open[key] = context, drawn
            self._show(context, drawn)

    def close(self, session: str, panel: str, *, tell: bool = False) -> bool:
        """With `tell` by people: the extension hears of it. False when it is not open."""
        closing = self._named(session, panel)
        for key in closing:
            context, _ = self._open.pop(key)
            context.attending.board.remove(self._name(panel))
            if tell:
                self._client.send(frames.PanelClosed(panel, context.session_id))
        return bool(closing)

    def close_all(self, session: str = "") -> None:
        for where, panel in tuple(self._open):
            if not session or where == session:
                self.close(where, panel)

    def key(self, session: str, panel: str, key: str, text: str = "") -> bool:
        """False when no such panel is open: the key belongs to somebody else."""
        if (session, panel) not in self._open:
            return False
        self._client.send(frames.PanelKey(panel, key, text, session))
        return True

    def resize(self, session: str, width: int, height: int) -> None:
        if any(where == session for where, _ in self._open):
            self._client.send(frames.PanelResize(width, height, session))

    def _named(self, session: str, panel: str) -> list[tuple[str, str]]:
        return [key for key in self._open if key[1] == panel and session in ("", key[0])]

    def _show(self, context: ExtensionContext, panel: frames.Panel) -> None:
        shown = ShownPanel(panel.title, list(panel.lines), panel.footer)
        context.attending.board.put(self._name(panel.id), shown, self)

    def _name(self, panel: str) -> str:
        return f"panel:{self._extension}/{panel}"
