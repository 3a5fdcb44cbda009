"""Which session a command works on: choose one, open it, and the model stored with it."""

from __future__ import annotations

import argparse
import gc
from datetime import datetime
from pathlib import Path

from ostler.app.settings import Settings
from ostler.app.stores import find_session, newest_session, open_store
from ostler.core.harness import Harness
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.schema import events
from ostler.schema.errors import SessionHeld, UsageError
from ostler.sessions.run_tree import load_state
from ostler.sessions.session import Session, open_session, require_own_agent
from ostler.store.paths import store_file


def enable_gc() -> None:
    """Nothing made so far is garbage: collecting is put off until here, and then leaves all of it alone."""
    gc.freeze()
    gc.enable()


async def open_for_run(store: Store, session: str, harness: Harness) -> Session:
    """The session, unless it is not ours, or somebody else holds it: the error says what can be done."""
    require_own_agent(session, (await store.summary(session)).driver)
    try:
        return await open_session(store, session, harness)
    except SessionHeld:
        await require_free(store, session)
        raise


async def require_free(store: Store, session: str) -> None:
    """Raises when another process is at work there."""
    holder, run = await store.holder(session), (await load_state(store, session)).run
    if holder is None or run is None:
        return
    since = datetime.fromtimestamp(run.time_ms / 1000).isoformat(" ", "seconds")
    raise SessionHeld(
        f"session {session} is held by process {holder.pid} on {holder.host}, at work since {since}: "
        f"`ostler follow {session}` shows what it does, `ostler steer {session} TEXT` speaks to it, "
        f"`ostler cancel {session}` ends it"
    )


def store_model(options: argparse.Namespace, session: Session) -> None:
    """A session keeps the model that it was given, unless it was with the address of another server."""
    kept = session.state.settings.model
    if options.model is None and kept:
        session.harness.set_model(kept)
    elif options.model and not options.base_url and kept != session.harness.model.name:
        session.journal.record(events.SettingsChanged(model=session.harness.model.name, by="cli"))


async def stored_model(options: argparse.Namespace, settings: Settings, cwd: Path) -> str:
    """The model that the session to go on with was given, if it was given one. It must be one of ours."""
    if not store_file().exists():
        return ""
    store = open_store(settings)
    try:
        if options.session is not None:
            session = await find_session(store, options.session)
        else:
            session = await newest_session(store, cwd)
        if not session:
            return ""
        require_own_agent(session, (await store.summary(session)).driver)
        # Nothing else is folded: the session is opened right after this, and may be long.
        facts = await store.read_opening(session)
        return fold([fact for fact in facts if fact.type == "settings_changed"]).settings.model
    finally:
        await store.close()


def check_combination(options: argparse.Namespace) -> None:
    chosen = [
        flag
        for flag, given in (
            ("--session", options.session is not None),
            ("--continue", options.continue_),
            ("--no-session", options.no_session),
        )
        if given
    ]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} exclude each other")
