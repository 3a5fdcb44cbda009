"""The bash tool: a command in the session's directory, with its output live."""

from __future__ import annotations

import asyncio
import codecs
import signal
import time
from typing import Annotated, Any

import msgspec

from ostler.core.function_tool import validate_arguments
from ostler.core.processes import find_program
from ostler.core.tool import ToolContext, ToolSpec, schema_of
from ostler.schema.outcomes import Failed, Ok, failed, ok
from ostler.tools.child_process import child_process, keep_in_background
from ostler.tools.truncation import Tail, TruncatedText, byte_length, size_text

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 600.0
_HEADER_ROOM = 300


class BashArguments(msgspec.Struct, frozen=True):
    command: str
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None


class BashTool:
    """Runs a command until it ends or reaches its time limit.

    - On cancellation or timeout, the whole process group is dead before the call returns.
    - Background processes live until the session is closed.
    """

    def __init__(self, default_timeout: float = DEFAULT_TIMEOUT, max_timeout: float = MAX_TIMEOUT) -> None:
        self._max_timeout = max_timeout
        self._default_timeout = min(default_timeout, max_timeout)
        self.spec = ToolSpec(
            source="built-in",
            name="bash",
            description=(
                "Runs a shell command in the working directory. Returns stdout and stderr combined, the last "
                "2000 lines or 50 KiB; longer output is stored and can be read. There is no terminal and no "
                "stdin: pass flags that disable prompts. Start servers in the background with &."
            ),
            schema=schema_of(
                BashArguments,
                {
                    "command": "the command to run",
                    "timeout": f"seconds; default {self._default_timeout:g}, maximum {max_timeout:g}",
                },
            ),
            kind="execute",
        )

    def validate(self, arguments: dict[str, Any]) -> BashArguments:
        return validate_arguments(arguments, BashArguments, self.spec.name)

    async def run(self, arguments: BashArguments, context: ToolContext) -> Ok | Failed:
        timeout = min(arguments.timeout or self._default_timeout, self._max_timeout)
        output = _Output(context)
        timed_out = False
        began = time.monotonic()
        shell = [find_program("bash") or "sh", "-c", arguments.command]
        async with child_process(shell, context=context, cwd=context.cwd, on_output=output.take) as child:
            try:
                async with asyncio.timeout(timeout):
                    await child.wait()
            except TimeoutError:
                timed_out = True
                await child.end()
            left_running = child.is_running
            if left_running:
                keep_in_background(context.memory, child)
        output.finish()
        return _outcome(
            output,
            context.call,
            returncode=child.returncode,
            timed_out_after=timeout if timed_out else None,
            details={"duration_ms": round((time.monotonic() - began) * 1000), "left_running": left_running},
        )


bash = BashTool()


class _Output:
    """Collects the output of a command: publishes it live, counts it, keeps the end of it."""

    def __init__(self, context: ToolContext) -> None:
        self.bytes = 0
        self.characters = 0
        self._show = context.output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = Tail()

    def take(self, piece: bytes) -> None:
        self.bytes += len(piece)
        self._pass_on(self._decoder.decode(piece))

    def finish(self) -> None:
        self._pass_on(self._decoder.decode(b"", final=True))

    def truncated(self) -> TruncatedText:
        return self._tail.truncated()

    def _pass_on(self, text: str) -> None:
        if text:
            self.characters += len(text)
            self._tail.feed(text)
            self._show(text)


def _outcome(
    output: _Output,
    call: str,
    *,
    returncode: int | None,
    timed_out_after: float | None,
    details: dict[str, Any],
) -> Ok | Failed:
    truncated = output.truncated()
    exit_code = returncode if returncode is not None and returncode >= 0 else None
    signal_name = _signal_name(-returncode) if returncode is not None and returncode < 0 else None
    details |= {
        "exit_code": exit_code,
        "signal": signal_name,
        "timed_out": timed_out_after is not None,
        "truncated": truncated.truncated,
        "lines": truncated.total_lines,
        "bytes": output.bytes,
    }
    text = _text(truncated, output, call)
    if timed_out_after is not None:
        note = f"[timed out after {timed_out_after:g} s]"
        return failed(_with_note(text, note), kind="tool_timed_out", details=details, summary=note[1:-1])
    if signal_name is not None:
        note = f"[ended by {signal_name}]"
        return failed(_with_note(text, note), details=details, summary=note[1:-1])
    if exit_code:
        note = f"[exit code {exit_code}]"
        return failed(_with_note(text, note), details=details, summary=note[1:-1])
    return ok(text or "(no output)", details=details, summary="exit code 0")


def _text(truncated: TruncatedText, output: _Output, call: str) -> str:
    # Some vendors refuse a request with a NUL in it.
    text = truncated.text.replace("\0", "\ufffd")
    if not truncated.truncated:
        return text
    cut = f", {truncated.cut_lines} long lines cut" if truncated.cut_lines else ""
    header = (
        f"[the last {truncated.lines} of {truncated.total_lines} lines, {size_text(byte_length(text))} of "
        f"{size_text(output.bytes)}{cut}"
    )
    # The whole is kept only where the model is told less of it; a few lost characters do not count.
    whole = f"; read blob:out_{call} for all of it" if output.characters > len(text) + _HEADER_ROOM else ""
    return f"{header}{whole}]\n{text}"


def _with_note(text: str, note: str) -> str:
    if not text:
        return f"(no output)\n{note}"
    return text + ("" if text.endswith("\n") else "\n") + note


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
