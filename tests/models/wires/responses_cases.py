"""Helpers for the tests of the Responses wire: its model, and answers written frame by frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ostler.models.wires.responses import ResponsesModel
from ostler.testkit.vendors import FakeVendor
from tests.models.wires.wire_cases import KEY, Answer, answer_of, request_of

MODEL = "gpt-5.1"


def model_at(vendor: FakeVendor, model: str = MODEL, **options: Any) -> ResponsesModel:
    return ResponsesModel(model, **{"base_url": vendor.chat_url, "api_key": KEY, **options})


async def ask(vendor: FakeVendor, request: Any = None, **options: Any) -> Answer:
    model = model_at(vendor, **options)
    try:
        return await answer_of(model, request or request_of())
    finally:
        await model.aclose()


class Canned:
    """A transport that answers with these reads."""

    def __init__(self, reads: list[bytes], **headers: str) -> None:
        self.status = 200
        self.is_complete = False
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream", **headers}
        self._reads = filter(None, reads)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        return self

    async def read(self) -> bytes:
        return next(self._reads, b"")

    async def aclose(self) -> None: ...


async def read(*events: dict[str, Any], named: bool = True, **options: Any) -> Answer:
    """The answer that these events are; the stream ends with them."""
    model = ResponsesModel(MODEL, transport=Canned([frame(event, named) for event in events]), **options)
    return await answer_of(model, request_of())


def frame(event: dict[str, Any], named: bool = True) -> bytes:
    name = f"event: {event['type']}\n" if named else ""
    return name.encode() + b"data: " + msgspec.json.encode(event) + b"\n\n"


def delta(kind: str, text: str, item: int = 0, **place: int) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text, "output_index": item, **place}


def added(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def completed(**fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"id": "resp_1", "model": MODEL, **fields}}
