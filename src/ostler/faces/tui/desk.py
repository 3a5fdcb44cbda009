"""What commands, and leaving for another session, need of a face."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # for the types only
    from ostler.extensions.showing.theme_colors import ThemeColors
    from ostler.extensions.showing.themes import ThemeBook
    from ostler.faces.tui.blocks import Level
    from ostler.faces.tui.commands.registry import Commands
    from ostler.faces.tui.conversation import Conversation
    from ostler.faces.tui.panels import Panels
    from ostler.faces.tui.shell_commands import ShellCommands
    from ostler.faces.tui.switching import Switching
    from ostler.faces.tui.waiting_prompts import WaitingPrompts
    from ostler.vocabulary.events import Event
    from ostler.vocabulary.facts import Fact


class Desk(Protocol):
    """The terminal has one, and so have plain lines."""

    conversation: Conversation

    @property
    def face(self) -> DeskFace: ...

    @property
    def app(self) -> Printer: ...

    @property
    def panels(self) -> Panels: ...

    @property
    def writing(self) -> DeskWriting: ...

    @property
    def commands(self) -> Commands: ...

    @property
    def switching(self) -> Switching: ...

    def colors(self) -> ThemeColors | None: ...

    def say(self, text: str, level: Level = "info") -> None:
        """Something that a command has to tell."""

    def write(self, text: str) -> None:
        """What is for the terminal itself, and not seen in it."""

    def see(self, batch: Sequence[Fact | Event]) -> None:
        """What happens in the conversation."""

    async def show(self, conversation: Conversation) -> None:
        """Another session in place of the one that was left."""

    async def submit(self, text: str) -> None:
        """As if it had been typed, and Enter pressed."""

    def leave(self) -> None: ...


class DeskFace(Protocol):
    """What extensions see of it, too."""

    @property
    def book(self) -> ThemeBook: ...

    def theme(self) -> str: ...

    def set_theme(self, name: str) -> None: ...

    def editor_text(self) -> str: ...

    def set_editor_text(self, text: str) -> None: ...

    def suspended(self) -> AbstractAsyncContextManager[None]: ...


class DeskWriting(Protocol):
    @property
    def shell(self) -> ShellCommands: ...

    @property
    def waiting(self) -> WaitingPrompts: ...


class Size(Protocol):
    @property
    def columns(self) -> int: ...


class Printer(Protocol):
    """Where rows stay."""

    @property
    def size(self) -> Size: ...

    @property
    def ends_blank(self) -> bool: ...

    def print(self, rows: Sequence[str]) -> None: ...
