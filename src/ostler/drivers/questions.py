"""What the agent asks a person: a question with the agent's own answers, that any face may give once."""
# MERGED: What an agent asks while it works for a call: put to the people of the run that the call belongs
# MERGED: to.

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ostler.core.call_context import CallContext
from ostler.core.cancellation import Stopwatch
from ostler.core.journal import Journal
from ostler.core.questions import answer_problem
from ostler.drivers.driver import ChoiceRequest, Option, PermissionRequest
from ostler.drivers.turn import Call, Turn, change_details
from ostler.schema import events, requests
from ostler.schema.errors import StoreError
from ostler.schema.events import Event, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact
from ostler.schema.outcomes import Question
from ostler.schema.requests import Answer
from ostler.sessions.inbox import outcome_of

_LONGEST_ANSWER = 200


class _Open(msgspec.Struct):
    asked: PermissionRequest | ChoiceRequest
    question: Question
    turn: Turn
    call: Call
    answer: asyncio.Future[Any]


class AgentQuestions:
    """Those of one session that are asked and not answered. The agent waits for them, and so does its run."""

    def __init__(self, journal: Journal, agent_type: str) -> None:
        self._journal = journal
        self._agent_type = agent_type
        self._open: dict[str, _Open] = {}

    def ask(
        self, asked: PermissionRequest | ChoiceRequest, turn: Turn, answer: asyncio.Future[Any]
    ) -> Question:
        """Makes a question of it."""
        call = turn.call(asked.call)
        call.questions += 1
        if isinstance(asked, PermissionRequest):
            question = _may_it(asked, call, self._agent_type)
        else:
            question = _which(asked, call)
        name = self._journal.world.new_id("q")
        self._open[name] = _Open(asked, question, turn, call, answer)
        self._journal.record(events.QuestionAsked(name, question, call.id, durable=False))
        self._note_waiting()
        return question

    async def answer(self, request: requests.Answer) -> None:
        """Takes up somebody's answer, or says why it is none. The agent is told once it is a fact."""
        found = self._open.get(request.question)
        problem = "" if found else f"the question {request.question} is not open"
        if found and not request.declined:
            problem = answer_problem(found.question, request.answer)
        if found is None or problem:
            refused = events.RequestRefused(request.id, problem)
            self._journal.record(refused, settles=request.id)
            return
        self._journal.record(outcome_of(request), settles=request.id)
        self._close(request.question)
        chosen = _chosen(found, request)
        await self._journal.commit()
        if not found.answer.done():
            found.answer.set_result(chosen)

    def withdraw(self, answer: asyncio.Future[Any] | None = None) -> None:
        """Nobody is to answer them any more: all, or the one that this answer was for."""
        gone = [name for name, one in self._open.items() if answer in (None, one.answer)]
        for name in gone:
            if not self._journal.failed:
                self._journal.record(events.QuestionAnswered(name, "withdrawn"))
            waiting = self._close(name).answer
            if not waiting.done():
                waiting.set_result(None)

    def _close(self, name: str) -> _Open:
        found = self._open.pop(name)
        found.call.questions -= 1
        if not self._journal.failed:
            self._note_waiting()
        return found

    def _note_waiting(self) -> None:
        run, asked = self._journal.state.run, tuple(self._open)
        if run is not None and run.waiting is not None:
            self._journal.record(events.RunResumed())
        if asked:
            self._journal.record(events.RunWaiting("question", asked))


def _may_it(asked: PermissionRequest, call: Call, agent_type: str) -> Question:
    about = {
        "tool": call.name,
        "arguments": call.arguments,
        **change_details(asked.call.changes or call.changes),
        "options": [msgspec.structs.asdict(one) for one in asked.options],
    }
    text = f"May {agent_type} do this? {call.title or call.name}"
    return Question(text, "choice", tuple(_by_name(asked.options)), details=about, reason=asked.reason)


def _which(asked: ChoiceRequest, call: Call) -> Question:
    about = {"tool": call.name}
    if not asked.several:
        return Question(asked.text, "choice", asked.choices, details=about, reason=asked.reason)
    several = {
        "type": "array",
        "items": {"type": "string", "enum": list(asked.choices)},
        "minItems": 1,
        "uniqueItems": True,
    }
    return Question(asked.text, "form", form=several, details=about, reason=asked.reason)


def _chosen(found: _Open, request: requests.Answer) -> Any:
    """What the driver is told. A call that was permitted has begun."""
    if isinstance(found.asked, ChoiceRequest):
        found.call.refused = request.declined
        if request.declined:
            return ()
        return tuple(request.answer) if found.asked.several else (request.answer,)
    options = found.asked.options
    chosen = _refusal(options) if request.declined else _by_name(options)[request.answer]
    found.call.refused = chosen is None or not chosen.allows
    if not found.call.refused:
        found.turn.start(found.asked.call, allowed_by="user")
    return chosen.id if chosen else None


def _by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    named: dict[str, Option] = {}
    for option in options:
        name = " ".join(option.name.split())[:_LONGEST_ANSWER] or option.id
        named[f"{name} ({option.id})" if name in named else name] = option
    return named


def _refusal(options: tuple[Option, ...]) -> Option | None:
    """What it is told for somebody who declines: that of its own answers which refuses least."""
    refusals = [one for one in options if not one.allows]
    return min(refusals, key=lambda one: one.kind != "reject_once", default=None)


_TELLING = ("question_asked", "question_answered")


class ForwardedQuestions:
    """Any face may answer in the child's own session; whoever drives the run here is asked as well.

    - The first answer wins. Where nobody can be asked, and nobody is waited for, it is declined.
    - While a question is open, the time that the agent has stands still.
    """

    def __init__(self, child: str, context: CallContext) -> None:
        self.stopwatch = Stopwatch()
        self._child = child
        self._context = context
        self._open: dict[str, asyncio.Task[None]] = {}

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for one in batch:
            if not isinstance(one, Fact) or one.type not in _TELLING:
                continue
            match one.event:
                case QuestionAsked(id=question) as asked:
                    self.stopwatch.pause()
                    self._open[question] = asyncio.ensure_future(self._pass_on(asked))
                case QuestionAnswered(id=question) if asking := self._open.pop(question, None):
                    asking.cancel()
                    self.stopwatch.go_on()

    def close(self) -> None:
        for asking in self._open.values():
            asking.cancel()

    async def _pass_on(self, asked: QuestionAsked) -> None:
        harness = self._context.harness
        answer, declined = None, True
        if harness.asker is not None:
            with suppress(Exception):  # whoever cannot be asked allows nothing
                answer, declined = await harness.asker(asked), False
        elif harness.waits_for_answers:
            return
        request = Answer(
            id=f"passed-on-{asked.id}", by="its parent", question=asked.id, answer=answer, declined=declined
        )
        with suppress(StoreError):  # then the call ends, and the agent with it
            await self._context.journal.store.submit(self._child, request)
