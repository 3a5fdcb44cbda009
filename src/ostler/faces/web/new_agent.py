"""Another vendor's agent, as it is asked for on the wire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from ostler.vocabulary.errors import UsageError

if TYPE_CHECKING:  # loaded when an agent is started
    from ostler.terminals.driving import TerminalAgent
    from ostler.terminals.structured import StructuredAgent

Size = Annotated[int, msgspec.Meta(ge=10, le=5000)]


class NewAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another vendor's agent: what to start, and how it is to be driven."""

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    """The program and its arguments; no shell reads them."""
    type: str = ""
    """`claude`, `codex` and so on: how its screen is read. The command says it, if it is left out."""
    transport: Literal["pty", "acp", "stream-json"] = "pty"
    """`pty`: a terminal. The others are for agents that speak a protocol, and have no screen."""
    columns: Size = 80
    rows: Size = 1000
    environment: dict[str, str] = {}
    """Variables beside those of the server."""
    initial_prompt: str = ""
    """What it is told as soon as it is ready."""
    ready_regex: str = ""
    """It is ready when its screen matches this; what is known of its type decides, if it is left out."""
    ready_after: Annotated[float, msgspec.Meta(gt=0, le=86_400)] | None = None
    """Or when its screen has not changed for so many seconds."""


def agent_to_start(wanted: NewAgent, cwd: Path) -> TerminalAgent | StructuredAgent:
    """Raises `UsageError`."""
    return _in_terminal(wanted, cwd) if wanted.transport == "pty" else _structured(wanted, cwd)


def _structured(wanted: NewAgent, cwd: Path) -> StructuredAgent:
    from ostler.terminals.structured import StructuredAgent

    assert wanted.transport != "pty"
    return StructuredAgent(
        command=wanted.command,
        cwd=cwd,
        transport=wanted.transport,
        agent_type=wanted.type,
        environment=_checked(wanted.environment),
        initial_prompt=wanted.initial_prompt,
    )


def _in_terminal(wanted: NewAgent, cwd: Path) -> TerminalAgent:
    """Raises `UsageError`."""
    from ostler.terminals.driving import TerminalAgent

    return TerminalAgent(
        command=wanted.command,
        cwd=cwd,
        agent_type=wanted.type,
        columns=wanted.columns,
        rows=wanted.rows,
        environment=_checked(wanted.environment),
        initial_prompt=wanted.initial_prompt,
        ready_regex=wanted.ready_regex,
        ready_after=wanted.ready_after,
    )


def _checked(environment: dict[str, str]) -> dict[str, str]:
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise UsageError(f"{name[:100]!r} is no name of a variable, or its value has a NUL in it")
    return environment
