"""A cancel token: one way to say stop, that reaches everything which was given the token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class CancelToken:
    """Cancelled once, for one reason. Callbacks run at once, in the order they were added."""

    def __init__(self) -> None:
        self.cancelled = False
        self.reason = ""
        self.request = ""
        """The request that asked for it, if one did."""
        self.is_limit = False
        """Nobody asked for it: time is up."""
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self, reason: str = "cancelled", request: str = "", *, is_limit: bool = False) -> None:
        if self.cancelled:
            return
        self.cancelled = True
        self.is_limit = is_limit
        self.reason = reason
        self.request = request
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` on cancellation (now, if it has happened). Returns how to take it back."""
        if self.cancelled:
            callback()
            return lambda: None
        self._callbacks.append(callback)

        def forget() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return forget

    async def wait(self) -> None:
        happened = asyncio.Event()
        forget = self.on_cancel(happened.set)
        try:
            await happened.wait()
        finally:
            forget()
