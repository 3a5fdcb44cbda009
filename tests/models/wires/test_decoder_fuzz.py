"""Streams that are cut, reordered or garbled always end in an answer or a `ModelError`."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.core.model import ModelDone, ModelFailure
from ostler.models.providers import Wire
from ostler.schema.errors import ERRORS, ModelError
from ostler.testkit.vendors import Cite, Think, anthropic, call, chat, gemini, responses, say, turn
from tests.models.wires.responses_cases import Canned
from tests.models.wires.test_gemini_stream_errors import ODD as GEMINI_ODD
from tests.models.wires.wire_cases import answer_of, every_wire, model_for, request_of
from tests.support.seeds import FIRST_SEED

TURNS = (
    turn("Hello there."),
    turn(
        Think(("let me", " see"), signature="sig"), say("I will ", "look. 🐎"), call("read", {"path": "ä.py"})
    ),
    turn(call("read", {"path": "a"}), call("write", {"path": "b", "content": "x" * 300}), stop="length"),
    turn(Think(redacted="opaque"), "ok", usage=None),
    turn("It rains.", Cite("https://example.org/rain", "Rain"), stop="refusal"),
    turn(stop="refusal"),
)
DEEP = b'{"type":"error","error":' + b"[" * 3000 + b"]" * 3000 + b"}"
"""A frame whose value is nested too deeply to be read."""


SURPRISES = (
    b"",
    b"data:\n\n",
    b"data: []\n\n",
    b"\n\n" * 3,
    b'event: surprise\ndata: {"type":"surprise","n":[{}]}\n\n',
    b"data: " + DEEP + b"\n\n",
)
RESPONSES_ODD = (
    b"",
    b"data:\n\n",
    b"event: response.output_item.done\ndata: {}\n\n",
    b'event: surprise\ndata: {"type":"surprise","n":[{}]}\n\n',
    b'data: {"type":"response.output_item.added","item":{"type":"function_call"}}\n\n',
    b'event: response.output_item.done\ndata: {"item":{"type":"message","content":null}}\n\n',
    b'data: {"type":"response.output_text.delta","output_index":-3,"delta":"\xff\xfe"}\n\n',
    b'event: response.output_text.delta\ndata: {"delta":"' + b"x" * 2_000_000 + b'"}\n\n',
    b'event: response.reasoning_summary_text.delta\ndata: {"delta":"\\ud800","summary_index":99}\n\n',
    b'data: {"type":"response.completed","response":{"output":[{"type":"reasoning"},7]}}\n\n',
    b'data: {"type":"response.incomplete","response":{"incomplete_details":{}}}\n\n',
)
ODD: dict[Wire, tuple[bytes, ...]] = {
    "anthropic": SURPRISES,
    "chat": (*SURPRISES, b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}\n\n'),
    "responses": (*SURPRISES, *RESPONSES_ODD),
    "gemini": (*SURPRISES, *GEMINI_ODD),
}
"""Frames that no vendor should send."""
VENDORS: dict[Wire, Any] = {
    "anthropic": anthropic,
    "chat": chat,
    "responses": responses,
    "gemini": gemini,
}


def garbled(wire: Wire, random: Random) -> list[bytes]:
    """The reads of an answer after a few accidents."""
    request = {"model": "m", "include": ["reasoning.encrypted_content"]}
    frames = list(VENDORS[wire].frames(random.choice(TURNS), request, 1))
    for _ in range(random.randint(0, 4)):
        place = random.randrange(len(frames)) if frames else 0
        match random.randrange(9):
            case 0:
                del frames[place : place + random.randint(1, 3)]
            case 1:
                frames.insert(place, random.choice(frames) if frames else b"data: {}\n\n")
            case 2:
                random.shuffle(frames)
            case 3:
                frames.insert(place, random.randbytes(random.randint(0, 60)))
            case 4 | 5:
                frames.insert(place, random.choice(ODD[wire]))
            case 6 if frames:
                # Bytes that are not UTF-8, within the strings of an otherwise valid frame.
                frames[place] = frames[place].replace(b':"', b':"\xff\xfe')
            case 7 if frames:
                frames[place] = frames[place].replace(b':"', b':"' + b"x" * 100_000)
            case 8 if frames and frames[place]:
                garbage = bytearray(frames[place])
                garbage[random.randrange(len(garbage))] = random.randrange(256)
                frames[place] = bytes(garbage)
    whole = b"".join(frames)[: random.randint(0, 9000) if random.random() < 0.3 else None]
    reads = []
    while whole:
        size = random.choice((1, 3, 17, 64, 500) if len(whole) < 5000 else (500, 70_000, 2_000_000))
        reads.append(whole[:size])
        whole = whole[size:]
    return reads


def check(wire: Wire, seed: int) -> None:
    check_reads(wire, garbled(wire, Random(seed)))


def check_reads(wire: Wire, reads: list[bytes]) -> None:
    answer = asyncio.run(answer_of(model_for(wire, transport=Canned(reads)), request_of()))
    if isinstance(answer.last, ModelFailure):
        assert issubclass(ERRORS[answer.last.failure.kind], ModelError)
        message = answer.last.failure.message
        assert "\n" not in message and "exchange failed" not in message, (
            "the decoder has to know its failures"
        )
    else:
        assert isinstance(answer.last, ModelDone)


@every_wire
@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_a_garbled_stream_ends_with_an_answer_or_a_failure(wire: Wire, seed: int) -> None:
    check(wire, seed)


@every_wire
@pytest.mark.parametrize(
    "reads",
    [
        [],
        [b""],
        [b"\n\n\n"],
        [b"\x00" * 100],
        [b"data: \xff\xfe\n\n"],
        [b'data: {"type":"message_stop"}\n\n', b"data: [DONE]\n\n"],
        [b"data: null\n\ndata: 1\n\ndata: []\n\n"],
        [b"data: " + DEEP + b"\n\n"],
        [b'data: {"type": "' + b"x" * 2_000_000 + b'"}\n\n'],
    ],
)
def test_a_stream_that_is_none_ends_with_an_answer_or_a_failure(wire: Wire, reads: list[bytes]) -> None:
    check_reads(wire, reads)


@pytest.mark.long
@every_wire
def test_many_garbled_streams_end_with_an_answer_or_a_failure(wire: Wire) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 15_000):
        check(wire, seed)
