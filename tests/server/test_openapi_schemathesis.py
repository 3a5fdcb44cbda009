"""schemathesis over the OpenAPI document, against the running server."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from ostler.server import auth, middleware
from tests.server.served import serving, text
from tests.support.paths import ROOT

CONFIGURATION = """
[parameters]
"query.wait" = 0

# A key that was used for another request is refused.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", "401", "403", "404", "409", "422", "429", "5xx"]

# Texts whose meaning no schema can tell: a folder that is there, a day, a cursor, a file of lines.
[[operations]]
include-operation-id = {meaning}
checks.positive_data_acceptance.enabled = false
"""
WITH_A_MEANING = [
    "begin_session",
    "restart_agent",
    "import_session",
    "list_sessions",
    "read_events",
    "read_all_events",
    "show_usage",
    "show_session_usage",
    "complete_arguments",
]


async def judged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str, seconds: float
) -> tuple[int, str]:
    """What schemathesis says of a server with a session that talked, and one that waits."""
    monkeypatch.setattr(middleware, "REQUESTS_A_SECOND", 100_000.0)
    monkeypatch.setattr(middleware, "BURST", 100_000.0)
    monkeypatch.setattr(auth, "WRONG_A_MINUTE", 100_000.0)
    configuration = folder / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(meaning=repr(WITH_A_MEANING)))
    async with serving(folder, *["done"] * 5000) as served:
        session = await served.new_session("hello")
        await served.rest(session)
        await served.ask(session, "prompt", content=text("again"))
        arguments = [
            *("--config-file", str(configuration), "run", f"{served.base_url}/api/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {served.token}", "--no-color", *options),
        ]
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("schemathesis"),
            *arguments,
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": "tests.server.schemathesis_hooks",
            },
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), seconds)
        finally:
            if process.returncode is None:
                process.kill()
        return process.returncode or 0, said.decode()[-20_000:]


async def test_the_server_keeps_to_its_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = [part for tag in ("sessions", "agents", "requests", "tree") for part in ("--include-tag", tag)]
    options = ("--phases", "fuzzing", "--max-examples", "1", "--seed", "1", *tags)
    status, said = await judged(tmp_path, monkeypatch, *options, seconds=60)
    assert status == 0, said


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_nothing_that_can_be_asked_breaks_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--phases", "coverage,fuzzing,stateful", "--max-examples", "10")
    status, said = await judged(tmp_path, monkeypatch, *options, seconds=800)
    assert status == 0, said
