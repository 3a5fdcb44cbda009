"""Permission in a session: the hook, its questions, and remembered answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import Allow, Ask, PlannedCall, Refuse
from ostler.core.journal import World
from ostler.core.process_tree import local_user
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.permissions.guard import permission_hook, remember_answer, user_guard
from ostler.permissions.memory import forget, read_memory, remember, remembered_rules
from ostler.permissions.rules import parse_rule
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.schema.events import PermissionRemembered, QuestionAnswered, QuestionAsked, RunWaiting, Warned
from ostler.schema.messages import as_content
from ostler.schema.outcomes import Question
from ostler.schema.requests import RevokePermission
from ostler.sessions.session import Session, open_session
from ostler.store.fork import fork
from ostler.store.memory import MemoryStore
from ostler.store.paths import permissions_file, project_folder
from ostler.store.portable import export_session, import_session
from tests.support.running import Ran, run, started


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@tool(name="bash", kind="execute")
def pretend_bash(command: str) -> str:
    "Pretends to run a command."
    return f"ran {command}"


def push(times: int = 1) -> ScriptedModel:
    call = Turn(calls=(Call("bash", {"command": "git push origin"}),))
    return ScriptedModel([*[call] * times, Turn(text="done")])


def answering(*answers: Any) -> Callable[[QuestionAsked], Awaitable[Any]]:
    left = list(answers)

    async def ask(run_with_answers: QuestionAsked) -> Any:
        return left.pop(0)

    return ask


async def run_with_answers(project: Path, *answers: Any, times: int = 1, **options: Any) -> Ran:
    return await run(
        push(times),
        tools=[pretend_bash],
        cwd=project,
        permission_hook=user_guard("ask", project, ()),
        remember=remember_answer,
        asker=answering(*answers),
        **options,
    )


async def test_a_question_lists_the_rules_of_each_scope(project: Path) -> None:
    ran = await run_with_answers(project, "yes")
    (question,) = [one.question for one in ran.all(QuestionAsked)]
    assert question.text == (
        "Allow bash: git push origin [session/project/user remembers bash(=git push origin); "
        "session+/project+/user+ remembers bash+(git push origin)]"
    )
    assert question.choices == ("yes", "session", "project", "user", "no")
    scopes = ("session", "project", "user")
    assert question.details["remember"] == {scope: ["bash(=git push origin)"] for scope in scopes}
    assert question.details["remember_wider"] == {scope: ["bash+(git push origin)"] for scope in scopes}
    assert question.details["causes"] == ["git push origin: git push is not listed"]
    assert ran.results() == ["ran git push origin"]
    assert read_memory().user == [] and not ran.session.state.permissions, "yes is for once"


async def test_a_question_names_the_part_that_caused_it(project: Path) -> None:
    guard = user_guard("edit", project, ())
    assert guard is not None
    ask = guard.handler(PlannedCall("c", "bash", "execute", {"command": "ls && make all && ls"}, 1), None)
    assert isinstance(ask, Ask)
    assert ask.question.text.startswith("Allow bash: ls && make all && ls (because of: make all) [session/")
    ask = guard.handler(PlannedCall("c", "bash", "execute", {"command": "ls && $x"}, 1), None)
    assert isinstance(ask, Ask)
    assert ask.question.text.startswith("Allow bash: ls && $x (because of: $x) [session/")
    assert ask.question.details["remember"]["user"] == ["bash=(ls && $x)"], "exactly this text"
    assert "remember_wider" not in ask.question.details


async def test_the_session_remembers_an_answer_and_does_not_ask_again(project: Path) -> None:
    ran = await run_with_answers(project, "session", times=3)
    assert len(ran.all(QuestionAsked)) == 1
    assert ran.results() == ["ran git push origin"] * 3
    (remembered,) = ran.all(PermissionRemembered)
    expected = PermissionRemembered("bash(=git push origin)", "allow", "session", ran.session.id)
    given = {"store": ran.session.journal.store.id, "identity": local_user()}
    assert remembered == msgspec.structs.replace(expected, **given)
    assert ran.session.state.permissions == {"bash(=git push origin)": "allow"}
    assert not permissions_file().exists()
    again = await run_with_answers(project, "no")
    assert len(again.all(QuestionAsked)) == 1, "in another session it is asked again"


async def test_the_project_remembers_in_its_own_folder_only(project: Path, tmp_path: Path) -> None:
    ran = await run_with_answers(project, "project", times=2)
    assert len(ran.all(QuestionAsked)) == 1
    (remembered,) = ran.all(PermissionRemembered)
    assert (remembered.scope, remembered.where) == ("project", str(project))
    assert not ran.session.state.permissions
    below = project / "src"
    below.mkdir()
    assert not (await run_with_answers(below)).all(QuestionAsked)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert (await run_with_answers(elsewhere, "no")).all(QuestionAsked)


async def test_the_user_is_remembered_everywhere(project: Path, tmp_path: Path) -> None:
    await run_with_answers(project, "user")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert not (await run_with_answers(elsewhere)).all(QuestionAsked)
    assert forget("bash(=git push origin)", None)
    assert (await run_with_answers(elsewhere, "no")).all(QuestionAsked)


async def test_the_wider_offer_is_chosen_by_a_plus_sign(project: Path) -> None:
    ran = await run_with_answers(project, "project+", times=2)
    assert len(ran.all(QuestionAsked)) == 1
    (remembered,) = ran.all(PermissionRemembered)
    assert (remembered.rule, remembered.scope) == ("bash+(git push origin)", "project")
    guard = user_guard("ask", project, ())
    assert guard is not None
    for command, is_allowed in (("git push origin main", True), ("git push origin --exec=x", False)):
        planned = PlannedCall("c", "bash", "execute", {"command": command}, 1)
        assert isinstance(guard.handler(planned, None), Allow) == is_allowed


async def test_a_wider_offer_that_was_not_made_is_a_no(project: Path) -> None:
    model = ScriptedModel([Turn(calls=(Call("bash", {"command": "sudo ls"}),)), Turn(text="done")])
    hook = user_guard("ask", project, ())
    ran = await run(
        model,
        tools=[pretend_bash],
        cwd=project,
        permission_hook=hook,
        remember=remember_answer,
        asker=answering("user+"),
    )
    assert "remember_wider" not in ran.all(QuestionAsked)[0].question.details
    assert ran.results() == ["user+"]
    assert read_memory().user == []


def test_a_harmless_command_runs_confined_under_ask_and_edit(project: Path) -> None:
    planned = PlannedCall("c", "bash", "execute", {"command": "ls -la | head"}, 1)
    for profile in ("ask", "edit"):
        guard = permission_hook(profile, project)  # type: ignore[arg-type]
        assert guard is not None
        allowed = guard.handler(planned, None)
        assert isinstance(allowed, Allow) and allowed.confined
        written = PlannedCall("c", "bash", "execute", {"command": "ls > a"}, 1)
        allowed = guard.handler(written, None)
        assert isinstance(allowed, Allow if profile == "edit" else Ask)
        assert not getattr(allowed, "confined", False), "it writes a file"
    by_rule = permission_hook("ask", project, [parse_rule("bash", "allow")])
    assert by_rule is not None
    allowed = by_rule.handler(planned, None)
    assert isinstance(allowed, Allow) and not allowed.confined


async def test_an_answer_that_was_not_offered_is_a_no(project: Path) -> None:
    ran = await run(
        push(),
        tools=[pretend_bash],
        cwd=project,
        permission_hook=permission_hook("ask", project),
        remember=remember_answer,
        asker=answering("user"),
    )
    assert ran.all(QuestionAsked)[0].question.choices == ("yes", "session", "no")
    assert ran.results() == ["user"]
    assert read_memory().user == []


async def test_only_what_the_question_showed_is_remembered(project: Path) -> None:
    text = "Allow bash: a [user remembers bash(a)]"
    details = {"remember": {"user": ["bash(a)", "bash(b)"]}}
    question = QuestionAsked("q", Question(text, "permission", ("yes", "user", "no"), details=details))
    remembered = remember_answer(question, QuestionAnswered("q", "answered", "user"), "ses_1")
    assert remembered == [PermissionRemembered("bash(a)", "allow", "user")]
    assert [one.rule for one in read_memory().user] == ["bash(a)"]


async def test_what_is_revoked_counts_no_more_at_the_next_call(project: Path) -> None:
    remember("bash(git push)", "allow", None)
    guard = user_guard("ask", project, ())
    assert guard is not None
    call = PlannedCall("c", "bash", "execute", {"command": "git push"}, 1)
    assert isinstance(guard.handler(call, None), Allow)
    forget("bash(git push)", None)
    assert isinstance(guard.handler(call, None), Ask)
    remember("bash(git)", "deny", project)
    refused = guard.handler(call, None)
    assert isinstance(refused, Refuse)
    assert "the rule deny bash(git) (remembered for this project) forbids this" in refused.reason


async def test_a_remembered_deny_applies_with_full_permissions(project: Path) -> None:
    remember("bash(git push)", "deny", None)
    hook = user_guard("full", project, ())
    ran = await run(push(), tools=[pretend_bash], cwd=project, permission_hook=hook)
    assert ran.results() == [
        "the rule deny bash(git push) (remembered for you) forbids this: git push origin; work without it"
    ]


async def waiting(store: MemoryStore, project: Path) -> tuple[Session, QuestionAsked]:
    ran = await started(
        push(2),
        store=store,
        tools=[pretend_bash],
        cwd=project,
        permission_hook=user_guard("ask", project, ()),
        remember=remember_answer,
        wait_for_answers=True,
    )
    assert isinstance(await ran.session.prompt(as_content("go")), RunWaiting)
    (question,) = ran.session.state.questions.values()
    return ran.session, question


async def test_rules_of_a_session_apply_after_it_is_reopened(project: Path) -> None:
    store = MemoryStore()
    session, question = await waiting(store, project)
    await session.close()
    later = await open_session(store, session.id, session.harness)
    await later.answer(question.id, "session")
    assert later.state.permissions == {"bash(=git push origin)": "allow"}
    assert not later.state.questions, "the second call is not asked about"
    await later.close()
    assert (await open_session(store, session.id, session.harness)).state.permissions


async def test_a_fork_or_an_import_does_not_inherit_session_permissions(project: Path) -> None:
    store = MemoryStore()
    session, question = await waiting(store, project)
    await session.answer(question.id, "session")
    await session.close()
    lines = [line async for line in export_session(store, session.id)]
    assert any(b"permission_remembered" in line for line in lines)
    for copy in (
        await fork(store, session.id, None, World()),
        (await import_session(store, lines, str(project), World())).session,
    ):
        assert (await open_session(store, copy, session.harness)).state.permissions == {}


async def test_a_session_s_permission_is_revoked_by_a_request(project: Path) -> None:
    store = MemoryStore()
    session, question = await waiting(store, project)
    await session.answer(question.id, "session")
    await store.submit(session.id, RevokePermission(id="r1", rule="bash(=git push origin)"))
    await store.submit(session.id, RevokePermission(id="r2", rule="bash(other)"))
    await session.advance()
    assert session.state.permissions == {}
    facts = await store.read(session.id)
    assert [fact.type for fact in facts[-2:]] == ["permission_remembered", "request_refused"]


async def test_a_memory_that_cannot_be_written_is_reported_and_the_call_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", "/dev/null")
    guard = permission_hook("ask", project, scopes=("user",))
    ran = await run(
        push(),
        tools=[pretend_bash],
        cwd=project,
        permission_hook=guard,
        remember=remember_answer,
        asker=answering("user"),
    )
    assert ran.results() == ["ran git push origin"]
    (warned,) = ran.all(Warned)
    assert warned.text.startswith("the answer could not be remembered: ")


async def test_a_damaged_memory_refuses(project: Path) -> None:
    remember("bash(a)", "allow", None)
    permissions_file().write_text("{")
    ran = await run_with_answers(project, "yes")
    assert "refused because the guard 'permission' failed" in ran.results()[0]
    assert "permissions.json is damaged" in ran.results()[0]
    permissions_file().write_bytes(msgspec.json.encode({"user": [{"rule": "bash("}]}))
    with pytest.raises(ConfigurationError, match="damaged"):
        remembered_rules(project)


def test_rules_are_stored_once_and_the_last_one_wins(project: Path) -> None:
    assert remember("bash(a)", "allow", project)
    assert not remember("bash(a)", "allow", project)
    assert remember("bash(a)", "deny", project)
    assert [one.effect for one in read_memory().of(project)] == ["deny"]
    assert forget("bash(a)", project) and not forget("bash(a)", project)
    assert read_memory().projects == {}
    with pytest.raises(UsageError, match="is not a rule"):
        remember("bash(", "allow", None)


def test_a_project_is_its_repository_or_the_folder_itself(project: Path, tmp_path: Path) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    assert project_folder(below) == project
    alone = tmp_path / "alone"
    alone.mkdir()
    assert project_folder(alone) == alone


def test_relative_paths_of_a_project_s_rules_begin_in_the_project(project: Path) -> None:
    below = project / "src"
    below.mkdir()
    remember("edit(docs/**)", "allow", project)
    guard = user_guard("ask", below, ())
    assert guard is not None
    assert isinstance(
        guard.handler(PlannedCall("c", "write", "edit", {"path": "../docs/a.md"}, 1), None), Allow
    )
    assert isinstance(guard.handler(PlannedCall("c", "write", "edit", {"path": "docs/a.md"}, 1), None), Ask)


def test_a_guard_that_has_nothing_to_judge_is_not_there(project: Path) -> None:
    assert permission_hook("full", project) is None
    assert permission_hook("full", project, [parse_rule("bash", "allow")]) is None
    assert permission_hook("full", project, [parse_rule("bash", "deny")]) is not None
    assert user_guard("full", project, ()) is not None, "a rule may be added meanwhile"
