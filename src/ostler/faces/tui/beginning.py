"""What a new session begins with, in a line: instruction files, skills and extensions that were found."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.kernel.user_paths import below_home

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui
    from ostler.runs.settings import Settings


async def say_what_was_found(tui: Tui, settings: Settings) -> None:
    """Nothing, where nothing was. The first frame does not wait for it."""
    await tui.app.is_seen.wait()
    conversation = tui.conversation
    if conversation.host is not None and (session := conversation.host.sessions.get(conversation.session.id)):
        await session.catch_up()  # one of them may not want it to be seen
    if tui.extensions.visibility.hide_startup:
        return
    found = await asyncio.to_thread(_found, conversation.harness.cwd, settings.instructions)
    if settings.system:
        found.insert(0, "your own system prompt")
    if conversation.host is not None and (loaded := [one.name for one in conversation.host.loaded]):
        found.append(f"{_counted(len(loaded), 'extension')}: {', '.join(loaded)}")
    if found:
        tui.say(f"with {' · '.join(found)}")


def _found(cwd: Path, instructions: bool) -> list[str]:
    from ostler.runs.guidance import instructions_in, skills_in

    sources = instructions_in(cwd).sources if instructions else ()
    found = [_place(Path(one.path), cwd.resolve()) for one in sources]
    if skills := len(skills_in(cwd).found):
        found.append(_counted(skills, "skill"))
    return found


def _place(path: Path, cwd: Path) -> str:
    """As short as it can be said."""
    if path.is_relative_to(cwd):
        return str(path.relative_to(cwd))
    return below_home(path) or os.path.relpath(path, cwd)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
