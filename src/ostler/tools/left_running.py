"""What commands left in the background, such as a server started with `&`.

It may live as long as its session is open. Whoever closes the session calls `end_left_running`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ostler.tools.child_process import ChildProcess

_MEMORY_KEY = "ostler.tools.left_running"


def leave_running(memory: dict[str, Any], child: ChildProcess) -> None:
    """Keeps a command's background processes going after its call has ended."""
    child.keep_reading()
    kept: list[ChildProcess] = memory.setdefault(_MEMORY_KEY, [])
    ended = [other for other in kept if not other.left_running]
    for other in ended:
        other.close()
        kept.remove(other)
    kept.append(child)


async def end_left_running(memory: dict[str, Any]) -> None:
    """Ends all of them, with their groups."""
    kept: list[ChildProcess] = memory.pop(_MEMORY_KEY, [])
    await asyncio.gather(*(_end(child) for child in kept))


async def _end(child: ChildProcess) -> None:
    try:
        await child.end()
    finally:
        child.close()
