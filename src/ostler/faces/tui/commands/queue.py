"""What waits for its turn, or for the next step: to change one, or to drop it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ostler.faces.tui.commands.command import Command
from ostler.faces.tui.drawing.pieces import one_line
from ostler.faces.tui.pickers.picker import Choice, Picker
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import ReleasePrompts

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui

NOTHING = "no prompt waits"
ABOUT = "takes it back into the line"


def commands(tui: Tui) -> list[Command]:
    group = _Queue(tui)
    return [
        Command("queue", "prompts that wait, to change or drop one", group.queue, (), "[drop]"),
        Command("clear-queue", "forget the prompts that wait", group.clear, ("cq",)),
    ]


class _Queue:
    def __init__(self, tui: Tui) -> None:
        self._tui = tui

    async def queue(self, arguments: str) -> None:
        if arguments == "drop":
            await self.clear("")
            return
        if arguments:
            raise UsageError("say /queue, or /queue drop to forget the prompts that wait")
        if not await self._choices():
            self._tui.say(NOTHING)
        while choices := await self._choices():
            title = "held, because the last run did not complete" if self._is_held else "waiting"
            picker = Picker(title, choices, self._tui.colors, keys={"ctrl+d": "drops it"})
            picked = await picker.ask(self._tui.panels)
            if picked is None:
                return
            edits = picked.key == "enter"
            if not await self._tui.writing.waiting.take_back(picked.choice.value, edits=edits):
                self._tui.say("it is too late for that: it waits no longer", "warning")
            if edits:
                return

    @property
    def _is_held(self) -> bool:
        state = self._tui.conversation.session.state
        return state.held and state.run is None

    async def _choices(self) -> list[Choice]:
        waiting = self._tui.writing.waiting
        return [
            Choice(one_line(waiting.typed_for(one.id, one.content).text), one, (what,), about=ABOUT)
            for what, one in await waiting.all()
        ]

    async def clear(self, arguments: str) -> None:
        waiting = await self._tui.conversation.waiting()
        await self._tui.conversation.ask(lambda id: ReleasePrompts(id=id, by="tui", drop=True))
        if not waiting:
            self._tui.say(NOTHING)
