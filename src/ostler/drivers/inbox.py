"""The inbox of a driven session: prompts queue, every other request is done now or refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING

from ostler.core.cancellation import background_task
from ostler.core.harness import harness_without_model
from ostler.core.journal import Journal
from ostler.drivers.driver import ASKS_FIRST
from ostler.drivers.screen import ASCII_WHITESPACE
from ostler.schema import events, requests
from ostler.schema.errors import NotFound, StoreError, UsageError
from ostler.schema.messages import Text, text_of
from ostler.sessions.session import Session
from ostler.sessions.submit import submit_now

if TYPE_CHECKING:
    from ostler.drivers.session import AgentSession

_SESSION_REQUESTS = (requests.Rename, requests.Label, requests.ReleasePrompts, requests.TakeBack)


async def release_journal(journal: Journal) -> None:
    """Gives the lease back. Prompts wait for the agent's next process; other requests that came while it
    ended do not: they would stop, or answer, something else."""
    if not journal.failed:
        with suppress(StoreError):  # then the lease expires
            await journal.store.release(journal.lease)
    journal.close()
    if journal.failed:
        return
    with suppress(StoreError, NotFound):  # another process has opened the session, or deleted it
        for request in await journal.store.pending(journal.session):
            if isinstance(request, (*requests.NEEDS_LOG, *requests.NEEDS_RUN)):
                with suppress(UsageError):  # it was refused, and that is a fact
                    await submit_now(journal.store, journal.session, request, journal.world)


class AgentInbox:
    """Reads the requests of a session; calls `wake` when there is something to read."""

    def __init__(self, session: AgentSession, wake: Callable[[], None]) -> None:
        self._session = session
        self._journal = session.journal
        self._wake = wake
        self._has_new = False
        self._waiting: list[tuple[str, str]] = []
        self._seen: set[str] = set()

    @property
    def next_prompt(self) -> tuple[str, str] | None:
        """The text and the request of the next prompt."""
        return self._waiting[0] if self._waiting and not self._journal.state.held else None

    def drop(self, request: str) -> None:
        """Removes a prompt that is a fact now."""
        self._waiting = [one for one in self._waiting if one[1] != request]

    def watched(self) -> AbstractAsyncContextManager[None]:
        return background_task(self._watch())

    async def _watch(self) -> None:
        seen = -1
        try:
            while True:
                seen = await self._journal.store.arrivals(self._journal.session, seen)
                self._has_new = True
                self._wake()
        except StoreError as error:
            self._journal.fail(error)

    async def read(self) -> None:
        if not self._has_new:
            return
        self._has_new = False
        store, session = self._journal.store, self._journal.session
        for request in await store.pending(session):
            if request.id not in self._seen and not isinstance(request, requests.Prompt):
                self._seen.add(request.id)
                try:
                    await self._handle(request)
                except UsageError as error:
                    self._refuse(request, error.message)
        await self._journal.commit()
        known, self._waiting = {request for _, request in self._waiting}, []
        for request in await store.pending(session):
            if isinstance(request, requests.Prompt):
                self._queue(request, is_new=request.id not in known)
        await self._journal.commit()

    def _queue(self, prompt: requests.Prompt, *, is_new: bool) -> None:
        text = text_of(prompt.content).strip(ASCII_WHITESPACE)
        if not all(isinstance(block, Text) for block in prompt.content):
            self._refuse(prompt, "a terminal agent takes only text: name files by their path")
        elif not text:
            self._refuse(prompt, "message must not be empty")
        elif is_new and "asking" in (self._session.status, self._session.driver.status):
            self._refuse(prompt, ASKS_FIRST)
        else:
            self._waiting.append((text, prompt.id))

    async def _handle(self, request: requests.AnyRequest) -> None:
        session, journal = self._session, self._journal
        match request:
            case requests.Cancel(call="") if journal.state.run or session.status != "stable":
                self._interrupt(request)
            case requests.Keys():
                self._press(request)
            case requests.Resize():
                self._resize(request)
            case requests.TakeBack(request=wanted) if session.is_taken_up(wanted):
                self._refuse(request, f"the prompt {wanted} was taken up")
            case requests.Cancel():
                self._refuse(request, "no run is open")
            case requests.Answer():
                if not await session.questions.answer_dialog(request, session.driver):
                    await session.questions.answer(request)
            case _ if isinstance(request, _SESSION_REQUESTS):
                await Session(journal, harness_without_model(journal.state.cwd)).handle(request)
            case _:
                name = type(request).__struct_config__.tag
                self._refuse(request, f"a terminal agent cannot be asked to {str(name).replace('_', ' ')}")

    def _interrupt(self, request: requests.Cancel) -> None:
        is_first = self._session.interrupt(request.id)
        if self._journal.state.run is None:
            self._note(request, "terminal.interrupt")
        elif not is_first:
            self._refuse(request, "the run was interrupted before; the agent was interrupted again")

    def _press(self, request: requests.Keys) -> None:
        if request.kind == "text":
            self._session.paste(request.keys)
        else:
            self._session.press(request.keys.encode("utf-8", "replace"))
        self._note(request, "terminal.keys")

    def _resize(self, request: requests.Resize) -> None:
        self._session.resize(request.columns, request.rows)
        self._note(request, "terminal.resize", columns=request.columns, rows=request.rows)

    def _note(self, request: requests.AnyRequest, decision: str, **details: int) -> None:
        """Records that it was done; never the keys."""
        who = {"actor": "user", "who": request.by, **details}
        self._journal.record(events.Audited(decision, "a request asked for it", who), settles=request.id)

    def _refuse(self, request: requests.AnyRequest, reason: str) -> None:
        self._journal.record(events.RequestRefused(request.id, reason), settles=request.id)
