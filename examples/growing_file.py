"""Displays a file while the model is still writing it."""

import asyncio

from ostler import Agent, events, tool
from ostler.history.partial_json import StreamingString


@tool(kind="edit")
def save(path: str, content: str) -> str:
    """Saves a text."""
    return f"saved {len(content)} characters as {path}"


async def main() -> None:
    growing: dict[str, StreamingString] = {}
    async with Agent(tools=[save]) as agent:
        async for event in agent.stream("Write a haiku into haiku.txt"):
            match event:
                case events.ToolInputStarted(call=call):
                    growing[call] = StreamingString("content")
                case events.ToolInputDelta(call=call, text=text):
                    print(growing[call].feed(text), end="", flush=True)
                case events.ToolResultFact(content=(block, *_)):
                    print(f"\n{block.text}")


asyncio.run(main())
