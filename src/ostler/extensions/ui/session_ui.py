"""`context.ui`: widgets, dialogs, themes and the editor, for one extension in one session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from ostler.extensions.executor import is_async, untimed
from ostler.extensions.ui.dialogs import Dialogs
from ostler.extensions.ui.themes import DEFAULT, Theme, ThemeColors
from ostler.extensions.ui.types import (
    BarView,
    Content,
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
    from ostler.extensions.ui.front_end import Editor

Returned = TypeVar("Returned")
_PLAIN = Style()


class ExtensionUI(Dialogs):
    """The UI of one extension in one session. All of it is removed with the extension."""

    def __init__(self, context: ExtensionContext) -> None:
        super().__init__(context)
        self._name = context.extension.name
        self._do = context.calls.call
        self._values = context.extension_session.live_values

    def set_widget(self, widget: Widget) -> None:
        """Displays a widget; replaces one with the same id."""
        name = f"widget:{self._name}/{widget.id}"

        def put() -> None:
            view = WidgetView(
                **self._fields(name, widget.content),
                style=widget.style,
                placement=widget.placement,
                priority=widget.priority,
                order=self._values.place_of(name),
            )
            self._values.put(name, view, self)

        self._do(put)

    def remove_widget(self, id: str) -> None:
        self._remove(f"widget:{self._name}/{id}")

    def set_header(self, content: Content | str, style: Style = _PLAIN) -> None:
        """Sets the header; the last extension wins."""
        self._set_bar("header", content, style)

    def remove_header(self) -> None:
        self._remove("header")

    def set_footer(self, content: Content | str, style: Style = _PLAIN) -> None:
        """Sets the footer; the last extension wins."""
        self._set_bar("footer", content, style)

    def remove_footer(self) -> None:
        self._remove("footer")

    def set_status(self, key: str, text: str, priority: int = 0) -> None:
        """Sets a short text in the status line. The front end's own have priorities from 100 on."""
        name = f"status:{self._name}/{key}"

        def put() -> None:
            order = self._values.place_of(name)
            view = StatusView(extension=self._name, text=text, priority=priority, order=order)
            self._values.put(name, view, self)

        self._do(put)

    def remove_status(self, key: str) -> None:
        self._remove(f"status:{self._name}/{key}")

    def set_visibility(self, visibility: Visibility) -> None:
        """Hides parts of the front end; replaces earlier settings, also of other extensions."""
        self._do(lambda: self._values.put("visibility", visibility, self))

    def _set_bar(self, name: str, content: Content | str, style: Style) -> None:
        self._do(lambda: self._values.put(name, BarView(**self._fields(name, content), style=style), self))

    def _fields(self, name: str, content: Content | str) -> dict[str, Any]:
        content, renderer = as_content(content), self._context.extension_session.renderer
        renderer.drop(name)
        render = content.render and renderer.keep(name, self._context.extension, content.render, content.hz)
        return {"extension": self._name, "text": content.text, "markdown": content.markdown, "render": render}

    def _remove(self, name: str) -> None:
        def remove() -> None:
            self._context.extension_session.renderer.drop(name)
            self._values.remove(name)

        self._do(remove)

    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal; (0, 0) without one."""
        return self._do(lambda: self._context.face.size())

    @property
    def editor_text(self) -> str:
        """The text in the editor; empty without a front end."""
        return self._do(lambda: self._context.face.editor_text())

    def set_editor_text(self, text: str) -> None:
        """Sets the text in the editor; the cursor moves to its end. No effect without a front end."""
        self._do(lambda: self._context.face.set_editor_text(text))

    def set_editor(self, editor: Editor) -> None:
        """Takes over the editor; the last extension wins. No effect without a front end."""

        def take() -> None:
            context, face = self._context, self._context.face
            if face is context.host.face:
                context.host.ui.editors.push(context, editor)
                face.set_editor(editor)

        self._do(take)

    def reset_editor(self) -> None:
        """Releases the editor to the previous extension, or to the front end."""

        def leave() -> None:
            host = self._context.host
            if host.ui.editors.remove(self._context):
                active = host.ui.editors.active()
                host.face.set_editor(active[1] if active else None)

        self._do(leave)

    async def suspend(self, work: Callable[[], Awaitable[Returned] | Returned]) -> Returned:
        """Runs a function with the terminal to itself. Without a front end it just runs."""
        with untimed():
            async with self._context.face.suspended():
                if is_async(work):
                    return await cast(Awaitable[Returned], work())
                return cast(Returned, await self._context.extension.worker.run(work))

    def register_theme(self, name: str, theme: Theme) -> None:
        """Registers a theme, for `set_theme` and for users."""
        self._do(lambda: self._context.host.ui.themes.register(name, theme, self._context))

    def set_theme(self, name: str) -> None:
        """Sets the theme; raises `UsageError` for an unknown one. Without a front end, an extension's theme
        is published to remote ones."""

        def change() -> None:
            themes, face = self._context.host.ui.themes, self._context.face
            if name not in themes:
                if face.theme():
                    raise UsageError(f"there is no theme {name!r}; there are: {', '.join(themes.names())}")
                return
            colors = msgspec.to_builtins(themes[name])
            self._values.put("theme", ThemeView(extension=self._name, name=name, colors=colors), self)
            face.set_theme(name)

        self._do(change)

    def themes(self) -> list[str]:
        """The names of all themes; none without a front end."""
        return self._do(lambda: self._context.host.ui.themes.names() if self._context.face.theme() else [])

    def theme(self) -> ThemeColors:
        """The current theme's resolved colours; empty without a front end."""

        def resolve() -> ThemeColors:
            face = self._context.face
            name = face.theme()
            return self._context.host.ui.themes.resolved(name, dark=face.is_dark) if name else ThemeColors()

        return self._do(resolve)

    async def forget(self) -> None:
        """Removes all values, dialogs and the editor of the extension."""
        await self.withdraw()
        context = self._context
        self.reset_editor()
        context.host.ui.themes.forget(context)
        if (face := context.host.face).theme() and face.theme() not in context.host.ui.themes:
            face.set_theme(DEFAULT)
        self._values.forget(self)
        context.extension_session.renderer.forget(context.extension)
