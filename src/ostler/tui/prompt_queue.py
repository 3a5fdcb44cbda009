"""Prompts and steers that wait while a run works, and /queue to change or drop them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ostler.core.lazy import lazy_module
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.schema.requests import Prompt, ReleasePrompts, Steer, TakeBack
from ostler.schema.text import cut, one_line
from ostler.sessions.inbox import TAKEN_BACK
from ostler.tui.commands.registry import Command
from ostler.tui.conversation import Content, Tasks
from ostler.tui.editor.chips import Chips, PromptDraft

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext
    from ostler.tui.panels import picker
    from ostler.tui.panels.picker import Choice
else:
    picker = lazy_module("ostler.tui.panels.picker")

MOST_ROWS = 3
HELD = "enter in the empty line sends held prompts, up takes one back"
MOST_DRAFTS = 50
"""Drafts that can be restored as they were typed."""

_CHANGES = (
    events.RunStarted,
    events.RunEnded,
    events.UserMessage,
    events.PromptsReleased,
    events.RequestRefused,
)


class Line(Protocol):
    """The input line, where a prompt can be edited."""

    @property
    def text(self) -> str: ...
    def put(self, draft: PromptDraft) -> None: ...
    def put_back(self, draft: PromptDraft) -> bool: ...


class PromptQueue:
    """Shows prompts and steers in the inbox, also of other processes. Those typed here can be taken back."""

    def __init__(self, context: CommandContext, line: Line) -> None:
        self._context = context
        self._line = line
        self._requests: list[Prompt | Steer] = []
        self._session = ""
        self._drafts: dict[str, PromptDraft] = {}
        """By request."""
        self._steers: dict[str, Content] = {}
        """Steers that were typed here, by request, until the model has read them."""
        self._tasks = Tasks()  # the driver reports a store that cannot be read

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def _queue(self) -> list[Prompt | Steer]:
        """Without a run and held prompts it is empty, since the next prompt starts at once."""
        state = self._context.conversation.session.state
        if state.run is None:
            return self._requests if state.held else []
        return [one for one in self._requests if one.id != state.run.started.request]

    def sent(self, request: str, draft: PromptDraft, steer: Content = ()) -> None:
        """Remembers the draft of a prompt, or of a steer with this content."""
        self._drafts[request] = draft
        if steer:
            self._steers[request] = steer
        while len(self._drafts) > MOST_DRAFTS:
            del self._drafts[next(iter(self._drafts))]
        self._tasks.start(self.refresh())

    def draft_of(self, request: str, content: Content) -> PromptDraft:
        """The draft of a prompt; its text, if it was typed elsewhere."""
        if request in self._drafts:
            return self._drafts[request]
        return PromptDraft(next((block.text for block in content if isinstance(block, Text)), ""), Chips())

    def take(self, batch: Sequence[Fact | Event]) -> list[Fact | Event]:
        """Takes facts that may change it; returns those that the person should see."""
        visible = []
        for one in batch:
            event = one.event if isinstance(one, Fact) else one
            match event:
                case events.RequestRefused(request=request, reason=reason) if reason == TAKEN_BACK:
                    self._steers.pop(request, None)  # perhaps by another front end
                case events.RequestRefused(request=request) if request in self._steers:
                    self._tasks.start(self._send_as_prompt(request, self._steers.pop(request)))
                    continue
                case events.UserMessage(request=request):
                    self._steers.pop(request, None)
            if isinstance(event, _CHANGES):
                self._tasks.start(self.refresh())
            visible.append(one)
        return visible

    async def _send_as_prompt(self, request: str, content: Content) -> None:
        """Sends a steer that the model could not read before the run ended; if the person stopped the run,
        puts it back into the line."""
        conversation, draft = self._context.conversation, self.draft_of(request, content)
        if not conversation.session.state.held or not self._line.put_back(draft):
            self.sent(await conversation.prompt(content), draft)
        await self.refresh()

    async def refresh(self) -> None:
        conversation = self._context.conversation
        pending = await conversation.store.pending(conversation.session.id)
        self._requests = [one for one in pending if isinstance(one, Prompt | Steer)]
        self._context.app.refresh()

    async def mine(self) -> list[Prompt | Steer]:
        """Prompts and steers that were typed here and can be taken back."""
        return [one for _, one in await self.all() if one.by == "tui"]

    async def all(self) -> list[tuple[str, Prompt | Steer]]:
        """Everything queued, with its kind."""
        await self.refresh()
        return [(self._kind(one), one) for one in self._queue]

    async def held(self) -> list[str]:
        """The held prompts as text."""
        return [self._text(one) for kind, one in await self.all() if kind == "held"]

    async def take_back(self, request: Prompt | Steer, *, edits: bool) -> bool:
        """Removes it from the inbox; with `edits`, puts it into the empty line. False if it is too late."""
        ids = [one.id for _, one in await self.all()]
        conversation, draft = self._context.conversation, self.draft_of(request.id, request.content)
        session = conversation.session
        if request.id not in ids or (edits and self._line.text):
            return False
        if conversation.is_elsewhere:
            steer = self._steers.pop(request.id, ())
            outcome = await conversation.ask(lambda id: TakeBack(id=id, by="tui", request=request.id))
            if isinstance(outcome, events.RequestRefused):
                if steer:
                    self._steers[request.id] = steer
                return False
            if edits:
                self._line.put_back(draft)
        else:
            if isinstance(request, Steer) and not session.withdraw(request.id):
                return False
            self._steers.pop(request.id, None)
            session.journal.record(events.RequestRefused(request.id, TAKEN_BACK), settles=request.id)
            if edits:  # before anything else can be typed
                self._line.put(draft)
            await session.journal.commit()
        await self.refresh()
        return True

    def rows(self, width: int, most: int) -> list[str]:
        session = self._context.conversation.session.id
        if session != self._session:
            self._session, self._requests = session, []
            self._tasks.start(self.refresh())
        queue, renderer = self._queue, self._context.rows
        last = queue[-MOST_ROWS:]
        rows = [row for one in last for row in renderer.note(cut(self._text(one), width - 2), width)]
        if len(queue) > len(last):
            rows = [*renderer.note(f"{len(queue) - len(last)} more before these", width), *rows]
        if rows and self._context.conversation.session.state.run is None:
            rows += renderer.note(cut(HELD, width - 2), width)
        return rows

    def _kind(self, request: Prompt | Steer) -> str:
        is_held = self._context.conversation.session.state.run is None
        return "steering" if isinstance(request, Steer) else "held" if is_held else "queued"

    def _text(self, request: Prompt | Steer) -> str:
        return f"{self._kind(request)}: {one_line(self.draft_of(request.id, request.content).text)}"

    def close(self) -> None:
        self._tasks.cancel()


NOTHING = "no prompt is queued"


def queue_commands(context: CommandContext) -> list[Command]:
    group = _Queue(context)
    return [
        Command("queue", "list queued prompts, to edit or drop one", group.queue, (), "[drop]"),
        Command("clear-queue", "drop all queued prompts", group.clear, ("cq",)),
    ]


class _Queue:
    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def queue(self, arguments: str) -> None:
        if arguments == "drop":
            await self.clear("")
            return
        if arguments:
            raise UsageError("use /queue, or /queue drop to drop all queued prompts")
        if not await self._choices():
            self._context.say(NOTHING)
        while choices := await self._choices():
            state = self._context.conversation.session.state
            is_held = state.held and state.run is None
            title = "held, because the last run did not complete" if is_held else "queued"
            panel = picker.Picker(title, choices, self._context.colors, keys={"ctrl+d": "drop"})
            picked = await panel.ask(self._context.panels)
            if picked is None:
                return
            edits = picked.key == "enter"
            if not await self._context.composer.queue.take_back(picked.choice.value, edits=edits):
                self._context.say("too late: it is no longer queued", "warning")
            if edits:
                return

    async def _choices(self) -> list[Choice]:
        queue, about = self._context.composer.queue, "takes it back into the line, to edit it"
        return [
            picker.Choice(one_line(queue.draft_of(one.id, one.content).text), one, (kind,), about=about)
            for kind, one in await queue.all()
        ]

    async def clear(self, arguments: str) -> None:
        prompts = await self._context.conversation.queued_prompts()
        await self._context.conversation.ask(lambda id: ReleasePrompts(id=id, by="tui", drop=True))
        if not prompts:
            self._context.say(NOTHING)
