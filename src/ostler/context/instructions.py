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
- When a call is refused, say so and continue without it; do not try the same thing another way.
- When you are done, summarise in a few lines what you did and what you verified."""

_PRECEDENCE = (
    "The instructions below come from files. If they conflict, later ones take precedence; "
    "what the user says counts before all of them."
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
        told = (f"# Instructions from {source.path}\n\n{source.text}" for source in self.sources)
        return "\n\n".join((_PRECEDENCE, *told))


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
    search = _Search()
    for folder in users:
        search.look_into(folder, None)
    for folder in reversed(folders_up_to(root, cwd)):
        search.look_into(folder, root)
    return search.instructions()


def instructions_for(path: Path, cwd: Path, root: Path, told: Mapping[str, str]) -> Instructions:
    """The files that apply to `path` and that `find_instructions` did not include.

    `told` are those that the model knows, by the name that `shown` gives them, each with its digest: one
    that has changed since is found again. All paths are without symbolic links.
    """
    folders = _folders_to_look_into(str(path), str(cwd), str(root))
    if not folders:
        return Instructions()
    search = _Search()
    for folder in folders:
        search.look_into(Path(folder), root)
    found = search.instructions()
    # Whoever reads or writes such a file knows what it says.
    new = (one for one in found.sources if one.path != str(path))
    sources = tuple(
        one for one in new if told.get(tool_files.display_path(Path(one.path), cwd)) != one.digest
    )
    return Instructions(sources, found.problems)


def _folders_to_look_into(path: str, cwd: str, root: str) -> list[str]:
    """Those with a file, from below the root down to the path itself, without those that lead to `cwd`.

    Text in place of paths: it is asked after every call of a tool, and nearly always for nothing.
    """
    folder = root.rstrip("/")
    if not path.startswith(f"{folder}/"):
        return []
    found = []
    for name in path[len(folder) + 1 :].split("/"):
        folder += f"/{name}"
        leads_to_cwd = f"{cwd}/".startswith(f"{folder}/")
        if not leads_to_cwd and any(os.path.lexists(f"{folder}/{one}") for one in NAMES):
            found.append(folder)
    return found


class _Search:
    def __init__(self) -> None:
        self._files: dict[Path, tuple[Path, FileHead]] = {}
        """Resolves links, so that no file is included twice."""
        self._problems: list[str] = []

    def look_into(self, folder: Path, project: Path | None) -> None:
        for name in NAMES:
            path = folder / name
            try:
                beginning = read_head(path, project, LARGEST_FILE)
            except Unusable as error:
                self._complain(path, f"{error}; the model does not get it")
                return
            if beginning is not None:
                self._files.setdefault(path.resolve(), (path, beginning))
                return

    def instructions(self) -> Instructions:
        """Truncates the files to the limits. The nearest files get room first."""
        room = LARGEST_SUM
        sources: list[Source] = []
        for path, beginning in reversed(self._files.values()):
            text = self._text(path, beginning)
            if not text:
                continue
            limit = min(room, LARGEST_FILE)  # what is told as \ufffd takes more room than in the file
            told = _beginning_of(text, limit) if truncation.byte_length(text) > limit else text
            room -= truncation.byte_length(told)
            if told != text or beginning.size > LARGEST_FILE:
                told = self._cut(path, told, beginning.size)
            sources.append(
                Source(printable_path(path), beginning.size, tool_files.digest_of(beginning.content), told)
            )
        return Instructions(tuple(reversed(sources)), tuple(self._problems))

    def _text(self, path: Path, beginning: FileHead) -> str:
        if b"\0" in beginning.content:
            self._complain(path, "it is not text; the model does not get it")
            return ""
        is_whole = len(beginning.content) >= beginning.size
        try:
            text = _decoded(beginning.content, "strict", is_whole)
        except UnicodeDecodeError:
            text = _decoded(beginning.content, "replace", is_whole)
            self._complain(path, "it is not valid UTF-8: what could not be read is told as \ufffd")
        text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
        return text if is_whole else _beginning_of(text, LARGEST_FILE)

    def _cut(self, path: Path, text: str, size: int) -> str:
        part = f"{truncation.size_text(truncation.byte_length(text))} of {truncation.size_text(size)}"
        self._complain(path, f"it is too long: the model gets {part}")
        return f"{text}\n\n[truncated: {part}; read {printable_path(path)} for all of it]".lstrip()

    def _complain(self, path: Path, problem: str) -> None:
        self._problems.append(f"{printable_path(path)}: {problem}")


def _decoded(content: bytes, errors: str, is_whole: bool) -> str:
    """Decodes; a character cut in half at the end is not an error of the file."""
    return codecs.getincrementaldecoder("utf-8-sig")(errors).decode(content, is_whole)


def _beginning_of(text: str, limit: int) -> str:
    """The first whole lines that fit; part of the first one if it does not."""
    kept = text.encode()[:limit].decode(errors="ignore")
    return kept.rpartition("\n")[0] or kept


def instructions_in(cwd: Path) -> Instructions:
    """The user's files, then the project's."""
    cwd = cwd.resolve()
    return find_instructions(cwd, project_folder(cwd), (shared_folder(), own_folder()))


def has_folder(cwd: Path, places: tuple[str, ...], own: str) -> bool:
    """Whether there is such a folder between `cwd` and its project's root, or one of the user's own."""
    cwd = cwd.resolve()
    root = project_folder(cwd)
    if any((folder / own).is_dir() for folder in (own_folder(), shared_folder())):
        return True
    return any((folder / place).is_dir() for folder in folders_up_to(root, cwd) for place in places)


def skills_in(cwd: Path) -> Skills:
    """The project's as far as they are trusted, then the user's own."""
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


TOLD = "instructions"
"""In a result's details: the instruction files added to it, with their digests."""


def nested_instructions(cwd: Path, say: Callable[[str], None] = lambda text: None) -> Hook:
    """A hook for work in `cwd`. It uses the path in a result's details.

    `say` reports each problem with a file to the user, once.
    """
    cwd = cwd.resolve()
    root = project_folder(cwd)
    said: set[str] = set()

    def tell(finished: FinishedCall) -> FinishedCall | None:
        details = finished.details or {}
        path = details.get("path")
        if finished.failed or not isinstance(path, str):
            return None
        found = instructions_for(cwd / path, cwd, root, finished.instructions)
        for problem in found.problems:
            if problem not in said:
                said.add(problem)
                say(problem)
        if not found.sources:
            return None
        told = {tool_files.display_path(Path(source.path), cwd): source for source in found.sources}
        blocks = tuple(_block(name, source) for name, source in told.items())
        named = {name: source.digest for name, source in told.items()}
        return msgspec.structs.replace(
            finished, content=(*finished.content, *blocks), details={**details, TOLD: named}
        )

    return Hook("after_tool", tell, name="nested instructions")


def _block(name: str, source: Source) -> Text:
    return Text(f"# Instructions from {name}, for everything in {Path(name).parent}\n\n{source.text}")
