"""A run and its children, looked at from outside: who waits for whom, and what people are asked."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from ostler.kernel.state import SessionState, fold
from ostler.kernel.store import Store
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.events import QuestionAsked
from ostler.vocabulary.requests import Answer, Cancel, FinishCall, Resume

_MOVING = (Answer, Cancel, FinishCall, Resume)


class OpenQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question that somebody can answer now, and where it was asked."""

    session: str
    asked: QuestionAsked
    agent: str = ""
    """The child that asks; empty when it is the run itself."""


async def state_of(store: Store, session: str) -> SessionState:
    return fold(await store.read_opening(session))


async def open_questions(store: Store, state: SessionState, agent: str = "") -> list[OpenQuestion]:
    """Those of the session's run, and of the children that it works with.

    What code asked that has ended with its process can no longer be answered.
    """
    asked_here = list(state.questions.values())
    if not all(asked.durable for asked in asked_here) and await store.holder(state.id) is None:
        asked_here = [asked for asked in asked_here if asked.durable]
    questions = [OpenQuestion(state.id, asked, agent) for asked in asked_here]
    for child in await children_of(store, state):
        name = child.run.started.agent if child.run else ""
        questions += await open_questions(store, child, name or "subagent")
    return questions


async def children_of(store: Store, state: SessionState) -> list[SessionState]:
    """The children of the open run whose end it does not know yet."""
    found = []
    for child in state.run.open_children() if state.run else ():
        with suppress(NotFound):  # the process ended before the child began
            found.append(await state_of(store, child))
    return found


async def family_of(store: Store, state: SessionState) -> list[str]:
    """The session, those of the children that its open run works with, and so on below."""
    found = [state.id]
    for child in await children_of(store, state):
        found += await family_of(store, child)
    return found


async def next_arrival(store: Store, state: SessionState, seen: dict[str, int]) -> None:
    """Returns when something has come for the session or its family since what `seen` knows, and notes it."""
    family = await family_of(store, state)
    waits = {one: asyncio.ensure_future(store.arrivals(one, seen.get(one, -1))) for one in family}
    try:
        await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
        seen.update({one: wait.result() for one, wait in waits.items() if wait.done()})
    finally:
        for wait in waits.values():
            wait.cancel()


async def is_stuck(store: Store, state: SessionState) -> bool:
    """Whether the open run waits, and nothing that it waits for has come."""
    if state.run is None or state.run.waiting is None:
        return False
    if any(isinstance(request, _MOVING) for request in await store.pending(state.id)):
        return False  # whoever asked for it could not take it up himself
    if state.run.waiting.reason == "paused":
        return True
    children = await children_of(store, state)
    if len(children) < len(state.run.open_children()):
        return False  # the session of one was deleted: it begins anew
    return all([await is_stuck(store, child) for child in children])


async def facts_in(store: Store, state: SessionState) -> int:
    """How many facts the open run's session and its children's have: the number grows when one moves."""
    return state.last_seq + sum([await facts_in(store, child) for child in await children_of(store, state)])


async def root_of(store: Store, state: SessionState) -> SessionState:
    """The session where the tree of open runs begins: whoever drives that one drives all below it."""
    while state.child_of:
        try:
            parent = await state_of(store, state.child_of)
        except NotFound:
            break
        if parent.run is None or state.id not in parent.run.open_children():
            break
        state = parent
    return state
