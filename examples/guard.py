"""A guard: code that checks every call before it runs, and may refuse or rewrite it."""

from ostler import Agent, Hook, tool
from ostler.core.hooks import PlannedCall, Refuse, Rewrite


@tool(kind="edit")
def pay(account: str, euros: int) -> str:
    """Pays money to an account."""
    return f"paid {euros} euros to {account}"


def careful(planned: PlannedCall) -> Refuse | Rewrite | None:
    if planned.arguments["account"] != "rent":
        return Refuse("only the rent may be paid")
    if planned.arguments["euros"] > 900:
        return Rewrite({**planned.arguments, "euros": 900})
    return None


agent = Agent(tools=[pay], hooks=[Hook("before_tool", careful, guard=True, name="careful")])
print(agent.run_sync("Pay the rent, and something for the ice cream.").text)
for message in agent.messages:
    for block in message.content:
        if block.__class__.__name__ == "ToolResult":
            print(f"{block.name}: {block.content[0].text}")
