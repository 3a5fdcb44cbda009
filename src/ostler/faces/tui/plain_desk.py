"""What commands, and leaving for another session, need of a face: in plain lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ostler.faces.cli.own_output import own_output
from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.block_words import block_words, plain
from ostler.faces.tui.blocks import Level, NoticeBlock
from ostler.faces.tui.commands.registry import Commands
from ostler.faces.tui.conversation import Conversation
from ostler.faces.tui.plain_panels import PlainPanels
from ostler.faces.tui.rescue import Rescue
from ostler.faces.tui.shell_commands import ShellCommands
from ostler.faces.tui.switching import Switching
from ostler.faces.tui.waiting_prompts import WaitingPrompts
from ostler.kernel.store import Store
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact

if TYPE_CHECKING:
    from ostler.faces.tui.input_line import Typed
    from ostler.faces.tui.plain_face import PlainConversation, PlainFace

_WIDE = 1000
"""Columns: nothing is cut that is read out."""


class PlainDesk:
    """A `Desk`."""

    def __init__(self, plain_face: PlainConversation, face: PlainFace, conversation: Conversation) -> None:
        self._lines = plain_face
        self.face = face
        self.conversation = conversation
        self.panels = PlainPanels(face.say)
        self.app = _Output(face.say)
        self.writing = _Writing(
            ShellCommands(
                lambda: self.conversation,
                BlockRows(),
                lambda: None,
                lambda block: face.say(*block_words(block)),
            ),
            WaitingPrompts(lambda: self.conversation, _Line(face), BlockRows(), lambda: None),
        )
        self.commands = Commands(self)
        self.switching = Switching(self)
        self.rescue = Rescue(self)

    def colors(self) -> None:
        return None

    def say(self, text: str, level: Level = "info") -> None:
        self.face.say(*block_words(NoticeBlock(text, level)))

    def write(self, text: str) -> None:
        own_output().write(text)
        own_output().flush()

    def see(self, batch: Sequence[Fact | Event]) -> None:
        self._lines.see(batch)

    async def show(self, conversation: Conversation) -> None:
        self.conversation = conversation
        await self._lines.show(conversation)

    async def submit(self, text: str) -> None:
        await self._lines.obey(text)

    def leave(self) -> None:
        self._lines.leave()

    async def first_steps(self, open_store: Callable[[], Store] | None) -> None:
        from ostler.faces.tui.first_steps import first_steps

        await first_steps(self, open_store)

    def listed(self) -> list[str]:
        """All commands, a line each."""
        return [
            f"{f'/{one.name} {one.arguments}'.rstrip()}: {plain(one.description)}"
            for one in self.commands.entries()
        ]

    async def close(self) -> None:
        self.rescue.end()
        self.writing.waiting.close()
        await self.writing.shell.stop()


class _Writing(NamedTuple):
    shell: ShellCommands
    waiting: WaitingPrompts


class _Line:
    """The terminal's own: nobody can type into it but the person, who is told what to type."""

    text = ""

    def __init__(self, face: PlainFace) -> None:
        self._face = face

    def put(self, typed: Typed) -> None:
        self._face.set_editor_text(typed.text)

    def put_back(self, typed: Typed) -> bool:
        self.put(typed)
        return True


class _Size(NamedTuple):
    columns: int = _WIDE
    rows: int = _WIDE


class _Output:
    """Rows that a command draws, without their styles."""

    size = _Size()
    ends_blank = False

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say

    def print(self, rows: Sequence[str]) -> None:
        self._say(*(line for row in rows if (line := plain(row).rstrip())))
