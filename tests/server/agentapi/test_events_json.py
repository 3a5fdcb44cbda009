"""Times and texts, spelled as this wire spells them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.agentapi.events import for_html, timestamp, to_json


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("named", "seconds", "written"),
    [
        ("UTC", 1775820880.0, "2026-04-10T11:34:40Z"),
        ("UTC", 1775820880.5, "2026-04-10T11:34:40.5Z"),
        ("UTC", 1775820880.123456, "2026-04-10T11:34:40.123456Z"),
        ("Europe/London", 1775820880.25, "2026-04-10T12:34:40.25+01:00"),
        ("America/St_Johns", 1775820880.0, "2026-04-10T09:04:40-02:30"),
    ],
)
def test_a_time_is_local_and_has_no_digit_too_many(
    zone: pytest.MonkeyPatch, named: str, seconds: float, written: str
) -> None:
    zone.setenv("TZ", named)
    time.tzset()
    assert timestamp(seconds) == written


@given(st.floats(min_value=0, max_value=4e9))
def test_any_time_can_be_read_back(seconds: float) -> None:
    written = timestamp(seconds)
    assert re.fullmatch(r"[-\d]{10}T[:\d]{8}(\.\d{0,5}[1-9])?(Z|[+-]\d\d:\d\d)", written)
    assert datetime.fromisoformat(
        re.sub(r"\.(\d+)", lambda found: f".{found[1]:<06}", written)
    ).timestamp() == (pytest.approx(seconds, abs=1e-6))


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_written_and_read_back(text: str) -> None:
    encoded = to_json(text)
    assert json.loads(encoded) == text
    assert json.loads(for_html(encoded)) == text
    assert not set(for_html(encoded)) & set(b"<>&")
    assert "\u2028".encode() not in encoded
