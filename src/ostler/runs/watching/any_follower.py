"""What every follower is: bytes as they come, signs of life, and an end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator


class AnyFollower(ABC):
    """Whoever has one must `leave`, also if it never read."""

    def __init__(self) -> None:
        self._is_closed = False
        self._is_due = False
        """A sign of life, because nothing was sent for a while."""
        self._woken: asyncio.Future[None] | None = None

    @abstractmethod
    async def next(self) -> bytes | None:
        """Empty bytes when it is time for a sign of life; None at the end."""

    @abstractmethod
    def leave(self) -> None: ...

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """To its end, or until the reader leaves."""
        try:
            while (data := await self.next()) is not None:
                yield data
        finally:
            self.leave()

    def keep_alive(self) -> None:
        self._is_due = True
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _until_woken(self) -> None:
        self._woken = asyncio.get_running_loop().create_future()
        await self._woken
