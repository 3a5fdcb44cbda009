"""What the file tools share: paths, globs, the gitignore-aware walk, freshness checks, cancellable threads.

Tools that read or write a file put its digest into `details` of their result, keyed by the path relative to
the working directory. An open session keeps the latest digest of each file in memory; a reopened one reads
them from the log.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR
from typing import Any, TypeVar

from ostler.core import files
from ostler.core.tool import BeforeCall, ToolContext
from ostler.schema.errors import ToolFailed
from ostler.schema.ids import blake2b

_REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "part of the path is a file, not a directory",
    errno.EEXIST: "part of the path is a file, not a directory",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "too many levels of symbolic links",
    errno.ENOSPC: "no space left on the device",
    errno.EROFS: "the file system is read-only",
}


def resolve(path: str, cwd: Path) -> Path:
    """An absolute path without symbolic links. Relative ones start at `cwd`; `~` is the home directory."""
    if not path.strip():
        raise ToolFailed("path is empty: name a file or directory")
    if "\0" in path:
        raise ToolFailed(f"the path {path!r} contains a NUL character, which no file name can")
    try:
        return (cwd / Path(path).expanduser()).resolve()
    except (RuntimeError, UnicodeError) as error:  # no such home; links in a circle; a lone surrogate
        raise ToolFailed(f"{path}: {str(error).rstrip('.')}") from None
    except OSError as error:
        raise ToolFailed(explain(error, path)) from None


def judged_path(path: str, context: BeforeCall | ToolContext) -> Path:
    """The path that permission has judged. Resolving the argument again could lead elsewhere: a link may have
    changed since. Only without permissions is it resolved here."""
    return context.judged or resolve(path, context.cwd)


def judged_folder_or_file(path: str, context: ToolContext) -> tuple[Path, os.stat_result]:
    """Like `judged_path`, with its status; raises `ToolFailed`, with similar names, if nothing is there."""
    absolute = judged_path(path, context)
    with file_errors(path):
        status = files.judged_status(absolute)
    if status is None:
        raise not_found(absolute, path)
    return absolute, status


def require_same(path: Path, before: os.stat_result) -> None:
    """Raises `ToolFailed` unless the path still leads to the folder that was judged: what a walk found by
    name in between may lie elsewhere."""
    now = files.judged_status(path)
    if now is None or not os.path.samestat(now, before):
        raise ToolFailed(f"{path} was replaced during the search: try again")


def hidden_below(root: Path, context: ToolContext) -> Callable[[Path], bool]:
    """Whether a search or listing of the root skips a file, given its resolved path. Below a root that is
    hidden itself, and was named and approved, only rules that deny count."""
    rules = context.file_rules
    if rules is None:
        return lambda path: False
    return (lambda path: bool(rules.denial(path))) if rules.hides(root) else rules.hides


def skipped_note(count: int) -> str:
    """Says that a search or a listing has left out files."""
    noun = "file was" if count == 1 else "files were"
    return f"[{count} {noun} skipped: credentials, or restricted by permission rules]"


def display_path(path: Path, cwd: Path) -> str:
    """Relative to `cwd` if it is below it: shorter, and equally usable in the next call."""
    home = cwd.resolve()
    return str(path.relative_to(home)) if path.is_relative_to(home) else str(path)


def explain(error: OSError, path: str) -> str:
    """The operating system's error in one line, with the path as the model wrote it."""
    reason = _REASONS.get(error.errno or 0) or error.strerror or str(error)
    return f"{path if len(path) <= 300 else path[:300] + '…'}: {reason}"


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Turns file system errors into `ToolFailed` with one line about `path`."""
    try:
        yield
    except OSError as error:
        raise ToolFailed(explain(error, path)) from None


def not_found(path: Path, raw_path: str) -> ToolFailed:
    """The failure for a path that does not exist, with similar names."""
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        names = []
    near = get_close_matches(path.name, names, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ToolFailed(f"{raw_path}: no such file or directory{hint}")


def compile_glob(glob: str) -> re.Pattern[str]:
    """Matches a relative path with `/` between its parts. A glob without a slash matches the last part of a
    path at any depth, any other the whole path. The caller handles a trailing slash, since it knows which
    paths are directories."""
    body = glob.rstrip("/").removeprefix("./")
    anywhere = "/" not in body
    expression = _translated(body.removeprefix("/"))
    return re.compile(f"(?:.*/)?{expression}" if anywhere else expression, re.DOTALL)


def _translated(glob: str) -> str:
    out: list[str] = []
    position = 0
    braces = 0
    while position < len(glob):
        character = glob[position]
        rest = glob[position:]
        position += 1
        if rest.startswith("**/") and (position == 1 or glob[position - 2] == "/"):
            out.append("(?:.*/)?")
            position += 2
        elif rest == "**" and (position == 1 or glob[position - 2] == "/"):
            out.append(".+")
            position += 1
        elif character == "*":
            out.append(_STAR)
        elif character == "?":
            out.append("[^/]")
        elif character == "[" and (closing := _closing_bracket(glob, position)) > 0:
            out.append(_character_class(glob[position:closing]))
            position = closing + 1
        elif character == "{" and "}" in rest:
            out.append("(?:")
            braces += 1
        elif character == "}" and braces:
            out.append(")")
            braces -= 1
        elif character == "," and braces:
            out.append("|")
        elif character == "\\" and position < len(glob):
            out.append(re.escape(glob[position]))
            position += 1
        else:
            out.append(re.escape(character))
    return "".join(_without_backtracking(out)) + ")" * braces


_STAR = "[^/]*"
_BOUNDS = frozenset({"/", "(?:", ")", "|", "(?:.*/)?", ".+"})


def _without_backtracking(pieces: list[str]) -> Iterator[str]:
    """Several stars in one name would be tried in every combination, which takes forever in a long name.
    So the text between two stars matches at its first occurrence, and the next star takes the remainder."""
    place = 0
    while place < len(pieces):
        after = place + 1
        while after < len(pieces) and pieces[after] != _STAR and pieces[after] not in _BOUNDS:
            after += 1
        is_between = pieces[place] == _STAR and after < len(pieces) and pieces[after] == _STAR
        fixed = "".join(pieces[place + 1 : after])
        yield f"(?>{_STAR}?{fixed})" if is_between else pieces[place] + fixed
        place = after


def _closing_bracket(glob: str, after: int) -> int:
    """A bracket that stands first belongs to the class."""
    first = after + 1 if glob[after : after + 1] in ("!", "^") else after
    return glob.find("]", first + 1)


_MEMBER = re.compile(r"(.)(?:-(.))?", re.DOTALL)


def _escaped_member(member: re.Match[str]) -> str:
    """Both ends of a range are escaped, hyphens too: `--`, `&&` or `||` would be operations on sets."""
    first, last = member.groups()
    return re.escape(first) if last is None else f"{re.escape(first)}-{re.escape(last)}"


def _character_class(inside: str) -> str:
    negated = inside[0] in "!^"
    members = _MEMBER.sub(_escaped_member, inside[1:] if negated else inside)
    return f"[^/{members}]" if negated else f"(?!/)[{members}]"


def walk(root: Path, stop: Stop, *, hidden: bool, glob: str = "") -> Iterator[Path]:
    """Everything below `root`, in no order. Symbolic links are listed, not followed; directories
    without permission are skipped. `glob` filters files like a .gitignore line."""
    from ignore import Error, WalkBuilder
    from ignore.overrides import OverrideBuilder

    overrides = OverrideBuilder(root)
    try:
        if glob:
            overrides.add(glob)
        overrides.add("!.git")
        built = overrides.build()
    except Error as error:
        raise ToolFailed(f"invalid glob: {error}") from None
    entries = WalkBuilder(root).hidden(not hidden).require_git(False).overrides(built).build()
    while not stop():
        try:
            entry = next(entries)
        except StopIteration:
            return
        except Error:  # a directory that may not be read, or a file that went away
            continue
        if entry.depth() > 0:
            yield entry.path()


def is_folder(path: Path) -> bool:
    """Whether it is a directory itself, not a link to one, which may lead outside the tree."""
    try:
        return S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def in_path_order(path: str) -> list[bytes]:
    """A sort key: directory by directory, names by their bytes."""
    return os.fsencode(path).split(b"/")


MAX_DIGESTED = 64 * 1024 * 1024
"""Larger files are identified by size and modification time: hashing them each time would take too long."""
_MEMORY_KEY = "ostler.tools.seen_files"


class _SeenFiles:
    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.has_read_log = False


def new_digest() -> blake2b:
    return blake2b(digest_size=16)


def digest_of(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def stamp_of(status: os.stat_result) -> str:
    """The digest of a file larger than `MAX_DIGESTED`."""
    return f"{status.st_size}@{status.st_mtime_ns}"


def file_digest(path: Path) -> str:
    """The current digest of a file; the path is resolved."""
    with files.open_judged(path) as file:
        status = os.fstat(file.fileno())
        if status.st_size > MAX_DIGESTED:
            return stamp_of(status)
        digest = new_digest()
        while piece := file.read(1 << 20):
            digest.update(piece)
        return digest.hexdigest()


def remember(memory: dict[str, Any], path: Path, digest: str) -> None:
    """`memory` is the harness's, which its tools share."""
    _seen(memory).digests[str(path)] = digest


async def last_seen(context: BeforeCall, path: Path) -> str | None:
    """The digest of the file when this session last read or wrote it; None if it never did."""
    seen = _seen(context.memory)
    if str(path) not in seen.digests and not seen.has_read_log:
        logged: dict[str, str] = {}
        home = context.cwd.resolve()
        async for result in context.results():
            details: dict[str, Any] = result.details or {}
            name, digest = details.get("path"), details.get("digest")
            if isinstance(name, str) and isinstance(digest, str) and not result.failed:
                logged[str(home / name)] = digest
        seen.digests = logged | seen.digests
        seen.has_read_log = True
    return seen.digests.get(str(path))


def require_unchanged(raw_path: str, seen: str | None, present: str) -> None:
    """Raises `ToolFailed` if the model has not read the current content of the file."""
    if seen is None:
        raise ToolFailed(f"{raw_path} exists but was not read in this session: read it first, then change it")
    if seen != present:
        raise ToolFailed(f"{raw_path} has changed since you last read it: read it again, then change it")


def _seen(memory: dict[str, Any]) -> _SeenFiles:
    seen: _SeenFiles = memory.setdefault(_MEMORY_KEY, _SeenFiles())
    return seen


T = TypeVar("T")
Stop = Callable[[], bool]
"""Returns whether the work should stop early; the work polls it."""


async def run_cancellable(work: Callable[[Stop], T]) -> T:
    """Runs read-only work in a thread. A cancellation returns at once and tells the work to stop."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(work, stopped.is_set)
    except asyncio.CancelledError:
        stopped.set()
        raise


async def run_to_completion(work: Callable[[], T]) -> T:
    """Runs short work with side effects in a thread. A cancellation waits for it, so that nothing changes
    after the call has its outcome."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
