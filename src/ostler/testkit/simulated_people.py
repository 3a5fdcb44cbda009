"""People around a simulated session: they answer or do not, steer, cancel, and ask for things twice."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ostler.kernel.state import SessionState
from ostler.runs.session import Session
from ostler.testkit.simulated_ledger import SECRET
from ostler.testkit.simulated_store import SESSION, SimulatedProcess
from ostler.vocabulary import requests
from ostler.vocabulary.errors import CallRefused
from ostler.vocabulary.events import QuestionAsked
from ostler.vocabulary.messages import as_content
from ostler.vocabulary.outcomes import failed, ok
from ostler.vocabulary.requests import AnyRequest


class People:
    """Everybody who wants something of the session while one process has it."""

    def __init__(self, process: SimulatedProcess, store: Any) -> None:
        self._process = process
        self._random = process.random
        self._store = store
        self._wanted = process.fault.at if process.fault else ""
        """The operation that is to be struck: they do what they can to bring it about."""
        self._said = 0

    async def submit(self, request: AnyRequest) -> None:
        """Whoever dies meanwhile does not know whether it arrived, and asks again later."""
        unsure = self._process.ledger.unsure
        unsure[request.id] = request
        await self._store.submit(SESSION, request)
        if not self._process.dead:
            unsure.pop(request.id, None)

    async def pester(self, session: Session) -> None:
        """Requests of every kind, at odd moments."""
        await self._ask_what_became_of(list(self._process.ledger.unsure.values()))
        least = 3 if self._wanted in ("submit", "read", "read_opening") else 0
        for _ in range(self._random.randint(least, 5)):
            await asyncio.sleep(self._random.choice((0.0, 0.001, 0.5, 3.0, 40.0)))
            await self.submit(self._anything(session.state))
            if self._random.random() < 0.03:
                session.cancel("the face was left")

    async def _ask_what_became_of(self, unsure: list[AnyRequest]) -> None:
        if self._wanted == "settled":
            unsure += list(self._process.ledger.requests.values())[-1:]
        for request in unsure:
            if await self._store.settled(SESSION, request.id) is None:
                await self.submit(request)
            else:
                self._process.ledger.unsure.pop(request.id, None)

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
                await self.submit(self._about(asked))
            if self._random.random() < 0.2:
                return "yes"
            await asyncio.sleep(self._random.choice((0.0, 1.0, 20.0)))

    async def settle_waiting(self, state: SessionState) -> None:
        """Does something about what the run waits for."""
        for asked in list(state.questions.values()):
            await self.submit(self._about(asked))
        assert state.run is not None and state.run.step is not None
        for call in state.run.step.open_calls():
            if call.deferred:
                await self.submit(self._finish(call.called.call))

    async def release_prompts(self) -> None:
        drop = self._random.random() < 0.3
        await self.submit(requests.ReleasePrompts(id=self._new_id(), drop=drop))

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
        if known and self._random.random() < 0.15:
            return self._again(self._random.choice(list(known.values())))
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
