"""Runs in progress, waiting runs, and interrupted runs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import FakeVendor, Trouble, call, turn
from tests.support.command import PATIENCE, Ostler, Ran, finish, use, wait_until
from tests.support.fixtures import Serve

Looked = TypeVar("Looked")

ASKING = ("--permissions", "edit", "--on-question", "wait")
TOUCH = call("bash", {"command": "touch made"})
GATED = call("bash", {"command": "cat gate"})


def only_session(ostler: Ostler) -> str:
    (session,) = _in_store(ostler, lambda store: store.sessions())
    return session.id


def waiting_run(ostler: Ostler, vendor: FakeVendor) -> str:
    """The session of a run that waits for permission to run `touch made`, which the vendor must call."""
    ran = ostler("-p", "--json", *use(vendor), *ASKING, "make it")
    assert ran.code == 6, ran.err
    return str(ran.facts[0]["session"])


def cut_run(ostler: Ostler, vendor: FakeVendor, *options: str) -> str:
    """The session of a run whose process was killed while the vendor was silent."""
    before = len(vendor.requests)
    running = ostler.start("-p", *use(vendor), *options, "hello")
    wait_until(lambda: len(vendor.requests) > before)
    running.kill()
    finish(running)
    return only_session(ostler)


SILENCE = turn("never", trouble=Trouble("silence", after=0))


class Gated:
    """A process whose run is inside a tool until the gate is opened."""

    def __init__(self, ostler: Ostler, process: subprocess.Popen[bytes], session: str) -> None:
        self.process = process
        self.session = session
        self._ostler = ostler

    def open(self) -> None:
        # The command may have started, but not opened the gate yet.
        wait_until(lambda: open_gate(self._ostler) or self.process.poll() is not None)


def open_gate(ostler: Ostler) -> bool:
    """Whether a process waited at the gate."""
    with suppress(OSError):
        os.close(os.open(ostler.work / "gate", os.O_WRONLY | os.O_NONBLOCK))
        return True
    return False


@contextmanager
def gated_run(ostler: Ostler, vendor: FakeVendor, *options: str) -> Iterator[Gated]:
    """A run in which the vendor calls `cat gate`; ends it if the test has not."""
    os.mkfifo(ostler.work / "gate")
    process = ostler.start("-p", *use(vendor), "--yes", *options, "go")
    try:
        wait_until(lambda: vendor.requests)
        session = only_session(ostler)
        wait_until(lambda: any(one["type"] == "tool_started" for one in facts(ostler, session)))
        yield Gated(ostler, process, session)
    finally:
        process.kill()
        process.wait()
        open_gate(ostler)  # the command outlives a process that was killed
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def read_to_end(process: subprocess.Popen[bytes]) -> Ran:
    """The output of a command after one line was read; `communicate` would lose buffered output."""
    assert process.stdout is not None and process.stderr is not None
    try:
        with process.stdout, process.stderr:
            out, err = process.stdout.read(), process.stderr.read()
        return Ran(process.wait(PATIENCE), out.decode(), err.decode())
    finally:
        process.kill()


def facts(ostler: Ostler, session: str) -> list[dict[str, Any]]:
    return [json.loads(fact.line()) for fact in _in_store(ostler, lambda store: store.read(session))]


def _in_store(ostler: Ostler, look: Callable[[SqliteStore], Coroutine[Any, Any, Looked]]) -> Looked:
    async def open_and_look() -> Looked:
        store = SqliteStore(ostler.store)
        try:
            return await look(store)
        finally:
            await store.close()

    return asyncio.run(open_and_look())


def parent_and_child(ostler: Ostler, serve: Serve) -> tuple[FakeVendor, str, str]:
    """A run that waits for its child, which waits for permission to run `touch made`."""

    def answer(request: dict[str, Any]) -> Any:
        messages = [one for one in request["messages"] if one["role"] != "system"]
        is_child, has_result = messages[0]["content"] == "make it", messages[-1]["role"] == "tool"
        if has_result:
            return turn("The child is done." if is_child else "All is done.")
        return turn(TOUCH if is_child else call("delegate", {"task": "make it"}))

    ostler.configure('allow = ["delegate"]')
    vendor = serve(by=answer)
    ran = ostler("-p", "--json", *use(vendor), *ASKING, "go")
    assert ran.code == 6, ran.err
    (started,) = ran.all("child_started")
    return vendor, str(ran.facts[0]["session"]), str(started["child"])
