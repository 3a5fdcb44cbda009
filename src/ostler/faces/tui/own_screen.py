"""A screen beside the one with the conversation, as terminals have it: the other one stays as it is."""

from __future__ import annotations

from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.renderer import Renderer


class OwnScreen:
    """Keeps, while it is seen, what the toolkit knows of the other one."""

    def __init__(self) -> None:
        self.is_seen = False
        self._other: tuple[Screen | None, Size | None, Point] = None, None, Point(0, 0)

    def set(self, is_seen: bool, renderer: Renderer) -> None:
        if is_seen == self.is_seen:
            return
        self.is_seen = is_seen
        if is_seen:
            self._other = renderer._last_screen, renderer._last_size, renderer._cursor_pos
            renderer.output.enter_alternate_screen()
            renderer._last_screen = renderer._last_size = None
            renderer._cursor_pos = Point(0, 0)
            return
        renderer.output.quit_alternate_screen()
        renderer._last_screen, renderer._last_size, renderer._cursor_pos = self._other
        if renderer._last_size == renderer.output.get_size():
            renderer.erase(leave_alternate_screen=False)
