"""What was judged is what is used: a link that is swapped after the judgement leads nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.permissions.guard import permission_hook
from ostler.permissions.rules import Profile, parse_rule
from ostler.schema.events import QuestionAsked
from ostler.tools import builtin_tools
from tests.support.running import run

CALLS = 200

# Swaps `sub` between a folder and a link to the folder outside, as fast as it can, in one step each.
SWAPPER = """
import ctypes, os, sys
libc, folder = ctypes.CDLL(None, use_errno=True), sys.argv[1].encode()
print("ready", flush=True)
while os.getppid() == int(sys.argv[2]):
    libc.renameat2(-100, folder + b"/sub", -100, folder + b"/link", 2)
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    (folder / "sub").mkdir(parents=True)
    outside = tmp_path.resolve() / "outside"
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    for place in (folder / "sub", outside):
        (place / "notes.txt").write_text(f"these are the notes in {place.name}\n")
    (outside / "only-outside.txt").write_text("these are the notes in outside\n")
    return folder


@pytest.fixture
def swapping(work: Path) -> Iterator[None]:
    if sys.platform != "linux":
        pytest.skip("exchanging two names in one step needs Linux")
    command = [sys.executable, "-c", SWAPPER, str(work), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        yield
        process.kill()


async def results(work: Path, profile: Profile, tool: str, calls: list[dict[str, Any]]) -> list[str]:
    model = ScriptedModel([*(Turn(calls=(Call(tool, one),)) for one in calls), Turn(text="done")])
    tools = builtin_tools(["read", "write", "edit", "grep", "find", "ls"])
    ran = await run(model, tools=tools, cwd=work, permission_hook=permission_hook(profile, work))
    return ran.results()


@pytest.mark.usefixtures("swapping")
async def test_no_write_lands_outside_while_a_link_is_swapped(work: Path) -> None:
    outside = work.parent / "outside"
    before = sorted(outside.iterdir())
    calls = [{"path": f"sub/new-{number}.txt", "content": "x"} for number in range(CALLS)]
    texts = await results(work, "edit", "write", calls)
    assert len(texts) == CALLS
    assert sorted(outside.iterdir()) == before
    assert any(text.startswith("wrote") for text in texts)


@pytest.mark.usefixtures("swapping")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "sub/notes.txt"}),
        ("grep", {"pattern": "notes", "path": "sub"}),
        ("grep", {"pattern": "notes", "path": "sub/notes.txt"}),
        ("grep", {"pattern": "notes"}),
        ("find", {"pattern": "*", "path": "sub"}),
        ("find", {"pattern": "*"}),
        ("ls", {"path": "sub"}),
    ],
)
async def test_nothing_outside_is_read_while_a_link_is_swapped(
    work: Path, tool: str, arguments: dict[str, Any]
) -> None:
    # Equal calls would end the run.
    calls = [{**arguments, "limit": 100 + number} for number in range(CALLS // 2)]
    texts = await results(work, "ask", tool, calls)
    assert len(texts) == CALLS // 2
    leaked = [text for text in texts if "in outside" in text or "only-outside.txt" in text]
    assert leaked == []
    assert any("in sub" in text or "notes.txt" in text for text in texts)


@pytest.mark.parametrize("tool", ["write", "read", "ls"])
async def test_an_answer_is_about_the_path_that_was_judged(work: Path, tool: str) -> None:
    """While the question is open, the folder becomes a link."""
    outside = work.parent / "outside"
    before = sorted(outside.iterdir())

    async def ask(asked: QuestionAsked) -> str:
        (work / "sub").rename(work / "moved")
        (work / "sub").symlink_to(outside)
        return "yes"

    arguments = {"write": {"path": "sub/new.txt", "content": "x"}, "ls": {"path": "sub"}}
    call = Call(tool, arguments.get(tool, {"path": "sub/notes.txt"}))
    hook = permission_hook("ask", work, [parse_rule("read", "ask")])
    model = ScriptedModel([Turn(calls=(call,)), Turn(text="done")])
    ran = await run(model, tools=builtin_tools([tool]), cwd=work, permission_hook=hook, asker=ask)
    (text,) = ran.results()
    assert "has become a symbolic link since the call was checked" in text
    assert sorted(outside.iterdir()) == before
