"""Submits a request of the API to its session, and finds the fact that settles it.

Prompts are expanded before they go into the inbox, as the command line and the terminal do, so that any
process can run them and the log has what the model gets.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

import msgspec

from ostler.app.prompt_expansion import Expansion, expand_prompt, record_read_files
from ostler.core.harness import Harness, harness_without_model
from ostler.extensions.idle_host import active_host
from ostler.schema import requests
from ostler.schema.errors import UsageError
from ostler.schema.events import Printed, RequestRefused
from ostler.schema.facts import Fact, storage_problem
from ostler.schema.messages import Text
from ostler.schema.requests import AnyRequest, Prompt, RunCommand, Steer
from ostler.server.problems import Conflict, ServerBusy
from ostler.server.state import ServerState
from ostler.server.uploads import with_uploads
from ostler.sessions.run_tree import load_state

_COMMAND = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)


class ExpandedRequest(msgspec.Struct, frozen=True):
    """The request to submit, and its expansion."""

    request: AnyRequest
    expansion: Expansion | None = None


async def expand_request(server: ServerState, session: str, request: AnyRequest) -> ExpandedRequest:
    """Expands the first text of a prompt or a steer, which is what a person typed; other blocks are data.
    Leaves prompts for agents of other vendors unchanged.

    Raises `UsageError` for an unknown slash command.
    """
    unchanged = ExpandedRequest(request)
    if not isinstance(request, Prompt | Steer) or not request.content:
        return unchanged
    first, *attached = request.content
    if not isinstance(first, Text):
        return unchanged
    typed = first.text.strip()
    if not typed.startswith("/") and "@" not in typed:
        return unchanged
    if (await server.store.summary(session)).driver != "agent":
        return unchanged
    harness, names = await _harness_for(server, session, typed)
    command = _COMMAND.fullmatch(typed)
    if command and not attached and (host := active_host(harness)) and host.command_named(command[1]):
        arguments = (command[2] or "").strip()
        run = RunCommand(id=request.id, by=request.by, name=command[1], arguments=arguments)
        return ExpandedRequest(run)
    expansion = await asyncio.to_thread(expand_prompt, (typed,), harness, names)
    content = (*expansion.blocks, *attached)
    return ExpandedRequest(msgspec.structs.replace(request, content=content), expansion)


async def _harness_for(server: ServerState, session: str, typed: str) -> tuple[Harness, list[str]]:
    """The harness, and the commands of extensions. Mentions need only the folder, so none are loaded for
    them."""
    if not typed.startswith("/"):
        return harness_without_model((await server.store.summary(session)).cwd), []
    harness = await server.folders.of_session(session)
    host = active_host(harness)
    return harness, list(host.commands()) if host else []


def publish_notices(server: ServerState, session: str, sent: ExpandedRequest) -> None:
    """After a request is submitted: records the files as read, and shows the notices to subscribers."""
    if sent.expansion is None:
        return
    if (opened := server.supervisor.get(session)) is not None:
        record_read_files(opened.memory, sent.expansion)
    for stream in server.streams.streams():
        if stream.session == session and sent.expansion.notices:
            stream.publish([Printed(notice, "info") for notice in sent.expansion.notices])


PATIENCE = 10.0
"""Seconds that a secret is kept for the call that asked for it, and that a route waits for its fact."""

_STARTING = (requests.Prompt, requests.Continue)


async def submit(server: ServerState, session: str, request: AnyRequest) -> None:
    """Puts a request into the session's inbox, or raises if it cannot be carried out. Secrets are passed on
    directly.

    A new prompt releases the session if it is held and nothing else is queued.
    """
    driver = (await server.store.summary(session)).driver
    request = await with_uploads(server.uploads, request, driver)
    if problem := storage_problem(request):
        raise UsageError(f"the request cannot be stored: {problem}")
    if isinstance(request, requests.Answer) and await _is_secret(server, session, request):
        bare = msgspec.structs.replace(request, answer=None)
        await server.supervisor.answer_secret(session, bare, request.answer, PATIENCE)
        return
    releases = isinstance(request, _STARTING) and await _is_held(server, session)
    is_new = await server.supervisor.submit(session, request)
    if releases and is_new:
        await server.supervisor.release(session)
    if server.agents.get(session) is None:
        await server.abandoned_requests.look_after(session)


async def _is_held(server: ServerState, session: str) -> bool:
    """Whether the last run did not complete, and no prompt is queued for a person to review."""
    state = await load_state(server.store, session)
    waiting = await server.store.pending(session) if state.held and state.run is None else None
    return waiting is not None and not any(isinstance(one, _STARTING) for one in waiting)


async def _is_secret(server: ServerState, session: str, request: requests.Answer) -> bool:
    asked = (await load_state(server.store, session)).questions.get(request.question)
    return asked is not None and asked.question.secret and not request.declined


async def fact_of(server: ServerState, session: str, request: str, wait: float) -> Fact | None:
    """The fact that settles a request, if it comes within `wait` seconds and before the server ends."""
    seq = None
    with suppress(TimeoutError):
        async with server.deadlines.of(None):
            seq = await server.supervisor.until_settled(session, request, wait)
    return None if seq is None else (await server.store.read(session, seq - 1, 1))[0]


async def wait_for_settlement(server: ServerState, session: str, request: AnyRequest) -> Fact | None:
    """Submits a request and waits for its fact; None if the holder has not handled it yet.

    Raises `Conflict` with the reason if it was refused.
    """
    await submit(server, session, request)
    fact = await fact_of(server, session, request.id, PATIENCE)
    if fact is not None and isinstance(fact.event, RequestRefused):
        raise Conflict(fact.event.reason)
    return fact


async def require_settlement(server: ServerState, session: str, request: AnyRequest) -> Fact:
    """As `wait_for_settlement`, but raises `ServerBusy` instead of returning None."""
    fact = await wait_for_settlement(server, session, request)
    if fact is None:
        problem = "the process that holds the session has not handled the request yet"
        raise ServerBusy(f"{problem}: {request.id} is in its inbox")
    return fact
