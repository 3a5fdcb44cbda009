"""The terminal face as a whole: one conversation, what is drawn of it, and what a person does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from ostler.extensions.host import ExtensionHost
from ostler.faces.tui.app import TerminalApp
from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.commands import Commands
from ostler.faces.tui.conversation import Conversation
from ostler.faces.tui.face import TuiFace
from ostler.faces.tui.keys import key_bindings
from ostler.faces.tui.panels import Panels
from ostler.faces.tui.question_panel import QuestionPanel
from ostler.faces.tui.questions import OpenQuestions
from ostler.faces.tui.status import Meters, activity_parts, fitting, status_parts
from ostler.faces.tui.transcript import Transcript
from ostler.runs.session import Session
from ostler.vocabulary import events
from ostler.vocabulary.events import Event
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import as_content

TICK = 0.12
"""Seconds between two pictures of the spinner."""
EARLIER = 40
"""Blocks of an earlier conversation that are shown when it is opened."""


class Tui:
    """Made for one session; `switch` leaves it for another."""

    def __init__(
        self,
        session: Session,
        host: ExtensionHost | None,
        face: TuiFace,
        questions: OpenQuestions,
        *,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self.face = face
        self.questions = questions
        self.panels = Panels(lambda: self.app.refresh())
        self.transcript = Transcript()
        self.rows = BlockRows()
        self.commands = Commands(self)
        asked = QuestionPanel(questions, self.rows)
        questions.opened = lambda: self.panels.open(asked)
        questions.closed = lambda: self.panels.close(asked)
        self.conversation = Conversation(session, host, self._see)
        self.notice = ""
        """What is said in place of the activity until the next key."""
        self._activity = ""
        self._since = time.monotonic()
        self._queued: list[str] = []
        self._ticking: asyncio.TimerHandle | None = None
        self.app = TerminalApp(
            Buffer(multiline=True),
            key_bindings(self),
            above=(self._tail, self.panels.rows, self._queue, self._activity_row),
            below=(self._status,),
            prompt=lambda: "> ",
            input=input,
            output=output,
        )
        face.app = self.app

    async def run(self, first: str = "") -> None:
        """Until the person leaves."""
        self._print_earlier(await self.conversation.session.journal.history())
        self.conversation.begin()
        if first:
            await self.submit(first)
        try:
            await self.app.run()
        finally:
            if self._ticking:
                self._ticking.cancel()
            await self.conversation.leave()

    # --- what happens ---------------------------------------------------------------------------------

    def _see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            self._note(one.event if isinstance(one, Fact) else one)
        closed = self.transcript.take(batch)
        if closed:
            width = self.app.size.columns
            self.app.print([row for block in closed for row in self.rows.closed(block, width)])
        self.app.refresh()
        self._tick()

    def _note(self, event: object) -> None:
        """What is going on, in a word."""
        match event:
            case events.ModelCalled(model=model):
                self._begin(f"asking {model}")
            case events.TextDelta():
                self._activity = "answering"
            case events.ReasoningDelta():
                self._activity = "thinking"
            case events.ToolInputStarted(name=name):
                self._activity = f"writing a call of {name}"
            case events.ToolStarted(name=name):
                self._begin(f"running {name}")
            case events.RunWaiting():
                self._begin("")
            case events.RunEnded():
                self._begin("")

    def _begin(self, activity: str) -> None:
        self._activity, self._since = activity, time.monotonic()

    def _tick(self) -> None:
        """The spinner turns, and the time goes on, while something is under way."""
        if self._ticking is None and self._activity:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tock)

    def _tock(self) -> None:
        self._ticking = None
        self.app.refresh()
        self._tick()

    def _print_earlier(self, facts: Sequence[Fact]) -> None:
        blocks = Transcript(lambda: 0.0).take(facts)
        shown = blocks[-EARLIER:]
        width = self.app.size.columns
        if len(blocks) > len(shown):
            self.app.print(self.rows.note(f"{len(blocks) - len(shown)} earlier blocks are not shown", width))
        self.app.print([row for block in shown for row in self.rows.closed(block, width)])

    # --- what is seen ---------------------------------------------------------------------------------

    def _tail(self, width: int, most: int) -> list[str]:
        rows = [row for block in self.transcript.tail() for row in self.rows.opened(block, width, most)]
        return rows[-most:]

    def _queue(self, width: int, most: int) -> list[str]:
        return [row for text in self._queued[-3:] for row in self.rows.note(f"waiting: {text}", width)]

    def _activity_row(self, width: int, most: int) -> list[str]:
        if self.notice:
            return self.rows.note(self.notice, width)
        frame = int(time.monotonic() / TICK)
        parts = activity_parts(self.meters(), frame, "esc stops")
        return [self.rows.parts(fitting(parts, width))] if parts else []

    def _status(self, width: int, most: int) -> list[str]:
        return [self.rows.parts(fitting(status_parts(self.meters()), width))]

    def meters(self) -> Meters:
        session = self.conversation.session
        state, harness = session.state, session.harness
        usage = state.usage
        return Meters(
            model=harness.model.name,
            cwd=harness.cwd,
            reasoning=harness.reasoning or "",
            activity=self._activity,
            seconds=time.monotonic() - self._since,
            tokens=usage.total_tokens,
            cost=usage.cost,
            context=state.context_tokens,
            waiting=len(self._queued),
        )

    # --- what a person does ---------------------------------------------------------------------------

    async def submit(self, text: str) -> None:
        """Enter: an answer, a command, a prompt now or in its turn."""
        self.notice = ""
        if self.questions.present is not None and not self.questions.options:
            self.notice = self.questions.type(text)
            return
        if not text.strip():
            return
        if await self.commands.run(text):
            return
        await self.conversation.say(as_content(text))

    async def stop(self) -> None:
        await self.conversation.stop()

    def say(self, text: str) -> None:
        """Something that a command has to tell."""
        self.app.print(self.rows.note(text, self.app.size.columns))

    def leave(self) -> None:
        self.app.exit()
