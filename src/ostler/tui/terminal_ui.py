"""`TerminalUI`: one conversation, how it is drawn, and what a person does."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from ostler.core.lazy import lazy_module
from ostler.extensions.ui.themes import ThemeColors
from ostler.history.items import CallItem, Level
from ostler.models.factory import LazyModel
from ostler.schema.events import Event
from ostler.schema.facts import Fact
from ostler.sessions.session import Session
from ostler.tools import LazyTool
from ostler.tui.child_questions import ChildQuestions
from ostler.tui.command_context import SessionSwitch
from ostler.tui.commands.registry import Commands
from ostler.tui.composer import Composer
from ostler.tui.conversation import Conversation
from ostler.tui.editor.input_line import ChipStyle, EmptyHint
from ostler.tui.extension_keys import give_keys_to_extensions
from ostler.tui.extension_ui import PROMPT, ExtensionViews
from ostler.tui.front_end import TuiFrontEnd
from ostler.tui.inline_app import Editing, InlineApp
from ostler.tui.keys import key_bindings
from ostler.tui.model_setup import ModelFallback
from ostler.tui.notifications import Notifier, Notify
from ostler.tui.panels.panel import Panels
from ostler.tui.render.items import ItemRenderer, notice
from ostler.tui.render.spans import apart
from ostler.tui.status import Activity, MeterReader, Meters, activity_parts, fitting, status_parts
from ostler.tui.transcript import TranscriptPrinter, TranscriptView, last_rows, restored_facts, tail_rows

if TYPE_CHECKING:
    from ostler.core.harness import Harness
    from ostler.extensions.host import ExtensionHost
    from ostler.tui.panels import question
    from ostler.tui.panels.question import QuestionPanel
    from ostler.tui.render.images import Way
else:
    question = lazy_module("ostler.tui.panels.question")

TICK = 0.12
"""Seconds between two frames of the spinner."""

EARLIER = 40
"""Items of an earlier conversation that are printed when it is opened, at most."""

LATER = (
    "ostler.core.loop",
    "ostler.models.endpoint",
    "ostler.tui.render.markdown_stream",
    "ostler.tui.render.markdown",
    "markdown_it",
)


async def load_later(harness: Harness) -> None:
    """Loads modules one by one, so that a key waits for one of them at most."""
    for name in LATER:
        import_module(name)
        await asyncio.sleep(0)
    if isinstance(harness.model, LazyModel):
        harness.model.load()
        await asyncio.sleep(0)
    for tool in list(harness.tools.values()):
        if isinstance(tool, LazyTool):
            tool.load()
            await asyncio.sleep(0)


class TerminalUI:
    """The terminal UI of a session, which `SessionSwitch` can replace. It is the `CommandContext` of all its
    parts."""

    app: InlineApp
    commands: Commands
    conversation: Conversation
    printing: TranscriptPrinter
    writing: Composer

    def __init__(
        self,
        session: Session,
        host: ExtensionHost | None,
        face: TuiFrontEnd,
        *,
        input: Input | None = None,
        output: Output | None = None,
        notify: Notify = "auto",
        editing: Editing = "emacs",
        pictures: Way = "",
    ) -> None:
        self.face = face
        self.questions = face.questions
        self.panels = Panels(lambda: self.app.refresh())
        self.transcript = TranscriptView(cwd=session.harness.cwd)
        self.rows = ItemRenderer()
        self.commands = Commands(self)
        self.extensions = ExtensionViews(self, face)
        self.children = ChildQuestions()
        self._question_panel: QuestionPanel | None = None
        self.questions.opened = self._open_question
        self.questions.closed = self._close_question
        self.conversation = Conversation(session, host, self.see)
        self.switching = SessionSwitch(self)
        self.rescue = ModelFallback(self)
        face.switch_to = self.switching.to
        self.notice = ""
        """A message in place of the activity, until the next key."""
        self.activity = Activity(self.transcript)
        self.meter = MeterReader(session, self.activity)
        self.notifier = Notifier(self.write, session.harness.cwd.name, os.environ, notify)
        self.writing = Composer(self, session.harness.cwd)
        self._ticking: asyncio.TimerHandle | None = None
        keys = key_bindings(self)
        self.notifier.bind(keys)
        face.unwatched = self.notifier.unwatched
        self.app = InlineApp(
            self.writing.line.buffer,
            keys,
            above=(
                self.panels.top,
                self.extensions.header,
                self._tail,
                self.writing.shell.rows,
                self.writing.waiting.rows,
                self.extensions.above,
                self._activity_row,
                self.panels.rows,
            ),
            below=(self.panels.bottom, self.extensions.below, self.extensions.footer, self._status),
            prompt=lambda: PROMPT,
            instead=self.extensions.line,
            first=(
                self.extensions.line,
                self._status,
                self.panels.rows,
                self.panels.top,
                self.panels.bottom,
                self._activity_row,
                self._tail,
                self.writing.shell.rows,
                self.writing.waiting.rows,
                self.extensions.above,
                self.extensions.below,
            ),
            input=input,
            output=output,
            editing=editing,
            highlights=[ChipStyle(self.writing.line), EmptyHint(self._is_new)],
        )
        self.app.is_whole = lambda region: region == self.panels.rows and self.panels.is_tall
        self.printing = TranscriptPrinter(
            self.rows,
            self.extensions,
            lambda: self.app.size.columns,
            lambda rows: self.app.print(rows),
            lambda: self.app.ends_blank,
            pictures,
        )
        face.show(self.app, self.rows)
        give_keys_to_extensions(self)

    async def run(self, first: str = "") -> None:
        """Runs until the person quits."""
        await self._print_earlier()
        self.extensions.begin()
        self.conversation.begin()
        if first:
            self.writing.soon(self.submit(first))
        later = asyncio.ensure_future(self._after_first_frame())
        self.notifier.begin()
        try:
            await self.app.run()
        finally:
            self.notifier.end()
            later.cancel()
            if self._ticking:
                self._ticking.cancel()
            await self.writing.close()
            self.rescue.end()
            await self.conversation.close()
            await self.printing.finish()
            self.app.finish()
            self.extensions.stop()

    async def _after_first_frame(self) -> None:
        await self.app.is_seen.wait()
        await load_later(self.conversation.harness)
        await self.meter.look_back()

    # --- events -----------------------------------------------------------------------------------------

    def see(self, batch: Sequence[Fact | Event]) -> None:
        events = self.children.among(batch)
        for one in events:
            event = one.event if isinstance(one, Fact) else one
            self.activity.take(event)
            self.meter.take(event)
            self.rescue.take(event)
            self.notifier.take(event, self.activity.run_seconds)
        closed = self.transcript.take(self.writing.waiting.take(events))
        self.extensions.see(batch)
        if closed:
            self.printing.take(closed)
        self.app.refresh()
        self._tick()

    def _tick(self) -> None:
        """Animates the spinner and the elapsed time during a run."""
        if self._ticking is None and self.activity.words:
            self._ticking = asyncio.get_running_loop().call_later(TICK, self._tock)

    def _tock(self) -> None:
        self._ticking = None
        self.app.refresh()
        self._tick()

    def _open_question(self) -> None:
        if self._question_panel is None:
            self._question_panel = question.QuestionPanel(self)
        self.panels.open(self._question_panel)

    def _close_question(self) -> None:
        if self._question_panel is not None:
            self.panels.close(self._question_panel)

    async def show(self, conversation: Conversation) -> None:
        """Shows another session in place of the present one."""
        self.conversation = conversation
        self.transcript = TranscriptView(cwd=conversation.harness.cwd)
        self.activity = Activity(self.transcript)
        self.meter = MeterReader(conversation.session, self.activity)
        state = conversation.session.state
        self.say(f"session {state.id} {state.title}".rstrip() if state.leaf else "started a new session")
        await self._print_earlier()
        self.extensions.begin()
        conversation.begin()
        await self.writing.waiting.look()
        await self.meter.look_back()

    async def _print_earlier(self) -> None:
        """Prints the end of the conversation, about two screens."""
        columns, rows = self.app.size.columns, self.app.size.rows
        facts, has_more = await restored_facts(self.conversation.session.journal, min(EARLIER, rows))
        blocks = self.transcript.take(facts)
        drawn = last_rows(
            blocks[-EARLIER:], lambda block: self.rows.closed(block, columns), 2 * rows, columns
        )
        if has_more or len(blocks) > EARLIER:
            self.app.print(self.rows.note("earlier messages are not shown", columns))
        self.app.print(drawn)
        if self.conversation.is_elsewhere:
            self._join()

    def _join(self) -> None:
        """Shows the activity of a run of another process."""
        session = self.conversation.session
        if (run := session.state.run) is not None:
            seconds = (session.journal.world.now_ms() - run.time_ms) / 1000
            self.activity.join(run, seconds, session.state.questions)
            self._tick()

    # --- drawing ----------------------------------------------------------------------------------------

    def _is_new(self) -> bool:
        """Nothing is typed yet, and nothing else is shown."""
        return not self.writing.has_typed and not self.activity.words and self.panels.present is None

    @property
    def is_asked(self) -> bool:
        """Keys go to a question."""
        return self._question_panel is not None and self.panels.taking is self._question_panel

    def _tail(self, width: int, most: int) -> Sequence[str]:
        if self.panels.is_tall:
            return []
        tail, pushed = self.transcript.tail(), self.app.pushed
        rows = tail_rows(tail, self.rows, width, most + len(pushed), after_blank=self.app.ends_blank)
        return pushed.below(rows)[-most:]

    def _activity_row(self, width: int, most: int) -> list[str]:
        if self.notice:
            return self.rows.note(self.notice, width)
        frame = int(time.monotonic() / TICK)
        hint = "" if self.extensions.visibility.hide_hint else self._escape_hint()
        parts = activity_parts(self.meters(), frame, hint)
        return [self.rows.parts(fitting(parts, width))] if parts else []

    def _escape_hint(self) -> str:
        if not self.panels.takes("esc"):
            return "esc stops"
        return "esc declines" if self.is_asked else "esc closes"

    def _status(self, width: int, most: int) -> list[str]:
        if self.extensions.visibility.hide_status:
            return []
        return [self.rows.parts(fitting(status_parts(self.meters()), width))]

    def meters(self) -> Meters:
        read = self.meter.read(len(self.writing.waiting), self.extensions.notes)
        if self.conversation.is_elsewhere:
            return read
        return msgspec.structs.replace(read, permissions=self.conversation.harness.permission_profile)

    def write(self, text: str) -> None:
        """Writes control sequences for the terminal itself."""
        self.app.application.output.write_raw(text)
        self.app.application.output.flush()

    # --- actions ----------------------------------------------------------------------------------------

    async def submit(self, text: str) -> None:
        """Sends a text as if a person had typed it."""
        await self.writing.submit_text(text)

    async def stop(self) -> None:
        await self.writing.back.stop()

    def say(self, text: str, level: Level = "info") -> None:
        """Prints a message of a command."""
        self.app.print(self.rows.closed(notice(text, level), self.app.size.columns))

    def show_notice(self, text: str) -> None:
        self.notice = text
        self.app.refresh()

    def print_item(self, item: CallItem) -> None:
        self.printing.take([item])

    def show_thoughts(self) -> None:
        """Prints the last reasoning, which was folded."""
        if thoughts := self.transcript.last_reasoning:
            rows = self.rows.thoughts(thoughts, self.app.size.columns)
            self.app.print(apart([rows], after_blank=self.app.ends_blank))
        else:
            self.say("there is no reasoning to show")

    def colors(self) -> ThemeColors | None:
        return self.rows.colors

    def quit(self) -> None:
        self.app.exit()
