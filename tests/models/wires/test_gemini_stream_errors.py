"""Errors on the Gemini wire: refusals in Google's format, and broken streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from ostler.schema.events import TextDelta
from ostler.testkit.vendors import FakeVendor, Refusal, Trouble, say, turn
from tests.models.wires.gemini_cases import ask, decoded, frame, sdk_reads


def refusal(code: int, status: str, message: str = "no", **detail: Any) -> Refusal:
    details = [{"@type": "type.googleapis.com/google.rpc.Help", "links": []}, detail]
    error = {"code": code, "message": message, "status": status, "details": details}
    return Refusal(code, body=json.dumps({"error": error}))


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (
            refusal(400, "INVALID_ARGUMENT", reason="API_KEY_INVALID"),
            "authentication_failed",
            "API_KEY_INVALID",
        ),
        (refusal(400, "INVALID_ARGUMENT"), "invalid_request", "INVALID_ARGUMENT"),
        (refusal(400, "FAILED_PRECONDITION"), "invalid_request", "FAILED_PRECONDITION"),
        (refusal(403, "PERMISSION_DENIED"), "permission_denied", "PERMISSION_DENIED"),
        (refusal(404, "NOT_FOUND"), "model_not_found", "NOT_FOUND"),
        (refusal(429, "RESOURCE_EXHAUSTED"), "rate_limited", "RESOURCE_EXHAUSTED"),
        (refusal(500, "INTERNAL"), "server_failed", "INTERNAL"),
        (refusal(503, "UNAVAILABLE"), "overloaded", "UNAVAILABLE"),
        (refusal(504, "DEADLINE_EXCEEDED"), "server_failed", "DEADLINE_EXCEEDED"),
        (
            refusal(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
            ),
            "context_overflow",
            "INVALID_ARGUMENT",
        ),
    ],
)
async def test_a_google_error_maps_to_its_failure(answer: Refusal, kind: str, code: str) -> None:
    async with FakeVendor([answer]) as vendor:
        failure = (await ask(vendor)).failure.failure
    assert (failure.kind, failure.code) == (kind, code)


@pytest.mark.parametrize(
    ("delay", "headers", "seconds"),
    [
        ("12s", {}, 12.0),
        ("0.25s", {}, 0.25),
        ("soon", {}, None),
        (3, {}, None),
        ("12s", {"retry-after": "7"}, 7.0),
    ],
)
async def test_the_retry_delay_of_google_is_used(
    delay: Any, headers: dict[str, str], seconds: float | None
) -> None:
    limited = refusal(429, "RESOURCE_EXHAUSTED", retryDelay=delay)
    async with FakeVendor([Refusal(429, body=limited.body, headers=headers)]) as vendor:
        assert (await ask(vendor)).failure.failure.retry_after == seconds


async def test_the_sdk_reads_the_same_error_from_the_server() -> None:
    async with FakeVendor([Refusal(429, "slow down")] * 2) as vendor:
        with pytest.raises(APIError) as caught:
            await sdk_reads(vendor)
        failure = (await ask(vendor)).failure.failure
    assert (
        (failure.status, failure.code)
        == (caught.value.code, caught.value.status)
        == (429, "RESOURCE_EXHAUSTED")
    )
    assert str(caught.value.message) in failure.message


@pytest.mark.parametrize("kind", ["cut", "end", "malformed"])
@pytest.mark.parametrize("after", [0, 1, 3, 5])
async def test_an_answer_that_breaks_off_is_a_failure(kind: Any, after: int) -> None:
    async with FakeVendor([turn(say(*"abcdefgh"), trouble=Trouble(kind, after))]) as vendor:
        answer = await ask(vendor)
    assert answer.failure.failure.kind == "stream_broken" and answer.failure.failure.stream_opened
    text = "".join(event.text for event in answer.events if isinstance(event, TextDelta))
    assert text == "abcdefgh"[:after]
    assert answer.failure.usage.input_tokens == (10 if after else 0)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("UNAVAILABLE", "overloaded"),
        ("RESOURCE_EXHAUSTED", "rate_limited"),
        ("INTERNAL", "server_failed"),
        ("SOMETHING_NEW", "server_failed"),
        ("context_length_exceeded", "context_overflow"),
    ],
)
async def test_an_error_inside_the_stream_has_its_failure(code: str, kind: str) -> None:
    trouble = Trouble("error", 4, code=code, message="what went wrong")
    async with FakeVendor([turn(say(*"abcdefgh"), trouble=trouble)]) as vendor:
        failure = (await ask(vendor)).failure.failure
    assert (failure.kind, failure.code) == (kind, code)
    assert failure.stream_opened and "what went wrong" in failure.message


ODD = (
    b'data: {"candidates":[{}]}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{},{"functionCall":{}},{"inlineData":{}}]}}]}\n\n',
    b'data: {"candidates":null,"usageMetadata":{"promptTokenCount":-3,"cachedContentTokenCount":9}}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"\xff","args":[1]}}]}}]}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":"\xff"}}}]}}]}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":"\\ud800"}}}]}}]}\n\n',
    b'data: {"candidates":[{"content":{"parts":[{"text":"\xed\xa0\x80"}]}}]}\n\n',
    b'data: {"candidates":[{"finishReason":7}]}\n\n',
    b'data: {"error":null}\n\n',
    b'data: {"error":"odd"}\n\n',
    b'data: {"error":{"code":"429","details":[[],{"retryDelay":{}}]}}\n\n',
    b"data: []\n\n",
    b"data: \n\n",
    b'event: surprise\ndata: {"n":[{}]}\n\n',
    frame({"text": "x" * 300_000}),
)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_frame_ends_with_an_answer_or_a_failure(odd: bytes) -> None:
    assert decoded([odd, frame(finish="STOP")]).last


@given(reads=st.lists(st.binary(max_size=80), max_size=8))
def test_noise_ends_with_a_failure(reads: list[bytes]) -> None:
    assert decoded(reads).failure.failure.kind == "stream_broken"
