"""Instruction files of folders below: told when work first touches something there.

They are told with the result of the call that touched it. So they are in the log: a session that is opened
again knows which were told, and a child, which has a session of its own, is told for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from ostler.context.instructions import Source, instructions_for
from ostler.kernel.hooks import FinishedCall, Hook
from ostler.runs.permission_memory import project_folder
from ostler.tools.paths import shown
from ostler.vocabulary.messages import Text

TOLD = "instructions"
"""In a result's details: the files that were told with it, each with its digest."""


def nested_instructions(cwd: Path, say: Callable[[str], None] = lambda text: None) -> Hook:
    """A hook for work in `cwd`. It heeds the path that a result's details name.

    `say` tells a person what is wrong with a file, once.
    """
    cwd = cwd.resolve()
    root = project_folder(cwd)
    said: set[str] = set()

    def tell(finished: FinishedCall) -> FinishedCall | None:
        details = finished.details or {}
        path = details.get("path")
        if finished.failed or not isinstance(path, str):
            return None
        found = instructions_for(cwd / path, cwd, root, finished.instructions)
        for problem in found.problems:
            if problem not in said:
                said.add(problem)
                say(problem)
        if not found.sources:
            return None
        told = {shown(Path(source.path), cwd): source for source in found.sources}
        blocks = tuple(_block(name, source) for name, source in told.items())
        named = {name: source.digest for name, source in told.items()}
        return msgspec.structs.replace(
            finished, content=(*finished.content, *blocks), details={**details, TOLD: named}
        )

    return Hook("after_tool", tell, name="nested instructions")


def _block(name: str, source: Source) -> Text:
    return Text(f"# Instructions from {name}, for everything in {Path(name).parent}\n\n{source.text}")
