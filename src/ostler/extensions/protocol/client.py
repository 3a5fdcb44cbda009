"""The connection to an extension's process: handshake, requests and responses, time limits, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ostler import __version__
from ostler.core.processes import ProcessLimits
from ostler.extensions.executor import ExtensionError
from ostler.extensions.protocol import frames
from ostler.extensions.protocol.frames import MAX_LINE, MalformedFrame, Sent, line_of, read_frame
from ostler.extensions.protocol.process import ExtensionLog, ExtensionProcess, Manifest, command_of
from ostler.schema.errors import ConfigurationError, OstlerError
from ostler.store.paths import state_folder


class Limits(msgspec.Struct, frozen=True):
    """Time limits in seconds, the number of restarts, and the limits of the process."""

    hello: float = 5.0
    silence: float = 0.25
    ready: float = 3.0
    intercept: float = 5.0
    command: float = 30.0
    shutdown: float = 2.0
    terminate: float = 1.0
    backoff: float = 0.5
    backoff_at_most: float = 30.0
    restarts: int = 5
    """In a row, without `steady` seconds of running between them."""
    steady: float = 60.0
    processes: ProcessLimits = ProcessLimits()


Answer = TypeVar("Answer", bound=frames.Received)
STOPPED = "it is not running"
PROBLEMS_PER_SECOND = 50


class _Pending(msgspec.Struct, eq=False):
    kind: type[frames.Received]
    answer: asyncio.Future[Any]
    on_output: Callable[[frames.ToolOutput], None] | None = None


class Client:
    """An extension's process, restarted when it ends by itself.

    - `check` is called before each start, and raises `ExtensionError` to prevent it.
    - `on_frame` gets frames that answer nothing; the extension is notified of an `OstlerError` it raises.
    - `on_down` gets one line about why the process ended and what comes next; `on_up` follows a restart.
    """

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        limits: Limits,
        *,
        check: Callable[[], None],
        on_frame: Callable[[frames.AnyReceived], None],
        on_down: Callable[[str], None],
        on_up: Callable[[], None],
    ) -> None:
        self._manifest = manifest
        self._folder = folder
        self.limits = limits
        self._check = check
        self._on_frame = on_frame
        self._on_down = on_down
        self._on_up = on_up
        home = state_folder()
        self.log = ExtensionLog(home / "logs" / f"extension-{manifest.name}.log")
        self.data_folder = home / "extension-data" / manifest.name
        self.version = manifest.version
        self.problem = STOPPED
        """Why it cannot answer; empty while it can."""
        self._ids = count(1)
        self._process: ExtensionProcess | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._hello: asyncio.Future[frames.Hello] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._last_frame = 0.0
        self._pending: dict[str, _Pending] = {}
        self._lost = 0
        self._problem_count = (0, 0)
        """The second of the last one, and how many it has had."""

    @property
    def pid(self) -> int:
        """The id of the current or last process; 0 before the first."""
        return self._process.id.pid if self._process is not None else 0

    async def start(self) -> None:
        """Returns when it is ready; does nothing if it runs already, or is about to be restarted. Raises
        `ExtensionError` or `ConfigurationError`."""
        async with self._lock:
            if self._supervision is None:
                await self._launch()
                self._supervision = asyncio.ensure_future(self._supervise())

    async def stop(self) -> None:
        async with self._lock:
            supervision, self._supervision = self._supervision, None
            if supervision is not None:
                supervision.cancel()
                await asyncio.wait([supervision])
            process, self._process = self._process, None
            if process is not None:
                await process.stop(self.limits.shutdown, self.limits.terminate)
            self._fail_pending(STOPPED)
            self.log.close()

    async def _launch(self) -> None:
        self._check()
        loop = asyncio.get_running_loop()
        self._hello, self._ready = loop.create_future(), loop.create_future()
        command, folder = command_of(self._manifest, self._folder), self._folder
        process = ExtensionProcess(
            command,
            folder,
            on_line=self._take,
            on_stderr=self.log.write,
            limits=self.limits.processes,
        )
        self._process = process
        try:
            await _first_of(self._hello, process.ended, self.limits.hello)
            if not self._hello.done() and process.ended.done():
                raise ExtensionError(f"{process.end_reason} before it sent hello{self._see_log}")
            if not self._hello.done():
                raise ExtensionError(f"it did not send hello within {self.limits.hello:g} s{self._see_log}")
            await self._until_ready(process, self._hello.result())
            if process.ended.done():
                raise ExtensionError(f"{process.end_reason} before it was ready{self._see_log}")
        except BaseException:
            process.kill("it did not start")
            await asyncio.wait([process.ended])
            raise
        self.problem = ""

    def _acknowledge(self, hello: frames.Hello) -> None:
        """Answers at once, so that the answer is the first line that it reads."""
        assert self._process is not None and self._hello is not None
        if hello.name not in ("", self._manifest.name):
            self.log.note(f"it calls itself {hello.name!r}; its manifest says {self._manifest.name!r}")
        self.version = self._manifest.version or hello.version
        try:
            self.data_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            problem = f"its folder {self.data_folder} cannot be created: {error.strerror}"
            self._hello.set_exception(ExtensionError(problem))
            return
        answer = frames.HelloAck(__version__, str(Path.cwd()), str(self._folder), str(self.data_folder))
        self._process.send(line_of(answer))
        self._hello.set_result(hello)

    async def _until_ready(self, process: ExtensionProcess, hello: frames.Hello) -> None:
        """Waits until it sends `ready`; without that capability, until it sends nothing for a moment."""
        assert self._ready is not None
        loop = asyncio.get_running_loop()
        sends_ready = "ready" in hello.capabilities
        self._last_frame = loop.time()
        end = loop.time() + self.limits.ready
        while not self._ready.done():
            until = end if sends_ready else min(end, self._last_frame + self.limits.silence)
            if until <= loop.time():
                if sends_ready:
                    self.log.note(f"it did not send ready within {self.limits.ready:g} s")
                return
            await _first_of(self._ready, process.ended, until - loop.time())
            if process.ended.done():
                return

    @property
    def _see_log(self) -> str:
        return f"; see {self.log.path}"

    async def _supervise(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        began = loop.time()
        while True:
            assert self._process is not None
            await asyncio.shield(self._process.ended)
            problem = self._process.end_reason
            self._lost += self._process.unsent
            if loop.time() - began >= self.limits.steady:
                failures = 0
            while True:
                failures += 1
                if failures > self.limits.restarts:
                    self._report_end(f"{problem}; it is not restarted until it is reloaded")
                    return
                pause = min(self.limits.backoff * 2 ** (failures - 1), self.limits.backoff_at_most)
                self._report_end(f"{problem}; it is restarted in {pause:g} s")
                await asyncio.sleep(pause)
                try:
                    await self._launch()
                    break
                except (ExtensionError, ConfigurationError) as error:
                    problem = str(error).removesuffix(self._see_log)
            began = loop.time()
            self._on_up()
            self.send(frames.Gap("any", self._lost))
            self._lost = 0

    def _report_end(self, problem: str) -> None:
        self._fail_pending(problem)
        self.log.note(problem)
        self._on_down(f"{problem}{self._see_log}")

    def _fail_pending(self, problem: str) -> None:
        self.problem = problem
        for pending in tuple(self._pending.values()):
            _fail(pending, problem)

    def new_id(self) -> str:
        return str(next(self._ids))

    def send(self, frame: Sent, *, live: bool = False) -> None:
        """Sends a frame if the process runs. If it does not, an event that is not live counts as lost."""
        if self._process is None or self.problem:
            self._lost += isinstance(frame, frames.Event) and not live and self._supervision is not None
            return
        line = line_of(frame)
        if len(line) > MAX_LINE and isinstance(frame, frames.Event):
            fields: dict[str, Any] = {
                "step": frame.step,
                "tool_id": frame.tool_id,
                "tool_name": frame.tool_name,
            }
            line = line_of(frames.Event(frame.event, frame.session, **fields, cut=True))
        self._process.send(line, live=live)

    async def ask(
        self,
        frame: frames.ToolCall | frames.CommandInvoked | frames.EventIntercept,
        kind: type[Answer],
        seconds: float | None = None,
        on_output: Callable[[frames.ToolOutput], None] | None = None,
    ) -> Answer:
        """Its answer. Raises `ExtensionError` without one, or if it is of another kind."""
        if self._process is None or self.problem:
            raise ExtensionError(self.problem or STOPPED)
        line = line_of(frame)
        if len(line) > MAX_LINE:
            raise ExtensionError(f"a line to it would have {len(line)} bytes; the limit is {MAX_LINE}")
        pending = self._pending[frame.id] = _Pending(kind, asyncio.Future(), on_output)
        self._process.send(line)
        try:
            async with asyncio.timeout(seconds):
                answer: Answer = await pending.answer
                return answer
        except TimeoutError:
            raise ExtensionError(f"it did not answer within {seconds:g} s") from None
        finally:
            del self._pending[frame.id]

    def _take(self, line: bytes | None) -> None:
        if line is not None and not line.strip():
            return
        try:
            if line is None:
                raise MalformedFrame(f"a line is longer than {MAX_LINE} bytes")
            frame = read_frame(line)
        except MalformedFrame as malformed:
            self._refuse(malformed)
            return
        if self._hello is not None and not self._hello.done():
            if isinstance(frame, frames.Hello):
                self._acknowledge(frame)
            else:
                self._refuse(MalformedFrame("it is another frame"))
            return
        self._last_frame = asyncio.get_running_loop().time()
        try:
            self._handle(frame)
        except OstlerError as error:
            self._report_problem(error.message)

    def _handle(self, frame: frames.AnyReceived) -> None:
        match frame:
            case frames.Ready():
                if self._ready is not None and not self._ready.done():
                    self._ready.set_result(None)
            case frames.ToolResult() | frames.CommandResponse() | frames.EventInterceptResponse():
                self._resolve(frame.id, frame)
            case frames.ToolOutput():
                pending = self._pending.get(frame.id)
                if pending is not None and pending.on_output is not None:
                    pending.on_output(frame)
            case frames.Log():
                self.log.note(frame.message, frame.level)
            case frames.ShutdownAck():
                pass
            case frames.Hello():
                self._report_problem("hello must be sent once, in the first line")
            case _:
                self._on_frame(frame)

    def _resolve(self, id: str, frame: frames.Received) -> None:
        pending = self._pending.get(id)
        if pending is None:  # it was too late, or was cancelled
            self.log.note(f"it answered {id!r}, for which nothing waits")
        elif not isinstance(frame, pending.kind):
            _fail(pending, f"it answered with {frame.__struct_config__.tag!r}")
        elif not pending.answer.done():
            pending.answer.set_result(frame)

    def _refuse(self, malformed: MalformedFrame) -> None:
        """Handles a malformed line: instead of `hello` it ends the start, as an answer it fails the call."""
        if self._hello is not None and not self._hello.done():
            problem = f"its first line is not hello: {malformed}{self._see_log}"
            self._hello.set_exception(ExtensionError(problem))
            return
        if malformed.id in self._pending:
            _fail(self._pending[malformed.id], str(malformed))
        if malformed.id and malformed.type.startswith("state_"):
            self.send(frames.StateResult(malformed.id, error=str(malformed)))
        self._report_problem(str(malformed))

    def _report_problem(self, problem: str) -> None:
        now = int(asyncio.get_running_loop().time())
        second, count = self._problem_count
        self._problem_count = (now, count + 1 if second == now else 1)
        if self._problem_count[1] > PROBLEMS_PER_SECOND:
            return  # a process that sends only invalid lines must not keep us busy
        self.log.note(problem)
        if self._process is not None:
            self._process.send(line_of(frames.Problem(problem)), live=True)


def _fail(pending: _Pending, problem: str) -> None:
    if not pending.answer.done():
        pending.answer.set_exception(ExtensionError(problem))


async def _first_of(one: asyncio.Future[Any], other: asyncio.Future[Any], seconds: float) -> None:
    await asyncio.wait([one, other], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
