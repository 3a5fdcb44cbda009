"""While another process drives the session: what happens there is seen here, and answered from here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from ostler.faces.tui.asking.child_questions import ChildQuestions
from ostler.faces.tui.far_store import FarStore, Relayed
from ostler.runs.run_tree import OpenQuestion, open_questions
from ostler.runs.session import Session
from ostler.runs.watching.relay import Batch, Relay, Unrepeated
from ostler.vocabulary import events
from ostler.vocabulary.errors import CallRefused, OstlerError
from ostler.vocabulary.events import Event, Warned
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.requests import Answer

See = Callable[[Sequence[Fact | Event]], None]

LOOK_AGAIN = 1.0
"""Seconds of silence after which it is looked whether somebody still has the session."""
_ABOUT_QUESTIONS = (events.QuestionAsked, events.QuestionAnswered)
ASKS_FOR_SECRET = "it is asked for a secret, which can only be typed where the run is driven"


class Following:
    """Keeps the session's state up to date with what its owner writes, until nobody has it."""

    def __init__(self, session: Session, see: See) -> None:
        self._session = session
        self._see = see
        self._children = ChildQuestions()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._is_told = False

    async def run(self) -> None:
        journal = self._session.journal
        relay = self._relay()
        await journal.leave_to_others()
        fresh = Unrepeated()
        try:
            await self._ask_what_is_open()
            async with aclosing(relay.batches()) as batches:
                async for batch in batches:
                    await self._take(fresh.among(batch))
                    if not batch and relay.owner is None:
                        return
                    if relay.problem:
                        self._say_incomplete(relay.problem)
        finally:
            for task in self._asking.values():
                task.cancel()
            if self._asking:
                await asyncio.wait(self._asking.values())

    def _relay(self) -> Relayed:
        journal = self._session.journal
        store, seen = journal.store, journal.committed_seq
        if isinstance(store, FarStore):
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
        told = self._children.among(batch)
        if any(isinstance(one.event if isinstance(one, Fact) else one, _ABOUT_QUESTIONS) for one in told):
            await self._ask_what_is_open()

    def _keep_model(self, batch: Batch) -> None:
        """Shows here which model answers there. On the same machine only a model that the session was given:
        this process may drive the session next, and then answers with its own."""
        is_far = isinstance(self._session.journal.store, FarStore)
        for one in batch:
            match one.event if isinstance(one, Fact) else one:
                case events.RunStarted(model=model) if model and is_far:
                    self._set_model(model)
                case events.SettingsChanged(model=model, reasoning=reasoning) if model or reasoning:
                    self._set_model(model or self._session.harness.model.name, reasoning)

    def _set_model(self, name: str, reasoning: str = "") -> None:
        harness = self._session.harness
        if harness.make_model is None:
            return
        try:
            harness.set_model(name, reasoning)
        except OstlerError as error:
            self._see([Warned(f"{name} cannot answer here: {error.message}")])

    def _say_incomplete(self, problem: str) -> None:
        if not self._is_told:
            self._is_told = True
            self._see([Warned(f"{problem}: what it says is seen when it is whole", about="store")])

    # --- what it asks ---------------------------------------------------------------------------------

    async def _ask_what_is_open(self) -> None:
        """Each question is asked here as well; the first answer counts."""
        session = self._session
        open_now = {one.asked.id: one for one in await open_questions(session.journal.store, session.state)}
        for gone in self._asking.keys() - open_now.keys():
            self._asking.pop(gone).cancel()
        for name in open_now.keys() - self._asking.keys():
            self._asking[name] = asyncio.ensure_future(self._ask(open_now[name]))

    async def _ask(self, one: OpenQuestion) -> None:
        harness, asked = self._session.harness, one.asked
        if harness.asker is None:
            return
        if asked.question.secret and not isinstance(self._session.journal.store, FarStore):
            self._see([Warned(ASKS_FOR_SECRET, about="store")])
            return
        answer, declined = None, False
        try:
            answer = await harness.asker(asked)
        except CallRefused:
            declined = True
        journal = self._session.journal
        name = journal.world.new_id("req")
        request = Answer(id=name, by="tui", question=asked.id, answer=answer, declined=declined)
        try:
            await journal.store.submit(one.session, request)
        except OstlerError as error:
            self._see([Warned(f"the answer was not taken: {error.message}", about="store")])
