"""Dialogs: an extension's question to the user is a question of the session; any front end can answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.cancellation import running_stopwatch
from ostler.core.questions import answer_problem, run_of, withdraw_question
from ostler.extensions.ui.types import (
    ConfirmDialog,
    ConfirmResult,
    Dialog,
    InputDialog,
    InputResult,
    MultiSelectDialog,
    MultiSelectResult,
    Overlay,
    OverlayDialog,
    OverlayResult,
    SelectDialog,
    SelectResult,
    as_content,
    as_data,
)
from ostler.schema.errors import CallRefused, StoreError, UsageError
from ostler.schema.events import QuestionAnswered, QuestionAsked
from ostler.schema.facts import storage_problem
from ostler.schema.outcomes import Question
from ostler.schema.requests import Answer
from ostler.sessions.lease import hold_lease, renew_lease

if TYPE_CHECKING:
    from ostler.extensions.extension_context import ExtensionContext

YES, NO = "yes", "no"
CLOSE = "close"


class Dialogs:
    """The dialogs of one extension in one session. The first answer wins, from this process or another.

    - Several may be open at once.
    - If nobody can answer, the result is `cancelled`, unless the run is set to wait for answers.
    - If the extension is removed, or the code that asked is cancelled, the question is withdrawn.
    """

    def __init__(self, context: ExtensionContext) -> None:
        self._context = context
        self._open: dict[str, asyncio.Task[Any]] = {}

    async def select(self, message: str, options: Sequence[str]) -> SelectResult:
        choices = _options(options)
        answer = await self._ask(Question(message, "choice", choices), SelectDialog())
        return SelectResult(cancelled=True) if answer is None else SelectResult(answer, choices.index(answer))

    async def confirm(self, message: str, *, default: bool = False) -> ConfirmResult:
        answer = await self._ask(Question(message, "choice", (YES, NO)), ConfirmDialog(default))
        return ConfirmResult(cancelled=True) if answer is None else ConfirmResult(answer == YES)

    async def input(
        self, message: str, *, placeholder: str = "", default: str = "", secret: bool = False
    ) -> InputResult:
        question = Question(message, "text", secret=secret)
        answer = await self._ask(question, InputDialog(placeholder, default))
        return InputResult(cancelled=True) if answer is None else InputResult(answer)

    async def multi_select(
        self, message: str, options: Sequence[str], *, selected: Sequence[int] | None = None
    ) -> MultiSelectResult:
        choices = _options(options)
        there = range(len(choices))
        marked = there if selected is None else [one for one in there if one in selected]
        if not self._can_ask:
            return MultiSelectResult(tuple(choices[one] for one in marked), tuple(marked))
        form = {"type": "array", "items": {"enum": list(dict.fromkeys(choices))}, "uniqueItems": True}
        answer = await self._ask(
            Question(message, "form", form=form), MultiSelectDialog(choices, tuple(marked))
        )
        if answer is None:
            return MultiSelectResult(cancelled=True)
        indices = sorted({choices.index(one) for one in answer})
        return MultiSelectResult(tuple(choices[one] for one in indices), tuple(indices))

    async def overlay(self, overlay: Overlay) -> OverlayResult:
        content = as_content(overlay.content)
        painter = self._context.extension_session.painter
        name = f"overlay:{self._context.extension.name}/{self._context.journal.world.new_id('overlay')}"
        dialog = OverlayDialog(
            title=overlay.title,
            text=content.text,
            markdown=content.markdown,
            render=painter.keep(name, self._context.extension, content.render, content.hz)
            if content.render
            else None,
            style=overlay.style,
            width=overlay.width,
            max_height=overlay.max_height,
            anchor=overlay.anchor,
            actions=tuple(overlay.actions),
        )
        said = "\n".join(filter(None, (overlay.title, content.text or content.markdown)))
        question = Question(said or self._context.extension.name, "choice", dialog.actions or (CLOSE,))
        try:
            answer = await self._ask(question, dialog)
        finally:
            painter.drop(name)
        if answer is None:
            return OverlayResult(cancelled=True)
        return OverlayResult(answer, dialog.actions.index(answer)) if dialog.actions else OverlayResult()

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    async def withdraw(self) -> None:
        """Cancels all open dialogs."""
        questions = self._context.session.questions
        for question in tuple(self._open):
            if questions.expects(question):
                questions.deliver(QuestionAnswered(question, "withdrawn"))
        if self._open:
            await asyncio.wait({*self._open.values()}, timeout=1)

    @property
    def _can_ask(self) -> bool:
        harness = self._context.session.harness
        return harness.asker is not None or harness.wait_for_answers

    async def _ask(self, question: Question, dialog: Dialog) -> Any:
        """Asks; returns the answer, or None without one."""
        if not self._can_ask:
            return None
        if problem := storage_problem(dialog):
            raise UsageError(f"the question cannot be asked: {problem}")
        details = {**as_data(dialog), "extension": self._context.extension.name}
        asked = QuestionAsked(
            self._context.journal.world.new_id("q"),
            msgspec.structs.replace(question, details=details),
            asked_by="extension",
            durable=False,
        )
        if problem := storage_problem(asked):
            raise UsageError(f"the question cannot be asked: {problem}")
        # A task of its own: `withdraw` waits for it, whoever it was that asked.
        task = self._open[asked.id] = asyncio.ensure_future(self._answer(asked))
        try:
            answer = await task
        finally:
            del self._open[asked.id]
        return _normalize(asked.question, answer.answer) if answer.outcome == "answered" else None

    async def _answer(self, asked: QuestionAsked) -> QuestionAnswered:
        session, journal = self._context.session, self._context.journal
        watch = running_stopwatch.get()
        if not session.is_running:
            await hold_lease(journal)
        journal.record(asked, run=run_of(asked))
        session.questions.expect(asked)
        if watch:
            watch.pause()
        reading = asyncio.ensure_future(self._read_answers(asked.id))
        try:
            async with renew_lease(journal):
                await journal.commit()
                return await session.questions.ask(asked, self._put, journal)
        finally:
            reading.cancel()
            if watch:
                watch.go_on()
            withdraw_question(journal, asked)
            await self._context.extension_session.commit()

    async def _put(self, asked: QuestionAsked) -> Any:
        """Asks the front end in this process, if there is one."""
        asker = self._context.session.harness.asker
        if asker is None:
            return await asyncio.get_running_loop().create_future()  # somebody elsewhere answers
        answer = _normalize(asked.question, await asker(asked))
        if answer is None:
            raise CallRefused("nothing was chosen")
        return answer

    async def _read_answers(self, question: str) -> None:
        """Reads the inbox between two runs, when nothing else does."""
        session, journal = self._context.session, self._context.journal
        seen = -1
        try:
            while True:
                seen = await journal.store.arrivals(session.id, seen)
                for request in await journal.store.pending(session.id):
                    if isinstance(request, Answer) and request.question == question:
                        await session.handle(request)
        except StoreError as error:
            journal.fail(error)


def _options(options: Sequence[str]) -> tuple[str, ...]:
    if not options:
        raise UsageError("there is nothing to choose from")
    return tuple(options)


def _normalize(question: Question, answer: Any) -> Any:
    """The answer as the log has it; None if it does not fit. An asker may be somebody else's code."""
    if question.kind == "text":
        return answer if isinstance(answer, str) else None
    if isinstance(answer, tuple):
        answer = list(answer)
    elif isinstance(answer, bool):
        answer = YES if answer else NO
    return None if answer_problem(question, answer) else answer
