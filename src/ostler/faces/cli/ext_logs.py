"""`ostler ext logs`: what an extension in another language has said on standard error."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from ostler.faces.cli.columns import printable
from ostler.runs.home import state_folder
from ostler.vocabulary.errors import NotFound

PAUSE = 0.2
"""Seconds between two looks at a file that is followed."""


def show_log(name: str, *, follow: bool) -> None:
    path = state_folder() / "logs" / f"extension-{name}.log"
    if not follow and not path.is_file():
        raise NotFound(f"no extension {name!r} has said anything; only those in other languages keep a log")
    shown = (0, 0)
    while True:
        shown = _show_from(path, *shown)
        if not follow:
            return
        time.sleep(PAUSE)


def _show_from(path: Path, file_id: int, place: int) -> tuple[int, int]:
    """Prints what was added since; returns which file that was, and where it ends."""
    try:
        with path.open("rb") as file:
            present = os.fstat(file.fileno()).st_ino
            file.seek(place if present == file_id else 0)  # a large log is put aside, and begun anew
            content = file.read()
            end = file.tell()
    except FileNotFoundError:
        return file_id, place
    sys.stdout.write(printable(content.decode(errors="replace")))
    sys.stdout.flush()
    return present, end
