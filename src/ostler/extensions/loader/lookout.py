"""While there is no extension: somebody who notices the first one, and costs next to nothing until then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ostler.extensions.loader.finding import Search
from ostler.extensions.loader.watching import Watch
from ostler.kernel.harness import Attendant, Attended, Harness
from ostler.vocabulary.errors import NotFound

if TYPE_CHECKING:
    from ostler.extensions.host import ExtensionHost


class Lookout:
    """Goes along with sessions as a host would; when something appears, a host takes over."""

    def __init__(self, harness: Harness, search: Search, make_host: Callable[[], ExtensionHost]) -> None:
        self._harness = harness
        self._make_host = make_host
        self._sessions: dict[str, Attended] = {}
        self._host: Attendant | None = None
        """Also for children, whose harnesses know only us."""
        self._watch = Watch(lambda: search.places, self._take_over)

    def _take_over(self) -> None:
        host = self._make_host()
        self._watch.stop()
        host.equip(self._harness)
        for session in self._sessions.values():
            host.attend(session)
        self._host = host
        assert host.reloading is not None
        host.reloading.look_soon()

    def attend(self, session: Attended) -> None:
        if self._host:
            self._host.attend(session)
        self._sessions[session.id] = session

    async def before_step(self, session: Attended) -> None:
        if self._host:
            await self._host.before_step(session)
        else:
            self._watch.soon()

    async def come_to_rest(self, session: Attended) -> None:
        if self._host:
            await self._host.come_to_rest(session)
        else:
            self._watch.soon()

    async def leave(self, session: Attended) -> None:
        self._sessions.pop(session.id, None)
        if self._host:
            await self._host.leave(session)
        elif not self._sessions:
            self._watch.stop()

    async def run_command(self, session: Attended, name: str, arguments: str) -> str:
        if self._host:
            return await self._host.run_command(session, name, arguments)
        raise NotFound(f"there is no command {name!r} here: no extension is loaded")
