"""What may stand behind a slash: extensions' commands, prompt templates and skills."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:  # most have no extensions
    from ostler.extensions.host import ExtensionHost


class CommandEntry(msgspec.Struct, frozen=True):
    name: str
    """Without the slash."""
    description: str = ""
    arguments: str = ""
    """A hint such as `[name]`; with none, nothing is typed behind it."""
    aliases: tuple[str, ...] = ()
    kind: Literal["face", "command", "template", "skill"] = "face"


def brought_by(host: ExtensionHost | None, taken: Collection[str] = ()) -> list[CommandEntry]:
    """The commands of extensions. One whose name is taken is named with its extension."""
    if host is None:
        return []
    return [
        CommandEntry(
            f"{extension.name}:{name}" if name in taken else name, command.description, "…", kind="command"
        )
        for name, (extension, command) in host.commands().items()
    ]


def expanding_in(cwd: Path, taken: Collection[str] = ()) -> list[CommandEntry]:
    """What stands for a longer prompt: templates, then skills. Reads files: not for the event loop."""
    from ostler.faces.cli.prompts import prompts_here
    from ostler.runs.guidance import skills_in

    templates = [
        CommandEntry(one.name, one.description, _hint(one.usage), kind="template")
        for one in prompts_here(cwd).found.values()
    ]
    skills = [
        CommandEntry(f"skill:{one.name}", one.description, "…", kind="skill")
        for one in skills_in(cwd).found.values()
    ]
    return [one for one in (*templates, *skills) if one.name not in taken]


def _hint(usage: str) -> str:
    """What comes behind the name; more may always come, and is added to the prompt."""
    return usage.partition(" ")[2] or "…"
