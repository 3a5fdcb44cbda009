"""`context.models.complete`: model calls of extensions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.model import Model
from ostler.core.tool import ToolContext
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.context_api.models import ChatMessage, Completion, LimitReached
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events
from ostler.schema.errors import AuthenticationFailed, NoModel, UsageError
from ostler.schema.events import Limits
from ostler.schema.messages import as_content, user
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.usage import Usage
from ostler.sessions.session import Session
from tests.support.extension_session import extension, facts_of, session_with


class Held(ScriptedModel):
    """Answers when it is let."""

    def __init__(self, *script: Any, name: str) -> None:
        super().__init__(script, name=name)
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def stream(self, request: Any) -> Any:
        self.asked.set()
        await self.let.wait()
        async for batch in super().stream(request):
            yield batch


class Temporary(ScriptedModel):
    closed = False

    async def aclose(self) -> None:
        self.closed = True


@tool
def look() -> str:
    "Looks."
    return "nothing"


async def at_work(*script: Any, setup: Any = lambda ostler: None, **options: Any) -> tuple[Session, Any]:
    session, host = await session_with(ScriptedModel(script), extension("mine", setup), **options)
    return session, _context(session, host)


def _context(session: Session, host: ExtensionHost) -> ExtensionContext:
    return host.sessions[session.id].channels["mine"].context


async def test_a_completion_has_no_tools_and_no_conversation_and_is_recorded() -> None:
    session, context = await at_work("done", "a name", tools={"look": look}, system="Be an agent.")
    await session.prompt(as_content("go"))
    completion = await context.models.complete(
        "Name this.",
        system="You name things.",
        messages=[ChatMessage("user", "One."), ChatMessage("assistant", "Two."), user("Three.")],
        max_tokens=50,
    )
    assert completion == Completion("a name", Usage(10, 5, cost=0.0), "scripted/model")
    request = session.harness.model.requests[1]  # type: ignore[attr-defined]
    assert (request.system, request.tools, request.max_output_tokens) == ("You name things.", (), 50)
    assert [(message.role, message.text) for message in request.transcript] == [
        ("user", "One."),
        ("assistant", "Two."),
        ("user", "Three."),
        ("user", "Name this."),
    ]
    (called,) = [one for one in await facts_of(session, "model_called") if one.purpose == "extension"]
    (usage,) = [one for one in await facts_of(session, "usage") if one.purpose == "extension"]
    assert called.trace == {"extension": "mine"}
    assert (usage.call, usage.usage.input_tokens, usage.cumulative.input_tokens) == (called.id, 10, 20)
    assert session.harness.max_output_tokens is None
    await session.close()


async def test_a_completion_in_a_run_counts_in_its_totals() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        def ask(call: Any, context: ExtensionContext) -> None:
            context.wait(context.models.complete("Is it safe?"))

    session, _ = await at_work(Call("look"), "it is", "done", setup=setup, tools={"look": look})
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert (ended.own.steps, ended.own.model_calls, ended.own.usage.input_tokens) == (2, 3, 30)
    await session.close()


async def test_the_text_comes_in_pieces_to_plain_and_to_async_functions() -> None:
    session, context = await at_work("one two three four", "five six seven")
    plain: list[str] = []
    awaited: list[str] = []

    async def take(text: str) -> None:
        awaited.append(text)

    first = await context.models.complete("Count.", on_chunk=plain.append)
    second = await context.models.complete("Go on.", on_chunk=take)
    assert len(plain) > 1 and "".join(plain) == first.text
    assert len(awaited) > 1 and "".join(awaited) == second.text
    await session.close()


async def test_a_failing_on_chunk_is_reported_once_and_the_answer_continues() -> None:
    calls: list[str] = []

    def bad(text: str) -> None:
        calls.append(text)
        raise ValueError("no room")

    session, context = await at_work("one two three four")
    assert (await context.models.complete("Count.", on_chunk=bad)).text == "one two three four"
    await session.journal.commit()
    (warned,) = await facts_of(session, "warned")
    assert (
        "the extension mine failed in on_chunk: ValueError: no room (test_models_complete.py:" in warned.text
    )
    assert len(calls) == 1
    await session.close()


async def test_another_model_is_made_for_one_answer_and_closed() -> None:
    created: list[Temporary] = []

    def make(name: str) -> Model:
        if name != "scripted/other":
            raise NoModel(f"{name} needs a key")
        created.append(Temporary(["from the other", AuthenticationFailed("wrong key")], name=name))
        return created[-1]

    session, context = await at_work("from the first", make_model=make)
    completion = await context.models.complete("Who?", model="scripted/other")
    assert (completion.text, completion.model) == ("from the other", "scripted/other")
    assert [one.closed for one in created] == [True]
    own = await context.models.complete("Who?", model="scripted/model")
    assert (own.text, len(created)) == ("from the first", 1)
    with pytest.raises(NoModel, match="needs a key"):
        await context.models.complete("Who?", model="scripted/none")
    assert session.harness.model.name == "scripted/model"
    await session.close()


async def test_a_failed_completion_raises_its_error_with_the_vendors_message() -> None:
    session, context = await at_work(AuthenticationFailed("the key was withdrawn", status=401))
    with pytest.raises(AuthenticationFailed, match="the key was withdrawn") as caught:
        await context.models.complete("Hello?")
    assert caught.value.status == 401
    (failed,) = await facts_of(session, "model_failed")
    (usage,) = await facts_of(session, "usage")
    assert (failed.failure.kind, usage.purpose) == ("authentication_failed", "extension")
    with pytest.raises(UsageError, match="needs a prompt or messages"):
        await context.models.complete("")
    await session.close()


async def test_a_completion_is_refused_when_the_runs_budget_is_spent() -> None:
    problems: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        async def ask(call: Any, context: ExtensionContext) -> None:
            for _ in range(3):
                try:
                    await context.models.complete("More?")
                except LimitReached as error:
                    problems.append(error.message)

    session, _ = await at_work(
        Call("look"), "one", "two", "three", setup=setup, tools={"look": look}, limits=Limits(tokens=45)
    )
    ended = await session.prompt(as_content("go"))
    assert problems == ["the model was not called: the limit of 45 tokens was reached: 45 are used"]
    assert isinstance(ended, events.RunEnded)
    assert (ended.status, ended.own.usage.total_tokens) == ("limit", 45)
    await session.close()


async def test_concurrent_completions_are_reserved_together() -> None:
    outcomes: list[Any] = []
    slow = Held(*["yes"] * 4, name="slow/one")

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        async def ask(call: Any, context: ExtensionContext) -> None:
            asked = [context.models.complete(f"Number {number}?", model="slow/one") for number in range(4)]
            together = asyncio.gather(*asked, return_exceptions=True)
            await slow.asked.wait()
            slow.let.set()
            outcomes.extend(await together)

    session, _ = await at_work(
        Call("look"),
        setup=setup,
        tools={"look": look},
        limits=Limits(tokens=50),
        make_model=lambda name: slow,
    )
    await session.prompt(as_content("go"))
    assert sum(isinstance(one, Completion) for one in outcomes) == 2
    assert sum(isinstance(one, LimitReached) for one in outcomes) == 2
    await session.close()


async def test_a_limit_of_steps_does_not_keep_an_extension_from_asking() -> None:
    answers: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        async def ask(call: Any, context: ExtensionContext) -> None:
            answers.append((await context.models.complete("More?")).text)

    session, _ = await at_work(Call("look"), "yes", setup=setup, tools={"look": look}, limits=Limits(steps=1))
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert (answers, ended.status) == (["yes"], "limit")
    await session.close()


async def test_a_completion_whose_run_is_cancelled_has_its_usage_and_ends() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool
        async def ask(call: Any, context: ExtensionContext) -> None:
            await context.models.complete("For ever?", on_chunk=lambda text: session.cancel("enough"))

    session, _ = await at_work(Call("look"), Turn("hm", hangs=True), setup=setup, tools={"look": look})
    async with asyncio.timeout(60):
        ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "cancelled"
    assert [one.purpose for one in await facts_of(session, "usage")] == ["step", "extension"]
    await session.close()


async def test_a_completion_does_not_count_as_time_of_the_handler() -> None:
    slow = Held("at last", name="slow/one")
    answers: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_tool(time_limit=0.05)
        async def ask(call: Any, context: ExtensionContext) -> None:
            asyncio.get_running_loop().call_later(0.2, slow.let.set)
            answers.append((await context.models.complete("Slow?", model="slow/one")).text)

    session, _ = await at_work(
        Call("look"),
        "done",
        setup=setup,
        tools={"look": look},
        make_model=lambda name: slow,
    )
    await session.prompt(as_content("go"))
    assert answers == ["at last"]
    assert not await facts_of(session, "warned")
    await session.close()


async def test_a_call_that_a_dead_process_left_between_runs_gets_its_usage() -> None:
    session, context = await at_work("yes")
    session.journal.record(events.ModelCalled("msg_dead", "scripted/model", "", purpose="extension"))
    await session.journal.commit()
    await context.models.complete("Again?")
    usage = await facts_of(session, "usage")
    assert usage[0].call == "msg_dead"
    assert usage[0].usage.source == "unknown"
    await session.close()


async def test_a_plain_command_takes_the_pieces_while_it_waits() -> None:
    pieces: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("count")
        def count(arguments: str, context: ExtensionContext) -> str:
            return context.wait(context.models.complete("Count.", on_chunk=pieces.append)).text

    session, host = await session_with(ScriptedModel(["one two three"]), extension("mine", setup))
    assert await host.run_command(session, "count", "") == "one two three" == "".join(pieces)
    await session.close()


async def test_a_completion_that_outlives_its_run_is_counted_in_the_session() -> None:
    slow = Held("at last", name="slow/one")
    session, context = await at_work(Call("look"), "done", tools={"look": look}, make_model=lambda name: slow)
    running = asyncio.ensure_future(session.prompt(as_content("go")))
    async for facts in session.journal.store.follow(session.id):
        if any(fact.type == "tool_started" for fact in facts):
            break
    asked = asyncio.ensure_future(context.models.complete("Slow?", model="slow/one"))
    await running
    slow.let.set()
    assert (await asked).text == "at last"
    assert (await context.usage()).requests == 3
    assert session.state.usage.input_tokens == 30
    await session.close()


async def test_a_resumed_run_does_not_disturb_an_open_completion() -> None:
    @tool(resumes=True)
    def ask(context: ToolContext) -> Any:
        "Asks."
        return context.answer or NeedUser(Question("Sure?"))

    slow = Held("at last", name="slow/one")
    session, context = await at_work(
        Call("ask"), "done", tools={"ask": ask}, wait_for_answers=True, make_model=lambda name: slow
    )
    waiting = await session.prompt(as_content("go"))
    assert isinstance(waiting, events.RunWaiting)
    asked = asyncio.ensure_future(context.models.complete("Slow?", model="slow/one"))
    await slow.asked.wait()
    await session.answer(waiting.questions[0], "yes")
    slow.let.set()
    assert (await asked).text == "at last"
    assert not await facts_of(session, "model_failed")
    assert [one.purpose for one in await facts_of(session, "usage")] == ["step", "step", "extension"]
    await session.close()
