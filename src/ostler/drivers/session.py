"""Another vendor's agent as a session: its messages, calls and questions become facts of a log."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ostler.core.journal import Journal, Publisher
from ostler.core.processes import describe_exit
from ostler.core.recovery import close_interrupted_run
from ostler.drivers.agent_messages import ProtocolConversation, stored_messages
from ostler.drivers.agent_spec import AgentSpec, Transport
from ostler.drivers.driver import (
    ASKS_FIRST,
    NOT_WAITING,
    STOPPED,
    AgentMessage,
    AnswerFailed,
    ChoiceRequest,
    ConversationUpdate,
    Delivered,
    DriverFactory,
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
from ostler.drivers.turn import ScreenFacts, SentMessage, Turn
from ostler.schema import events
from ostler.schema.errors import OstlerError, SessionBusy, StoreError, UsageError
from ostler.schema.facts import Fact
from ostler.sessions.lease import renew_lease

_ESCAPE = b"\x1b"

_MOST_PENDING = 2_000
"""Updates that may wait to become facts before the agent is read no further."""

_TURN_END_WAIT = 2.0
_WAITS = ("stable", "asking")

CONVERSATION_DECISION, CONVERSATION = "agent.conversation", "conversation"
"""The decision of the fact that holds the agent's own id of the conversation, and its key in the details."""

_STARTS_OVER = "the agent starts over: it does not remember the conversation so far"


class _Question(msgspec.Struct, frozen=True):
    request: PermissionRequest | ChoiceRequest
    answer: asyncio.Future[Any]


class _Withdrawal(msgspec.Struct, frozen=True):
    answer: asyncio.Future[Any]


_Pending = Update | _Question | _Withdrawal | TurnEnd | OstlerError


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
        """The agent's exit status, set when the session is closed."""
        self.last_screen = ""
        """What the agent showed at its end."""
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
        self._sent: SentMessage | None = None
        self._turn_task: asyncio.Task[None] | None = None
        self._pending: deque[_Pending] = deque()
        self._wake = asyncio.Event()
        self._inbox = AgentInbox(self, self._wake.set)
        self._changes = Publisher[Callable[[], None]]()
        self.on_warning: Callable[[str], None] = lambda problem: None
        """Gets problems that no caller is waiting for."""
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
        """`stable`: it waits for the next message, and its last answer is a fact. `asking`: for an answer."""
        if self.questions.are_open:
            return "asking"
        status = self.driver.status
        is_unrecorded = status == "stable" and (self._sent or self._inbox.next_prompt)
        return "changing" if is_unrecorded or status == "asking" else status

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The whole conversation. Only the last message changes, and only while it is the agent's."""
        return self._conversation.messages if self.driver.screen is None else self.driver.messages

    @property
    def screen_text(self) -> str:
        """Its screen as text, each row padded; without a screen, its answer so far."""
        if self.driver.screen is None:
            return self._conversation.answer
        return self.last_screen if self.ended.done() else read_out(self.driver.screen)

    def to_save(self) -> SavedState:
        """What a later process of the agent can start with."""
        return self.driver.to_save() or SavedState(
            self.messages, self.spec.initial_prompt, bool(self.messages)
        )

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls the function when the status, messages or screen may have changed, until the function
        returned is called. It must neither block nor raise."""
        return self._changes.subscribe(on_change)

    def _notify(self) -> None:
        self._changes.publish(lambda on_change: on_change())

    # --- use ------------------------------------------------------------------------------------------

    async def send(self, text: str, *, request: str = "") -> None:
        """Sends a message now, or not at all; returns when the driver confirms it.

        Raises `SessionBusy` or `UsageError` at once, and `OstlerError` when the agent fails to react.
        """
        if (status := self.status) != "stable":
            raise SessionBusy(ASKS_FIRST if status == "asking" else NOT_WAITING)
        if self.driver.process.ended.done():
            raise SessionBusy("the agent has ended")
        if text != text.strip(ASCII_WHITESPACE):
            raise UsageError("message must be trimmed of leading and trailing whitespace")
        if not text:
            raise UsageError("message must not be empty")
        await asyncio.shield(self._send(SentMessage.of(text, request)).confirmed)

    def _send(self, sent: SentMessage) -> SentMessage:
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
        """Sends keys as a keyboard does, at any time; they are never stored. Raises `SessionBusy`. Without a
        terminal only escape, which interrupts: keys never become a message."""
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
        sent = self._sent = self._sent or SentMessage.of(text, is_initial=True)
        journal = self.journal
        if self._screen_facts is not None:  # the screen is stable, or nothing would be sent
            self._screen_facts.record(self.messages)
        sent.begin_run(journal, self.spec)
        self._inbox.drop(sent.request)
        await journal.commit()
        if self._screen_facts is None:
            sent.turn = Turn(journal)
        return not sent.cancelled

    def update(self, update: Update) -> None:
        self._put(update)

    def screen_changed(self) -> None:
        message, waits = self._unrecorded, self.driver.status in _WAITS
        has_news = self.questions.is_news(self.driver.dialog)
        if has_news or (waits and (self._sent or message or self._inbox.next_prompt)):
            self._wake.set()  # first the facts, then the status
        else:
            self._live_values.show_status(self.status)
        self._live_values.show_message(message)
        self._live_values.show_screen()
        self._notify()

    async def permit(self, request: PermissionRequest) -> str | None:
        option: str | None = await self._ask(request)
        return option

    async def choose(self, request: ChoiceRequest) -> tuple[str, ...] | None:
        choices: tuple[str, ...] | None = await self._ask(request)
        return choices

    async def _ask(self, request: PermissionRequest | ChoiceRequest) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(_Question(request, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            self._put(_Withdrawal(answer))
            raise

    def _put(self, item: _Pending) -> None:
        self._pending.append(item)
        if len(self._pending) > _MOST_PENDING:
            self.driver.pause()
        self._wake.set()

    @property
    def _unrecorded(self) -> tuple[int, str] | None:
        """The agent's message on the screen, if it differs from its fact."""
        return self._screen_facts.unrecorded(self.messages) if self._screen_facts is not None else None

    # --- life -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Waits until the agent accepts prompts. If this raises, close the session."""
        journal, process, spec = self.journal, self.driver.process, self.spec
        journal.on_failure = lambda error: process.kill()
        process.ended.add_done_callback(lambda ended: self._wake.set())
        await journal.store.own_process(journal.lease, OWNED_AS, process.id)
        async with renew_lease(journal):
            await self.driver.start()
        size = {"columns": spec.columns, "rows": spec.rows}
        kind = {"transport": spec.transport} if self._screen_facts is None else size
        self._audit("started", "its agent was started", {"agent_type": self.agent_type, **kind})
        if self._screen_facts is None and self.messages and not spec.conversation:
            journal.record(events.Warned(_STARTS_OVER), run="")
        await journal.commit()
        self._life = asyncio.ensure_future(self._live())
        if self._screen_facts is None:  # a screen's tracker sends it, when the agent is ready
            if spec.initial_prompt:
                self._send(SentMessage.of(spec.initial_prompt, is_initial=True))
            self._live_values.show_status(self.status)

    def _audit(self, change: str, reason: str, details: dict[str, Any]) -> None:
        name = f"{'agent' if self._screen_facts is None else 'terminal'}.{change}"
        self.journal.record(events.Audited(name, reason, details), run="")

    async def _live(self) -> None:
        """Records all facts, one after the other, except the beginning of a run."""
        journal, ended = self.journal, self.driver.process.ended
        try:
            async with renew_lease(journal):
                async with self._inbox.watched():
                    while not ended.done():
                        await self._wake.wait()
                        self._wake.clear()
                        await self._proceed()
                await self._end(ended.result())
        except StoreError as error:
            journal.fail(error)
        finally:
            await self._leave()

    async def _proceed(self) -> None:
        await self._take_pending()
        await self._inbox.read()
        if self._screen_facts is not None and (status := self.driver.status) in _WAITS:
            self._screen_facts.record(self.messages)
            if status == "stable" and self._sent is not None and self._sent.delivered:
                await self._end_run(TurnEnd())
        self.questions.follow(self.driver.dialog)
        await self.journal.commit()
        prompt = self._inbox.next_prompt
        if prompt is not None and self._sent is None and self.driver.status == "stable":
            self._send(SentMessage.of(*prompt))
        self._live_values.show_status(self.status)
        self._live_values.show_message(self._unrecorded)
        self._notify()

    async def _end(self, exit_status: int) -> None:
        if self._turn_task is not None:
            await asyncio.wait({self._turn_task}, timeout=_TURN_END_WAIT)
        self.last_screen = self.driver.last_output()
        await self._take_pending()
        reason = f"the agent {describe_exit(exit_status)}"
        if self._screen_facts is None:
            self.last_screen = self.last_screen or self.screen_text
            await close_interrupted_run(self.journal)  # the driver may not have ended its turn
        else:
            self._screen_facts.record(self.messages)
            self.questions.withdraw()
            if (sent := self._sent) is not None and sent.message:
                sent.confirm(OstlerError(STOPPED))
                await self._end_run(OstlerError(reason))
        self._audit("ended", reason, {"exit_status": exit_status})
        await self.journal.commit()

    async def _leave(self) -> None:
        await (process := self.driver.process).stop()
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
            case AnswerFailed(reason=reason):
                self.journal.record(events.Warned(f"the answer did not reach {self.agent_type}: {reason}"))
            case ConversationUpdate(conversation=conversation):
                self._note_conversation(conversation)
            case _Withdrawal(answer=answer):
                self.questions.withdraw(answer)
            case _Question(answer=answer) if turn is None or turn.is_cancelled:
                if not answer.done():
                    answer.set_result(None)
            case _Question(request=request, answer=answer):
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
            reason, details = "its agent can continue it", {CONVERSATION: conversation}
            self.journal.record(events.Audited(CONVERSATION_DECISION, reason, details), run="")

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
            then = "it is sent again" if outcome.again else "it is given up"
            self.on_warning(f"the agent did not react to the initial prompt, {then}: {outcome.reason}")
        failure = OstlerError(outcome.reason)
        sent.confirm(failure)
        if sent.message and not sent.delivered:
            await self._end_run(failure, was_delivered=False)
        else:
            self._sent = None

    async def _end_run(self, end: TurnEnd | OstlerError, *, was_delivered: bool = True) -> None:
        sent = self._sent
        if sent is None or not sent.message:  # the driver refused the message: there is no run
            self._sent = None
            if sent is not None and isinstance(end, OstlerError):
                sent.confirm(end)
            return
        self.questions.withdraw()
        has_died = was_delivered and isinstance(end, OstlerError) and self.driver.process.ended.done()
        if sent.turn is not None and not has_died:
            self._note_delivery()
        failure = await sent.end_run(self.journal, end, has_died=has_died)
        if sent.turn is None:
            self._sent = None  # a screen's tracker may begin the next turn during the commit
            await self.journal.commit()
        else:
            await self.journal.commit()
            self._sent = None
            self._confirm_turn(sent, failure)

    def _confirm_turn(self, sent: SentMessage, failure: OstlerError | None) -> None:
        if failure is not None:
            self._conversation.remove_answer()
            if sent.is_initial:
                self.on_warning(f"the initial prompt failed: {failure.message}")
        sent.confirm(failure)
