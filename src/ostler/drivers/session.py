"""Another vendor's agent as a session: its messages, calls and questions become facts of a log."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ostler import __version__
from ostler.core.journal import Journal, Publisher
from ostler.core.processes import describe_exit
from ostler.core.recovery import close_interrupted_run
from ostler.drivers.agent_messages import ProtocolConversation, stored_messages
from ostler.drivers.agent_spec import AgentSpec, Transport
from ostler.drivers.driver import (
    NOT_WAITING,
    STOPPED,
    AgentMessage,
    ChoiceRequest,
    ConversationUpdate,
    Delivered,
    DriverFactory,
    Observer,
    PermissionRequest,
    SavedState,
    Status,
    TurnEnd,
    Undelivered,
    Update,
)
from ostler.drivers.inbox import AgentInbox, release_journal
from ostler.drivers.pty_process import OWNED_AS
from ostler.drivers.questions import AgentQuestions
from ostler.drivers.screen import ASCII_WHITESPACE, read_out
from ostler.drivers.screen_stream import LiveValues, ScreenSubscription
from ostler.drivers.turn import ScreenFacts, Turn
from ostler.schema import events
from ostler.schema.errors import OstlerError, SessionBusy, StoreError, UsageError, failure_of
from ostler.schema.events import RunStatus
from ostler.schema.facts import Fact
from ostler.schema.messages import StopReason, Text
from ostler.sessions.lease import renew_lease

_ESCAPE = b"\x1b"

_MOST_PENDING = 2_000
"""Updates that may wait to become facts before the agent is read no further."""

_TURN_END_WAIT = 2.0

CONVERSATION_DECISION, CONVERSATION = "agent.conversation", "conversation"
"""The decision of the fact that holds the agent's own id of the conversation, and its key in the details."""

_STARTS_OVER = "the agent begins anew: it does not remember what was said here before"

_RUN_STATUS: dict[str, RunStatus] = {"end": "completed", "refusal": "refused", "limit": "limit"}

_STOP_REASON: dict[str, StopReason] = {
    "end": "end",
    "refusal": "refusal",
    "limit": "length",
    "cancelled": "cancelled",
}


class _Sent(msgspec.Struct):
    """A message, from its acceptance to the end of its run."""

    text: str
    request: str
    confirmed: asyncio.Future[None]
    is_initial: bool = False
    message: int = 0
    """The number of its fact, once there is one: its run is open."""
    turn: Turn | None = None
    delivered: bool = False
    cancelled: bool = False
    cancelled_by: str = ""
    """The request that did."""

    @classmethod
    def of(cls, text: str, request: str = "", *, is_initial: bool = False) -> _Sent:
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # When no sender waits, a failure concerns only the run.
        confirmed.add_done_callback(lambda future: future.cancelled() or future.exception())
        return cls(text, request, confirmed, is_initial)

    def confirm(self, failure: OstlerError | None = None) -> None:
        if self.confirmed.done():
            return
        if failure is None:
            self.confirmed.set_result(None)
        else:
            self.confirmed.set_exception(OstlerError(failure.message))


class _Asked(msgspec.Struct, frozen=True):
    request: PermissionRequest | ChoiceRequest
    answer: asyncio.Future[Any]


class _Withdrawn(msgspec.Struct, frozen=True):
    answer: asyncio.Future[Any]


_Pending = Update | _Asked | _Withdrawn | TurnEnd | OstlerError


class AgentSession:
    """The one writer of a driven agent's session, from its start to its end.

    - A message is a fact before it is sent. Its run ends with the agent's turn: a screen's once it is stable.
    - What the agent says is live first. It becomes a fact when it calls a tool or ends its turn; a screen
      that changes later revises it.
    - What it asks is a question that any front end may answer. Nothing is permitted without an answer, and an
      interruption withdraws its questions.
    - It ends with its agent: an open run is interrupted, and the lease is given back.

    Made with `start_agent_session` or `restart_agent_session`.
    """

    def __init__(
        self,
        journal: Journal,
        spec: AgentSpec,
        driver: DriverFactory,
        *,
        earlier: Sequence[Fact] = (),
        saved: SavedState | None = None,
    ) -> None:
        """`earlier`: the facts of earlier processes of the agent."""
        self.journal = journal
        self.spec = spec
        self.agent_type = spec.type
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.last_screen = ""
        self.questions = AgentQuestions(journal, self.agent_type)
        self._conversation = ProtocolConversation()
        self._screen_facts: ScreenFacts | None = None
        if spec.transport == "pty":
            stored = stored_messages(earlier)
            self._screen_facts = ScreenFacts(journal, stored)
            saved = SavedState([one.message for one in stored]) if stored else saved
        else:
            self._conversation.recall(earlier)
        self._conversation_id = spec.conversation
        self._sent: _Sent | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()
        self._inbox = AgentInbox(self, self._wake.set)
        self._observers = Publisher[Observer]()
        self._life: asyncio.Task[None] | None = None
        self.driver = driver(spec, journal.session, self, saved)
        self._live_values = LiveValues(journal, self.agent_type, self.driver.screen)

    @property
    def id(self) -> str:
        return self.journal.session

    @property
    def transport(self) -> Transport:
        return self.spec.transport

    @property
    def status(self) -> Status:
        status = self.driver.status
        if status == "stable" and (self._sent or self._inbox.next_prompt):
            return "changing"
        return status

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        return self._conversation.messages if self.driver.screen is None else self.driver.messages

    @property
    def shown(self) -> str:
        if self.driver.screen is None:
            return self._conversation.answer
        return self.last_screen if self.ended.done() else read_out(self.driver.screen)

    def to_save(self) -> SavedState:
        return self.driver.to_save() or SavedState(
            self.messages, self.spec.initial_prompt, bool(self.messages)
        )

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        return self._observers.subscribe(observer)

    def _notify(self) -> None:
        self._observers.publish(lambda observer: observer.changed())

    def _warn(self, problem: str) -> None:
        self._observers.publish(lambda observer: observer.warned(problem))

    # --- use ------------------------------------------------------------------------------------------

    async def send(self, text: str, *, request: str = "") -> None:
        if self.status != "stable":
            raise SessionBusy(NOT_WAITING)
        if self.driver.process.ended.done():
            raise SessionBusy("the agent has ended")
        if text != text.strip(ASCII_WHITESPACE):
            raise UsageError("message must be trimmed of leading and trailing whitespace")
        if not text:
            raise UsageError("message must not be empty")
        await asyncio.shield(self._send(_Sent.of(text, request)).confirmed)

    def _send(self, sent: _Sent) -> _Sent:
        """The agent must be waiting for a message."""
        self._sent = sent
        if self.driver.screen is None:
            self._conversation.begin(sent.text, self.journal.world.now_ms() / 1000)
        self._turn_task = asyncio.ensure_future(self._take_turn(sent.text))
        self._live_values.show_status(self.status)
        self._notify()
        return sent

    async def _take_turn(self, text: str) -> None:
        end: TurnEnd | OstlerError | None
        try:
            end = await self.driver.prompt(text)
        except StoreError:
            return  # nothing is done that the log does not have
        except OstlerError as error:
            end = error
        if end is not None:
            self._put(end)

    def interrupt(self, request: str = "") -> bool:
        """Stops what the agent does and withdraws its questions; its run ends `cancelled` once it did.

        False when that run was interrupted before, by another request.
        """
        sent, has_screen = self._sent, self.driver.screen is not None
        if has_screen or (sent is not None and sent.turn is not None):
            self.driver.cancel()
        if sent is None or (has_screen and not sent.message):
            return True
        is_first = not sent.cancelled
        if is_first:
            sent.cancelled, sent.cancelled_by = True, request
        self.questions.withdraw()
        if sent.turn is not None:
            sent.turn.is_cancelled = True
        self._wake.set()
        return is_first

    def is_taken_up(self, request: str) -> bool:
        """Whether a prompt is with the agent, although no fact says so yet."""
        sent = self._sent
        return sent is not None and sent.request == request and not sent.confirmed.done()

    def press(self, keys: bytes) -> None:
        """Without a terminal only escape, which interrupts: keys never become a message."""
        if self.driver.screen is None and keys == _ESCAPE:
            self.interrupt()
        else:
            self.driver.press(keys)

    def paste(self, text: str) -> None:
        self.driver.paste(text)

    def resize(self, columns: int, rows: int) -> None:
        self.driver.resize(columns, rows)

    def view(self) -> ScreenSubscription:
        """The live screen, for one more viewer."""
        return self.driver.view(ScreenSubscription)

    async def close(self) -> None:
        """Ends the agent, and the session with it."""
        await self.driver.process.stop()
        if self._life is None:
            await self.driver.close()
        else:
            await asyncio.wait([self.ended])
            await self._life

    # --- what the driver reports ----------------------------------------------------------------------

    async def begin_turn(self, text: str) -> bool:
        sent = self._sent = self._sent or _Sent.of(text, is_initial=True)
        journal = self.journal
        if self._screen_facts is not None:  # the screen is stable, or nothing would be sent
            self._screen_facts.record(self.messages)
        started = events.RunStarted(
            version=__version__,
            cwd=str(self.spec.cwd),
            model=f"{self.spec.stored_driver}/{self.agent_type}",
            request=sent.request,
            agent=self.agent_type,
        )
        journal.record(started, run=journal.world.new_id("run"), settles=sent.request)
        message = events.UserMessage((Text(text),), source="terminal", request=sent.request)
        sent.message = journal.record(message, settles=sent.request).seq
        self._inbox.drop(sent.request)
        await journal.commit()
        if self._screen_facts is None:
            sent.turn = Turn(journal)
        return not sent.cancelled

    def update(self, update: Update) -> None:
        self._put(update)

    def screen_changed(self) -> None:
        unsettled = self._unsettled
        if self.driver.status == "stable" and (self._sent or unsettled or self._inbox.next_prompt):
            self._wake.set()  # first the facts, then the status
        else:
            self._live_values.show_status(self.status)
        self._live_values.show_message(unsettled)
        self._live_values.show_screen()
        self._notify()

    async def permit(self, request: PermissionRequest) -> str | None:
        chosen: str | None = await self._ask(request)
        return chosen

    async def choose(self, request: ChoiceRequest) -> tuple[str, ...] | None:
        chosen: tuple[str, ...] | None = await self._ask(request)
        return chosen

    async def _ask(self, request: PermissionRequest | ChoiceRequest) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(_Asked(request, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self._put(_Withdrawn(answer))
            raise

    def _put(self, item: _Pending) -> None:
        self._pending.append(item)
        if len(self._pending) > _MOST_PENDING:
            self.driver.pause()
        self._wake.set()

    @property
    def _unsettled(self) -> tuple[int, str] | None:
        """The agent's message that is not a fact yet as it is on the screen."""
        return self._screen_facts.unsettled(self.messages) if self._screen_facts is not None else None

    # --- life -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Waits until the agent accepts prompts. If this raises, close the session."""
        journal, process, spec = self.journal, self.driver.process, self.spec
        journal.on_failure = lambda error: process.kill()
        process.ended.add_done_callback(lambda ended: self._wake.set())
        await journal.store.own_process(journal.lease, OWNED_AS, process.id)
        async with renew_lease(journal):
            await self.driver.start()
        details: dict[str, Any] = {"agent_type": self.agent_type}
        if self._screen_facts is not None:
            details |= {"columns": spec.columns, "rows": spec.rows}
        else:
            details |= {"transport": spec.transport}
        self._audit("started", "its agent was started", details)
        if self._screen_facts is None and self.messages and not spec.conversation:
            journal.record(events.Warned(_STARTS_OVER), run="")
        await journal.commit()
        self._life = asyncio.ensure_future(self._live())
        if self._screen_facts is None:  # a screen's tracker sends it, when the agent is ready
            if spec.initial_prompt:
                self._send(_Sent.of(spec.initial_prompt, is_initial=True))
            self._live_values.show_status(self.status)

    def _audit(self, change: str, reason: str, details: dict[str, Any]) -> None:
        subject = "agent" if self._screen_facts is None else "terminal"
        self.journal.record(events.Audited(f"{subject}.{change}", reason, details), run="")

    async def _live(self) -> None:
        """Facts are recorded here, one after the other; only the beginning of a run is not."""
        journal, ended = self.journal, self.driver.process.ended
        try:
            async with renew_lease(journal):
                async with self._inbox.watched():
                    while not ended.done():
                        await self._wake.wait()
                        self._wake.clear()
                        await self._go_on()
                await self._end(ended.result())
        except StoreError as error:
            journal.fail(error)
        finally:
            await self._leave()

    async def _go_on(self) -> None:
        await self._take_pending()
        await self._inbox.read()
        if self._screen_facts is not None and self.driver.status == "stable":
            self._screen_facts.record(self.messages)
            if self._sent is not None and self._sent.delivered:
                await self._end_run(TurnEnd())
        await self.journal.commit()
        prompt = self._inbox.next_prompt
        if prompt is not None and self._sent is None and self.driver.status == "stable":
            self._send(_Sent.of(*prompt))
        self._live_values.show_status(self.status)
        self._live_values.show_message(self._unsettled)
        self._notify()

    async def _end(self, exit_status: int) -> None:
        if self._turn_task is not None:
            await asyncio.wait({self._turn_task}, timeout=_TURN_END_WAIT)
        self.last_screen = self.driver.last_output()
        await self._take_pending()
        reason = f"the agent {describe_exit(exit_status)}"
        if self._screen_facts is None:
            self.last_screen = self.last_screen or self.shown
            await close_interrupted_run(self.journal)  # the driver may not have ended its turn
        else:
            self._screen_facts.record(self.messages)
            if self._sent is not None and self._sent.message:
                await self._end_run(OstlerError(reason))
        details = {"exit_status": exit_status}
        self._audit("ended", reason, details)
        await self.journal.commit()

    async def _leave(self) -> None:
        process = self.driver.process
        await process.stop()
        if self._turn_task is not None:
            self._turn_task.cancel()
        self.questions.withdraw()
        await self.driver.close()
        if self._sent is not None:
            self._sent.confirm(OstlerError(STOPPED))
        self._live_values.clear()
        await release_journal(self.journal)
        self.ended.set_result(process.ended.result() if process.ended.done() else -signal.SIGKILL)
        if self.driver.screen is None:
            self._notify()

    # --- facts ----------------------------------------------------------------------------------------

    async def _take_pending(self) -> None:
        """Commits each before the next, so that nothing live is seen before the facts it follows."""
        while self._pending:
            await self._take(self._pending.popleft())
            await self.journal.commit()
        self.driver.resume()

    async def _take(self, item: _Pending) -> None:
        turn = self._sent.turn if self._sent else None
        match item:
            case Delivered():
                self._note_delivery()
            case Undelivered():
                await self._fail_delivery(item)
            case TurnEnd() | OstlerError():
                await self._end_run(item)
            case ConversationUpdate(conversation=conversation):
                self._note_conversation(conversation)
            case _Withdrawn(answer=answer):
                self.questions.withdraw(answer)
            case _Asked(answer=answer) if turn is None or turn.is_cancelled:
                if not answer.done():
                    answer.set_result(None)
            case _Asked(request=request, answer=answer):
                assert turn is not None
                if not answer.done():
                    self._note_delivery()
                    self._conversation.take(request.call)
                    question = self.questions.ask(request, turn, answer)
                    self._conversation.ask(question, self.id)
            case _ if turn is not None:
                self._note_delivery()
                self._conversation.take(item)
                await turn.take(item)

    def _note_conversation(self, conversation: str) -> None:
        """Recorded at once: a restart after a crash needs it."""
        if conversation != self._conversation_id:
            self._conversation_id = conversation
            details = {CONVERSATION: conversation}
            decision = events.Audited(CONVERSATION_DECISION, "its agent can go on with it", details)
            self.journal.record(decision, run="")

    def _note_delivery(self) -> None:
        """Any reaction to a message shows that the agent has it."""
        sent = self._sent
        if sent is None or sent.delivered or not sent.message:
            return
        sent.delivered = True
        if self._screen_facts is not None:
            self._screen_facts.note_delivery(sent.message, self.messages)
        self.journal.record(events.Delivered(sent.message))
        if self.driver.confirms == "delivery":
            sent.confirm()

    async def _fail_delivery(self, outcome: Undelivered) -> None:
        sent = self._sent
        if sent is None:
            return
        if sent.is_initial:
            then = "it is tried again" if outcome.again else "it is given up"
            self._warn(f"the initial prompt was not taken, {then}: {outcome.reason}")
        failure = OstlerError(outcome.reason)
        if sent.message and not sent.delivered:
            await self._end_run(failure, was_delivered=False)
        self._sent = None
        sent.confirm(failure)

    async def _end_run(self, end: TurnEnd | OstlerError, *, was_delivered: bool = True) -> None:
        sent, run, turn = self._sent, self.journal.state.run, self._sent.turn if self._sent else None
        if sent is None or not sent.message:  # the driver refused it: there is no run
            self._sent = None
            if sent is not None and isinstance(end, OstlerError):
                sent.confirm(end)
            return
        assert run is not None
        self.questions.withdraw()
        failure = end if isinstance(end, OstlerError) else None
        has_died = was_delivered and failure is not None and self.driver.process.ended.done()
        if turn is not None and not has_died:
            self._note_delivery()
        status: RunStatus = "interrupted" if has_died else "failed"
        stop: StopReason = "other"
        reason = failure.message if failure else ""
        if isinstance(end, TurnEnd):
            status, stop, reason = _RUN_STATUS.get(end.stop, "cancelled"), _STOP_REASON[end.stop], end.reason
        if sent.cancelled or status == "cancelled":
            status, stop, failure = "cancelled", "cancelled", None
            reason = (reason if turn is None else "") or "the agent was interrupted"
            if turn is not None:
                turn.is_cancelled = True
        own = await turn.end(stop) if turn is not None else events.Totals()
        duration = max(0, self.journal.world.now_ms() - run.time_ms)
        ended = events.RunEnded(
            status,
            reason,
            failure_of(failure) if failure and not has_died else None,
            own=msgspec.structs.replace(own, duration_ms=duration),
            cumulative=self.journal.state.usage,
            request=sent.cancelled_by,
            context=turn.context if turn is not None else 0,
        )
        self.journal.record(ended, settles=sent.cancelled_by)
        await self.journal.commit()
        self._sent = None
        if turn is not None:
            self._confirm_turn(sent, failure)

    def _confirm_turn(self, sent: _Sent, failure: OstlerError | None) -> None:
        if failure is not None:
            self._conversation.take_out_answer()
            if sent.is_initial:
                self._warn(f"the initial prompt failed: {failure.message}")
        sent.confirm(failure)
