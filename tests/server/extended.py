"""Servers whose sessions have extensions: real files, found and loaded as `ostler serve` does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.core.harness import Harness
from ostler.models.scripted import Answer
from ostler.server.command import _serve_parser
from ostler.server.main import HarnessFactory
from tests.server.served import Served, serving


@asynccontextmanager
async def extended_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *script: Answer, code: str = "", project: str = ""
) -> AsyncIterator[Served]:
    """`code` is an extension of the user's own, `helper`; `project` is one that the folder brings."""
    monkeypatch.setenv("OSTLER_HOME", str(folder / "own"))
    for place, text in (("own/extensions/helper.py", code), ("work/.ostler/extensions/brought.py", project)):
        if text:
            (folder / place).parent.mkdir(parents=True)
            (folder / place).write_text(text)
    there: list[Served] = []

    async def equip(harness: Harness) -> Harness:
        """What the real thing makes, with the scripted model in it."""
        equipping = HarnessFactory(
            _serve_parser().parse_args(["--model", "demo", "--yes"]), there[0].server.switch
        )
        made = await equipping.harness_for(harness.cwd)
        made.model = harness.model
        made.set_tools([*made.tools.values(), *harness.tools.values()])
        return made

    async with serving(folder, *script, change=equip) as served:
        there.append(served)
        yield served


async def until(events: AsyncIterator[dict[str, Any]], type: str, **fields: Any) -> dict[str, Any]:
    async for event in events:
        if event["type"] == type and all(event.get(name) == value for name, value in fields.items()):
            return event
    raise AssertionError(f"the stream ended before {type}")
