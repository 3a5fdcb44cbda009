"""The bash tool: a command in the session's directory, with its output live."""

from __future__ import annotations

import asyncio
import codecs
import re
import signal
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ostler.core.function_tool import validate_arguments
from ostler.core.json_schema import schema_of
from ostler.core.lazy import lazy_module
from ostler.core.processes import find_program
from ostler.core.tool import ToolContext, ToolSpec
from ostler.schema.messages import Text, text_of
from ostler.schema.outcomes import Failed, FailureKind, NeedUser, Ok, Question, failed, ok
from ostler.tools.child_process import child_process, keep_in_background
from ostler.tools.truncation import Tail, TruncatedText, byte_length, size_text

if TYPE_CHECKING:
    from ostler.core import confinement
else:
    confinement = lazy_module("ostler.core.confinement")

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 600.0
_HEADER_ROOM = 300
_REASON_LENGTH = 200


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

    async def run(self, arguments: BashArguments, context: ToolContext) -> Ok | Failed | NeedUser:
        timeout = min(arguments.timeout or self._default_timeout, self._max_timeout)
        output = _Output(context)
        timed_out = False
        began = time.monotonic()
        shell = [find_program("bash") or "sh", "-c", arguments.command]
        confined = confinement.new_confinement() if context.confined else None
        async with child_process(
            shell, context=context, cwd=context.cwd, on_output=output.take, confinement=confined
        ) as child:
            try:
                async with asyncio.timeout(timeout):
                    await child.wait()
            except TimeoutError:
                timed_out = True
                await child.end()
            exceeded = child.exceeded
            left_running = not exceeded and child.is_running
            if left_running:
                keep_in_background(context.memory, child)
        output.finish()
        outcome = _outcome(
            output,
            context.call,
            child.returncode,
            timed_out=f"timed out after {timeout:g} s" if timed_out else "",
            exceeded=f"ended, because {exceeded}" if exceeded else "",
            details={"duration_ms": round((time.monotonic() - began) * 1000), "left_running": left_running},
        )
        if confined and isinstance(outcome, Failed) and not timed_out and not exceeded:
            return _refused_access(outcome, arguments) or outcome
        return outcome


bash = BashTool()


class _Output:
    """Collects the output of a command: publishes it live, counts it, keeps the end of it."""

    def __init__(self, context: ToolContext) -> None:
        self.bytes = 0
        self.characters = 0
        self._publish = context.output
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.tail = Tail()

    def take(self, piece: bytes) -> None:
        self.bytes += len(piece)
        self._add(self._decoder.decode(piece))

    def finish(self) -> None:
        self._add(self._decoder.decode(b"", final=True))

    def _add(self, text: str) -> None:
        if text:
            self.characters += len(text)
            self.tail.feed(text)
            self._publish(text)


def _outcome(
    output: _Output,
    call: str,
    returncode: int | None,
    *,
    timed_out: str,
    exceeded: str,
    details: dict[str, Any],
) -> Ok | Failed:
    code = returncode or 0
    result = output.tail.truncated()
    details |= {
        "exit_code": None if returncode is None or code < 0 else code,
        "signal": _signal_name(-code) if code < 0 else None,
        "timed_out": bool(timed_out),
        "truncated": result.truncated,
        "lines": result.total_lines,
        "bytes": output.bytes,
    }
    text = _text(result, output, call)
    if not code and not timed_out and not exceeded:
        return ok(text or "(no output)", details=details, summary="exit code 0")
    reason = exceeded or timed_out or (f"ended by {details['signal']}" if code < 0 else f"exit code {code}")
    text = text or "(no output)"
    separator = "" if text.endswith("\n") else "\n"
    kind: FailureKind = "tool_timed_out" if timed_out else "tool_failed"
    return failed(f"{text}{separator}[{reason}]", kind=kind, details=details, summary=reason)


_REFUSED_ACCESS = re.compile(r".*(permission denied|operation not permitted|read-only file system).*", re.I)


def _refused_access(outcome: Failed, arguments: BashArguments) -> NeedUser | None:
    """Asks whether to run a confined command again, if its output names a refused access."""
    found = _REFUSED_ACCESS.search(text_of(outcome.content))
    if found is None:
        return None
    note = "[It ran without the right to write files or use the network, because nobody was asked about it.]"
    details = {**(outcome.details or {}), "confined": True}
    otherwise = msgspec.structs.replace(outcome, content=(*outcome.content, Text(note)), details=details)
    question = Question(
        text=f"Run again without the restriction: {arguments.command}",
        kind="permission",
        choices=("yes", "no"),
        details={"tool": "bash", "arguments": msgspec.to_builtins(arguments)},
        reason="it ran without the right to write files or use the network, and failed: "
        f"{found[0].strip()[:_REASON_LENGTH]}",
    )
    return NeedUser(question, otherwise=otherwise)


def _text(truncated: TruncatedText, output: _Output, call: str) -> str:
    # Some vendors refuse a request with a NUL in it.
    text = truncated.text.replace("\0", "\ufffd")
    if not truncated.truncated:
        return text
    cut = f", {truncated.cut_lines} long lines cut" if truncated.cut_lines else ""
    sizes = f"{size_text(byte_length(text))} of {size_text(output.bytes)}"
    header = f"[the last {truncated.lines} of {truncated.total_lines} lines, {sizes}{cut}"
    # The whole output is stored only if the result has less of it; a few lost characters do not count.
    whole = f"; read blob:out_{call} for all of it" if output.characters > len(text) + _HEADER_ROOM else ""
    return f"{header}{whole}]\n{text}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
