"""Changing what is installed: one process at a time, in one step, and with nothing left of what failed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import msgspec

from ostler.extensions.installing.manifest import OWN_FOLDER, Manifest, Scope, read_manifest
from ostler.tools.atomic_write import write_atomically
from ostler.vocabulary.errors import ConfigurationError, OstlerError
from ostler.vocabulary.ids import new_id


class Changing:
    """A scope that nobody else changes meanwhile."""

    def __init__(self, scope: Scope, manifest: Manifest) -> None:
        self.scope = scope
        self.manifest = manifest

    def new_folder(self) -> Path:
        """An empty folder, which goes again unless `commit` names it."""
        folder = self.scope.packages / new_id("package").lower()
        try:
            folder.mkdir()
        except OSError as error:
            raise ConfigurationError(f"{folder} cannot be made: {error.strerror}") from None
        return folder

    def commit(self, manifest: Manifest) -> None:
        try:
            write_atomically(
                self.scope.file.resolve(),
                msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n",
            )
        except OSError as error:
            raise ConfigurationError(f"{self.scope.file} cannot be written: {error.strerror}") from None
        self.manifest = manifest

    def tidy(self) -> None:
        """Removes the folders that no row names."""
        named = {one.folder for one in self.manifest.packages}
        for one in self.scope.packages.iterdir():
            if OWN_FOLDER.fullmatch(one.name) and one.name not in named and not one.is_symlink():
                rmtree(one, ignore_errors=True)  # what is left is removed the next time


@contextmanager
def changing(scope: Scope) -> Iterator[Changing]:
    """The scope with its manifest, locked. Raises `OstlerError` when another process changes it."""
    for folder in (scope.root, scope.packages, scope.file):
        if scope.name == "project" and folder.is_symlink():
            raise ConfigurationError(f"{folder} is a link to elsewhere: nothing is installed through it")
    try:
        for folder in (scope.root, scope.packages):
            folder.mkdir(parents=True, exist_ok=True, mode=0o755 if scope.name == "project" else 0o700)
        lock = os.open(scope.packages, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"{scope.packages} cannot be used: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OstlerError(
                f"another `ostler ext` changes {scope.root} right now: try again when it is done"
            ) from None
        change = Changing(scope, read_manifest(scope))
        try:
            yield change
        finally:
            change.tidy()
    finally:
        os.close(lock)
