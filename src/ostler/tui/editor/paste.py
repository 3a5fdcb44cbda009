"""The clipboard in both directions, pictures for a prompt, and files dropped on the terminal."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.app.completion import can_be_mentioned, mention_of, name_below
from ostler.context.tokenizers import picture_size
from ostler.core.processes import OwnedGroup, find_program
from ostler.schema.errors import ToolFailed, UsageError
from ostler.schema.messages import Image
from ostler.tools.media import SNIFFED, image_type, scaled_down
from ostler.tools.read import MAX_IMAGE, MAX_SCALED_IMAGE
from ostler.tools.truncation import size_text
from ostler.tui.editor.chips import Picture

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext


def picture_in(path: Path) -> Picture | None:
    """A picture that models can see, judged by its bytes; None for everything else. Takes its time."""
    try:
        if not path.is_file():  # opening a pipe or a device might block
            return None
        with path.open("rb") as file:
            head = file.read(SNIFFED)
            if not image_type(head):
                return None
            content = head + file.read(MAX_SCALED_IMAGE)
        return picture_from(content)
    except (OSError, UsageError):
        return None


def picture_from(content: bytes) -> Picture:
    """Raises `UsageError` when models cannot see it. May scale it down, which takes its time: not for the
    event loop."""
    media_type = image_type(content)
    if media_type is None:
        raise UsageError("this is no picture that models can see: use PNG, JPEG, GIF or WebP")
    about = media_type.removeprefix("image/").upper()
    if size := picture_size(content):
        about += f" {size[0]}x{size[1]}"
    try:
        scaled = scaled_down(content, media_type)
    except ToolFailed as error:
        raise UsageError(error.message) from None
    if scaled:
        media_type, content = scaled.media_type, scaled.content
    if len(content) > MAX_IMAGE:
        raise UsageError(
            f"the picture has {size_text(len(content))}, and vendors take {size_text(MAX_IMAGE)} at most: "
            "make a smaller copy"
        )
    return Picture(Image(media_type, data=b64encode(content).decode()), about)


SECONDS = 5.0

_X_SELECTION = ("xclip", "-selection", "clipboard", "-o")

_APPLE_PICTURE = re.compile(rb"PNGf([0-9A-Fa-f]+)")


def clipboard() -> Picture | str:
    """A picture, if there is one; else the text. Raises `UsageError` when there is neither, or nothing to
    read it with. Starts programs: not for the event loop."""
    readers = _readers()
    if not readers:
        raise UsageError(
            "nothing here can read the clipboard: install wl-clipboard or xclip, "
            "or use the terminal's own paste"
        )
    for read_picture, read_text in readers:
        if picture := _picture(read_picture):
            return picture_from(picture)
        if text := _output(read_text).decode(errors="replace"):
            return text
    raise UsageError("there is neither a picture nor a text in the clipboard")


def _readers() -> list[tuple[Sequence[str], Sequence[str]]]:
    """The commands for a picture and for a text."""
    known: list[tuple[bool, Sequence[str], Sequence[str]]] = [
        (
            "WAYLAND_DISPLAY" in os.environ,
            ("wl-paste", "--type", "image/png"),
            ("wl-paste", "--no-newline", "--type", "text"),
        ),
        ("DISPLAY" in os.environ, (*_X_SELECTION, "-t", "image/png"), _X_SELECTION),
        (sys.platform == "darwin", ("osascript", "-e", "the clipboard as «class PNGf»"), ("pbpaste",)),
    ]
    return [
        (picture, text)
        for is_here, picture, text in known
        if is_here and all(map(find_program, (picture[0], text[0])))
    ]


def _picture(command: Sequence[str]) -> bytes:
    output = _output(command)
    if command[0] != "osascript":
        return output
    found = _APPLE_PICTURE.search(output)
    return bytes.fromhex(found[1].decode()) if found else b""


def _output(command: Sequence[str]) -> bytes:
    """Nothing, if it has nothing of that kind."""
    with OwnedGroup(command, cwd=Path("/"), stderr=subprocess.DEVNULL) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise UsageError(f"{command[0]} took longer than {SECONDS:g} seconds") from None
    return out if process.returncode == 0 else b""


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


async def copy(context: CommandContext, text: str) -> str:
    """What can be said of it: no terminal tells whether it did."""
    said = text.encode(errors="replace")
    if not await asyncio.to_thread(_given_to_tmux, said):
        context.write(f"\x1b]52;c;{b64encode(said).decode()}\x07")
    return f"{len(text)} characters are in the clipboard, if the terminal lets us"


def _given_to_tmux(said: bytes) -> bool:
    """As it comes, tmux keeps from the terminal what a program in it has for the clipboard."""
    if not os.environ.get("TMUX"):
        return False
    try:
        ended = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"], input=said, capture_output=True, timeout=2, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
