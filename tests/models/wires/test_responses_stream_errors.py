"""Errors on the Responses wire: refusals, errors in the stream, and broken streams."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from ostler.schema.events import TextDelta
from ostler.testkit.vendors import FakeVendor, Refusal, Trouble, say, turn
from tests.models.wires.responses_cases import MODEL, ask, delta, read
from tests.models.wires.wire_cases import KEY


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_encrypted_content", "invalid_request"),
        (400, "context_length_exceeded", "context_overflow"),
        (401, "invalid_api_key", "authentication_failed"),
        (403, "", "permission_denied"),
        (404, "model_not_found", "model_not_found"),
        (429, "rate_limit_exceeded", "rate_limited"),
        (500, "", "server_failed"),
        (503, "server_is_overloaded", "overloaded"),
    ],
)
async def test_every_status_has_its_failure_with_responses(status: int, code: str, kind: str) -> None:
    async with FakeVendor([Refusal(status, "the vendor's own words", code)]) as vendor:
        failure = (await ask(vendor)).failure.failure
    assert (failure.kind, failure.status, failure.stream_opened) == (kind, status, False)
    assert "the vendor's own words" in failure.message and failure.request_id == "req_0001"


FAILED = {
    "rate_limit_exceeded": "rate_limited",
    "insufficient_quota": "rate_limited",
    "too_many_requests": "rate_limited",
    "context_length_exceeded": "context_overflow",
    "server_error": "server_failed",
    "server_is_overloaded": "overloaded",
    "invalid_prompt": "invalid_request",
    "image_too_large": "invalid_request",
    "misalignment_policy_violation": "invalid_request",
    "something_new": "server_failed",
}


@pytest.mark.parametrize("code", FAILED)
@pytest.mark.parametrize("shape", ["failed", "error", "nested"])
async def test_an_error_inside_the_stream_has_its_failure_in_every_shape(code: str, shape: str) -> None:
    error: dict[str, Any] = {"code": code, "message": "what went wrong"}
    usage = {"input_tokens": 7, "output_tokens": 2}
    event: dict[str, Any] = {
        "failed": {"type": "response.failed", "response": {"id": "resp_1", "error": error, "usage": usage}},
        "error": {"type": "error", **error, "param": None, "sequence_number": 3},
        "nested": {"type": "error", "error": {**error, "type": code}, "sequence_number": 3},
    }[shape]
    answer = await read(delta("output_text", "Hi"), event, delta("output_text", " more"))
    failure = answer.failure.failure
    assert (failure.kind, failure.code) == (FAILED[code], code)
    assert failure.stream_opened and "what went wrong" in failure.message
    assert answer.failure.usage.input_tokens == (7 if shape == "failed" else 0)
    assert [event.text for event in answer.events if isinstance(event, TextDelta)] == ["Hi"]


async def test_an_error_outside_the_wires_events_is_reported() -> None:
    event = {"type": "", "error": {"message": "the gateway gave up", "code": 503}}
    failure = (await read(event, named=False)).failure.failure
    assert failure.kind == "overloaded" and "the gateway gave up" in failure.message


async def test_the_sdk_fails_where_the_fake_vendor_reports_an_error() -> None:
    answer = turn(say(*"abcd"), trouble=Trouble("error", 4, code="server_error", message="what went wrong"))
    async with (
        FakeVendor([answer, answer]) as vendor,
        openai.AsyncOpenAI(base_url=vendor.chat_url, api_key=KEY, max_retries=0) as client,
    ):
        stream = await client.responses.create(model=MODEL, input="Hi", stream=True)
        with pytest.raises(openai.APIError, match="what went wrong"):
            async for _ in stream:
                pass
        assert "what went wrong" in (await ask(vendor)).failure.failure.message


async def test_a_failure_without_a_reason_is_still_one() -> None:
    failure = (await read({"type": "response.failed", "response": {"error": None}})).failure.failure
    assert failure.kind == "server_failed" and "no reason given" in failure.message


@pytest.mark.parametrize("kind", ["cut", "end", "malformed"])
@pytest.mark.parametrize("after", [0, 1, 3, 5])
async def test_an_answer_that_breaks_off_is_a_failure(kind: Any, after: int) -> None:
    async with FakeVendor([turn(say(*"abcdefgh"), trouble=Trouble(kind, after))]) as vendor:
        answer = await ask(vendor)
    assert answer.failure.failure.kind == "stream_broken" and answer.failure.failure.stream_opened
    text = "".join(event.text for event in answer.events if isinstance(event, TextDelta))
    assert "abcdefgh".startswith(text) and bool(text) == (after > 3)


async def test_a_key_in_any_header_is_in_no_failure() -> None:
    error_text = f"bad key {KEY} was given"
    trouble = Trouble("error", 2, code=KEY, message=error_text)
    async with FakeVendor([Refusal(401, error_text, code=KEY), turn("abc", trouble=trouble)]) as vendor:
        for header in ("authorization", "api-key"):
            assert KEY[:7] not in repr((await ask(vendor, key_header=header)).failure)
