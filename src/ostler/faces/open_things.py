"""What an agent of the SDK has opened, and how it is closed."""

from __future__ import annotations

import asyncio
import threading
from functools import wraps
from typing import TYPE_CHECKING

from ostler.kernel.model import Model
from ostler.runs.model_choice import MakeModel
from ostler.runs.session import Session

if TYPE_CHECKING:  # an agent without a file needs no SQLite
    from ostler.log.sqlite import SqliteStore


class OpenThings:
    """What an agent has opened. Apart from the agent, so that it can be closed when the agent is gone."""

    def __init__(self) -> None:
        self.models: list[Model] = []
        self.store: SqliteStore | None = None
        self.session: Session | None = None
        self._runner: asyncio.Runner | None = None

    def keeping(self, make: MakeModel) -> MakeModel:
        """Makes models that are closed with the rest."""

        @wraps(make, assigned=(), updated=())
        def make_and_keep(name: str) -> Model:
            self.models.append(make(name))
            return self.models[-1]

        return make_and_keep

    def runner(self) -> asyncio.Runner:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    async def close(self) -> None:
        if self.session is not None:
            await self.session.close()
            self.session = None
        await self.close_store()
        for model in self.models:
            await model.aclose()

    async def close_store(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            from ostler.runs.shared_store import SHARED_STORES

            await SHARED_STORES.give_back(store)

    def close_at_last(self) -> None:
        """For agents that were used without an event loop: nobody else will close for them."""
        if self._runner is None:
            return
        if asyncio._get_running_loop() is None:
            self._close_in_own_loop(self._runner)
            return
        # The agent became garbage where another event loop is running. Not at the end of the program: Python
        # 3.12 starts no thread then.
        closing = threading.Thread(target=self._close_in_own_loop, args=(self._runner,))
        closing.start()
        closing.join()

    def _close_in_own_loop(self, runner: asyncio.Runner) -> None:
        runner.run(self.close())
        try:
            runner.close()
        except RuntimeError as error:
            # Nor does it start the thread with which asyncio ends others. They have ended by then.
            if "interpreter shutdown" not in str(error):
                raise
