"""When the tool `agent` is offered, and which agents it may start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ostler.app.harness import build_harness, terminal_agents
from ostler.app.settings import Settings, TerminalAgentSettings, load_settings
from ostler.drivers.agent_spec import AgentCommand, agent_commands
from ostler.models.scripted import ScriptedModel
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.testkit.vendors import FakeVendor, call, turn
from tests.drivers.screen_agents import ECHO_AGENT
from tests.support.real_run import Home

CLAUDE = {"claude": TerminalAgentSettings()}


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def install(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(0o755)


def tools_with(settings: Settings, cwd: Path) -> dict[str, Any]:
    return build_harness(settings, cwd, model=ScriptedModel([]), agent_tool=terminal_agents(settings)).tools


def test_it_is_offered_where_an_agent_is_configured_and_not_where_one_is_only_installed(
    tmp_path: Path, bin_folder: Path
) -> None:
    install(bin_folder, "claude")
    assert "agent" not in tools_with(Settings(), tmp_path)
    assert "agent" in tools_with(Settings(terminal_agents=CLAUDE), tmp_path)
    assert "agent" not in tools_with(Settings(terminal_agents=CLAUDE, tools=("read",)), tmp_path)


def test_naming_the_tool_offers_installed_agents_too(tmp_path: Path, bin_folder: Path) -> None:
    install(bin_folder, "codex", "cursor-agent")
    settings = Settings(
        terminal_agents={"mine": TerminalAgentSettings(command=("my-agent",))}, tools=("agent",)
    )
    schema = tools_with(settings, tmp_path)["agent"].spec.schema
    assert schema["properties"]["agent"]["enum"] == ["", "mine", "codex", "cursor"]
    assert agent_commands({}, with_installed=True)["cursor"] == AgentCommand(("cursor-agent",), "cursor")


def test_naming_it_where_there_is_no_agent_says_what_to_do(bin_folder: Path) -> None:
    with pytest.raises(UsageError, match=r"install one of claude, .* or configure \[terminal_agents\.NAME\]"):
        terminal_agents(Settings(tools=("agent",)))


def test_a_configured_agent_is_the_program_of_its_name_unless_a_command_is_given() -> None:
    settings = {
        "amazonq": TerminalAgentSettings(),
        "fast": TerminalAgentSettings(
            command=("npx", "@openai/codex", "--fast"), description="for small things"
        ),
        "house": TerminalAgentSettings(command=("run-it",), type="claude", transport="stream-json"),
    }
    assert agent_commands(settings, with_installed=False) == {
        "amazonq": AgentCommand(("q",), "amazonq"),
        "fast": AgentCommand(("npx", "@openai/codex", "--fast"), "codex", "pty", "for small things"),
        "house": AgentCommand(("run-it",), "claude", "stream-json"),
    }


def test_an_unknown_type_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(
        ConfigurationError, match=r"terminal_agents\.x: invalid agent type: y; the types are: c"
    ):
        agent_commands({"x": TerminalAgentSettings(type="y")}, with_installed=False)


def test_a_project_may_bring_agents_only_after_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    (tmp_path / "ostler.toml").write_text('[terminal_agents.claude]\ncommand = ["./not-claude"]\n')
    loaded = load_settings(tmp_path, {}, {})
    assert loaded.settings.terminal_agents == {}
    assert "sets terminal_agents, which is ignored until you review it" in loaded.notices[0]


def test_nothing_of_terminals_is_loaded_where_nobody_asks_for_them() -> None:
    code = (
        "import sys; from ostler.app.harness import terminal_agents;"
        "from ostler.app.settings import Settings; assert terminal_agents(Settings()) is None;"
        "print([name for name in sys.modules if name.startswith('ostler.drivers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.long
def test_a_run_on_the_command_line_delegates_to_a_configured_agent(tmp_path: Path) -> None:
    def script(request: dict[str, Any]) -> Any:
        if any(message["role"] == "tool" for message in request["messages"]):
            return turn("It said so.")
        return turn("", call("agent", {"agent": "echo", "prompt": "hello"}))

    with FakeVendor(script) as vendor:
        home = Home(tmp_path, vendor)
        home.state.mkdir()
        command = json.dumps([*ECHO_AGENT])
        (home.state / "config.toml").write_text(f"[terminal_agents.echo]\ncommand = {command}\n")
        lines = home.run("go")
    (result,) = [line for line in lines if line["type"] == "tool_result"]
    assert result["content"][0]["text"].endswith("you said: hello")
    assert {line["child"] for line in lines if line["type"] == "child_event"} == {result["details"]["child"]}
