"""What a face can ask of another vendor's agent, however it is driven."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol

from ostler.terminals.conversation import ScreenMessage
from ostler.terminals.tracker import Saved, Status

Transport = Literal["pty", "acp", "stream-json"]


class Observer(Protocol):
    """Told at once, on the event loop; it must neither wait nor raise."""

    def changed(self) -> None:
        """Status, messages or screen may be others now."""
        ...

    def warned(self, problem: str) -> None:
        """Something went wrong that nobody is waiting to hear."""
        ...


class DrivenAgent(Protocol):
    """A session whose agent is another vendor's: the one writer of its log, from its start to its end."""

    @property
    def id(self) -> str: ...

    @property
    def agent_type(self) -> str: ...

    @property
    def transport(self) -> Transport: ...

    @property
    def status(self) -> Status:
        """`stable`: it waits for the next message. What it said last is a fact by then."""
        ...

    @property
    def messages(self) -> tuple[ScreenMessage, ...]:
        """The whole conversation. Only the last message changes, and only while it is the agent's."""
        ...

    @property
    def shown(self) -> str:
        """Its screen as text, each row padded; of an agent without a screen, what it says at present."""
        ...

    @property
    def ended(self) -> asyncio.Future[int]:
        """Done when nothing of it is left to do: the agent's exit status."""
        ...

    @property
    def last_screen(self) -> str:
        """What it showed at its end, for whoever asks why."""
        ...

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Until the function that is returned is called."""
        ...

    def to_save(self) -> Saved:
        """What a later life of the agent can be given."""
        ...

    async def send(self, text: str, *, request: str = "") -> None:
        """Says something to it, now or not at all; returns when it was taken.

        Raises `SessionBusy` or `UsageError` at once, and `OstlerError` when the agent does not react.
        """
        ...

    def press(self, keys: bytes) -> None:
        """Keys as a keyboard sends them, at any time. They are never stored. Raises `SessionBusy`."""
        ...

    def interrupt(self, request: str = "") -> bool:
        """Makes it stop what it does; False when that was asked for before."""
        ...

    async def close(self) -> None:
        """Ends the agent, and the session with it."""
        ...
