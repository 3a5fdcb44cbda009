"""Instructions of subfolders are added once, to the result of the first call that touches a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ostler.context.instructions import nested_instructions
from ostler.core.children import child_session
from ostler.core.hooks import FinishedCall, Hook
from ostler.core.journal import World
from ostler.core.model import ModelRequest
from ostler.core.state import fold
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.events import Compacted, ToolCalled, ToolResultFact
from ostler.schema.messages import Message, Text, as_content
from ostler.schema.requests import Navigate
from ostler.sessions.agents import DelegateTool
from ostler.sessions.session import Session, open_session
from ostler.store.fork import fork
from ostler.store.memory import MemoryStore
from ostler.tools import builtin_tools
from tests.support.running import Ran, run, started

ADDED = "# Instructions from sub/AGENTS.md, for everything in sub\n\nUse tabs."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    for name in ("top.txt", "sub/one.txt", "sub/two.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("text\n")
    (folder / "sub" / "AGENTS.md").write_text("Use tabs.\n")
    return folder


def equipment(project: Path, **more: Any) -> dict[str, Any]:
    return {
        "tools": [*builtin_tools(), DelegateTool({})],
        "hooks": [nested_instructions(project)],
        "cwd": project,
        **more,
    }


def read(path: str) -> Call:
    return Call("read", {"path": path})


def added_blocks(ran: Ran) -> list[list[str]]:
    """The instructions in each result."""
    return [_instructions(result) for result in ran.all(ToolResultFact)]


def _instructions(result: ToolResultFact) -> list[str]:
    texts = [block.text for block in result.content if isinstance(block, Text)]
    return [text for text in texts if text.startswith("# Instructions from ")]


async def go_on(session: Session, *paths: str) -> list[list[str]]:
    """Reads these files in another run: the instructions in each result."""
    session.harness.model = ScriptedModel([*map(read, paths), "done"])
    seen: list[Any] = []
    stop = session.subscribe(seen.extend)
    await session.prompt(as_content("go on"))
    stop()
    return [_instructions(item.event) for item in seen if item.type == "tool_result"]


async def test_the_first_touch_tells_and_the_second_does_not(project: Path) -> None:
    script = [read("top.txt"), read("sub/one.txt"), read("sub/two.txt"), "done"]
    ran = await run(script, **equipment(project))
    assert added_blocks(ran) == [[], [ADDED], []]
    first, second, _ = ran.all(ToolResultFact)
    assert "instructions" not in first.details
    assert list(second.details["instructions"]) == ["sub/AGENTS.md"]
    assert second.details["path"] == "sub/one.txt"
    assert "Use tabs." in ran.model.requests[-1].transcript[4].content[0].content[-1].text


@pytest.mark.parametrize(
    "call",
    [
        Call("write", {"path": "sub/new/three.txt", "content": "x"}),
        Call("ls", {"path": "sub"}),
        Call("grep", {"pattern": "text", "path": "sub"}),
        Call("find", {"pattern": "*.txt", "path": "sub"}),
    ],
    ids=lambda call: call.name,
)
async def test_every_tool_that_names_a_path_counts(call: Call, project: Path) -> None:
    assert added_blocks(await run([call, "done"], **equipment(project))) == [[ADDED]]


async def test_an_edit_counts(project: Path) -> None:
    edit = Call("edit", {"path": "sub/one.txt", "edits": [{"old_text": "text", "new_text": "word"}]})
    (project / "sub" / "AGENTS.md").rename(project / "sub" / "later.md")

    def appears(request: ModelRequest) -> Any:
        (project / "sub" / "later.md").rename(project / "sub" / "AGENTS.md")
        return edit

    ran = await run([read("sub/one.txt"), appears, "done"], **equipment(project))
    assert [result.failed for result in ran.all(ToolResultFact)] == [None, None]
    assert added_blocks(ran) == [[], [ADDED]]


async def test_a_call_that_failed_tells_nothing(project: Path) -> None:
    assert added_blocks(await run([read("sub/absent.txt"), "done"], **equipment(project))) == [[]]


async def test_parallel_calls_add_instructions_once(project: Path) -> None:
    ran = await run([[read("sub/one.txt"), read("sub/two.txt")], "done"], **equipment(project))
    assert sorted(added_blocks(ran)) == [[], [ADDED]]


async def test_a_long_result_does_not_push_the_instructions_out(project: Path) -> None:
    (project / "sub" / "long.txt").write_text("x" * 60 + "\n")
    (project / "sub" / "AGENTS.md").write_text("rule\n" * 11_000)
    (told,) = added_blocks(await run([read("sub/long.txt"), "done"], **equipment(project)))
    assert told[0].count("rule") == 11_000


async def test_known_instructions_survive_a_restart_and_a_fork(project: Path) -> None:
    store = MemoryStore()
    ran = await run([read("sub/one.txt"), "done"], **equipment(project, store=store))
    await ran.session.close()
    again = await open_session(store, ran.session.id, ran.session.harness)
    assert await go_on(again, "sub/one.txt") == [[]]
    (project / "sub" / "AGENTS.md").write_text("Use spaces.\n")
    assert await go_on(again, "sub/one.txt", "sub/two.txt") == [[ADDED.replace("tabs", "spaces")], []]
    await again.close()

    copy = await fork(store, again.id, None, World())
    forked = await open_session(store, copy, ran.session.harness)
    assert await go_on(forked, "sub/two.txt") == [[]]
    await forked.close()


async def test_an_earlier_branch_gets_the_instructions_again(project: Path) -> None:
    store = MemoryStore()
    ran = await run([read("sub/one.txt"), "done"], **equipment(project, store=store))
    prompt = next(fact.seq for fact in ran.facts if fact.type == "user_message")
    await store.submit(ran.session.id, Navigate(id="back", entry=prompt))
    assert await go_on(ran.session, "sub/one.txt") == [[ADDED]]
    assert (
        fold(await store.read(ran.session.id)).builder.instructions == ran.session.state.builder.instructions
    )


async def test_after_a_compaction_instructions_are_read_again(project: Path) -> None:
    ran = await run([read("sub/one.txt"), "done"], **equipment(project))
    journal = ran.session.journal
    *replaced, kept = [fact.seq for fact in ran.facts if fact.parent is not None]
    journal.record(Compacted("One file was read.", tuple(replaced), kept))
    await journal.commit()
    (project / "sub" / "AGENTS.md").write_text("Use spaces.\n")
    assert await go_on(ran.session, "sub/two.txt") == [[ADDED.replace("tabs", "spaces")]]


async def test_a_new_calibration_has_no_coefficient(project: Path) -> None:
    ran = await run([read("sub/one.txt"), "done"], **equipment(project))
    await ran.session.replace_history((Message("user", as_content("hello")),))
    assert await go_on(ran.session, "sub/one.txt") == [[ADDED]]


async def test_a_child_session_gets_its_own_instructions(project: Path) -> None:
    def answer(request: ModelRequest) -> Any:
        is_child = request.transcript[0].text == "look"
        step = len(request.transcript)
        if step == 1:
            return read("sub/one.txt")
        return Call("delegate", {"task": "look"}) if step == 3 and not is_child else "done"

    ran = await run(ScriptedModel([answer] * 9), **equipment(project))
    call = next(event.call for event in ran.all(ToolCalled) if event.name == "delegate")
    facts = await ran.session.journal.store.read(child_session(ran.session.id, call, 1))
    results = [fact.event for fact in facts if isinstance(fact.event, ToolResultFact)]
    assert [_instructions(result) for result in results] == [[ADDED]]
    assert added_blocks(ran)[0] == [ADDED]


async def test_problems_with_a_file_are_reported_once(project: Path, tmp_path: Path) -> None:
    problems: list[str] = []
    (project / "sub" / "AGENTS.md").unlink()
    (tmp_path / "secret").write_text("s3cr3t")
    (project / "sub" / "AGENTS.md").symlink_to(tmp_path / "secret")
    hooks = [nested_instructions(project, problems.append)]
    ran = await run([read("sub/one.txt"), read("sub/two.txt"), "done"], **equipment(project, hooks=hooks))
    assert added_blocks(ran) == [[], []]
    assert problems == [
        f"{project}/sub/AGENTS.md: it is a link to a file outside the project; the model does not get it"
    ]


async def test_odd_details_of_other_tools_do_no_harm(project: Path) -> None:
    hook = nested_instructions(project)
    for details in (None, {}, {"path": 7}, {"path": ""}, {"path": "blob:out_1"}, {"path": "/"}):
        finished = FinishedCall("c", "any", {}, as_content("x"), None, details)
        assert hook.handler(finished, None) is None
    lying = Hook(
        "after_tool",
        lambda one: FinishedCall(one.call, one.name, {}, one.content, None, {"instructions": ["a", 1]}),
    )
    ran = await started([read("top.txt"), "done"], **equipment(project, hooks=[lying]))
    await ran.session.prompt(as_content("go"))
    assert ran.session.state.builder.instructions == {}
