"""An agent that delegates parts of its work to children, all within one budget."""

import asyncio

from ostler import Agent, Limits, events, tool
from ostler.sessions.agents import DelegateTool


@tool(kind="read")
def rainfall(city: str) -> str:
    """How much rain falls in a city in a year."""
    return {"Bergen": "2250 mm", "Faro": "510 mm"}[city]


async def main() -> None:
    limits = Limits(steps=20, tokens=50_000, seconds=300, children=4)
    async with Agent(tools=[rainfall, DelegateTool({})], limits=limits) as agent:
        async for event in agent.stream("Does it rain more in Bergen or in Faro? Delegate each city."):
            match event:
                case events.ChildStarted(task=task):
                    print(f"→ {task}")
                case events.Warned(text=text):
                    print(f"! {text}")
                case events.TextDelta(text=text):
                    print(text, end="", flush=True)
                case events.RunEnded(status=status, own=own, children=children):
                    print(f"\n{status}: {own.steps} steps, and {children.steps} in {children.runs} children")


asyncio.run(main())
