"""What people are asked."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.runs.run_list import OPEN
from ostler.runs.run_tree import OpenQuestion, open_questions, state_of
from ostler.vocabulary.errors import NotFound

question_operations = Operations("questions")


class OpenQuestions(msgspec.Struct, frozen=True):
    questions: list[OpenQuestion]


@question_operations.add("GET", "/sessions/{session}/questions")
async def list_questions_of_session(server: Server, session: str) -> OpenQuestions:
    """What a session and its children ask now

    It is answered with the request `answer`, in the session that the question names."""
    return OpenQuestions(await open_questions(server.store, await state_of(server.store, session)))


@question_operations.add("GET", "/questions")
async def list_questions(server: Server) -> OpenQuestions:
    """What is asked now in all sessions, whoever drives them"""
    found: dict[tuple[str, str], OpenQuestion] = {}
    for summary in await server.store.sessions():
        if summary.child_of or (summary.status not in OPEN and server.supervisor.driven(summary.id) is None):
            continue
        with suppress(NotFound):  # deleted meanwhile
            for one in await open_questions(server.store, await state_of(server.store, summary.id)):
                found[one.session, one.asked.id] = one
    return OpenQuestions(list(found.values()))
