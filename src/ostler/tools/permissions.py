"""What a tool may do without asking: four profiles, and the line that a question shows."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ostler.kernel.tool import ToolKind

Profile = Literal["read-only", "ask", "edit", "full"]
Verdict = Literal["allow", "ask", "refuse"]

PROFILES: tuple[Profile, ...] = ("read-only", "ask", "edit", "full")

_LOOKING: frozenset[ToolKind] = frozenset({"read", "search", "ask", "agent"})
"""Asking the person is always allowed: it changes nothing, and it is how permission is given. So is handing a
task on, because whatever a child does is judged as well."""

_PREVIEWED = ("command", "path", "file_path", "url", "query", "pattern", "name")
_PREVIEW_LENGTH = 120


def judge(profile: Profile, kind: ToolKind) -> Verdict:
    """Whether a tool of this kind runs, runs after a person said yes, or does not run."""
    if profile == "full" or kind in _LOOKING:
        return "allow"
    if profile == "read-only":
        return "refuse"
    if profile == "edit" and kind == "edit":
        return "allow"
    return "ask"


def reason(profile: Profile, kind: ToolKind) -> str:
    """Why a call was refused or must be asked about; empty when it is allowed."""
    verdict = judge(profile, kind)
    if verdict == "allow":
        return ""
    if verdict == "refuse":
        return (
            f"permissions are {profile}: tools that {_what(kind)} are refused; work without them. "
            f"A person can allow {_how_to_allow(kind)}"
        )
    return (
        f"permissions are {profile}: tools that {_what(kind)} need a person's consent (--yes gives it to all)"
    )


def by_profile(profile: Profile) -> str:
    """Who allows a call that no rule is about."""
    return f"profile {profile}"


def _how_to_allow(kind: ToolKind) -> str:
    if kind == "edit":
        return "that with --permissions edit, or everything with --yes"
    return "everything with --yes"


def preview(name: str, arguments: dict[str, Any] | str) -> str:
    """The telling part of a call, in one line of at most 120 characters that can all be printed."""
    return one_line(_telling_part(name, arguments))


def _telling_part(name: str, arguments: dict[str, Any] | str) -> str:
    if isinstance(arguments, str):
        try:
            decoded = msgspec.json.decode(arguments)
        except msgspec.DecodeError:
            return arguments
        if not isinstance(decoded, dict):
            return arguments
        arguments = decoded
    pattern, path = arguments.get("pattern"), arguments.get("path")
    if isinstance(pattern, str) and pattern and isinstance(path, str):
        return pattern if path in ("", ".") else f"{pattern} in {path}"
    for key in _PREVIEWED:
        value = arguments.get(key)
        if isinstance(value, str) and value:
            return value
    return msgspec.json.encode(arguments).decode() if arguments else name


def one_line(text: str) -> str:
    """The text in one line of at most 120 characters that can all be printed."""
    # Escape codes and marks that reorder text could make a command look like another one.
    line = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return line if len(line) <= _PREVIEW_LENGTH else line[: _PREVIEW_LENGTH - 1] + "…"


def _what(kind: ToolKind) -> str:
    return {
        "edit": "change files",
        "execute": "run commands",
        "fetch": "use the network",
        "agent": "start other agents",
    }.get(kind, "may change something")
