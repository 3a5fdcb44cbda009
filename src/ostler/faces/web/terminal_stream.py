"""The live bytes of a terminal, as server-sent events.

    event: size
    data: {"columns":80,"rows":1000}

    event: bytes
    data: G1tIaGVsbG8=

    event: end
    data: {"exit_status":0}

`size` comes first and after each resize. `bytes` are base64, for a terminal of that size; the first ones draw
the screen as it is, those that begin with `ESC c` draw it anew. `end` says that the agent has ended: a stream
that ends without it can be opened again. A line with `:` is a sign of life.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING

from ostler.faces.web.sse import EventStream
from ostler.runs.watching.any_follower import AnyFollower

if TYPE_CHECKING:  # loaded when an agent is started
    from ostler.terminals.agent_session import TerminalSession


class TerminalStreams:
    """All that are open in this process: they are kept alive, and end, together."""

    def __init__(self) -> None:
        self._open: set[TerminalFollower] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def follow(self, session: TerminalSession) -> TerminalFollower:
        follower = TerminalFollower(session, self._open.discard)
        self._open.add(follower)
        if self._is_closed:
            follower.close()
        return follower

    def keep_alive(self) -> None:
        for follower in self._open:
            follower.keep_alive()

    def close(self) -> None:
        """All of them end at once, and no new one begins."""
        self._is_closed = True
        for follower in self._open:
            follower.close()


def terminal_stream(session: TerminalSession, streams: TerminalStreams) -> EventStream:
    """The answer to whoever wants to watch. `streams` are those of the server: `server.terminal_streams`.

    It ends with the agent, and with the server. It is an ASGI application, and can be returned by a function
    that Starlette calls for a route.
    """
    return EventStream(streams.follow(session))


class TerminalFollower(AnyFollower):
    """One who watches. Whoever reads slowly gets the screen anew."""

    def __init__(self, session: TerminalSession, leave: Callable[[TerminalFollower], None]) -> None:
        super().__init__()
        self._session = session
        self._screen = session.terminal.screen
        self._viewer = session.view()
        self._size = (0, 0)
        self._has_ended = False
        self._leave = leave

    async def next(self) -> bytes | None:
        if self._is_closed or self._has_ended:
            return None
        seen = await self._viewer.next()
        if self._is_closed:
            return None
        if seen is None:
            self._has_ended = True
            return b'event: end\ndata: {"exit_status":%d}\n\n' % self._exit_status()
        frame = b"event: bytes\ndata: %b\n\n" % b64encode(seen) if seen else b""
        if self._size == (size := (self._screen.columns, self._screen.rows)):
            return frame
        self._size = size
        return b'event: size\ndata: {"columns":%d,"rows":%d}\n\n' % size + frame

    def _exit_status(self) -> int:
        return self._session.terminal.process.ended.result()

    def keep_alive(self) -> None:
        self._viewer.put(b"")

    def close(self) -> None:
        super().close()
        self._viewer.close()

    def leave(self) -> None:
        self._viewer.leave()
        self._leave(self)
