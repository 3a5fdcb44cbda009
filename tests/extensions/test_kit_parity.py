"""What someone who comes from Kit expects of extensions, and is shown nowhere else. See `docs/kit.md`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.tool import ToolContext
from ostler.extensions import (
    ContextDraft,
    ExtensionContext,
    FinishedCall,
    InputDraft,
    Ostler,
    PlannedFork,
    PlannedSwitch,
    Refuse,
    RunPlan,
)
from ostler.extensions.host import ExtensionHost
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events, requests
from ostler.schema.errors import ConnectionFailed, SessionBusy, StoreError, UsageError
from ostler.schema.messages import File, Text, as_content, user
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.front_end import TestFace
from ostler.testkit.vendors import FakeVendor, turn
from tests.extensions.at_work import context_of, extension, facts_of, nothing, session_with


@tool
async def work(context: ToolContext) -> str:
    "Works, and shows it."
    context.output("half way\n")
    return "worked"


# --- events -----------------------------------------------------------------------------------------


async def test_every_event_of_a_run_can_be_observed() -> None:
    seen: list[Any] = []
    kinds = (
        events.ModelCalled,
        events.ModelFailed,
        events.UsageReported,
        events.TextDelta,
        events.ToolInputStarted,
        events.ToolInputDelta,
        events.ToolInputEnded,
        events.ToolCalled,
        events.ToolStarted,
        events.ToolOutput,
        events.ToolResultFact,
        events.AssistantMessage,
        events.StepStarted,
        events.StepEnded,
    )

    def setup(ostler: Ostler) -> None:
        @ostler.on(*kinds)
        def see(event: Any) -> None:
            seen.append(event)

    failing = ConnectionFailed("the line is dead")
    model = ScriptedModel([failing, Call("work"), "done"])
    session, _ = await session_with(model, extension("mine", setup))
    session.harness.use([work])
    await session.prompt(as_content("go"))
    order = [event.type for event in seen]
    assert {kind.__struct_config__.tag for kind in kinds} <= {*order}
    call = [name for name in order if name.startswith("tool_")]
    assert [*dict.fromkeys(call)] == [
        "tool_input_started",
        "tool_input_delta",
        "tool_input_ended",
        "tool_called",
        "tool_started",
        "tool_output",
        "tool_result",
    ]
    (failed,) = [event for event in seen if isinstance(event, events.ModelFailed)]
    assert failed.failure.message == "the line is dead"
    assert failed.retry_in is not None
    assert [event.attempt for event in seen if isinstance(event, events.ModelCalled)] == [1, 2, 1]
    assert order.count("usage") == 3
    await session.close()


async def test_warnings_and_sources_are_seen_like_everything_else() -> None:
    seen: list[str] = []

    def setup(ostler: Ostler) -> None:
        @ostler.on(events.Warned, events.SourceCited)
        def see(event: Any) -> None:
            seen.append(event.type)

    session, host = await session_with(ScriptedModel([]), extension("mine", setup))
    session.journal.record(events.Warned("look out", about="model"))
    session.journal.record(events.SourceCited("https://example.org", "A page"))
    await session.journal.commit()
    await host.come_to_rest(session)
    assert seen == ["warned", "source_cited"]
    await session.close()


async def test_a_batch_goes_to_who_wants_one_and_everything_else_is_seen_one_by_one() -> None:
    singles: list[str] = []
    batches: list[str] = []

    def setup(ostler: Ostler) -> None:
        @ostler.on(events.StepStarted, events.ModelCalled, events.AssistantMessage)
        @ostler.on(events.UsageReported)
        def see(event: Any) -> None:
            singles.append(event.type)

        @ostler.on(events.TextDelta, batch=True)
        def gather(deltas: tuple[events.TextDelta, ...]) -> None:
            batches.extend(delta.text for delta in deltas)

    session, _ = await session_with(ScriptedModel(["one two three four"]), extension("mine", setup))
    await session.prompt(as_content("go"))
    assert singles == ["step_started", "model_called", "usage", "assistant_message"]
    assert "".join(batches) == "one two three four"
    assert await facts_of(session, "warned") == []
    await session.close()


async def test_extensions_are_asked_in_their_order_and_each_gets_what_the_one_before_made() -> None:
    def adding(word: str) -> Any:
        def setup(ostler: Ostler) -> None:
            @ostler.after_tool
            def add(done: FinishedCall) -> FinishedCall:
                return replace(done, content=(*done.content, Text(word)))

            @ostler.input
            def say(draft: InputDraft) -> InputDraft:
                return draft.with_text(f"{draft.text} {word}")

            @ostler.before_run
            def tell(plan: RunPlan) -> RunPlan:
                return replace(plan, told=(*plan.told, word))

        return setup

    model = ScriptedModel([Call("work"), "done"])
    session, _ = await session_with(model, extension("one", adding("one")), extension("two", adding("two")))
    session.harness.use([work])
    await session.prompt(as_content("go"))
    (result,) = await facts_of(session, "tool_result")
    assert [block.text for block in result.content] == ["worked", "one", "two"]
    (said,) = await facts_of(session, "user_message")
    assert said.content[0].text == "go one two"
    assert [message.text for message in model.requests[0].tail] == ["one", "two"]
    await session.close()


async def test_what_one_call_is_told_can_be_changed_and_nothing_of_it_is_stored() -> None:
    def setup(ostler: Ostler) -> None:
        @ostler.context
        def shorten(draft: ContextDraft) -> ContextDraft:
            return replace(draft, messages=[*draft.messages[:-1], user("something else")])

        @ostler.before_run
        def tell(plan: RunPlan) -> RunPlan:
            return replace(plan, system="Be brief.", told=("It is Monday.",))

    model = ScriptedModel(["one", "two"])
    session, _ = await session_with(model, extension("mine", setup))
    for prompt in ("first", "second"):
        await session.prompt(as_content(prompt))
    first, second = model.requests
    assert [message.text for message in first.transcript] == ["something else"]
    assert [message.text for message in second.transcript] == ["first", "one", "something else"]
    assert [message.text for message in second.tail] == ["It is Monday."]
    assert [said.content[0].text for said in await facts_of(session, "user_message")] == ["first", "second"]
    await session.close()


async def test_every_prompt_reaches_the_input_hook_and_says_who_asks() -> None:
    drafts: list[InputDraft] = []

    def setup(ostler: Ostler) -> None:
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


async def test_an_observer_may_take_itself_off_while_it_is_called() -> None:
    session, _ = await session_with(ScriptedModel(["done"]), extension("mine", nothing))
    once: list[Any] = []
    always: list[Any] = []

    def see_once(batch: Any) -> None:
        once.append(batch)
        stop()

    stop = session.observe(see_once)
    session.observe(always.append)
    await session.prompt(as_content("go"))
    assert len(once) == 1
    assert len(always) > 1
    await session.close()


async def test_handlers_of_one_extension_never_run_side_by_side_and_those_of_two_do() -> None:
    inside: dict[str, int] = {"one": 0, "two": 0}
    meeting = threading.Barrier(2, timeout=60)

    def meets(name: str) -> Any:
        def setup(ostler: Ostler) -> None:
            def enter(event: Any) -> None:
                inside[name] += 1
                assert inside[name] == 1
                meeting.wait()
                inside[name] -= 1

            ostler.on(events.RunStarted)(enter)
            ostler.on(events.RunStarted)(enter)

        return setup

    session, _ = await session_with(
        ScriptedModel(["done"]), extension("one", meets("one")), extension("two", meets("two"))
    )
    await session.prompt(as_content("go"))
    assert await facts_of(session, "warned") == []
    assert inside == {"one": 0, "two": 0}
    await session.close()


async def test_events_between_extensions_reach_all_in_their_order() -> None:
    heard: list[tuple[str, Any]] = []

    def hears(name: str) -> Any:
        def setup(ostler: Ostler) -> None:
            @ostler.on("plan/ready")
            def hear(data: Any, context: ExtensionContext) -> None:
                heard.append((context.extension.name, data))
                data["steps"].append("spoilt")

        return setup

    session, host = await session_with(
        ScriptedModel([]), extension("one", hears("one")), extension("two", hears("two"))
    )
    await context_of(host, session, "two").emit("plan/ready", {"steps": ["look"]})
    await context_of(host, session, "two").emit("nobody/hears", 1)
    assert [(name, data["steps"][0]) for name, data in heard] == [("one", "look"), ("two", "look")]
    assert len(heard[1][1]["steps"]) == 2
    await session.close()


# --- loading ----------------------------------------------------------------------------------------


async def test_the_first_who_takes_a_tools_name_has_it_and_that_is_said() -> None:
    def brings(name: str, answer: str) -> Any:
        def setup(ostler: Ostler) -> None:
            @ostler.tool(name=name)
            def bring() -> str:
                "Brings something."
                return answer

        return setup

    said: list[str] = []
    harness = Harness(model=ScriptedModel([[Call("work"), Call("fetch")], "done"]))
    harness.use([work])
    host = ExtensionHost(
        [extension("one", brings("work", "mine")), extension("two", brings("fetch", "two"))], say=said.append
    )
    host.extensions["three"] = extension("three", brings("fetch", "three"))
    host.equip(harness)
    session = await create_session(MemoryStore(), harness)
    await session.prompt(as_content("go"))
    results = await facts_of(session, "tool_result")
    assert [result.content[0].text for result in results] == ["worked", "two"]
    assert [("one" in line, "'work'" in line, "taken" in line) for line in said[:1]] == [(True, True, True)]
    assert "three" in said[1]
    await session.close()


async def test_kinds_of_events_that_nobody_saw_before_are_seen_after_a_reload() -> None:
    seen: list[str] = []

    def new(ostler: Ostler) -> None:
        @ostler.on(events.RunStarted, events.UsageReported)
        def see(event: Any) -> None:
            seen.append(event.type)

        @ostler.input
        def change(draft: InputDraft) -> InputDraft:
            return draft.with_text("new words")

    session, host = await session_with(ScriptedModel(["a", "b"]), extension("mine", nothing))
    await session.prompt(as_content("go"))
    await host.replace([extension("mine", new), extension("another", new)])
    await session.prompt(as_content("go"))
    assert sorted(seen) == ["run_started", "run_started", "usage", "usage"]
    said = await facts_of(session, "user_message")
    assert [one.content[0].text for one in said] == ["go", "new words"]
    await session.close()


def ran_with(folder: Path, extensions: dict[str, str], *answers: Any) -> subprocess.CompletedProcess[str]:
    """A run on the command line, with these files as the user's extensions."""
    place = folder / "home" / "extensions"
    place.mkdir(parents=True)
    for name, text in extensions.items():
        (place / name).write_text(textwrap.dedent(text))
    with FakeVendor([*answers]) as vendor:
        environment = {
            **os.environ,
            "OSTLER_HOME": str(folder / "home"),
            "OSTLER_MODEL": "openai/fake",
            "OSTLER_BASE_URL": vendor.chat_url,
        }
        command = [sys.executable, "-m", "ostler", "-p", "--json", "Read a.txt"]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


def test_what_is_printed_when_a_session_opens_is_seen_in_a_single_run(tmp_path: Path) -> None:
    greets = """
        from ostler.extensions import SessionOpened

        def setup(ostler):
            @ostler.on(SessionOpened)
            def greet(moment, context):
                context.print("welcome")
    """
    done = ran_with(tmp_path, {"greets.py": greets}, turn("Done."))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["text"] for line in lines if line["type"] == "printed"] == ["welcome"]
    assert done.returncode == 0, done.stderr


async def test_a_command_completes_what_is_typed_behind_it() -> None:
    def complete(typed: str, context: ExtensionContext) -> Any:
        if typed == "bad":
            raise ValueError("no")
        return "no list" if typed == "text" else [f"{typed}-{one}" for one in ("one", "two")]

    def setup(ostler: Ostler) -> None:
        ostler.command("deploy", complete=complete)(lambda arguments: arguments)
        ostler.command("plain")(lambda arguments: arguments)

    session, host = await session_with(ScriptedModel([]), extension("mine", setup))
    assert await host.completions(session.id, "/deploy", "a") == ["a-one", "a-two"]
    for command, typed in (("deploy", "bad"), ("deploy", "text"), ("plain", "a"), ("nothing", "a")):
        assert await host.completions(session.id, command, typed) == []
    (warned,) = await facts_of(session, "warned")
    assert "the extension mine failed in completing /deploy: ValueError: no" in warned.text
    await session.close()


# --- leaving and copying ----------------------------------------------------------------------------


async def test_a_face_leaves_for_a_new_session_unless_an_extension_refuses() -> None:
    planned: list[PlannedSwitch] = []

    def setup(ostler: Ostler) -> None:
        @ostler.before_switch
        def judge(switch: PlannedSwitch) -> Refuse | None:
            planned.append(switch)
            return Refuse("not now") if switch.prompt == "never" else None

    session, host = await session_with(ScriptedModel([]), extension("mine", setup))
    context = context_of(host, session)
    with pytest.raises(UsageError, match="no face"):
        await context.new_session("hello")
    host.face = face = TestFace()
    assert await context.new_session("hello") == "ses_new_1"
    with pytest.raises(UsageError, match="not now"):
        await context.new_session("never")
    assert face.switched == [("", "hello")]
    assert planned[-1] == PlannedSwitch(session.id, "new", "never")
    await session.close()


async def test_a_session_is_left_when_its_run_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[tuple[str, bool]] = []

    def setup(ostler: Ostler) -> None:
        @ostler.on(events.StepStarted)
        async def leave(event: Any, context: ExtensionContext) -> None:
            left.append((await context.new_session("next"), context.journal.state.run is None))

    session, host = await session_with(ScriptedModel(["done"]), extension("mine", setup))
    host.face = TestFace()
    ended = await asyncio.wait_for(session.prompt(as_content("go")), 60)
    assert isinstance(ended, events.RunEnded)
    assert ended.status == "completed"
    assert left == [("ses_new_1", True)]
    await session.close()

    monkeypatch.setattr("ostler.extensions.host.SWITCH_SECONDS", 0.05)
    problems: list[str] = []

    def hurries(ostler: Ostler) -> None:
        @ostler.before_step
        async def leave(plan: Any, context: ExtensionContext) -> None:
            try:
                await context.new_session()
            except SessionBusy as busy:
                problems.append(busy.message)

    session, host = await session_with(ScriptedModel(["done"]), extension("mine", hurries))
    host.face = TestFace()
    await asyncio.wait_for(session.prompt(as_content("go")), 60)
    assert problems == ["the session is busy: it can be left when its run has ended"]
    await session.close()


async def test_an_extension_may_refuse_a_copy_of_the_session() -> None:
    planned: list[PlannedFork] = []

    def setup(ostler: Ostler) -> None:
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


async def test_state_that_cannot_be_written_stops_the_session_and_not_the_process() -> None:
    session, host = await session_with(ScriptedModel([]), extension("mine", nothing))
    session.journal.fail(StoreError("the disk is full"))
    with pytest.raises(StoreError, match="the disk is full"):
        context_of(host, session).state["key"] = 1
    await session.close()
