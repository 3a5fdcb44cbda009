"""The agent's questions, with the agent's own options; a child's are forwarded to the parent's front end."""

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
from ostler.drivers.dialog import Dialog, OpenDialog
from ostler.drivers.driver import ChoiceRequest, Driver, Option, PermissionRequest
from ostler.drivers.turn import Call, Turn, change_details
from ostler.schema import events, requests
from ostler.schema.errors import SessionBusy, StoreError, UsageError
from ostler.schema.events import Event, QuestionAnswered, QuestionAsked
from ostler.schema.facts import Fact
from ostler.schema.outcomes import Question
from ostler.schema.requests import Answer
from ostler.sessions.inbox import outcome_of

_LONGEST_ANSWER = 200


class _Open(msgspec.Struct):
    request: PermissionRequest | ChoiceRequest
    question: Question
    turn: Turn
    call: Call
    answer: asyncio.Future[Any]


class _AskedDialog(msgspec.Struct, frozen=True):
    question: str
    asked: QuestionAsked
    open: OpenDialog


class AgentQuestions:
    """The open questions of one session. The agent and its run wait for them.

    What an agent asks over a protocol gets its answer there. A dialog on its screen gets it as keys; it may
    also be answered in the agent's terminal, or go away, and then the question is withdrawn.
    """

    def __init__(self, journal: Journal, agent_type: str) -> None:
        self._journal = journal
        self._agent_type = agent_type
        self._open: dict[str, _Open] = {}
        self._dialog: _AskedDialog | None = None

    @property
    def are_open(self) -> bool:
        return bool(self._open) or self._dialog is not None

    def follow(self, shown: OpenDialog | None) -> None:
        """Asks what the dialog on the screen asks, and withdraws the question of one that is gone."""
        if not self.is_news(shown):
            return
        self._withdraw_dialog()
        if shown is not None:
            question = _dialog_question(shown.dialog, self._agent_type)
            asked = events.QuestionAsked(self._journal.world.new_id("q"), question, durable=False)
            self._dialog = _AskedDialog(asked.id, asked, shown)
            self._journal.record(asked)
            self._note_waiting()

    def is_news(self, shown: OpenDialog | None) -> bool:
        """Whether another dialog is on the screen than the one asked about, or none."""
        asked = self._dialog.open.number if self._dialog else 0
        return asked != (shown.number if shown else 0)

    async def answer_dialog(self, request: requests.Answer, driver: Driver) -> bool:
        """Records the answer to a dialog and makes the choice; False if another question is meant.

        Raises `UsageError` when the answer does not fit, or the dialog is gone.
        """
        asked = self._dialog
        if asked is None or request.question != asked.question:
            return False
        dialog, labels = asked.open.dialog, asked.asked.question.choices
        if not request.declined and (problem := answer_problem(asked.asked.question, request.answer)):
            raise UsageError(problem)
        if self.is_news(driver.dialog):
            raise UsageError(f"the question {request.question} is not open: {self._agent_type} asks no more")
        choice = dialog.refusal if request.declined else labels.index(request.answer)
        self._journal.record(outcome_of(request), settles=request.id)
        self._dialog = None
        self._note_waiting()
        await self._journal.commit()
        with suppress(UsageError, SessionBusy):  # it went away meanwhile: what is shown next is asked again
            driver.answer_dialog(asked.open.number, choice if dialog.choices else -1)
        return True

    def _withdraw_dialog(self) -> None:
        if self._dialog is not None:
            name, self._dialog = self._dialog.question, None
            if not self._journal.failed:
                self._journal.record(events.QuestionAnswered(name, "withdrawn"))
                self._note_waiting()

    def ask(
        self, request: PermissionRequest | ChoiceRequest, turn: Turn, answer: asyncio.Future[Any]
    ) -> Question:
        call = turn.call(request.call)
        call.questions += 1
        if isinstance(request, PermissionRequest):
            question = _permission_question(request, call, self._agent_type)
        else:
            question = _choice_question(request, call)
        name = self._journal.world.new_id("q")
        self._open[name] = _Open(request, question, turn, call, answer)
        self._journal.record(events.QuestionAsked(name, question, call.id, durable=False))
        self._note_waiting()
        return question

    async def answer(self, request: requests.Answer) -> None:
        """Records an answer; the agent gets it once it is a fact. Raises `UsageError` if it does not fit."""
        question = self._open.get(request.question)
        problem = "" if question else f"the question {request.question} is not open"
        if question and not request.declined:
            problem = answer_problem(question.question, request.answer)
        if question is None or problem:
            raise UsageError(problem)
        self._journal.record(outcome_of(request), settles=request.id)
        self._close(request.question)
        choice = _choice_of(question, request)
        await self._journal.commit()
        if not question.answer.done():
            question.answer.set_result(choice)

    def withdraw(self, answer: asyncio.Future[Any] | None = None) -> None:
        """Withdraws all questions, or the one that this answer is for."""
        if answer is None:
            self._withdraw_dialog()
        names = [name for name, question in self._open.items() if answer in (None, question.answer)]
        for name in names:
            if not self._journal.failed:
                self._journal.record(events.QuestionAnswered(name, "withdrawn"))
            future = self._close(name).answer
            if not future.done():
                future.set_result(None)

    def _close(self, name: str) -> _Open:
        question = self._open.pop(name)
        question.call.questions -= 1
        if not self._journal.failed:
            self._note_waiting()
        return question

    def _note_waiting(self) -> None:
        run, questions = self._journal.state.run, tuple(self._open)
        if self._dialog is not None:
            questions = (*questions, self._dialog.question)
        if run is not None and run.waiting is not None:
            self._journal.record(events.RunResumed())
        if run is not None and questions:
            self._journal.record(events.RunWaiting("question", questions))


_PRESS_ESCAPE = "Press Escape"
_UNREADABLE = "Its choices cannot be read here: open its terminal and answer with keys."


def _dialog_question(dialog: Dialog, agent_type: str) -> Question:
    details = {"agent": agent_type, "screen": dialog.text}
    reason = f"{agent_type} asks this in its terminal"
    if not dialog.choices:
        text = f"{agent_type} waits for a key. {_UNREADABLE}\n{dialog.text}"
        return Question(text, "choice", (_PRESS_ESCAPE,), details=details, reason=reason)
    return Question(
        dialog.text or f"{agent_type} asks", "choice", dialog.labels, details=details, reason=reason
    )


def _permission_question(request: PermissionRequest, call: Call, agent_type: str) -> Question:
    details = {
        "tool": call.name,
        "arguments": call.arguments,
        **change_details(request.call.changes or call.changes),
        "options": [msgspec.structs.asdict(option) for option in request.options],
    }
    text = f"May {agent_type} do this? {call.title or call.name}"
    return Question(text, "choice", tuple(_by_name(request.options)), details=details, reason=request.reason)


def _choice_question(request: ChoiceRequest, call: Call) -> Question:
    details = {"tool": call.name}
    if not request.several:
        return Question(request.text, "choice", request.choices, details=details, reason=request.reason)
    form = {
        "type": "array",
        "items": {"type": "string", "enum": list(request.choices)},
        "minItems": 1,
        "uniqueItems": True,
    }
    return Question(request.text, "form", form=form, details=details, reason=request.reason)


def _choice_of(question: _Open, answer: requests.Answer) -> Any:
    """What the driver gets. A permitted call starts."""
    request, call = question.request, question.call
    if isinstance(request, ChoiceRequest):
        call.refused = answer.declined
        if answer.declined:
            return ()
        return tuple(answer.answer) if request.several else (answer.answer,)
    option = _refusal(request.options) if answer.declined else _by_name(request.options)[answer.answer]
    call.refused = option is None or not option.allows
    if not call.refused:
        question.turn.start(request.call, allowed_by="user")
    return option.id if option else None


def _by_name(options: tuple[Option, ...]) -> dict[str, Option]:
    by_name: dict[str, Option] = {}
    for option in options:
        name = " ".join(option.name.split())[:_LONGEST_ANSWER] or option.id
        by_name[f"{name} ({option.id})" if name in by_name else name] = option
    return by_name


def _refusal(options: tuple[Option, ...]) -> Option | None:
    """The option for a declined question: the one that refuses least."""
    refusals = [option for option in options if not option.allows]
    return min(refusals, key=lambda option: option.kind != "reject_once", default=None)


_QUESTION_EVENTS = ("question_asked", "question_answered")


class ForwardedQuestions:
    """Forwards a child's questions to the front end of the parent run; any other can answer in the child.

    - The first answer wins. If there is no one to ask, the question is declined; a dialog on its screen stays
      open then, and the model gets the screen.
    - While a question is open, the agent's time limit is paused.
    """

    def __init__(self, child: str, context: CallContext) -> None:
        self.stopwatch = Stopwatch()
        self._child = child
        self._context = context
        self._open: dict[str, asyncio.Task[None]] = {}

    def see(self, batch: Sequence[Fact | Event]) -> None:
        for item in batch:
            if not isinstance(item, Fact) or item.type not in _QUESTION_EVENTS:
                continue
            match item.event:
                case QuestionAsked() as asked:
                    self.forward(asked)
                case QuestionAnswered(id=question) if task := self._open.pop(question, None):
                    task.cancel()
                    self.stopwatch.resume()

    def forward(self, asked: QuestionAsked) -> None:
        is_dialog = not asked.call
        if not (is_dialog and self._context.harness.asker is None):
            self.stopwatch.pause()
            self._open[asked.id] = asyncio.ensure_future(self._forward(asked))

    def close(self) -> None:
        for task in self._open.values():
            task.cancel()

    async def _forward(self, asked: QuestionAsked) -> None:
        harness = self._context.harness
        answer, declined = None, True
        if harness.asker is not None:
            with suppress(Exception):  # without an answer nothing is allowed
                answer, declined = await harness.asker(asked), False
        elif harness.wait_for_answers:
            return
        request = Answer(
            id=f"passed-on-{asked.id}", by="its parent", question=asked.id, answer=answer, declined=declined
        )
        with suppress(StoreError):  # the call ends then, and the agent with it
            await self._context.journal.store.submit(self._child, request)
