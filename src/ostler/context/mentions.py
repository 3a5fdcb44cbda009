"""Files that a prompt mentions as `@path`, attached to the prompt.

    @src/a.py  @"my notes.md"  @my\\ notes.md     a text, a picture or a PDF, as the read tool shows it
    @src/a.py:10-20  @src/a.py#L10-L20           some of its lines
    @src/                                        what is in a directory, without what .gitignore names

Only an existing path is a mention: addresses, decorators, names and code are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.context.markdown import outside_code
from ostler.core.lazy import lazy_module
from ostler.core.tool import FileRules
from ostler.schema.errors import ToolFailed
from ostler.schema.messages import PlainBlock, Text
from ostler.tools.files import display_path, in_path_order, is_folder, not_found, resolve, walk
from ostler.tools.truncation import (
    MAX_LINES,
    LineWindow,
    byte_length,
    first_that_fit,
    size_text,
    without_surrogates,
)

if TYPE_CHECKING:
    from ostler.tools import read
else:
    read = lazy_module("ostler.tools.read")

MOST_TEXT = 200 * 1024
"""The maximum bytes of text that the mentions of one prompt attach."""
MOST_ATTACHED = 20 * 1024 * 1024
"""The same for pictures and documents."""
MOST_ENTRIES = 500
_MOST_WALKED = 20_000
_NOT_BEFORE = r"(?<![A-Za-z0-9_.+\-/@\\%=&])"
_MENTION = re.compile(
    _NOT_BEFORE + r'@(?:"((?:[^"\\\n]|\\["\\])+)"((?:[:#][\w:-]*\w)?)|((?:[^\s"\\]|\\[^\n])+))'
)
_ESCAPED_MENTION = re.compile(_NOT_BEFORE + r"\\@")
_LINES = re.compile(
    r"(.+?)(?::([0-9]{1,9})(?:-([0-9]{1,9})|(-))?(?::[0-9]+)?|#L([0-9]{1,9})(?:-L?([0-9]{1,9}))?)"
)
_BEHIND = re.compile(r"(?:['’]s|[.,;:!?)\]}>'’”…])$")
_LIKE_A_PATH = re.compile(r"[^(]*/[^(]*|[^.(]+\.[A-Za-z0-9]{1,4}")


class Mentions(msgspec.Struct, frozen=True):
    text: str
    """The prompt, verbatim except that `\\@` becomes `@`."""
    blocks: tuple[PlainBlock, ...] = ()
    """What is attached below it."""
    digests: dict[str, str] = {}
    """The digests of attached files by path: they count as read in this session."""
    notices: tuple[str, ...] = ()
    """Notices for the user: mentions that do not exist or are not attached."""


class _Target(msgspec.Struct, frozen=True):
    path: Path
    given: str
    first: int = 1
    last: int | None = None


def with_mentions(
    text: str, cwd: Path, *, mentioned_in: str | None = None, rules: FileRules | None = None
) -> Mentions:
    """The prompt with its mentions attached. `mentioned_in` is the part that may attach files.

    A rule that denies reading a file also denies attaching it. It blocks: do not call it in the event loop.
    """
    notices: list[str] = []
    targets = _targets(text if mentioned_in is None else mentioned_in, cwd, notices)
    attachments = _Attachments(cwd, notices, rules.denial if rules else lambda path: "")
    for target in {(one.path, one.first, one.last): one for one in targets}.values():
        attachments.add(target)
    return Mentions(_unescaped(text), tuple(attachments.blocks), attachments.digests, tuple(notices))


class _Attachments:
    """Attaches one mention after the other, as long as there is room."""

    def __init__(self, cwd: Path, notices: list[str], denial: Callable[[Path], str]) -> None:
        self.blocks: list[PlainBlock] = []
        self.digests: dict[str, str] = {}
        self._cwd = cwd
        self._notices = notices
        self._denial = denial
        self._text = MOST_TEXT
        self._attached = MOST_ATTACHED

    def add(self, target: _Target) -> None:
        if denial := self._denial(target.path):
            self._notices.append(f"@{target.given} is not attached: {denial}")
            return
        try:
            blocks, digest = _blocks(target, self._cwd, self._denial)
        except (ToolFailed, OSError) as error:
            self._notices.append(f"@{target.given} is not attached: {error}")
            return
        text = sum(byte_length(one.text) for one in blocks if isinstance(one, Text))
        attached = sum(len(one.data) for one in blocks if not isinstance(one, Text))
        if text > self._text or attached > self._attached:
            limit = size_text(MOST_ATTACHED if attached else MOST_TEXT)
            self._notices.append(f"@{target.given} is not attached: the total would exceed {limit}")
            name = display_path(target.path, self._cwd)
            self.blocks.append(Text(f"{name} is not included here because it is too large: use read or ls"))
            return
        self._text -= text
        self._attached -= attached
        self.blocks += blocks
        if digest:
            self.digests[str(target.path)] = digest


def _blocks(target: _Target, cwd: Path, denial: Callable[[Path], str]) -> tuple[tuple[PlainBlock, ...], str]:
    if target.path.is_dir():
        return (Text(_listing(target.path, cwd, denial)),), ""
    if target.last is not None and target.last < target.first:
        raise ToolFailed(f"line {target.last} comes before line {target.first}")
    limit = MAX_LINES if target.last is None else target.last - target.first + 1
    window = LineWindow(target.first, limit)
    result = read.read_file(target.path, target.given, window, cwd, lambda: False)
    details = result.details or {}
    first, *others = result.content
    if others or not isinstance(first, Text):
        return result.content, details["digest"]
    heading = f"--- {without_surrogates(details['path'])}, as read shows it ---"
    return (Text(f"{heading}\n{first.text}"),), details["digest"]


def _listing(folder: Path, cwd: Path, denial: Callable[[Path], str]) -> str:
    name = without_surrogates(display_path(folder, cwd)).rstrip("/")
    walked = 0

    def stop() -> bool:
        nonlocal walked
        walked += 1
        return walked > _MOST_WALKED

    shown = (path for path in walk(folder, stop, hidden=False) if not denial(path))
    paths = [(path.relative_to(folder), is_folder(path)) for path in shown]
    # The upper levels are the most useful: they come first if not everything fits.
    paths.sort(key=lambda one: (len(one[0].parts), in_path_order(str(one[0]))))
    names = [f"{path}/" if has_more else str(path) for path, has_more in paths[:MOST_ENTRIES]]
    rows = first_that_fit(map(without_surrogates, sorted(names, key=in_path_order)))
    total = f"more than {_MOST_WALKED}" if walked > _MOST_WALKED else str(len(paths))
    if len(rows) < len(paths):
        rows.append(f"[{len(rows)} of {total} entries: use ls or find for more]")
    return "\n".join([f"--- {name}/, without what is ignored or hidden ---", *(rows or ["(nothing)"])])


def _targets(text: str, cwd: Path, notices: list[str]) -> Iterator[_Target]:
    for begin, end in outside_code(text):
        for mention in _MENTION.finditer(text, begin, end):
            if mention[1]:
                given = re.sub(r"\\([\"\\])", r"\1", mention[1])
                target = _with_lines(given + mention[2], cwd) if mention[2] else _target(given, cwd)
            else:
                given = re.sub(r"\\(.)", r"\1", mention[3])
                target = next(filter(None, (_target(one, cwd) for one in _shortened(given))), None)
            if target:
                yield target
            elif mention[1] or _LIKE_A_PATH.fullmatch(given):
                try:
                    problem = not_found(resolve(given, cwd), given).message
                except ToolFailed as error:
                    problem = error.message
                notices.append(f"@{problem}; it is sent as plain text")


def _shortened(word: str) -> Iterator[str]:
    """The word, then the word with more and more trailing punctuation removed."""
    yield word
    while (shorter := _BEHIND.sub("", word)) != word:
        word = shorter
        yield word


def _target(given: str, cwd: Path) -> _Target | None:
    path = _existing(given, cwd)
    return _Target(path, given) if path else _with_lines(given, cwd)


def _with_lines(given: str, cwd: Path) -> _Target | None:
    lines = _LINES.fullmatch(given)
    path = _existing(lines[1], cwd) if lines else None
    if lines is None or path is None:
        return None
    first, last = int(lines[2] or lines[5]), lines[3] or lines[6]
    if last is None and lines[4] is None:
        last = first
    return _Target(path, lines[1], first, None if last is None else int(last))


def _existing(given: str, cwd: Path) -> Path | None:
    try:
        path = resolve(given, cwd)
        return path if path.exists() else None
    except (ToolFailed, OSError):
        return None


def _unescaped(text: str) -> str:
    r"""The text with `@` for `\@`, except in code."""
    pieces = []
    at = 0
    for begin, end in outside_code(text):
        for escaped in _ESCAPED_MENTION.finditer(text, begin, end):
            pieces.append(text[at : escaped.start()])
            at = escaped.end() - 1
    return "".join([*pieces, text[at:]])
