"""A terminal agent that works for the calls of a session: one child, from its start to the session's end."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ostler.core.call_context import CallContext
from ostler.core.cancellation import Stopwatch
from ostler.core.journal import Journal
from ostler.core.processes import describe_exit
from ostler.drivers.agent_spec import AgentCommand, AgentSpec, Timing
from ostler.drivers.lifecycle import start_agent_session
from ostler.drivers.questions import ForwardedQuestions
from ostler.drivers.screen_stream import SCREEN
from ostler.drivers.screen_text import is_ready
from ostler.drivers.session import AgentSession
from ostler.schema.errors import OstlerError, SessionBusy, StoreError, ToolFailed
from ostler.schema.events import Event, LiveValue, UsageReported
from ostler.schema.facts import Fact
from ostler.sessions.lease import own_agent

OnStart = Callable[[AgentSession], None]
"""Told of each agent that is started, for a face that shows its screen."""


INTERRUPTED_WITHIN = 10.0
"""Seconds that an agent has to stop what it does, after its time is up."""

_CUT_WITHIN = 0.5

_ENDS_WITHIN = 1.0
"""Seconds in which it turns out that a message was not taken because the agent has ended."""

_BETWEEN_KEYS = 0.05
"""Seconds: keys that come together can be taken for another one."""

_SCREEN_LINES = 60


class ChildAgent:
    """One call at a time works with it; what happens in it meanwhile is seen live under that call."""

    def __init__(self, name: str, command: str, driven: AgentSession, trace: Trace, timing: Timing) -> None:
        self.name = name
        self.command = command
        self._driven = driven
        self._trace = trace
        self._timing = timing
        self._has_shown_box = driven.agent_type != "custom"

    @property
    def id(self) -> str:
        return self._driven.id

    @property
    def has_ended(self) -> bool:
        return self._driven.ended.done()

    @property
    def asks(self) -> bool:
        """It stands still, and shows no place to type in: then it wants something else of somebody."""
        if self.has_ended or self._driven.transport != "pty":
            return False
        shows_box = is_ready(self._driven.agent_type, self._driven.shown)
        self._has_shown_box = self._has_shown_box or shows_box
        return self._has_shown_box and not shows_box

    @property
    def last_text(self) -> str:
        """Its answer, as far as it goes."""
        messages = self._driven.messages
        return messages[-1].text.strip() if messages and messages[-1].role == "agent" else ""

    @property
    def screen(self) -> str:
        """The end of what it shows."""
        shown = self._driven.last_screen if self.has_ended else self._driven.shown
        lines = [line.rstrip() for line in shown.strip().split("\n")]
        return "\n".join(lines[-_SCREEN_LINES:])

    @property
    def end_status(self) -> str:
        return describe_exit(self._driven.ended.result())

    @contextmanager
    def working_for(self, context: CallContext) -> Iterator[Stopwatch]:
        """What stands still while the agent waits for a person."""
        if self._trace.context is not None:
            raise ToolFailed(f"{self.name} ({self.id}) works for another call: wait for that one")
        questions = self._trace.begin(context)
        try:
            yield questions.stopwatch
        finally:
            self._trace.end()

    # --- asking ---------------------------------------------------------------------------------------

    async def wait_until_idle(self) -> None:
        """Until it waits for somebody, or has ended."""
        await self._until(lambda: self._driven.status == "stable" and not self._is_still_starting)

    @property
    def _is_still_starting(self) -> bool:
        """One that has a place to type in has drawn nothing yet, which looks as if it stood still."""
        driven = self._driven
        return driven.transport == "pty" and driven.agent_type != "custom" and not driven.shown.strip()

    async def send(self, text: str) -> str:
        """Until it has answered. What went wrong, if it did not, and has not ended."""
        try:
            await self._driven.send(text)
        except StoreError:
            raise
        except OstlerError as error:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ENDS_WITHIN):
                    await asyncio.shield(self._driven.ended)
            return "" if self.has_ended else f"it did not answer: {error.message}"
        await self.wait_until_idle()
        return ""

    async def press(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._driven.press(key)
            await asyncio.sleep(_BETWEEN_KEYS)
        with suppress(TimeoutError):  # nothing came of them
            async with asyncio.timeout(self._timing.stability):
                await self._until(lambda: self._driven.status != "stable")
        await self.wait_until_idle()

    async def interrupt(self) -> None:
        """Makes it stop what it does. One that does not is ended."""
        await self._stop_working(INTERRUPTED_WITHIN)
        if not self.has_ended and self._driven.status != "stable":
            await self.end()

    async def cut(self) -> None:
        """Nobody waits for it any more."""
        await self._stop_working(_CUT_WITHIN)
        await self.end()

    async def _stop_working(self, patience: float) -> None:
        with suppress(SessionBusy, TimeoutError):  # it ends in any case
            self._driven.interrupt()
            async with asyncio.timeout(patience):
                await self.wait_until_idle()

    async def _until(self, holds: Callable[[], bool]) -> None:
        watch = _Watch()
        stop = self._driven.subscribe(watch)
        self._driven.ended.add_done_callback(watch.changed)
        try:
            while not self.has_ended and not holds():
                await watch.stirred.wait()
                watch.stirred.clear()
        finally:
            stop()
            self._driven.ended.remove_done_callback(watch.changed)

    # --- as something that its call leaves running ------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return not self.has_ended

    async def end(self) -> None:
        await self._driven.close()

    def close(self) -> None:
        pass


class Trace:
    """What happens in a child, for the call that it works for. Its screen is for those who open the child."""

    def __init__(self, child: str) -> None:
        self.context: CallContext | None = None
        self._child = child
        self._questions: ForwardedQuestions | None = None

    def begin(self, context: CallContext) -> ForwardedQuestions:
        self.context = context
        self._questions = ForwardedQuestions(self._child, context)
        return self._questions

    def end(self) -> None:
        self.context = None
        if self._questions is not None:
            self._questions.close()
            self._questions = None

    def see(self, batch: Sequence[Fact | Event]) -> None:
        if self.context is None:
            return
        for one in batch:
            if isinstance(one, Fact) and one.type == "usage" and isinstance(one.event, UsageReported):
                self.context.record_use(self._child, one.event.usage)
        told = [one for one in batch if not (isinstance(one, LiveValue) and one.name == SCREEN)]
        if told:
            self.context.publish_trace(self._child, told)
        if self._questions is not None:
            self._questions.see(batch)


class _Watch:
    def __init__(self) -> None:
        self.stirred = asyncio.Event()

    def changed(self, *_: Any) -> None:
        self.stirred.set()

    def warned(self, problem: str) -> None:
        pass  # only of an initial prompt, and it has none


async def start_agent(
    context: CallContext,
    child: str,
    name: str,
    agent: AgentCommand,
    *,
    timing: Timing,
    on_start: OnStart | None,
) -> ChildAgent:
    """In a session of its own, which is that child's. Raises `UsageError` where it cannot be started."""
    trace = Trace(child)
    trace.context = context

    def attend(journal: Journal) -> None:
        context.harness.on_journal(journal)
        journal.subscribe(trace.see)

    try:
        driven = await start_agent_session(
            context.journal.store,
            AgentSpec(
                command=agent.command,
                cwd=context.cwd,
                transport=agent.transport,
                agent_type=agent.type,
                ready_after=timing.ready_after,  # an agent that starts with a question gets ready, too
                timing=timing,
            ),
            child_of=context.session,
            call=context.call,
            session=child,
            world=context.journal.world,
            attend=attend,
        )
        try:
            await own_agent(context.journal, child)
        except BaseException:
            await driven.close()
            raise
    finally:
        trace.context = None
    if on_start is not None:
        on_start(driven)
    return ChildAgent(name, shlex.join(agent.command), driven, trace, timing)
