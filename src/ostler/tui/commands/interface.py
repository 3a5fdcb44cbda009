"""/help, /theme, /copy, /edit and /quit."""

from __future__ import annotations

import asyncio
import subprocess
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
    ("enter", "sends the prompt, or queues it during a run"),
    ("alt+enter, shift+enter, ctrl+j", "inserts a new line"),
    ("alt+s, ctrl+x s", "steers: the model reads it before its next step"),
    ("up, down", "browses the prompt history; in an empty line, takes back a queued prompt"),
    ("ctrl+r", "searches the prompt history"),
    ("tab", "completes a /command or an @file"),
    ("!command", "runs in the shell and is added to the conversation; !!command is not added"),
    ("ctrl+v", "pastes an image or text from the clipboard"),
    ("ctrl+x e", "edits the prompt in $VISUAL or $EDITOR"),
    ("shift+tab", "switches the thinking level"),
    ("ctrl+t, ctrl+x t", "shows the last reasoning"),
    ("ctrl+x m", "lists all messages and tool calls, to read and copy them"),
    ("ctrl+o", "shows the last or running tool call, or the last reasoning, in full"),
    ("esc", "stops the run or closes a panel; twice goes back to your last prompt"),
    ("ctrl+c", "clears the line or closes a panel; twice quits"),
    ("ctrl+l", "redraws the screen"),
    ("ctrl+d", "quits, when the line is empty"),
    ("ctrl+z", "suspends to the shell; fg resumes"),
)


def interface_commands(context: CommandContext) -> list[Command]:
    group = _Interface(context)
    return [
        Command("theme", "choose a colour theme", group.theme, (), "[name]", complete=group.themes),
        Command("copy", "copy the last answer to the clipboard", group.copy, ("cp",)),
        Command("edit", "open a file in your editor", group.edit, ("ed",), "file"),
        Command("help", "show commands and keys", group.help, ("h", "?", "shortcuts")),
        Command("quit", "quit", group.quit, ("q", "exit")),
    ]


class _Interface:
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
        return self._context.front_end.themes.names()

    async def theme(self, arguments: str) -> None:
        """Previews the selected theme; Escape restores the one before."""
        context = self._context
        before = context.front_end.theme()
        if not before:
            raise UsageError("there are no colours: NO_COLOR is set, or the terminal has none")
        if arguments:
            if arguments not in context.front_end.themes:
                raise UsageError(f"there is no theme {arguments!r:.60}; /theme lists the themes")
            self._use(arguments)
            return

        def preview(choice: Choice) -> None:
            context.front_end.set_theme(choice.value)

        names = sorted(context.front_end.themes.names(), key=lambda name: (name != DEFAULT, name))
        choices = [Choice(name, name, is_present=name == before) for name in names]
        picked = await Picker("theme", choices, context.colors, moved=preview).ask(context.panels)
        if picked is None:
            context.front_end.set_theme(before)
        else:
            self._use(picked.choice.value)

    def _use(self, name: str) -> None:
        self._context.front_end.set_theme(name)
        self._context.say(f'theme {name}; set `theme = "{name}"` in your settings to keep it')

    async def copy(self, arguments: str) -> None:
        facts = await self._context.conversation.session.journal.history()
        path, answer = path_of(facts), ""
        for fact in facts:
            match fact.event:
                case AssistantMessage(suppressed=False, content=content, shown=shown) if fact.seq in path:
                    text = text_of(content if shown is None else shown)
                    answer = text if text.strip() else answer
        if not answer:
            raise UsageError("there is no answer to copy yet")
        self._context.say(await copy(self._context, answer))

    async def edit(self, arguments: str) -> None:
        if not arguments:
            raise UsageError("name a file: /edit FILE")
        command, cwd = editor_command(), self._context.conversation.harness.cwd
        file = cwd / expand_home(arguments)
        if file.is_dir():
            raise UsageError(f"{quoted(file)} is a folder; name a file: /edit FILE")
        async with self._context.front_end.suspended():
            with interrupts_for_editor():
                ended = await asyncio.to_thread(subprocess.run, [*command, str(file)], cwd=cwd, check=False)
        if ended.returncode:
            self._context.say(f"{command[0]} exited with {ended.returncode}", "warning")
