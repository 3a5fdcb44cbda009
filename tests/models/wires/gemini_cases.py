"""Helpers for the tests of the Gemini wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx2
import msgspec
from google import genai
from google.genai.types import GenerateContentResponse, HttpOptions

from ostler.core.model import ModelEvent, ModelRequest
from ostler.models.wires.gemini import GeminiModel
from ostler.models.wires.gemini_stream import GeminiDecoder
from ostler.testkit.vendors import FakeVendor
from tests.models.wires.wire_cases import KEY, Answer, answer_of, request_of

MODEL = "gemini-3.5-flash"
OLDER = "gemini-2.5-flash"


async def sdk_reads(
    vendor: FakeVendor,
    *,
    model: str = MODEL,
    contents: Any = "Hello",
    config: Any = None,
    version: str = "v1",
) -> list[GenerateContentResponse]:
    """The chunks of an answer as Google's SDK hands them out."""
    # Left to itself the SDK takes a library whose warnings would be errors here.
    async with httpx2.AsyncClient() as carrier:
        options = HttpOptions(base_url=vendor.gemini_url, api_version=version, httpx_async_client=carrier)
        client = genai.Client(api_key=KEY, http_options=options)
        stream = await client.aio.models.generate_content_stream(
            model=model, contents=contents, config=config
        )
        try:
            return [chunk async for chunk in stream]
        finally:
            client.close()


async def ask(
    vendor: FakeVendor, request: ModelRequest | None = None, *, model: str = MODEL, **options: Any
) -> Answer:
    wire_model = GeminiModel(model, **{"base_url": vendor.gemini_url, "api_key": KEY, **options})
    try:
        return await answer_of(wire_model, request or request_of())
    finally:
        await wire_model.aclose()


def sent(request: ModelRequest, model: str = MODEL, **options: Any) -> dict[str, Any]:
    return msgspec.json.decode(GeminiModel(model, **options).body(request), type=dict[str, Any])


def decoded(reads: Iterable[bytes]) -> Answer:
    """What the decoder makes of these reads, without anybody around it who would catch an exception."""
    decoder = GeminiDecoder(request_of(), "google", MODEL, None)
    events: list[ModelEvent] = []
    for read in reads:
        events += decoder.feed(read)
        if decoder.finished:
            break
    else:
        events += decoder.end()
    last: Any = events[-1]
    return Answer(events, last)


def frame(*parts: dict[str, Any], finish: str = "", candidate: Any = None, **fields: Any) -> bytes:
    first: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, **(candidate or {})}
    if finish:
        first["finishReason"] = finish
    return b"data: %s\r\n\r\n" % msgspec.json.encode({"candidates": [first], **fields})
