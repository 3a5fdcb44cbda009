"""Other vendors' programs: how each is started without a network, a login or a first-time dialogue."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import msgspec
import pytest

from ostler.drivers.agent_spec import AgentSpec
from ostler.testkit.vendors import Turn, call, turn
from tests.agents.real.answers import COMMAND, PLANTED
from tests.agents.real.installing import (
    AIDER_PINS,
    AIDER_PROGRAMS,
    FOLDER,
    NPM_PINS,
    NPM_PROGRAMS,
    is_installed,
)
from tests.agents.real.places import Place

NO_KEY = "key-for-nobody-0123456789"
# Other people's settings of such programs, which a developer's machine may have.
_NOT_INHERITED = (
    "ANTHROPIC_",
    "CLAUDE_",
    "CODEX_",
    "GEMINI_",
    "GOOGLE_",
    "OPENAI_",
    "OPENCODE_",
    "PI_",
    "XDG_",
)


class Program(msgspec.Struct, frozen=True, kw_only=True):
    agent_type: str
    package: str
    command: tuple[str, ...]
    prepare: Callable[[Place], dict[str, str]]
    """Writes its settings; returns its environment."""
    acts: Turn
    """What its model answers to the wish to plant."""
    tool: str = ""
    asks: str
    """Words of the question whether it may; empty: it asks nobody."""
    allows: str = ""
    """How the choice begins that allows it."""
    has_planted: str = ""
    """What it shows when it has."""
    leaves: tuple[tuple[bytes, str], ...]
    """Keys that end it, and what it shows before the next of them."""

    @property
    def version(self) -> str:
        if self.package == "aider-chat":
            pins = dict(line.split("==") for line in AIDER_PINS.read_text().split() if "==" in line)
            return pins[self.package]
        return str(json.loads(NPM_PINS.read_text())["dependencies"][self.package])

    def require(self) -> None:
        """Skips a test where it cannot be had."""
        pins, programs = (
            (AIDER_PINS, AIDER_PROGRAMS) if self.package == "aider-chat" else (NPM_PINS, NPM_PROGRAMS)
        )
        if not is_installed(FOLDER / programs.relative_to(FOLDER).parts[0], pins):
            pytest.skip(f"{self.package} is not installed; `make real-agents` installs it")

    def agent(self, place: Place) -> AgentSpec:
        place.orchard.mkdir()
        environment = dict.fromkeys((name for name in os.environ if name.startswith(_NOT_INHERITED)), "")
        environment |= {
            "CI": "false",  # a program that believes to be there shows no screen, or refuses to begin
            "HOME": str(place.home),
            "PATH": os.pathsep.join([str(NPM_PROGRAMS), str(AIDER_PROGRAMS), os.environ["PATH"]]),
        }
        return AgentSpec(
            command=self.command, cwd=place.orchard, environment=environment | self.prepare(place)
        )


def _claude(place: Place) -> dict[str, str]:
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    place.write(
        ".claude.json",
        {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [NO_KEY[-20:]], "rejected": []},
            "projects": {str(place.orchard): trusted},
        },
    )
    return {
        "ANTHROPIC_API_KEY": NO_KEY,
        "ANTHROPIC_BASE_URL": place.vendor.anthropic_url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


_CODEX = """model = "gpt-5"
model_provider = "fake"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "{url}"
env_key = "FAKE_KEY"
wire_api = "responses"
[projects."{orchard}"]
trust_level = "trusted"
"""


def _codex(place: Place) -> dict[str, str]:
    place.write(".codex/config.toml", _CODEX.format(url=place.vendor.chat_url, orchard=place.orchard))
    return {"FAKE_KEY": NO_KEY}


def _aider(place: Place) -> dict[str, str]:
    # An empty list of models is fetched anew.
    place.write(".aider/caches/model_prices_and_context_window.json", {"nobody/nothing": {}})
    return {
        "OPENAI_API_KEY": NO_KEY,
        "OPENAI_API_BASE": place.vendor.chat_url,
        "LITELLM_LOCAL_MODEL_COST_MAP": "1",
    }


def _opencode(place: Place) -> dict[str, str]:
    fake = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": {"baseURL": place.vendor.chat_url, "apiKey": NO_KEY},
        "models": {"apple": {"name": "Apple", "limit": {"context": 100_000, "output": 4_000}}},
    }
    place.write(
        ".config/opencode/opencode.json",
        {
            "autoupdate": False,
            "share": "disabled",
            "model": "fake/apple",
            "small_model": "fake/apple",
            "permission": {"bash": "ask"},
            "provider": {"fake": fake},
        },
    )
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}


def _gemini(place: Place) -> dict[str, str]:
    place.write(
        ".gemini/settings.json",
        {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False},
        },
    )
    return {"GEMINI_API_KEY": NO_KEY, "GOOGLE_GEMINI_BASE_URL": place.vendor.gemini_url}


def _pi(place: Place) -> dict[str, str]:
    fake = {
        "baseUrl": place.vendor.chat_url,
        "api": "openai-completions",
        "apiKey": NO_KEY,
        "models": [{"id": "apple"}],
    }
    place.write(".pi/agent/models.json", {"providers": {"fake": fake}})
    place.write(".pi/agent/settings.json", {"defaultProvider": "fake", "defaultModel": "apple"})
    return {"PI_OFFLINE": "1"}


def _calls(tool: str, **arguments: str) -> Turn:
    return turn("I will plant it.", call(tool, arguments))


_CTRL_C, _CTRL_D = b"\x03", b"\x04"

PROGRAMS = (
    Program(
        agent_type="claude",
        package="@anthropic-ai/claude-code",
        command=("claude", "--permission-mode", "default"),
        prepare=_claude,
        acts=_calls("Bash", command=COMMAND, description="Plant"),
        tool="Bash",
        asks="Do you want to proceed?",
        allows="Yes",
        leaves=((_CTRL_C, "Press Ctrl-C again to exit"), (_CTRL_C, "")),
    ),
    Program(
        agent_type="codex",
        package="@openai/codex",
        command=("codex",),
        prepare=_codex,
        acts=_calls(
            "exec_command", cmd=COMMAND, sandbox_permissions="require_escalated", justification="Shall I?"
        ),
        tool="exec_command",
        asks="Would you like to run the following command?",
        allows="Yes, proceed",
        leaves=((_CTRL_C, ""),),
    ),
    Program(
        agent_type="aider",
        package="aider-chat",
        command=(
            *("aider", "--model", "openai/apple", "--no-git", "--no-check-update", "--analytics-disable"),
            *("--no-show-model-warnings", "--no-show-release-notes", "--no-gitignore"),
        ),
        prepare=_aider,
        acts=turn(f"{PLANTED}\n```\norchard\n```\n"),
        asks="Create new file? (Y)es/(N)o",
        allows="Yes",
        has_planted=f"Applied edit to {PLANTED}",
        leaves=((b"/exit\r", ""),),
    ),
    Program(
        agent_type="opencode",
        package="opencode-ai",
        command=("opencode",),
        prepare=_opencode,
        acts=_calls("bash", command=COMMAND, description="Plant"),
        tool="bash",
        asks="Permission required",
        allows="Allow once",
        leaves=((_CTRL_C, ""),),
    ),
    Program(
        agent_type="gemini",
        package="@google/gemini-cli",
        command=("gemini", "--model", "gemini-2.5-flash"),
        prepare=_gemini,
        acts=_calls("run_shell_command", command=COMMAND, description="Plant"),
        tool="run_shell_command",
        asks="Allow execution of",
        allows="Allow once",
        leaves=((_CTRL_C, "Press Ctrl+C again to exit."), (_CTRL_C, "")),
    ),
    Program(
        agent_type="pi",
        package="@earendil-works/pi-coding-agent",
        command=("pi",),
        prepare=_pi,
        acts=_calls("bash", command=COMMAND),
        tool="bash",
        asks="",
        leaves=((_CTRL_D, ""),),
    ),
)
