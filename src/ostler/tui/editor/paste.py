"""The clipboard in both directions, pictures for a prompt, and files dropped on the terminal."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

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
    """The picture in a file, by its bytes; None if models cannot read it. Slow: not for the event loop."""
    with suppress(OSError, UsageError):
        if path.is_file():  # opening a pipe or a device might block
            with path.open("rb") as file:
                head = file.read(SNIFFED)
                if image_type(head):
                    return picture_from(head + file.read(MAX_SCALED_IMAGE))
    return None


def picture_from(content: bytes) -> Picture:
    """A picture, scaled down if needed. Raises `UsageError` if models cannot read it. Slow, too."""
    media_type = image_type(content)
    if media_type is None:
        raise UsageError("models cannot read this image: use PNG, JPEG, GIF or WebP")
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
        limit = f"providers accept at most {size_text(MAX_IMAGE)}"
        raise UsageError(f"the image has {size_text(len(content))}, and {limit}: make a smaller copy")
    return Picture(Image(media_type, data=b64encode(content).decode()), about)


SECONDS = 5.0
_X_SELECTION = ("xclip", "-selection", "clipboard", "-o")
_APPLE_PICTURE = re.compile(rb"PNGf([0-9A-Fa-f]+)")


def clipboard() -> Picture | str:
    """The picture or the text in the clipboard. Raises `UsageError` if there is neither, or no program to
    read it. Starts programs: not for the event loop."""
    readers = _readers()
    if not readers:
        advice = "install wl-clipboard or xclip, or use the terminal's own paste"
        raise UsageError(f"no program can read the clipboard: {advice}")
    for read_picture, read_text in readers:
        if picture := _picture(read_picture):
            return picture_from(picture)
        if text := _output(read_text).decode(errors="replace"):
            return text
    raise UsageError("the clipboard has neither an image nor text")


def _readers() -> list[tuple[Sequence[str], Sequence[str]]]:
    """Commands that print a picture and a text."""
    readers: list[tuple[Sequence[str], Sequence[str]]] = []
    if "WAYLAND_DISPLAY" in os.environ:
        text_command = ("wl-paste", "--no-newline", "--type", "text")
        readers.append((("wl-paste", "--type", "image/png"), text_command))
    if "DISPLAY" in os.environ:
        readers.append(((*_X_SELECTION, "-t", "image/png"), _X_SELECTION))
    if sys.platform == "darwin":
        readers.append((("osascript", "-e", "the clipboard as «class PNGf»"), ("pbpaste",)))
    return [one for one in readers if all(find_program(command[0]) for command in one)]


def _picture(command: Sequence[str]) -> bytes:
    output = _output(command)
    if command[0] != "osascript":
        return output
    match = _APPLE_PICTURE.search(output)
    return bytes.fromhex(match[1].decode()) if match else b""


def _output(command: Sequence[str]) -> bytes:
    """The output of a command; empty if it fails."""
    with OwnedGroup(command, cwd=Path("/"), stderr=subprocess.DEVNULL) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise UsageError(f"{command[0]} took longer than {SECONDS:g} seconds") from None
    return out if process.returncode == 0 else b""


MOST_LETTERS = 32 * 1024
"""A longer paste is never a drop."""

_BEGINS = ("/", "~", "file://")
_MEANS_SOMETHING = re.compile(r"[|&;<>$`*?\n]")
"""Special to a shell: such a paste is no file."""

_PIECE = re.compile(
    r"""
      '([^']*)'                         # no special characters in here
    | "((?:[^"\\$`]|\\.)*)"
    | \\(.)
    | ([^\s'"\\|&;<>()$`*?\[\]{}]+)
    """,
    re.VERBOSE,
)

_ESCAPED_IN_QUOTES = re.compile(r'\\(["\\$`])')


def may_be_dropped(pasted: str) -> bool:
    """Whether it looks like a drop, without reading files."""
    text = pasted.strip()
    return len(text) <= MOST_LETTERS and text.startswith((*_BEGINS, "'", '"', "\\"))


def dropped_paths(pasted: str) -> tuple[Path, ...]:
    """The paths of a paste, if it has nothing else and all of them exist."""
    if not may_be_dropped(pasted):
        return ()
    text = pasted.strip()
    # The whole text first: some terminals quote nothing, not even spaces.
    if not _MEANS_SOMETHING.search(text) and (path := _existing(text)):
        return (path,)
    words = text.split()
    if not all(word.startswith("file://") for word in words):  # of a file manager
        words = _words(text)
    paths = [path for word in words if (path := _existing(word))]
    return tuple(paths) if words and len(paths) == len(words) else ()


def insertion(pasted: str, before: str, cwd: Path) -> tuple[str | Picture, ...]:
    """The pieces that a drop inserts after `before`; empty if it is none.

    A picture becomes a chip, any other file a mention. In a line that begins with `!` or `/` they are paths,
    quoted for the shell or command. Reads files: not for the event loop.
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
            return shlex.quote(str(path))
        case "/":
            return re.sub(r"([\s\"'\\])", r"\\\1", str(path))
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
        host, slash, path_bytes = word.removeprefix("file://").partition("/")
        word = os.fsdecode(unquote_to_bytes(slash + path_bytes)) if host in ("", "localhost") else ""
    if not word.startswith(("/", "~")) or word.rstrip("/") in ("", "~"):
        return None
    try:
        path = Path(word).expanduser()
        return path if path.is_absolute() and path.exists() else None
    except (OSError, RuntimeError):  # the name is too long, or the home is unknown
        return None


def _words(text: str) -> list[str]:
    """The words of a shell line; empty if one has a special meaning."""
    words = [] if "\n" in text else [""]
    at = 0
    while words and at < len(text):
        if text[at].isspace():
            words.append("")
            at += 1
        elif piece := _PIECE.match(text, at):
            single, double, escaped, plain = piece.groups()
            if double is not None:
                double = _ESCAPED_IN_QUOTES.sub(r"\1", double)
            words[-1] += next(one for one in (single, double, escaped, plain) if one is not None)
            at = piece.end()
        else:
            return []
    return [word for word in words if word]


async def copy(context: CommandContext, text: str) -> str:
    """Copies a text through the terminal, also over SSH. Returns a message; no terminal confirms."""
    encoded = text.encode(errors="replace")
    if not await asyncio.to_thread(_copy_to_tmux, encoded):
        context.write(f"\x1b]52;c;{b64encode(encoded).decode()}\x07")
    return f"copied {len(text)} characters, if the terminal allows it"


def _copy_to_tmux(encoded: bytes) -> bool:
    """Copies through tmux, which by default hides clipboard sequences from the terminal."""
    if not os.environ.get("TMUX"):
        return False
    try:
        ended = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"], input=encoded, capture_output=True, timeout=2, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
