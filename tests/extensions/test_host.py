"""`ExtensionHost`: hooks, tools and commands of extensions in a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ostler.core.harness import Harness
from ostler.core.hooks import Handled, PlannedCall, Refuse, RunPlan
from ostler.extensions import ContextDraft, FinishedCall, InputDraft, PlannedFork
from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_context import ExtensionContext
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events, requests
from ostler.schema.messages import File, Text, as_content, user
from ostler.schema.requests import RunCommand
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from tests.support.extension_session import context_of, extension, facts_of, nothing, session_with, work


async def test_a_plain_guard_refuses_a_call_with_a_reason_for_the_model() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.tool
        def remove(path: str) -> str:
            "Removes a file."
            return f"removed {path}"

        @ostler.before_tool
        def gate(call: PlannedCall) -> Refuse | None:
            return Refuse("not that one") if call.arguments["path"] == "/" else None

    model = ScriptedModel([[Call("remove", {"path": "/"}), Call("remove", {"path": "a"})], "done"])
    session, _ = await session_with(model, extension("gate", setup))
    await session.prompt(as_content("go"))
    results = [fact.event for fact in await session.journal.history() if fact.type == "tool_result"]
    assert [result.failed for result in results] == ["call_refused", None]
    assert "not that one" in str(results[0].content)
    await session.close()


async def test_a_hook_sees_the_state_that_its_observers_set_before() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.UsageReported)
        def count(usage: events.UsageReported, context: Any) -> None:
            context.state["calls"] = context.state.get("calls", 0) + 1

        @ostler.before_step
        async def stop(plan: Any, context: Any) -> Refuse | None:
            return Refuse("enough") if context.state.get("calls", 0) >= 2 else None

        @ostler.tool
        def again() -> str:
            "Once more."
            return "ok"

    model = ScriptedModel([Call("again"), Call("again"), Call("again"), "done"])
    session, _ = await session_with(model, extension("budget", setup))
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert (ended.status, ended.reason) == ("refused", "enough")
    assert session.state.extension_state == {"budget": {"calls": 2}}
    await session.close()


async def test_an_input_hook_may_handle_a_prompt() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.input
        def ping(draft: Any) -> Handled | None:
            return Handled("pong") if draft.text == "ping" else draft.with_text(draft.text.upper())

        @ostler.before_run
        def add(plan: RunPlan) -> RunPlan:
            return RunPlan(plan.prompt, "Be brief.", ("It is Monday.",))

    model = ScriptedModel(["done", "done"])
    session, _ = await session_with(model, extension("ping", setup))
    printed: list[str] = []
    session.subscribe(
        lambda batch: printed.extend(one.text for one in batch if isinstance(one, events.Printed))
    )
    handled = await session.prompt(as_content("ping"))
    assert isinstance(handled, events.RunEnded)
    assert handled.status == "completed"
    assert printed == ["pong"]
    assert not model.requests
    await session.prompt(as_content("hello"))
    (request,) = model.requests
    assert request.system.endswith("Be brief.")
    assert [message.content[0].text for message in (*request.transcript, *request.tail)] == [
        "HELLO",
        "It is Monday.",
    ]
    await session.close()


async def test_an_exception_is_reported_with_the_extensions_name_and_line() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(events.StepStarted)
        def bad(event: Any) -> None:
            raise ValueError("no")

    session, _ = await session_with(ScriptedModel(["done"]), extension("bad", setup))
    ended = await session.prompt(as_content("go"))
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    (warned,) = [fact.event for fact in await session.journal.history() if fact.type == "warned"]
    assert "the extension bad failed in bad: ValueError: no (test_host.py:" in warned.text
    await session.close()


async def test_a_handler_may_emit_the_event_that_it_handles() -> None:
    calls: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on("again")
        def again(data: Any, context: Any) -> None:
            calls.append(f"begin {data}")
            if data < 3:
                context.wait(context.emit("again", data + 1))
            calls.append(f"end {data}")

        @ostler.command("start")
        def start(arguments: str, context: Any) -> str:
            context.wait(context.emit("again", 1))
            return f"started {arguments}"

    session, host = await session_with(ScriptedModel([]), extension("echo", setup))
    assert await host.run_command(session, "/start", "now") == "started now"
    assert calls == ["begin 1", "begin 2", "begin 3", "end 3", "end 2", "end 1"]
    await session.close()


async def test_the_lease_is_renewed_while_a_command_or_a_shortcut_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ostler.store.rules.RENEW_SECONDS", 0.002)

    async def work_long(context: ExtensionContext) -> None:
        first = context.journal.lease.expires_ms
        async with asyncio.timeout(60):
            while context.journal.lease.expires_ms == first:
                await context.journal.store.last_seq(context.session_id)
                await asyncio.sleep(0)

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("long")
        async def command(arguments: str, context: ExtensionContext) -> str:
            await work_long(context)
            return "done"

        @ostler.shortcut("f5")
        async def shortcut(context: ExtensionContext) -> None:
            await work_long(context)
            context.state["done"] = True

    session, host = await session_with(ScriptedModel([]), extension("slow", setup))
    await session.journal.store.submit(session.id, RunCommand(id="req", name="long"))
    await session.advance()
    (ran,) = await facts_of(session, "command_ran")
    assert (ran.text, ran.failed) == ("done", False)
    assert await host.ui.shortcut(session.id, "f5")
    assert session.state.extension_state == {"slow": {"done": True}}
    await session.close()


async def test_state_of_a_handler_of_an_emitted_event_is_committed_when_it_returns() -> None:
    committed: list[int] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on("tick")
        def tick(n: int, context: ExtensionContext) -> None:
            context.state["n"] = n

        @ostler.on(events.RunStarted)
        async def begin(started: events.RunStarted, context: ExtensionContext) -> None:
            for n in range(3):
                await context.emit("tick", n)
                facts = await context.journal.store.read(context.session_id)
                committed.append(sum(fact.type == "extension_state" for fact in facts))

    session, _ = await session_with(ScriptedModel(["done"]), extension("ticking", setup))
    await session.prompt(as_content("go"))
    assert committed == [1, 2, 3]
    await session.close()


async def test_hooks_run_in_order_and_each_gets_the_result_of_the_one_before() -> None:
    def adding(word: str) -> Any:
        def setup(ostler: ExtensionAPI) -> None:
            @ostler.after_tool
            def add(done: FinishedCall) -> FinishedCall:
                return replace(done, content=(*done.content, Text(word)))

            @ostler.input
            def say(draft: InputDraft) -> InputDraft:
                return draft.with_text(f"{draft.text} {word}")

            @ostler.before_run
            def tell(plan: RunPlan) -> RunPlan:
                return replace(plan, messages=(*plan.messages, word))

        return setup

    model = ScriptedModel([Call("work"), "done"])
    session, _ = await session_with(model, extension("one", adding("one")), extension("two", adding("two")))
    session.harness.set_tools([work])
    await session.prompt(as_content("go"))
    (result,) = await facts_of(session, "tool_result")
    assert [block.text for block in result.content] == ["worked", "one", "two"]
    (notices,) = await facts_of(session, "user_message")
    assert notices.content[0].text == "go one two"
    assert [message.text for message in model.requests[0].tail] == ["one", "two"]
    await session.close()


async def test_the_context_hook_changes_one_call_and_stores_nothing() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.context
        def shorten(draft: ContextDraft) -> ContextDraft:
            return replace(draft, messages=[*draft.messages[:-1], user("something else")])

        @ostler.before_run
        def tell(plan: RunPlan) -> RunPlan:
            return replace(plan, system="Be brief.", messages=("It is Monday.",))

    model = ScriptedModel(["one", "two"])
    session, _ = await session_with(model, extension("mine", setup))
    for prompt in ("first", "second"):
        await session.prompt(as_content(prompt))
    first, second = model.requests
    assert [message.text for message in first.transcript] == ["something else"]
    assert [message.text for message in second.transcript] == ["first", "one", "something else"]
    assert [message.text for message in second.tail] == ["It is Monday."]
    assert [notices.content[0].text for notices in await facts_of(session, "user_message")] == [
        "first",
        "second",
    ]
    await session.close()


async def test_every_prompt_reaches_the_input_hook_with_its_sender() -> None:
    drafts: list[InputDraft] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.input
        def see(draft: InputDraft) -> None:
            drafts.append(draft)

    session, _ = await session_with(ScriptedModel(["a", "b", "c"]), extension("mine", setup))
    store = session.journal.store
    picture = File("text/plain", b"attached", "a.txt")
    for number, content in enumerate(("!ls", ("look", picture))):
        request = requests.Prompt(id=f"req_{number}", by="the terminal", content=as_content(content))
        await store.submit(session.id, request)
    await session.prompt(as_content("last"))
    assert [(draft.text, draft.source) for draft in drafts] == [
        ("!ls", "the terminal"),
        ("look", "the terminal"),
        ("last", ""),
    ]
    assert picture in drafts[1].content
    await session.close()


async def test_events_between_extensions_reach_all_in_their_order() -> None:
    emitted: list[tuple[str, Any]] = []

    def hears(name: str) -> Any:
        def setup(ostler: ExtensionAPI) -> None:
            @ostler.on("plan/ready")
            def hear(data: Any, context: ExtensionContext) -> None:
                emitted.append((context.extension.name, data))
                data["steps"].append("spoilt")

        return setup

    session, host = await session_with(
        ScriptedModel([]), extension("one", hears("one")), extension("two", hears("two"))
    )
    await context_of(host, session, "two").emit("plan/ready", {"steps": ["look"]})
    await context_of(host, session, "two").emit("nobody/hears", 1)
    assert [(name, data["steps"][0]) for name, data in emitted] == [("one", "look"), ("two", "look")]
    assert len(emitted[1][1]["steps"]) == 2
    await session.close()


async def test_the_first_tool_of_a_name_wins_with_a_notice() -> None:
    def brings(name: str, answer: str) -> Any:
        def setup(ostler: ExtensionAPI) -> None:
            @ostler.tool(name=name)
            def bring() -> str:
                "Brings something."
                return answer

        return setup

    notices: list[str] = []
    harness = Harness(model=ScriptedModel([[Call("work"), Call("fetch")], "done"]))
    harness.set_tools([work])
    host = ExtensionHost(
        [extension("one", brings("work", "mine")), extension("two", brings("fetch", "two"))],
        say=notices.append,
    )
    host.extensions["three"] = extension("three", brings("fetch", "three"))
    host.install_into(harness)
    session = await create_session(MemoryStore(), harness)
    await session.prompt(as_content("go"))
    results = await facts_of(session, "tool_result")
    assert [result.content[0].text for result in results] == ["worked", "two"]
    assert [("one" in line, "'work'" in line, "taken" in line) for line in notices[:1]] == [
        (True, True, True)
    ]
    assert "three" in notices[1]
    await session.close()


async def test_a_reload_subscribes_to_new_types_of_events() -> None:
    calls: list[str] = []

    def new(ostler: ExtensionAPI) -> None:
        @ostler.on(events.RunStarted, events.UsageReported)
        def see(event: Any) -> None:
            calls.append(event.type)

        @ostler.input
        def change(draft: InputDraft) -> InputDraft:
            return draft.with_text("new words")

    session, host = await session_with(ScriptedModel(["a", "b"]), extension("mine", nothing))
    await session.prompt(as_content("go"))
    await host.replace([extension("mine", new), extension("another", new)])
    await session.prompt(as_content("go"))
    assert sorted(calls) == ["run_started", "run_started", "usage", "usage"]
    notices = await facts_of(session, "user_message")
    assert [one.content[0].text for one in notices] == ["go", "new words"]
    await session.close()


async def test_a_command_completes_its_arguments() -> None:
    def complete(typed: str, context: ExtensionContext) -> Any:
        if typed == "bad":
            raise ValueError("no")
        return "no list" if typed == "text" else [f"{typed}-{one}" for one in ("one", "two")]

    def setup(ostler: ExtensionAPI) -> None:
        ostler.command("deploy", complete=complete)(lambda arguments: arguments)
        ostler.command("plain")(lambda arguments: arguments)

    session, host = await session_with(ScriptedModel([]), extension("mine", setup))
    assert await host.ui.completions(session.id, "/deploy", "a") == ["a-one", "a-two"]
    for command, typed in (("deploy", "bad"), ("deploy", "text"), ("plain", "a"), ("nothing", "a")):
        assert await host.ui.completions(session.id, command, typed) == []
    (warned,) = await facts_of(session, "warned")
    assert "the extension mine failed in completing /deploy: ValueError: no" in warned.text
    await session.close()


async def test_an_extension_may_refuse_a_copy_of_the_session() -> None:
    planned: list[PlannedFork] = []

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.before_fork
        def judge(fork: PlannedFork) -> Refuse | None:
            planned.append(fork)
            return Refuse("keep it together") if len(planned) == 1 else None

    session, _ = await session_with(ScriptedModel(["done"]), extension("mine", setup))
    await session.prompt(as_content("go"))
    store, leaf = session.journal.store, session.state.leaf
    for number in (1, 2):
        await store.submit(session.id, requests.Fork(id=f"req_{number}", entry=leaf))
    await session.advance()
    (refused,) = await facts_of(session, "request_refused")
    assert (refused.request, refused.reason) == ("req_1", "keep it together")
    assert planned == [PlannedFork(session.id, leaf)] * 2
    assert len(await store.sessions()) == 2
    await store.submit(session.id, requests.Fork(id="req_3", entry=0))
    await session.advance()
    assert planned[-1] == PlannedFork(session.id, 0, "go")
    await session.close()
