"""`context.tools`: listing and disabling tools."""

from __future__ import annotations

from typing import Any

from ostler.context.skills import SkillTool
from ostler.core.children import ChildRequest
from ostler.core.function_tool import ToolClass, tool
from ostler.core.hooks import Hook, StepPlan
from ostler.core.tool import ToolContext
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.messages import as_content, text_of
from ostler.sessions.agents import DelegateTool
from ostler.tools import builtin_tool
from tests.support.extension_session import extension, facts_of, session_with


@tool
def look() -> str:
    "Looks."
    return "nothing"


class Touch(ToolClass):
    "Touches."

    async def run(self, context: ToolContext) -> str:
        return "touched"


def bringing(ostler: ExtensionAPI) -> None:
    @ostler.tool
    def deploy() -> str:
        "Deploys."
        return "deployed"


def tools_for(*tools: Any) -> dict[str, Any]:
    return {one.spec.name: one for one in tools}


async def test_every_tool_is_listed_with_its_source() -> None:
    tools = tools_for(builtin_tool("read"), DelegateTool({}), SkillTool({}), look, Touch)
    session, host = await session_with(ScriptedModel([]), extension("mine", bringing), tools=tools)
    context = host.sessions[session.id].channels["mine"].context
    listed = context.tools.all()
    assert {one.name: one.source for one in listed} == {
        "read": "built-in",
        "delegate": "built-in",
        "skill": "built-in",
        "look": "host",
        Touch.spec.name: "host",
        "deploy": "extension",
    }
    assert [one.name for one in listed] == sorted(tools | {"deploy": None})
    assert {one.name: one.description for one in listed}["deploy"] == "Deploys."
    assert all(one.enabled for one in listed)
    await session.close()


async def test_a_tool_that_is_switched_off_is_not_offered_and_a_call_to_it_is_refused() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("plan")
        def plan(arguments: str, context: ExtensionContext) -> str:
            missing = context.tools.set_active(["look", "nope"] if arguments else None)
            off = [one.name for one in context.tools.all() if not one.enabled]
            return f"off: {off}, unknown: {list(missing)}"

    model = ScriptedModel([Call("write"), "done", Call("write"), "done"])
    write = tool(name="write", description="Writes.")(lambda: "written")
    session, host = await session_with(model, extension("mine", setup), tools=tools_for(look, write))
    assert await host.run_command(session, "plan", "on") == "off: ['write'], unknown: ['nope']"
    await session.prompt(as_content("go"))
    assert [offer.name for offer in model.requests[0].tools] == ["look"]
    (refused,) = await facts_of(session, "tool_result")
    assert text_of(refused.content) == 'the tool "write" is switched off; the tools are: look'
    assert await host.run_command(session, "plan", "") == "off: [], unknown: []"
    await session.prompt(as_content("go"))
    assert text_of((await facts_of(session, "tool_result"))[-1].content) == "written"
    await session.close()


async def test_a_disabled_tool_is_disabled_from_the_next_step_on() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        async def limit(call: Any, context: ExtensionContext) -> None:
            context.tools.set_active([])

    model = ScriptedModel([Call("look"), "done"])
    session, _ = await session_with(model, extension("mine", setup), tools=tools_for(look))
    await session.prompt(as_content("go"))
    assert [len(request.tools) for request in model.requests] == [1, 0]
    assert [result.failed for result in await facts_of(session, "tool_result")] == [None]
    await session.close()


async def test_a_disabled_tool_is_disabled_in_children_too() -> None:
    @tool
    async def hand_over(context: ToolContext) -> str:
        "Has a child do it."
        return (await context.run_child(ChildRequest(as_content("look")))).text

    model = ScriptedModel([Call("hand_over"), "the child's", "done"])
    session, host = await session_with(
        model, extension("mine", lambda ostler: None), tools=tools_for(look, hand_over)
    )
    host.sessions[session.id].channels["mine"].context.tools.set_active(["hand_over"])
    await session.prompt(as_content("go"))
    assert [[offer.name for offer in request.tools] for request in model.requests] == [["hand_over"]] * 3
    await session.close()


async def test_a_tool_must_be_allowed_by_all_extensions_and_a_reload_clears_a_list() -> None:
    model = ScriptedModel(["one", "two"])
    extensions = [extension(name, lambda ostler: None) for name in ("first", "second")]
    session, host = await session_with(model, *extensions, tools=tools_for(look, Touch))
    extension_session = host.sessions[session.id]
    for name, allowed in (("first", ["look"]), ("second", ["look", Touch.spec.name])):
        extension_session.channels[name].context.tools.set_active(allowed)
    await session.prompt(as_content("go"))
    assert [offer.name for offer in model.requests[0].tools] == ["look"]
    await host.replace([extension("first", lambda ostler: None), extensions[1]])
    await session.prompt(as_content("go"))
    assert sorted(offer.name for offer in model.requests[1].tools) == sorted(["look", Touch.spec.name])
    await session.close()


async def test_no_hook_of_another_extension_enables_a_disabled_tool() -> None:
    def greedy(ostler: ExtensionAPI) -> None:
        @ostler.before_step
        def all_of_them(plan: StepPlan) -> StepPlan:
            return StepPlan(plan.number, plan.model, ("look", "touch"))

    model = ScriptedModel(["one"])
    session, host = await session_with(
        model, extension("mine", lambda ostler: None), extension("greedy", greedy), tools=tools_for(look)
    )
    host.sessions[session.id].channels["mine"].context.tools.set_active([])
    host.apply()
    await session.prompt(as_content("go"))
    assert model.requests[0].tools == ()
    await session.close()


async def test_without_a_list_no_hook_limits_tools() -> None:
    session, host = await session_with(ScriptedModel([]), extension("mine", bringing))
    context = host.sessions[session.id].channels["mine"].context
    assert context.tools.all()
    context.tools.set_active(None)
    assert "before_step" not in session.harness.hooks
    context.tools.set_active(["deploy"])
    assert "before_step" in session.harness.hooks
    assert isinstance(session.harness.hooks._of("before_step")[0], Hook)
    await session.close()
