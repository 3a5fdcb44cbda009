"""Streams that were cut, mixed up or garbled: always an answer or a failure of the error tree, never more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.core.model import ModelDone, ModelFailure
from ostler.schema.errors import ERRORS, ModelError
from ostler.testkit.vendors import Cite, Think, call, say, turn
from ostler.testkit.vendors import anthropic as anthropic
from ostler.testkit.vendors import chat as chat
from tests.models.wires.wire_cases import WIRES, answer_of, model_for, request_of
from tests.support.seeds import FIRST_SEED

TURNS = (
    turn("Hello there."),
    turn(
        Think(("let me", " see"), signature="sig"), say("I will ", "look. 🐎"), call("read", {"path": "ä.py"})
    ),
    turn(call("read", {"path": "a"}), call("write", {"path": "b", "content": "x" * 300}), stop="length"),
    turn(Think(redacted="opaque"), "ok", usage=None),
    turn("It rains.", Cite("https://example.org/rain", "Rain"), stop="refusal"),
)
DEEP = b'{"type":"error","error":' + b"[" * 3000 + b"]" * 3000 + b"}"
"""A frame whose value is nested too deeply to be read."""


class Canned:
    """A transport that answers with these reads."""

    def __init__(self, reads: list[bytes]) -> None:
        self.status = 200
        self.is_complete = False
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._reads = filter(None, reads)

    def prepare(self, url: str) -> None:
        pass

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        return self

    async def read(self) -> bytes:
        return next(self._reads, b"")

    async def aclose(self) -> None:
        pass


def garbled(wire: str, random: Random) -> list[bytes]:
    """The reads of an answer after a few accidents."""
    module = chat if wire == "chat" else anthropic
    frames = list(module.frames(random.choice(TURNS), {"model": "m"}, 1))
    for _ in range(random.randint(0, 4)):
        place = random.randrange(len(frames)) if frames else 0
        match random.randrange(11):
            case 0:
                del frames[place : place + random.randint(1, 3)]
            case 1:
                frames.insert(place, random.choice(frames) if frames else b"data: {}\n\n")
            case 2:
                random.shuffle(frames)
            case 3:
                frames.insert(place, random.randbytes(random.randint(0, 60)))
            case 4:
                frames.insert(place, b'event: surprise\ndata: {"type":"surprise","n":[{}]}\n\n')
            case 5:
                frames.insert(place, b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}\n\n')
            case 7:
                frames.insert(place, b"\n\n" * random.randint(0, 3))
            case 8:
                frames.insert(place, b"data: " + DEEP + b"\n\n")
            case 9 if frames:
                # Bytes that are no UTF-8, within the strings of a frame that is valid otherwise.
                frames[place] = frames[place].replace(b':"', b':"\xff\xfe')
            case 10 if frames:
                frames[place] = frames[place].replace(b':"', b':"' + b"x" * 100_000)
            case 6 if frames and frames[place]:
                garbage = bytearray(frames[place])
                garbage[random.randrange(len(garbage))] = random.randrange(256)
                frames[place] = bytes(garbage)
    whole = b"".join(frames)[: random.randint(0, 4000) if random.random() < 0.3 else None]
    reads = []
    while whole:
        size = random.choice((1, 3, 17, 64, 500) if len(whole) < 5000 else (500, 70_000))
        reads.append(whole[:size])
        whole = whole[size:]
    return reads


def check(wire: str, seed: int) -> None:
    check_reads(wire, garbled(wire, Random(seed)))


def check_reads(wire: str, reads: list[bytes]) -> None:
    answer = asyncio.run(answer_of(model_for(wire, transport=Canned(reads)), request_of()))
    if isinstance(answer.last, ModelFailure):
        assert issubclass(ERRORS[answer.last.failure.kind], ModelError)
        message = answer.last.failure.message
        assert "\n" not in message and "exchange failed" not in message, (
            "the decoder has to know its failures"
        )
    else:
        assert isinstance(answer.last, ModelDone)


@pytest.mark.parametrize("wire", WIRES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_a_garbled_stream_ends_with_an_answer_or_a_failure(wire: str, seed: int) -> None:
    check(wire, seed)


@pytest.mark.parametrize("wire", WIRES)
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
def test_a_stream_that_is_none_ends_with_an_answer_or_a_failure(wire: str, reads: list[bytes]) -> None:
    check_reads(wire, reads)


@pytest.mark.long
@pytest.mark.parametrize("wire", WIRES)
def test_many_garbled_streams_end_with_an_answer_or_a_failure(wire: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + 15_000):
        check(wire, seed)
