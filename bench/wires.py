"""Measures of each wire: the processor time of reading an answer, against the vendor's own SDK."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

from bench.processes import measure
from bench.room import Room, call_module
from bench.rows import Row, interleaved, ratio_row, skipped_row
from ostler.testkit.vendors import FakeVendor, call, say, turn

SDKS = {"anthropic": "anthropic", "chat": "openai", "responses": "openai", "gemini": "google.genai"}
DELTAS = 4_000
ARGUMENT = 100_000


def wires(room: Room) -> list[Row]:
    """One answer of many text deltas, and large tool arguments, on every wire."""
    rows: list[Row] = []
    for wire, sdk in SDKS.items():
        if find_spec(sdk.partition(".")[0]) is None:
            rows.append(skipped_row(f"a text delta on the {wire} wire", f"{sdk} is not installed"))
            continue
        text = turn(say(*[f" word{number % 10}" for number in range(DELTAS)]))
        whole, part = (_argument(size) for size in (ARGUMENT, ARGUMENT // 4))
        with _serving(text) as texts, _serving(whole) as wholes, _serving(part) as parts:
            urls = [vendor.base_url(wire) for vendor in (texts, wholes, parts)]
            medians = interleaved(
                room.rounds,
                ours=lambda wire=wire, urls=urls: _read(room, "ours", wire, *urls),
                sdk=lambda wire=wire, urls=urls: _read(room, "sdk", wire, urls[0]),
            )
        ours, theirs = medians["ours"], medians["sdk"]
        rows += [
            ratio_row(f"a text delta, {wire} wire / {sdk} SDK, CPU", ours[0], theirs[0], "µs", "≤", 0.5),
            ratio_row(f"100 kB / 25 kB of tool argument, {wire} wire, CPU", ours[1], ours[2], "µs", "≤", 5),
        ]
    return rows


def _argument(size: int) -> Any:
    return turn(call("write", {"path": "a", "content": "x" * size}))


def _serving(answer: Any) -> FakeVendor:
    return FakeVendor(lambda request: answer)


def _read(room: Room, side: str, wire: str, *urls: str) -> list[float]:
    """Microseconds of processor time: for a delta of the first address, for the whole of the others."""
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    command = [*call_module("bench.wire_reading"), side, wire, *urls]
    spent = json.loads(measure(command, env, room.work, keep_output=True).output)
    return [spent[0] / DELTAS * 1e6, *[one * 1e6 for one in spent[1:]]]
