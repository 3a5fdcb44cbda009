"""The audit of a session has a reason for every decision."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.hooks import Hook, Refuse, Retry, Rewrite, StepPlan, Suppress
from ostler.core.journal import World
from ostler.core.process_tree import local_user
from ostler.history.audit import Trail, audit_entries, audit_of, why
from ostler.history.audit_decisions import ACTIONS, NO_DECISION, AuditEntry
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.permissions.guard import permission_hook, remember_answer
from ostler.permissions.rules import parse_rule
from ostler.schema import events
from ostler.schema.errors import AuthenticationFailed, CallRefused, NotFound, RateLimited
from ostler.schema.events import EVENT_TYPES, Entry, Event, Limits, Record
from ostler.schema.facts import Fact, decode_event
from ostler.schema.messages import Text, as_content
from ostler.schema.outcomes import NeedUser, Pending, Question, failed
from ostler.schema.requests import Cancel, RevokePermission
from ostler.sessions.session import open_session
from ostler.store.fork import fork
from ostler.store.memory import MemoryStore
from ostler.store.portable import export_session, import_session
from tests.support.event_strategies import any_event
from tests.support.paths import GOLDEN
from tests.support.running import Ran, run, started

GOLDEN_FILE = GOLDEN / "events-v1.jsonl"


def facts_of(happened: Iterable[Event], run: str = "run_1") -> list[Fact]:
    return [
        Fact.of(event, seq=seq, session="ses_1", run=run, time_ms=seq * 1000)
        for seq, event in enumerate(happened, 1)
    ]


def audit(ran: Ran) -> list[AuditEntry]:
    return list(audit_entries(ran.facts))


def reasons(ran: Ran, action: str) -> list[str]:
    return [entry.reason for entry in audit(ran) if entry.action == action]


@tool(name="bash", kind="execute")
def pretend_bash(command: str) -> str:
    "Pretends to run a command."
    return f"ran {command}"


@tool(kind="read")
def look(path: str) -> str:
    "Looks at a file."
    return f"saw {path}"


PUSH = Call("bash", {"command": "git push origin"}, id="push")


# --- what is audited --------------------------------------------------------------------------------


def test_every_fact_is_audited_or_listed_without_a_decision() -> None:
    stored = {kind for kind in EVENT_TYPES.values() if issubclass(kind, Entry | Record)}
    audited = {action.fact for action in ACTIONS.values()} | {events.Audited}
    assert audited | NO_DECISION == stored
    assert not audited & NO_DECISION


def test_every_golden_fact_can_be_audited() -> None:
    samples = [decode_event(line) for line in GOLDEN_FILE.read_bytes().splitlines()]
    stored = [one for one in samples if isinstance(one, Entry | Record)]
    entries = list(audit_entries(facts_of(stored)))
    types = {type(stored[entry.seq - 1]) for entry in entries}
    only_sometimes = {events.UserMessage, events.StepEnded}
    sampled = {type(one) for one in stored}
    assert types | only_sometimes >= {action.fact for action in ACTIONS.values()} & sampled
    assert all(entry.reason for entry in entries)


@given(st.lists(any_event(), max_size=12))
def test_simulated_sessions_can_be_audited(happened: list[Event]) -> None:
    stored = [event for event in happened if isinstance(event, Entry | Record)]
    entries = list(audit_entries(facts_of(stored)))
    assert len({entry.seq for entry in entries}) == len(entries)
    for entry in entries:
        event = stored[entry.seq - 1]
        assert isinstance(event, events.Audited) or ACTIONS[entry.action].fact is type(event)
        assert type(event) not in NO_DECISION
        assert "\n" not in entry.reason and len(entry.reason) <= 300
        line = msgspec.json.encode(entry)
        assert msgspec.json.encode(msgspec.json.decode(line, type=AuditEntry)) == line


# --- models -----------------------------------------------------------------------------------------


async def test_each_model_call_has_a_reason() -> None:
    other = ScriptedModel(["I go on."], name="acme/small")
    wrong_key = AuthenticationFailed("the key is wrong", status=401)
    again = Hook("after_failure", lambda call: Retry() if call.failure.kind == "rate_limited" else None)
    model = ScriptedModel([RateLimited("later", status=429), Call("look", {"path": "a"}), wrong_key])
    ran = await run(model, tools=[look], hooks=[again], fallbacks=(other,))
    assert ran.status == "completed"
    assert [(entry.action, entry.model, entry.outcome) for entry in audit(ran) if entry.model] == [
        ("run.start", "scripted/model", "recorded"),
        ("model.select", "scripted/model", "allowed"),
        ("model.retry", "scripted/model", "retry"),
        ("model.select", "scripted/model", "allowed"),
        ("tool.allow", "scripted/model", "allowed"),
        ("call.finish", "scripted/model", "recorded"),
        ("model.select", "scripted/model", "allowed"),
        ("model.fallback", "acme/small", "fallback"),
        ("model.select", "acme/small", "allowed"),
    ]
    assert reasons(ran, "model.select") == [
        "the run was started with it",
        "attempt 2, because the one before failed: later",
        "the run was started with it",
        "it took over from scripted/model, which failed: the key is wrong",
    ]
    assert len(reasons(ran, "model.select")) == len(ran.all(events.ModelCalled))


async def test_a_hook_that_chooses_another_model_is_named() -> None:
    other = ScriptedModel(["Hello."], name="acme/small")

    def choose(plan: StepPlan) -> StepPlan:
        return msgspec.structs.replace(plan, model=other)

    ran = await run([], hooks=[Hook("before_step", choose)])
    assert reasons(ran, "model.select") == ["a hook chose it in place of scripted/model"]


async def test_the_reason_names_who_chose_the_model() -> None:
    ran = await started(["Hello."])
    ran.session.journal.record(events.SettingsChanged(model="scripted/model", by="cli"))
    await ran.session.prompt(as_content("go"))
    assert reasons(ran, "settings.change") == ["cli set model"]
    assert reasons(ran, "model.select") == ["cli chose it for the session"]


async def test_a_final_failure_and_a_refusal_are_audited() -> None:
    ran = await run([AuthenticationFailed("the key is wrong", status=401)])
    assert reasons(ran, "model.fail") == ["the key is wrong"]
    (end,) = [entry for entry in audit(ran) if entry.action == "run.end"]
    assert end.reason == "the key is wrong"
    assert end.details == {"status": "failed", "failure": "authentication_failed"}
    ran = await run([Turn("No.", stop_reason="refusal")])
    assert reasons(ran, "model.refuse") == ["the model refused to answer"]
    assert [(entry.action, entry.outcome) for entry in audit(ran)][-1] == ("run.end", "denied")


# --- calls ------------------------------------------------------------------------------------------


async def test_a_denied_call_names_who_denied_it(tmp_path: Path) -> None:
    guard = permission_hook("read-only", tmp_path, [parse_rule("bash(rm)", "deny")])
    calls = [PUSH, Call("bash", {"command": "rm x"}), Call("look", {"path": "a"})]
    ran = await run([calls, "done"], tools=[pretend_bash, look], permission_hook=guard)
    denied = [entry for entry in audit(ran) if entry.action == "tool.deny"]
    assert [(entry.tool, entry.what, entry.actor, entry.outcome) for entry in denied] == [
        ("bash", "git push origin", "system", "denied"),
        ("bash", "rm x", "system", "denied"),
    ]
    assert denied[0].reason.startswith("permissions are read-only: tools that run commands are refused")
    assert denied[1].reason.startswith("the rule deny bash(rm) forbids this")


async def test_a_call_that_its_tool_denies_names_the_tool() -> None:
    @tool
    def picky() -> str:
        "Refuses."
        raise CallRefused("not on a Sunday")

    ran = await run([Call("picky"), "done"], tools=[picky])
    (denied,) = [entry for entry in audit(ran) if entry.action == "tool.deny"]
    assert (denied.actor, denied.reason) == ("tool", "not on a Sunday")


async def test_an_invalid_call_is_a_protocol_error() -> None:
    ran = await run([[Call("nope"), Call("look", raw="{")], "done"], tools=[look])
    errors = [entry for entry in audit(ran) if entry.action == "tool.protocol_error"]
    assert [(entry.tool, entry.actor, entry.details) for entry in errors] == [
        ("nope", "model", {"failed": "unknown_tool"}),
        ("look", "model", {"failed": "invalid_arguments"}),
    ]
    assert errors[0].reason == 'unknown tool "nope"; the tools are: look'


async def test_without_a_guard_the_profile_is_the_reason() -> None:
    ran = await run([PUSH, "done"], tools=[pretend_bash], permission_profile="full")
    assert reasons(ran, "tool.allow") == ["profile full"]
    ran = await run([PUSH, "done"], tools=[pretend_bash], permission_profile="")
    assert reasons(ran, "tool.allow") == ["no rule forbids it"]


def test_a_started_call_names_the_rule_or_profile() -> None:
    called = events.ToolCalled("push", "bash", {"command": "git push origin"}, 1)
    begun = events.ToolStarted("push", "bash", allowed_by="rule bash(git push)")
    (entry,) = audit_entries(facts_of([called, begun]))
    assert (entry.reason, entry.what) == ("rule bash(git push)", "git push origin")


async def test_a_rewritten_call_is_audited_as_it_ran() -> None:
    rewrite = Hook("before_tool", lambda planned: Rewrite({"command": "git push --dry-run"}))
    ran = await run([PUSH, "done"], tools=[pretend_bash], hooks=[rewrite])
    (allowed,) = [entry for entry in audit(ran) if entry.action == "tool.allow"]
    assert allowed.what == "git push --dry-run"
    assert allowed.reason.endswith("; a hook rewrote its arguments")


async def test_the_result_of_a_call_is_audited_without_its_output() -> None:
    @tool
    def broken() -> Any:
        "Fails."
        return failed("password: hunter2", summary="")

    ran = await run([[Call("broken"), Call("look", {"path": "a"})], "done"], tools=[broken, look])
    assert reasons(ran, "call.finish") == ["it failed", "it succeeded"]


# --- people -----------------------------------------------------------------------------------------


async def run_with_answers(*answers: Any, times: int = 1) -> Ran:
    left = list(answers)

    async def ask(question: events.QuestionAsked) -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    script = [Turn(calls=(msgspec.structs.replace(PUSH, id=f"push_{n}"),)) for n in range(times)]
    return await run(
        [*script, "done"],
        tools=[pretend_bash],
        permission_hook=permission_hook("ask", Path("/")),
        remember=remember_answer,
        asker=ask,
    )


def call_decisions(ran: Ran) -> list[tuple[str, str, str]]:
    return [(entry.action, entry.actor, entry.outcome) for entry in audit(ran) if entry.call]


async def test_an_answer_is_the_reason_that_a_call_ran() -> None:
    ran = await run_with_answers("yes")
    assert call_decisions(ran) == [
        ("permission.ask", "system", "requested"),
        ("permission.answer", "user", "allowed"),
        ("tool.allow", "user", "allowed"),
        ("call.finish", "tool", "recorded"),
    ]
    assert reasons(ran, "permission.ask")[0].startswith("permissions are ask: tools that run commands need")
    assert reasons(ran, "permission.answer") == ["the answer was yes"]
    assert reasons(ran, "tool.allow") == ["a person allowed it: the answer was yes"]
    (question,) = [entry for entry in audit(ran) if entry.action == "permission.ask"]
    assert question.what.startswith("Allow bash: git push origin")


async def test_a_denial_by_a_person_names_the_person() -> None:
    declined = "The user declined this call."
    for no, reason in ((CallRefused("use a branch"), "use a branch"), ("no", declined)):
        ran = await run_with_answers(no)
        assert call_decisions(ran)[1:] == [
            ("permission.answer", "user", "denied"),
            ("tool.deny", "user", "denied"),
        ]
        assert reasons(ran, "tool.deny") == [reason]


async def test_remembered_and_revoked_rules_are_audited() -> None:
    ran = await run_with_answers("session", times=2)
    (kept,) = [entry for entry in audit(ran) if entry.action == "permission.remember"]
    assert (kept.what, kept.reason) == ("bash(=git push origin)", "from now on: allow, for the session")
    await ran.session.journal.store.submit(
        ran.session.id, RevokePermission(id="req_1", by="ada", rule="bash(=git push origin)")
    )
    await ran.session.advance()
    (revoked,) = [entry for entry in audit(ran) if entry.action == "permission.revoke"]
    assert (revoked.who, revoked.what) == (local_user(), "bash(=git push origin)")
    assert revoked.details is not None and revoked.details["by"] == "ada", "what the client said"


async def test_a_secret_answer_is_not_in_the_audit() -> None:
    @tool(resumes=True)
    def login(context: Any) -> Any:
        "Logs in."
        if context.answer is None:
            return NeedUser(Question("Your password?", secret=True, reason="the server wants it"))
        return "logged in"

    async def ask(question: events.QuestionAsked) -> str:
        return "hunter2"

    ran = await run([Call("login"), "done"], tools=[login], asker=ask)
    assert reasons(ran, "wait_user.request") == ["the server wants it"]
    assert reasons(ran, "wait_user.answer") == ["the answer is a secret, which is not stored"]
    assert reasons(ran, "tool.allow")[-1] == "a person answered what it wanted to know"
    assert b"hunter2" not in msgspec.json.encode(audit(ran))


async def test_an_audit_of_an_open_session_knows_its_state() -> None:
    store = MemoryStore()
    options: dict[str, Any] = {
        "tools": [pretend_bash],
        "permission_hook": permission_hook("ask", Path("/")),
        "wait_for_answers": True,
    }
    ran = await run([PUSH], store=store, **options)
    assert reasons(ran, "run.wait")[0].startswith("it waits for an answer: Allow bash: git push origin")
    await ran.session.close()
    harness = Harness(
        ScriptedModel(["done"]), permission_hook=options["permission_hook"], wait_for_answers=True
    )
    harness.set_tools(options["tools"])
    session = await open_session(store, ran.session.id, harness)
    trail, live = Trail(session.state), list[AuditEntry | None]()
    session.subscribe(lambda batch: live.extend(trail.take(item) for item in batch if isinstance(item, Fact)))
    await session.answer(next(iter(session.state.questions)), "yes")
    whole = await audit_of(store, session.id)
    later = [entry for entry in live if entry]
    assert later == whole[-len(later) :]
    assert [entry.action for entry in later] == [
        "permission.answer",
        "run.resume",
        "tool.allow",
        "call.finish",
        "model.select",
        "run.end",
    ]
    assert later[2].tool == "bash" and later[2].reason == "a person allowed it: the answer was yes"


async def test_a_run_that_waits_for_a_deferred_call_is_audited() -> None:
    @tool
    def order() -> Any:
        "Orders something."
        return Pending(handle="order-7", note="it comes on Monday")

    ran = await run([Call("order")], tools=[order])
    assert reasons(ran, "call.defer") == ["it comes on Monday"]
    assert reasons(ran, "run.wait") == ["it waits for deferred calls: order"]


# --- runs -------------------------------------------------------------------------------------------


async def test_a_limit_that_ends_a_run_is_named() -> None:
    ran = await run([Call("look", {"path": str(n)}) for n in range(3)], tools=[look], limits=Limits(steps=2))
    (stop,) = [entry for entry in audit(ran) if entry.action == "budget.stop"]
    assert stop.outcome == "denied" and "2 steps" in stop.reason
    (start,) = [entry for entry in audit(ran) if entry.action == "run.start"]
    assert start.details and start.details["limits"]["steps"] == 2


def test_a_near_limit_is_audited() -> None:
    near = events.Warned("80 % of the cost", about="limit", details={"limit": "cost", "used": 0.8, "of": 1.0})
    (entry,) = audit_entries(facts_of([near]))
    assert (entry.action, entry.reason) == ("budget.warn", "80 % of the cost")
    assert entry.details == {"about": "limit", "limit": "cost", "used": 0.8, "of": 1.0}


async def test_a_cancelled_run_names_who_cancelled_it() -> None:
    @tool
    async def long_work() -> str:
        "Works until it is stopped."
        await ran.session.journal.store.submit(ran.session.id, Cancel(id="req_1", by="ada"))
        await asyncio.get_running_loop().create_future()
        return "never"

    ran = await started([Call("long_work"), "done"], tools=[long_work])
    await ran.session.prompt(as_content("go"))
    (cancelled,) = [entry for entry in audit(ran) if entry.action == "run.cancel"]
    assert (cancelled.reason, cancelled.outcome) == ("cancelled by ada", "cancelled")
    assert cancelled.details == {"status": "cancelled", "request": "req_1"}
    assert reasons(ran, "tool.cancel") == ["Cancelled: cancelled by ada."]


def test_pause_and_resume_name_the_person() -> None:
    happened = [
        events.RunStarted("0", "/", "acme/large"),
        events.RunWaiting("paused", request="req_1"),
        events.RunResumed("req_2"),
    ]
    entries = list(audit_entries(facts_of(happened)))[1:]
    assert [(entry.action, entry.actor, entry.outcome, entry.reason) for entry in entries] == [
        ("run.pause", "user", "paused", "someone paused it"),
        ("run.resume", "user", "resumed", "someone resumed it"),
    ]


async def test_the_effects_of_hooks_are_audited() -> None:
    ran = await run(["Hello."], hooks=[Hook("before_step", lambda plan: Refuse("not today"))])
    assert reasons(ran, "step.deny") == ["not today"]
    ran = await run(["Hello."], hooks=[Hook("before_message", lambda draft: Suppress())])
    assert reasons(ran, "answer.withhold") == ["a hook withheld it from people"]
    ran = await run(["Hello."], hooks=[Hook("before_step", lambda plan: 1 / 0, name="broken")])
    assert reasons(ran, "hook.fail") == ["the hook broken failed: ZeroDivisionError: division by zero"]


def test_a_child_is_audited_with_its_call() -> None:
    happened = [
        events.RunStarted("0", "/", "acme/large"),
        events.ToolCalled("call_1", "delegate", {"name": "scout"}, 1),
        events.ChildStarted("call_1", "ses_2", agent="scout", task="find the bug"),
        events.ChildEnded("call_1", "ses_2", "limit", reason="the limit of 2 steps was reached"),
    ]
    start, end = list(audit_entries(facts_of(happened)))[1:]
    assert (start.action, start.tool, start.what) == ("child.start", "delegate", "find the bug")
    assert start.details == {"child": "ses_2", "agent": "scout"}
    assert (end.action, end.reason) == ("child.end", "the limit of 2 steps was reached")


def test_a_child_of_an_extension_names_the_extension() -> None:
    spawned = events.ChildStarted("", "ses_2", task="find the bug", extension="scouts")
    (start,) = list(audit_entries(facts_of([spawned])))
    assert (start.actor, start.who, start.what) == ("host", "scouts", "find the bug")
    assert start.reason == "an extension has an agent do it in session ses_2"


def test_a_repeated_call_of_a_waiting_child_has_its_reason() -> None:
    happened = [
        events.RunStarted("0", "/", "acme/large"),
        events.ToolCalled("call_1", "delegate", {"task": "look"}, 1),
        events.ToolStarted("call_1", "delegate", child="ses_2"),
        events.ToolDeferred("call_1", "ses_2", "the child waits for an answer"),
        events.ToolStarted("call_1", "delegate", attempt=2, child="ses_2"),
        events.ToolStarted("call_1", "delegate", attempt=3, child="ses_2"),
    ]
    *_, moved, crashed = audit_entries(facts_of(happened))
    assert moved.reason == "it is called again: its child, which waited, can continue"
    assert crashed.reason.startswith("it is run again: the process that ran it has ended")


def test_a_host_can_audit_its_own_decisions() -> None:
    about = {"call": "call_1", "who": "warden", "outcome": "denied", "actor": "nobody"}
    (entry,) = audit_entries(facts_of([events.Audited("sandbox.decide", "it writes", about)]))
    assert (entry.action, entry.actor, entry.outcome) == ("sandbox.decide", "host", "denied")
    assert (entry.who, entry.call, entry.reason) == ("warden", "call_1", "it writes")


# --- reading back -----------------------------------------------------------------------------------


async def test_the_audit_of_a_stored_session_can_start_at_a_time() -> None:
    store = MemoryStore()
    happened = [
        events.SessionStarted("/", "0"),
        events.RunStarted("0", "/", "acme/large"),
        events.ModelCalled("msg_1", "acme/large", "digest"),
        events.RunEnded("interrupted", "the process that ran it ended"),
    ]
    await store.import_session(facts_of(happened))
    whole = await audit_of(store, "ses_1")
    assert [entry.seq for entry in whole] == [1, 2, 3, 4]
    assert await audit_of(store, "ses_1", since_ms=3000) == whole[2:]
    assert whole[2].reason == "the run was started with it"
    with pytest.raises(NotFound):
        await audit_of(store, "ses_nobody")


async def test_copied_facts_are_audited_only_in_their_original() -> None:
    ran = await run([PUSH, "done"], tools=[pretend_bash])
    store = ran.session.journal.store
    copy = await fork(store, ran.session.id, None, World())
    (start,) = await audit_of(store, copy)
    assert start.reason.startswith(f"a copy of session {ran.session.id} up to its entry")
    lines = [line async for line in export_session(store, ran.session.id)]
    imported = (await import_session(store, lines, "/elsewhere", World())).session
    actions = [entry.action for entry in await audit_of(store, imported)]
    assert actions[1:] == [entry.action for entry in audit(ran)]


async def test_why_shows_the_model_permission_and_result_of_a_call() -> None:
    ran = await run_with_answers("yes", "yes", times=2)
    facts = await ran.session.journal.store.read(ran.session.id)
    led = why(facts, "push_1")
    assert [(entry.action, entry.call) for entry in led] == [
        ("run.start", ""),
        ("model.select", ""),
        ("permission.ask", "push_1"),
        ("permission.answer", "push_1"),
        ("tool.allow", "push_1"),
        ("call.finish", "push_1"),
    ]
    assert led[1].seq > max(entry.seq for entry in why(facts, "push_0"))
    assert why(facts, "nothing") == []


async def test_a_message_of_another_run_is_not_a_decision() -> None:
    steer = events.UserMessage((Text("and be\nquick"),), source="steer")
    prompt = events.UserMessage((Text("go"),))
    (entry,) = audit_entries(facts_of([prompt, steer]))
    assert (entry.action, entry.what) == ("run.steer", "and be quick")


async def test_a_call_says_which_profile_or_rule_allowed_it(tmp_path: Path) -> None:
    guard = permission_hook("edit", tmp_path, [parse_rule("bash(git push)", "allow", origin="of the test")])
    calls = [PUSH, Call("look", {"path": "a"}), Call("bash", {"command": "ls | head"})]
    ran = await run([calls, "done"], tools=[pretend_bash, look], permission_hook=guard)
    assert reasons(ran, "tool.allow") == [
        "rule bash(git push) of the test",
        "profile edit",
        "profile edit, it only reads",
    ]


async def test_a_cancelled_call_names_who_cancelled_it() -> None:
    @tool
    async def long_work() -> str:
        "Works until it is stopped."
        await ran.session.journal.store.submit(ran.session.id, Cancel(id="req_1", by="ada", call="long"))
        await asyncio.get_running_loop().create_future()
        return "never"

    ran = await started([Call("long_work", id="long"), "done"], tools=[long_work])
    await ran.session.prompt(as_content("go"))
    cancelled = [entry for entry in audit(ran) if entry.action == "tool.cancel"]
    assert [(entry.actor, entry.who, entry.call) for entry in cancelled] == [
        ("user", "ada", "long"),
        ("system", "", "long"),
    ]
