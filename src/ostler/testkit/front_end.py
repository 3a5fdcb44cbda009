"""A front end in memory, for tests of extensions: it draws as text, and answers questions.

face = FakeFrontEnd("yes", "blue")
host = ExtensionHost([extension], face=face)
harness = Harness(model=model, asker=face.ask)
host.install_into(harness)
session = await create_session(MemoryStore(), harness)
face.follow(session, host)
...
assert "3 left" in await face.screen()
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from textwrap import wrap
from typing import Any, TypeVar

import msgspec

from ostler.core.harness import OpenSession
from ostler.extensions.host import ExtensionHost
from ostler.extensions.ui.front_end import Editor, normalised_key
from ostler.extensions.ui.themes import DEFAULT
from ostler.extensions.ui.types import (
    BarView,
    OverlayDialog,
    Rendering,
    StatusView,
    Visibility,
    WidgetView,
    dialog_of,
    overlay_extent,
)
from ostler.schema.errors import CallRefused
from ostler.schema.events import Event, LiveValue, Printed, QuestionAsked
from ostler.schema.facts import Fact

CANCEL = object()
"""As an answer: the person closes the dialog."""

Kind = TypeVar("Kind", bound=WidgetView | StatusView)

_KNOWN_KEYS = frozenset({"enter", "backspace", "space", "ctrl+u"})


class FakeFrontEnd:
    """Implements `FrontEnd`. It answers questions with `answers`, one after the other, or with what `answer`
    returns, and with `CANCEL` when no answer is left.

    What happened is in `printed`, `questions`, `overlays`, `values`, `submitted`, `suspended_times`,
    `switched` and `exited`.
    """

    name = "test"
    interactive = True

    def __init__(
        self,
        *answers: Any,
        answer: Callable[[QuestionAsked], Any] | None = None,
        width: int = 80,
        height: int = 24,
        is_dark: bool = False,
    ) -> None:
        self.is_dark = is_dark
        self.printed: list[Printed] = []
        self.questions: list[QuestionAsked] = []
        self.overlays: list[str] = []
        """The drawing of each, when it opened."""
        self.values: dict[str, Any] = {}
        """The live values, by name."""
        self.typed = ""
        self.submitted: list[str] = []
        self.suspended_times = 0
        self.switched: list[tuple[str, str]] = []
        self.exited = False
        self._answers = iter(answers)
        self._answer = answer
        self._size = (width, height)
        self._theme = DEFAULT
        self._editor: Editor | None = None
        self._asking = 0
        self._host: ExtensionHost | None = None
        self._session: OpenSession | None = None

    def follow(self, session: OpenSession, host: ExtensionHost) -> Callable[[], None]:
        """Shows the session's live values from now on. Returns a function that stops it."""
        self._host, self._session = host, session
        self.values = host.ui.live_values(session.id)
        return session.journal.subscribe(self._receive)

    def _receive(self, batch: Sequence[Fact | Event]) -> None:
        for event in batch:
            match event:
                case Printed():
                    self.printed.append(event)
                case LiveValue(name=name, value=None):
                    self.values.pop(name, None)
                case LiveValue(name=name, value=value):
                    self.values[name] = value

    # --- questions ----------------------------------------------------------------------------------

    async def ask(self, asked: QuestionAsked) -> Any:
        """The asker of a harness."""
        self.questions.append(asked)
        if isinstance(dialog := dialog_of(asked.question.details), OverlayDialog):
            self.overlays.append(await self._overlay(dialog))
        self._asking += 1
        try:
            answer = self._answer(asked) if self._answer else next(self._answers, CANCEL)
            if inspect.isawaitable(answer):
                answer = await answer
        finally:
            self._asking -= 1
        if answer is CANCEL:
            raise CallRefused("the dialog was closed")
        return answer

    # --- the interface for extensions ---------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        return self._size

    def resize(self, width: int, height: int) -> None:
        self._size = (width, height)
        if self._host:
            self._host.ui.resized(width, height)

    def editor_text(self) -> str:
        return self.typed

    def set_editor_text(self, text: str) -> None:
        self.typed = text

    def set_editor(self, editor: Editor | None) -> None:
        self._editor = editor

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        self.suspended_times += 1
        yield

    def exit(self) -> None:
        self.exited = True

    def set_theme(self, name: str) -> None:
        self._theme = name

    def theme(self) -> str:
        return self._theme

    async def switch(self, session: str, prompt: str) -> str:
        self.switched.append((session, prompt))
        return session or f"ses_new_{len(self.switched)}"

    # --- keys ---------------------------------------------------------------------------------------

    async def press(self, *keys: str) -> None:
        """Presses one key after the other, as `a`, `enter` or `ctrl+shift+s`."""
        for key in keys:
            await self._press(normalised_key(key))

    async def _press(self, key: str) -> None:
        if key == "ctrl+c":
            self.exit()
            return
        host, session = self._here()
        if self._asking or await host.ui.shortcut(session.id, *_spellings(key)):
            return
        if self._editor is not None:
            action = await host.ui.editor_key(key, self.typed)
            if action.kind == "consume":
                return
            if action.kind == "submit":
                self._submit(action.text or self.typed)
                return
            other = normalised_key(action.key) if action.kind == "remap" else key
            key = other if other in _KNOWN_KEYS or len(other) == 1 else key
        if key == "enter":
            self._submit(self.typed)
        elif key == "backspace":
            self.typed = self.typed[:-1]
        elif key == "ctrl+u":
            self.typed = ""
        elif key == "space" or len(key) == 1:
            self.typed += " " if key == "space" else key

    def _submit(self, text: str) -> None:
        self.submitted.append(text)
        self.typed = ""

    # --- the screen ---------------------------------------------------------------------------------

    async def screen(self, width: int = 0) -> str:
        """The whole screen as text, from the header to the status line."""
        width = width or self._size[0]
        hidden = msgspec.convert(self.values.get("visibility", {}), Visibility)
        lines = await self._framed(self.bar("header"), width)
        lines += [line for widget in self.widgets("above") for line in await self._framed(widget, width)]
        lines += [] if hidden.hide_separator else ["─" * width]
        lines += (await self._here()[0].ui.editor_lines(width, f"> {self.typed}")).splitlines()
        lines += [line for widget in self.widgets("below") for line in await self._framed(widget, width)]
        lines += await self._framed(self.bar("footer"), width)
        if (status := self.status()) and not hidden.hide_status:
            lines.append(" · ".join(status)[:width])
        return "\n".join(lines)

    def widgets(self, placement: str = "") -> list[WidgetView]:
        """In their order."""
        return [view for _, view in self.views("widget:", WidgetView) if placement in ("", view.placement)]

    def status(self) -> list[str]:
        return [view.text for _, view in self.views("status:", StatusView)]

    def views(self, prefix: str, kind: type[Kind]) -> list[tuple[str, Kind]]:
        """The widgets or status texts with their ids, in their order."""
        values = [(name, value) for name, value in self.values.items() if name.startswith(prefix)]
        views = [(name.partition("/")[2], msgspec.convert(value, kind)) for name, value in values]
        return sorted(views, key=lambda item: (item[1].priority, item[1].order))

    def bar(self, name: str) -> BarView | None:
        """The header or the footer."""
        return msgspec.convert(self.values[name], BarView) if name in self.values else None

    async def call(
        self, tool: str, arguments: Mapping[str, Any], result: str = "", *, failed: bool = False
    ) -> str:
        """The drawing of a tool call and its result."""
        host, session = self._here()
        renderer, width = host.ui.tool_renderer(tool), self._size[0]
        header = await host.ui.tool_header(session.id, tool, arguments, width)
        body = await host.ui.tool_body(session.id, tool, result, failed, width)
        title = (renderer.title if renderer else "") or tool
        return f"{title if header is None else header}\n{result if body is None else body}".rstrip()

    def texts(self, level: str = "") -> list[str]:
        """The printed texts, of one level or of all."""
        return [printed.text for printed in self.printed if level in ("", printed.level)]

    async def _framed(self, view: BarView | None, width: int) -> list[str]:
        if view is None:
            return []
        edge = "" if view.style.borderless else "│ "
        text = await self._text(view.text, view.markdown, view.render, width - len(edge))
        return [f"{edge}{line}" for line in text.splitlines()]

    async def _text(self, text: str, markdown: str, render: Rendering | None, width: int) -> str:
        if render is not None:
            host, session = self._here()
            drawn = await host.ui.render(session.id, render.id, width)
            if drawn is not None:
                return drawn
        lines = (markdown or text).splitlines()
        return "\n".join(piece for line in lines for piece in (wrap(line, max(1, width)) or [""]))

    async def _overlay(self, dialog: OverlayDialog) -> str:
        columns, rows = self._size
        width, height = overlay_extent(dialog, columns, rows)
        text = await self._text(dialog.text, dialog.markdown, dialog.render, width)
        buttons = " ".join(f"[{action}]" for action in dialog.actions)
        room = height - bool(dialog.title) - bool(buttons)
        block = [*filter(None, [dialog.title]), *text.splitlines()[:room], *filter(None, [buttons])]
        free = {"top": 0, "center": (rows - len(block)) // 2, "bottom": rows - len(block)}[dialog.anchor]
        left = " " * ((columns - width) // 2)
        return "\n" * free + "\n".join(f"{left}{line}"[:columns] for line in block)

    def _here(self) -> tuple[ExtensionHost, OpenSession]:
        if self._host is None or self._session is None:
            raise RuntimeError("call face.follow(session, host) first")
        return self._host, self._session


def _spellings(key: str) -> tuple[str, ...]:
    """The text that a key types, and the stroke: `A` is also `shift+a`."""
    if len(key) == 1 and key.isupper():
        return key, f"shift+{key.lower()}"
    if key.startswith("shift+") and len(key) == len("shift+a"):
        return key[-1].upper(), key
    return (key,)
