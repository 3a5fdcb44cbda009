"""One writer a session, between real processes on one store, whatever becomes of the owner."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ostler.core.processes import kill_processes_of
from ostler.schema.requests import Cancel
from ostler.store.invariants import violations
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.command import wait_until
from tests.support.real_run import OSTLER, PATIENCE, Home, processes_of, statuses

WITH_SHORT_LEASE = """
import sys
from ostler.store import rules
rules.LEASE_MS = int(sys.argv.pop(1))
rules.RENEW_SECONDS = rules.LEASE_MS / 3 / 1000
from ostler.main import main
sys.exit(main())
"""


def with_lease(period_ms: int) -> tuple[str, ...]:
    """The command with leases that last only so long."""
    return ("-c", WITH_SHORT_LEASE, str(period_ms))


def script(request: dict[str, Any]) -> Any:
    if request["messages"][-1]["role"] == "user" and request["messages"][-1]["content"] == "go on":
        return turn("I went on.")
    return turn(call("bash", {"command": "echo begun; sleep 600 & sleep 600", "timeout": 600}))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with FakeVendor(script) as vendor:
        yield Home(tmp_path, vendor)


class Owner:
    """A process in the middle of a long command."""

    def __init__(self, home: Home, program: tuple[str, ...]) -> None:
        self.process = home.start("sleep", program=program)
        self.session = ""
        self._store = home.store

    def until_its_command_runs(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            self.session = event.get("session", self.session)
            if event["type"] == "tool_output":
                assert processes_of(self.session), "its command does not run"
                return
        raise AssertionError(f"its command never ran: {self.ends()}")

    def expires_ms(self) -> int:
        """When its lease ends, as the store has it."""
        with closing(sqlite3.connect(f"file:{self._store}?mode=ro", uri=True, timeout=PATIENCE)) as database:
            row = database.execute("select expires from sessions where id = ?", (self.session,)).fetchone()
        assert isinstance(row[0], int)
        return row[0]

    def ends(self) -> tuple[int, list[str], str]:
        """Its exit code, the types of what it still printed, and what it said on standard error."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, [json.loads(line)["type"] for line in out.splitlines()], err.decode()


@contextmanager
def owner_of_a_session(home: Home, program: tuple[str, ...] = OSTLER) -> Iterator[Owner]:
    owner = Owner(home, program)
    try:
        owner.until_its_command_runs()
        yield owner
    finally:
        owner.process.kill()
        owner.process.communicate(timeout=PATIENCE)
        if owner.session:
            kill_processes_of(owner.session)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def nobody_else_can_write(store: Path) -> Iterator[None]:
    with closing(sqlite3.connect(store, isolation_level=None, timeout=PATIENCE)) as database:
        database.execute("begin immediate")
        yield
        database.execute("rollback")


def test_an_owner_that_was_stopped_too_long_writes_nothing_more(home: Home) -> None:
    short = with_lease(1500)
    with owner_of_a_session(home, short) as owner:
        owner.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: owner.expires_ms() <= now_ms())
        assert processes_of(owner.session) != []

        lines = home.run("--continue", "go on", program=short)
        assert lines[-1]["status"] == "completed"
        assert processes_of(owner.session) == []
        written = home.facts()
        assert {fact.session for fact in written} == {owner.session}
        assert statuses(written) == ["interrupted", "completed"]

        owner.process.send_signal(signal.SIGCONT)
        code, printed, said = owner.ends()
        assert home.facts() == written
        assert violations(written) == []
        assert "tool_result" not in printed and "run_ended" not in printed
        assert code == 1
        assert said.startswith("ostler: ") and owner.session in said
        assert said.count("\n") == 1
        assert processes_of(owner.session) == []


def test_the_lease_is_renewed_at_a_third_of_its_period_while_a_command_runs(home: Home) -> None:
    period = 4500
    with owner_of_a_session(home, with_lease(period)) as owner:
        seen = [owner.expires_ms()]

        def renewed_twice() -> bool:
            expires = owner.expires_ms()
            assert expires > now_ms(), "the lease was let go"
            if expires != seen[-1]:
                seen.append(expires)
            return len(seen) == 3

        wait_until(renewed_twice)
        between = [later - earlier for earlier, later in pairwise(seen[1:])]
        assert all(period * 0.3 <= gap for gap in between), between
        assert processes_of(owner.session) != []


@pytest.mark.long
def test_an_owner_that_cannot_renew_ends_its_commands_before_the_lease_ends(home: Home) -> None:
    with owner_of_a_session(home, with_lease(6000)) as owner:
        with nobody_else_can_write(home.store):
            expires = owner.expires_ms()
            wait_until(lambda: not processes_of(owner.session))
            assert now_ms() < expires
            assert owner.expires_ms() == expires
            wait_until(lambda: now_ms() > expires)
        code, _, said = owner.ends()
        assert code == 1
        assert said.startswith("ostler: ")
        assert "Traceback" not in said
    assert home.run("--continue", "go on")[-1]["status"] == "completed"
    facts = home.facts()
    assert violations(facts) == []
    assert statuses(facts) == ["interrupted", "completed"]


def test_a_second_process_is_refused_but_may_cancel_the_run(home: Home) -> None:
    with owner_of_a_session(home) as owner:
        before = home.facts()
        second = home.start("--continue", "go on")
        out, err = second.communicate(timeout=PATIENCE)
        assert (second.returncode, out) == (1, b"")
        said = err.decode()
        assert f"session {owner.session} is held by process {owner.process.pid}" in said
        assert said.count("\n") == 1
        assert home.facts() == before

        asyncio.run(ask_to_stop(home.store, owner.session))
        code, printed, _ = owner.ends()
        assert code == 130
        assert printed[-1] == "run_ended"
        assert statuses(home.facts()) == ["cancelled"]
        assert processes_of(owner.session) == []


async def ask_to_stop(path: Path, session: str) -> None:
    store = SqliteStore(path)
    try:
        assert await store.submit(session, Cancel(id="req_stop", by="a test"))
    finally:
        await store.close()


def test_a_session_can_be_opened_at_once_when_its_owner_was_killed(home: Home) -> None:
    with owner_of_a_session(home) as owner:
        owner.process.send_signal(signal.SIGKILL)
        owner.ends()
        assert owner.expires_ms() > now_ms()
        assert home.run("--continue", "go on")[-1]["status"] == "completed"
        assert processes_of(owner.session) == []
