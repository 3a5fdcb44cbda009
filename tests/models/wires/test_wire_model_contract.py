"""The contract of all four wires."""

from __future__ import annotations

from typing import Any

import pytest

from ostler.core.model import ModelRequest
from ostler.core.transcript import Transcript
from ostler.models.catalogue import ModelProfile, Prices
from ostler.models.providers import Wire
from ostler.schema.events import (
    ReasoningDelta,
    TextDelta,
    ToolInputDelta,
    ToolInputEnded,
    ToolInputStarted,
)
from ostler.schema.messages import Message, Opaque, Reasoning, Text, ToolCall, ToolResult, user
from ostler.schema.usage import UNKNOWN_USAGE, Usage
from ostler.testkit.vendors import Call, Cite, FakeVendor, Refusal, Think, Trouble, Turn, call, say, turn
from tests.models.wires.transcripts import AWKWARD, CALLS, RESULTS
from tests.models.wires.wire_cases import (
    KEY,
    READ,
    WIRES,
    WRITE,
    answer_of,
    ask,
    every_wire,
    load_model,
    model_for,
    request_of,
)

THOUGHT = Reasoning(
    "Hm.",
    Opaque(
        "responses",
        {"provider": "openai", "model": "gpt-6.1-sol", "fields": {"id": "rs_1", "encrypted_content": "x"}},
    ),
)
MARKER = b',"cache_control":{"type":"ephemeral"}'

TURNS = {
    "text": turn(say("Hel", "lo ", "wörld ✓")),
    "one call": turn("I will look.", call("read", {"path": "a.txt"}, id="call_one_of_its_kind_0001")),
    "parallel calls": turn(
        call("read", {"path": "a"}, id="call_first_of_several_0001"),
        call("write", {"path": "b", "text": "x" * 90}, id="call_first_of_several_0002"),
    ),
    "reasoning": turn(
        Think(("Let me ", "see."), "sig-1"), "The answer.", usage=Usage(3, 9, reasoning_tokens=4)
    ),
    "reasoning and call": turn(Think(("Hm.",), "sig-2"), call("read", {"path": "é"}, id="c" * 24)),
    "redacted reasoning": turn(Think(("Hm.",), "sig-3"), Think(redacted="sig-4"), "Yes."),
    "only redacted reasoning": turn(Think(redacted="sig-5"), "Yes."),
    "no arguments": turn(call("read", "", id="call_without_arguments_01")),
    "cut": turn("It was a dark and", stop="length"),
    "refused": turn("I cannot", stop="refusal"),
    "another stop": turn("Well", stop="other"),
    "cached": turn("Yes.", usage=Usage(7, 5, cache_read_tokens=100, cache_write_tokens=20)),
    "cited": turn(
        say("It rains", "."),
        Cite("https://example.org/rain", "Rain"),
        Cite("https://example.org/sky", ""),
        "And it snows.",
        Cite("https://example.org/snow", "Snow"),
    ),
}
BREAKABLE: tuple[Wire, ...] = ("anthropic", "chat", "responses")
"""The wires that stream arguments as text; Gemini sends them as an object."""


@every_wire
def test_the_same_request_gives_the_same_bytes(wire: Wire) -> None:
    def build() -> bytes:
        request = request_of(user("Hi"), CALLS, RESULTS, system="S", tools=(READ, WRITE), reasoning="low")
        body: bytes = model_for(wire).body(request)
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
    model = model_for(wire)
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


@every_wire
@pytest.mark.parametrize("case", TURNS)
async def test_the_deltas_join_to_the_blocks_they_belong_to(wire: Wire, case: str) -> None:
    async with FakeVendor([TURNS[case]]) as vendor:
        answer = await ask(vendor, wire)
    joined: dict[int, str] = {}
    for event in answer.events:
        if isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta):
            assert event.message == "mc_1"
            assert event.offset == len(joined.get(event.block, ""))
            joined[event.block] = joined.get(event.block, "") + event.text
    whole = {
        number: block.arguments if isinstance(block, ToolCall) else block.text  # type: ignore[union-attr]
        for number, block in enumerate(answer.done.content)
    }
    assert joined == {number: text for number, text in whole.items() if text}
    assert all(whole[number] or isinstance(answer.done.content[number], Reasoning) for number in whole)


@pytest.mark.parametrize("wire", BREAKABLE)
async def test_broken_arguments_are_passed_on_as_they_were_written(wire: Wire) -> None:
    broken = Call("read", ('{"path": "a', "b"), "call_with_broken_arguments")
    async with FakeVendor([turn(broken, stop="length")]) as vendor:
        done = (await ask(vendor, wire)).done
    assert done.content == (ToolCall("call_with_broken_arguments", "read", '{"path": "ab'),)
    assert done.stop_reason == "length"


@every_wire
async def test_a_call_id_that_was_used_before_is_replaced(wire: Wire) -> None:
    earlier = Message("assistant", (ToolCall("call_used_before_00000001", "read", "{}"),))
    result = Message("tool", (ToolResult("call_used_before_00000001", "read"),))
    async with FakeVendor([turn(call("read", {"path": "a"}, id="call_used_before_00000001"))]) as vendor:
        content = (await ask(vendor, wire, request_of(user("Hi"), earlier, result))).done.content
    assert isinstance(content[0], ToolCall) and content[0].id != "call_used_before_00000001"


@every_wire
async def test_cost_is_known_only_with_prices(wire: Wire) -> None:
    written = 0 if wire == "gemini" else 20  # Gemini does not report writes to the cache
    cached = turn("Yes.", usage=Usage(7, 5, cache_read_tokens=100, cache_write_tokens=written))
    prices = Prices(input=1, output=10, cache_read=0.1, cache_write=2)
    costs = []
    async with FakeVendor([cached, cached]) as vendor:
        for settings in (ModelProfile(), ModelProfile(prices=prices)):
            model = load_model(
                f"{WIRES[wire].partition('/')[0]}/unknown-model",
                wire=wire,
                base_url=vendor.base_url(wire),
                api_key=KEY,
                environment={},
                settings=settings,
            )
            costs.append((await answer_of(model, request_of())).done.usage.cost)
            await model.aclose()
    assert costs == [None, pytest.approx((7 * 1 + 5 * 10 + 100 * 0.1 + written * 2) / 1e6)]


@pytest.mark.parametrize("wire", ["chat", "responses", "gemini"])
async def test_unreported_usage_is_unknown(wire: Wire) -> None:
    async with FakeVendor([turn("Hi", usage=None)]) as vendor:
        assert (await ask(vendor, wire)).done.usage == UNKNOWN_USAGE


@every_wire
async def test_the_request_id_comes_from_the_headers(wire: Wire) -> None:
    async with FakeVendor([turn("Hi")]) as vendor:
        assert (await ask(vendor, wire)).done.request_id == "req_0001"


@every_wire
async def test_connections_are_used_again_for_the_next_request(wire: Wire) -> None:
    async with FakeVendor([turn("One"), turn("Two"), turn("Three")]) as vendor:
        model = model_for(wire, vendor.base_url(wire))
        for _ in range(3):
            assert (await answer_of(model, request_of())).done.stop_reason == "end"
        await model.aclose()
        assert vendor.connections == 1


@every_wire
async def test_the_fake_vendor_takes_a_function_of_the_request(wire: Wire) -> None:
    field = {"responses": "input", "gemini": "contents"}.get(wire, "messages")

    def script(request: dict[str, Any]) -> Turn:
        return turn(f"{len(request[field])} messages, tools: {'tools' in request}")

    async with FakeVendor(script) as vendor:
        done = (await ask(vendor, wire, request_of(tools=(READ, WRITE)))).done
    assert done.content == (Text("1 messages, tools: True"),)


@every_wire
@pytest.mark.parametrize("case", AWKWARD)
async def test_an_awkward_transcript_is_accepted(wire: Wire, case: str) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, wire, request_of(*AWKWARD[case], tools=(READ,)))
    assert answer.done.content == (Text("ok"),)


@every_wire
async def test_the_fake_vendor_refuses_a_call_without_its_result(wire: Wire) -> None:
    word = {"gemini": "function response", "responses": "call"}.get(wire, "tool")
    async with FakeVendor([turn("ok")]) as vendor:
        for messages in ([user("Hi"), CALLS], [user("Hi"), CALLS, user("x")], [user("Hi"), RESULTS]):
            failure = (await ask(vendor, wire, request_of(*messages))).failure.failure
            assert failure.kind == "invalid_request" and word in failure.message
