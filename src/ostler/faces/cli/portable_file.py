"""The file of an exported session: its name, reading it, and writing it whole or not at all."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from ostler.kernel.store import SessionSummary
from ostler.vocabulary.errors import UsageError

EXTENSION = ".jsonl"
EXTENSIONS = {"jsonl": EXTENSION, "markdown": ".md", "html": ".html"}
"""What files of each format are called."""

_SLUG_LENGTH = 40
_ID_LENGTH = 14


def format_of(name: str) -> str:
    """The format that a file's name asks for."""
    return next((one for one, extension in EXTENSIONS.items() if name.endswith(extension)), "jsonl")


def export_target(wanted: Path, summary: SessionSummary, extension: str) -> Path:
    """The file as it was named, with the extension; in a directory, a name that tells the session."""
    if wanted.is_dir():
        return wanted / (file_name(summary) + extension)
    if wanted.name.endswith(extension) or (wanted.exists() and not wanted.is_file()):
        return wanted
    return wanted.with_name(wanted.name + extension)


def file_name(summary: SessionSummary) -> str:
    day = datetime.fromtimestamp(summary.created_ms / 1000, UTC).strftime("%Y-%m-%d")
    slug = re.sub(r"[^a-z0-9]+", "-", (summary.title or summary.preview).lower())[:_SLUG_LENGTH].strip("-")
    return "-".join(part for part in (day, summary.id[:_ID_LENGTH], slug) if part)


@contextmanager
def writing(target: Path) -> Iterator[BinaryIO]:
    """A new file that only its owner can read. It gets its name when it is whole, and replaces no other."""
    if target.is_file():
        raise UsageError(f"{target} exists already; name another file, or remove it")
    is_new = not target.exists()
    path = target.with_name(f"{target.name}.part") if is_new else target
    try:
        with open(path, "wb", opener=_private) as file:
            yield file
        if is_new:
            path.rename(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None
    finally:
        if is_new:
            path.unlink(missing_ok=True)


@contextmanager
def reading(name: str) -> Iterator[BinaryIO]:
    """The file, or standard input for `-`."""
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
