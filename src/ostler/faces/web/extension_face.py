"""The web page as a face of extensions: what they want of it reaches it by the stream of their session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ostler.extensions.face import Headless
from ostler.kernel.harness import Harness
from ostler.vocabulary.events import LiveValue

Switch = Callable[[Path, str, str], Awaitable[str]]
"""Goes on in that session, or in a new one in that folder, with this prompt; returns its id."""


class WebFace(Headless):
    """Pages come and go, there may be none or many, and each is somebody's own: an extension can speak to
    all of them that follow its session, and knows nothing of what they look like.

    Two live values are for the page to act on, when they come behind `caught_up`: `switch` names a session
    to show, `editor` a text to put where one types. Each has a `number`: the same once more is another wish.
    """

    name = "web"
    interactive = True

    def __init__(self, harness: Harness, switch: Switch) -> None:
        self.notices: list[str] = []
        """What was said of extensions while they were loaded."""
        self._harness = harness
        self._switch = switch
        self._wishes = 0

    def set_editor_text(self, text: str) -> None:
        self._wish("editor", {"text": text})

    async def switch(self, session: str, prompt: str) -> str:
        shown = await self._switch(self._harness.cwd, session, prompt)
        self._wish("switch", {"session": shown})
        return shown

    def _wish(self, name: str, value: dict[str, Any]) -> None:
        self._wishes += 1
        for attending in getattr(self._harness.attendant, "sessions", {}).values():
            if attending.session.harness is self._harness:
                attending.session.journal.publish([LiveValue(name, {**value, "number": self._wishes})])
