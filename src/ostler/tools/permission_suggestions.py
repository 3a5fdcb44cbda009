"""Which rules would keep a question from being asked again, in the words of each scope."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ostler.tools.permission_judge import Finding, Judgement
from ostler.tools.permission_rules import command_pattern, escaped_path
from ostler.tools.shell_parts import Command
from ostler.tools.shell_words import word_set

Scope = Literal["session", "project", "user"]
SCOPES: tuple[Scope, ...] = ("session", "project", "user")

_WITH_SUBCOMMANDS = word_set(
    "apt brew bun bundle cargo composer deno docker dotnet gh git go gradle helm kubectl make mvn npm pip "
    "pip3 pnpm poetry rails rake ruff terraform tox uv yarn"
)
_WITH_SCRIPTS = frozenset({"npm", "pnpm", "yarn", "bun", "uv", "poetry"})
"""What stands behind their `run` is what matters."""


class Places(msgspec.Struct, frozen=True):
    """Where the relative paths of each scope's rules begin."""

    cwd: Path
    project: Path


def suggested(tool: str, judgement: Judgement, places: Places) -> dict[Scope, tuple[str, ...]]:
    """For each scope the rules that would allow all that is asked about; empty where rules cannot."""
    rules: dict[Scope, tuple[str, ...]] = {}
    for scope in SCOPES:
        texts = [_rule(tool, finding, scope, places) for finding in judgement.findings]
        known = [text for text in texts if text]
        if not known or len(known) < len(texts):
            return {}
        rules[scope] = tuple(dict.fromkeys(known))
    return rules


def _rule(tool: str, finding: Finding, scope: Scope, places: Places) -> str:
    match finding.subject:
        case Command() as command:
            pattern = _words(command)
            return f"{tool}({pattern})" if pattern else ""
        case Path() as path:
            return f"edit({_path(path, finding, scope, places)})"
        case str() as name if name != tool:
            return f"{tool}({name})"
        case str() as name:
            return name
    return ""


def _words(command: Command) -> str:
    """The program with its subcommand where there is one, else exactly this command."""
    words = command.words
    name = words[0]
    if name in _WITH_SUBCOMMANDS and not command.assignments and len(words) > 1:
        length = 3 if name in _WITH_SCRIPTS and words[1] == "run" else 2
        beginning = [word for word in words[:length] if word is not None and not word.startswith("-")]
        if len(beginning) == length:
            return command_pattern(beginning, exact=False)
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return ""
    return command_pattern([*command.assignments, *known], exact=True)


def _path(path: Path, finding: Finding, scope: Scope, places: Places) -> str:
    """The folder of a file that a tool changes, or one file for a redirection and outside of the folder."""
    real = path.resolve()
    base = {"session": places.cwd, "project": places.project, "user": None}[scope]
    folder = places.cwd.resolve()
    is_below = real.parent != folder and real.is_relative_to(folder) and not finding.part
    target = real.parent if is_below else real
    root = base.resolve() if base else None
    if root is None or not target.is_relative_to(root) or target == root:
        text = escaped_path(target)
    else:
        relative = escaped_path(target.relative_to(root))
        text = relative if "/" in relative or is_below else f"./{relative}"
    return f"{text}/**" if is_below else text
