"""People around simulated sessions: they answer or do not, steer, pause, cancel, and ask for things twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from ostler.core.harness import Harness
from ostler.core.state import SessionState, fold
from ostler.schema import requests
from ostler.schema.errors import CallRefused, SessionHeld, StoreError, UsageError
from ostler.schema.events import QuestionAsked
from ostler.schema.messages import as_content
from ostler.schema.outcomes import failed, ok
from ostler.schema.requests import AnyRequest
from ostler.sessions.session import Session, open_session
from ostler.sessions.submit import submit_now
from ostler.testkit.simulator.ledger import SECRET
from ostler.testkit.simulator.process import SESSION, SimulatedProcess


class People:
    """Everybody who wants something of the session, or of its children's, while one process has it."""

    def __init__(
        self, process: SimulatedProcess, store: Any, harness: Callable[[], Harness] | None = None
    ) -> None:
        self._process = process
        self._harness = harness
        """With which they drive children on themselves, from another process; without one they never do."""
        self._random = process.random
        self._store = store
        self._wanted = process.fault.at if process.fault else ""
        """The operation that is to be struck: they do what they can to bring it about."""
        self._said = 0

    async def submit(self, request: AnyRequest, session: str = SESSION) -> None:
        """Whoever dies meanwhile does not know whether it arrived, and asks again later."""
        unsure = self._process.ledger.unsure
        unsure[request.id] = (session, request)
        await self._store.submit(session, request)
        if not self._process.dead:
            unsure.pop(request.id, None)

    async def ask_of(self, session: str, request: AnyRequest) -> None:
        """Of a child: from another process, which takes it up itself if it can, or dies before."""
        if session == SESSION or self._random.random() < 0.3:
            await self.submit(request, session)
            return
        unsure = self._process.ledger.unsure
        unsure[request.id] = (session, request)
        with suppress(UsageError):  # it was refused
            await submit_now(self._store, session, request, self._process.world(6_000_000))
        if not self._process.dead:
            unsure.pop(request.id, None)

    async def pester(self, session: Session) -> None:
        """Requests of every kind, at odd moments."""
        await self._ask_what_became_of(list(self._process.ledger.unsure.values()))
        least = 3 if self._wanted in ("submit", "read", "read_opening") else 0
        for _ in range(self._random.randint(least, 5)):
            await asyncio.sleep(self._random.choice((0.0, 0.001, 0.5, 3.0, 40.0)))
            children = self._process.shared.children()
            if children and self._random.random() < 0.4:
                await self._pester_child(self._random.choice(children))
            else:
                await self.submit(self._anything(session.state))
            if self._random.random() < 0.03:
                session.cancel("the face was left")

    async def _pester_child(self, child: str) -> None:
        state = self._state(child)
        if state.run is not None and state.run.waiting is not None:
            await self.settle_waiting(state)
        else:
            await self.ask_of(child, self._anything(state))
        await self._drive(child)

    def _state(self, session: str) -> SessionState:
        return fold(self._process.shared.logs()[session])

    async def _drive(self, child: str) -> None:
        """Goes on with a child from another process, unless somebody is at it."""
        if self._harness is None or self._random.random() < 0.5:
            return
        try:
            session = await open_session(
                self._store, child, self._harness(), world=self._process.world(7_000_000)
            )
        except SessionHeld:
            return
        try:
            if session.state.run is not None:
                await session.advance()
            await session.close()
        except StoreError:
            if self._process.dead or not self._process.struck:
                raise

    async def _ask_what_became_of(self, unsure: list[tuple[str, AnyRequest]]) -> None:
        ledger = self._process.ledger
        if self._wanted == "settlement":
            unsure += [(ledger.sent_to[one.id], one) for one in list(ledger.requests.values())[-1:]]
        for session, request in unsure:
            if await self._store.settlement(session, request.id) is None:
                await self.submit(request, session)
            else:
                ledger.unsure.pop(request.id, None)

    async def ask(self, asked: QuestionAsked) -> Any:
        """The face in this process: it answers, declines, breaks, or leaves it to somebody else."""
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.01, 1.0, 12.0, 45.0)))
        draw = self._random.random()
        if draw < 0.5:
            return SECRET if asked.question.secret else self._random.choice(("yes", "yes", True, "no", 7))
        if draw < 0.65:
            raise CallRefused("not now")
        if draw < 0.72:
            raise RuntimeError("the window was closed")
        while True:
            for _ in range(self._random.choice((1, 1, 2))):
                await self.submit(self._about(asked), self._process.ledger.asked_in[asked.id])
            if self._random.random() < 0.2:
                return "yes"
            await asyncio.sleep(self._random.choice((0.0, 1.0, 20.0)))

    async def settle_waiting(self, state: SessionState) -> None:
        """Does something about what the run waits for, be it in a child of its."""
        assert state.run is not None and state.run.waiting is not None
        if state.run.waiting.reason == "paused":
            is_enough = self._random.random() < 0.2
            request = requests.Cancel if is_enough else requests.Resume
            await self.ask_of(state.id, request(id=self._new_id()))
        for asked in list(state.questions.values()):
            await self.ask_of(state.id, self._about(asked))
        for child in state.run.open_children():
            if child in self._process.shared.children():
                await self._settle_child(child)
        for call in state.run.step.open_calls() if state.run.step else ():
            if call.deferred and (
                not state.run.children_of(call.called.call) or self._random.random() < 0.02
            ):
                await self.ask_of(state.id, self._finish(call.called.call))

    async def _settle_child(self, child: str) -> None:
        state = self._state(child)
        if state.run is not None and state.run.waiting is not None:
            await self.settle_waiting(state)
            await self._drive(child)

    async def release_prompts(self, session: str = SESSION) -> None:
        drop = self._random.random() < 0.3
        await self.submit(requests.ReleasePrompts(id=self._new_id(), drop=drop), session)

    async def prompt(self) -> None:
        await self.submit(requests.Prompt(id=self._new_id(), content=self._words("a queued prompt")))

    def _about(self, asked: QuestionAsked) -> AnyRequest:
        draw = self._random.random()
        if draw < 0.1:
            return requests.Cancel(id=self._new_id(), by="somebody")
        if draw < 0.2:
            return requests.Cancel(id=self._new_id(), call=asked.call)
        answer = SECRET if asked.question.secret else self._random.choice(("yes", "yes", "no", {"a": 1}))
        return requests.Answer(id=self._new_id(), question=asked.id, answer=answer, declined=draw < 0.4)

    def _anything(self, state: SessionState) -> AnyRequest:
        known = self._process.ledger.requests
        if state.id in self._process.ledger.sent_to.values() and self._random.random() < 0.15:
            sent_to = self._process.ledger.sent_to
            return self._again(
                self._random.choice([one for one in known.values() if sent_to[one.id] == state.id])
            )
        new_id, step = self._new_id(), state.run.step if state.run else None
        calls = [call.called.call for call in step.open_calls()] if step else ["call_none"]
        questions = list(state.questions) or ["q_none"]
        entry = self._random.randint(0, state.last_seq)
        if self._wanted in ("read", "read_opening") and self._random.random() < 0.5:
            return requests.Navigate(id=new_id, entry=entry)
        possible: tuple[AnyRequest, ...] = (
            requests.Steer(id=new_id, content=self._words("a steer")),
            requests.Steer(id=new_id, content=self._words("a steer")),
            requests.Prompt(id=new_id, content=self._words("a queued prompt")),
            requests.Continue(id=new_id),
            requests.Cancel(id=new_id, by="somebody"),
            requests.Cancel(id=new_id, call=self._random.choice(calls or ["call_none"])),
            requests.Answer(id=new_id, question=self._random.choice(questions), answer="yes"),
            self._finish(self._random.choice(calls or ["call_none"])),
            requests.Rename(id=new_id, title="a title"),
            requests.Label(id=new_id, entry=entry, label="here"),
            requests.Navigate(id=new_id, entry=entry),
            requests.ReleasePrompts(id=new_id, drop=self._random.random() < 0.3),
            requests.SetModel(id=new_id, model=self._random.choice(("chance/other", "nobody/knows"))),
            requests.Pause(id=new_id),
            requests.Pause(id=new_id),
            requests.Resume(id=new_id),
        )
        return self._random.choice(possible)

    def _again(self, request: AnyRequest) -> AnyRequest:
        """The same id: it must count for nothing, even with other words."""
        if isinstance(request, requests.Steer | requests.Prompt):
            return msgspec.structs.replace(request, content=self._words("said again"))
        return request

    def _finish(self, call: str) -> AnyRequest:
        outcome = ok("finished later") if self._random.random() < 0.7 else failed("sold out")
        return requests.FinishCall(id=self._new_id(), call=call, outcome=outcome)

    def _words(self, text: str) -> Any:
        self._said += 1
        return as_content(f"{text} {self._process.number}.{self._said}")

    def _new_id(self) -> str:
        return self._process.new_id("req")
