"""`context.usage`, `context_stats` and `last_run`."""

from __future__ import annotations

from typing import Any

from ostler.context.session_context import SessionContext
from ostler.core.call_context import CallContext
from ostler.core.children import ChildRequest
from ostler.core.function_tool import tool
from ostler.core.tool import ToolContext
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.models.catalogue import ASSUMED_CONTEXT_WINDOW
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import AuthenticationFailed
from ostler.schema.messages import as_content
from ostler.schema.usage import NOTHING_USED, Usage
from ostler.sessions.session import Session
from tests.support.extension_session import extension, session_with


@tool
def look() -> str:
    "Looks."
    return "nothing"


@tool
async def hand_over(context: ToolContext) -> str:
    "Has a child do it."
    return (await context.run_child(ChildRequest(as_content("look")))).text


@tool
async def ask_agent(context: ToolContext) -> str:
    "Has another vendor's agent do it."
    assert isinstance(context, CallContext)
    context.record_use("ses_agent", Usage(7, cost=0.5))
    return "asked"


async def at_work(*script: Any, setup: Any = lambda ostler: None, **options: Any) -> tuple[Session, Any]:
    options.setdefault("tools", {"look": look, "hand_over": hand_over})
    model = ScriptedModel(script, name=options.pop("name", "scripted/model"))
    session, host = await session_with(model, extension("mine", setup), **options)
    return session, host.sessions[session.id].channels["mine"].context


async def test_usage_adds_up_all_calls_and_has_the_childrens_apart() -> None:
    session, context = await at_work(Call("hand_over"), "the child's", "done", "aside")
    assert (await context.usage()).usage == NOTHING_USED
    await session.prompt(as_content("go"))
    await context.models.complete("And?")
    used = await context.usage()
    assert (used.usage.input_tokens, used.usage.output_tokens, used.requests, used.cost) == (30, 15, 3, 0.0)
    assert (used.children.runs, used.children.model_calls, used.children.usage.input_tokens) == (1, 1, 10)
    assert not used.subscription
    await session.close()


async def test_usage_includes_reports_of_another_vendors_agent() -> None:
    session, context = await at_work(Call("ask_agent"), "done", tools={"ask_agent": ask_agent})
    await session.prompt(as_content("go"))
    used = await context.usage()
    assert (used.children.runs, used.children.usage.input_tokens, used.children.usage.cost) == (0, 7, 0.5)
    last = await context.last_run()
    assert last is not None and last.children == used.children
    await session.close()


async def test_a_cost_that_is_unknown_is_not_zero_and_a_subscription_is_named() -> None:
    session, context = await at_work(Turn("hm", usage=Usage(7, 3)), name="ollama/mine")
    await session.prompt(as_content("go"))
    used = await context.usage()
    assert (used.cost, used.usage.input_tokens, used.subscription) == (None, 7, True)
    await session.close()


async def test_the_size_of_the_context_has_its_source() -> None:
    session, context = await at_work("done", system="Be brief.")
    before = context.context_stats()
    assert (before.messages, before.source, before.limit) == (0, "estimated", ASSUMED_CONTEXT_WINDOW)
    assert before.tokens > 0
    await session.prompt(as_content("go"))
    after = context.context_stats()
    assert (after.tokens, after.messages, after.source, after.confidence) == (15, 2, "reported", "high")
    assert after.share == 15 / ASSUMED_CONTEXT_WINDOW
    await session.close()


async def test_a_window_of_the_policy_is_the_limit() -> None:
    session_context = SessionContext({"window": {"tokens": 1000, "reserve": 100}})
    session, context = await at_work(context=session_context)
    assert context.context_stats().limit == 1000
    await session.close()


async def test_the_last_run_is_known_when_it_has_ended() -> None:
    runs: list[Any] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunEnded)
        def ended(event: events.RunEnded, context: ExtensionContext) -> None:
            runs.append(context.wait(context.last_run()))

    script = [[Call("look"), Call("nope")], Call("look"), "found nothing", AuthenticationFailed("no key")]
    session, context = await at_work(*script, setup=setup)
    assert await context.last_run() is None
    await session.prompt(as_content("go"))
    (run,) = runs
    assert (run.response, run.status, run.stop_reason) == ("found nothing", "completed", "end")
    assert run.tools == ("look", "nope", "look")
    assert (run.own.steps, run.own.model_calls, run.own.tool_calls) == (3, 3, 3)
    assert (run.own.usage.input_tokens, run.cost, run.run) == (30, 0.0, session.state.last_run)
    assert run.duration_ms >= 0
    await session.prompt(as_content("again"))
    failed = runs[1]
    assert (failed.response, failed.status, failed.reason, failed.stop_reason) == (
        "",
        "failed",
        "no key",
        None,
    )
    assert failed.tools == ()
    await session.close()
