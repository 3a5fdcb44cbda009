"""A session can switch to another model or provider."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.models.factory import make_model
from ostler.models.providers import Provider, Wire
from ostler.schema.messages import Image, Message, Text, as_content, user
from ostler.schema.outcomes import Ok
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.vendors import FakeVendor, call, turn
from ostler.testkit.vendors.script import Think
from tests.models.wires.wire_cases import KEY, answer_of, request_of

NAMES: dict[Wire, str] = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "chat": "deepseek/deepseek-flash",
    "responses": "openai/gpt-6.1-sol",
    "gemini": "google/gemini-4-argon",
}
PAIRS = [(one, other) for one in NAMES for other in NAMES]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
THOUGHT = "signature-of-the-first-vendor"


@tool(kind="read", parallel=True)
async def look(at: str) -> Ok:
    """Looks at something."""
    return Ok((Text(f"{at} is brown"), Image("image/png", PIXEL)))


def make(vendor: FakeVendor, wire: Wire) -> Any:
    return make_model(NAMES[wire], base_url=vendor.base_url(wire), api_key=KEY, wire=wire, environment={})


def first_answers() -> list[Any]:
    both = (call("look", {"at": "the horse"}), call("look", {"at": "the cart"}))
    return [
        turn(Think(("Let me", " see."), signature=THOUGHT), "I look.", *both),
        turn(Think(("Both.",), signature=THOUGHT), "Both are brown."),
    ]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[f"{one}-to-{other}" for one, other in PAIRS])
async def test_a_conversation_is_carried_from_wire_to_wire(one: Wire, other: Wire) -> None:
    async with FakeVendor(
        [*first_answers(), turn(call("look", {"at": "the dog"})), turn("Brown.")]
    ) as vendor:
        first, second = make(vendor, one), make(vendor, other)
        harness = Harness(first, make_model={"second": second}.__getitem__)
        harness.set_tools([look])
        session = await create_session(MemoryStore(), harness)
        await session.prompt(as_content(["What is this?", Image("image/png", PIXEL)]))
        harness.set_model("second")
        ended = await session.prompt(as_content("And the dog?"))
        await first.aclose()
        await second.aclose()
    assert ended.status == "completed", ended  # type: ignore[union-attr]
    options = [json.dumps(received.json) for received in vendor.requests]
    assert len(options) == 4, "the vendor refused none of them"
    for body in options[2:]:
        assert body.count(PIXEL) >= 3, "the person's picture and the two of the tool are still there"
        for words in ("the horse is brown", "the cart is brown", "Both are brown.", "And the dog?"):
            assert words in body
    thought = base64.b64encode(THOUGHT.encode()).decode() if one == "gemini" else THOUGHT
    if one != "chat":
        assert thought in options[1], "while a tool answers, its vendor gets its reasoning back"
    if one != other:
        assert thought not in options[2], "reasoning data goes back only to where it came from"
    usage = session.state.usage
    assert usage.input_tokens == 40, "the meter goes on counting"


@pytest.mark.parametrize("other", ["anthropic", "responses", "gemini", "chat"])
async def test_call_ids_that_a_vendor_refuses_are_made_to_fit(other: Wire) -> None:
    strange = "call:with/strange characters and a length of more than sixty-four of them, surely"
    answers = [turn(call("look", {"at": "it"}, id=strange)), turn("Seen."), turn("Yes.")]
    async with FakeVendor(answers) as vendor:
        first, second = make(vendor, "chat"), make(vendor, other)
        harness = Harness(first, make_model={"second": second}.__getitem__)
        harness.set_tools([look])
        session = await create_session(MemoryStore(), harness)
        await session.prompt(as_content("Look."))
        harness.set_model("second")
        ended = await session.prompt(as_content("Really?"))
        await first.aclose()
        await second.aclose()
    assert ended.status == "completed", ended  # type: ignore[union-attr]
    assert len(vendor.requests) == 3


@pytest.mark.parametrize("wire", NAMES)
async def test_a_picture_drawn_by_a_model_breaks_no_later_request(wire: Wire) -> None:
    drawn = Message("assistant", (Text("Here it is."), Image("image/png", PIXEL)))
    async with FakeVendor([turn("Thanks.")]) as vendor:
        model = make(vendor, wire)
        answer = await answer_of(model, request_of(user("Draw."), drawn, user("And now?")))
        await model.aclose()
    assert answer.done.content == (Text("Thanks."),)


@pytest.mark.parametrize("wire", NAMES)
async def test_reasoning_of_another_provider_is_not_sent(wire: Wire) -> None:
    async with FakeVendor([*first_answers(), turn("Yes.")]) as vendor:
        other = Provider(name="other", base_url=vendor.base_url(wire), wire=wire)
        name = NAMES[wire].partition("/")[2]
        first = make_model(f"other/{name}", api_key=KEY, environment={}, providers={"other": other})
        second = make(vendor, wire)
        harness = Harness(first, make_model={"second": second}.__getitem__)
        harness.set_tools([look])
        session = await create_session(MemoryStore(), harness)
        await session.prompt(as_content("What is this?"))
        harness.set_model("second")
        ended = await session.prompt(as_content("Really?"))
        await first.aclose()
        await second.aclose()
    assert ended.status == "completed", ended  # type: ignore[union-attr]
    signed = base64.b64encode(THOUGHT.encode()).decode() if wire == "gemini" else THOUGHT
    options = [json.dumps(received.json) for received in vendor.requests]
    assert signed in options[1] or wire == "chat"
    assert signed not in options[2]
