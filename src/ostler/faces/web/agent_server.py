"""A server and an agent that end together, with whatever signal or end of either comes first."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, SIGUSR1, getsignal

import uvicorn

from ostler.faces.web.agentapi import Emitter
from ostler.faces.web.http_server import HttpServer
from ostler.faces.web.server import Server
from ostler.terminals.driven import DrivenAgent
from ostler.terminals.state_file import StateFile


class Signals:
    """Heeded from before the agent is started: until there is a server to end, the start is given up."""

    def __init__(self) -> None:
        starting = asyncio.current_task()
        assert starting is not None
        self.end: Callable[[], object] = starting.cancel
        self.save: Callable[[], object] = lambda: None

    @contextmanager
    def heeded(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        heeded = [SIGINT, SIGTERM]
        if getsignal(SIGHUP) is not SIG_IGN:  # else it was started with `nohup`
            heeded.append(SIGHUP)
        for signal in heeded:
            loop.add_signal_handler(signal, lambda: self.end())
        loop.add_signal_handler(SIGUSR1, lambda: self.save())
        try:
            yield
        finally:
            for signal in (*heeded, SIGUSR1):
                loop.remove_signal_handler(signal)


class AgentServer(HttpServer):
    """Ends with its agent, and its agent with it."""

    def __init__(
        self,
        config: uvicorn.Config,
        server: Server,
        agent: DrivenAgent,
        emitter: Emitter,
        state: StateFile | None,
    ) -> None:
        super().__init__(config, server)
        self._agent = agent
        self._emitter = emitter
        self._state = state
        self._was_told = False
        self._ending: asyncio.Future[None] | None = None
        agent.ended.add_done_callback(lambda ended: self._end_with_agent())

    def save(self) -> None:
        if self._state is not None:
            self._state.save()

    def end(self) -> None:
        """At the same time as the streams, so that nobody waits for an answer of an agent that is to end.
        The second time it is not asked any more."""
        super().end()
        self._emitter.close_streams()
        if self._ending is not None:
            self._ending.cancel()
            return
        self._was_told = not self._agent.ended.done()
        if self._state is not None:
            self._state.close()
        self._ending = asyncio.ensure_future(self._agent.close())

    def _end_with_agent(self) -> None:
        if not self.should_exit:
            self.end()

    async def outcome(self) -> int:
        """The exit code, when nothing of the agent is left."""
        if self._ending is None:  # serving has failed
            self.end()
        assert self._ending is not None
        await asyncio.wait([self._ending])
        await asyncio.wait([self._agent.ended])
        if self._was_told or self._agent.ended.result() == 0:
            return 0
        screen = f"========\n{self._agent.last_screen}\n========\n"
        print(f"agent exited with error: {screen}: non-zero exit code", file=sys.stderr)
        return 1

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they are heeded already
