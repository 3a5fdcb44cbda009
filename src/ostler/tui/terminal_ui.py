"""`TerminalUI`: one conversation, how it is drawn, and what a person does."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from ostler.core.lazy import lazy_module
from ostler.extensions.ui.themes import ThemeColors
from ostler.history.items import CallItem, Level
from ostler.models.factory import LazyModel
from ostler.schema.events import Event, RunWaiting
from ostler.schema.facts import Fact
from ostler.sessions.session import Session
from ostler.tools import LazyTool
from ostler.tui.command_context import SessionSwitch
from ostler.tui.commands.registry import Commands
from ostler.tui.composer import Composer
from ostler.tui.conversation import PAUSED, Conversation
from ostler.tui.editor.chips import Chips, PromptDraft
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
    """The terminal UI of a session, which `session_switch` can replace. It is a `CommandContext`."""

    app: InlineApp
    commands: Commands
    conversation: Conversation
    printer: TranscriptPrinter
    composer: Composer

    def __init__(
        self,
        session: Session,
        host: ExtensionHost | None,
        front_end: TuiFrontEnd,
        *,
        input: Input | None = None,
        output: Output | None = None,
        notify: Notify = "auto",
        editing: Editing = "emacs",
        pictures: Way = "",
    ) -> None:
        self.front_end = front_end
        self.clock: Callable[[], float] = time.monotonic
        self.questions = front_end.questions
        self.panels = Panels(lambda: self.app.refresh())
        self.transcript = TranscriptView(cwd=session.harness.cwd)
        self.rows = ItemRenderer()
        self.commands = Commands(self)
        self.extensions = ExtensionViews(self, front_end)
        self._question_panel: QuestionPanel | None = None
        self.questions.opened = self._open_question
        self.questions.closed = self._close_question
        self.conversation = Conversation(session, host, self.see)
        self.session_switch = SessionSwitch(self)
        self._fallback = ModelFallback(self)
        front_end.switch_to = self.session_switch.to
        self.notice = ""
        """A message in place of the activity, until the next key."""
        self.activity = Activity(self.transcript)
        self.meter = MeterReader(session, self.activity)
        self.notifier = Notifier(self.write, session.harness.cwd.name, os.environ, notify)
        self.composer = Composer(self, session.harness.cwd)
        self._timer: asyncio.TimerHandle | None = None
        keys = key_bindings(self)
        self.notifier.bind(keys)
        front_end.without_focus_reports = self.notifier.without_focus_reports
        self.app = InlineApp(
            self.composer.line.buffer,
            keys,
            above=(
                self.panels.top,
                self.extensions.header,
                self._tail,
                self.composer.shell.rows,
                self.composer.queue.rows,
                self.extensions.above,
                self._activity_row,
                self.panels.rows,
            ),
            below=(self.panels.bottom, self.extensions.below, self.extensions.footer, self._status),
            prompt=PROMPT,
            instead=self.extensions.line,
            first=(
                self.extensions.line,
                self._status,
                self.panels.rows,
                self.panels.top,
                self.panels.bottom,
                self._activity_row,
                self._tail,
                self.composer.shell.rows,
                self.composer.queue.rows,
                self.extensions.above,
                self.extensions.below,
            ),
            input=input,
            output=output,
            editing=editing,
            highlights=[ChipStyle(self.composer.line), EmptyHint(self._is_new)],
        )
        self.app.is_whole = lambda region: region == self.panels.rows and self.panels.is_tall
        self.app.is_large = lambda region: region == self.panels.rows and self.panels.is_large
        self.printer = TranscriptPrinter(self.rows, self.extensions, self.app, pictures)
        front_end.show(self.app, self.rows)
        give_keys_to_extensions(self)

    async def run(self, first: str = "") -> None:
        """Runs until the person quits."""
        await self._print_earlier()
        self.extensions.begin()
        self.conversation.begin()
        if first:
            self.composer.soon(self.submit(first))
        later = asyncio.ensure_future(self._after_first_frame())
        self.notifier.begin()
        try:
            await self.app.run()
        finally:
            self.notifier.end()
            later.cancel()
            if self._timer:
                self._timer.cancel()
            await self.composer.close()
            self._fallback.end()
            await self.conversation.close()
            await self.printer.finish()
            self.app.finish()
            self.extensions.renderings.stop()

    async def _after_first_frame(self) -> None:
        await self.app.is_seen.wait()
        await load_later(self.conversation.harness)
        await self.meter.count_earlier_usage()

    # --- events -----------------------------------------------------------------------------------------

    def see(self, batch: Sequence[Fact | Event]) -> None:
        events = self.questions.with_child_questions(batch)
        for one in events:
            event = one.event if isinstance(one, Fact) else one
            self.activity.take(event)
            self.meter.take(event)
            self._fallback.take(event)
            self.notifier.take(event, self.activity.run_seconds)
            if isinstance(event, RunWaiting) and event.reason == "paused":
                self.say(PAUSED)
        closed = self.transcript.take(self.composer.queue.take(events))
        self.extensions.see(batch)
        if closed:
            self.printer.take(closed)
        self.app.refresh()
        self._tick()

    def _tick(self) -> None:
        """Animates the spinner and the elapsed time during a run."""
        if self._timer is None and self.activity.words:
            self._timer = asyncio.get_running_loop().call_later(TICK, self._animate)

    def _animate(self) -> None:
        self._timer = None
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
        await self.composer.queue.refresh()
        await self.meter.count_earlier_usage()

    async def _print_earlier(self) -> None:
        """Prints the end of the conversation, about two screens."""
        columns, rows = self.app.size.columns, self.app.size.rows
        facts, has_more = await restored_facts(self.conversation.session.journal, min(EARLIER, rows))
        items = self.transcript.take(facts)
        if has_more or len(items) > EARLIER:
            self.app.print(self.rows.note("earlier messages are not shown", columns))
        self.app.print(last_rows(items[-EARLIER:], self.rows, 2 * rows, columns))
        session = self.conversation.session
        run = session.state.run
        if run is not None and (self.conversation.is_elsewhere or run.waiting):
            seconds = (session.journal.world.now_ms() - run.time_ms) / 1000
            self.activity.join(run, seconds, session.state.questions)
            self._tick()
        if self.conversation.is_paused:
            self.say(PAUSED)

    # --- drawing ----------------------------------------------------------------------------------------

    def _is_new(self) -> bool:
        """Nothing is typed yet, and nothing else is shown."""
        return not self.composer.has_typed and not self.activity.words and self.panels.present is None

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
        hint = "esc stops"
        if self.panels.takes("esc"):
            hint = "esc declines" if self.is_asked else "esc closes"
        parts = activity_parts(self.meters(), frame, "" if self.extensions.visibility.hide_hint else hint)
        return [self.rows.parts(fitting(parts, width))] if parts else []

    def _status(self, width: int, most: int) -> list[str]:
        if self.extensions.visibility.hide_status:
            return []
        return [self.rows.parts(fitting(status_parts(self.meters()), width))]

    def meters(self) -> Meters:
        conversation = self.conversation
        permissions = "" if conversation.is_elsewhere else conversation.harness.permission_profile
        return self.meter.read(len(self.composer.queue), self.extensions.notes, permissions)

    def write(self, text: str) -> None:
        """Writes control sequences for the terminal itself."""
        self.app.application.output.write_raw(text)
        self.app.application.output.flush()

    # --- actions ----------------------------------------------------------------------------------------

    async def submit(self, text: str) -> None:
        """Sends a text as if a person had typed it."""
        await self.composer.submit(PromptDraft(text, Chips()))

    def say(self, text: str, level: Level = "info") -> None:
        """Prints a message of a command."""
        self.app.print(self.rows.closed(notice(text, level), self.app.size.columns))

    def show_notice(self, text: str) -> None:
        self.notice = text
        self.app.refresh()

    def print_item(self, item: CallItem) -> None:
        self.printer.take([item])

    def show_thoughts(self) -> None:
        """Prints the last reasoning, which was folded."""
        if reasoning := self.transcript.last_reasoning:
            rows = self.rows.reasoning(reasoning, self.app.size.columns)
            self.app.print(apart([rows], after_blank=self.app.ends_blank))
        else:
            self.say("there is no reasoning to show")

    def colors(self) -> ThemeColors | None:
        return self.rows.colors

    def quit(self) -> None:
        self.app.exit()
