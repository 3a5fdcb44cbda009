"""Loads extensions in another process, within a time limit, and reports what they register.

Whatever an extension does to that process, from an endless loop to a crash, becomes a line of text. The
process is this module, run with `python -m`. It discards what extensions print, and ends when its parent
does, with all processes that extensions started in it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from ostler.core.processes import OwnedGroup
from ostler.extensions.extension import ExtensionSummary, summary_of
from ostler.extensions.loader.code_files import CodeFiles, ProjectExtension
from ostler.extensions.loader.discovery import DiscoveredExtension
from ostler.extensions.loader.module_loader import LoadedVersion

SECONDS = 20.0
"""The time limit of one extension."""
GRACE = 5.0


def try_loading(
    extensions: Sequence[DiscoveredExtension], cwd: Path | None = None, seconds: float = SECONDS
) -> list[ExtensionSummary]:
    """Loads extensions one after the other; starts another process when one ends."""
    command = [sys.executable, "-P", "-m", "ostler.extensions.install.trial"]
    start = partial(OwnedGroup, command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    results: list[ExtensionSummary] = []
    while len(results) < len(extensions):
        with start(cwd=cwd or Path.cwd()) as process:
            child = _Child(process)
            results += child.results(extensions[len(results) :], seconds)
            if len(results) < len(extensions):
                one, problem = extensions[len(results)], child.problem(seconds)
                failed = ExtensionSummary(one.name, one.origin, str(one.path), "", "failed", problem=problem)
                results.append(failed)
    return results


class _Child:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._has_time = True
        self._buffer = b""

    def results(
        self, extensions: Sequence[DiscoveredExtension], seconds: float
    ) -> Iterable[ExtensionSummary]:
        """Yields results until there are all, or no more come."""
        assert self._process.stdin
        try:
            self._process.stdin.write(msgspec.json.encode(extensions, enc_hook=str) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return
        for _ in extensions:
            try:
                yield msgspec.json.decode(self._line(time.monotonic() + seconds), type=ExtensionSummary)
            except msgspec.DecodeError:
                return

    def _line(self, deadline: float) -> bytes:
        """The next line; empty if the process has ended, or takes too long."""
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                self._has_time = False
                return b""
            piece = os.read(descriptor, 65536)
            if not piece:
                return b""
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def problem(self, seconds: float) -> str:
        """Why no result came."""
        if not self._has_time:
            return f"it was not loaded within {seconds:g} seconds"
        try:
            code = self._process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            return "it wrote to the pipe of the process that loads it"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name} during loading"
        return f"it ended its process with exit code {code} during loading"


def main() -> None:
    order, results = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    sys.dont_write_bytecode = True
    owner = os.fdopen(order, "rb", buffering=0)
    decoder = msgspec.json.Decoder(list[DiscoveredExtension], dec_hook=lambda kind, text: kind(text))
    extensions = decoder.decode(owner.readline())
    threading.Thread(target=_end_with, args=(order,), daemon=True).start()
    for one in extensions:
        os.write(results, msgspec.json.encode(asyncio.run(_load(one))) + b"\n")
    os._exit(0)  # threads of extensions may still run


def _end_with(owner: int) -> None:
    os.read(owner, 1)
    os.killpg(os.getpid(), signal.SIGKILL)


async def _load(extension: DiscoveredExtension) -> ExtensionSummary:
    files = ProjectExtension(extension).code if extension.project else CodeFiles(extension)
    version = LoadedVersion(extension, files)
    await version.load()
    summary = summary_of(version.extension)
    await version.forget()
    return summary


if __name__ == "__main__":
    main()
