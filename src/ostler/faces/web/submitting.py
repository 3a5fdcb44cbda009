"""How a request gets from the wire into its session, and what became of it."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from ostler.faces.web.problems import Conflict
from ostler.faces.web.server import Server
from ostler.faces.web.upload_blocks import with_uploads
from ostler.runs.run_tree import state_of
from ostler.vocabulary import requests
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.events import RequestRefused
from ostler.vocabulary.facts import Fact, storing_problem
from ostler.vocabulary.requests import AnyRequest

PATIENCE = 10.0
"""Seconds that a secret is kept for the call which asked for it, and that a route waits for its fact."""

_STARTING = (requests.Prompt, requests.Continue)


async def submit(server: Server, session: str, request: AnyRequest) -> None:
    """Raises for what cannot be carried out: then nothing of it is in the inbox. A secret never is.

    What is held waits for a person; whoever asks for something new, with nothing before it, is that person.
    """
    driver = (await server.store.summary(session)).driver
    request = await with_uploads(server.uploads, request, driver)
    if problem := storing_problem(request):
        raise UsageError(f"that request cannot be stored: {problem}")
    if isinstance(request, requests.Answer) and await _is_secret(server, session, request):
        bare = msgspec.structs.replace(request, answer=None)
        await server.supervisor.answer_secret(session, bare, request.answer, PATIENCE)
        return
    releases = isinstance(request, _STARTING) and await _is_held(server, session)
    is_new = await server.supervisor.submit(session, request)
    if releases and is_new:
        await server.supervisor.release(session)
    if server.driven.get(session) is None:
        await server.left_behind.look_after(session)


async def _is_held(server: Server, session: str) -> bool:
    """Because its last run did not complete; and no prompt waits for somebody to look at it."""
    state = await state_of(server.store, session)
    waiting = await server.store.pending(session) if state.held and state.run is None else None
    return waiting is not None and not any(isinstance(one, _STARTING) for one in waiting)


async def _is_secret(server: Server, session: str, request: requests.Answer) -> bool:
    asked = (await state_of(server.store, session)).questions.get(request.question)
    return asked is not None and asked.question.secret and not request.declined


async def fact_of(server: Server, session: str, request: str, wait: float) -> Fact | None:
    """The fact that settled a request, waited for so many seconds, or until the server ends."""
    seq = None
    with suppress(TimeoutError):
        async with server.patience.of(None):
            seq = await server.supervisor.until_settled(session, request, wait)
    return None if seq is None else (await server.store.read(session, seq - 1, 1))[0]


async def settled(server: Server, session: str, request: AnyRequest) -> Fact | None:
    """Asks, and waits for the fact; None when whoever holds the session has not got to it yet.

    Raises `Conflict` with the reason when it was refused.
    """
    await submit(server, session, request)
    fact = await fact_of(server, session, request.id, PATIENCE)
    if fact is not None and isinstance(fact.event, RequestRefused):
        raise Conflict(fact.event.reason)
    return fact
