"""Runs in other processes, with a real store, and access to what they stored."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from ostler.core.processes import SESSION_VARIABLE
from ostler.schema.facts import Fact
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import FakeVendor

PATIENCE = 60
OSTLER = ("-m", "ostler")


class Home:
    """A store, a working directory and a vendor for one test."""

    def __init__(self, folder: Path, vendor: FakeVendor) -> None:
        self.work = folder / "work"
        self.work.mkdir()
        self.state = folder / "state"
        self.store = self.state / "ostler.db"
        self._vendor = vendor

    def start(
        self, *arguments: str, program: tuple[str, ...] = OSTLER, command: str = "-p"
    ) -> subprocess.Popen[bytes]:
        model = ("--model", "openai/fake", "--base-url", self._vendor.chat_url, "--api-key", "k")
        return subprocess.Popen(
            [sys.executable, *program, command, "--json", "--yes", *model, *arguments],
            cwd=self.work,
            env={**os.environ, "OSTLER_HOME": str(self.state)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, program: tuple[str, ...] = OSTLER) -> list[dict[str, Any]]:
        process = self.start(*arguments, program=program)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err.decode()
        return [json.loads(line) for line in out.splitlines()]

    def facts(self) -> list[Fact]:
        async def read() -> list[Fact]:
            store = SqliteStore(self.store)
            try:
                sessions = await store.sessions()
                return await store.read(sessions[0].id) if sessions else []
            finally:
                await store.close()

        return asyncio.run(read())

    def logs(self) -> dict[str, list[Fact]]:
        """The facts of all sessions."""

        async def read() -> dict[str, list[Fact]]:
            store = SqliteStore(self.store)
            try:
                return {one.id: await store.read(one.id) for one in await store.sessions()}
            finally:
                await store.close()

        return asyncio.run(read())

    def effects(self) -> Counter[str]:
        file = self.work / "effects"
        return Counter(file.read_text().split() if file.exists() else ())


def processes_of(session: str) -> list[str]:
    """The living processes that tools of this session started."""
    processes = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environment.read_bytes().split(b"\0")
        except OSError:
            continue
        if f"{SESSION_VARIABLE}={session}".encode() in variables:
            processes.append(environment.parent.name)
    return processes


def statuses(facts: list[Fact]) -> list[str]:
    """How the runs ended, in order."""
    return [fact.event.status for fact in facts if fact.type == "run_ended"]  # type: ignore[union-attr]
