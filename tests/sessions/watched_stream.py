"""A client of a live stream that trusts nothing: it joins what it gets, and says when that is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from ostler.schema.events import Event
from ostler.schema.facts import Fact, encode_event


def as_lines(batch: Sequence[Fact | Event]) -> bytes:
    return b"".join((one.line() if isinstance(one, Fact) else encode_event(one)) + b"\n" for one in batch)


class Reader:
    """Keeps the facts, and every open text as the deltas make it."""

    def __init__(self, after: int = 0) -> None:
        self.seq = after
        self.facts: list[dict[str, Any]] = []
        self.open: dict[tuple[Any, ...], str] = {}
        self.values: dict[str, Any] = {}
        self.whole: dict[str, str] = {}
        """The joined deltas of each message when its fact came, if they were complete."""
        self.notices: list[str] = []
        self.caught_up = 0
        self.changed = asyncio.Event()

    async def until(self, true: Callable[[], object]) -> None:
        """For a caller that reads the bytes itself."""
        async with asyncio.timeout(60):
            while not true():
                self.changed.clear()
                await self.changed.wait()

    @property
    def kinds(self) -> list[str]:
        return [fact["type"] for fact in self.facts]

    def read(self, data: bytes) -> None:
        for line in data.splitlines():
            self.take(json.loads(line))
        self.changed.set()

    def take(self, event: dict[str, Any]) -> None:
        if "seq" in event:
            assert event["seq"] == self.seq + 1, f"after {self.seq} came {event['seq']}"
            self.seq = event["seq"]
            self.facts.append(event)
            self._close(event)
            return
        match event["type"]:
            case "text_delta" | "reasoning_delta" | "tool_input_delta":
                key = (event["type"], event["message"], event["block"])
                self._grow(key, event["offset"], event["text"])
            case "tool_output":
                self._grow(("output", event["call"]), event["offset"], event["text"])
            case "live_value":
                self.values.pop(event["name"], None)
                if event.get("value") is not None:
                    self.values[event["name"]] = event["value"]
            case "caught_up":
                assert event["after"] == self.seq
                self.caught_up += 1
            case kind:
                self.notices.append(kind)

    def _grow(self, key: tuple[Any, ...], offset: int, text: str) -> None:
        have = self.open.get(key, "")
        assert offset in (0, len(have)), f"{key}: {len(have)} characters, and then offset {offset}"
        self.open[key] = (have if offset else "") + text

    def _close(self, fact: dict[str, Any]) -> None:
        if fact["type"] in ("assistant_message", "model_failed"):
            for key in [key for key in self.open if key[0] != "output" and key[1] == fact["call"]]:
                self.whole[fact["call"]] = self.open.pop(key)
        elif fact["type"] == "tool_result":
            self.open.pop(("output", fact["call"]), None)
        elif fact["type"] == "run_ended":
            self.open.clear()
