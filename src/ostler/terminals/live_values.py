"""What a terminal agent shows at this moment: screen, status, and the message it is drawing."""

from __future__ import annotations

import asyncio
from typing import Any

from ostler.kernel.journal import Journal
from ostler.terminals.driving import DrivenTerminal
from ostler.terminals.tracker import Status
from ostler.vocabulary.events import LiveValue

SCREEN, STATUS, MESSAGE = "terminal:screen", "terminal:status", "terminal:message"

_INTERVAL = 0.1
"""Seconds between two pictures of a screen that moves: more than that nobody can read."""


class LiveValues:
    """Publishes what has changed, and nothing else."""

    def __init__(self, journal: Journal, terminal: DrivenTerminal) -> None:
        self._journal = journal
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._shown: dict[str, Any] = {}
        self._message: dict[str, Any] | None = None
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def show_status(self, status: Status) -> None:
        self._show(STATUS, {"status": status, "agent_type": self._terminal.tracker.agent_type})

    def show_message(self, message: tuple[int, str] | None) -> None:
        """Of a message that has become a fact nothing is left to show."""
        self._message = {"id": message[0], "text": message[1]} if message else None
        if message is None:
            self._show(MESSAGE, None)
        else:
            self._show_soon()

    def show_screen(self) -> None:
        self._show_soon()

    def clear(self) -> None:
        """Its terminal is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for name in list(self._shown):
            self._show(name, None)

    def _show_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(self._next, self._show_picture)

    def _show_picture(self) -> None:
        self._timer = None
        self._next = self._loop.time() + _INTERVAL
        screen = self._terminal.screen
        cursor = screen.cursor()
        self._show(
            SCREEN,
            {
                "columns": screen.columns,
                "rows": screen.rows,
                "text": "\n".join(screen.lines()).rstrip("\n"),
                "cursor": {"column": cursor.column, "row": cursor.row, "visible": cursor.visible},
            },
        )
        if self._message is not None:
            self._show(MESSAGE, self._message)

    def _show(self, name: str, value: Any) -> None:
        if self._shown.get(name) == value:
            return
        if value is None:
            del self._shown[name]
        else:
            self._shown[name] = value
        self._journal.publish([LiveValue(name, value)])
