"""The rules that a question offers to remember, so that the same question does not come again.

A listed program is offered with all its listed options and operands; any other program with exactly its
words, and as a wider offer with further operands. What runs other programs is offered with exactly its words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from ostler.permissions.plain_shell import PlainPart
from ostler.permissions.rules import command_pattern, escaped_path, literal_words
from ostler.permissions.wrappers import runs_what_it_is_given

Scope = Literal["session", "project", "user"]
WIDER = "+"
"""Stands after a scope in the answer that takes the wider offer: `session+`."""

_MAX_TEXT = 400


class ProgramUse(msgspec.Struct, frozen=True):
    """A part of a plain command; `listed` is the program's name on the list, if all its options are there."""

    part: PlainPart
    listed: str = ""


class WholeText(msgspec.Struct, frozen=True):
    """A command that no rule can describe by its words."""

    text: str


Subject = ProgramUse | WholeText | Path | str | None
"""What a rule that allows a part of a call would name; None if no rule can."""


class Offers(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rules by scope. A wider offer stands beside each, or nowhere."""

    rules: dict[Scope, tuple[str, ...]] = {}
    wider: dict[Scope, tuple[str, ...]] = {}


class Asked(msgspec.Struct, frozen=True):
    """A part that a question is about. `is_inner` says that it is only a part of the call."""

    subject: Subject
    is_inner: bool = False
    access: Literal["", "edit", "read"] = ""


def offers_for(tool: str, asked: list[Asked], cwd: Path, project: Path) -> Offers:
    """For each scope, the rules that would allow everything that is asked about; none if rules cannot."""
    bases: dict[Scope, Path | None] = {"session": cwd, "project": project, "user": None}
    whole = next((one for one in asked if isinstance(one.subject, WholeText)), None)
    if whole is not None:
        asked = [whole]
    offered: dict[Scope, tuple[str, ...]] = {}
    wider: dict[Scope, tuple[str, ...]] = {}
    for scope, base in bases.items():
        rules = [_rule(tool, one, cwd, base) for one in asked]
        if not rules or not all(rules):
            return Offers()
        offered[scope] = tuple(dict.fromkeys(rules))
        wide = [_wider_rule(tool, one) or rule for one, rule in zip(asked, rules, strict=True)]
        if wide != rules:
            wider[scope] = tuple(dict.fromkeys(wide))
    return Offers(offered, wider)


def _rule(tool: str, asked: Asked, cwd: Path, base: Path | None) -> str:
    """The rule that would allow a part; a relative path in it begins at `base`."""
    match asked.subject:
        case ProgramUse(part, listed):
            if listed:
                return f"{tool}~({listed})"
            return "" if part.globs else f"{tool}({command_pattern(part.words, exact=True)})"
        case WholeText(text):
            is_short = len(text) <= _MAX_TEXT and text.isprintable()
            return f"{tool}=({text})" if is_short else ""
        case Path() as path:
            return f"{asked.access or 'edit'}({_path(path, asked, cwd, base)})"
        case str() as name:
            return name if name == tool else f"{tool}({name})"
    return ""


def _wider_rule(tool: str, asked: Asked) -> str:
    if not isinstance(asked.subject, ProgramUse) or asked.subject.listed:
        return ""
    words = asked.subject.part.words
    return "" if runs_what_it_is_given(words) else f"{tool}{WIDER}({literal_words(words)})"


def _path(path: Path, asked: Asked, cwd: Path, base: Path | None) -> str:
    """The folder of a file that a tool changes; only the file for a redirection, or outside `cwd`."""
    real, folder = path.resolve(), cwd.resolve()
    is_below = (
        real.parent != folder and real.is_relative_to(folder) and not asked.is_inner and not asked.access
    )
    target = real.parent if is_below else real
    root = base.resolve() if base else None
    if root is None or not target.is_relative_to(root) or target == root:
        text = escaped_path(target)
    else:
        relative = escaped_path(target.relative_to(root))
        text = relative if "/" in relative or is_below else f"./{relative}"
    return f"{text}/**" if is_below else text
