"""The page on the extension protocol describes each frame, field and example of the code."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from ostler.extensions.protocol import frames, process
from ostler.extensions.protocol.adapters import SUMMARISED, types_behind
from ostler.extensions.protocol.client import Limits
from ostler.extensions.protocol.process import Manifest
from tests.support.paths import DOCS

PAGE = (DOCS / "extension-protocol.md").read_text()

_SECTION = re.compile(r"^### `(\w+)`\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\| `(\w+)` \| ([^|]+?) \|", re.MULTILINE)


def described(heading: str) -> dict[str, str]:
    """The sections of the frames under a heading, by name."""
    (part,) = re.findall(rf"^## {heading}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    return dict(_SECTION.findall(part + "##"))


RECEIVED = described("Frames from the extension")
SENT = described("Frames from Ostler")


def kinds(base: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    return {str(kind.__struct_config__.tag): kind for kind in base.__subclasses__()}


def test_the_page_has_every_frame_and_no_other() -> None:
    assert set(RECEIVED) == set(kinds(frames.Received))
    assert set(SENT) == set(kinds(frames.Sent))


@pytest.mark.parametrize("name", RECEIVED)
def test_a_frame_from_an_extension_is_described(name: str) -> None:
    kind, section = kinds(frames.Received)[name], RECEIVED[name]
    fields = dict(_FIELD.findall(section))
    assert set(fields) == set(kind.__struct_fields__)
    (example,) = re.findall(r"^```json\n(.+)\n```$", section, re.MULTILINE)
    assert type(frames.read_frame(example.encode())) is kind
    assert set(json.loads(example)) <= {"type", *fields}
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    rows = {row.split("`")[1] for row in section.splitlines() if row.startswith("| `") and "required" in row}
    assert rows - {"open_panel"} == required | ({"value"} if name == "state_set" else set())


@pytest.mark.parametrize("name", SENT)
def test_a_frame_from_ostler_is_described(name: str) -> None:
    kind, section = kinds(frames.Sent)[name], SENT[name]
    assert list(dict(_FIELD.findall(section))) == list(kind.__struct_fields__)
    (example,) = re.findall(r"^```json\n(.+)\n```$", section, re.MULTILINE)
    assert json.loads(frames.line_of(msgspec.json.decode(example, type=kind))) == json.loads(example)  # type: ignore[arg-type]


def test_the_page_names_the_fields_of_a_manifest_the_events_and_the_limits() -> None:
    (manifest,) = re.findall(r"^## The manifest\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", manifest)) >= set(Manifest.__struct_fields__)
    (told,) = re.findall(r"^## Events\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)`", told, re.MULTILINE)) == set(SUMMARISED)
    (others,) = re.findall(r"and to the lifecycle events (.*?)\. A name", told, re.DOTALL)
    assert all(types_behind(name) for name in re.findall(r"`(\w+)`", others))
    limits = Limits()
    assert (limits.hello, limits.silence, limits.ready, limits.intercept, limits.command) == (
        5,
        0.25,
        3,
        5,
        30,
    )
    assert (limits.shutdown, limits.terminate, limits.backoff, limits.backoff_at_most) == (2, 1, 0.5, 30)
    assert (limits.restarts, limits.steady, frames.MAX_LINE) == (5, 60, 4194304)
    assert (process.LIVE_FRAMES, process.LIVE_BYTES) == (1000, 2**20)
    assert (process.MAX_FRAMES, process.MAX_BYTES) == (10000, 32 * 2**20)
