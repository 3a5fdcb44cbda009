"""The slash commands: those of the terminal, then those of extensions. Any other text is a prompt."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ostler.app.completion import CommandEntry, expanding_in, provided_by
from ostler.app.remote_sessions import refusal
from ostler.core.lazy import load
from ostler.schema.errors import OstlerError
from ostler.schema.text import cells, printable
from ostler.sessions.lease import hold_lease, renew_lease
from ostler.tui.command_context import BUSY
from ostler.tui.render.spans import BOLD, Piece, Row, after, apart, drawn, is_path, quoted, sgr, wrapped

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext

COMMAND_GROUPS = (
    "ostler.tui.commands.sessions:session_commands",
    "ostler.tui.commands.tree:tree_commands",
    "ostler.tui.commands.models:model_commands",
    "ostler.tui.prompt_queue:queue_commands",
    "ostler.tui.commands.reports:permission_commands",
    "ostler.tui.commands.reports:report_commands",
    "ostler.tui.commands.side_question:side_question_commands",
    "ostler.tui.commands.interface:interface_commands",
)
"""Functions that make the commands for a `CommandContext`, in the order of `/help`."""


class Commands:
    """The slash commands of a terminal, which are loaded when the first one is typed."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    @cached_property
    def own(self) -> list[Command]:
        return [command for group in COMMAND_GROUPS for command in load(group)(self._context)]

    @cached_property
    def _named(self) -> dict[str, Command]:
        return {name: one for one in self.own for name in (one.name, *one.aliases)}

    def entries(self) -> list[CommandEntry]:
        """Everything that can be completed: commands, then prompt templates and skills."""
        own = [CommandEntry(one.name, one.about, one.arguments, one.aliases) for one in self.own]
        conversation = self._context.conversation
        extension_commands = provided_by(conversation.host, self._named)
        reserved = {*self._named, *(one.name for one in extension_commands)}
        return [*own, *extension_commands, *expanding_in(conversation.harness.cwd, reserved)]

    async def complete(self, name: str, typed: str) -> Sequence[str]:
        """Completions for the arguments of a command."""
        if command := self._named.get(name):
            return await command.complete(typed) if command.complete else ()
        conversation = self._context.conversation
        if conversation.host is None:
            return ()
        return await conversation.host.ui.completions(conversation.session.id, name, typed)

    async def run(self, text: str) -> bool:
        """Runs a command; False if the text is none."""
        if not text.startswith("/"):
            return False
        name, arguments = (*text[1:].split(maxsplit=1), "", "")[:2]
        try:
            if command := self._named.get(name):
                await self._run(command, arguments.strip(), text)
                return True
            return await self._run_of_extension(name, arguments.strip())
        except OstlerError as error:
            self._context.say(error.message, "error")
        except OSError as error:
            self._context.say(f"{quoted(error.filename or name)}: {error.strerror}", "error")
        return True

    async def _run(self, command: Command, arguments: str, text: str) -> None:
        if reason := refusal(self._context.conversation.store, command.name):
            self._context.say(reason, "warning")
        elif command.only_idle and (
            self._context.composer.shell or await self._context.conversation.is_busy()
        ):
            self._context.say(f"/{command.name} must wait: {BUSY}", "warning")
            put_into_line(self._context, text)
        elif arguments and not command.arguments:
            self._context.say(f"/{command.name} takes no arguments; /{text} sends it to the model", "warning")
            put_into_line(self._context, text)
        else:
            await command.run(arguments)

    async def _run_of_extension(self, name: str, arguments: str) -> bool:
        conversation = self._context.conversation
        host, session = conversation.host, conversation.session
        if host is None or host.command_named(name) is None:
            return False
        if not session.is_running:
            await hold_lease(session.journal)
        async with renew_lease(session.journal):
            message = await host.run_command(session, name, arguments)
        if message:
            self._context.say(message)
        return True


Complete = Callable[[str], Awaitable[Sequence[str]]]
"""Completions for the arguments of a command, after what is typed."""


class Command(msgspec.Struct, frozen=True):
    name: str
    about: str
    run: Callable[[str], Awaitable[None]]
    """Gets the arguments."""
    aliases: tuple[str, ...] = ()
    arguments: str = ""
    """A hint such as `[name]`."""
    complete: Complete | None = None
    only_idle: bool = False
    """Refused while a run is in progress."""


def put_into_line(context: CommandContext, text: str) -> None:
    """Puts a text into the input line, unless something is typed there."""
    if not context.front_end.editor_text():
        context.front_end.set_editor_text(text)


_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")
_CELLS = re.compile(r" {2,}|(?:(?! {2}).)+")
"""Columns and the gaps between them. A column may be a path with spaces."""


def print_lines(context: CommandContext, lines: Sequence[str], *, has_heading: bool = False) -> None:
    """Prints lines in full: what does not fit continues below, in its column."""
    width, heading = context.app.size.columns, sgr(context.colors(), "secondary", BOLD)
    rows = [
        drawn(row)
        for at, line in enumerate(lines)
        for row in _rows(printable(line.expandtabs(4)), heading if has_heading and not at else "", width)
    ]
    context.app.print(apart([["", *rows, ""]], after_blank=context.app.ends_blank))


def _rows(line: str, style: str, width: int) -> list[Row]:
    """Where the last column has less than half of the width, it gets the rows below."""
    if cells(line) <= width:
        return [[Piece(line, style)]]
    indent = max((gap.end() for gap in _GAP.finditer(line)), default=0)
    if not 0 < indent <= width // 2:
        line = _GAP.sub("  ", line)
        indent = len(line) - len(line.lstrip(" ")) + 2
    pieces = [Piece(cell, style, whole=is_path(cell)) for cell in _CELLS.findall(line[indent:])]
    rows = wrapped(pieces, max(1, width - indent))
    return after([Piece(line[:indent], style)], rows, [Piece(" " * indent)])
