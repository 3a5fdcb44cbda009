"""Driving a session here: what happens is printed, signals end it, and its end is the exit code."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable
from datetime import datetime

from ostler.faces.cli.exit_codes import TERMINATED, exit_code
from ostler.faces.cli.saying import say
from ostler.kernel.harness import Harness
from ostler.kernel.store import Store
from ostler.runs.other_agents import require_own_agent
from ostler.runs.run_tree import OpenQuestion, open_questions, state_of
from ostler.runs.session import Session, open_session
from ostler.vocabulary import events
from ostler.vocabulary.errors import SessionHeld, UsageError
from ostler.vocabulary.events import RunEnded, RunWaiting
from ostler.vocabulary.facts import Fact

NOTHING_TO_GO_ON_WITH = "there is nothing to go on with: say what to do after -p"

Rest = RunEnded | RunWaiting
Work = Callable[[Session], AsyncIterator[Rest]]
"""Drives one run after the other, and says where each came to rest."""


def collect_garbage_from_here() -> None:
    """Nothing made so far is garbage: collecting is put off until here, and then leaves all of it alone."""
    gc.freeze()
    gc.enable()


async def opened(store: Store, session: str, harness: Harness) -> Session:
    """The session, unless it is not ours, or somebody else holds it: the error says what can be done."""
    require_own_agent(session, (await store.summary(session)).driver)
    try:
        return await open_session(store, session, harness)
    except SessionHeld:
        await require_free(store, session)
        raise


async def require_free(store: Store, session: str) -> None:
    """Raises when another process is at work there."""
    holder, run = await store.holder(session), (await state_of(store, session)).run
    if holder is None or run is None:
        return
    since = datetime.fromtimestamp(run.time_ms / 1000).isoformat(" ", "seconds")
    raise SessionHeld(
        f"session {session} is held by process {holder.pid} on {holder.host}, at work since {since}: "
        f"`ostler follow {session}` shows what it does, `ostler steer {session} TEXT` speaks to it, "
        f"`ostler cancel {session}` ends it"
    )


def keep_model(options: argparse.Namespace, session: Session) -> None:
    """A session keeps the model that it was given, unless it was with the address of another server."""
    kept = session.state.settings.model
    if options.model is None and kept:
        session.harness.set_model(kept)
    elif options.model and not options.base_url and kept != session.harness.model.name:
        session.journal.record(events.SettingsChanged(model=session.harness.model.name, by="cli"))


async def drive(session: Session, work: Work, *, as_lines: bool) -> int:
    """Does the work, prints what comes of it, and gives the session back. Returns the exit code."""
    if as_lines:
        return await _drive_to_lines(session, work)
    from ostler.faces.cli.plain_output import PlainOutput

    output = PlainOutput()
    session.observe(output.see)
    _on_signals(session.cancel)
    quiet: Rest | None = None
    async for quiet in work(session):
        output.finish(quiet, session.id, await _questions(session, quiet))
        await session.rest()
    await session.rest()
    await _say_held(session)
    await session.close()
    await _tidy(session)
    return _code(quiet, session)


async def _drive_to_lines(session: Session, work: Work) -> int:
    from ostler.faces.cli.json_output import JsonOutput
    from ostler.faces.cli.plain_output import Notices

    def end(reason: str) -> None:
        output.hurry()
        session.cancel(reason)

    output = JsonOutput(session)
    notices = Notices()
    if session.state.run is not None:
        output.see(await _facts_of_run(session, session.state.run.id))
    session.observe(output.see)
    session.observe(notices.see)
    _on_signals(end)
    try:
        quiet = await _last(session, work)
    except Exception:
        await output.finish()  # what happened before is promised to the reader, whole lines of it
        raise
    questions = await _questions(session, quiet)
    await session.close()
    code = _code(quiet, session)
    read_to_its_end = await output.finish()
    if quiet is not None:
        notices.say_end(quiet, session.id, questions)
    await _say_held(session)
    await _tidy(session)
    if read_to_its_end:
        return code
    say("the output was not read to its end, and is not waited for any longer")
    return code or exit_code(RunEnded("cancelled", TERMINATED))


async def _last(session: Session, work: Work) -> Rest | None:
    last = None
    async for quiet in work(session):
        last = quiet
        await session.rest()
    await session.rest()
    return last


async def _questions(session: Session, quiet: Rest | None) -> list[OpenQuestion]:
    if not isinstance(quiet, RunWaiting):
        return []
    return await open_questions(session.journal.store, session.state)


async def _say_held(session: Session) -> None:
    if session.state.held:
        from ostler.faces.cli.held_prompts import say_held

        await say_held(session.journal.store, session.state)


def _code(quiet: Rest | None, session: Session) -> int:
    if quiet is None:
        return 0
    if isinstance(quiet, RunEnded) and quiet.status == "completed" and session.harness.answer_schema:
        from ostler.faces.cli.answer_schema import unfit

        if problem := unfit(session):
            say(problem)
            return 1
    return exit_code(quiet)


async def _tidy(session: Session) -> None:
    """Nothing more is read. The store is not closed: that would cost the next start a file of its own."""
    await session.journal.store.tidy()


async def _facts_of_run(session: Session, run: str) -> list[Fact]:
    """What an open run has so far: whoever reads the lines gets all of it, from its beginning."""
    return [fact for fact in await session.journal.store.read(session.id) if fact.run == run]


def _on_signals(end: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    for number, reason in (
        (signal.SIGINT, "cancelled"),
        (signal.SIGTERM, TERMINATED),
        (signal.SIGHUP, TERMINATED),
    ):
        loop.add_signal_handler(number, end, reason)


# --- what a session is driven to do -----------------------------------------------------------------


async def go_on(session: Session) -> AsyncIterator[Rest]:
    """Without a prompt: an open run goes on from its last fact, one that failed from its messages.

    Prompts that wait in the inbox come after it.
    """
    first = await _first(session)
    yield first
    async for quiet in run_queue(session, first):
        yield quiet


async def _first(session: Session) -> Rest:
    state = session.state
    if state.run is None and state.last_status not in (None, "completed"):
        return await session.continue_()
    is_paused = state.run is not None and state.run.waiting and state.run.waiting.reason == "paused"
    quiet = await (session.resume() if is_paused else session.advance())
    if quiet is None:
        raise UsageError(NOTHING_TO_GO_ON_WITH)
    return quiet


async def run_queue(session: Session, quiet: Rest | None = None) -> AsyncIterator[Rest]:
    """Runs the prompts that wait in the inbox, as long as each completes."""
    while quiet is None or (isinstance(quiet, RunEnded) and quiet.status == "completed"):
        quiet = await session.advance()
        if quiet is None:
            return
        yield quiet


async def permit(session: Session) -> Rest | None:
    """Says yes to everything that the run and its children want to be permitted, and drives the run on."""
    from ostler.runs.tree_answers import answer_in_tree

    store = session.journal.store
    quiet = None
    answered: set[str] = set()
    while asked := [
        one
        for one in await open_questions(store, session.state)
        if one.asked.question.kind == "permission" and one.asked.id not in answered
    ]:
        answered.add(asked[0].asked.id)
        quiet = await answer_in_tree(session, asked[0], "yes", by="cli")
    return quiet
