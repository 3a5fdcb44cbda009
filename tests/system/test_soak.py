"""A long session: memory and files stay in proportion to the messages."""

from __future__ import annotations

import gc
import resource
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.core.model import ModelEvent, ModelRequest
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session, open_session
from ostler.store.invariants import violations
from ostler.store.sqlite import SqliteStore

pytestmark = pytest.mark.long

STEPS = 5_000


class Tireless:
    """Calls a tool for so many steps, then ends. It keeps no requests, unlike the scripted model."""

    name = "tireless/model"

    def __init__(self) -> None:
        self.step = 0
        self.resident_kib: dict[int, int] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        self.step += 1
        if self.step % 1000 == 0:
            gc.collect()
            self.resident_kib[self.step] = resident_kib()
        turn = Turn("done") if self.step > STEPS else Turn("next", (Call("note", {"number": self.step}),))
        async for batch in ScriptedModel([turn]).stream(request):
            yield batch

    async def aclose(self) -> None:
        pass


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


@tool
async def note(number: int) -> str:
    """Takes a note."""
    return f"noted {number}"


async def test_memory_and_files_grow_only_with_the_messages(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ostler.db")
    model = Tireless()
    harness = Harness(model)
    harness.set_tools([note])
    session = await create_session(store, harness)
    ended = await session.prompt(as_content("go"))
    assert getattr(ended, "status", None) == "completed"
    wal = tmp_path / "ostler.db-wal"
    assert wal.stat().st_size < 32 * 2**20
    growth = model.resident_kib[STEPS] - model.resident_kib[1000]
    assert growth / (STEPS - 1000) < 12, f"{growth} KiB in {STEPS - 1000} steps"
    await session.close()
    again = await open_session(store, session.id, harness)
    assert again.state.snapshot() == session.state.snapshot()
    assert violations(await store.read(session.id)) == []
    await store.close()
