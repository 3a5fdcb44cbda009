"""Hot reload: a host's extensions follow their files, without a gap and without touching a step under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ostler.extensions.loader.assembling import Assembly, Versions
from ostler.extensions.loader.watching import Watch
from ostler.kernel.harness import Attended
from ostler.runs.home import trust_file
from ostler.vocabulary.errors import OstlerError

if TYPE_CHECKING:
    from ostler.extensions.attending import Attending
    from ostler.extensions.host import ExtensionHost


class Reloading:
    """New versions are loaded in the background. They take the place of the old ones at once while no run is
    under way, and before the next step while one is."""

    def __init__(self, host: ExtensionHost, assembly: Assembly, versions: Versions) -> None:
        self._host = host
        self._assembly = assembly
        self._running = versions
        self._next: Versions | None = None
        """Loaded, and waiting for a step to begin."""
        self._loading = asyncio.Lock()
        self._look: asyncio.Future[None] | None = None
        self._is_stale = False
        self._swapping: asyncio.Future[None] | None = None
        self._watch = Watch(self._places, self.look_soon)

    # --- what the host hears of sessions --------------------------------------------------------------

    async def before_step(self) -> None:
        self._watch.soon()
        await self._swap()

    async def come_to_rest(self, session: Attended) -> None:
        self._watch.soon()
        if not any(one.session.is_running for one in self._others(session)):
            await self._swap()

    async def stop(self) -> None:
        """No session is open any more. What was not put to use is looked at again when there is one."""
        self._watch.stop()
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait({self._look})
        if self._next is not None:
            unused, self._next = self._next, None
            for one in unused.values():
                if one not in self._running.values():
                    await one.forget()

    def _others(self, session: Attended) -> list[Attending]:
        return [one for one in self._host.sessions.values() if one.session is not session]

    # --- looking --------------------------------------------------------------------------------------

    def look_soon(self) -> None:
        """Something has changed."""
        if self._look is not None:
            self._is_stale = True
            return
        self._look = asyncio.ensure_future(self._keep_looking())

    async def _keep_looking(self) -> None:
        try:
            self._is_stale = True
            while self._is_stale:
                self._is_stale = False
                await self._load()
                await self._swap_if_idle()
        except (OstlerError, OSError) as error:
            self._host.warn(f"the extensions cannot be looked at: {error}")
        finally:
            self._look = None

    async def reload(self) -> asyncio.Future[None]:
        """Loads everything anew. What it returns is done when that runs, if no run is under way."""
        await self._load(anew=True)
        self._swapping = asyncio.ensure_future(self._swap_if_idle())
        return self._swapping

    async def _load(self, *, anew: bool = False) -> None:
        async with self._loading:
            before = self._next or self._running
            versions = await self._assembly.renew(before, anew=anew)
            kept = (*versions.values(), *self._running.values())
            for one in before.values():
                if one not in kept:  # replaced before it ever ran
                    await one.forget()
            if list(versions.values()) != list(self._running.values()):
                self._next = versions
            elif self._next is not None:
                self._next = None  # what was changed is as it was

    # --- swapping -------------------------------------------------------------------------------------

    async def _swap_if_idle(self) -> None:
        if not any(one.session.is_running for one in self._host.sessions.values()):
            await self._swap()

    async def _swap(self) -> None:
        if self._next is None:
            return
        versions, self._next = self._next, None
        gone = [one for one in self._running.values() if one not in versions.values()]
        self._running = versions
        await self._host.replace([one.extension for one in versions.values()])
        for one in gone:
            await one.forget()

    def _places(self) -> Sequence[Path]:
        """Where a change may mean another version."""
        search = self._assembly.search
        own = [path for one in (self._next or self._running).values() for path in one.places]
        return list(dict.fromkeys((*search.places, *search.configured, *search.named, *own, trust_file())))
