"""From a driven agent to the emitter."""

from __future__ import annotations

import asyncio

from ostler.faces.web.agentapi.emitter import Emitter
from ostler.terminals.driven import DrivenAgent

SCREEN_INTERVAL = 0.025
"""Seconds between two screens."""


class Following:
    """Passes on what changes: first the status, then messages, then the screen.

    A screen is only read while somebody looks at it, and not for each piece that is drawn.
    """

    def __init__(self, agent: DrivenAgent, emitter: Emitter) -> None:
        self._agent = agent
        self._emitter = emitter
        self._next_screen = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._stop = agent.observe(self)
        self.changed()

    def changed(self) -> None:
        self._emitter.emit_status(self._agent.status)
        self._emitter.emit_messages(self._agent.messages)
        if self._timer is None and self._emitter.wants("screen_update"):
            loop = asyncio.get_running_loop()
            if loop.time() >= self._next_screen:
                self.show_screen()
            else:
                self._timer = loop.call_at(self._next_screen, self.show_screen)

    def warned(self, problem: str) -> None:
        self._emitter.warn(problem)

    def show_screen(self) -> None:
        """As it is now, whoever looks or is about to."""
        self._forget_timer()
        self._next_screen = asyncio.get_running_loop().time() + SCREEN_INTERVAL
        self._emitter.emit_screen(self._agent.shown)

    def close(self) -> None:
        self._forget_timer()
        self._stop()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
