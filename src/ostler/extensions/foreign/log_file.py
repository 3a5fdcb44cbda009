"""The log of one extension: its standard error, and what went wrong between it and us."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

MAX_LOG_BYTES = 1024 * 1024
"""A file that has grown so large becomes the previous one; of those one is kept."""


class ExtensionLog:
    """Appends to a file that stays small. That it cannot be written never stops an extension."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def write(self, piece: bytes) -> None:
        with suppress(OSError):
            size = os.fstat(self._opened()).st_size
            if size and size + len(piece) > MAX_LOG_BYTES:
                self.close()
                self.path.replace(self.path.with_suffix(".log.1"))
            os.write(self._opened(), piece)

    def note(self, text: str, level: str = "ostler") -> None:
        """A line of its own, with the time."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.write(f"{moment} [{level}] {' '.join(text.splitlines())}\n".encode(errors="replace"))

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _opened(self) -> int:
        if self._file < 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._file
