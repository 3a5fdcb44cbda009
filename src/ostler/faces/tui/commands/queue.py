"""What waits for its turn, or for the next step: to change one, or to drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ostler.faces.tui.commands.command import Command
from ostler.faces.tui.drawing.pieces import one_line
from ostler.faces.tui.pickers.picker import Choice, Picker
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import ReleasePrompts

if TYPE_CHECKING:
    from ostler.faces.tui.desk import Desk

NOTHING = "no prompt waits"
ABOUT = "takes it back into the line"


def queue_commands(desk: Desk) -> list[Command]:
    group = _Queue(desk)
    return [
        Command("queue", "prompts that wait, to change or drop one", group.queue, (), "[drop]"),
        Command("clear-queue", "forget the prompts that wait", group.clear, ("cq",)),
    ]


class _Queue:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def queue(self, arguments: str) -> None:
        if arguments == "drop":
            await self.clear("")
            return
        if arguments:
            raise UsageError("say /queue, or /queue drop to forget the prompts that wait")
        if not await self._choices():
            self._desk.say(NOTHING)
        while choices := await self._choices():
            title = "held, because the last run did not complete" if self._is_held else "waiting"
            picker = Picker(title, choices, self._desk.colors, keys={"ctrl+d": "drops it"})
            picked = await picker.ask(self._desk.panels)
            if picked is None:
                return
            edits = picked.key == "enter"
            if not await self._desk.writing.waiting.take_back(picked.choice.value, edits=edits):
                self._desk.say("it is too late for that: it waits no longer", "warning")
            if edits:
                return

    @property
    def _is_held(self) -> bool:
        state = self._desk.conversation.session.state
        return state.held and state.run is None

    async def _choices(self) -> list[Choice]:
        waiting = self._desk.writing.waiting
        return [
            Choice(one_line(waiting.typed_for(one.id, one.content).text), one, (what,), about=ABOUT)
            for what, one in await waiting.all()
        ]

    async def clear(self, arguments: str) -> None:
        waiting = await self._desk.conversation.waiting()
        await self._desk.conversation.ask(lambda id: ReleasePrompts(id=id, by="tui", drop=True))
        if not waiting:
            self._desk.say(NOTHING)
