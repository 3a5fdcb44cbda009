"""The parts of an SDK `Agent`: its settings, the check of its options, and the resources that it opens."""

from __future__ import annotations

import asyncio
import threading
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from ostler.app.settings import Settings, load_settings
from ostler.app.stores import SHARED_STORES
from ostler.core.json_schema import schema_of
from ostler.core.model import Model, ReasoningLevel
from ostler.models.factory import MakeModel
from ostler.permissions.rules import PROFILES
from ostler.schema.errors import UsageError

if TYPE_CHECKING:
    from ostler.sessions.session import Session
    from ostler.store.sqlite import SqliteStore


class AgentResources:
    """The session, store and models that an agent has opened. Separate from the agent, so that they can be
    closed when the agent is garbage-collected."""

    def __init__(self) -> None:
        self.models: list[Model] = []
        self.store: SqliteStore | None = None
        self.session: Session | None = None
        self._runner: asyncio.Runner | None = None

    def closing(self, make: MakeModel) -> MakeModel:
        """Wraps a model factory so that its models are closed with the other resources."""

        @wraps(make, assigned=(), updated=())
        def make_and_add(name: str) -> Model:
            self.models.append(make(name))
            return self.models[-1]

        return make_and_add

    def open_store(self, path: Path) -> SqliteStore:
        self.store = SHARED_STORES.borrow(path)
        return self.store

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
            await SHARED_STORES.give_back(store)

    def close_at_last(self) -> None:
        """Closes what an agent opened in synchronous calls, when it is garbage-collected."""
        if self._runner is None:
            return
        if asyncio._get_running_loop() is None:
            self._close_in_own_loop(self._runner)
            return
        # The agent became garbage while another event loop runs. This is never the end of the program, when
        # Python 3.12 starts no thread.
        thread = threading.Thread(target=self._close_in_own_loop, args=(self._runner,))
        thread.start()
        thread.join()

    def _close_in_own_loop(self, runner: asyncio.Runner) -> None:
        runner.run(self.close())
        try:
            runner.close()
        except RuntimeError as error:
            # At the end of the program asyncio cannot start the thread that would join its others.
            if "interpreter shutdown" not in str(error):
                raise


def check_options(cwd: Path, permissions: str, reasoning: str | None, max_steps: int | None) -> None:
    """Checks option values at run time: an unknown permission profile must not pass for a known one."""
    if not cwd.is_dir():
        raise UsageError(f"there is no directory {cwd}")
    if permissions not in PROFILES:
        raise UsageError(f"permissions must be one of {', '.join(PROFILES)}, not {permissions!r}")
    if reasoning is not None and reasoning not in get_args(ReasoningLevel):
        raise UsageError(f"reasoning must be one of {', '.join(get_args(ReasoningLevel))}, not {reasoning!r}")
    if max_steps is not None and max_steps < 1:
        raise UsageError(f"max_steps must be at least 1, not {max_steps}")


def agent_settings(model: str, base_url: str, api_key: str, cwd: Path) -> Settings:
    """The settings of an agent. If the program names a model, the user's choice of one is ignored."""
    overrides = {"model": model or None, "base_url": base_url or None, "api_key": api_key or None}
    configured = load_settings(cwd, overrides).settings
    if not model:
        return configured
    names = ("providers", "models", "aliases", "context", "confine_harmless", "tool_limits")
    tables = {name: getattr(configured, name) for name in names}
    return Settings(model=model, base_url=base_url, api_key=api_key, **tables)


def answer_schema(answer: Any) -> dict[str, Any] | None:
    """The JSON Schema of an agent's `answer`."""
    if answer is None or isinstance(answer, dict):
        return answer
    if isinstance(answer, type) and issubclass(answer, msgspec.Struct):
        return schema_of(answer)
    raise UsageError(f"answer must be a msgspec.Struct type or a JSON Schema, not {answer!r:.60}")
