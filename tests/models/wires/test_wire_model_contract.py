"""What every wire promises, whatever its vendor calls it."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.core.model import ModelRequest
from ostler.core.transcript import Transcript
from ostler.models.catalogue import ModelProfile
from ostler.models.providers import Wire
from ostler.schema.events import ToolInputDelta, ToolInputEnded, ToolInputStarted
from ostler.schema.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult, user
from ostler.testkit.vendors import FakeVendor, Refusal, Trouble, call, say, turn
from tests.models.wires.wire_cases import KEY, READ, WRITE, Answer, answer_of, load_model, request_of

WIRES: dict[Wire, str] = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "chat": "openai/gpt-x",
    "responses": "openai/gpt-6.1-sol",
    "gemini": "google/gemini-3.5-flash",
}
"""The wires, and a model that speaks each."""

CALLS = Message(
    "assistant",
    (
        Text("Looking."),
        ToolCall("call_a", "read", '{"path":"a"}'),
        ToolCall("call_b", "read", '{"path":"b"}'),
    ),
)
RESULTS = Message(
    "tool",
    (
        ToolResult("call_a", "read", (Text("alpha"),)),
        ToolResult("call_b", "read", (Text("no b"),), failed=True),
    ),
)
THOUGHT = Reasoning(
    "Hm.",
    Opaque(
        "responses",
        {"provider": "openai", "model": "gpt-6.1-sol", "fields": {"id": "rs_1", "encrypted_content": "x"}},
    ),
)
MARKER = b',"cache_control":{"type":"ephemeral"}'

every_wire = pytest.mark.parametrize("wire", WIRES)


def model_of(wire: Wire, **options: Any) -> Any:
    asked = {"base_url": "http://127.0.0.1:1", "api_key": KEY, "environment": {}, **options}
    return load_model(WIRES[wire], wire=wire, **asked)


async def ask(vendor: FakeVendor, wire: Wire, request: ModelRequest | None = None, **options: Any) -> Answer:
    model = model_of(wire, base_url=vendor.base_url(wire), **options)
    try:
        return await answer_of(model, request or request_of())
    finally:
        await model.aclose()


@every_wire
def test_the_same_request_gives_the_same_bytes(wire: Wire) -> None:
    def build() -> bytes:
        request = request_of(user("Hi"), CALLS, RESULTS, system="S", tools=(READ, WRITE), reasoning="low")
        body: bytes = model_of(wire).body(request)
        return body

    assert build() == build()


@every_wire
def test_a_message_is_encoded_once_and_the_prefix_never_moves(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Message] = []
    real = Transcript.encoded

    def counting(self: Transcript, key: str, encode: Any) -> list[bytes]:
        return real(self, key, lambda message: (encoded.append(message), encode(message))[1])

    monkeypatch.setattr(Transcript, "encoded", counting)
    model = model_of(wire)
    transcript = Transcript([user("Hi")])
    before = b""
    for step in range(50):
        request = ModelRequest("mc", "m", transcript, system="S" * 50, tools=(READ, WRITE))
        body = model.body(request)
        assert body.count(MARKER) <= (4 if wire == "anthropic" else 0)
        plain = body.replace(MARKER, b"")
        assert plain.startswith(before)
        before = plain.removesuffix(b"]}")
        transcript.append(Message("assistant", (THOUGHT, ToolCall(f"call_{step}", "read", "{}"))))
        transcript.append(Message("tool", (ToolResult(f"call_{step}", "read", (Text("x" * step),)),)))
    assert len(encoded) == len(transcript) - 2
    assert len(set(map(id, encoded))) == len(encoded)


@every_wire
async def test_a_request_that_is_no_json_is_a_failure(wire: Wire) -> None:
    async with FakeVendor([]) as vendor:
        failure = (await ask(vendor, wire, request_of(user("lone \ud800 surrogate")))).failure.failure
        assert vendor.requests == []
    assert failure.kind == "invalid_request" and vendor.base_url(wire) not in failure.message


@every_wire
async def test_every_call_starts_once_and_ends_once_around_its_input(wire: Wire) -> None:
    calls = turn(
        call("read", {"path": "a"}, id="call_first_of_several_0001"),
        call("write", {"path": "b", "text": "x" * 90}, id="call_first_of_several_0002"),
    )
    async with FakeVendor([calls]) as vendor:
        answer = await ask(vendor, wire)
    assert len(answer.done.content) == 2
    for number, block in enumerate(answer.done.content):
        assert isinstance(block, ToolCall)
        mine = [
            event
            for event in answer.events
            if isinstance(event, ToolInputStarted | ToolInputDelta | ToolInputEnded) and event.block == number
        ]
        assert mine[0] == ToolInputStarted("mc_1", number, block.id, block.name)
        assert mine[-1] == ToolInputEnded("mc_1", number, block.id)
        assert all(isinstance(event, ToolInputDelta) for event in mine[1:-1])


@every_wire
@pytest.mark.parametrize("place", ["status", "stream", "header"])
async def test_the_key_is_in_no_failure(wire: Wire, place: str) -> None:
    text = f"bad key {KEY} was given"
    answers = {
        "status": Refusal(401, text, code=KEY),
        "stream": turn(say(*"abc"), trouble=Trouble("error", 2, code=KEY, message=text)),
        "header": Refusal(400, "extra-secret-value came too"),
    }
    async with FakeVendor([answers[place]]) as vendor:
        answer = await ask(vendor, wire, settings=ModelProfile(headers={"X-Team": "extra-secret-value"}))
    assert not [secret for secret in (KEY[:7], "extra-secret-value") if secret in repr(answer.failure)]
