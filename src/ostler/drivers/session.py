"""A terminal agent as a session: what is said to it and what it shows become facts of a log."""
# MERGED: What the lives of other vendors' agents have in common, however they are driven.

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal

import msgspec

from ostler import __version__
from ostler.core.journal import Journal
from ostler.core.processes import describe_exit
from ostler.drivers.agent_messages import StoredMessage
from ostler.drivers.driver import AgentMessage, Observer, SavedState, Status
from ostler.drivers.inbox import AgentInbox
from ostler.drivers.pty_process import OWNED_AS
from ostler.drivers.screen import read_out
from ostler.drivers.screen_driver import Outcome, ScreenAgentSpec, ScreenDriver, ScreenListener
from ostler.drivers.screen_stream import LiveValues, ScreenSubscription
from ostler.drivers.tracker import INITIAL_PROMPT, NOT_WAITING, STOPPED, Delivered, Undelivered
from ostler.schema import events
from ostler.schema.errors import NotFound, OstlerError, SessionBusy, StoreError, UsageError, failure_of
from ostler.schema.events import RunStatus
from ostler.schema.messages import Text
from ostler.schema.requests import ALONE, OF_A_RUN
from ostler.sessions.lease import renew_lease
from ostler.sessions.submit import submit_now


class Observers:
    """Those who are told of one agent."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    def add(self, observer: Observer) -> Callable[[], None]:
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def changed(self) -> None:
        for observer in list(self._observers):
            observer.changed()

    def warned(self, problem: str) -> None:
        for observer in list(self._observers):
            observer.warned(problem)


async def live(
    journal: Journal,
    inbox: AgentInbox,
    stirred: asyncio.Event,
    ended: asyncio.Future[int],
    go_on: Callable[[], Awaitable[None]],
    end: Callable[[], Awaitable[None]],
) -> None:
    """Whatever stirs it, `go_on` makes facts of, one after the other, until the process has ended."""
    try:
        async with renew_lease(journal):
            async with inbox.watched():
                while not ended.done():
                    await stirred.wait()
                    stirred.clear()
                    await go_on()
            await end()
    except StoreError as error:
        journal.fail(error)


async def give_back(journal: Journal) -> None:
    """The session is anybody's again. Prompts wait for the agent's next life; other requests that came while
    it ended do not: they would stop, or answer, something else."""
    if not journal.failed:
        with suppress(StoreError):  # else the lease runs out by itself
            await journal.store.release(journal.lease)
    journal.close()
    if journal.failed:
        return
    with suppress(StoreError, NotFound):  # somebody has taken the session up, or deleted it
        for request in await journal.store.pending(journal.session):
            if isinstance(request, (*ALONE, *OF_A_RUN)):
                with suppress(UsageError):  # it was refused, and that is a fact
                    await submit_now(journal.store, journal.session, request, journal.world)


def outcome_for_a_sender() -> asyncio.Future[None]:
    """Nobody may wait for it: then a failure is the run's alone."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
    return outcome


class _Sent(msgspec.Struct):
    """A message that the tracker has accepted."""

    ticket: int
    request: str
    outcome: asyncio.Future[None]


class _OpenRun(msgspec.Struct):
    message: int
    """The number of its user message."""
    delivered: bool = False
    cancelled: bool = False
    cancelled_by: str = ""
    """The request that did."""


class ScreenSession:
    """The one writer of a terminal agent's session, from its start to its end.

    - A message is a fact before its keys are written. Its run ends when the screen stands still again.
    - What the agent draws is live. It is a fact once the screen stood still; what changes later revises it.
    - It ends with its agent: an open run is interrupted, and the lease is given back.

    Made with `start_screen_session`, or with `restart_screen_session`.
    """

    def __init__(self, journal: Journal, agent: ScreenAgentSpec, saved: SavedState | None = None) -> None:
        self.journal = journal
        self.agent = agent
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Done when nothing of it is left to do: the agent's exit status."""
        self.last_screen = ""
        """What the agent showed at its end."""
        self._known: dict[int, tuple[int, str]] = {}
        """Of the tracker's messages that are facts: the number and the text that the log has."""
        self._run: _OpenRun | None = None
        self._sent: _Sent | None = None
        self._outcomes: list[Outcome] = []
        self._stirred = asyncio.Event()
        self._inbox = AgentInbox(self, self._stirred.set)
        watcher = ScreenListener(self._begin_run, self._take_outcome, self._see_screen)
        self.terminal = ScreenDriver(agent, journal.session, watcher, saved)
        self._live_values = LiveValues(journal, self.terminal)
        self._life: asyncio.Task[None] | None = None
        self._observers = Observers()

    @property
    def id(self) -> str:
        return self.journal.session

    @property
    def agent_type(self) -> str:
        return self.terminal.tracker.agent_type

    @property
    def transport(self) -> Literal["pty"]:
        return "pty"

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        return self.terminal.tracker.messages

    @property
    def shown(self) -> str:
        return self.last_screen if self.ended.done() else read_out(self.terminal.screen)

    def to_save(self) -> SavedState:
        return self.terminal.tracker.to_save()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        return self._observers.add(observer)

    @property
    def status(self) -> Status:
        """`stable`: the agent waits, and nobody's message is before the next one."""
        status = self.terminal.tracker.status
        if status == "stable" and (self._run or self._sent or self._inbox.next_prompt):
            return "changing"
        return status

    # --- asking ---------------------------------------------------------------------------------------

    async def send(self, text: str, *, request: str = "") -> None:
        """Says something to the agent, now or not at all; returns when it was taken.

        Raises `SessionBusy` or `UsageError` at once, and `OstlerError` when the agent does not react.
        """
        if self.status != "stable":
            raise SessionBusy(NOT_WAITING)
        await asyncio.shield(self._say(text, request).outcome)

    def _say(self, text: str, request: str = "") -> _Sent:
        """Hands a message to the agent, which must be waiting for one."""
        ticket = self.terminal.send(text)
        sent = self._sent = _Sent(ticket, request, outcome_for_a_sender())
        self._observers.changed()
        return sent

    def interrupt(self, request: str = "") -> bool:
        """Presses the key that stops this agent; its run ends `cancelled` once the screen stands still.

        False when it was pressed for that run before, by another request.
        """
        self.terminal.interrupt()
        if self._run is None:
            return True
        is_first = not self._run.cancelled
        if is_first:
            self._run.cancelled, self._run.cancelled_by = True, request
        return is_first

    def is_taken_up(self, request: str) -> bool:
        """Whether a prompt is with the agent, although no fact says so yet."""
        return self._sent is not None and self._sent.request == request

    def press(self, keys: bytes) -> None:
        """Keys as a keyboard sends them, at any time. They are never stored."""
        self.terminal.press(keys)

    def paste(self, text: str) -> None:
        self.terminal.paste(text)

    def resize(self, columns: int, rows: int) -> None:
        self.terminal.resize(columns, rows)

    def view(self) -> ScreenSubscription:
        """The live screen, for one more who watches it."""
        return self.terminal.view()

    async def close(self) -> None:
        """Ends the agent, and the session with it."""
        await self.terminal.stop()
        await asyncio.wait([self.ended])
        if self._life is not None:
            await self._life

    # --- its life -------------------------------------------------------------------------------------

    async def begin(self, known: list[StoredMessage]) -> None:
        self._known = {one.message.id: (one.seq, one.message.text) for one in known}
        self.journal.on_failure = lambda error: self.terminal.process.kill()
        self.terminal.process.ended.add_done_callback(lambda ended: self._stirred.set())
        self._life = asyncio.ensure_future(self._live())
        await self.journal.store.own_process(self.journal.lease, OWNED_AS, self.terminal.process.id)
        size = {"columns": self.agent.columns, "rows": self.agent.rows}
        about = {"agent_type": self.terminal.tracker.agent_type, **size}
        self.journal.record(events.Audited("terminal.started", "its agent was started", about), run="")
        await self.journal.commit()

    async def _live(self) -> None:
        """What becomes a fact does so here, one after the other; only the beginning of a run does not."""
        process = self.terminal.process
        try:
            await live(self.journal, self._inbox, self._stirred, process.ended, self._go_on, self._end)
        finally:
            await self._leave()

    async def _go_on(self) -> None:
        self._record_outcomes()
        await self._inbox.read()
        if self.terminal.tracker.status == "stable":
            self._record_messages(self.terminal.tracker.messages)
            if self._run is not None and self._run.delivered:
                self._end_run("completed")
        await self.journal.commit()
        if self.terminal.tracker.status == "stable" and not self._run and not self._sent:
            self._say_next()
        self._live_values.show_status(self.status)
        self._live_values.show_message(self._unsettled())
        self._observers.changed()

    def _say_next(self) -> None:
        if (prompt := self._inbox.next_prompt) is not None:
            self._say(*prompt)

    async def _end(self) -> None:
        """The agent has ended: what it showed at last is all that it said."""
        exit_status = self.terminal.process.ended.result()
        self.terminal.look()
        self.last_screen = "\n".join(self.terminal.screen.lines()).strip()
        self._record_outcomes()
        self._record_messages(self.terminal.tracker.messages)
        reason = f"the agent {describe_exit(exit_status)}"
        if self._run is not None:
            self._end_run("interrupted", reason)
        about = {"exit_status": exit_status}
        self.journal.record(events.Audited("terminal.ended", reason, about), run="")
        await self.journal.commit()

    async def _leave(self) -> None:
        await self.terminal.stop()
        self.terminal.close()
        if self._sent is not None:
            self._tell_sender(Undelivered(self._sent.ticket, STOPPED))
        self._live_values.clear()
        await give_back(self.journal)
        process = self.terminal.process
        self.ended.set_result(process.ended.result() if process.ended.done() else -signal.SIGKILL)

    # --- what the terminal tells ----------------------------------------------------------------------

    async def _begin_run(self, ticket: int, text: str) -> None:
        sent = self._sent
        request = sent.request if sent and sent.ticket == ticket != INITIAL_PROMPT else ""
        self._record_messages(
            self.terminal.tracker.messages
        )  # the screen stands still, or none would be sent
        agent_type = self.terminal.tracker.agent_type
        started = events.RunStarted(
            version=__version__,
            cwd=str(self.agent.cwd),
            model=f"terminal/{agent_type}",
            request=request,
            agent=agent_type,
        )
        self.journal.record(started, run=self.journal.world.new_id("run"), settles=request)
        message = events.UserMessage((Text(text),), source="terminal", request=request)
        self._run = _OpenRun(self.journal.record(message, settles=request).seq)
        self._inbox.drop(request)
        await self.journal.commit()

    def _take_outcome(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._stirred.set()

    def _see_screen(self) -> None:
        tracker = self.terminal.tracker
        if tracker.status == "stable" and (self._run or self._unsettled() or self._inbox.next_prompt):
            self._stirred.set()  # first the facts, then the status that says they are there
        else:
            self._live_values.show_status(self.status)
        self._live_values.show_message(self._unsettled())
        self._live_values.show_screen()
        self._observers.changed()

    def _unsettled(self) -> tuple[int, str] | None:
        """The agent's message that is not a fact as it is drawn now."""
        messages = self.terminal.tracker.messages
        if not messages or messages[-1].role == "user":
            return None
        last = messages[-1]
        _, text = self._known.get(last.id, (0, ""))
        return (last.id, last.text) if last.text.strip() and last.text != text else None

    # --- facts ----------------------------------------------------------------------------------------

    def _record_outcomes(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            if isinstance(outcome, Undelivered) and outcome.ticket == INITIAL_PROMPT:
                self._warn_of_initial_prompt(outcome)
            if isinstance(outcome, Delivered):
                self._record_delivery()
            elif self._run is not None and not self._run.delivered:
                self._end_run("failed", outcome.reason, OstlerError(outcome.reason))
            self._tell_sender(outcome)

    def _warn_of_initial_prompt(self, outcome: Undelivered) -> None:
        """Nobody waits for it, so whoever watches is told."""
        then = "it is tried again" if outcome.again else "it is given up"
        self._observers.warned(f"the initial prompt was not taken, {then}: {outcome.reason}")

    def _record_delivery(self) -> None:
        if self._run is None:
            return
        self._run.delivered = True
        messages = self.terminal.tracker.messages
        place = max(message.id for message in messages if message.role == "user")
        self._known[place] = (self._run.message, messages[place].text)
        self.journal.record(events.Delivered(self._run.message))

    def _tell_sender(self, outcome: Outcome) -> None:
        sent = self._sent
        if sent is None or sent.ticket != outcome.ticket:
            return
        self._sent = None
        if isinstance(outcome, Delivered):
            sent.outcome.set_result(None)
        else:
            sent.outcome.set_exception(OstlerError(outcome.reason))

    def _record_messages(self, messages: tuple[AgentMessage, ...]) -> None:
        for message in messages:
            seq, text = self._known.get(message.id, (0, ""))
            if message.text == text or not (seq or message.text.strip()):
                continue
            content = (Text(message.text),)
            if seq:
                self.journal.record(events.MessageRevised(seq, content))
            elif message.role == "agent":
                seq = self.journal.record(events.AssistantMessage("", content, "end")).seq
            else:  # of an earlier conversation, that this one goes on with
                seq = self.journal.record(events.UserMessage(content, source="terminal")).seq
                self.journal.record(events.Delivered(seq))
            self._known[message.id] = (seq, message.text)

    def _end_run(self, status: RunStatus, reason: str = "", failure: OstlerError | None = None) -> None:
        assert self._run is not None and self.journal.state.run is not None
        run, self._run = self._run, None
        if run.cancelled:
            status, reason, failure = "cancelled", reason or "the agent was interrupted", None
        duration = self.journal.world.now_ms() - self.journal.state.run.time_ms
        ended = events.RunEnded(
            status,
            reason,
            failure_of(failure) if failure else None,
            own=events.Totals(duration_ms=max(0, duration)),
            cumulative=self.journal.state.usage,
            request=run.cancelled_by,
        )
        self.journal.record(ended, settles=run.cancelled_by)
