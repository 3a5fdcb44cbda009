"""Follows a run: text as it streams, tool calls as they start and end."""

import asyncio

from ostler import Agent, events, tool


@tool(kind="read", parallel=True)
async def temperature(city: str) -> str:
    """The temperature in a city right now."""
    await asyncio.sleep(0)
    return f"{len(city) * 3} degrees"


async def main() -> None:
    async with Agent(tools=[temperature]) as agent:
        async for event in agent.stream("Is it warmer in Oslo or in Faro?"):
            match event:
                case events.TextDelta(text=text):
                    print(text, end="", flush=True)
                case events.ToolCalled(name=name, arguments=arguments):
                    print(f"\n→ {name} {arguments}")
                case events.ToolResultFact(content=(block, *_)):
                    print(f"← {block.text}")
                case events.RunEnded(status=status, own=own):
                    print(f"\n{status} after {own.steps} steps, {own.usage.total_tokens} tokens")


asyncio.run(main())
