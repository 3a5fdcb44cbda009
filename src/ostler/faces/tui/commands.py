"""What a person can say with a slash."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from ostler.vocabulary.errors import OstlerError

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui


class Command(msgspec.Struct, frozen=True):
    name: str
    about: str
    run: Callable[[str], Awaitable[None]]
    aliases: tuple[str, ...] = ()


class Commands:
    """Those of the face itself, then those of extensions."""

    def __init__(self, tui: Tui) -> None:
        self._tui = tui
        built_in = [
            Command("help", "what can be said and pressed", self._help, ("h", "?")),
            Command("quit", "leave", self._quit, ("q", "exit")),
        ]
        self._built_in = {name: one for one in built_in for name in (one.name, *one.aliases)}

    async def run(self, text: str) -> bool:
        """Whether it was a command."""
        if not text.startswith("/"):
            return False
        name, _, arguments = text[1:].partition(" ")
        if command := self._built_in.get(name):
            await command.run(arguments.strip())
            return True
        host = self._tui.conversation.host
        if host is None or name not in host.commands():
            return False
        try:
            said = await host.run_command(self._tui.conversation.session, name, arguments.strip())
        except OstlerError as error:
            said = error.message
        if said:
            self._tui.say(said)
        return True

    async def _help(self, arguments: str) -> None:
        for command in dict.fromkeys(self._built_in.values()):
            self._tui.say(f"/{command.name}  {command.about}")

    async def _quit(self, arguments: str) -> None:
        self._tui.leave()
