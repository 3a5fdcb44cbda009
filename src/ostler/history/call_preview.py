"""What a call would do, for the person who decides about it: the command, the diff, the other arguments.

Front ends draw it in their own way. Nothing is left out, and `visible` shows all that could deceive.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ostler.schema.errors import OstlerError
from ostler.schema.outcomes import Question
from ostler.schema.text import plural
from ostler.schema.visible_text import visible_text
from ostler.tools.diff import diff_of_splices, diff_of_texts
from ostler.tools.edit import Replacement, plan
from ostler.tools.files import resolve

MOST_COMPARED = 8 * 1024 * 1024
"""Largest file in bytes that a diff is made of."""

MAIN_ARGUMENT = {"bash": "command", "write": "content", "edit": "edits"}
"""The argument that is shown on its own; the others stand above it, and a path in the question."""

_ALIGNED = 40
"""Spaces in a line of a file that are counted instead of drawn; comments are aligned with fewer."""

_FILE_TOOLS = ("write", "edit")
_FOUND = ("diff", "note", "target")
"""What only the machine with the file knows."""


class CallPreview(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call as it was when the preview was made; files were read then."""

    tool: str = ""
    path: str = ""
    """The file that it changes."""
    target: str = ""
    """Where that path leads, if a link or `..` leads elsewhere."""
    command: str = ""
    """The whole command, of a call or of another question about one."""
    diff: str = ""
    """The unified diff of the file, with all hunks."""
    hunks: int = 0
    content: str = ""
    """The whole content of a file that is written, where there is no diff."""
    edits: tuple[dict[str, Any], ...] = ()
    """The replacements, where there is no diff."""
    note: str = ""
    """What a reader must know about the change: a new file, or why there is no diff."""
    arguments: dict[str, Any] = {}
    """The other arguments."""

    @property
    def is_empty(self) -> bool:
        return not (self.command or self.diff or self.content or self.edits or self.arguments)


def preview_of(details: dict[str, Any], cwd: Path | None) -> CallPreview:
    """The preview of the call in a question's details. Its files are below `cwd`; None if they are on
    another machine."""
    tool, arguments = str(details.get("tool") or ""), details.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    diff = str(details.get("diff") or "")
    if not tool:  # a hook or an extension asks, perhaps about a command or a change
        return CallPreview(command=str(details.get("command") or ""), diff=diff, hunks=hunks_in(diff))
    path = arguments.get("path")
    if tool in _FILE_TOOLS and isinstance(path, str):
        return _file_change(tool, path, arguments, details, cwd)
    command = arguments.get("command") if tool == "bash" else None
    if not isinstance(command, str):
        return CallPreview(tool, diff=diff, hunks=hunks_in(diff), arguments=arguments)
    return CallPreview(
        tool, command=command, diff=diff, hunks=hunks_in(diff), arguments=_without(arguments, "command")
    )


def with_preview(question: Question, cwd: Path) -> Question:
    """The question with the diff of the file as it is now, for a front end on another machine."""
    if (question.details or {}).get("tool") not in _FILE_TOOLS:
        return question
    preview = preview_of(question.details or {}, cwd)
    details = _without(question.details or {}, *_FOUND)
    details |= {name: value for name in _FOUND if (value := getattr(preview, name))}
    return msgspec.structs.replace(question, details=details)


def hunks_in(diff: str) -> int:
    return sum(line.startswith("@@ ") for line in diff.split("\n"))


def visible(text: str, *, is_file: bool = False) -> str:
    """The text without anything that deceives; lines of a file may be aligned with more spaces."""
    return visible_text(text, long_run=_ALIGNED).text if is_file else visible_text(text).text


def marks_in(preview: CallPreview) -> int:
    """How many characters and runs of spaces could deceive a reader."""
    texts = [preview.path, preview.command, *map(_spelled, preview.arguments.values())]
    marks = sum(visible_text(text).marks for text in texts)
    if preview.diff:
        lines = [line[1:] for line in preview.diff.split("\n") if line[:1] in ("+", "-")]
        return marks + sum(visible_text(line, long_run=_ALIGNED).marks for line in lines)
    changed = [preview.content, *(str(value) for edit in preview.edits for value in edit.values())]
    return marks + sum(visible_text(text, long_run=_ALIGNED).marks for text in changed)


def preview_lines(preview: CallPreview) -> list[str]:
    """The preview in plain lines, all of it."""
    lines = [f"{visible(name)}: {visible(_spelled(value))}" for name, value in preview.arguments.items()]
    if preview.target:
        lines.append(f"this path leads to {visible(preview.target)}")
    if preview.command:
        first, *others = visible(preview.command).split("\n")
        lines += [f"command: {first}", *others]
    if preview.note:
        lines.append(preview.note)
    if preview.diff:
        lines += [visible(line, is_file=True) for line in preview.diff.rstrip("\n").split("\n")]
    elif preview.content:
        lines += visible(preview.content, is_file=True).rstrip("\n").split("\n")
    for number, edit in enumerate(preview.edits, 1):
        lines.append(f"edit {number}{', everywhere' if edit.get('replace_all') else ''}")
        for sign, name in (("-", "old_text"), ("+", "new_text")):
            lines += [f"{sign}{visible(line, is_file=True)}" for line in str(edit.get(name, "")).split("\n")]
    if marks := marks_in(preview):
        lines.append(warning(marks))
    return lines


def warning(marks: int) -> str:
    return f"{plural(marks, 'hidden or misleading character')}, shown as ⟨…⟩"


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _without(arguments: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def _file_change(
    tool: str, path: str, arguments: dict[str, Any], details: dict[str, Any], cwd: Path | None
) -> CallPreview:
    main = arguments.get(MAIN_ARGUMENT[tool])
    diff, note, target = (str(details.get(name) or "") for name in _FOUND)
    # A stored question may come with any diff: what counts is what the arguments do to the file.
    if cwd is not None and main is not None:
        diff, note, target = _diff(tool, path, arguments, cwd)
    others = _without(arguments, "path", MAIN_ARGUMENT[tool])
    content, edits = "", ()
    if not diff and tool == "write" and isinstance(main, str):
        content = main
    elif not diff and isinstance(main, list) and all(isinstance(one, dict) for one in main):
        edits = tuple(main)
    elif not diff and main is not None:
        others = {**others, MAIN_ARGUMENT[tool]: main}
    return CallPreview(
        tool,
        path=path,
        target=target,
        diff=diff,
        hunks=hunks_in(diff),
        content=content,
        edits=edits,
        note=note,
        arguments=others,
    )


def _diff(tool: str, path: str, arguments: dict[str, Any], cwd: Path) -> tuple[str, str, str]:
    """The diff of the file as it is now, a note, and where the path leads."""
    target = ""
    try:
        file = resolve(path, cwd)
        target = "" if file == _as_named(path, cwd) else str(file)
        if not file.exists():
            return "", "a new file" if tool == "write" else "", target
        if not file.is_file():
            return "", "not a regular file", target
        if file.stat().st_size > MOST_COMPARED:
            return "", "replaces the whole existing file, which is too large for a diff", target
        before = file.read_bytes().decode("utf-8")
        if tool == "write":
            diff = diff_of_texts(before, arguments["content"], path, path, whole=True).text
            return diff, "" if diff else "nothing would change", target
        edits = msgspec.convert(arguments["edits"], list[Replacement])
        return diff_of_splices(before, plan(before, edits).splices, path, whole=True).text, "", target
    except UnicodeDecodeError:
        return "", "replaces the whole existing file, which is not text", target
    except (OSError, OstlerError, ValueError, TypeError, KeyError, AttributeError, RuntimeError):
        return "", "", target


def _as_named(path: str, cwd: Path) -> Path:
    """The path without a look at links: what a person takes it for."""
    named = Path(path).expanduser()
    return named if named.is_absolute() else cwd.resolve() / named
