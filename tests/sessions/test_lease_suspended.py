"""An owner that is at rest and lives: others may go on with its session, and leave its processes alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.core.harness import harness_without_model
from ostler.core.processes import ProcessId
from ostler.sessions.lease import suspend_lease
from ostler.sessions.session import create_session, open_session
from ostler.store.sqlite import SqliteStore


@pytest.fixture
async def child() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_a_suspended_owners_processes_keep_running(
    tmp_path: Path, child: asyncio.subprocess.Process
) -> None:
    store, other = SqliteStore(tmp_path / "ostler.db"), SqliteStore(tmp_path / "ostler.db")
    session = await create_session(store, harness_without_model(str(tmp_path)))
    await store.own_process(session.journal.lease, "call_1", ProcessId.of(child.pid))
    await suspend_lease(session.journal)
    taken = await open_session(other, session.id, harness_without_model(str(tmp_path)))
    assert taken.journal.lease.taken_from is not None
    assert ProcessId.of(child.pid).is_alive()
    await store.close()
    await other.close()
