"""The items of the golden cases: events in, items out. The page runs over the same files."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.history.item_builder import ItemBuilder
from ostler.schema.events import Event
from ostler.schema.facts import Fact, UnknownEvent, decode_event

CASES = Path(__file__).parents[1] / "golden" / "items"

PYTHON_ONLY = {"answered_seq", "talking"}
NOT_COMPARED = {"seconds", "activity"}


def event_of(line: dict[str, Any]) -> Fact | Event | UnknownEvent:
    envelope = {name: line.get(name) for name in ("seq", "session", "run", "time", "parent", "origin")}
    body = msgspec.json.encode({name: value for name, value in line.items() if name not in envelope})
    if envelope["seq"] is None:
        return decode_event(body)
    moment = datetime.fromisoformat(str(envelope["time"]))
    time_ms = round(moment.timestamp() * 1000)
    about = (envelope["seq"], envelope["session"], envelope["run"], time_ms, body)
    return Fact(*about, parent=envelope["parent"])


def fields_of(item: dict[str, Any]) -> dict[str, Any]:
    """Without empty values, also in the result and the children of a call."""
    fields = {name: value for name, value in item.items() if name not in PYTHON_ONLY | NOT_COMPARED}
    if fields.get("result"):
        fields["result"] = fields_of(fields["result"])
    if isinstance(fields.get("children"), list):
        fields["children"] = [fields_of(child) for child in fields["children"]]
    return {name: value for name, value in fields.items() if value or isinstance(value, float)}


@pytest.mark.parametrize("case", sorted(CASES.glob("*.json")), ids=lambda case: case.stem)
@pytest.mark.parametrize("together", [True, False], ids=["at once", "one by one"])
def test_events_make_these_items(case: Path, together: bool) -> None:
    golden = json.loads(case.read_text())
    batch: Any = [event_of(line) for line in golden["events"]]
    builder = ItemBuilder()
    for part in [batch] if together else [[event] for event in batch]:
        builder.apply(part)
    items = json.loads(msgspec.json.encode(builder.items()))
    assert [fields_of(item) for item in items] == golden["items"]
