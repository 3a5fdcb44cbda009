"""What an agent can be served with: flags, agentapi's variables, defaults, what is refused in one line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from ostler.drivers.agent_spec import AGENT_TYPES
from ostler.schema.errors import UsageError
from ostler.server import command
from ostler.server.agentapi import serve
from ostler.server.agentapi.options import OPTIONS, PORT, AgentPlan
from tests.support.command import Ostler
from tests.support.paths import ROOT

HOSTS = ("localhost", "127.0.0.1", "[::1]")
ORIGINS = ("http://localhost:3284", "http://localhost:3000", "http://localhost:3001")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("AGENTAPI_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OSTLER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What would be served: `planned("--port", "1", "--", "claude")`."""
    plans: list[AgentPlan] = []

    def serve_agent(plan: AgentPlan, options: object) -> int:
        plans.append(plan)
        return 0

    monkeypatch.setattr(serve, "serve_agent", serve_agent)

    def plan(*arguments: str, command: Any = command.serve_command) -> AgentPlan:
        assert command([*arguments]) == 0
        return plans.pop()

    return plan


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str, command: Any = command.serve_command) -> str:
    """The one line that is said instead."""
    try:
        command([*arguments])
    except UsageError as error:
        assert "\n" not in error.message
        return error.message
    except SystemExit as ended:
        assert ended.code == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1, said
        return said
    raise AssertionError("it was not refused")


# Name, flags, variable as text, what the flags give, what the variable gives, the default.
SETTINGS = [
    ("port", ["-p", "4000"], "4001", 4000, 4001, 3284),
    ("port", ["--port=4000"], "0", 4000, 0, 3284),
    ("agent_type", ["-t", "goose"], "codex", "goose", "codex", ""),
    ("columns", ["-W", "100"], "90", 100, 90, 80),
    ("columns", ["--term-width", "100"], "90", 100, 90, 80),
    ("rows", ["-H", "10"], "5000", 10, 5000, 1000),
    ("chat_base_path", ["-c", "/x"], "/y", "/x", "/y", "/chat"),
    ("initial_prompt", ["-I", "hi"], "ho", "hi", "ho", ""),
    ("initial_prompt", ["-I", "-"], "ho", "-", "ho", ""),
    ("state_file", ["-s", "/a"], "/b", Path("/a"), Path("/b"), None),
    ("pid_file", ["--pid-file", "/a"], "/b", Path("/a"), Path("/b"), None),
    ("allowed_hosts", ["-a", "a,b", "-a", "c"], "d\te  f\n", ("a", "b", "c"), ("d", "e", "f"), HOSTS),
    ("allowed_hosts", ["--allowed-hosts", ""], " ", (), (), HOSTS),
    ("allowed_origins", ["-o", "*"], "http://a http://b", ("*",), ("http://a", "http://b"), ORIGINS),
    ("print_openapi", ["-P"], "true", True, True, False),
    ("print_openapi", ["--print-openapi=false"], "1", False, True, False),
    ("exit", ["--exit"], "T", True, True, False),
]
VARIABLES = {
    "agent_type": "TYPE",
    "columns": "TERM_WIDTH",
    "rows": "TERM_HEIGHT",
}


@pytest.mark.parametrize(("name", "flags", "variable", "by_flag", "by_variable", "default"), SETTINGS)
def test_a_flag_wins_over_a_variable_and_that_over_the_default(
    planned: Any,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    flags: list[str],
    variable: str,
    by_flag: object,
    by_variable: object,
    default: object,
) -> None:
    assert getattr(planned("--", "agent"), name) == default
    monkeypatch.setenv(f"AGENTAPI_{VARIABLES.get(name, name.upper())}", variable)
    assert getattr(planned("--", "agent"), name) == by_variable
    assert getattr(planned(*flags, "--", "agent"), name) == by_flag


def test_an_empty_variable_is_none(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (*OPTIONS, PORT):
        if one.variable:
            monkeypatch.setenv(one.variable, "")
    assert planned("--", "claude").port == 3284


def test_a_state_file_is_loaded_and_saved_by_default(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("--state-file", "s.json", "--", "claude")
    assert (plan.state_file, plan.load_state, plan.save_state) == (Path("s.json").absolute(), True, True)
    plan = planned("--state-file", "s.json", "--load-state=false", "--save-state", "--", "claude")
    assert (plan.load_state, plan.save_state) == (False, True)
    monkeypatch.setenv("AGENTAPI_SAVE_STATE", "f")
    assert not planned("--state-file", "s.json", "--", "claude").save_state
    assert planned("--state-file", "s.json", "--save-state=1", "--", "claude").save_state
    assert planned("--load-state=false", "--", "claude").state_file is None


def test_our_own_options_have_no_variable_of_agentapis(planned: Any) -> None:
    plan = planned(
        *("--ready-timeout", "2.5", "--ready-regex", "^ok", "--emulator", "bittty"),
        *("--transport", "stream-json", "--allow-unauthenticated", "--", "claude", "--port", "9"),
    )
    assert (plan.ready_after, plan.ready_regex, plan.emulator) == (2.5, "^ok", "bittty")
    assert (plan.transport, plan.allow_unauthenticated) == ("stream-json", True)
    assert (plan.command, plan.port) == (("claude", "--port", "9"), 3284)
    own = {one.name for one in OPTIONS if not one.variable}
    assert own == {"transport", "ready_timeout", "ready_regex", "emulator", "allow_unauthenticated"}


def test_what_agentapi_calls_experimental_is_a_transport(
    planned: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned("--experimental-acp", "--", "x").transport == "acp"
    assert planned("--experimental-acp", "--transport", "acp", "--", "x").transport == "acp"
    monkeypatch.setenv("AGENTAPI_EXPERIMENTAL_ACP", "1")
    assert planned("--", "x").transport == "acp"
    assert "use only one" in refusal(capsys, "--transport", "pty", "--", "x")


def test_with_agentapis_own_command_dashes_may_be_left_out(
    planned: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned("--port=1", "--", "claude", "-p", "x", command=command.server_command).command == (
        "claude",
        "-p",
        "x",
    )
    bare = planned(
        "--load-state=0", "--exit", "claude", "--port", "2", "and", "more", command=command.server_command
    )
    assert (bare.command, bare.port, bare.exit) == (("claude", "and", "more"), 2, True)
    said = refusal(capsys, "claude")
    assert "ostler serve … -- claude" in said
    assert "put -- before" in refusal(capsys, "--port", "1", "claude", "--", "x")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--type=bad", "--", "claude"), "invalid agent type: bad; the types are: claude, "),
        (("-W", "9", "--", "claude"), "10 to 5000 columns and rows"),
        (("-H", "9", "--", "claude"), "10 to 5000 columns and rows"),
        (("-W", "wide", "--", "claude"), "'wide' is not a whole number"),
        (("--port", "65536", "--", "claude"), "is not a port"),
        (("--load-state", "--", "claude"), "--load-state requires --state-file to be set"),
        (("--save-state=true", "--", "claude"), "--save-state requires --state-file to be set"),
        (("--save-state=maybe", "--", "claude"), "neither true nor false"),
        (("--experimental-acp", "-s", "x", "--", "claude"), "ACP mode doesn't support state persistence"),
        (("--transport", "acp", "-P", "--", "claude"), "--print-openapi"),
        (("--transport", "smoke", "--", "claude"), "invalid choice: 'smoke'"),
        (("--emulator", "vt52", "--", "claude"), "invalid choice: 'vt52'"),
        (("--ready-timeout", "0", "--", "claude"), "is not a number above 0"),
        (("--cwd", "nowhere", "--", "claude"), "there is no directory"),
        (("--",), "there is no command"),
        (("--allowed-hosts", "", "--", "claude"), "the list must not be empty"),
        (("--allowed-hosts", "a b", "--", "claude"), "contains whitespace characters"),
        (("--allowed-hosts", "https://a.example", "--", "claude"), "must not include http:// or https://"),
        (("--allowed-hosts", "a.example:80", "--", "claude"), "must not include a port"),
        (("--allowed-origins", "", "--", "claude"), "the list must not be empty"),
        (("--allowed-origins", "http://a b", "--", "claude"), "contains whitespace characters"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert said in refusal(capsys, *arguments)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AGENTAPI_PORT", "http", "AGENTAPI_PORT: 'http' is not a port"),
        ("AGENTAPI_TERM_WIDTH", "-1", "AGENTAPI_TERM_WIDTH: '-1' is not a whole number"),
        ("AGENTAPI_LOAD_STATE", "yes", "AGENTAPI_LOAD_STATE: 'yes' is neither true nor false"),
        ("AGENTAPI_ALLOWED_HOSTS", "a,b", "contains comma characters"),
    ],
)
def test_a_wrong_variable_is_one_line_that_names_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    assert said in refusal(capsys, "--", "claude")


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("--type", "claude"), "--type"),
        (("-s", "file"), "--state-file"),
        (("--allow-unauthenticated",), "--allow-unauthenticated"),
        (("--load-state=false",), "--load-state"),
        (("-P",), "--print-openapi"),
    ],
)
def test_what_is_for_an_agent_is_refused_without_one(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], flag: str
) -> None:
    assert f"{flag} is for an agent" in refusal(capsys, *arguments)


def test_a_variable_of_agentapis_does_not_matter_without_an_agent(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("AGENTAPI_PORT", "http")
    assert command.serve_command(["--openapi"]) == 0
    assert b'"openapi"' in capsysbinary.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("--model", "opus"), "--model"),
        (("--model=opus",), "--model"),
        (("--no-instructions",), "--no-instructions"),
        (("--allow-host", "x"), "--allow-host"),
        (("--openapi",), "--openapi"),
        (("-e", "x.py"), "--extension"),
    ],
)
def test_what_is_for_sessions_without_an_agent_is_refused_with_one(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], flag: str
) -> None:
    said = refusal(capsys, *arguments, "--", "claude")
    assert f"{flag} is not for agents" in said


def test_the_help_has_a_line_for_each_option_and_no_room_for_what_is_not_there(ostler: Ostler) -> None:
    lines = ostler("serve", "--help").out.splitlines()
    assert "  -P, --print-openapi   print agentapi's OpenAPI document and exit" in lines
    assert [line for line in lines if line != line.rstrip() or " ," in line] == []
    shown = " ".join(lines)
    assert [one.name for one in OPTIONS if not one.is_hidden and one.flags[-1] not in shown] == []


def test_a_check_of_the_options_starts_nothing(ostler: Ostler) -> None:
    ran = ostler("serve", "--exit", "--state-file", "state", "--pid-file", "pid", "--", "no-such-agent")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert sorted(path.name for path in ostler.work.iterdir()) == [".git"]


def test_the_page_lists_every_option_with_its_variable_and_default() -> None:
    page = (ROOT / "docs" / "terminal-agents.md").read_text()
    assert all(f"`{name}`" in page for name in AGENT_TYPES)
    listed = dict(re.findall(r"^\| (`-[^|]+) \| ([^|]+) \|", page, re.MULTILINE))
    for one in (*OPTIONS, PORT):
        if one.is_hidden:
            continue
        names = ", ".join(f"`{flag}`" for flag in reversed(one.flags))
        assert names in listed, names
        assert listed[names].strip() == (f"`{one.variable}`" if one.variable else "–"), names
