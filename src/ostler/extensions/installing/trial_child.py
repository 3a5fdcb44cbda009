"""The process that `trial` starts: loads what it is told to, and says how each went. Run it with `python -m`.

What an extension prints goes nowhere: standard output is moved out of its reach first. The process ends, with
all that extensions started in it, when its owner does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

import msgspec

from ostler.extensions.installing.trial import Subject, Tried
from ostler.extensions.loader.code_files import CodeFiles
from ostler.extensions.loader.loading import Version
from ostler.extensions.loader.trusting import ToTrust


def main() -> None:
    order, results = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    sys.dont_write_bytecode = True
    owner = os.fdopen(order, "rb", buffering=0)
    subjects = msgspec.json.decode(owner.readline(), type=tuple[Subject, ...])
    threading.Thread(target=_end_with, args=(order,), daemon=True).start()
    for one in subjects:
        result = asyncio.run(_tried(one))
        os.write(results, msgspec.json.encode(result) + b"\n")
    os._exit(0)  # threads of extensions may still run


def _end_with(owner: int) -> None:
    os.read(owner, 1)
    os.killpg(os.getpid(), signal.SIGKILL)


async def _tried(subject: Subject) -> Tried:
    found = subject.found()
    version = Version(found, ToTrust(found).code if found.project else CodeFiles(found))
    await version.load()
    extension, registered = version.extension, version.extension.registered
    await version.forget()
    return Tried(
        extension.name,
        extension.standing,
        extension.problem,
        extension.version,
        tools=tuple(registered.tools),
        commands=tuple(registered.commands),
        fences=tuple(registered.fences),
        hooks=tuple(dict.fromkeys(one.point for one in registered.hooks)),
        events=extension.events,
    )


if __name__ == "__main__":
    main()
