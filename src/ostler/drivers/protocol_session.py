"""An agent that speaks a protocol as a session: what it says and asks become facts of a log."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ostler import __version__
from ostler.core.journal import Journal
from ostler.core.processes import describe_exit
from ostler.drivers.agent_messages import ProtocolConversation
from ostler.drivers.driver import (
    AgentMessage,
    ChoiceRequest,
    ConversationUpdate,
    Observer,
    PermissionRequest,
    ProtocolAgentSpec,
    SavedState,
    Status,
    StructuredTransport,
    TurnEnd,
    Update,
    open_driver,
)
from ostler.drivers.inbox import AgentInbox
from ostler.drivers.pty_process import OWNED_AS
from ostler.drivers.questions import AgentQuestions
from ostler.drivers.screen import ASCII_WHITESPACE
from ostler.drivers.screen_stream import STATUS
from ostler.drivers.session import Observers, give_back, live, outcome_for_a_sender
from ostler.drivers.tracker import NOT_WAITING, STOPPED
from ostler.drivers.turn import Turn
from ostler.schema import events, requests
from ostler.schema.errors import OstlerError, SessionBusy, StoreError, UsageError, failure_of
from ostler.schema.events import LiveValue, RunStatus
from ostler.schema.facts import Fact
from ostler.schema.messages import StopReason, Text
from ostler.sessions.lease import close_interrupted_run, renew_lease

_ESCAPE = b"\x1b"

_MOST_UNTAKEN = 2_000
"""Updates that may wait to become facts before the agent is read no further."""

_LAST_WORDS = 2.0

CONVERSING, CONVERSATION = "agent.conversation", "conversation"
"""The decision of the fact that tells the agent's own name for the conversation, and where that has it."""

_NO_KEYBOARD = "this agent has no terminal: send a message, or press escape to interrupt it"


_BEGINS_ANEW = "the agent begins anew: it does not remember what was said here before"


_STATUS: dict[str, RunStatus] = {"end": "completed", "refusal": "refused", "limit": "limit"}

_SAID: dict[str, StopReason] = {
    "end": "end",
    "refusal": "refusal",
    "limit": "length",
    "cancelled": "cancelled",
}


class _Sent(msgspec.Struct):
    """A message, from its acceptance to the end of its turn."""

    text: str
    request: str
    ended: asyncio.Future[None]
    is_initial: bool = False
    turn: Turn | None = None
    """Once it is a fact."""
    message: int = 0
    """The number of that fact."""
    delivered: bool = False
    cancelled: bool = False
    cancelled_by: str = ""
    """The request that did."""


class _Asked(msgspec.Struct, frozen=True):
    asked: PermissionRequest | ChoiceRequest
    answer: asyncio.Future[Any]


class _TakenBack(msgspec.Struct, frozen=True):
    answer: asyncio.Future[Any]


_Told = Update | _Asked | _TakenBack | TurnEnd | OstlerError


class _Inbox(AgentInbox):
    """Answers are for the agent that asked."""

    def __init__(self, session: ProtocolSession, stir: Callable[[], None]) -> None:
        super().__init__(session, stir)
        self._questions = session.questions

    async def _take_up(self, request: requests.AnyRequest) -> None:
        if isinstance(request, requests.Answer):
            await self._questions.answer(request)
        else:
            await super()._take_up(request)


class ProtocolSession:
    """The one writer of such an agent's session, from its start to its end.

    - A message is a fact before it is sent. Its run ends with the agent's turn.
    - What the agent says is live, in pieces, and a fact once it calls a tool or ends its turn.
    - What it asks is a question that any face may answer. Nothing is permitted without an answer; whoever
      interrupts the agent withdraws its questions.
    - It ends with its agent: an open run is interrupted, and the lease is given back.

    Made with `start_protocol_session`, or with `restart_protocol_session`.
    """

    def __init__(self, journal: Journal, agent: ProtocolAgentSpec, before: Sequence[Fact] = ()) -> None:
        """`before`: the facts of its earlier lives."""
        self.journal = journal
        self.agent = agent
        self.agent_type = agent.type
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.last_screen = ""
        self.questions = AgentQuestions(journal, self.agent_type)
        self._conversation = ProtocolConversation()
        self._conversation.recall(before)
        self._noted = agent.conversation
        self._sent: _Sent | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self._untaken: deque[_Told] = deque()
        self._stirred = asyncio.Event()
        self._inbox = _Inbox(self, self._stirred.set)
        self._observers = Observers()
        self._shown_status: Status | None = None
        self._life: asyncio.Task[None] | None = None
        self.driver = open_driver(agent, journal.session, self)

    @property
    def id(self) -> str:
        return self.journal.session

    @property
    def transport(self) -> StructuredTransport:
        return self.agent.transport

    @property
    def status(self) -> Status:
        if self._life is None:
            return "initializing"
        return "changing" if self._sent or self._inbox.next_prompt else "stable"

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        return self._conversation.messages

    @property
    def shown(self) -> str:
        return self._conversation.answer

    def to_save(self) -> SavedState:
        return SavedState(self.messages, self.agent.initial_prompt, bool(self.messages))

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        return self._observers.add(observer)

    # --- asking ---------------------------------------------------------------------------------------

    async def send(self, text: str, *, request: str = "") -> None:
        """Says something to the agent, now or not at all; returns when its turn has ended.

        Raises `SessionBusy` or `UsageError` at once, and `OstlerError` when the turn fails. One that is
        interrupted does not.
        """
        if text != text.strip(ASCII_WHITESPACE):
            raise UsageError("message must be trimmed of leading and trailing whitespace")
        if not text:
            raise UsageError("message must not be empty")
        if self.driver.process.ended.done():
            raise SessionBusy("the agent has ended")
        if self.status != "stable":
            raise SessionBusy(NOT_WAITING)
        await asyncio.shield(self._say(text, request).ended)

    def _say(self, text: str, request: str = "", *, is_initial: bool = False) -> _Sent:
        """The agent must be waiting for a message."""
        sent = self._sent = _Sent(text, request, outcome_for_a_sender(), is_initial)
        self._conversation.begin(text, self.journal.world.now_ms() / 1000)
        self._turn_task = asyncio.ensure_future(self._take_turn(sent))
        self._show_status()
        self._observers.changed()
        return sent

    async def _take_turn(self, sent: _Sent) -> None:
        end: TurnEnd | OstlerError
        try:
            await self._begin_run(sent)
            end = TurnEnd("cancelled") if sent.cancelled else await self.driver.prompt(sent.text)
        except StoreError:
            return  # nothing is done that the log does not know of
        except OstlerError as error:
            end = error
        self._put(end)

    def interrupt(self, request: str = "") -> bool:
        """Tells the agent to end its turn, and withdraws what it asks; its run ends `cancelled` once it did.

        False when that run was interrupted before, by another request.
        """
        sent = self._sent
        if sent is None:
            return True
        is_first = not sent.cancelled
        if is_first:
            sent.cancelled, sent.cancelled_by = True, request
        self.questions.withdraw()
        if sent.turn is not None:
            sent.turn.is_cancelled = True
            self.driver.cancel()
        self._stirred.set()
        return is_first

    def is_taken_up(self, request: str) -> bool:
        """Whether a prompt is with the agent, although no fact says so yet."""
        return self._sent is not None and self._sent.request == request

    def press(self, keys: bytes) -> None:
        """Only escape, which interrupts: there is no terminal, and keys are never made a message of."""
        if keys != _ESCAPE:
            raise UsageError(_NO_KEYBOARD)
        self.interrupt()

    def paste(self, text: str) -> None:
        raise UsageError(_NO_KEYBOARD)

    def resize(self, columns: int, rows: int) -> None:
        raise UsageError("this agent has no terminal that could have a size")

    async def close(self) -> None:
        """Ends the agent, and the session with it."""
        await self.driver.process.stop()
        if self._life is None:
            await self.driver.close()
        else:
            await asyncio.wait([self.ended])
            await self._life

    # --- what the driver tells ------------------------------------------------------------------------

    def update(self, update: Update) -> None:
        self._put(update)

    async def permit(self, asked: PermissionRequest) -> str | None:
        chosen: str | None = await self._ask(asked)
        return chosen

    async def choose(self, asked: ChoiceRequest) -> tuple[str, ...] | None:
        chosen: tuple[str, ...] | None = await self._ask(asked)
        return chosen

    async def _ask(self, asked: PermissionRequest | ChoiceRequest) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(_Asked(asked, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self._put(_TakenBack(answer))
            raise

    def _put(self, told: _Told) -> None:
        self._untaken.append(told)
        if len(self._untaken) > _MOST_UNTAKEN:
            self.driver.process.pause()
        self._stirred.set()

    # --- its life -------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Until the agent takes prompts. Raises `OstlerError`, and then it must be closed."""
        journal, process = self.journal, self.driver.process
        journal.on_failure = lambda error: process.kill()
        process.ended.add_done_callback(lambda ended: self._stirred.set())
        await journal.store.own_process(journal.lease, OWNED_AS, process.id)
        async with renew_lease(journal):
            await self._greet()
        about = {"agent_type": self.agent_type, "transport": self.transport}
        journal.record(events.Audited("agent.started", "its agent was started", about), run="")
        if self.messages and not self.agent.conversation:
            journal.record(events.Warned(_BEGINS_ANEW), run="")
        await journal.commit()
        self._life = asyncio.ensure_future(self._live())
        if self.agent.initial_prompt:
            self._say(self.agent.initial_prompt, is_initial=True)
        self._show_status()

    async def _greet(self) -> None:
        try:
            async with asyncio.timeout(self.agent.start_timeout):
                await self.driver.start()
        except TimeoutError:
            raise self.driver.process.error(
                f"{self.agent.command[0]} did not answer within {self.agent.start_timeout:g} s: "
                f"perhaps it does not speak {self.transport}, or wants another argument to do so"
            ) from None

    async def _live(self) -> None:
        """What becomes a fact does so here, one after the other; only the beginning of a run does not."""
        process = self.driver.process
        try:
            await live(self.journal, self._inbox, self._stirred, process.ended, self._go_on, self._end)
        finally:
            await self._leave()

    async def _go_on(self) -> None:
        await self._take_all()
        await self._inbox.read()
        await self.journal.commit()
        if self._sent is None and (prompt := self._inbox.next_prompt) is not None:
            self._say(*prompt)
        self._show_status()
        self._observers.changed()

    async def _end(self) -> None:
        exit_status = self.driver.process.ended.result()
        if self._turn_task is not None:
            await asyncio.wait({self._turn_task}, timeout=_LAST_WORDS)
        await self._take_all()
        reason = f"the agent {describe_exit(exit_status)}"
        self.last_screen = self.driver.process.last_stderr or self.shown
        await close_interrupted_run(self.journal)  # of a driver that did not say that its turn has ended
        about = {"exit_status": exit_status}
        self.journal.record(events.Audited("agent.ended", reason, about), run="")
        await self.journal.commit()

    async def _leave(self) -> None:
        await self.driver.process.stop()
        if self._turn_task is not None:
            self._turn_task.cancel()
        self.questions.withdraw()
        await self.driver.close()
        if self._sent is not None and not self._sent.ended.done():
            self._sent.ended.set_exception(OstlerError(STOPPED))
        self.journal.publish([LiveValue(STATUS)])
        await give_back(self.journal)
        process = self.driver.process
        self.ended.set_result(process.ended.result() if process.ended.done() else -signal.SIGKILL)
        self._observers.changed()

    def _show_status(self) -> None:
        if self._shown_status != self.status:
            self._shown_status = self.status
            value = {"status": self.status, "agent_type": self.agent_type}
            self.journal.publish([LiveValue(STATUS, value)])

    # --- facts ----------------------------------------------------------------------------------------

    async def _begin_run(self, sent: _Sent) -> None:
        started = events.RunStarted(
            version=__version__,
            cwd=str(self.agent.cwd),
            model=f"{self.transport}/{self.agent_type}",
            request=sent.request,
            agent=self.agent_type,
        )
        journal = self.journal
        journal.record(started, run=journal.world.new_id("run"), settles=sent.request)
        message = events.UserMessage((Text(sent.text),), source="terminal", request=sent.request)
        sent.message = journal.record(message, settles=sent.request).seq
        self._inbox.drop(sent.request)
        await journal.commit()
        sent.turn = Turn(journal)

    async def _take_all(self) -> None:
        """Each is a fact before the next: what is live is never seen before what came first."""
        while self._untaken:
            await self._take(self._untaken.popleft())
            await self.journal.commit()
        self.driver.process.resume()

    async def _take(self, told: _Told) -> None:
        turn = self._sent.turn if self._sent else None
        match told:
            case TurnEnd() | OstlerError():
                await self._end_run(told)
            case ConversationUpdate(conversation=conversation):
                self._note_conversation(conversation)
            case _TakenBack(answer=answer):
                self.questions.withdraw(answer)
            case _Asked(answer=answer) if turn is None or turn.is_cancelled:
                if not answer.done():
                    answer.set_result(None)
            case _Asked(asked=asked, answer=answer):
                assert turn is not None
                if not answer.done():
                    self._note_delivery()
                    self._conversation.take(asked.call)
                    question = self.questions.ask(asked, turn, answer)
                    self._conversation.ask(question, self.id)
            case _ if turn is not None:
                self._note_delivery()
                self._conversation.take(told)
                await turn.take(told)

    def _note_conversation(self, conversation: str) -> None:
        """Now, and not at the end: whoever starts the agent after a crash wants to know it."""
        if conversation != self._noted:
            self._noted = conversation
            about = {CONVERSATION: conversation}
            self.journal.record(events.Audited(CONVERSING, "its agent can go on with it", about), run="")

    def _note_delivery(self) -> None:
        """Whatever it says to a message, it has it."""
        sent = self._sent
        if sent is not None and not sent.delivered:
            sent.delivered = True
            self.journal.record(events.Delivered(sent.message))

    async def _end_run(self, end: TurnEnd | OstlerError) -> None:
        sent, run = self._sent, self.journal.state.run
        assert sent is not None and sent.turn is not None and run is not None
        self.questions.withdraw()
        failure = end if isinstance(end, OstlerError) else None
        has_died = failure is not None and self.driver.process.ended.done()
        if not has_died:
            self._note_delivery()
        status: RunStatus = "interrupted" if has_died else "failed"
        stop: StopReason = "other"
        reason = failure.message if failure else ""
        if isinstance(end, TurnEnd):
            status, stop, reason = _STATUS.get(end.stop, "cancelled"), _SAID[end.stop], end.reason
        if sent.cancelled or status == "cancelled":
            status, stop, failure = "cancelled", "cancelled", None
            reason, sent.turn.is_cancelled = "the agent was interrupted", True
        own = await sent.turn.end(stop)
        duration = max(0, self.journal.world.now_ms() - run.time_ms)
        ended = events.RunEnded(
            status,
            reason,
            failure_of(failure) if failure and not has_died else None,
            own=msgspec.structs.replace(own, duration_ms=duration),
            cumulative=self.journal.state.usage,
            request=sent.cancelled_by,
            context=sent.turn.context,
        )
        self.journal.record(ended, settles=sent.cancelled_by)
        await self.journal.commit()
        self._sent = None
        if failure is not None:
            self._conversation.take_out_answer()
        self._tell_sender(sent, failure)

    def _tell_sender(self, sent: _Sent, failure: OstlerError | None) -> None:
        if failure is not None and sent.is_initial:
            self._observers.warned(f"the initial prompt failed: {failure.message}")
        if sent.ended.done():
            return
        if failure is None:
            sent.ended.set_result(None)
        else:
            sent.ended.set_exception(OstlerError(failure.message))
