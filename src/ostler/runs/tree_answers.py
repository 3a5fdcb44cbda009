"""Answering what a run asked, or one of its children, from where the run is driven."""

from __future__ import annotations

from typing import Any

from ostler.runs.asking import ask
from ostler.runs.inbox import SECRET_NEEDS_ITS_CALL
from ostler.runs.run_tree import OpenQuestion
from ostler.runs.session import Quiet, Session
from ostler.vocabulary.errors import UsageError
from ostler.vocabulary.requests import Answer


async def answer_in_tree(
    session: Session, one: OpenQuestion, answer: Any = None, *, declined: bool = False, by: str = ""
) -> Quiet:
    """Answers a question of the session's run, or of a child below it, and drives both on."""
    if one.session == session.id:
        return await session.answer(one.asked.id, answer, declined=declined)
    if one.asked.question.secret and not declined:
        raise UsageError(SECRET_NEEDS_ITS_CALL)
    world = session.journal.world
    request = Answer(id=world.new_id("req"), by=by, question=one.asked.id, answer=answer, declined=declined)
    await ask(session.journal.store, one.session, request, world, attend=session.harness.attend)
    return await session.advance()
