"""`context.ui`: what an extension shows to people, asks of them, and does with the face."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from ostler.core.cancellation import running_stopwatch
from ostler.extensions.executor import is_async
from ostler.extensions.ui.themes import DEFAULT, Theme, ThemeColors
from ostler.extensions.ui.types import (
    BarView,
    ConfirmResult,
    Content,
    InputResult,
    MultiSelectResult,
    Overlay,
    OverlayResult,
    SelectResult,
    StatusView,
    Style,
    ThemeView,
    Visibility,
    Widget,
    WidgetView,
    as_content,
)
from ostler.schema.errors import UsageError

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext
    from ostler.extensions.ui.dialogs import Dialogs
    from ostler.extensions.ui.front_end import Editor


Returned = TypeVar("Returned")

_PLAIN = Style()


class ExtensionUI:
    """One extension's part of what is seen of one session. All of it goes when the extension does."""

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self._name = context.extension.name
        self._do = context.calls.call
        self._board = context.attending.board

    # --- what it shows --------------------------------------------------------------------------------

    def set_widget(self, widget: Widget) -> None:
        """Shows it, in the place of one with the same id."""
        name = f"widget:{self._name}/{widget.id}"

        def put() -> None:
            shown = WidgetView(
                **self._said(name, widget.content),
                style=widget.style,
                placement=widget.placement,
                priority=widget.priority,
                order=self._board.place_of(name),
            )
            self._board.put(name, shown, self)

        self._do(put)

    def remove_widget(self, id: str) -> None:
        self._remove(f"widget:{self._name}/{id}")

    def set_header(self, content: Content | str, style: Style = _PLAIN) -> None:
        """There is one header, and who sets it last has it."""
        self._set_bar("header", content, style)

    def remove_header(self) -> None:
        self._remove("header")

    def set_footer(self, content: Content | str, style: Style = _PLAIN) -> None:
        """There is one footer, and who sets it last has it."""
        self._set_bar("footer", content, style)

    def remove_footer(self) -> None:
        self._remove("footer")

    def set_status(self, key: str, text: str, priority: int = 0) -> None:
        """A few words in the line at the bottom. A face's own have priorities from 100 on."""
        name = f"status:{self._name}/{key}"

        def put() -> None:
            order = self._board.place_of(name)
            shown = StatusView(extension=self._name, text=text, priority=priority, order=order)
            self._board.put(name, shown, self)

        self._do(put)

    def remove_status(self, key: str) -> None:
        self._remove(f"status:{self._name}/{key}")

    def set_visibility(self, visibility: Visibility) -> None:
        """Replaces what was said before, also by others."""
        self._do(lambda: self._board.put("visibility", visibility, self))

    def _set_bar(self, name: str, content: Content | str, style: Style) -> None:
        self._do(lambda: self._board.put(name, BarView(**self._said(name, content), style=style), self))

    def _said(self, name: str, content: Content | str) -> dict[str, Any]:
        made, painter = as_content(content), self._context.attending.painter
        painter.drop(name)
        render = made.render and painter.keep(name, self._context.extension, made.render, made.hz)
        return {"extension": self._name, "text": made.text, "markdown": made.markdown, "render": render}

    def _remove(self, name: str) -> None:
        def remove() -> None:
            self._context.attending.painter.drop(name)
            self._board.remove(name)

        self._do(remove)

    # --- what it asks ---------------------------------------------------------------------------------

    @cached_property
    def _dialogs(self) -> Dialogs:
        from ostler.extensions.ui.dialogs import Dialogs

        return Dialogs(self._context)

    async def select(self, message: str, options: Sequence[str]) -> SelectResult:
        """One of the options."""
        return await self._dialogs.select(message, options)

    async def confirm(self, message: str, *, default: bool = False) -> ConfirmResult:
        """Yes or no; `default` is what is marked when it opens."""
        return await self._dialogs.confirm(message, default=default)

    async def input(
        self, message: str, *, placeholder: str = "", default: str = "", secret: bool = False
    ) -> InputResult:
        """A text. A secret one is not seen while it is typed, and is in no log."""
        return await self._dialogs.input(message, placeholder=placeholder, default=default, secret=secret)

    async def multi_select(
        self, message: str, options: Sequence[str], *, selected: Sequence[int] | None = None
    ) -> MultiSelectResult:
        """Some of the options. `selected` are marked when it opens: all, if nothing is said. Where nobody can
        be asked, those are the answer."""
        return await self._dialogs.multi_select(message, options, selected=selected)

    async def overlay(self, overlay: Overlay) -> OverlayResult:
        """A window over everything else, until it is closed."""
        return await self._dialogs.overlay(overlay)

    # --- what it does with the face -------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal; (0, 0) without one."""
        return self._do(lambda: self._context.face.size())

    @property
    def editor_text(self) -> str:
        """What was typed so far; empty without a face."""
        return self._do(lambda: self._context.face.editor_text())

    def set_editor_text(self, text: str) -> None:
        """The cursor goes to its end. Without a face nothing happens."""
        self._do(lambda: self._context.face.set_editor_text(text))

    def set_editor(self, editor: Editor) -> None:
        """Has a say in what is typed; who comes last has it. Without a face nothing happens."""

        def take() -> None:
            context, face = self._context, self._context.face
            if face is context.host.face:
                context.host.ui.editors.push(context, editor)
                face.set_editor(editor)

        self._do(take)

    def reset_editor(self) -> None:
        """Leaves it to whoever had it before, in the end to the face."""

        def leave() -> None:
            host = self._context.host
            if host.ui.editors.remove(self._context):
                present = host.ui.editors.present()
                host.face.set_editor(present[1] if present else None)

        self._do(leave)

    async def suspend(self, work: Callable[[], Awaitable[Returned] | Returned]) -> Returned:
        """What the function returns, which has the terminal meanwhile. Without a face it just runs."""
        watch = running_stopwatch.get()
        if watch:
            watch.pause()
        try:
            async with self._context.face.suspended():
                if is_async(work):
                    return await cast(Awaitable[Returned], work())
                return cast(Returned, await self._context.extension.worker.run(work))
        finally:
            if watch:
                watch.go_on()

    # --- themes ---------------------------------------------------------------------------------------

    def register_theme(self, name: str, theme: Theme) -> None:
        """From now on `set_theme` and people may choose it."""
        self._do(lambda: self._context.host.ui.themes.register(name, theme, self._context))

    def set_theme(self, name: str) -> None:
        """Raises `UsageError` for one that the face does not know. Without a face, an extension's theme is
        told to those that follow from elsewhere."""

        def change() -> None:
            themes, face = self._context.host.ui.themes, self._context.face
            if name not in themes:
                if face.theme():
                    raise UsageError(f"there is no theme {name!r}; there are: {', '.join(themes.names())}")
                return
            colors = msgspec.to_builtins(themes[name])
            self._board.put("theme", ThemeView(extension=self._name, name=name, colors=colors), self)
            face.set_theme(name)

        self._do(change)

    def themes(self) -> list[str]:
        """Their names; none without a face."""
        return self._do(lambda: self._context.host.ui.themes.names() if self._context.face.theme() else [])

    def theme(self) -> ThemeColors:
        """The present one, as it is seen; with empty colours without a face."""

        def resolve() -> ThemeColors:
            face = self._context.face
            name = face.theme()
            return self._context.host.ui.themes.resolved(name, dark=face.is_dark) if name else ThemeColors()

        return self._do(resolve)

    # --- when the extension goes ----------------------------------------------------------------------

    @property
    def is_asking(self) -> bool:
        return "_dialogs" in self.__dict__ and self._dialogs.is_open

    async def withdraw(self) -> None:
        """Cancels what it asks, so that whoever waits for it can go on."""
        if "_dialogs" in self.__dict__:
            await self._dialogs.withdraw()

    async def forget(self) -> None:
        """Takes away all that it shows, asks and holds."""
        await self.withdraw()
        context = self._context
        self.reset_editor()
        context.host.ui.themes.forget(context)
        if (face := context.host.face).theme() and face.theme() not in context.host.ui.themes:
            face.set_theme(DEFAULT)
        self._board.forget(self)
        context.attending.painter.forget(context.extension)
