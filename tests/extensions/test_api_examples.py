"""The examples of extensions run in sessions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import InputDraft, PlannedCall, PlannedCompaction
from ostler.extensions.host import CommandFailed
from ostler.models.scripted import Call, Turn
from ostler.schema.events import RunEnded, ToolResultFact
from ostler.schema.messages import as_content, user
from ostler.schema.usage import Usage
from ostler.sessions.agents import DelegateTool
from ostler.testkit.extensions import ExtensionTest
from ostler.testkit.front_end import FakeFrontEnd
from ostler.tools import builtin_tools
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples" / "extensions"
FILES = sorted(EXAMPLES.glob("*.py"))


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "A")
    git(tmp_path, "config", "user.email", "a@example.org")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "begin")
    return tmp_path


def test_the_readme_names_every_example() -> None:
    named = set(re.findall(r"\]\(([\w/-]+(?:\.py)?)\)", (EXAMPLES / "README.md").read_text()))
    languages = {f"any-language/{path.name}" for path in (EXAMPLES / "any-language").iterdir()}
    assert named == {path.name for path in FILES} | languages


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_every_example_loads_and_survives_a_run_with_a_call(path: Path, tmp_path: Path) -> None:
    script = [Call("look", {"place": "here"}), "done"]

    @tool(kind="read")
    def look(place: str) -> str:
        "Looks somewhere."
        return f"saw {place}"

    async with ExtensionTest(path, script, tools=[look], cwd=tmp_path) as test:
        ended = await test.prompt("go")
        assert isinstance(ended, RunEnded)
        assert ended.status == "completed"
        assert [fact for fact in test.facts if fact.type == "warned"] == []


async def test_the_permission_gate_asks_refuses_and_lets_through() -> None:
    face = FakeFrontEnd("yes", "no")
    async with ExtensionTest(EXAMPLES / "permission_gate.py", face=face) as test:
        test.assert_not_blocked(await test.tool_call("bash", {"command": "ls"}))
        test.assert_not_blocked(await test.tool_call("bash", {"command": "rm -rf build"}))
        test.assert_blocked(await test.tool_call("bash", {"command": "git push"}))
        test.assert_blocked(await test.tool_call("bash", {"command": "rm -rf /"}), "never allowed")
        test.assert_not_blocked(await test.tool_call("read", {"path": "rm -rf /"}))
        assert [command for _, command in test.ran if "command" in command] == [
            {"command": "ls"},
            {"command": "rm -rf build"},
        ]
        assert len(test.questions) == 2


async def test_protected_paths_are_not_edited(tmp_path: Path) -> None:
    options = {"protected": "*.lock, config/*"}
    async with ExtensionTest(EXAMPLES / "protected_paths.py", options=options, cwd=tmp_path) as test:
        for path in ("uv.lock", "deep/down/uv.lock", "config/a.toml", str(tmp_path / "config" / "b.toml")):
            test.assert_blocked(await test.tool_call("write", {"path": path, "content": "x"}), "is protected")
        test.assert_not_blocked(await test.tool_call("write", {"path": "main.py", "content": "x"}))
        test.assert_not_blocked(await test.tool_call("read", {"path": "uv.lock"}))


async def test_the_usage_budget_counts_every_call_and_ends_the_run() -> None:
    @tool
    def again() -> str:
        "Once more."
        return "ok"

    spends = Usage(input_tokens=10, output_tokens=5, cost=0.30)
    script = [Turn(calls=(Call("again"),), usage=spends)] * 9
    options = {"budget": "0.50"}
    async with ExtensionTest(EXAMPLES / "usage_budget.py", script, tools=[again], options=options) as test:
        ended = await test.prompt("go")
        assert isinstance(ended, RunEnded)
        assert (ended.status, ended.own.model_calls) == ("refused", 2)
        assert "$0.60 of $0.50 is spent" in ended.reason
        assert test.state == {"calls": 2, "spent": 0.6}
        test.assert_printed_contains("2 tool calls, 30 tokens; session: $0.6000 of $0.50")
        assert await test.command("/budget", "1") == "$0.6000 of $1.00 in 2 calls"
        more = await test.prompt("go on")
        assert isinstance(more, RunEnded)
        assert more.own.model_calls == 2


async def test_the_usage_budget_counts_children_and_reports_unknown_prices() -> None:
    spends = Usage(input_tokens=10, output_tokens=5, cost=0.30)
    hands_on = Turn(calls=(Call("delegate", {"task": "count"}),), usage=spends)
    script = [hands_on, Turn(text="three", usage=spends), Turn(text="no", usage=spends)]
    options = {"budget": "0.50"}
    tools = [DelegateTool({})]
    async with ExtensionTest(EXAMPLES / "usage_budget.py", script, tools=tools, options=options) as test:
        ended = await test.prompt("go")
        assert isinstance(ended, RunEnded)
        assert (ended.status, test.state["spent"]) == ("refused", 0.6)
    async with ExtensionTest(
        EXAMPLES / "usage_budget.py", [Turn(text="hi", usage=Usage(input_tokens=10))]
    ) as test:
        await test.prompt("go")
        test.assert_printed_contains("no known price")


async def test_auto_commit_commits_changes_of_a_child_with_the_run(repository: Path) -> None:
    tools = [*builtin_tools(["write"]), DelegateTool({})]
    work = [Call("write", {"path": "c.txt", "content": "new\n"}), "written"]
    script = [Call("delegate", {"task": "the part of a child"}), *work, "all done"]
    async with ExtensionTest(EXAMPLES / "auto_commit.py", script, tools=tools, cwd=repository) as test:
        await test.prompt("have c written")
    assert git(repository, "log", "--format=%s") == "have c written\nbegin"


async def test_auto_commit_commits_the_changes_of_a_run(repository: Path) -> None:
    tools = builtin_tools(["write"])
    script = [Call("write", {"path": "b.txt", "content": "new\n"}), "done", "nothing to do"]
    async with ExtensionTest(EXAMPLES / "auto_commit.py", script, tools=tools, cwd=repository) as test:
        await test.prompt("write b\nand more")
        assert git(repository, "log", "-1", "--format=%s") == "write b"
        assert git(repository, "status", "--porcelain") == ""
        await test.prompt("nothing")
        assert git(repository, "rev-list", "--count", "HEAD") == "2"
        test.assert_printed_contains("write b")


async def test_a_checkpoint_brings_the_files_back(repository: Path) -> None:
    tools = builtin_tools(["write", "read"])
    script = [Call("read", {"path": "a.txt"}), Call("write", {"path": "a.txt", "content": "two\n"}), "done"]
    (repository / "a.txt").write_text("not committed\n")
    async with ExtensionTest(EXAMPLES / "git_checkpoint.py", script, tools=tools, cwd=repository) as test:
        assert await test.command("undo") == "there is no checkpoint"
        await test.prompt("change it")
        assert (repository / "a.txt").read_text() == "two\n"
        assert "the files are as they were" in await test.command("undo")
        assert (repository / "a.txt").read_text() == "not committed\n"
        assert git(repository, "rev-list", "--count", "HEAD") == "1"


async def test_a_failed_undo_is_reported_and_keeps_the_checkpoint(repository: Path) -> None:
    async with ExtensionTest(EXAMPLES / "git_checkpoint.py", ["done"], cwd=repository) as test:
        await test.prompt("go")
        (repository / ".git" / "index.lock").touch()
        with pytest.raises(CommandFailed, match=r"index\.lock"):
            await test.command("undo")
        assert len(test.state["checkpoints"]) == 1


async def test_the_notifier_reports_questions_and_failed_runs(tmp_path: Path) -> None:
    notification = tmp_path / "told"
    program = tmp_path / "notify"
    program.write_text(f'#!/bin/sh\necho "$2" >> {quote(str(notification))}\n')
    program.chmod(0o755)
    face = FakeFrontEnd("no")
    options = {"notify-command": f"{quote(str(program))} ostler"}
    async with ExtensionTest(EXAMPLES / "notifier.py", face=face, options=options) as test:
        await test.context.ui.confirm("Go on?")
        await test.prompt("go")
        lines = notification.read_text().splitlines()
    assert lines[0] == "needs you: Go on?"
    assert lines[1].startswith("failed: 1 steps")


async def test_plan_mode_offers_only_tools_that_read() -> None:
    tools = builtin_tools(["read", "write", "bash"])
    script = ["1. read", Call("write", {"path": "a", "content": "b"}), "sorry", "done"]
    async with ExtensionTest(EXAMPLES / "plan_mode.py", script, tools=tools) as test:
        await test.command("plan")
        await test.prompt("make it fast")
        (first,) = test.model.requests
        assert [offer.name for offer in first.tools] == ["read"]
        assert "change nothing" in str(first.tail)
        await test.prompt("and now")
        (result,) = [fact for fact in test.facts if isinstance(fact, ToolResultFact)]
        assert result.failed
        test.assert_blocked(await test.emit(PlannedCall("c", "bash", "execute", {}, 1)), "plan mode")
        await test.command("go")
        test.assert_sent("Carry out the plan.")
        await test.go_on()
        assert {offer.name for offer in test.model.requests[-1].tools} == {"read", "write", "bash"}
        assert not test.model.requests[-1].tail


async def test_the_input_transformer_expands_and_answers() -> None:
    async with ExtensionTest(EXAMPLES / "input_transformer.py", ["done"]) as test:
        test.assert_input_handled(await test.emit(InputDraft(as_content("ping"))), "pong")
        test.assert_input_transformed(
            await test.emit(InputDraft(as_content("?monad"))),
            "Explain 'monad' in five sentences, with one example.",
        )
        await test.prompt("fix!")
        assert "Run the tests" in str(test.model.requests[0].transcript[0])


async def test_custom_compaction_summarises_without_a_model() -> None:
    async with ExtensionTest(EXAMPLES / "custom_compaction.py") as test:
        planned = PlannedCompaction((user("make it fast"), user("and small")), "automatic", "")
        summary = await test.emit(planned)
        assert "- make it fast\n- and small\n0 tools were called: none." in summary.text
        wanted = PlannedCompaction((user("a"),), "user", "keep the names")
        assert await test.emit(wanted) is None


async def test_the_todo_widget_follows_the_list_and_can_be_hidden() -> None:
    items = [{"id": "1", "text": "read", "status": "done"}, {"id": "2", "text": "write"}]
    script = [Call("todo", {"items": items}), "done"]
    async with ExtensionTest(EXAMPLES / "todo_widget.py", script, tools=builtin_tools(["todo"])) as test:
        test.assert_no_widget("list")
        await test.prompt("go")
        test.assert_status_text("left", "1 to do")
        assert "● read\n│ ○ write" in await test.face.screen()
        assert await test.command("/todo") == "● read\n○ write"
        await test.press("alt+t")
        test.assert_no_widget("list")
        await test.press("alt+t")
        test.assert_widget("list")


async def test_the_monitor_displays_children_and_starts_a_scout() -> None:
    tools = builtin_tools(["read", "write"])
    async with ExtensionTest(EXAMPLES / "subagent_monitor.py", ["three files"], tools=tools) as test:
        assert await test.command("scout", "how many files?") == "three files"
        assert [offer.name for offer in test.model.requests[0].tools] == ["read"]
        test.assert_no_widget("children")
        test.assert_printed_contains("a child completed: 1 steps")


async def test_the_deploy_tool_asks_streams_output_and_has_a_renderer() -> None:
    face = FakeFrontEnd("yes")
    async with ExtensionTest(EXAMPLES / "deploy_tool.py", face=face) as test:
        arguments: dict[str, Any] = {"service": "shop", "target": "production"}
        result = await test.tool_call("deploy", arguments)
        test.assert_not_blocked(result)
        rendered = await face.call("deploy", arguments, "shop runs in production")
        assert rendered == "🚀 shop → production\n✓ shop runs in production"
        await test.context.render_message("banner", "shipped")
        test.assert_printed("═══════════\n  shipped\n═══════════")
        output = [one.text for one in test.seen if one.type == "tool_output"]
        assert "".join(output) == "build shop\nupload shop\nswitch over shop\n"


async def test_the_theme_is_set_and_displayed() -> None:
    face = FakeFrontEnd(is_dark=True)
    async with ExtensionTest(EXAMPLES / "northern_theme.py", face=face) as test:
        assert face.theme() == "northern"
        assert test.context.ui.theme().primary == "#88c0d0"
        assert "\x1b[" in await test.command("colours")
