"""People who use simulated sessions: they answer or do not, steer, pause, cancel, and repeat requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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
    """Everybody who sends requests to the session or its children while one process drives it."""

    def __init__(
        self, process: SimulatedProcess, store: Any, harness: Callable[[], Harness] | None = None
    ) -> None:
        self._process = process
        self._harness = harness
        """With it they drive children from another process."""
        self._random = process.random
        self._store = store
        self._wanted = process.fault.at if process.fault else ""
        """The operation at which a fault happens: they send more requests that use it."""
        self._texts = 0

    async def submit(self, request: AnyRequest, session: str = SESSION) -> None:
        """If the process dies meanwhile, they do not know whether it arrived, and submit it again later."""
        await self._while_unsure(session, request, self._store.submit(session, request))

    async def submit_to(self, session: str, request: AnyRequest) -> None:
        """To a child from another process, which handles the request itself if it can."""
        if session == SESSION or self._random.random() < 0.3:
            return await self.submit(request, session)
        world = self._process.world(6_000_000)
        return await self._while_unsure(session, request, submit_now(self._store, session, request, world))

    async def _while_unsure(self, session: str, request: AnyRequest, work: Coroutine[Any, Any, Any]) -> None:
        unsure = self._process.ledger.unsure
        unsure[request.id] = (session, request)
        with suppress(UsageError):  # it was refused
            await work
        if not self._process.is_dead:
            unsure.pop(request.id, None)

    async def send_requests(self, session: Session) -> None:
        """Requests of every kind, at random times."""
        await self._resubmit(list(self._process.ledger.unsure.values()))
        least = 3 if self._wanted in ("submit", "read", "read_opening") else 0
        for _ in range(self._random.randint(least, 5)):
            await asyncio.sleep(self._random.choice((0.0, 0.001, 0.5, 3.0, 40.0)))
            children = self._process.shared.children()
            if children and self._random.random() < 0.4:
                await self._request_of_child(self._random.choice(children))
            else:
                await self.submit(self._random_request(session.state))
            if self._random.random() < 0.03:
                session.cancel("the front end was closed")

    async def _request_of_child(self, child: str, *, only_waiting: bool = False) -> None:
        state = fold(self._process.shared.logs()[child])
        if state.run is not None and state.run.waiting is not None:
            await self.answer_waiting(state)
        elif only_waiting:
            return
        else:
            await self.submit_to(child, self._random_request(state))
        await self._drive(child)

    async def _drive(self, child: str) -> None:
        """Drives a child from another process, unless some process holds it."""
        if self._harness is None or self._random.random() < 0.5:
            return
        try:
            world = self._process.world(7_000_000)
            session = await open_session(self._store, child, self._harness(), world=world)
        except SessionHeld:
            return
        try:
            if session.state.run is not None:
                await session.advance()
            await session.close()
        except StoreError:
            if self._process.is_dead or not self._process.is_struck:
                raise

    async def _resubmit(self, unsure: list[tuple[str, AnyRequest]]) -> None:
        """Submits again what did not arrive."""
        ledger = self._process.ledger
        if self._wanted == "settlement":
            unsure += [(ledger.sent_to[last.id], last) for last in list(ledger.requests.values())[-1:]]
        for session, request in unsure:
            if await self._store.settlement(session, request.id) is None:
                await self.submit(request, session)
            else:
                ledger.unsure.pop(request.id, None)

    async def ask(self, asked: QuestionAsked) -> Any:
        """The front end in this process: it answers, declines, fails, or lets other people answer."""
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
                await self.submit(self._reply(asked), self._process.ledger.asked_in[asked.id])
            if self._random.random() < 0.2:
                return "yes"
            await asyncio.sleep(self._random.choice((0.0, 1.0, 20.0)))

    async def answer_waiting(self, state: SessionState) -> None:
        """Sends requests about what the run waits for, also in its children."""
        assert state.run is not None and state.run.waiting is not None
        if state.run.waiting.reason == "paused":
            request = requests.Cancel if self._random.random() < 0.2 else requests.Resume
            await self.submit_to(state.id, request(id=self._new_id()))
        for asked in list(state.questions.values()):
            await self.submit_to(state.id, self._reply(asked))
        for child in state.run.open_children():
            if child in self._process.shared.children():
                await self._request_of_child(child, only_waiting=True)
        for call in state.run.step.open_calls() if state.run.step else ():
            has_children = state.run.children_of(call.called.call)
            if call.deferred and (not has_children or self._random.random() < 0.02):
                await self.submit_to(state.id, self._finish(call.called.call))

    async def release_prompts(self, session: str) -> None:
        release = requests.ReleasePrompts(id=self._new_id(), drop=self._random.random() < 0.3)
        await self.submit(release, session)

    async def prompt(self) -> None:
        await self.submit(requests.Prompt(id=self._new_id(), content=self._words("a queued prompt")))

    def _reply(self, asked: QuestionAsked) -> AnyRequest:
        draw = self._random.random()
        if draw < 0.1:
            return requests.Cancel(id=self._new_id(), by="a person")
        if draw < 0.2:
            return requests.Cancel(id=self._new_id(), call=asked.call)
        answer = SECRET if asked.question.secret else self._random.choice(("yes", "yes", "no", {"a": 1}))
        return requests.Answer(id=self._new_id(), question=asked.id, answer=answer, declined=draw < 0.4)

    def _random_request(self, state: SessionState) -> AnyRequest:
        ledger = self._process.ledger
        if state.id in ledger.sent_to.values() and self._random.random() < 0.15:
            sent = [request for name, request in ledger.requests.items() if ledger.sent_to[name] == state.id]
            return self._repeat(self._random.choice(sent))
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
            requests.Cancel(id=new_id, by="a person"),
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

    def _repeat(self, request: AnyRequest) -> AnyRequest:
        """The same id, which must have no effect, even with another text."""
        if isinstance(request, requests.Steer | requests.Prompt):
            return msgspec.structs.replace(request, content=self._words("a repeat"))
        return request

    def _finish(self, call: str) -> AnyRequest:
        outcome = ok("finished later") if self._random.random() < 0.7 else failed("sold out")
        return requests.FinishCall(id=self._new_id(), call=call, outcome=outcome)

    def _words(self, text: str) -> Any:
        self._texts += 1
        return as_content(f"{text} {self._process.number}.{self._texts}")

    def _new_id(self) -> str:
        return self._process.new_id("req")
