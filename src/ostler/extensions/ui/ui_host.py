"""What front ends call on the host: live values, renderers, the editor and keys."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ostler.core.lazy import load
from ostler.extensions.executor import ExtensionError
from ostler.extensions.extension import Shortcut, ToolRenderer
from ostler.extensions.extension_session import TerminalResized
from ostler.extensions.ui.front_end import PASS, EditorStack, KeyAction, is_reserved, normalised_key
from ostler.sessions.lease import hold_lease, renew_lease

if TYPE_CHECKING:
    from ostler.extensions.extension import Extension
    from ostler.extensions.host import ExtensionHost
    from ostler.extensions.ui.themes import ThemeRegistry

COMMAND_SECONDS = 600.0


class UIHost:
    """`host.ui`. It reports an extension's exceptions and raises none: the front end uses its default."""

    def __init__(self, host: ExtensionHost) -> None:
        self._host = host
        self.editors = EditorStack()

    @cached_property
    def themes(self) -> ThemeRegistry:
        """A front end adds its own with `register`."""
        registry: ThemeRegistry = load("ostler.extensions.ui.themes:ThemeRegistry")()
        return registry

    def live_values(self, session: str) -> dict[str, Any]:
        """The current live values of a session by name, for a front end that starts to follow it."""
        extension_session = self._host.sessions.get(session)
        return extension_session.live_values.values() if extension_session else {}

    def resized(self, width: int, height: int) -> None:
        """Reports a new size of the front end's terminal."""
        for extension_session in self._host.sessions.values():
            extension_session.notify(TerminalResized(width, height))

    async def render(self, session: str, id: str, width: int) -> str | None:
        """Renders a live value or an overlay: empty to hide it, None to use its text."""
        extension_session = self._host.sessions.get(session)
        return await extension_session.renderer.lines(id, width) if extension_session else None

    def tool_renderer(self, tool: str) -> ToolRenderer | None:
        """The renderer of a tool's calls: the last registration wins."""
        match = self._renderer_of(tool)
        return match[1] if match else None

    async def tool_header(
        self, session: str, tool: str, arguments: Mapping[str, Any], width: int
    ) -> str | None:
        """The header of a call; None for the front end's default."""
        return await self._render_call(session, tool, "header", dict(arguments), width)

    async def tool_body(self, session: str, tool: str, result: str, failed: bool, width: int) -> str | None:
        """The rendered result of a call; None for the front end's default."""
        return await self._render_call(session, tool, "body", result, failed, width)

    async def _render_call(
        self, session: str, tool: str, part: Literal["header", "body"], *arguments: Any
    ) -> str | None:
        match, extension_session = self._renderer_of(tool), self._host.sessions.get(session)
        if extension_session is None or match is None or (function := getattr(match[1], part)) is None:
            return None
        renderer, what = extension_session.renderer, f"the {part} of {tool}"
        return await renderer.ask(match[0], what, function, *deepcopy(arguments)) or None

    def _renderer_of(self, tool: str) -> tuple[Extension, ToolRenderer] | None:
        for extension in reversed(self._host.loaded):
            if tool in extension.registered.tool_renderers:
                return extension, extension.registered.tool_renderers[tool]
        return None

    async def render_message(self, session: str, name: str, text: str, width: int) -> str | None:
        """The text rendered by the renderer of that name; None if there is none, or it fails."""
        extension_session = self._host.sessions.get(session)
        for extension in reversed(self._host.loaded):
            renderer = extension.registered.message_renderers.get(name)
            if extension_session and renderer:
                what = f"the renderer {name}"
                return await extension_session.renderer.ask(extension, what, renderer.function, text, width)
        return None

    async def completions(self, session: str, command: str, typed: str) -> list[str]:
        """Completions for a command's arguments, by what was typed so far."""
        extension_session, match = self._host.sessions.get(session), self._host.command_named(command)
        if extension_session is None or match is None or (complete := match[1].complete) is None:
            return []
        extension, renderer = match[0], extension_session.renderer
        context = extension_session.channels[extension.name].context
        what = f"completing /{match[1].name}"
        result = await renderer.guarded(extension, what, complete.function, *complete.take(typed, context))
        if result is None or isinstance(result, list | tuple):
            return [str(one) for one in result or ()]
        await renderer.report(extension, what, f"it returned {result!r:.60}, not a list of strings")
        return []

    async def editor_key(self, key: str, text: str) -> KeyAction:
        """What to do with a key, given the typed text: the front end's default, if no extension decides."""
        active = self.editors.active()
        if active is None or (handle := active[1].handle_key) is None:
            return PASS
        extension, renderer = active[0].extension, active[0].extension_session.renderer
        action = await renderer.guarded(extension, "handle_key", handle, key, text)
        if action is None or isinstance(action, KeyAction):
            return action or PASS
        await renderer.report(extension, "handle_key", f"it returned {action!r:.60}, not a KeyAction")
        return PASS

    async def editor_lines(self, width: int, default: str) -> str:
        """The rendered editor."""
        active = self.editors.active()
        if active is None or (render := active[1].render) is None:
            return default
        extension, renderer = active[0].extension, active[0].extension_session.renderer
        lines = await renderer.ask(extension, "the editor's render", render, width, default)
        return default if lines is None else lines

    def panel_key(self, session: str, panel: str, key: str, text: str = "") -> bool:
        """Sends a key to a panel, named by its live value; False if it is not open."""
        name, _, id = panel.removeprefix("panel:").partition("/")
        return any(one.panel_key(session, id, key, text) for one in self._host.loaded if one.name == name)

    def shortcuts(self) -> dict[str, tuple[Extension, Shortcut]]:
        """Shortcuts by key; the last registration wins."""
        return {
            key: (extension, shortcut)
            for extension in self._host.loaded
            for key, shortcut in extension.registered.shortcuts.items()
        }

    def shortcut_notices(self) -> list[str]:
        """Notices for the user about conflicting keys."""
        notices: list[str] = []
        owners: dict[str, str] = {}
        for extension in self._host.loaded:
            for key, shortcut in extension.registered.shortcuts.items():
                what = f"the extension {extension.name} registers {key}"
                if is_reserved(key):
                    notices.append(f"{what}, which front ends use themselves")
                if shortcut.is_repeated:
                    notices.append(f"{what} twice: the last one is used")
                if key in owners:
                    notices.append(f"{what}, which the extension {owners[key]} has registered, too")
                owners[key] = extension.name
        return notices

    async def shortcut(self, session: str, *keys: str) -> bool:
        """Runs the shortcut of a key; False if there is none. The handler may ask the user. Pass the typed
        character before the key's name: `host.ui.shortcut(session, "A", "shift+a")`."""
        shortcuts, extension_session = self.shortcuts(), self._host.sessions.get(session)
        match = next((shortcuts[key] for key in map(normalised_key, keys) if key in shortcuts), None)
        if match is None or extension_session is None:
            return False
        extension, shortcut = match
        context = extension_session.channels[extension.name].context
        journal = extension_session.session.journal
        if not extension_session.session.is_running:
            await hold_lease(journal)
        try:
            async with renew_lease(journal):
                await shortcut.handler.call(extension.worker, context, seconds=COMMAND_SECONDS)
        except ExtensionError as failure:
            extension_session.report(extension, f"the shortcut {shortcut.key}", str(failure))
        finally:
            await extension_session.commit()
        return True
