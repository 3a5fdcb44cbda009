"""From keys to the conversation: the input line and what belongs to it, Escape and prompt expansion."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.app.prompt_expansion import Expansion, command_text, record_read_files
from ostler.app.remote_sessions import RemoteSessions, as_typed
from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.schema.errors import OstlerError
from ostler.schema.events import RequestRefused, UserMessage
from ostler.schema.messages import as_content
from ostler.schema.requests import Navigate
from ostler.tui.conversation import Tasks
from ostler.tui.editor.chips import PromptDraft
from ostler.tui.editor.input_line import InputLine, edited, editor_command, interrupts_for_editor
from ostler.tui.editor.prompt_history import HistorySearch, PromptHistory
from ostler.tui.keys import DoublePress, KeyChords
from ostler.tui.model_setup import ThinkingLevel
from ostler.tui.prompt_queue import PromptQueue
from ostler.tui.shell import ShellCommands, shell_line, without_escape

if TYPE_CHECKING:
    from ostler.context import mentions
    from ostler.tui import history_viewer
    from ostler.tui.editor import completion, paste
    from ostler.tui.editor.completion import CompletionPopup
    from ostler.tui.terminal_ui import TerminalUI
else:
    completion = lazy_module("ostler.tui.editor.completion")
    history_viewer = lazy_module("ostler.tui.history_viewer")
    mentions = lazy_module("ostler.context.mentions")
    paste = lazy_module("ostler.tui.editor.paste")

CLEAR_FIRST = "clear the line first to go back to your last prompt"


class _RewindPoint(msgspec.Struct, frozen=True):
    session: str
    leaf: int
    """The leaf before."""
    to: int
    text: str
    """The prompt that was put into the line."""


class Rewind:
    """Escape: it stops a run, and a second time goes back to before the last prompt."""

    def __init__(self, tui: TerminalUI, composer: Composer) -> None:
        self._tui = tui
        self._composer = composer
        self._line = composer.line
        self._press = DoublePress(tui, "press esc again to go back to your last prompt")
        self._first_at: tuple[str, int] = ("", 0)
        self._first_run = ""
        """The run that the first of two Escapes stopped."""
        self._lock = asyncio.Lock()
        self._last: _RewindPoint | None = None

    def escape(self) -> Coroutine[Any, Any, None]:
        """Acts on the state when the key is pressed. A new run or prompt makes it the first press again."""
        session = self._tui.conversation.session
        at, run = (session.id, max(session.state.builder.prompts, default=0)), session.state.run
        is_second = self._press.is_second and at == self._first_at and (not run or run.id == self._first_run)
        if is_second:
            self._tui.show_notice("")
            return self._go_back()
        self._first_at, self._first_run = at, run.id if run else ""
        if not self._line.text and not self._composer.shell and (run or session.state.builder.prompts):
            self._press.first()
        return self._escape(is_empty=not self._line.text)

    async def _escape(self, *, is_empty: bool) -> None:
        async with self._lock:
            if self._composer.shell:
                await self._composer.shell.stop()
            elif await self._is_working():
                await self._stop()
            elif not is_empty:
                self._tui.show_notice(CLEAR_FIRST)

    async def _is_working(self) -> bool:
        conversation = self._tui.conversation
        return conversation.session.state.run is not None or await conversation.is_busy()

    async def _stop(self) -> None:
        """Stops the run, or one that is about to start."""
        conversation = self._tui.conversation
        await conversation.stop()
        is_ours = conversation.session.state.run is None and not conversation.is_elsewhere
        if is_ours and await conversation.is_busy():
            conversation.session.cancel()

    async def _until_idle(self) -> None:
        changed = asyncio.Event()
        stop = self._tui.conversation.observe(lambda batch: changed.set())
        try:
            while await self._is_working():
                changed.clear()
                await changed.wait()
        finally:
            stop()

    async def _go_back(self) -> None:
        async with self._lock:
            await self._until_idle()
            await self._rewind()

    async def _rewind(self) -> None:
        """Goes back to before the last prompt, and puts it into the line."""
        conversation = self._tui.conversation
        session = conversation.session
        if self._line.text:
            self._tui.show_notice(CLEAR_FIRST)
        if not session.state.builder.prompts or self._line.text:
            return
        leaf, number = session.state.leaf, max(session.state.builder.prompts)
        fact = (await conversation.store.read(session.id, number - 1, 1))[0]
        to, prompt = fact.parent or 0, fact.event
        assert isinstance(prompt, UserMessage)
        outcome = await conversation.ask(lambda id: Navigate(id=id, by="tui", entry=to))
        if isinstance(outcome, RequestRefused):
            return
        draft = self._composer.queue.draft_of(prompt.request, prompt.content)
        self._line.put_back(draft)
        self._last = _RewindPoint(session.id, leaf, to, draft.text)
        self._tui.show_notice("went back to before your last prompt; ctrl+c undoes this; files do not change")

    async def undo(self, cleared: str) -> str:
        """Undoes it when the person clears the prompt in the line. Returns a message, or nothing."""
        point, self._last = self._last, None
        session = self._tui.conversation.session
        present = (session.id, session.state.leaf, cleared)
        if point is None or present != (point.session, point.to, point.text):
            return ""
        outcome = await self._tui.conversation.ask(lambda id: Navigate(id=id, by="tui", entry=point.leaf))
        return "" if isinstance(outcome, RequestRefused) else "the conversation continues from where it was"


class Composer:
    """Connects the keys, the input line and the conversation."""

    def __init__(self, tui: TerminalUI, cwd: Path) -> None:
        self._tui = tui
        self._cwd = cwd
        """Where mentioned paths begin."""
        self.line = InputLine(PromptHistory())
        self.line.on_typed = self._typed
        self.search = HistorySearch(self.line, tui.panels, tui.rows)
        self.shell = ShellCommands(tui)
        self.queue = PromptQueue(tui, self.line)
        self.rewind = Rewind(tui, self)
        self.thinking = ThinkingLevel(tui)
        chords = {
            "e": ("edit in $EDITOR", lambda: self.soon(self._edit_outside())),
            "s": ("steer", self.steer),
            "t": ("reasoning", tui.show_thoughts),
            "m": ("messages", lambda: self.soon(history_viewer.HistoryViewer(tui).choose())),
        }
        self.chords = KeyChords(tui.panels, tui.rows, chords)
        self.has_typed = False
        """A person has typed in this terminal."""
        self._lock = asyncio.Lock()
        self._tasks = Tasks(lambda error: tui.show_notice(error.message))

    @cached_property
    def popup(self) -> CompletionPopup:
        """Loaded when the first command or path is typed."""
        return completion.CompletionPopup(
            self.line,
            self._tui.panels,
            self._tui.rows,
            cwd=self._cwd,
            commands=self._tui.commands.entries,
            complete_arguments=self._tui.commands.complete,
            submit=self.enter,
        )

    @property
    def _has_popup(self) -> bool:
        return "popup" in self.__dict__

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work)

    async def close(self) -> None:
        """Called before the conversation is closed."""
        if self._has_popup:
            self.popup.close()
        self.queue.close()
        await self.shell.stop()
        await self._tasks.close()

    def _typed(self) -> None:
        self.has_typed = True
        self._tui.notice = ""
        if self._has_popup or "/" in self.line.text or "@" in self.line.text:
            self.popup.update()

    # --- sending ----------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Sends the line: a command, or a prompt now or queued."""
        self._send(steers=False)

    def steer(self) -> None:
        """Sends the line as a steer."""
        self._send(steers=True)

    def _send(self, *, steers: bool) -> None:
        pasting = self.line.pasting
        if pasting is not None and not pasting.done():
            pasting.add_done_callback(lambda _: self._send(steers=steers))
        else:
            self.soon(self.submit(self.line.take(), steers=steers))

    async def submit(self, draft: PromptDraft, *, steers: bool = False) -> None:
        tui = self._tui
        tui.notice = ""
        if not draft.text.strip():
            if len(self.queue):
                await tui.conversation.release()
            await tui.conversation.resume()
            return
        self.soon(self._add_to_history(draft))
        if shell_line(draft.text):
            command = shell_line(draft.pasted_in)
            if command is None or not command.command:
                self.line.put_back(draft)
            else:
                await self.shell.run(command)
        elif not await tui.commands.run(draft.pasted_in):
            try:
                await self._send_prompt(draft, steers=steers)
            except OstlerError as error:
                self.line.put_back(draft)
                tui.show_notice(error.message)

    async def _add_to_history(self, draft: PromptDraft) -> None:
        """If that fails, another notice is more important."""
        try:
            await self.line.add_to_history(draft)
        except OstlerError as error:
            if not self._tui.notice:
                self._tui.show_notice(error.message)

    async def _send_prompt(self, draft: PromptDraft, *, steers: bool) -> None:
        conversation = self._tui.conversation
        names = [one.name for one in self._tui.commands.entries()] if draft.text.startswith("/") else []
        async with self._lock:
            if isinstance(conversation.store, RemoteSessions):
                prompt = Expansion(as_typed(draft))
            else:
                prompt = await asyncio.to_thread(expand_draft, draft, conversation.harness, names)
            record_read_files(conversation.session.memory, prompt)
            if prompt.notices:
                self._tui.show_notice("; ".join(prompt.notices))
            if steers and conversation.is_working:
                self.queue.sent(await conversation.steer(prompt.blocks), draft, prompt.blocks)
            else:
                self.queue.sent(await conversation.prompt(prompt.blocks), draft)

    # --- other ways to write ----------------------------------------------------------------------------

    def up(self) -> None:
        """Moves up a row; from the first row to the history. In an empty line, takes back a queued prompt."""
        buffer = self.line.buffer
        if buffer.document.cursor_position_row > 0:
            buffer.cursor_up()
        elif not self.line.text and len(self.queue):
            self.soon(self._take_back())
        else:
            self.line.older()

    async def _take_back(self) -> None:
        mine = await self.queue.mine()
        if self.line.text:
            return
        if not mine or not await self.queue.take_back(mine[-1], edits=True):
            self.line.older()

    def down(self) -> None:
        buffer = self.line.buffer
        if buffer.document.cursor_position_row < buffer.document.line_count - 1:
            buffer.cursor_down()
        else:
            self.line.newer()

    def paste(self, pasted: str) -> None:
        """Pastes into a panel that takes text, never into one where a letter decides."""
        panels = self._tui.panels
        if panels.takes_pastes:
            for letter in pasted.replace("\r\n", "\n").replace("\r", "\n"):
                if letter.isprintable() or (letter == "\n" and self._tui.is_asked):
                    panels.key(letter)
        else:
            self.line.paste(pasted, self._tui.conversation.harness.cwd)

    async def paste_clipboard(self) -> None:
        chips, content = self.line.chips, await asyncio.to_thread(paste.clipboard)
        if isinstance(content, str):
            self.paste(content)
        else:
            self.line.insert(chips.add_picture(content) + " ")

    async def _edit_outside(self) -> None:
        text, chips, cwd = self.line.text, self.line.chips, self._tui.conversation.harness.cwd
        command = editor_command()
        async with self._tui.front_end.suspended():
            with interrupts_for_editor():
                text = await asyncio.to_thread(edited, text, command, cwd)
        self.line.put(PromptDraft(text, chips))


def expand_draft(draft: PromptDraft, harness: Harness, commands: Collection[str]) -> Expansion:
    """Expands slash commands and mentioned files, as `ostler -p` does. What was pasted is data: nothing in it
    is a command or a mention.

    Raises `UsageError` for an unknown command, which `commands` may resemble. Reads files: not for the event
    loop.
    """
    written = without_escape(draft.text).strip()
    full = draft.chips.text_with_chips(written)
    text, mentioned_in = full.text, written
    if written.startswith("/"):
        command = command_text((full.text,), harness, commands)
        text = command.text
        # A project must not attach what its user did not name, and neither must a paste.
        if command.is_own:
            mentioned_in = command_text((written,), harness, commands).text
    if "@" not in mentioned_in:
        return Expansion(as_content((text, *full.images)))
    rules = harness.file_rules()
    files = mentions.with_mentions(text, harness.cwd, mentioned_in=mentioned_in, rules=rules)
    blocks = as_content((files.text, *full.images, *files.blocks))
    return Expansion(blocks, files.notices, files.digests)
