"""The SDK: an agent in a Python program."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

import ostler
from ostler import Agent, Hook, events, failed, ok, tool
from ostler.core.hooks import Refuse
from ostler.schema.errors import InvalidAnswer, ServerFailed, UsageError
from ostler.schema.messages import Message, Text, ToolResult, user
from ostler.schema.usage import Usage
from ostler.testkit import Call, ScriptedModel, Turn


class Place(msgspec.Struct):
    city: str
    country: str = "PT"


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def test_the_public_names_are_pinned() -> None:
    assert sorted(ostler.__all__) == [
        "Agent",
        "Display",
        "Hook",
        "Limits",
        "NeedUser",
        "Pending",
        "Question",
        "Result",
        "Session",
        "Supervisor",
        "ToolClass",
        "ToolContext",
        "errors",
        "events",
        "failed",
        "messages",
        "ok",
        "tool",
    ]
    assert all(getattr(ostler, name) is not None for name in ostler.__all__)
    assert set(ostler.__all__) <= set(dir(ostler))
    with pytest.raises(AttributeError):
        _ = ostler.nothing  # type: ignore[attr-defined]


def test_run_sync_keeps_the_conversation() -> None:
    agent = Agent(ScriptedModel([Call("add", {"a": 1, "b": 2}), "three", "still three"]), tools=[add])
    assert agent.run_sync("1 + 2?").text == "three"
    result = agent.run_sync("Sure?")
    assert (result.text, result.status, result.steps) == ("still three", "completed", 1)
    assert [m.role for m in agent.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert agent.usage.input_tokens == 30


AT_THE_END = """
import asyncio, sys
from pathlib import Path
from ostler import Agent, tool
from ostler.models.scripted import Call, ScriptedModel

@tool
async def add(a: int, b: int) -> int:
    "Adds."
    return await asyncio.to_thread(int.__add__, a, b)

agent = Agent(ScriptedModel([Call("add", {"a": 1, "b": 2}), "three"]), tools=[add], store=Path(sys.argv[1]))
print(agent.run_sync("1 + 2?").text)
"""


def test_an_agent_of_run_sync_is_closed_at_the_end_of_the_program(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", AT_THE_END, str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "three\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


async def test_run_sync_inside_an_event_loop_says_what_to_do() -> None:
    with pytest.raises(UsageError, match="await"):
        Agent(ScriptedModel(["hi"])).run_sync("go")


async def test_a_failed_run_is_a_result_and_check_raises_it() -> None:
    result = await Agent(ScriptedModel([ServerFailed("the server is on fire", status=500)])).run("go")
    assert (result.status, result.reason) == ("failed", "the server is on fire")
    with pytest.raises(ServerFailed, match="on fire"):
        result.check()


async def test_a_stream_yields_facts_and_deltas_and_ends_with_the_run() -> None:
    agent = Agent(ScriptedModel([Turn("hello", piece=2)]))
    seen = [event.type async for event in agent.stream("go")]
    assert seen[0] == "run_started"
    assert seen.count("text_delta") == 3
    assert seen[-1] == "run_ended"


async def test_leaving_a_stream_early_cancels_its_run() -> None:
    agent = Agent(ScriptedModel([Turn("a long story", hangs=True), "next"]))
    stream = agent.stream("go")
    async for event in stream:
        if isinstance(event, events.TextDelta):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    assert (await agent.run("again")).text == "next"


async def test_a_stream_or_an_idle_cancel_does_not_cancel_the_next_run() -> None:
    agent = Agent(ScriptedModel(["one", "two", "three"]))
    assert [event async for event in agent.stream("go")][-1].type == "run_ended"
    agent.cancel()
    assert (await agent.run("again")).status == "completed"
    assert (await agent.run("and again")).status == "completed"


async def test_a_failed_run_does_not_have_the_text_of_the_run_before() -> None:
    agent = Agent(ScriptedModel(["fine", ServerFailed("oops", status=500)]))
    assert (await agent.run("one")).text == "fine"
    assert (await agent.run("two")).text == ""


async def test_two_agents_do_not_share_a_session_at_once(tmp_path: Path) -> None:
    from ostler.schema.errors import SessionHeld

    async with Agent(ScriptedModel(["hi"]), store=tmp_path / "s.db") as first:
        await first.run("go")
        second = Agent(ScriptedModel(["no"]), store=tmp_path / "s.db", session=first.session)
        for _ in range(2):
            with pytest.raises(SessionHeld):
                await second.run("go")
    assert not (tmp_path / "s.db-wal").exists(), "an agent that got no session kept the store open"


async def test_a_resumed_agent_has_its_session_once_it_is_open(tmp_path: Path) -> None:
    async with Agent(ScriptedModel(["hi"]), store=tmp_path / "s.db") as first:
        await first.run("go")
    async with Agent(ScriptedModel([]), store=tmp_path / "s.db", session=first.session) as second:
        assert [m.text for m in second.messages] == ["go", "hi"]
        assert second.usage.input_tokens == 10
        assert await second.resume() is None


@pytest.mark.parametrize(
    "wrong", [{"permissions": "yolo"}, {"reasoning": "lots"}, {"max_steps": 0}, {"cwd": "/no/such"}]
)
def test_a_wrong_option_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Agent(ScriptedModel(), **wrong)


async def test_an_agent_can_continue_without_a_new_message() -> None:
    model = ScriptedModel(["one", "two"])
    agent = Agent(model)
    agent.messages = [user("say something"), Message("assistant", (Text("well"),)), user("and more")]
    assert (await agent.continue_()).text == "one"
    assert [m.text for m in model.requests[0].transcript] == ["say something", "well", "and more"]
    with pytest.raises(UsageError, match="nothing to continue"):
        await Agent(model).continue_()


async def test_messages_tools_and_usage_can_be_replaced_between_runs() -> None:
    model = ScriptedModel(["one", "two", "three"])
    agent = Agent(model, tools=[add])
    await agent.run("first")
    agent.messages = [user("a new beginning")]
    agent.tools = []
    agent.seed_usage(Usage(input_tokens=100, output_tokens=50, cost=2.0))
    assert (agent.usage.input_tokens, [m.text for m in agent.messages]) == (100, ["a new beginning"])
    await agent.run("second")
    assert [m.text for m in model.requests[1].transcript] == ["a new beginning", "second"]
    assert model.requests[1].tools == ()
    assert (agent.usage.input_tokens, agent.usage.cost) == (110, 2.0)


async def test_another_agent_can_continue_a_stored_session(tmp_path: Path) -> None:
    async with Agent(ScriptedModel(["hello"]), store=tmp_path / "s.db") as first:
        await first.run("hi")
    model = ScriptedModel(["again"])
    async with Agent(model, store=str(tmp_path / "s.db"), session=first.session) as second:
        await second.run("and?")
        assert second.usage.input_tokens == 20
    assert [m.text for m in model.requests[0].transcript] == ["hi", "hello", "and?"]


async def test_hooks_observers_and_limits_are_options() -> None:
    seen: list[str] = []
    agent = Agent(
        ScriptedModel([Call("add", {"a": 1, "b": 1}), Call("add", {"a": 1, "b": 1})]),
        tools=[add],
        hooks=[Hook("before_tool", lambda planned: Refuse("no sums"))],
        max_steps=1,
    )
    agent.subscribe(lambda batch: seen.extend(item.type for item in batch))
    result = await agent.run("go")
    assert result.status == "limit"
    assert "tool_started" not in seen


async def test_tools_may_return_outcomes_blocks_values_or_nothing() -> None:
    @tool
    async def outcome(fine: bool) -> object:
        """Either way."""
        return ok("fine", details={"for": "people"}) if fine else failed("not fine")

    @tool
    def value() -> dict[str, int]:
        """A value."""
        return {"n": 1}

    @tool
    def nothing() -> None:
        """Nothing."""

    model = ScriptedModel(
        [
            [
                Call("outcome", {"fine": True}),
                Call("outcome", {"fine": False}),
                Call("value"),
                Call("nothing"),
            ],
            "end",
        ]
    )
    await Agent(model, tools=[outcome, value, nothing]).run("go")
    results = model.requests[1].transcript[2].content
    assert [r.content[0].text for r in results] == ["fine", "not fine", '{"n":1}', "done"]  # type: ignore[union-attr]
    assert [r.failed for r in results] == [False, True, False, False]  # type: ignore[union-attr]


def test_a_tool_describes_itself_from_its_types_and_its_docstring() -> None:
    @tool(kind="read")
    def weather(
        place: Place, unit: Literal["C", "F"] = "C", days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 1
    ) -> str:
        """The weather at a place.

        More that only programmers need.

        Args:
            unit: the scale to use
        """
        return ""

    schema = weather.spec.schema
    assert weather.spec.description == "The weather at a place."
    assert schema["required"] == ["place"]
    assert schema["properties"]["unit"] == {
        "type": "string",
        "enum": ["C", "F"],
        "default": "C",
        "description": "the scale to use",
    }
    assert schema["properties"]["days"]["maximum"] == 7
    assert schema["properties"]["place"]["properties"]["country"]["default"] == "PT"
    with pytest.raises(TypeError, match="words"):
        tool(lambda *words: "")


async def test_many_agents_run_in_parallel_on_one_store(tmp_path: Path) -> None:
    from ostler.store.sqlite import SqliteStore

    store = SqliteStore(tmp_path / "s.db")
    agents = [
        Agent(ScriptedModel([Call("add", {"a": n, "b": 1}), f"{n}"]), tools=[add], store=store)
        for n in range(20)
    ]
    results = await asyncio.gather(*(agent.run("go") for agent in agents))
    assert [result.text for result in results] == [str(n) for n in range(20)]
    assert len(await store.sessions()) == 20
    await store.close()


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        ("import ostler", {"asyncio", "httptools", "httpx2", "msgspec", "rich", "sqlite3", "argparse"}),
        (
            "from ostler.main import run; run(['--help'])",
            {"asyncio", "httptools", "httpx2", "msgspec", "rich", "sqlite3", "tomllib"},
        ),
        (
            "from ostler.main import run; run(['-p', '--model', 'demo', '--no-session', 'hi'])",
            {
                "httptools",
                "httpx2",
                "rich",
                "sqlite3",
                "tomllib",
                "jiter",
                "anthropic",
                "openai",
                "ostler.testkit",
            },
        ),
    ],
    ids=["import", "help", "one-shot"],
)
def test_unneeded_modules_are_not_imported(code: str, forbidden: set[str], tmp_path: Path) -> None:
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"OSTLER_HOME": str(tmp_path), "PATH": ""},
        stdin=subprocess.DEVNULL,
    )
    loaded = set(done.stderr.split())
    assert loaded & forbidden == set()


async def test_an_answer_resumes_a_waiting_run() -> None:
    from ostler.core.hooks import Ask
    from ostler.schema.outcomes import Question

    asks = Hook("before_tool", lambda planned: Ask(Question("Add?", kind="permission")))
    model = ScriptedModel(["hello", Call("add", {"a": 1, "b": 2}), "three"])
    agent = Agent(model, tools=[add], hooks=[asks], wait_for_answers=True)
    before = await agent.run("hi")
    waiting = await agent.run("1 + 2?")
    assert (waiting.status, waiting.reason, len(waiting.questions)) == (None, "Add?", 1)
    assert (waiting.steps, before.usage + waiting.usage) == (1, agent.usage)
    with pytest.raises(UsageError, match="waits for Add"):
        await agent.run("something else")
    assert (await agent.answer("yes")).text == "three"
    with pytest.raises(UsageError, match="open: none"):
        await agent.answer("yes")


async def test_the_parent_agent_answers_the_question_of_a_child() -> None:
    from ostler.schema.outcomes import NeedUser, Question
    from ostler.sessions.agents import DelegateTool

    @tool
    async def need() -> NeedUser:
        """Asks by its outcome."""
        return NeedUser(Question("Which bed?"))

    model = ScriptedModel([Call("delegate", {"task": "plant"}), Call("need"), "planted", "done"])
    agent = Agent(model, tools=[need, DelegateTool({})], wait_for_answers=True)
    waiting = await agent.run("go")
    assert (waiting.status, waiting.reason) == (None, "Which bed?")
    ended = await agent.answer("5", question=waiting.questions[0].id)
    assert (ended.status, ended.text) == ("completed", "done")
    result = model.requests[2].transcript[-1].content[0]
    assert isinstance(result, ToolResult) and result.content == (Text("5"),)


async def test_a_secret_answer_reaches_the_tool_and_nothing_else(tmp_path: Path) -> None:
    from ostler.core.tool import ToolContext
    from ostler.schema.outcomes import NeedUser, Question

    seen: list[str] = []

    @tool
    async def unlock(context: ToolContext) -> str:
        """Asks in Python."""
        seen.append(await context.ask(Question("Password?", secret=True)))
        return "unlocked"

    @tool
    async def need() -> NeedUser:
        """Asks by its outcome."""
        return NeedUser(Question("PIN?", secret=True))

    async def person(asked: events.QuestionAsked) -> str:
        return "canary-7"

    file = tmp_path / "s.db"
    model = ScriptedModel([[Call("unlock"), Call("need")], "done"])
    async with Agent(model, tools=[unlock, need], ask=person, store=file) as agent:
        assert (await agent.run("go")).status == "completed"
    assert seen == ["canary-7"]
    assert b"canary-7" not in file.read_bytes()


async def test_a_secret_answered_later_is_in_no_file(tmp_path: Path) -> None:
    from ostler.core.tool import ToolContext
    from ostler.schema.outcomes import NeedUser, Question

    seen: list[str] = []

    @tool(resumes=True)
    async def need(context: ToolContext) -> NeedUser | str:
        """Asks by its outcome."""
        if context.answer is None:
            return NeedUser(Question("PIN?", secret=True))
        seen.append(context.answer)
        return "unlocked"

    file = tmp_path / "s.db"
    async with Agent(ScriptedModel([Call("need")]), tools=[need], wait_for_answers=True, store=file) as agent:
        assert (await agent.run("go")).status is None
        session = agent.session
    model = ScriptedModel(["done"])
    async with Agent(model, tools=[need], wait_for_answers=True, store=file, session=session) as agent:
        assert (await agent.answer("canary-7")).status == "completed"
        stored = [tmp_path / f"s.db{suffix}" for suffix in ("", "-wal")]
        assert not [part for part in stored if b"canary-7" in part.read_bytes()]
    assert seen == ["canary-7"]


async def test_the_inbox_refuses_a_secret_answer(tmp_path: Path) -> None:
    from ostler.schema.outcomes import NeedUser, Question
    from ostler.schema.requests import Answer

    @tool
    async def need() -> NeedUser:
        """Asks by its outcome."""
        return NeedUser(Question("PIN?", secret=True))

    async with Agent(ScriptedModel([Call("need"), "done"]), tools=[need], wait_for_answers=True) as agent:
        result = await agent.run("go")
        session = await agent.open()
        request = Answer(id="a1", question=result.questions[0].id, answer="1234")
        await session.journal.store.submit(session.id, request)
        assert (await agent.resume()).status is None  # type: ignore[union-attr]
        assert (await agent.answer(declined=True)).status == "completed"


def test_an_agent_can_be_garbage_collected_inside_a_running_loop() -> None:
    agents = [Agent(ScriptedModel(["hi"]))]
    agents[0].run_sync("go")
    reference = weakref.ref(agents[0])

    async def drop() -> None:
        agents.clear()
        gc.collect()

    asyncio.run(drop())
    assert reference() is None


def test_an_agent_answers_with_an_output_type() -> None:
    class Horse(msgspec.Struct):
        name: str
        hands: int = 14

    model = ScriptedModel(['{"name": "Bess"}', "Bess"])
    agent = Agent(model, answer=Horse)
    assert agent.run_sync("Which?").decoded(Horse) == Horse("Bess")
    schema = model.requests[0].answer_schema
    assert schema is not None and schema["required"] == ["name"]
    with pytest.raises(InvalidAnswer, match="ask again"):
        agent.run_sync("Which?").decoded(Horse)
