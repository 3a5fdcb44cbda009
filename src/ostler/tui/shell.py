"""`!command` runs in the shell and the model reads its output; `!!command` keeps it from the model.

A prompt that begins with `\\!` begins with a plain `!`.
"""

from __future__ import annotations

import asyncio
import codecs
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
from ostler.tui.render.items import OpenCallView

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext


class ShellLine(msgspec.Struct, frozen=True):
    command: str
    """Empty until something follows the mark."""
    is_for_model: bool
    """Whether the model gets the command and its output."""


def shell_line(typed: str) -> ShellLine | None:
    """The shell command of a line; None for a prompt."""
    text = typed.strip()
    if not text.startswith("!"):
        return None
    return ShellLine(text.removeprefix("!").removeprefix("!").lstrip(), not text.startswith("!!"))


def without_escape(typed: str) -> str:
    """The text of a prompt without the backslash before `!`."""
    return typed.replace("\\!", "!", 1) if typed.lstrip().startswith("\\!") else typed


TICK = 0.5


class ShellCommands:
    """The running shell commands. They have no time limit: `stop` ends them, and so does quitting."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._running: dict[asyncio.Task[Any], OpenCallView] = {}

    def __bool__(self) -> bool:
        return bool(self._running)

    async def run(self, line: ShellLine) -> None:
        """Runs a command to its end. Cancelling it stops the command."""
        task = asyncio.current_task()
        assert task is not None
        name, arguments = "!" if line.is_for_model else "!!", {"command": line.command}
        item = CallItem("", name=name, stage="running", arguments=arguments, tool_kind="execute")
        self._running[task] = call = OpenCallView(item, time.monotonic())
        ticker = asyncio.ensure_future(self._tick())
        try:
            await self._run(line, call)
        finally:
            ticker.cancel()
            del self._running[task]
            self._context.app.refresh()

    async def _tick(self) -> None:
        """Refreshes the elapsed time."""
        while True:
            self._context.app.refresh()
            await asyncio.sleep(TICK)

    async def stop(self) -> None:
        """Stops all of them; their output so far is kept."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait([*self._running])

    def rows(self, width: int, most: int) -> list[str]:
        rows: list[str] = []
        for call in self._running.values():
            call.seconds = time.monotonic() - call.since
            rows += self._context.rows.opened(call, width, most)
        return rows[-most:]

    async def _run(self, line: ShellLine, call: OpenCallView) -> None:
        session = self._context.conversation.session
        tail = Tail()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")

        def take(piece: bytes) -> None:
            text = decoder.decode(piece)
            tail.feed(text)
            call.output.feed(text)
            self._context.app.refresh()

        if not session.is_running:
            await hold_lease(session.journal)
        async with renew_lease(session.journal):
            note = await _run_shell(session, line.command, take)
            tail.feed(decoder.decode(b"", final=True))
            end = tail.truncated()
            output = without_surrogates(end.text).replace("\0", "\ufffd").rstrip("\n")
            if end.truncated:
                output = f"[the last {end.lines} of {end.total_lines} lines]\n{output}"
            text = "\n".join(filter(None, (output, note))) or "(no output)"
            seconds = time.monotonic() - call.since
            if line.is_for_model:
                entry = shell_entry(line.command, text, failed=bool(note), seconds=seconds)
                session.journal.record(entry)
                await session.journal.commit()
                return
            result = CallResult(content=(Text(text),), duration_ms=round(seconds * 1000))
            stage: CallStage = "failed" if note else "done"
            self._context.print_item(msgspec.structs.replace(call.item, stage=stage, result=result))


async def _run_shell(session: Session, command: str, take: Callable[[bytes], None]) -> str:
    """Runs a command; returns how it ended, unless it succeeded. Cancelling it ends the process group."""
    journal, harness = session.journal, session.harness
    call = journal.world.new_id("call")
    shell = [find_program("bash") or "sh", "-c", command]
    try:
        child = ChildProcess(
            shell, session=session.id, call=call, cwd=harness.cwd, on_output=take, keeps_keys=True
        )
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
