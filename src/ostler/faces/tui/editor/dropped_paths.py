"""Files that were dropped on the terminal: it pastes their paths, quoted in one of several ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ostler.faces.completing.mention_text import can_be_mentioned, mention_of, name_below
from ostler.faces.tui.editor.pictures import Picture, picture_in

MOST_LETTERS = 32 * 1024
"""A longer paste is a text, whatever is in it."""

_BEGINS = ("/", "~", "file://")
_MEANS_SOMETHING = re.compile(r"[|&;<>$`*?\n]")
"""To a shell: who pastes this does not mean a file."""
_PIECE = re.compile(
    r"""
      '([^']*)'                         # nothing has a meaning in here
    | "((?:[^"\\$`]|\\.)*)"
    | \\(.)
    | ([^\s'"\\|&;<>()$`*?\[\]{}]+)
    """,
    re.VERBOSE,
)
_ESCAPED_IN_QUOTES = re.compile(r'\\(["\\$`])')


def may_be_dropped(pasted: str) -> bool:
    """Whether it looks like a drop, as far as can be seen without looking at files."""
    text = pasted.strip()
    return len(text) <= MOST_LETTERS and text.startswith((*_BEGINS, "'", '"', "\\"))


def dropped_paths(pasted: str) -> tuple[Path, ...]:
    """The files and folders that a paste names, if it names nothing else and all of them exist."""
    if not may_be_dropped(pasted):
        return ()
    text = pasted.strip()
    # As it stands, first: some terminals quote nothing, not even blanks.
    if not _MEANS_SOMETHING.search(text) and (path := _existing(text)):
        return (path,)
    words = _file_addresses(text) or _words(text)
    paths = [path for word in words if (path := _existing(word))]
    return tuple(paths) if words and len(paths) == len(words) else ()


def insertion(pasted: str, before: str, cwd: Path) -> tuple[str | Picture, ...]:
    """What a paste becomes behind `before` when it is a drop, piece by piece; empty when it is none.

    A picture is a chip, everything else a mention. In a line that begins with `!` or `/` they are paths,
    as a shell or a command reads them. Reads files: not for the event loop.
    """
    paths = dropped_paths(pasted)
    if not paths:
        return ()
    pieces: list[str | Picture] = [" "] if before and not before[-1].isspace() else []
    for path in paths:
        piece = _as_path(path, before) or _as_content(path, cwd)
        if not piece:
            return ()
        pieces += [piece, " "]
    return tuple(pieces)


def _as_path(path: Path, before: str) -> str:
    match before.lstrip()[:1]:
        case "!":
            from shlex import quote

            return quote(str(path))
        case "/":
            return re.sub(r"([\s\"'\\])", r"\\\1", str(path))
        case _:
            return ""


def _as_content(path: Path, cwd: Path) -> str | Picture:
    if picture := picture_in(path):
        return picture
    below = next((path.relative_to(one) for one in (cwd, cwd.resolve()) if path.is_relative_to(one)), None)
    name = str(path) if below is None else name_below(cwd, str(below))
    if not can_be_mentioned(name):
        return ""
    return mention_of(f"{name.rstrip('/')}/" if path.is_dir() else name)


def _existing(word: str) -> Path | None:
    if word.startswith("file://"):
        word = _path_of_address(word)
    if not word.startswith(("/", "~")) or word.rstrip("/") in ("", "~"):
        return None
    try:
        path = Path(word).expanduser()
        return path if path.is_absolute() and path.exists() else None
    except (OSError, RuntimeError):  # too long a name, or nobody's home
        return None


def _file_addresses(text: str) -> list[str]:
    """The lines of what a file manager copies; nothing where one of them is something else."""
    lines = text.split()
    return lines if all(line.startswith("file://") for line in lines) else []


def _path_of_address(address: str) -> str:
    from os import fsdecode
    from urllib.parse import unquote_to_bytes

    host, slash, path = address.removeprefix("file://").partition("/")
    return fsdecode(unquote_to_bytes(slash + path)) if host in ("", "localhost") else ""


def _words(text: str) -> list[str]:
    """The words of a shell; nothing where one has a meaning beyond its letters."""
    if "\n" in text:
        return []
    words = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        word, at = _word(text, at)
        if not word:
            return []
        words.append(word)
    return words


def _word(text: str, at: int) -> tuple[str, int]:
    pieces = []
    for piece in _pieces(text, at):
        single, double, escaped, plain = piece.groups()
        if double is not None:
            double = _ESCAPED_IN_QUOTES.sub(r"\1", double)
        pieces.append(next(one for one in (single, double, escaped, plain) if one is not None))
        at = piece.end()
    return ("".join(pieces), at) if at == len(text) or text[at].isspace() else ("", at)


def _pieces(text: str, at: int) -> Iterator[re.Match[str]]:
    while piece := _PIECE.match(text, at):
        yield piece
        at = piece.end()
