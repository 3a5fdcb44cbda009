"""A driven agent that works for the calls of a session: one child, from its start to the session's end."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

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
"""Called with each agent that is started, for a front end that shows its screen."""

INTERRUPTED_WITHIN = 10.0
"""Seconds that an agent has to stop after its time limit."""

_ABORTED_WITHIN = 0.5

_ENDS_WITHIN = 1.0
"""Seconds to find out that a message was not delivered because the agent has ended."""

_BETWEEN_KEYS = 0.05
"""Seconds: keys that arrive together can look like another key."""

_SCREEN_LINES = 60


class ChildAgent:
    """One call at a time uses it, and shows its events live."""

    def __init__(self, name: str, command: str, session: AgentSession, trace: Trace, timing: Timing) -> None:
        self.name = name
        self.command = command
        self._session = session
        self._trace = trace
        self._timing = timing
        self._has_shown_box = session.agent_type != "custom"

    @property
    def id(self) -> str:
        return self._session.id

    @property
    def has_ended(self) -> bool:
        return self._session.ended.done()

    @property
    def asks(self) -> bool:
        """Whether it shows a dialog, or is stable without an input box: then it asks for something else."""
        if self.has_ended or self._session.transport != "pty":
            return False
        if self._session.status == "asking":
            return True
        shows_box = is_ready(self._session.agent_type, self._session.screen_text)
        self._has_shown_box = self._has_shown_box or shows_box
        return self._has_shown_box and not shows_box

    @property
    def last_text(self) -> str:
        """Its answer so far."""
        messages = self._session.messages
        return messages[-1].text.strip() if messages and messages[-1].role == "agent" else ""

    @property
    def screen(self) -> str:
        """The last lines of its screen."""
        screen = self._session.last_screen if self.has_ended else self._session.screen_text
        lines = [line.rstrip() for line in screen.strip().split("\n")]
        return "\n".join(lines[-_SCREEN_LINES:])

    @property
    def end_status(self) -> str:
        return describe_exit(self._session.ended.result())

    @contextmanager
    def working_for(self, context: CallContext) -> Iterator[Stopwatch]:
        """The stopwatch of the call: it pauses while the agent waits for a person."""
        if self._trace.context is not None:
            raise ToolFailed(f"{self.name} ({self.id}) works for another call: wait for that one")
        questions = self._trace.begin(context)
        for asked in list(self._session.journal.state.questions.values()):
            questions.forward(asked)
        try:
            yield questions.stopwatch
        finally:
            self._trace.end()

    # --- use ------------------------------------------------------------------------------------------

    async def wait_until_idle(self) -> None:
        """Waits until it waits for a message or a key, or has ended; while a person is asked, it does not."""
        await self._until(lambda: self._is_idle and not self._is_still_starting)

    @property
    def _is_idle(self) -> bool:
        status = self._session.status
        asks_model = self._session.transport == "pty" and not self._trace.asks_person
        return status == "stable" or (status == "asking" and asks_model)

    @property
    def _is_still_starting(self) -> bool:
        """An agent with an input box that has drawn nothing yet looks stable."""
        session = self._session
        has_box = session.transport == "pty" and session.agent_type != "custom"
        return has_box and not session.screen_text.strip()

    async def send(self, text: str) -> str:
        """Waits for its answer; returns the problem if it did not answer and has not ended."""
        try:
            await self._session.send(text)
        except StoreError:
            raise
        except OstlerError as error:
            with suppress(TimeoutError):
                async with asyncio.timeout(_ENDS_WITHIN):
                    await asyncio.shield(self._session.ended)
            return "" if self.has_ended else f"it did not answer: {error.message}"
        await self.wait_until_idle()
        return ""

    async def press(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self._session.press(key)
            await asyncio.sleep(_BETWEEN_KEYS)
        with suppress(TimeoutError):  # the keys had no effect
            async with asyncio.timeout(self._timing.stability):
                await self._until(lambda: not self._is_idle)
        await self.wait_until_idle()

    async def interrupt(self) -> None:
        """Interrupts it, and ends it if it does not stop."""
        await self._stop_working(INTERRUPTED_WITHIN)
        if not self.has_ended and not self._is_idle:
            await self.end()

    async def abort(self) -> None:
        """Ends it soon, because its call was cancelled."""
        await self._stop_working(_ABORTED_WITHIN)
        await self.end()

    async def _stop_working(self, patience: float) -> None:
        with suppress(SessionBusy, TimeoutError):  # it ends in any case
            self._session.interrupt()
            async with asyncio.timeout(patience):
                await self.wait_until_idle()

    async def _until(self, holds: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        stop = self._session.subscribe(changed.set)

        def on_end(ended: object) -> None:
            changed.set()

        self._session.ended.add_done_callback(on_end)
        try:
            while not self.has_ended and not holds():
                await changed.wait()
                changed.clear()
        finally:
            stop()
            self._session.ended.remove_done_callback(on_end)

    # --- as a background process ----------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return not self.has_ended

    async def end(self) -> None:
        await self._session.close()

    def close(self) -> None:
        pass


class Trace:
    """Publishes a child's events under its current call, except its screen."""

    def __init__(self, child: str) -> None:
        self.context: CallContext | None = None
        self._child = child
        self._questions: ForwardedQuestions | None = None

    @property
    def asks_person(self) -> bool:
        """Whether someone is there to answer for the current call."""
        return self.context is not None and self.context.harness.asker is not None

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
        for item in batch:
            if isinstance(item, Fact) and item.type == "usage" and isinstance(item.event, UsageReported):
                self.context.record_use(self._child, item.event.usage)
        items = [item for item in batch if not (isinstance(item, LiveValue) and item.name == SCREEN)]
        if items:
            self.context.publish_trace(self._child, items)
        if self._questions is not None:
            self._questions.see(batch)


async def start_agent(
    context: CallContext,
    child: str,
    name: str,
    agent: AgentCommand,
    *,
    timing: Timing,
    on_start: OnStart | None,
) -> ChildAgent:
    """Starts it in the child's session. Raises `UsageError` when it cannot be started."""
    trace = Trace(child)
    trace.context = context

    def on_open(journal: Journal) -> None:
        context.harness.on_journal(journal)
        journal.subscribe(trace.see)

    try:
        session = await start_agent_session(
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
            on_open=on_open,
        )
        try:
            await own_agent(context.journal, child)
        except BaseException:
            await session.close()
            raise
    finally:
        trace.context = None
    if on_start is not None:
        on_start(session)
    return ChildAgent(name, shlex.join(agent.command), session, trace, timing)
