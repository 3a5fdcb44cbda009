"""What an agent asks while it works for a call: put to the people of the run that the call belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from ostler.kernel.call_context import CallContext
from ostler.kernel.stopping import Stopwatch
from ostler.vocabulary.errors import StoreError
from ostler.vocabulary.events import Event, QuestionAnswered, QuestionAsked
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.requests import Answer

_TELLING = ("question_asked", "question_answered")


class PassedOnQuestions:
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
