"""Writing a prompt in an editor of one's own: `$VISUAL`, then `$EDITOR`, then what there is."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ostler.tools.programs import find_program
from ostler.tools.truncation import without_surrogates
from ostler.vocabulary.errors import UsageError

_USUAL = ("nano", "vi")


def editor_command() -> list[str]:
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"the editor {named!r} cannot be understood: {error}") from None
    words = words or [name for name in _USUAL if find_program(name)][:1]
    if not words:
        raise UsageError("there is no editor: set VISUAL or EDITOR to one")
    return words


def edited(text: str, command: list[str], cwd: Path) -> str:
    """What the editor makes of a text. It has the terminal meanwhile: not for the event loop.

    Raises `UsageError` when it cannot be started, or says that it failed.
    """
    with TemporaryDirectory(prefix="ostler-") as folder:
        file = Path(folder, "prompt.md")
        file.write_text(without_surrogates(text), encoding="utf-8")
        try:
            code = subprocess.run([*command, str(file)], cwd=cwd, check=False).returncode
            written = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"{command[0]} cannot be used: {error.strerror}") from None
    if code:
        raise UsageError(f"{command[0]} ended with {code}: the line is as it was")
    return written.removesuffix("\n")


@contextmanager
def interrupts_for_editor() -> Iterator[None]:
    """Ctrl+C is the editor's affair while it runs: it reaches us too. Only in the main thread."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
