"""Measures of each wire: the CPU time to read an answer, against the vendor's own SDK."""

from __future__ import annotations

import json
from functools import partial
from importlib.util import find_spec
from typing import Any

from bench.child import measure
from bench.environment import Environment, program
from bench.table import Row, interleaved, ratio_row, skipped_row
from ostler.models.providers import Wire
from ostler.testkit.vendors import FakeVendor, call, say, turn

SDKS: dict[Wire, str] = {
    "anthropic": "anthropic",
    "chat": "openai",
    "responses": "openai",
    "gemini": "google.genai",
}
DELTAS = 4_000
ARGUMENT = 100_000


def wires(environment: Environment) -> list[Row]:
    """One answer of many text deltas, and large tool arguments, on every wire."""
    rows: list[Row] = []
    for wire, sdk in SDKS.items():
        if find_spec(sdk.partition(".")[0]) is None:
            rows.append(skipped_row(f"a text delta on the {wire} wire", f"{sdk} is not installed"))
            continue
        text = turn(say(*[f" word{number % 10}" for number in range(DELTAS)]))
        whole, quarter = (_argument(size) for size in (ARGUMENT, ARGUMENT // 4))
        with _vendor(text) as texts, _vendor(whole) as wholes, _vendor(quarter) as quarters:
            urls = [vendor.base_url(wire) for vendor in (texts, wholes, quarters)]
            medians = interleaved(
                environment.rounds,
                ours=partial(_read, environment, "ours", wire, *urls),
                sdk=partial(_read, environment, "sdk", wire, urls[0]),
            )
        ours, theirs = medians["ours"], medians["sdk"]
        rows += [
            ratio_row(f"a text delta, {wire} wire / {sdk} SDK, CPU", ours[0], theirs[0], "µs", "≤", 0.5),
            ratio_row(f"100 kB / 25 kB of tool argument, {wire} wire, CPU", ours[1], ours[2], "µs", "≤", 5),
        ]
    return rows


def _argument(size: int) -> Any:
    return turn(call("write", {"path": "a", "content": "x" * size}))


def _vendor(answer: Any) -> FakeVendor:
    return FakeVendor(lambda request: answer)


def _read(environment: Environment, side: str, wire: str, *urls: str) -> list[float]:
    """CPU microseconds: of a delta at the first address, of the whole answer at the others."""
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    command = [*program("wire_reader"), side, wire, *urls]
    seconds = json.loads(measure(command, env, environment.work, keep_output=True).output)
    return [seconds[0] / DELTAS * 1e6, *[answer * 1e6 for answer in seconds[1:]]]
