"""What calls left in the background, such as a server started with `&`, or an agent that waits for more.

It may live as long as its session is open. Whoever closes the session calls `end_left_running`.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ostler.tools.child_process import ChildProcess

_MEMORY_KEY = "ostler.tools.left_running"


class LeftRunning(Protocol):
    """Something that outlives its call."""

    @property
    def left_running(self) -> bool:
        """Whether there is still something to end."""
        ...

    async def end(self) -> None: ...

    def close(self) -> None:
        """Nothing of it runs any more."""


def leave_running(memory: dict[str, Any], child: ChildProcess) -> None:
    """Keeps a command's background processes going after its call has ended."""
    child.keep_reading()
    keep_running(memory, child)


def keep_running(memory: dict[str, Any], one: LeftRunning) -> None:
    """It is ended with the session."""
    kept: list[LeftRunning] = memory.setdefault(_MEMORY_KEY, [])
    ended = [other for other in kept if not other.left_running]
    for other in ended:
        other.close()
        kept.remove(other)
    kept.append(one)


async def end_left_running(memory: dict[str, Any]) -> None:
    """Ends all of them, with their groups."""
    kept: list[LeftRunning] = memory.pop(_MEMORY_KEY, [])
    await asyncio.gather(*(_end(one) for one in kept))


async def _end(one: LeftRunning) -> None:
    try:
        await one.end()
    finally:
        one.close()
