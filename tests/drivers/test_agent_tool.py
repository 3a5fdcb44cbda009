"""The tool `agent`: a run of ours hands work to another vendor's agent."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.core.children import child_session
from ostler.core.hooks import Hook
from ostler.core.store import Store
from ostler.drivers.agent_spec import AgentCommand
from ostler.drivers.agent_tool import AgentTool
from ostler.drivers.session import AgentSession
from ostler.history.costs import cost_records
from ostler.models.scripted import Call
from ostler.permissions.guard import permission_hook
from ostler.permissions.rules import parse_rule
from ostler.schema import events
from ostler.schema.errors import CallRefused
from ostler.schema.events import ChildEvent, Limits, LiveValue, RunEnded
from ostler.schema.messages import as_content, text_of
from ostler.sessions.session import open_session
from ostler.store.invariants import tree_violations, violations
from ostler.store.sqlite import SqliteStore
from tests.drivers.screen_agents import ECHO_AGENT, PATIENCE, QUICK, wait_until_gone
from tests.support.paths import ROOT
from tests.support.running import Ran, started

PROGRAM = (*ECHO_AGENT[:-1], str(Path(__file__).with_name("asking_agent.py")))
ECHO = AgentCommand(PROGRAM, "custom", description="repeats what it is told")
ASKING = AgentCommand(PROGRAM, "claude", description="asks first")


def agent_tool() -> AgentTool:
    return AgentTool({"echo": ECHO, "asking": ASKING}, timing=QUICK)


def ask(**arguments: Any) -> Call:
    return Call("agent", arguments)


@asynccontextmanager
async def session_of(script: Sequence[Any], folder: Path, **options: Any) -> AsyncIterator[Ran]:
    """Its agents end with it."""
    ran = await started(script, tools=[agent_tool()], cwd=folder, **options)
    try:
        yield ran
    finally:
        async with asyncio.timeout(PATIENCE):
            await ran.session.close()


async def go(ran: Ran, prompt: str = "go") -> Ran:
    async with asyncio.timeout(PATIENCE):
        ran.quiet = await ran.session.prompt(as_content(prompt))
    return ran


def child_of(ran: Ran, call: int = 0) -> str:
    return child_session(ran.session.id, ran.all(events.ToolCalled)[call].call, 1)


async def logs_of(store: Store) -> dict[str, Any]:
    return {one.id: await store.read(one.id) for one in await store.sessions()}


async def said_in(ran: Ran, child: str) -> list[str]:
    facts = await ran.session.journal.store.read(child)
    return [
        text_of(fact.event.content)  # type: ignore[union-attr]
        for fact in facts
        if fact.type in ("user_message", "assistant_message")
    ]


async def process_of(store: Store, child: str) -> int:
    ((_, process),) = await store.owned_processes(child)
    return process.pid


async def until(ran: Ran, holds: Any) -> None:
    """Until that is so; looked at whenever something is seen."""
    stirred = asyncio.Event()
    stop = ran.session.subscribe(lambda batch: stirred.set())
    try:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await stirred.wait()
                stirred.clear()
    finally:
        stop()


def live_messages(ran: Ran) -> list[str]:
    seen = [event.event for event in ran.all(ChildEvent)]
    return [
        one.value["text"]
        for one in seen
        if isinstance(one, LiveValue) and one.name == "terminal:message" and one.value
    ]


# --- delegating -------------------------------------------------------------------------------------


async def test_what_the_agent_answers_is_the_result_and_its_session_is_a_child(tmp_path: Path) -> None:
    async with session_of([ask(agent="echo", prompt="hello"), "done"], tmp_path) as ran:
        await go(ran)
        child = child_of(ran)
        assert ran.status == "completed"
        assert ran.results() == [f"[echo, session {child}]\nyou said: hello"]
        facts = await ran.session.journal.store.read(child)
        first = facts[0].event
        assert (first.driver, first.child_of) == ("terminal", ran.session.id)
        assert first.call == ran.all(events.ToolCalled)[0].call
        (begun,), (ended,) = ran.all(events.ChildStarted), ran.all(events.ChildEnded)
        assert (begun.child, begun.agent, begun.task) == (child, "echo", "hello")
        assert (ended.child, ended.status) == (child, "completed")
    logs = await logs_of(ran.session.journal.store)
    assert [problem for log in logs.values() for problem in violations(log)] == []
    assert tree_violations(logs) == []


async def test_later_calls_continue_with_the_same_agent_until_it_is_stopped(tmp_path: Path) -> None:
    def follow_up(request: Any) -> Call:
        return ask(session=sessions[0], prompt="and now this")

    def stop(request: Any) -> Call:
        return ask(session=sessions[0], stop=True)

    sessions: list[str] = []
    script = [ask(agent="echo", prompt="first"), "done", follow_up, "done", stop, follow_up, "done"]
    async with session_of(script, tmp_path) as ran:
        await go(ran)
        sessions.append(child_of(ran))
        pid = await process_of(ran.session.journal.store, sessions[0])
        await go(ran, "once more")
        assert ran.results()[1].endswith("\nyou said: and now this")
        assert (await said_in(ran, sessions[0]))[1:] == [
            "first",
            "you said: first",
            "and now this",
            "you said: and now this",
        ]
        await go(ran, "stop it")
        assert ran.results()[2] == "echo has ended."
        assert wait_until_gone(pid)
        assert ran.results()[3].startswith(f"no agent is open as {sessions[0]!r}")
        assert len(ran.all(events.ChildStarted)) == 1


async def test_agents_end_with_the_session_that_started_them(tmp_path: Path) -> None:
    async with session_of([ask(agent="echo", prompt="hello"), "done"], tmp_path) as ran:
        await go(ran)
        store, child = ran.session.journal.store, child_of(ran)
        pid = await process_of(store, child)
        assert await store.holder(child) is not None
    assert wait_until_gone(pid)
    assert await store.holder(child) is None


async def test_several_agents_work_at_the_same_time(tmp_path: Path) -> None:
    both = [ask(agent="echo", prompt="one"), ask(agent="echo", prompt="two")]
    async with session_of([both, "done"], tmp_path) as ran:
        await go(ran)
        assert {result.rpartition("\n")[2] for result in ran.results()} == {"you said: one", "you said: two"}
        begun = [place for place, kind in enumerate(ran.types) if kind == "child_started"]
        ended = [place for place, kind in enumerate(ran.types) if kind == "child_ended"]
        assert len(begun) == 2 and max(begun) < min(ended)


async def test_a_long_answer_is_truncated_for_the_model_and_stored_in_a_blob(tmp_path: Path) -> None:
    from ostler.core.tool import ResultLimits

    script = [ask(agent="echo", prompt="\n".join(f"line {number}" for number in range(60))), "done"]
    async with session_of(script, tmp_path, result_limits=ResultLimits(characters=400)) as ran:
        await go(ran)
        (result,) = ran.all(events.ToolResultFact)
        assert "characters left out; read blob:" in text_of(result.content)
        kept = await ran.session.journal.store.read_blob(ran.session.id, result.output.id)
        assert b"you said: line 30\n" in kept


# --- what people see --------------------------------------------------------------------------------


async def test_what_the_agent_draws_is_seen_live_under_the_call(tmp_path: Path) -> None:
    async with session_of([ask(agent="echo", prompt="/later 1"), "done"], tmp_path) as ran:
        running = asyncio.ensure_future(go(ran))
        await until(ran, lambda: "first thoughts" in live_messages(ran))
        assert "tool_result" not in ran.types
        await running
        assert {event.call for event in ran.all(ChildEvent)} == {ran.all(events.ToolCalled)[0].call}
        shown = [event.event for event in ran.all(ChildEvent)]
        assert not any(isinstance(one, LiveValue) and one.name == "terminal:screen" for one in shown)


async def test_who_begins_to_follow_the_parent_meanwhile_sees_what_the_agent_says(tmp_path: Path) -> None:
    from ostler.sessions.live_tail import LiveTail

    async with session_of([ask(agent="echo", prompt="/later 1"), "done"], tmp_path) as ran:
        tail = LiveTail()
        ran.session.subscribe(tail.see)
        running = asyncio.ensure_future(go(ran))
        await until(ran, lambda: "first thoughts" in live_messages(ran))
        late = [one.event for one in tail.events() if isinstance(one, ChildEvent)]
        assert any(
            isinstance(one, LiveValue) and one.value == {"id": 2, "text": "first thoughts"} for one in late
        )
        await running
        assert [one for one in tail.events() if isinstance(one, ChildEvent)] == []


async def test_the_terminal_shows_the_last_line_of_what_the_agent_draws() -> None:
    from ostler.history.item_builder import ItemBuilder
    from ostler.history.items import ChildItem

    builder = ItemBuilder("open")

    def child() -> ChildItem:
        (item,) = builder.open_items()
        assert isinstance(item, ChildItem)
        return item

    builder.apply([events.ChildStarted("call", "ses_1", "echo", "hello")])
    message = LiveValue("terminal:message", {"id": 2, "text": "one\ntwo\n"})
    builder.apply([ChildEvent("call", "ses_1", message)])
    assert (child().activity, child().talking) == ("two", True)
    builder.apply([ChildEvent("call", "ses_1", LiveValue("terminal:message"))])
    assert child().activity == "two"


# --- when the agent asks ----------------------------------------------------------------------------


async def test_what_the_agent_wants_to_know_is_returned_and_answered_only_with_keys(tmp_path: Path) -> None:
    def next_call(**arguments: Any) -> Any:
        return lambda request: ask(session=child_of(ran), **arguments)

    script = [
        ask(agent="asking", prompt="/write notes"),
        next_call(prompt="just go on"),
        next_call(keys=["n"]),
        next_call(prompt="thanks"),
        "done",
    ]
    async with session_of(script, tmp_path) as ran:
        await go(ran)
        asked, refused, pressed, said = ran.results()
        assert asked.startswith(f"[asking, session {child_of(ran)}: it asks something]")
        assert asked.endswith("n. No") and "Do you want to write the file?" in asked
        assert "the prompt was not sent, because it asks something first" in refused
        assert pressed.endswith("not written")
        assert said.endswith("you said: thanks")
        states = [result.details["state"] for result in ran.all(events.ToolResultFact)]
        assert states == ["asks", "asks", "waits", "waits"]
        assert "just go on" not in await said_in(ran, child_of(ran))


async def test_an_agent_that_has_drawn_nothing_yet_is_waited_for(tmp_path: Path) -> None:
    may_begin = tmp_path / "go"

    def watch(driven: AgentSession) -> None:
        tracker = driven.driver.tracker  # type: ignore[attr-defined]
        driven.subscribe(lambda: may_begin.touch() if tracker.ready else None)

    late = ("sh", "-c", f"until test -e go; do sleep 0.02; done; exec {shlex.join(PROGRAM)}")
    tool = AgentTool({"late": AgentCommand(late, "claude")}, timing=QUICK, on_start=watch)
    ran = await started([ask(agent="late", prompt="hello"), "done"], tools=[tool], cwd=tmp_path)
    await go(ran)
    assert ran.results()[0].endswith("you said: hello")
    await ran.session.close()


async def test_an_agent_that_starts_with_a_question_does_not_get_its_task(tmp_path: Path) -> None:
    greets = AgentCommand(("sh", "-c", "printf 'Trust this folder? [y/n] '; sleep 60"), "claude")
    tool = AgentTool({"asking": greets}, timing=QUICK)
    ran = await started([ask(agent="asking", prompt="hello"), "done"], tools=[tool], cwd=tmp_path)
    await go(ran)
    assert ran.results()[0].endswith("Trust this folder? [y/n]")
    assert "the prompt was not sent" in ran.results()[0]
    await ran.session.close()


async def test_a_person_is_asked_what_an_agent_asks_on_its_screen(tmp_path: Path) -> None:
    program = (*ECHO_AGENT[:-1], str(Path(__file__).with_name("dialog_agent.py")), "claude")
    tool = AgentTool({"claude": AgentCommand(program, "claude")}, timing=QUICK)
    asked: list[events.QuestionAsked] = []

    async def asker(question: events.QuestionAsked) -> str:
        asked.append(question)
        return "Yes"

    script = [ask(agent="claude", prompt="/write file"), "done"]
    ran = await started(script, tools=[tool], cwd=tmp_path, asker=asker)
    await go(ran)
    assert [one.question.choices[0] for one in asked] == ["Yes"]
    assert "chosen: Yes" in ran.results()[0]
    assert (tmp_path / "file").read_text() == "Yes\n"
    assert [result.details["state"] for result in ran.all(events.ToolResultFact)] == ["waits"]
    await ran.session.close()


async def test_a_person_who_declines_refuses_what_an_agent_asks_on_its_screen(tmp_path: Path) -> None:
    program = (*ECHO_AGENT[:-1], str(Path(__file__).with_name("dialog_agent.py")), "claude")
    tool = AgentTool({"claude": AgentCommand(program, "claude")}, timing=QUICK)

    async def asker(question: events.QuestionAsked) -> str:
        raise CallRefused("no")

    script = [ask(agent="claude", prompt="/write file"), "done"]
    ran = await started(script, tools=[tool], cwd=tmp_path, asker=asker)
    await go(ran)
    assert "chosen: No" in ran.results()[0]
    assert not (tmp_path / "file").exists()
    await ran.session.close()


# --- agents that speak a protocol -------------------------------------------------------------------

PROTOCOL_AGENT = Path(__file__).with_name("acp_agent.py")


def speaking(script: Sequence[Any], folder: Path, **options: Any) -> Any:
    agent = AgentCommand((sys.executable, str(PROTOCOL_AGENT)), "custom", "acp")
    return started(script, tools=[AgentTool({"acp": agent})], cwd=folder, **options)


async def test_a_person_is_asked_what_an_agent_that_speaks_a_protocol_asks(tmp_path: Path) -> None:
    async def agree(asked: events.QuestionAsked) -> str:
        return asked.question.choices[0]

    ran = await speaking([ask(agent="acp", prompt="run make"), "done"], tmp_path, asker=agree)
    await go(ran)
    assert ran.results()[0].endswith("\nDone with yes-1.")
    assert any(isinstance(event.event, events.TextDelta) for event in ran.all(ChildEvent))
    await ran.session.close()
    logs = await logs_of(ran.session.journal.store)
    assert logs[child_of(ran)][0].event.driver == "acp"
    assert tree_violations(logs) == []


async def test_what_nobody_can_be_asked_is_declined(tmp_path: Path) -> None:
    ran = await speaking([ask(agent="acp", prompt="run make"), "done"], tmp_path)
    await go(ran)
    assert ran.results()[0].endswith("Then not.")
    await ran.session.close()


async def test_an_agent_that_speaks_a_protocol_has_no_keys(tmp_path: Path) -> None:
    script = [
        ask(agent="acp", prompt="hello"),
        lambda request: ask(session=child_of(ran), keys=["enter"]),
        "done",
    ]
    ran = await speaking(script, tmp_path)
    await go(ran)
    assert ran.results()[1].startswith("this agent has no terminal")
    await ran.session.close()


# --- permission -------------------------------------------------------------------------------------


def guard(profile: Any, *allowed: str) -> Hook:
    hook = permission_hook(profile, Path.cwd(), [parse_rule(rule, "allow") for rule in allowed])
    assert hook is not None
    return hook


async def test_the_permission_question_shows_the_real_command(tmp_path: Path) -> None:
    asked: list[events.QuestionAsked] = []

    async def refuse(question: events.QuestionAsked) -> str:
        asked.append(question)
        return "no"

    calls = [ask(agent="echo", prompt="hello", command="true"), "done"]
    async with session_of(calls, tmp_path, permission_hook=guard("ask"), asker=refuse) as ran:
        await go(ran)
        assert ran.results() == ["The user declined this call."]
        (question,) = asked
        command = shlex.join(PROGRAM)
        assert question.question.text.startswith(f"Allow agent: {command[:100]}")
        assert question.question.details is not None
        assert question.question.details["arguments"]["command"] == command
        assert question.question.details["arguments"]["prompt"] == "hello"
        assert "child_started" not in ran.types


async def test_nothing_is_started_where_commands_are_refused(tmp_path: Path) -> None:
    async with session_of(
        [ask(agent="echo", prompt="hello"), "done"], tmp_path, permission_hook=guard("read-only")
    ) as ran:
        await go(ran)
        (result,) = ran.all(events.ToolResultFact)
        assert result.failed == "call_refused"
        assert await ran.session.journal.store.sessions() == [
            await ran.session.journal.store.summary(ran.session.id)
        ]


async def test_permission_to_prompt_does_not_include_keys(tmp_path: Path) -> None:
    allowed = guard("ask", f"agent({shlex.join(PROGRAM)})")
    script = [
        ask(agent="asking", prompt="/write notes"),
        lambda request: ask(session=child_of(ran), keys=["y"]),
        "done",
    ]
    async with session_of(script, tmp_path, permission_hook=allowed) as ran:
        await go(ran)
        begun, pressed = ran.all(events.ToolResultFact)
        assert begun.failed is None
        assert pressed.failed == "call_refused"
        assert "written" not in (await said_in(ran, child_of(ran)))[-1]


async def test_a_command_of_the_models_own_is_judged_as_it_will_run(tmp_path: Path) -> None:
    plain = shlex.join(PROGRAM)
    calls = [ask(command=f"{plain} # more", prompt="hello"), ask(command=plain, prompt="hello"), "done"]
    async with session_of(calls, tmp_path, permission_hook=guard("ask", f"agent(={plain})")) as ran:
        await go(ran)
        refused, begun = ran.all(events.ToolResultFact)
        assert refused.failed == "call_refused"
        assert begun.failed is None


# --- ends -------------------------------------------------------------------------------------------


async def test_an_agent_whose_call_is_cancelled_is_interrupted_and_ended(tmp_path: Path) -> None:
    async with session_of([ask(agent="echo", prompt="/spin"), "done"], tmp_path) as ran:
        running = asyncio.ensure_future(go(ran))
        await until(ran, lambda: any("turn" in text for text in live_messages(ran)))
        store, child = ran.session.journal.store, child_of(ran)
        pid = await process_of(store, child)
        ran.session.cancel("enough")
        await running
        assert ran.status == "cancelled"
        assert wait_until_gone(pid)
        assert [end.status for end in ran.all(events.ChildEnded)] == ["cancelled"]
        ends = [fact.event for fact in await store.read(child) if isinstance(fact.event, RunEnded)]
        assert [end.status for end in ends] == ["cancelled"]
        assert await store.holder(child) is None


async def test_an_agent_that_times_out_is_interrupted_and_can_be_continued(tmp_path: Path) -> None:
    script = [
        ask(agent="echo", prompt="hello"),
        lambda request: ask(session=child_of(ran), prompt="/spin", timeout=1.5),
        lambda request: ask(session=child_of(ran), prompt="again"),
        "done",
    ]
    async with session_of(script, tmp_path) as ran:
        await go(ran)
        _, late, again = ran.all(events.ToolResultFact)
        assert late.failed == "tool_timed_out"
        assert "it was interrupted after 1.5 s" in text_of(late.content)
        assert text_of(again.content).endswith("you said: again")


async def test_an_agent_that_ends_by_itself_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    async with session_of([ask(agent="echo", prompt="/exit 3"), "done"], tmp_path) as ran:
        await go(ran)
        (result,) = ran.all(events.ToolResultFact)
        assert result.failed == "tool_failed"
        assert "it ended with exit status 3" in text_of(result.content)
        assert [end.status for end in ran.all(events.ChildEnded)] == ["failed"]


async def test_a_program_that_does_not_exist_is_named_and_leaves_no_session(tmp_path: Path) -> None:
    async with session_of([ask(command="no-such-agent --fast", prompt="hello"), "done"], tmp_path) as ran:
        await go(ran)
        assert ran.results() == ["cannot start no-such-agent: there is no such program on PATH"]
        assert len(await ran.session.journal.store.sessions()) == 1


async def test_an_agent_counts_against_the_limit_of_children(tmp_path: Path) -> None:
    twice = [[ask(agent="echo", prompt="one"), ask(agent="echo", prompt="two")], "done"]
    async with session_of(twice, tmp_path, limits=Limits(children=1)) as ran:
        await go(ran)
        assert any("you said: one" in result for result in ran.results())
        assert "No agent was started: the limit of 1 children was reached." in ran.results()
        assert sorted(end.status for end in ran.all(events.ChildEnded)) == ["completed", "limit"]


FAKE_CLAUDE = str(Path(__file__).with_name("fake_claude.py"))
SPENDER = AgentCommand((*ECHO_AGENT[:-1], FAKE_CLAUDE), "claude", "stream-json")
"""$0.50 and 18 tokens a turn."""


@pytest.mark.parametrize("limits", [Limits(cost=1.2), Limits(tokens=100)])
async def test_what_an_agent_says_that_it_has_used_counts_against_the_limits(
    tmp_path: Path, limits: Limits
) -> None:
    first = ask(agent="spender", prompt="one")
    later = [lambda request: ask(session=child_of(ran), prompt="more")] * 9
    ran = await started([first, *later], tools=[AgentTool({"spender": SPENDER})], cwd=tmp_path, limits=limits)
    try:
        await go(ran)
    finally:
        await ran.session.close()
    assert isinstance(ran.quiet, RunEnded)
    assert (ran.quiet.status, len(ran.results())) == ("limit", 3)
    assert ran.quiet.reason in (
        "the limit of $1.2 was reached: $1.5 is used",
        "the limit of 100 tokens was reached: 99 are used",
    )
    children = ran.quiet.children
    assert (children.runs, children.usage.cost, children.usage.total_tokens) == (1, 1.5, 54)
    (group,), _ = await cost_records(ran.session.journal.store, ["session"])
    assert group.children.known_cost == 1.5, "as its own session tells: its parent's is no second time"
    logs = await logs_of(ran.session.journal.store)
    assert [problem for log in logs.values() for problem in violations(log)] == []
    assert tree_violations(logs) == []


async def test_an_agents_use_is_that_of_the_run_and_call_it_worked_for(tmp_path: Path) -> None:
    more = ask(agent="spender", prompt="one"), lambda request: ask(session=child_of(ran), prompt="more")
    script = [more[0], "done", more[1], more[1], "done"]
    ran = await started(script, tools=[AgentTool({"spender": SPENDER})], cwd=tmp_path)
    try:
        ends = [(await go(ran)).quiet, (await go(ran, "go on")).quiet]
    finally:
        await ran.session.close()
    totals = [end.children for end in ends if isinstance(end, RunEnded)]
    assert [(one.runs, one.usage.cost) for one in totals] == [(1, 0.5), (0, 1.0)]
    told = ran.all(events.ChildUsed)
    assert [one.call for one in told] == [call.call for call in ran.all(events.ToolCalled)]
    assert {(one.child, one.usage.cost) for one in told} == {(child_of(ran), 0.5)}
    assert tree_violations(await logs_of(ran.session.journal.store)) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"agent": "echo"}, "say in `prompt` what to do"),
        ({"prompt": "hello"}, "name the `agent` for the task; the agents are: echo, asking"),
        ({"prompt": "hello", "command": "it's"}, "the command cannot be read: No closing quotation"),
        ({"keys": ["enter"]}, "keys needs the `session` of an agent that was started before"),
        ({"session": "ses_1", "prompt": "a", "stop": True}, "prompt and stop exclude each other"),
        ({"session": "ses_1", "keys": ["\x1b"]}, "is no key: name one of enter, escape"),
        ({"agent": "echo", "prompt": "stop\x03"}, "would press a key: use `keys` for that"),
        ({"agent": "echo", "prompt": "1\r"}, "would press a key"),
        ({"session": "ses_1", "prompt": "a"}, "no agent is open as 'ses_1': it has ended"),
    ],
)
async def test_a_call_that_makes_no_sense_is_answered_with_what_to_do(
    tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    async with session_of([ask(**arguments), "done"], tmp_path) as ran:
        await go(ran)
        assert problem in ran.results()[0]


# --- kill -9 ----------------------------------------------------------------------------------------

OWNER = """
import asyncio, sys
from pathlib import Path
from ostler.store.sqlite import SqliteStore
from ostler.schema.messages import as_content
from tests.support.running import started
from tests.support.paths import ROOT
from tests.drivers.test_agent_tool import agent_tool, ask, child_of

async def main():
    then = lambda request: ask(session=child_of(ran), prompt="/spin")
    script = [ask(agent="echo", prompt="hello" if sys.argv[2] == "later" else "/spin"), then]
    ran = await started(script, tools=[agent_tool()], store=SqliteStore(Path(sys.argv[1])), cwd=Path.cwd())
    def look(batch):
        if "turn " in repr(batch):
            print(ran.session.id, child_of(ran), flush=True)
    ran.session.subscribe(look)
    await ran.session.prompt(as_content("go"))

asyncio.run(main())
"""


def begin_owner(store: Path, call: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, str(store), call],
        stdout=subprocess.PIPE,
        cwd=store.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )


@pytest.mark.parametrize("call", ["first", "later"])
async def test_kill_9_leaves_nothing_behind_and_repeats_nothing(tmp_path: Path, call: str) -> None:
    path = tmp_path / "ostler.db"
    owner = begin_owner(path, call)
    assert owner.stdout is not None
    with owner.stdout as said:
        session, child = said.readline().split()
    store = SqliteStore(path)
    pid = await process_of(store, child)
    owner.send_signal(signal.SIGKILL)
    owner.wait(PATIENCE)
    assert wait_until_gone(pid)

    ran = await started(["done"], tools=[agent_tool()], cwd=tmp_path)
    opened = await open_session(store, session, ran.session.harness)
    await ran.session.close()
    async with asyncio.timeout(PATIENCE):
        ended = await opened.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    await opened.close()
    logs = await logs_of(store)
    results = [fact.event for fact in logs[session] if isinstance(fact.event, events.ToolResultFact)]
    assert [result.failed for result in results][-1] == "tool_interrupted"
    ends = [fact.event.status for fact in logs[child] if isinstance(fact.event, RunEnded)]
    assert ends[-1] == "interrupted"
    assert set(logs) == {session, child}
    assert [problem for log in logs.values() for problem in violations(log)] == []
    assert tree_violations(logs) == []
    await store.close()
