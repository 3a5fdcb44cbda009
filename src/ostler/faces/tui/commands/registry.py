"""All commands: those of the face itself, then those of extensions. Anything else is a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ostler.faces.tui.drawing.path_spans import quoted
from ostler.faces.tui.far_store import refusal
from ostler.faces.tui.switching import BUSY
from ostler.runs.lease import hold, kept_lease
from ostler.vocabulary.errors import OstlerError

if TYPE_CHECKING:
    from ostler.faces.completing.command_entries import CommandEntry
    from ostler.faces.tui.commands.command import Command
    from ostler.faces.tui.desk import Desk


class Commands:
    """They are loaded when one is first typed: nothing is seen of them before."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @cached_property
    def own(self) -> list[Command]:
        from ostler.faces.tui.commands.asides import side_question_commands
        from ostler.faces.tui.commands.faces import interface_commands
        from ostler.faces.tui.commands.looking import report_commands
        from ostler.faces.tui.commands.models import model_commands
        from ostler.faces.tui.commands.permissions import permission_commands
        from ostler.faces.tui.commands.queue import queue_commands
        from ostler.faces.tui.commands.sessions import session_commands
        from ostler.faces.tui.commands.trees import tree_commands

        groups = (
            session_commands,
            tree_commands,
            model_commands,
            queue_commands,
            permission_commands,
            report_commands,
            side_question_commands,
            interface_commands,
        )
        return [command for commands in groups for command in commands(self._desk)]

    @cached_property
    def _named(self) -> dict[str, Command]:
        return {name: one for one in self.own for name in (one.name, *one.aliases)}

    def entries(self) -> list[CommandEntry]:
        """What can be completed: the commands, then templates and skills."""
        from ostler.faces.completing.command_entries import CommandEntry, brought_by, expanding_in

        own = [CommandEntry(one.name, one.about, one.arguments, one.aliases) for one in self.own]
        conversation = self._desk.conversation
        brought = brought_by(conversation.host, self._named)
        taken = {*self._named, *(one.name for one in brought)}
        return [*own, *brought, *expanding_in(conversation.harness.cwd, taken)]

    async def complete(self, name: str, typed: str) -> Sequence[str]:
        """What could stand behind a command."""
        if command := self._named.get(name):
            return await command.complete(typed) if command.complete else ()
        conversation = self._desk.conversation
        if conversation.host is None:
            return ()
        return await conversation.host.completions(conversation.session.id, name, typed)

    async def run(self, text: str) -> bool:
        """Whether it was a command."""
        if not text.startswith("/"):
            return False
        name, arguments = (*text[1:].split(maxsplit=1), "", "")[:2]
        try:
            if command := self._named.get(name):
                await self._run(command, arguments.strip(), text)
                return True
            return await self._run_of_extension(name, arguments.strip())
        except OstlerError as error:
            self._desk.say(error.message, "error")
        except OSError as error:
            self._desk.say(f"{quoted(error.filename or name)}: {error.strerror}", "error")
        return True

    async def _run(self, command: Command, arguments: str, text: str) -> None:
        if reason := refusal(self._desk.conversation.store, command.name):
            self._desk.say(reason, "warning")
        elif command.at_rest and (self._desk.writing.shell or await self._desk.conversation.is_busy()):
            self._desk.say(f"/{command.name} has to wait: {BUSY}", "warning")
            self._put_back(text)
        elif arguments and not command.arguments:
            self._desk.say(
                f"/{command.name} takes nothing behind it; /{text} says it to the model", "warning"
            )
            self._put_back(text)
        else:
            await command.run(arguments)

    def _put_back(self, text: str) -> None:
        if not self._desk.face.editor_text():
            self._desk.face.set_editor_text(text)

    async def _run_of_extension(self, name: str, arguments: str) -> bool:
        conversation = self._desk.conversation
        host, session = conversation.host, conversation.session
        if host is None or host.command_named(name) is None:
            return False
        if not session.is_running:
            await hold(session.journal)
        async with kept_lease(session.journal):
            said = await host.run_command(session, name, arguments)
        if said:
            self._desk.say(said)
        return True
