"""What the agent asks a person: a question with the agent's own answers, that any face may give once."""

from __future__ import annotations

import asyncio

import msgspec

from ostler.kernel.journal import Journal
from ostler.terminals.structured.driver import Option, Permission
from ostler.terminals.structured.turn import Turn, change_details
from ostler.vocabulary import events, requests
from ostler.vocabulary.outcomes import Question

_LONGEST_ANSWER = 200


class _Open(msgspec.Struct):
    asked: Permission
    options: dict[str, Option]
    """By what a person calls them."""
    turn: Turn
    answer: asyncio.Future[str | None]


class Permissions:
    """Those of one session that are asked and not answered. The agent waits for each of them."""

    def __init__(self, journal: Journal, agent_type: str) -> None:
        self._journal = journal
        self._agent_type = agent_type
        self._open: dict[str, _Open] = {}

    def ask(self, asked: Permission, turn: Turn, answer: asyncio.Future[str | None]) -> None:
        """Makes a question of it."""
        call = turn.call(asked.call)
        options = _by_name(asked.options)
        question = self._journal.world.new_id("q")
        details = {
            "tool": call.name,
            "arguments": call.arguments,
            **change_details(asked.call.changes or call.changes),
            "options": [msgspec.structs.asdict(one) for one in asked.options],
        }
        text = f"May {self._agent_type} do this? {call.title or call.name}"
        wanted = Question(text, "choice", tuple(options), details=details, reason=asked.reason)
        self._open[question] = _Open(asked, options, turn, answer)
        call.asked = True
        self._journal.record(events.QuestionAsked(question, wanted, call.id, durable=False))

    async def answer(self, request: requests.Answer) -> None:
        """Takes up somebody's answer, or says why it is none. The agent is told once it is a fact."""
        found = self._open.get(request.question)
        problem = _unfit(request, found)
        if found is None or problem:
            refused = events.RequestRefused(request.id, problem)
            self._journal.record(refused, settles=request.id)
            return
        del self._open[request.question]
        chosen = _refusal(found.asked.options) if request.declined else found.options[request.answer]
        outcome = events.QuestionAnswered(
            request.question,
            "declined" if request.declined else "answered",
            request.answer,
            request.by,
            request.id,
        )
        self._journal.record(outcome, settles=request.id)
        call = found.turn.call(found.asked.call)
        call.asked, call.refused = False, chosen is None or not chosen.allows
        if not call.refused:
            found.turn.start(found.asked.call, allowed_by="user")
        await self._journal.commit()
        if not found.answer.done():
            found.answer.set_result(chosen.id if chosen else None)

    def withdraw(self, answer: asyncio.Future[str | None] | None = None) -> None:
        """Nobody is to answer them any more: all, or the one that this answer was for."""
        gone = [name for name, one in self._open.items() if answer in (None, one.answer)]
        for question in gone:
            waiting = self._open.pop(question).answer
            if not self._journal.failed:
                self._journal.record(events.QuestionAnswered(question, "withdrawn"))
            if not waiting.done():
                waiting.set_result(None)


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


def _unfit(request: requests.Answer, found: _Open | None) -> str:
    if found is None:
        return f"the question {request.question} is not open"
    is_offered = isinstance(request.answer, str) and request.answer in found.options
    if not request.declined and not is_offered:
        return f"the answer must be one of: {', '.join(found.options)}"
    return ""
