"""Following a session that another process runs; and asking its open questions in this terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

from ostler.app.question_queue import PERSON_DECLINED, event_in_child
from ostler.app.remote_sessions import Relayed, RemoteSessions
from ostler.core.harness import Harness
from ostler.core.questions import OpenQuestion, withdraw_question
from ostler.schema import events
from ostler.schema.errors import CallRefused, OstlerError
from ostler.schema.events import Event, Warned
from ostler.schema.facts import Fact, UnknownEvent
from ostler.schema.requests import Answer
from ostler.sessions.live_socket import Batch, DeltaFilter, Relay
from ostler.sessions.run_tree import open_questions
from ostler.sessions.session import Session

See = Callable[[Sequence[Fact | Event]], None]


def set_model(harness: Harness, name: str, reasoning: str, see: See) -> None:
    if harness.make_model is not None:
        try:
            harness.set_model(name, reasoning)
        except OstlerError as error:
            see([Warned(f"{name} cannot answer here: {error.message}")])


LOOK_AGAIN = 1.0
"""Seconds of silence after which we check whether another process still holds the session."""

ASKS_FOR_SECRET = "the run asks for a secret: answer it in the terminal that drives the run"


def _about_question(event: Event | UnknownEvent) -> events.QuestionAsked | events.QuestionAnswered | None:
    """The question or answer that an event is, or that the event of a child has."""
    inner = event_in_child(event) if isinstance(event, events.ChildEvent) else ("", event)
    is_one = inner is not None and isinstance(inner[1], events.QuestionAsked | events.QuestionAnswered)
    return inner[1] if is_one else None  # type: ignore[index,return-value]


class OpenQuestions:
    """Asks here what a run waits for: a question that another process asked, or one that has ended.

    A question is asked once, until it is answered, here or elsewhere; the first answer wins.
    """

    def __init__(self, session: Session, see: See) -> None:
        self._session = session
        self._see = see
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._secrets: dict[str, str] = {}
        """The requests that answer with a secret, by question."""
        self._sent: dict[str, str] = {}
        """The questions that were answered here, by request."""

    async def update(self) -> None:
        """Asks what is open and not asked yet, and closes what is not open any more."""
        session = self._session
        open_now = {one.asked.id: one for one in await open_questions(session.journal.store, session.state)}
        if not session.journal.is_detached:  # what is not durable belongs to code of this process
            open_now = {name: one for name, one in open_now.items() if one.asked.durable}
        for gone in self._asking.keys() - open_now.keys():
            self._close(gone)
        for name in open_now.keys() - self._asking.keys():
            if not session.questions.expects(name):
                self._asking[name] = asyncio.ensure_future(self._ask(open_now[name]))

    def see(self, batch: Sequence[Fact | Event]) -> None:
        """Closes what was answered elsewhere; asks again what was answered here, but was refused."""
        for one in batch if self._asking else ():
            event = one.event if isinstance(one, Fact) else one
            if isinstance(event, events.RequestRefused) and event.request in self._sent:
                self._close(self._sent.pop(event.request))
            elif isinstance(answered := _about_question(event), events.QuestionAnswered):
                self._close(answered.id)

    async def withdraw_dead(self) -> None:
        """Closes the dialogs whose code has ended, once this process holds the session."""
        session = self._session
        dead = [
            asked
            for asked in session.state.questions.values()
            if not asked.durable and not session.questions.expects(asked.id)
        ]
        for asked in dead:
            withdraw_question(session.journal, asked)
        if dead:
            await session.journal.commit()

    async def close(self) -> None:
        tasks = set(self._asking.values())
        for question in tuple(self._asking):
            self._close(question)
        if tasks:
            await asyncio.wait(tasks)

    def _close(self, question: str) -> None:
        if task := self._asking.pop(question, None):
            task.cancel()
        self._session.journal.secret_answers.pop(self._secrets.pop(question, ""), None)

    async def _ask(self, one: OpenQuestion) -> None:
        journal, asked, asker = self._session.journal, one.asked, self._session.harness.asker
        is_ours = one.session == self._session.id and not journal.is_detached
        is_secret = asked.question.secret
        if asker is None:
            return
        if is_secret and not is_ours and not isinstance(journal.store, RemoteSessions):
            self._see([Warned(ASKS_FOR_SECRET, about="store")])
            return
        if isinstance(journal.store, RemoteSessions):
            with suppress(OstlerError):  # an older server, or one that is away: the question has the call
                asked = await journal.store.question(self._session.id, asked)
        answer: Any = None
        declined = False
        try:
            answer = await asker(asked)
        except CallRefused as refusal:
            declined = True
            answer = None if refusal.message == PERSON_DECLINED else refusal.message
        name = journal.world.new_id("req")
        if is_secret and is_ours and not declined:
            # The inbox is a file, and must not contain it.
            journal.secret_answers[name], self._secrets[asked.id], answer = answer, name, None
        request = Answer(id=name, by="tui", question=asked.id, answer=answer, declined=declined)
        self._sent[name] = asked.id
        try:
            await journal.store.submit(one.session, request)
        except OstlerError as error:
            self._asking.pop(asked.id, None)
            self._see([Warned(f"the answer was not accepted: {error.message}", about="store")])


class SessionFollower:
    """Keeps the session's state up to date with what its owner writes, until it has none."""

    def __init__(self, session: Session, see: See, questions: OpenQuestions) -> None:
        self._session = session
        self._see = see
        self._questions = questions
        self._has_warned = False

    async def run(self) -> None:
        journal = self._session.journal
        relay = self._relay()
        await journal.detach()
        fresh = DeltaFilter()
        await self._questions.update()
        async with aclosing(relay.batches()) as batches:
            async for batch in batches:
                await self._take(fresh.among(batch))
                if not batch and relay.owner is None:
                    return
                if relay.problem and not self._has_warned:
                    self._has_warned = True
                    text = f"{relay.problem}: messages appear once they are complete"
                    self._see([Warned(text, about="store")])

    def _relay(self) -> Relayed:
        journal = self._session.journal
        store, seen = journal.store, journal.committed_seq
        if isinstance(store, RemoteSessions):
            return store.relay(journal.session, seen)
        return Relay(store, journal.session, seen, look_again=LOOK_AGAIN)

    async def _take(self, batch: Batch) -> None:
        if not batch:
            return
        journal = self._session.journal
        for one in batch:
            if isinstance(one, Fact) and one.seq > journal.state.last_seq:
                journal.state.apply(one)
                journal.is_moved = journal.is_moved or isinstance(one.event, events.LeafMoved)
        if journal.is_moved:
            await journal.reload()
        self._keep_model(batch)
        self._see(batch)
        if any(_about_question(one.event if isinstance(one, Fact) else one) for one in batch):
            await self._questions.update()

    def _keep_model(self, batch: Batch) -> None:
        """Shows the model of a remote run. On the same machine only the session's stored model counts: this
        process may run the session next, with its own."""
        harness, is_far = self._session.harness, isinstance(self._session.journal.store, RemoteSessions)
        for one in batch:
            match one.event if isinstance(one, Fact) else one:
                case events.RunStarted(model=model) if model and is_far:
                    set_model(harness, model, "", self._see)
                case events.SettingsChanged(model=model, reasoning=reasoning) if model or reasoning:
                    set_model(harness, model or harness.model.name, reasoning, self._see)
