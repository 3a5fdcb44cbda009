"""The system prompt, and instruction files such as AGENTS.md.

The system prompt is small on purpose, and the same files give the same bytes: it is in the cached prefix of
every request. An instruction file is only text for the model: it runs nothing, and files that it names are
not read. The files of a subfolder are added to the result of the first call that touches something there. So
they are in the log: a reopened session knows which ones the model has, and a child session gets its own.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.context.files import FileHead, Unusable, folders_up_to, printable_path, read_head
from ostler.core.hooks import FinishedCall, Hook
from ostler.core.lazy import lazy_module
from ostler.schema.messages import Text
from ostler.store.paths import configuration_file, home_folder, project_folder

if TYPE_CHECKING:
    from ostler.context import skills as skills_module
    from ostler.context.skills import Skills
    from ostler.permissions import trust
    from ostler.tools import files as tool_files
    from ostler.tools import truncation
else:
    skills_module = lazy_module("ostler.context.skills")
    trust = lazy_module("ostler.permissions.trust")
    tool_files = lazy_module("ostler.tools.files")
    truncation = lazy_module("ostler.tools.truncation")

NAMES = ("AGENTS.md", "CLAUDE.md")
"""The first that exists in a folder is used."""

LARGEST_FILE = 64 * 1024

LARGEST_SUM = 128 * 1024
"""Bytes of one file, and of all files together."""

_DEFAULT = """\
You are Ostler, a coding agent that works in a person's own directory with the tools you are given.

- Act first: read files and run commands yourself instead of asking for what you can find out.
- Prefer edit over write for existing files; read a file before you change it.
- Change files with the edit and write tools, not through the shell.
- When a call is refused, report it and continue without it; do not try the same thing another way.
- When you are done, summarise in a few lines what you did and what you verified."""

_PRECEDENCE = (
    "The instructions below come from files. If they conflict, later ones take precedence; "
    "the user's own messages take precedence over all of them."
)


class Source(msgspec.Struct, frozen=True):
    """An instruction file."""

    path: str
    size: int
    """The size of the whole file, in bytes."""
    digest: str
    """The digest of what was read; it changes when the file does."""
    text: str
    """The part that the model gets."""


class Instructions(msgspec.Struct, frozen=True):
    sources: tuple[Source, ...] = ()
    """In the order in which the model gets them."""
    problems: tuple[str, ...] = ()
    """Problems with files, one line each, starting with the file's path."""

    @property
    def text(self) -> str:
        """Their section of the system prompt; empty without any."""
        if not self.sources:
            return ""
        sections = (f"# Instructions from {source.path}\n\n{source.text}" for source in self.sources)
        return "\n\n".join((_PRECEDENCE, *sections))


def system_prompt(cwd: Path, today: date, *, instead: str = "", appended: Iterable[str] = ()) -> str:
    """The default prompt or its replacement, the appended text, the working directory and the date.

    The date has no time of day: a clock in the prefix would defeat every prompt cache.
    """
    where = f"Working directory: {cwd}\nDate: {today.isoformat()}"
    return "\n\n".join((instead or _DEFAULT, *appended, where))


def find_instructions(cwd: Path, root: Path, users: Iterable[Path] = ()) -> Instructions:
    """The user's files, then those from the project's `root` down to `cwd`.

    The nearest comes last, because it takes precedence.
    """
    search = _InstructionSearch()
    for folder in users:
        search.read_folder(folder, None)
    for folder in reversed(folders_up_to(root, cwd)):
        search.read_folder(folder, root)
    return search.instructions()


def instructions_for(path: Path, cwd: Path, root: Path, known: Mapping[str, str]) -> Instructions:
    """The files that apply to `path` and that `find_instructions` did not include.

    `known` are the digests of those that the model has, by `display_path`: one that has changed is included
    again. All paths are without symbolic links.
    """
    folders = _folders_with_instructions(str(path), str(cwd), str(root))
    if not folders:
        return Instructions()
    search = _InstructionSearch()
    for folder in folders:
        search.read_folder(Path(folder), root)
    instructions = search.instructions()
    # A call that reads or writes such a file has its content anyway.
    others = (one for one in instructions.sources if one.path != str(path))
    sources = tuple(
        one for one in others if known.get(tool_files.display_path(Path(one.path), cwd)) != one.digest
    )
    return Instructions(sources, instructions.problems)


def _folders_with_instructions(path: str, cwd: str, root: str) -> list[str]:
    """The folders with a file, from below the root down to the path, without those that contain `cwd`.

    It uses strings because it runs after every tool call, and nearly always finds nothing.
    """
    folder = root.rstrip("/")
    if not path.startswith(f"{folder}/"):
        return []
    folders = []
    for name in path[len(folder) + 1 :].split("/"):
        folder += f"/{name}"
        contains_cwd = f"{cwd}/".startswith(f"{folder}/")
        if not contains_cwd and any(os.path.lexists(f"{folder}/{one}") for one in NAMES):
            folders.append(folder)
    return folders


class _InstructionSearch:
    def __init__(self) -> None:
        self._files: dict[Path, tuple[Path, FileHead]] = {}
        """By the path without links, so that no file is included twice."""
        self._problems: list[str] = []

    def read_folder(self, folder: Path, project: Path | None) -> None:
        for name in NAMES:
            path = folder / name
            try:
                head = read_head(path, project, LARGEST_FILE)
            except Unusable as error:
                self._add_problem(path, f"{error}; the model does not get it")
                return
            if head is not None:
                self._files.setdefault(path.resolve(), (path, head))
                return

    def instructions(self) -> Instructions:
        """Truncates the files to the limits. The nearest files get room first."""
        room = LARGEST_SUM
        sources: list[Source] = []
        for path, head in reversed(self._files.values()):
            text = whole = self._text(path, head)
            if not text:
                continue
            limit = min(room, LARGEST_FILE)  # \ufffd takes more bytes than what it replaces
            if truncation.byte_length(text) > limit:
                text = _beginning_of(text, limit)
            room -= truncation.byte_length(text)
            if text != whole or head.size > LARGEST_FILE:
                sizes = (truncation.byte_length(text), head.size)
                part = " of ".join(map(truncation.size_text, sizes))
                self._add_problem(path, f"it is too long: the model gets {part}")
                notice = f"[truncated: {part}; read {printable_path(path)} for all of it]"
                text = f"{text}\n\n{notice}".lstrip()
            sources.append(Source(printable_path(path), head.size, tool_files.digest_of(head.content), text))
        return Instructions(tuple(reversed(sources)), tuple(self._problems))

    def _text(self, path: Path, head: FileHead) -> str:
        if b"\0" in head.content:
            self._add_problem(path, "it is not text; the model does not get it")
            return ""
        is_whole = len(head.content) >= head.size
        try:
            text = _decoded(head.content, "strict", is_whole)
        except UnicodeDecodeError:
            text = _decoded(head.content, "replace", is_whole)
            self._add_problem(path, "it is not valid UTF-8: invalid bytes are replaced by \ufffd")
        text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
        return text if is_whole else _beginning_of(text, LARGEST_FILE)

    def _add_problem(self, path: Path, problem: str) -> None:
        self._problems.append(f"{printable_path(path)}: {problem}")


def _decoded(content: bytes, errors: str, is_whole: bool) -> str:
    """Decodes; a character cut in half at the end is not an error of the file."""
    return codecs.getincrementaldecoder("utf-8-sig")(errors).decode(content, is_whole)


def _beginning_of(text: str, limit: int) -> str:
    """The first whole lines that fit; part of the first one if it does not."""
    beginning = text.encode()[:limit].decode(errors="ignore")
    return beginning.rpartition("\n")[0] or beginning


def instructions_in(cwd: Path) -> Instructions:
    """The user's files, then the project's."""
    cwd = cwd.resolve()
    return find_instructions(cwd, project_folder(cwd), (shared_folder(), own_folder()))


def has_folder(cwd: Path, places: tuple[str, ...], own: str) -> bool:
    """Whether there is such a folder between `cwd` and its project's root, or one of the user's own."""
    if any((folder / own).is_dir() for folder in (own_folder(), shared_folder())):
        return True
    cwd = cwd.resolve()
    folders = folders_up_to(project_folder(cwd), cwd)
    return any((folder / place).is_dir() for folder in folders for place in places)


def skills_in(cwd: Path) -> Skills:
    """The project's trusted skills, then the user's own."""
    cwd = cwd.resolve()
    users = [(folder / "skills").resolve() for folder in (own_folder(), shared_folder())]
    return skills_module.find_skills(cwd, project_folder(cwd), users, trust.is_trusted)


def own_folder() -> Path:
    """The user's folder for Ostler."""
    return configuration_file().parent


def shared_folder() -> Path:
    """The user's folders for all agents."""
    home = home_folder()
    return own_folder() if home is None else home / ".agents"


INSTRUCTIONS_DETAIL = "instructions"
"""In a result's details: the instruction files added to it, with their digests."""


def nested_instructions(cwd: Path, say: Callable[[str], None] = lambda text: None) -> Hook:
    """A hook for work in `cwd`. It uses the path in a result's details.

    `say` reports each problem with a file to the user, once.
    """
    cwd = cwd.resolve()
    root = project_folder(cwd)
    reported: set[str] = set()

    def add_instructions(finished: FinishedCall) -> FinishedCall | None:
        details = finished.details or {}
        path = details.get("path")
        if finished.failed or not isinstance(path, str):
            return None
        instructions = instructions_for(cwd / path, cwd, root, finished.instructions)
        for problem in instructions.problems:
            if problem not in reported:
                reported.add(problem)
                say(problem)
        if not instructions.sources:
            return None
        content, digests = [*finished.content], {}
        for source in instructions.sources:
            name = tool_files.display_path(Path(source.path), cwd)
            heading = f"# Instructions from {name}, for everything in {Path(name).parent}"
            content.append(Text(f"{heading}\n\n{source.text}"))
            digests[name] = source.digest
        return msgspec.structs.replace(
            finished, content=tuple(content), details={**details, INSTRUCTIONS_DETAIL: digests}
        )

    return Hook("after_tool", add_instructions, name="nested instructions")
