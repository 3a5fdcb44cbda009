"""Ostler as a library, for the measures in process: the floor's tools, with the durable log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from ostler import Agent, tool


@tool(parallel=True)
async def echo(text: str) -> str:
    """Returns the text."""
    return text


@tool(parallel=True)
async def nap(seconds: float) -> str:
    """Sleeps."""
    await asyncio.sleep(seconds)
    return "slept"


@asynccontextmanager
async def agents(store: str) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """Yields a function that runs one agent, each in a new session, all in one file."""

    async def run(url: str) -> str:
        agent = Agent("openai/bench", base_url=url, api_key="k", tools=[echo, nap], store=store)
        async with agent:
            return (await agent.run("begin")).check().text

    yield run
