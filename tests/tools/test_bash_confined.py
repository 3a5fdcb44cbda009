"""The way of a confined call: judged harmless, run without rights, and perhaps once more after a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.core.confinement import ConfinementStatus, confinement_status
from ostler.core.hooks import Allow, Hook
from ostler.models.scripted import Call
from ostler.permissions.guard import configured_rules, permission_hook
from ostler.schema import events
from ostler.schema.errors import CallRefused
from ostler.schema.events import QuestionAsked, RunEnded, RunWaiting, ToolResultFact, ToolStarted
from ostler.schema.messages import as_content, text_of
from ostler.schema.requests import Answer
from ostler.sessions.session import open_session
from ostler.store.memory import MemoryStore
from ostler.tools.bash import bash
from tests.support.running import Ran, run, started

status = confinement_status()
needs_landlock = pytest.mark.skipif(not status.is_active, reason=f"no confinement here: {status.text}")

HARMLESS = Hook("before_tool", lambda planned: Allow("judged harmless", confined=True), guard=True)
WRITES = "echo before; echo written > file && cat file"


async def run_bash(command: str, cwd: Path, **options: Any) -> Ran:
    options.setdefault("permission_hook", HARMLESS)
    script = [[Call("bash", {"command": command}, id="call_1")], "done"]
    return await run(script, tools=[bash], cwd=cwd, **options)


def starts(ran: Ran) -> list[bool]:
    return [started.confined for started in ran.all(ToolStarted)]


class Person:
    """Answers every question, and remembers them."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[QuestionAsked] = []

    async def __call__(self, asked: QuestionAsked) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@needs_landlock
async def test_a_harmless_command_that_writes_runs_again_after_a_yes(tmp_path: Path) -> None:
    person = Person("yes")
    ran = await run_bash(WRITES, tmp_path, asker=person)
    (asked,) = person.asked
    assert asked.asked_by == "permission" and asked.durable
    assert asked.question.kind == "permission" and asked.question.choices == ("yes", "no")
    assert WRITES in asked.question.text
    assert asked.question.details == {"tool": "bash", "arguments": {"command": WRITES, "timeout": None}}
    assert "file: Permission denied" in asked.question.reason
    assert ran.results() == ["before\nwritten\n"]
    assert starts(ran) == [True, False]
    assert ran.status == "completed"


@needs_landlock
@pytest.mark.parametrize(
    ("answer", "why"),
    [("no", "the user declined"), (CallRefused("use git instead"), "use git instead")],
)
async def test_after_a_no_the_first_result_stays_and_says_what_happened(
    answer: Any, why: str, tmp_path: Path
) -> None:
    ran = await run_bash(WRITES, tmp_path, asker=Person(answer))
    (result,) = ran.results()
    assert "before\n" in result and "file: Permission denied" in result and "exit code 1" in result
    assert "without the right to write files" in result
    assert result.endswith(f"[not run again without the restriction: {why}]")
    (fact,) = ran.all(ToolResultFact)
    assert fact.failed == "tool_failed" and fact.details["confined"]
    assert not (tmp_path / "file").exists()


@needs_landlock
async def test_without_a_person_the_first_result_says_that_nobody_was_asked(tmp_path: Path) -> None:
    ran = await run_bash(WRITES, tmp_path)
    (result,) = ran.results()
    assert result.endswith("[not run again without the restriction: there is nobody to ask]")
    assert not ran.all(QuestionAsked)
    assert not (tmp_path / "file").exists()


@needs_landlock
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_the_question_can_be_answered_later_by_another_process(answer: str, tmp_path: Path) -> None:
    store = MemoryStore()
    script = [[Call("bash", {"command": WRITES}, id="call_1")], "done"]
    options: dict[str, Any] = {"cwd": tmp_path, "permission_hook": HARMLESS, "wait_for_answers": True}
    ran = await started(script, tools=[bash], store=store, **options)
    assert isinstance(await ran.session.prompt(as_content("go")), RunWaiting)
    await ran.session.close()
    (question,) = ran.all(QuestionAsked)
    session = await open_session(store, ran.session.id, ran.session.harness)
    await store.submit(session.id, Answer(id="req_1", question=question.id, answer=answer))
    ended = await session.advance()
    assert isinstance(ended, RunEnded) and ended.status == "completed"
    facts = [fact.event for fact in await store.read(session.id)]
    (result,) = [fact for fact in facts if isinstance(fact, ToolResultFact)]
    assert (tmp_path / "file").exists() == (answer == "yes")
    assert ("[not run again" in text_of(result.content)) == (answer == "no")
    await session.close()


@needs_landlock
async def test_a_failure_that_names_no_refused_access_is_not_asked_about(tmp_path: Path) -> None:
    person = Person("yes")
    ran = await run_bash("cat nothing-here", tmp_path, asker=person)
    assert not person.asked
    assert "No such file" in ran.results()[0]


@needs_landlock
async def test_a_success_that_names_a_refused_access_is_not_asked_about(tmp_path: Path) -> None:
    person = Person("yes")
    ran = await run_bash("echo Permission denied", tmp_path, asker=person)
    assert not person.asked and ran.results() == ["Permission denied\n"]


@needs_landlock
@pytest.mark.parametrize(
    "text", ["open x: permission denied", "Operation not permitted", "touch: Read-only file system"]
)
async def test_each_way_to_name_a_refused_access_counts(text: str, tmp_path: Path) -> None:
    person = Person("no")
    await run_bash(f"echo '{text}'; exit 3", tmp_path, asker=person)
    assert len(person.asked) == 1


async def test_the_setting_switches_the_confinement_off(tmp_path: Path) -> None:
    ran = await run_bash(WRITES, tmp_path, confine_harmless=False)
    assert ran.results() == ["before\nwritten\n"] and starts(ran) == [False]


async def test_where_commands_cannot_be_confined_they_run_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = ConfinementStatus(False, "the kernel has no Landlock")
    monkeypatch.setattr("ostler.core.confinement.confinement_status", lambda: absent)
    ran = await run_bash(WRITES, tmp_path)
    assert ran.results() == ["before\nwritten\n"] and starts(ran) == [False]


@needs_landlock
@pytest.mark.parametrize(
    ("command", "profile", "allow", "confined"),
    [
        ("ls", "edit", (), True),
        ("cat file | sort 2>/dev/null", "edit", (), True),
        ("cat < file", "edit", (), True),
        ("ls", "full", (), False),
        ("ls", "edit", ("bash(ls)",), False),
        ("ls && true", "edit", ("bash(true)",), False),
        ("ls", "edit", ("bash",), False),
        ("ls > listing", "edit", (), False),
    ],
)
async def test_only_what_was_judged_harmless_is_confined(
    command: str, profile: Any, allow: tuple[str, ...], confined: bool, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("a\n")
    hook = permission_hook(profile, tmp_path, configured_rules(allow, (), ()))
    ran = await run_bash(command, tmp_path, permission_hook=hook)
    assert starts(ran) == [confined]
    assert [result.failed for result in ran.all(ToolResultFact)] == [None]


async def test_a_command_that_a_person_allowed_is_not_confined(tmp_path: Path) -> None:
    hook = permission_hook("edit", tmp_path)
    ran = await run_bash("touch file", tmp_path, permission_hook=hook, asker=Person("yes"))
    assert starts(ran) == [False]
    assert (tmp_path / "file").exists()
    assert [asked.asked_by for asked in ran.all(events.QuestionAsked)] == ["permission"]
