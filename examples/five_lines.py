"""An agent with a typed tool, in five lines."""

from ostler import Agent, tool


@tool
def population(city: str) -> int:
    """How many people live in a city."""
    return {"Lisbon": 545_796, "Porto": 231_800}[city]


print(Agent(tools=[population]).run_sync("How many people live in Lisbon?").text)
