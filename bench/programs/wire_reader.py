"""Reads answers in this process and prints the CPU seconds of each.

Arguments: the side (`ours` or `sdk`), the wire, then the addresses. Each is read once before the clock
starts, so that start-up does not count.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from time import process_time

Read = Callable[[], Awaitable[None]]
MODELS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "chat": "openai/gpt-6.1-sol",
    "responses": "openai/gpt-6.1-sol",
    "gemini": "google/gemini-3.8-flash",
}


def main() -> None:
    _, side, wire, *urls = sys.argv
    print(json.dumps(asyncio.run(_cpu_seconds(side, wire, urls))))


async def _cpu_seconds(side: str, wire: str, urls: list[str]) -> list[float]:
    seconds = []
    for url in urls:
        read = _ours(wire, url) if side == "ours" else _sdk(wire, url)
        await read()
        seconds.append(min([await _cpu_of(read) for _ in range(3)]))
    return seconds


async def _cpu_of(read: Read) -> float:
    begin = process_time()
    await read()
    return process_time() - begin


def _ours(wire: str, url: str) -> Read:
    from ostler.core.model import ModelDone, ModelRequest
    from ostler.core.transcript import Transcript
    from ostler.models.factory import make_model
    from ostler.schema.messages import user

    model = make_model(MODELS[wire], base_url=url, api_key="k", wire=wire, environment={})  # type: ignore[arg-type]

    async def read() -> None:
        request = ModelRequest(id="mc_1", model=model.name, transcript=Transcript([user("Hello")]))
        events = [event async for batch in model.stream(request) for event in batch]
        assert isinstance(events[-1], ModelDone), events[-1]

    return read


def _sdk(wire: str, url: str) -> Read:
    name = MODELS[wire].partition("/")[2]
    if wire == "anthropic":
        from anthropic import AsyncAnthropic

        claude = AsyncAnthropic(api_key="k", base_url=url)

        async def read_messages() -> None:
            messages = [{"role": "user", "content": "Hello"}]
            async with claude.messages.stream(model=name, max_tokens=99, messages=messages) as stream:  # type: ignore[arg-type]
                async for _ in stream:
                    pass

        return read_messages
    if wire == "gemini":
        from google.genai import Client
        from google.genai.types import HttpOptions

        gemini = Client(api_key="k", http_options=HttpOptions(base_url=url, api_version="v1beta"))

        async def read_contents() -> None:
            async for _ in await gemini.aio.models.generate_content_stream(model=name, contents="Hello"):
                pass

        return read_contents
    from openai import AsyncOpenAI

    openai = AsyncOpenAI(api_key="k", base_url=url)

    async def read_responses() -> None:
        async for _ in await openai.responses.create(model=name, input="Hello", stream=True):
            pass

    async def read_chat() -> None:
        messages = [{"role": "user", "content": "Hello"}]
        async for _ in await openai.chat.completions.create(model=name, messages=messages, stream=True):  # type: ignore[union-attr,arg-type]
            pass

    return read_responses if wire == "responses" else read_chat
