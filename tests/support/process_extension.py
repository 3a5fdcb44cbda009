"""Extensions in other processes: scripts, and the events of their session."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from ostler.core.function_tool import tool
from ostler.extensions.protocol.client import Limits
from ostler.extensions.protocol.process_extension import ProcessExtension, load_process_extension
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.sessions.session import Session
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples" / "extensions" / "any-language"

WAIT = 20.0
"""Seconds after which a test fails instead of waiting longer."""

_BEGINNING = '''\
import json, os, signal, sys, threading, time

def send(type, **frame):
    sys.stdout.write(json.dumps({"type": type, **frame}) + "\\n")
    sys.stdout.flush()

def read(*types):
    """The next frame, or the next of these types."""
    while line := sys.stdin.readline():
        frame = json.loads(line)
        if not types or frame["type"] in types:
            return frame
    os._exit(0)

def hello():
    send("hello", name="script", capabilities=["ready"])
    return read()

def tell(**anything):
    send("notify", message=json.dumps(anything))

'''


def written(
    folder: Path, script: str, *, name: str = "script", values: dict[str, Any] | None = None, **manifest: Any
) -> Path:
    """The folder of an extension that is this Python script, with these values as constants."""
    place = folder / name
    place.mkdir()
    constants = "".join(f"{one} = {value!r}\n" for one, value in (values or {}).items())
    (place / "main.py").write_text(_BEGINNING + constants + dedent(script))
    content = {"name": name, "exec": sys.executable, "args": ["-ES", "main.py"], **manifest}
    (place / "extension.json").write_text(json.dumps(content))
    return place


async def loaded(
    folder: Path, script: str, *, limits: Limits | None = None, **options: Any
) -> ProcessExtension:
    extension = await load_process_extension(written(folder, script, **options), "host", limits=limits)
    assert (extension.status, extension.problem) == ("loaded", "")
    assert isinstance(extension, ProcessExtension)
    return extension


class Watch:
    """Collects the events of a session, and waits for some."""

    def __init__(self, session: Session) -> None:
        self.seen: list[Any] = []
        self._news = asyncio.Event()
        session.subscribe(self._see)

    def _see(self, batch: Sequence[Any]) -> None:
        self.seen += [one.event if isinstance(one, Fact) else one for one in batch]
        self._news.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Waits until the condition returns something true, and returns that."""
        try:
            async with asyncio.timeout(WAIT):
                while not (value := condition()):
                    self._news.clear()
                    await self._news.wait()
                return value
        except TimeoutError:
            raise AssertionError(f"it did not happen; these events did: {self.seen}") from None

    @property
    def printed(self) -> list[str]:
        return [one.text for one in self.seen if isinstance(one, events.Printed)]

    @property
    def told(self) -> list[Any]:
        """The arguments of a script's calls of `tell`."""
        return [json.loads(text) for text in self.printed if text.startswith("{")]

    @property
    def warned(self) -> list[str]:
        return [one.text for one in self.seen if isinstance(one, events.Warned)]

    async def until_told(self, **this: Any) -> Any:
        return await self.until(lambda: next((one for one in self.told if this.items() <= one.items()), None))

    async def until_warned(self, part: str) -> str:
        text: str = await self.until(lambda: next((one for one in self.warned if part in one), ""))
        return text


@tool
def shell(command: str = "", path: str = "") -> str:
    "Runs a command."
    return f"ran {command}{path}"


def with_tool(*parts: Any) -> dict[str, Any]:
    """Options of a harness with the shell and these tools."""
    return {"tools": {one.spec.name: one for one in (shell, *parts)}}
