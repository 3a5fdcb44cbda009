"""/help, /theme, /copy, /edit and /quit."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.console import aligned
from ostler.core.state import path_of
from ostler.extensions.ui.themes import DEFAULT
from ostler.schema.errors import UsageError
from ostler.schema.events import AssistantMessage
from ostler.schema.messages import text_of
from ostler.store.paths import expand_home
from ostler.tui.commands.registry import Command, print_lines
from ostler.tui.editor.input_line import editor_command, interrupts_for_editor
from ostler.tui.editor.paste import copy
from ostler.tui.panels.picker import Choice, Picker
from ostler.tui.render.spans import quoted

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext


KEYS = (
    ("enter", "says it: now, or when it is its turn"),
    ("alt+enter, shift+enter, ctrl+j", "a new line"),
    ("alt+s, ctrl+x s", "tells the model between two steps of the run"),
    ("up, down", "what was typed before; an empty line takes back what waits"),
    ("ctrl+r", "searches what was typed before"),
    ("tab", "completes a /command or an @file"),
    ("!command", "is run by the shell and told to the model; !!command is not told"),
    ("ctrl+v", "a picture or a text from the clipboard"),
    ("ctrl+x e", "writes on in $VISUAL or $EDITOR"),
    ("shift+tab", "how much the model thinks, from level to level"),
    ("ctrl+t, ctrl+x t", "what the model thought last"),
    ("ctrl+x m", "all messages and calls, to read and copy them"),
    ("ctrl+o", "the last call or thought in full, or the call that runs"),
    ("esc", "stops the run, closes what is open; twice leads back to your last prompt"),
    ("ctrl+c", "clears the line, closes what is open; twice leaves"),
    ("ctrl+l", "draws it anew"),
    ("ctrl+d", "leaves, when the line is empty"),
    ("ctrl+z", "back to the shell until you say fg"),
)


def interface_commands(context: CommandContext) -> list[Command]:
    group = _Faces(context)
    return [
        Command("theme", "the colours", group.theme, (), "[name]", complete=group.themes),
        Command("copy", "the last answer, to the clipboard", group.copy, ("cp",)),
        Command("edit", "open a file in your editor", group.edit, ("ed",), "file"),
        Command("help", "what can be said and pressed", group.help, ("h", "?", "shortcuts")),
        Command("quit", "leave", group.quit, ("q", "exit")),
    ]


class _Faces:
    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def help(self, arguments: str) -> None:
        context = self._context
        rows = []
        for one in context.commands.entries():
            also = f" (also {', '.join(f'/{name}' for name in one.aliases)})" if one.aliases else ""
            rows.append((f"/{one.name} {one.arguments}".rstrip(), one.description + also))
        print_lines(context, ["commands", *aligned(rows)], has_heading=True)
        print_lines(context, ["keys", *aligned(KEYS)], has_heading=True)

    async def quit(self, arguments: str) -> None:
        self._context.quit()

    async def themes(self, typed: str) -> list[str]:
        return self._context.face.book.names()

    async def theme(self, arguments: str) -> None:
        """The marked one is seen at once; who goes away gets the one before."""
        context = self._context
        before = context.face.theme()
        if not before:
            raise UsageError("there are no colours here: NO_COLOR is set, or the terminal has none")
        if arguments:
            if arguments not in context.face.book:
                raise UsageError(f"there is no theme {arguments!r:.60}; /theme shows those there are")
            self._use(arguments)
            return
        names = sorted(context.face.book.names(), key=lambda name: (name != DEFAULT, name))
        choices = [Choice(name, name, is_present=name == before) for name in names]
        picker = Picker(
            "theme", choices, context.colors, moved=lambda choice: context.face.set_theme(choice.value)
        )
        picked = await picker.ask(context.panels)
        if picked is None:
            context.face.set_theme(before)
        else:
            self._use(picked.choice.value)

    def _use(self, name: str) -> None:
        self._context.face.set_theme(name)
        self._context.say(f'{name} from here on; `theme = "{name}"` in your settings keeps it')

    async def copy(self, arguments: str) -> None:
        facts = await self._context.conversation.session.journal.history()
        path = path_of(facts)
        answers = [
            text
            for fact in facts
            if fact.seq in path
            and isinstance(fact.event, AssistantMessage)
            and not fact.event.suppressed
            and (
                text := text_of(fact.event.content if fact.event.shown is None else fact.event.shown)
            ).strip()
        ]
        if not answers:
            raise UsageError("there is no answer to copy yet")
        self._context.say(await copy(self._context, answers[-1]))

    async def edit(self, arguments: str) -> None:
        if not arguments:
            raise UsageError("say which file: /edit FILE")
        command, cwd = editor_command(), self._context.conversation.harness.cwd
        file = _file_named(arguments, cwd)
        async with self._context.face.suspended():
            with interrupts_for_editor():
                ended = await asyncio.to_thread(subprocess.run, [*command, str(file)], cwd=cwd, check=False)
        if ended.returncode:
            self._context.say(f"{command[0]} ended with {ended.returncode}", "warning")


def _file_named(name: str, cwd: Path) -> Path:
    file = cwd / expand_home(name)
    if file.is_dir():
        raise UsageError(f"{quoted(file)} is a folder; say which file in it: /edit FILE")
    return file
