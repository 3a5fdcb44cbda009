"""The clipboard, by the program that this desktop has for it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ostler.faces.tui.editor.pictures import Picture, picture_from
from ostler.vocabulary.errors import UsageError

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
    from ostler.tools.programs import find_program

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
    from subprocess import DEVNULL, TimeoutExpired

    from ostler.extensions.installing.bounded_program import OwnGroup

    with OwnGroup(command, cwd=Path("/"), stderr=DEVNULL) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        except TimeoutExpired:
            raise UsageError(f"{command[0]} took longer than {SECONDS:g} seconds") from None
    return out if process.returncode == 0 else b""
