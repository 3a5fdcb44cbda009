"""Helpers for the tests of all wires: how to make a model, and how to read its answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, NamedTuple

import pytest

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest, ToolOffer
from ostler.core.transcript import Transcript
from ostler.models.factory import make_model
from ostler.models.providers import Wire
from ostler.schema.messages import Message, user
from ostler.testkit.vendors import FakeVendor

WIRES: dict[Wire, str] = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "chat": "openai/gpt-x",
    "responses": "openai/gpt-6.1-sol",
    "gemini": "google/gemini-3.5-flash",
}
"""The wires, and a model on each."""
every_wire = pytest.mark.parametrize("wire", WIRES)
KEY = "sk-canary-0123456789abcdef"
READ = ToolOffer(
    "read",
    "Read a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
WRITE = ToolOffer("write", "Write a file.", {"type": "object", "properties": {"path": {"type": "string"}}})


class Answer(NamedTuple):
    events: list[ModelEvent]
    last: ModelDone | ModelFailure

    @property
    def done(self) -> ModelDone:
        assert isinstance(self.last, ModelDone), self.last
        return self.last

    @property
    def failure(self) -> ModelFailure:
        assert isinstance(self.last, ModelFailure), self.last
        return self.last


def load_model(name: str, **options: Any) -> Any:
    """The model of a name with its wire loaded, for tests that read its requests."""
    model: Any = make_model(name, **options)
    return model.load()


def model_for(wire: Wire, base_url: str = "http://127.0.0.1:1", **options: Any) -> Any:
    defaults = {"base_url": base_url, "api_key": KEY, "environment": {}, "wire": wire}
    return load_model(WIRES[wire], **{**defaults, **options})


def request_of(*messages: Message, **fields: Any) -> ModelRequest:
    transcript = Transcript(messages or [user("Hello")])
    return ModelRequest(id="mc_1", model="m", transcript=transcript, **fields)


async def answer_of(model: Any, request: ModelRequest) -> Answer:
    events: list[ModelEvent] = []
    async with asyncio.timeout(60), aclosing(model.stream(request)) as stream:
        async for batch in stream:
            events += batch
    assert isinstance(events[-1], ModelDone | ModelFailure)
    assert not any(isinstance(event, ModelDone | ModelFailure) for event in events[:-1])
    return Answer(events, events[-1])


async def ask(vendor: FakeVendor, wire: Wire, request: ModelRequest | None = None, **options: Any) -> Answer:
    model = model_for(wire, **{"base_url": vendor.base_url(wire), **options})
    try:
        return await answer_of(model, request or request_of())
    finally:
        await model.aclose()
