"""The tool by which a model hands a task to a child, perhaps to a named agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from ostler.kernel.child import ChildRequest, ExecutionPolicy, HistoryPolicy
from ostler.kernel.tool import ToolContext, ToolSpec, checked
from ostler.vocabulary.display import Display
from ostler.vocabulary.errors import InvalidArguments
from ostler.vocabulary.messages import as_content
from ostler.vocabulary.outcomes import Failed, Ok

if TYPE_CHECKING:  # most projects have none
    from ostler.runs.agents import AgentSpec

NAME = "delegate"

ABOUT = (
    "Hands a task to a subagent that works on it alone, with your tools, and returns its answer. "
    "It knows nothing of this conversation: say all that it needs to know. "
    "Several tasks that do not depend on each other can be handed out at once."
)

TASK = {"type": "string", "description": "what to do, and everything needed to do it"}

CHILD_NOTE = (
    "You work on a task that another agent handed to you. Nobody can be asked for more: "
    "do it with what you have, and answer with the result, complete and to the point."
)


class Delegation(msgspec.Struct, frozen=True):
    task: str
    agent: str = ""


class DelegateTool:
    """Runs each call as a child; the named agents are those that the project and the user have."""

    def __init__(self, agents: dict[str, AgentSpec]) -> None:
        self._agents = agents
        names = "".join(f"\n- {agent.name}: {agent.description}" for agent in agents.values())
        about = f"{ABOUT}\nThe agents are:{names}" if agents else ABOUT
        properties: dict[str, Any] = {"task": TASK}
        if agents:
            properties["agent"] = {
                "type": "string",
                "enum": ["", *agents],
                "default": "",
                "description": "who shall do it; empty for one like you",
            }
        self.spec = ToolSpec(
            name=NAME,
            description=about,
            schema={
                "type": "object",
                "properties": properties,
                "required": ["task"],
                "additionalProperties": False,
            },
            kind="agent",
            parallel=True,
            reattaches=True,
            display=Display(view="agent", title="{agent} {task}", icon="agent"),
        )

    def validate(self, arguments: dict[str, Any]) -> Delegation:
        delegation = checked(arguments, Delegation, NAME)
        if not delegation.task.strip():
            raise InvalidArguments("delegate needs a task: say what is to be done")
        if delegation.agent and delegation.agent not in self._agents:
            known = ", ".join(self._agents) or "none"
            raise InvalidArguments(f"there is no agent {delegation.agent!r}; the agents are: {known}")
        return delegation

    async def run(self, arguments: Delegation, context: ToolContext) -> Ok | Failed:
        from ostler.runs.children import outcome_of

        return outcome_of(await context.run_child(self.request(arguments)))

    def request(self, delegation: Delegation) -> ChildRequest:
        """What the child is asked that a delegation makes."""
        agent = self._agents.get(delegation.agent)
        prompt = as_content(delegation.task)
        if agent is None:
            return ChildRequest(prompt, execution=ExecutionPolicy(append_system=CHILD_NOTE))
        return ChildRequest(
            prompt,
            agent=agent.name,
            history=HistoryPolicy(agent.history),
            execution=ExecutionPolicy(
                model=agent.model,
                tools=agent.tools,
                system=agent.system,
                append_system=CHILD_NOTE,
                limits=agent.limits,
                judge=agent.judge,
                context=agent.context,
            ),
        )
