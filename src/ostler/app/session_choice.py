"""Chooses the session that a command works on, opens it, and submits requests to it."""

from __future__ import annotations

import gc
from datetime import datetime
from pathlib import Path

from ostler.app.console import print_stderr
from ostler.app.options import RunOptions
from ostler.app.settings import Settings, load_settings
from ostler.app.stores import find_session, newest_session, opened_store
from ostler.core.harness import Harness
from ostler.core.journal import Journal, World
from ostler.core.lazy import lazy_module
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.schema import events
from ostler.schema.errors import SessionHeld, UsageError
from ostler.schema.requests import AnyRequest
from ostler.sessions.session import Session, open_session, require_own_agent
from ostler.store.paths import store_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.history import audit
    from ostler.sessions import run_tree, submit
    from ostler.sessions.submit import MakeHarness
else:
    audit = lazy_module("ostler.history.audit")
    run_tree = lazy_module("ostler.sessions.run_tree")
    submit = lazy_module("ostler.sessions.submit")


def enable_gc() -> None:
    """Turns garbage collection on, which start-up does without; it ignores everything created so far."""
    gc.freeze()
    gc.enable()


def check_combination(options: RunOptions) -> None:
    flags = {
        "--session": options.session is not None,
        "--continue": options.continue_,
        "--no-session": options.no_session,
    }
    chosen = [flag for flag, is_given in flags.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} cannot be combined")


async def open_for_run(store: Store, session: str, harness: Harness) -> Session:
    """Opens the session. The error says what to do if it is another vendor's or another process holds it."""
    require_own_agent(session, (await store.summary(session)).driver)
    try:
        return await open_session(store, session, harness)
    except SessionHeld:
        await require_free(store, session)
        raise


async def require_free(store: Store, session: str) -> None:
    """Raises `SessionHeld` if another process is running the session."""
    holder, run = await store.holder(session), (await run_tree.load_state(store, session)).run
    if holder is None or run is None:
        return
    since = datetime.fromtimestamp(run.time_ms / 1000).isoformat(" ", "seconds")
    raise SessionHeld(
        f"session {session} is held by process {holder.pid} on {holder.host}, running since {since}: "
        f"`ostler follow {session}` shows what it does, `ostler steer {session} TEXT` sends it a message, "
        f"`ostler cancel {session}` ends it"
    )


def store_model(options: RunOptions, session: Session) -> None:
    """Stores the model named on the command line with the session, unless it came with a --base-url; without
    one, uses the stored model."""
    stored = session.state.settings.model
    if options.model is None and stored:
        session.harness.set_model(stored)
    elif options.model and not options.base_url and stored != session.harness.model.name:
        session.journal.record(events.SettingsChanged(model=session.harness.model.name, by="cli"))


async def stored_model(options: RunOptions, settings: Settings, cwd: Path) -> str:
    """The model stored with the session to continue, or an empty string."""
    if not store_file().exists():
        return ""
    async with opened_store(settings) as store:
        if options.session is not None:
            session = await find_session(store, options.session)
        else:
            session = await newest_session(store, cwd)
        if not session:
            return ""
        require_own_agent(session, (await store.summary(session)).driver)
        # Only these facts are folded: the session may be long, and is opened right after this.
        facts = await store.read_opening(session)
        return fold([fact for fact in facts if fact.type == "settings_changed"]).settings.model


def new_request_id() -> str:
    return World().new_id("req")


async def submit_and_wait(
    store: Store, session: str, request: AnyRequest, make_harness: MakeHarness | None = None
) -> bool:
    """Submits a request, and handles it here if no process holds the session, with the audit that the
    settings of the session's directory configure. False if the holder has yet to handle it."""
    return await submit.submit_now(store, session, request, World(), make_harness, _audit)


def _audit(journal: Journal) -> None:
    target = load_settings(Path(journal.state.cwd), {}).settings.audit
    audit.audit_to(journal, audit.configured_sinks(target), print_stderr)
