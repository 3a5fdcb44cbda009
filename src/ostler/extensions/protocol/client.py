"""The connection to an extension's process: handshake, requests and responses, time limits, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ostler import __version__
from ostler.extensions.executor import ExtensionError
from ostler.extensions.protocol import frames
from ostler.extensions.protocol.frames import MAX_LINE, MalformedFrame, Sent, line_of, read_frame
from ostler.extensions.protocol.process import ExtensionLog, ExtensionProcess, Manifest, command_of
from ostler.schema.errors import ConfigurationError, OstlerError
from ostler.store.paths import state_folder


class Limits(msgspec.Struct, frozen=True):
    """Seconds, but for `restarts`."""

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
    """In a row, with no life of `steady` seconds between them."""
    steady: float = 60.0


Answer = TypeVar("Answer", bound=frames.Received)
STOPPED = "it is not running"
COMPLAINTS_A_SECOND = 50


class _Waiting(msgspec.Struct, eq=False):
    kind: type[frames.Received]
    answer: asyncio.Future[Any]
    on_output: Callable[[frames.ToolOutput], None] | None = None


class Client:
    """One extension's process, started again when it ends by itself.

    - `check` raises `ExtensionError` when it must not be started.
    - `on_frame` gets what it sends of its own accord; whatever it raises of ours is told to the extension.
    - `on_down` hears in one line that the process ended and what comes next, `on_up` that it is back.
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
        """Why it cannot be asked; empty while it can be."""
        self._ids = count(1)
        self._process: ExtensionProcess | None = None
        self._life: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._hello: asyncio.Future[frames.Hello] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._last_heard = 0.0
        self._waiting: dict[str, _Waiting] = {}
        self._lost = 0
        self._complaints = (0, 0)
        """The second of the last one, and how many it has had."""

    @property
    def is_up(self) -> bool:
        return not self.problem

    @property
    def pid(self) -> int:
        """Of the process that runs, or ran last; 0 before the first."""
        return self._process.id.pid if self._process is not None else 0

    async def start(self) -> None:
        """Until it is ready. Raises `ExtensionError` or `ConfigurationError` with why it is not.

        Harmless when it runs, or is about to run again.
        """
        async with self._turn:
            if self._life is None:
                await self._launch()
                self._life = asyncio.ensure_future(self._keep_alive())

    async def stop(self) -> None:
        async with self._turn:
            life, self._life = self._life, None
            if life is not None:
                life.cancel()
                await asyncio.wait([life])
            process, self._process = self._process, None
            if process is not None:
                await process.stop(self.limits.shutdown, self.limits.terminate)
            self._is_down(STOPPED)
            self.log.close()

    async def _launch(self) -> None:
        self._check()
        loop = asyncio.get_running_loop()
        self._hello, self._ready = loop.create_future(), loop.create_future()
        command = command_of(self._manifest, self._folder)
        process = self._process = ExtensionProcess(
            command, self._folder, on_line=self._take, on_stderr=self.log.write
        )
        try:
            await _first_of(self._hello, process.ended, self.limits.hello)
            if not self._hello.done() and process.ended.done():
                raise ExtensionError(f"{process.end_reason} before it said hello{self._see_log}")
            if not self._hello.done():
                raise ExtensionError(f"it did not say hello within {self.limits.hello:g} s{self._see_log}")
            await self._until_ready(process, self._hello.result())
            if process.ended.done():
                raise ExtensionError(f"{process.end_reason} before it was ready{self._see_log}")
        except BaseException:
            process.kill("it was given up")
            await asyncio.wait([process.ended])
            raise
        self.problem = ""

    def _welcome(self, hello: frames.Hello) -> None:
        """At once: the answer to its first line is the first that it reads."""
        assert self._process is not None and self._hello is not None
        if hello.name not in ("", self._manifest.name):
            self.log.note(f"it calls itself {hello.name!r}; its manifest says {self._manifest.name!r}")
        self.version = self._manifest.version or hello.version
        try:
            self.data_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            problem = f"its folder {self.data_folder} cannot be made: {error.strerror}"
            self._hello.set_exception(ExtensionError(problem))
            return
        acknowledged = frames.HelloAck(__version__, str(Path.cwd()), str(self._folder), str(self.data_folder))
        self._process.send(line_of(acknowledged))
        self._hello.set_result(hello)

    async def _until_ready(self, process: ExtensionProcess, hello: frames.Hello) -> None:
        """Until it says so, or for those that never do: until it has been silent for a moment."""
        assert self._ready is not None
        loop = asyncio.get_running_loop()
        says_so = "ready" in hello.capabilities
        self._last_heard = loop.time()
        end = loop.time() + self.limits.ready
        while not self._ready.done():
            until = end if says_so else min(end, self._last_heard + self.limits.silence)
            if until <= loop.time():
                if says_so:
                    self.log.note(f"it did not say ready within {self.limits.ready:g} s")
                return
            await _first_of(self._ready, process.ended, until - loop.time())
            if process.ended.done():
                return

    @property
    def _see_log(self) -> str:
        return f"; see {self.log.path}"

    async def _keep_alive(self) -> None:
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
                    self._tell_down(f"{problem}; it is not started again until it is reloaded")
                    return
                pause = min(self.limits.backoff * 2 ** (failures - 1), self.limits.backoff_at_most)
                self._tell_down(f"{problem}; it is started again in {pause:g} s")
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

    def _tell_down(self, problem: str) -> None:
        self._is_down(problem)
        self.log.note(problem)
        self._on_down(f"{problem}{self._see_log}")

    def _is_down(self, problem: str) -> None:
        self.problem = problem
        for waiting in tuple(self._waiting.values()):
            _fail(waiting, problem)

    def new_id(self) -> str:
        return str(next(self._ids))

    def send(self, frame: Sent, *, live: bool = False) -> None:
        """Nothing, when it does not run: then an event that is no live one counts as lost."""
        if self._process is None or self.problem:
            self._lost += isinstance(frame, frames.Event) and not live and self._life is not None
            return
        line = line_of(frame)
        if len(line) > MAX_LINE and isinstance(frame, frames.Event):
            line = line_of(
                frames.Event(
                    frame.event,
                    frame.session,
                    step=frame.step,
                    tool_id=frame.tool_id,
                    tool_name=frame.tool_name,
                    cut=True,
                )
            )
        self._process.send(line, live=live)

    async def ask(
        self,
        frame: frames.ToolCall | frames.CommandInvoked | frames.EventIntercept,
        kind: type[Answer],
        seconds: float | None = None,
        on_output: Callable[[frames.ToolOutput], None] | None = None,
    ) -> Answer:
        """What it answers. Raises `ExtensionError` when it does not, or with something else."""
        if self._process is None or self.problem:
            raise ExtensionError(self.problem or STOPPED)
        line = line_of(frame)
        if len(line) > MAX_LINE:
            raise ExtensionError(
                f"it would have to read a line of {len(line)} bytes; {MAX_LINE} is the limit"
            )
        waiting = _Waiting(kind, asyncio.get_running_loop().create_future(), on_output)
        self._waiting[frame.id] = waiting
        self._process.send(line)
        try:
            async with asyncio.timeout(seconds):
                answer: Answer = await waiting.answer
                return answer
        except TimeoutError:
            raise ExtensionError(f"it did not answer within {seconds:g} s") from None
        finally:
            del self._waiting[frame.id]

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
                self._welcome(frame)
            else:
                self._refuse(MalformedFrame("it is another frame"))
            return
        self._last_heard = asyncio.get_running_loop().time()
        try:
            self._handle(frame)
        except OstlerError as error:
            self._complain(error.message)

    def _handle(self, frame: frames.AnyReceived) -> None:
        match frame:
            case frames.Ready():
                if self._ready is not None and not self._ready.done():
                    self._ready.set_result(None)
            case frames.ToolResult() | frames.CommandResponse() | frames.EventInterceptResponse():
                self._settle(frame.id, frame)
            case frames.ToolOutput():
                waiting = self._waiting.get(frame.id)
                if waiting is not None and waiting.on_output is not None:
                    waiting.on_output(frame)
            case frames.Log():
                self.log.note(frame.message, frame.level)
            case frames.ShutdownAck():
                pass
            case frames.Hello():
                self._complain("hello is said once, in the first line")
            case _:
                self._on_frame(frame)

    def _settle(self, id: str, frame: frames.Received) -> None:
        waiting = self._waiting.get(id)
        if waiting is None:  # it was too late, or was cancelled
            self.log.note(f"an answer to {id!r}, which nobody waits for")
        elif not isinstance(frame, waiting.kind):
            _fail(waiting, f"it answered with {frame.__struct_config__.tag!r}")
        elif not waiting.answer.done():
            waiting.answer.set_result(frame)

    def _refuse(self, malformed: MalformedFrame) -> None:
        """A line that is no frame. The one that had to be `hello` ends it; an answer fails its question."""
        if self._hello is not None and not self._hello.done():
            self._hello.set_exception(
                ExtensionError(f"its first line is no hello: {malformed}{self._see_log}")
            )
            return
        if malformed.id in self._waiting:
            _fail(self._waiting[malformed.id], str(malformed))
        if malformed.id and malformed.type.startswith("state_"):
            self.send(frames.StateResult(malformed.id, error=str(malformed)))
        self._complain(str(malformed))

    def _complain(self, problem: str) -> None:
        now = int(asyncio.get_running_loop().time())
        self._complaints = (now, self._complaints[1] + 1 if self._complaints[0] == now else 1)
        if self._complaints[1] > COMPLAINTS_A_SECOND:
            return  # whoever sends nothing but nonsense must not keep us busy
        self.log.note(problem)
        if self._process is not None:
            self._process.send(line_of(frames.Problem(problem)), live=True)


def _fail(waiting: _Waiting, problem: str) -> None:
    if not waiting.answer.done():
        waiting.answer.set_exception(ExtensionError(problem))


async def _first_of(one: asyncio.Future[Any], other: asyncio.Future[Any], seconds: float) -> None:
    await asyncio.wait([one, other], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
