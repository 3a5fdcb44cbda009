"""Which agent a command starts: the name decides how its screen is read."""

from __future__ import annotations

from collections.abc import Sequence

from ostler.vocabulary.errors import UsageError

AGENT_TYPES = (
    "claude",
    "goose",
    "aider",
    "codex",
    "gemini",
    "copilot",
    "amp",
    "cursor",
    "auggie",
    "amazonq",
    "opencode",
    "pi",
    "custom",
)

_COMMANDS = {
    **{name: name for name in AGENT_TYPES},
    "cursor-agent": "cursor",
    "q": "amazonq",
}

# Programs that start another one, and what the packages they are given contain.
_RUNNERS = {"npx", "bunx", "uvx"}
_PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@openai/codex": "codex",
    "@google/gemini-cli": "gemini",
    "@github/copilot": "copilot",
    "@sourcegraph/amp": "amp",
    "@augmentcode/auggie": "auggie",
    "opencode-ai": "opencode",
    "@earendil-works/pi-coding-agent": "pi",
    "aider-chat": "aider",
}


def detect(command: str | Sequence[str], named: str = "") -> str:
    """The agent type of a command line; `named` is what the user called it, and wins."""
    if named:
        if named not in _COMMANDS:
            raise UsageError(f"invalid agent type: {named}")
        return _COMMANDS[named]
    parts = command.split() if isinstance(command, str) else command
    words = [word for word in parts if not word.startswith("-")]
    program = words[0].rpartition("/")[2] if words else ""
    if program in _RUNNERS and len(words) > 1:
        return _of_package(words[1])
    return _COMMANDS.get(program, "custom")


def _of_package(package: str) -> str:
    name, at, _version = package.rpartition("@")
    unversioned = name if at and name else package
    return _PACKAGES.get(unversioned) or _COMMANDS.get(unversioned, "custom")
