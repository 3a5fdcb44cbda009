"""A request from a command into a session, whoever drives it."""

from __future__ import annotations

from pathlib import Path

from ostler.app.console import print_stderr
from ostler.core.journal import Journal, World
from ostler.core.store import Store
from ostler.schema.requests import AnyRequest
from ostler.sessions.submit import MakeHarness, submit_now


def new_request_id() -> str:
    return World().new_id("req")


async def submit_and_wait(
    store: Store, session: str, request: AnyRequest, make_harness: MakeHarness | None = None
) -> bool:
    """`ask`; what is taken up here is audited as the settings of its directory say."""
    return await submit_now(store, session, request, World(), make_harness, _audit)


def _audit(journal: Journal) -> None:
    from ostler.app.settings import load_settings
    from ostler.history.audit import audit_to, configured_sinks

    audit_to(
        journal, configured_sinks(load_settings(Path(journal.state.cwd), {}).settings.audit), print_stderr
    )
