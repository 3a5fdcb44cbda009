"""Ostler as a library, for the measures in process: the floor's tools, with the durable log on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ostler import Agent, tool


@tool(parallel=True)
async def echo(text: str) -> str:
    """Says it again."""
    return text


@tool(parallel=True)
async def nap(seconds: float) -> str:
    """Rests."""
    await asyncio.sleep(seconds)
    return "rested"


@asynccontextmanager
async def opened(store: str) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """A function that runs one agent, each in a session of its own, all in one file."""

    async def run(url: str) -> str:
        agent = Agent("openai/bench", base_url=url, api_key="k", tools=[echo, nap], store=store)
        async with agent:
            return (await agent.run("begin")).check().text

    yield run
