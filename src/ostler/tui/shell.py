"""`!command` and `!!command`: shell commands with live output; the model receives only the first kind."""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ostler.core.processes import find_program
from ostler.history.call_items import shell_entry
from ostler.history.items import CallItem, CallResult, CallStage
from ostler.schema.errors import ToolFailed
from ostler.schema.messages import Text
from ostler.sessions.lease import hold_lease, renew_lease
from ostler.sessions.session import Session
from ostler.tools.child_process import ChildProcess, keep_in_background
from ostler.tools.truncation import Tail, without_surrogates
from ostler.tui.conversation import Conversation
from ostler.tui.render.items import ItemRenderer, OpenCallView


class ShellLine(msgspec.Struct, frozen=True):
    command: str
    """Empty as long as nothing is typed behind the mark."""
    is_told: bool
    """Whether the model is told the command and its output."""


def shell_line(typed: str) -> ShellLine | None:
    """None if it is a prompt."""
    text = typed.strip()
    if text.startswith("!!"):
        return ShellLine(text[2:].lstrip(), is_told=False)
    if text.startswith("!"):
        return ShellLine(text[1:].lstrip(), is_told=True)
    return None


def without_escape(typed: str) -> str:
    """A prompt that begins with `!`."""
    return typed.replace("\\!", "!", 1) if typed.lstrip().startswith("\\!") else typed


TICK = 0.5


class ShellCommands:
    """The running commands. They have no time limit: `stop` ends them, and so does leaving."""

    def __init__(
        self,
        conversation: Callable[[], Conversation],
        draw: ItemRenderer,
        changed: Callable[[], None],
        closed: Callable[[CallItem], None],
    ) -> None:
        self._conversation = conversation
        self._draw = draw
        self._changed = changed
        self._closed = closed
        self._running: dict[asyncio.Task[Any], OpenCallView] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    async def run(self, line: ShellLine) -> None:
        """Runs a command to its end; cancelling only ends the command."""
        task = asyncio.current_task()
        assert task is not None
        name, arguments = "!" if line.is_told else "!!", {"command": line.command}
        item = CallItem("", name=name, stage="running", arguments=arguments, tool_kind="execute")
        self._running[task] = shown = OpenCallView(item, time.monotonic())
        ticking = asyncio.ensure_future(self._tick())
        try:
            await self._run(line, shown)
        finally:
            ticking.cancel()
            del self._running[task]
            self._changed()

    async def _tick(self) -> None:
        """Draws the elapsed time."""
        while True:
            self._changed()
            await asyncio.sleep(TICK)

    async def stop(self) -> None:
        """Ends all of them, with what they printed so far."""
        tasks = list(self._running)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def rows(self, width: int, most: int) -> list[str]:
        now = time.monotonic()
        rows: list[str] = []
        for shown in self._running.values():
            shown.seconds = now - shown.since
            rows += self._draw.opened(shown, width, most)
        return rows[-most:]

    async def _run(self, line: ShellLine, shown: OpenCallView) -> None:
        session = self._conversation().session
        tail = Tail()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def take(piece: bytes) -> None:
            text = decoder.decode(piece)
            tail.feed(text)
            shown.output.feed(text)
            self._changed()

        if not session.is_running:
            await hold_lease(session.journal)
        async with renew_lease(session.journal):
            note = await _run_shell(session, line.command, take)
            tail.feed(decoder.decode(b"", final=True))
            kept = tail.truncated()
            output = without_surrogates(kept.text).replace("\0", "\ufffd").rstrip("\n")
            if kept.truncated:
                output = f"[the last {kept.lines} of {kept.total_lines} lines]\n{output}"
            text = "\n".join(filter(None, (output, note))) or "(no output)"
            seconds = time.monotonic() - shown.since
            if line.is_told:
                entry = shell_entry(line.command, text, failed=bool(note), seconds=seconds)
                session.journal.record(entry)
                await session.journal.commit()
                return
            result = CallResult(content=(Text(text),), duration_ms=round(seconds * 1000))
            stage: CallStage = "failed" if note else "done"
            self._closed(msgspec.structs.replace(shown.item, stage=stage, result=result))


async def _run_shell(session: Session, command: str, take: Callable[[bytes], None]) -> str:
    """How it ended, unless it ended well. Cancelled, the whole group has ended before it returns."""
    journal, harness = session.journal, session.harness
    call = journal.world.new_id("call")
    shell = [find_program("bash") or "sh", "-c", command]
    try:
        child = ChildProcess(shell, session=session.id, call=call, cwd=harness.cwd, on_output=take)
    except ToolFailed as error:
        return f"[{error.message}]"
    try:
        journal.has_processes = True
        await journal.store.own_process(journal.lease, call, child.id)
        await child.wait()
        if child.is_running:
            keep_in_background(session.memory, child)
    except asyncio.CancelledError:
        await child.end()
        return "[stopped]"
    except BaseException:
        await child.end()
        raise
    finally:
        child.close_unless_kept()
    return f"[exit code {child.returncode}]" if child.returncode else ""
