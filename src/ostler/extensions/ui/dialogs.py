"""Dialogs: an extension's question to the user is a question of the session; any front end can answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.core.questions import answer_problem, run_of, withdraw_question
from ostler.extensions.executor import untimed
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
        """Asks for one of the options."""
        choices = _options(options)
        answer = await self._ask(Question(message, "choice", choices), SelectDialog())
        return SelectResult(cancelled=True) if answer is None else SelectResult(answer, choices.index(answer))

    async def confirm(self, message: str, *, default: bool = False) -> ConfirmResult:
        """Asks for yes or no; `default` is preselected."""
        answer = await self._ask(Question(message, "choice", (YES, NO)), ConfirmDialog(default))
        return ConfirmResult(cancelled=True) if answer is None else ConfirmResult(answer == YES)

    async def input(
        self, message: str, *, placeholder: str = "", default: str = "", secret: bool = False
    ) -> InputResult:
        """Asks for a text. A secret one is masked and never logged."""
        question = Question(message, "text", secret=secret)
        answer = await self._ask(question, InputDialog(placeholder, default))
        return InputResult(cancelled=True) if answer is None else InputResult(answer)

    async def multi_select(
        self, message: str, options: Sequence[str], *, selected: Sequence[int] | None = None
    ) -> MultiSelectResult:
        """Asks for some of the options. `selected` are preselected, by default all. If nobody can be asked,
        those are the answer."""
        choices = _options(options)
        indices = [index for index in range(len(choices)) if selected is None or index in selected]
        if self._can_ask:
            form = {"type": "array", "items": {"enum": list(dict.fromkeys(choices))}, "uniqueItems": True}
            dialog = MultiSelectDialog(choices, tuple(indices))
            answer = await self._ask(Question(message, "form", form=form), dialog)
            if answer is None:
                return MultiSelectResult(cancelled=True)
            indices = sorted({choices.index(one) for one in answer})
        return MultiSelectResult(tuple(choices[index] for index in indices), tuple(indices))

    async def overlay(self, overlay: Overlay) -> OverlayResult:
        """Displays a modal window until it is closed."""
        content, extension = as_content(overlay.content), self._context.extension
        renderer = self._context.extension_session.renderer
        name = f"overlay:{extension.name}/{self._context.journal.world.new_id('overlay')}"
        dialog = OverlayDialog(
            title=overlay.title,
            text=content.text,
            markdown=content.markdown,
            render=content.render and renderer.keep(name, extension, content.render, content.hz),
            style=overlay.style,
            width=overlay.width,
            max_height=overlay.max_height,
            anchor=overlay.anchor,
            actions=tuple(overlay.actions),
        )
        text = "\n".join(filter(None, (overlay.title, content.text or content.markdown)))
        question = Question(text or extension.name, "choice", dialog.actions or (CLOSE,))
        try:
            answer = await self._ask(question, dialog)
        finally:
            renderer.drop(name)
        if answer is None:
            return OverlayResult(cancelled=True)
        return OverlayResult(answer, dialog.actions.index(answer)) if dialog.actions else OverlayResult()

    @property
    def is_asking(self) -> bool:
        return bool(self._open)

    async def withdraw(self) -> None:
        """Cancels all open dialogs, so that their callers continue."""
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
        # A task of its own, so that `withdraw` can wait for it.
        task = self._open[asked.id] = asyncio.ensure_future(self._answer(asked))
        try:
            answer = await task
        finally:
            del self._open[asked.id]
        return _normalize(asked.question, answer.answer) if answer.outcome == "answered" else None

    async def _answer(self, asked: QuestionAsked) -> QuestionAnswered:
        session, journal = self._context.session, self._context.journal
        if not session.is_running:
            await hold_lease(journal)
        journal.record(asked, run=run_of(asked))
        session.questions.expect(asked)
        reading = asyncio.ensure_future(self._read_answers(asked.id))
        try:
            with untimed():
                async with renew_lease(journal):
                    await journal.commit()
                    return await session.questions.ask(asked, self._put, journal)
        finally:
            reading.cancel()
            withdraw_question(journal, asked)
            await self._context.extension_session.commit()

    async def _put(self, asked: QuestionAsked) -> Any:
        """Asks the front end in this process, if there is one."""
        asker = self._context.session.harness.asker
        if asker is None:
            return await asyncio.get_running_loop().create_future()  # another process answers
        answer = _normalize(asked.question, await asker(asked))
        if answer is None:
            raise CallRefused("nothing was chosen")
        return answer

    async def _read_answers(self, question: str) -> None:
        """Reads the inbox between two runs, when nothing else does."""
        session, journal = self._context.session, self._context.journal
        last = -1
        try:
            while True:
                last = await journal.store.arrivals(session.id, last)
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
    """The answer as it is stored; None if it does not fit, since an asker may return anything."""
    if question.kind == "text":
        return answer if isinstance(answer, str) else None
    if isinstance(answer, tuple):
        answer = list(answer)
    elif isinstance(answer, bool):
        answer = YES if answer else NO
    return None if answer_problem(question, answer) else answer
