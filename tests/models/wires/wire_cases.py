"""What the tests of both wires share: how to make a model, and how to read its answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, NamedTuple

from ostler.core.model import ModelDone, ModelEvent, ModelFailure, ModelRequest, ToolOffer
from ostler.core.transcript import Transcript
from ostler.models.factory import make_model
from ostler.schema.messages import Message, user
from ostler.testkit.vendors import FakeVendor

WIRES = ("anthropic", "chat")
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


def url_of(vendor: FakeVendor, wire: str) -> str:
    return vendor.anthropic_url if wire == "anthropic" else vendor.chat_url


def load_model(name: str, **options: Any) -> Any:
    """The model of a name with its wire loaded, for tests that read its requests."""
    model: Any = make_model(name, **options)
    return model.load()


def model_for(wire: str, base_url: str = "http://127.0.0.1:1", **options: Any) -> Any:
    name = "anthropic/claude-sonnet-5-5" if wire == "anthropic" else "openai/gpt-x"
    return load_model(name, **{"base_url": base_url, "api_key": KEY, "environment": {}, **options})


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


async def ask(vendor: FakeVendor, wire: str, request: ModelRequest | None = None, **options: Any) -> Answer:
    model = model_for(wire, **{"base_url": url_of(vendor, wire), **options})
    try:
        return await answer_of(model, request or request_of())
    finally:
        await model.aclose()
