"""A session far longer than its window: it stays within, forgets no instruction, and needs no more memory."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ostler.app.harness import build_harness
from ostler.app.settings import Settings
from ostler.context.compaction import SYSTEM as WRITES_SUMMARY
from ostler.context.tokenizers import RoutedTokenizer
from ostler.core.function_tool import tool
from ostler.core.model import ModelEvent, ModelRequest
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema.events import Compacted, Event, ModelCalled, RunEnded
from ostler.schema.facts import Fact
from ostler.schema.messages import Message, as_content
from ostler.schema.usage import Usage
from ostler.sessions.session import create_session
from ostler.store.sqlite import SqliteStore
from tests.system.test_soak import resident_kib

pytestmark = pytest.mark.long

RUNS, STEPS = 50, 100
WINDOW, RESERVE = 32_000, 4_000
RULE = "Never plant mint beside parsley."


class Gardener:
    """Works until a run is over. Its vendor counts more than we do, and from the middle on not at all."""

    name = "gardener/model"

    def __init__(self) -> None:
        self.step = 0
        self.most = 0
        self.requests_without_rule = 0
        self.resident_kib: dict[int, int] = {}
        self._tokenizer = RoutedTokenizer()
        self._counted: dict[int, tuple[Message, int]] = {}

    async def stream(self, request: ModelRequest) -> AsyncIterator[Sequence[ModelEvent]]:
        if request.system == WRITES_SUMMARY:
            turn = Turn(f"Task: garden. Done: {self.step} beds. Next: the others.")
        else:
            turn = self._work(request)
        async for batch in ScriptedModel([turn]).stream(request):
            yield batch

    def _work(self, request: ModelRequest) -> Turn:
        self.step += 1
        tokens = self._count(request)
        self.most = max(self.most, tokens)
        self.requests_without_rule += RULE not in request.system
        if self.step % 500 == 0:
            gc.collect()
            self.resident_kib[self.step] = resident_kib()
        is_counted = self.step < RUNS * STEPS // 2
        usage = (
            Usage(input_tokens=tokens * 11 // 10, output_tokens=40) if is_counted else Usage(source="unknown")
        )
        if self.step % STEPS == 0:
            return Turn("This bed is done.", usage=usage)
        return Turn("next", (Call("dig", {"bed": self.step}),), usage=usage)

    def _count(self, request: ModelRequest) -> int:
        counts = self._counted
        self._counted = {
            id(one): counts.get(id(one)) or (one, self._tokenizer.message(one, self.name).tokens)
            for one in (*request.transcript, *request.tail)
        }
        fixed = self._tokenizer.text(request.system, self.name)
        fixed += self._tokenizer.tools(request.tools, self.name)
        return fixed.tokens + sum(tokens for _, tokens in self._counted.values())

    async def aclose(self) -> None:
        pass


@tool
async def dig(bed: int) -> str:
    """Digs."""
    return f"Bed {bed}: " + "earth, stones and roots; " * 120


async def test_a_session_can_continue_within_its_window_forever(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(f"{RULE}\n")
    policy = {"window": {"tokens": WINDOW, "reserve": RESERVE}}
    gardener = Gardener()
    harness = build_harness(Settings(model="demo", permissions="full", context=policy), tmp_path)
    harness.model = gardener
    harness.set_tools([*harness.tools.values(), dig])
    store = SqliteStore(tmp_path / "ostler.db")
    session = await create_session(store, harness)
    used: list[int] = []
    compactions: list[Compacted] = []

    def observe(batch: Sequence[Fact | Event]) -> None:
        for item in batch:
            event: Any = item.event if isinstance(item, Fact) else item
            if isinstance(event, ModelCalled) and event.purpose == "step":
                used.append(event.trace["tokens"]["all"])
            elif isinstance(event, Compacted):
                compactions.append(event)

    session.subscribe(observe)
    for bed in range(RUNS):
        ended = await session.prompt(as_content(f"Dig bed {bed}."))
        assert isinstance(ended, RunEnded) and ended.status == "completed", ended
    assert gardener.step == len(used) == RUNS * STEPS
    assert max(used) <= WINDOW - RESERVE
    assert gardener.most <= WINDOW - RESERVE
    assert not gardener.requests_without_rule
    assert len(compactions) > RUNS
    assert all(one.tokens_after < one.tokens_before for one in compactions)
    at_first, at_last = gardener.resident_kib[1000], gardener.resident_kib[RUNS * STEPS]
    assert at_last - at_first < 6 * 1024, gardener.resident_kib
    await session.close()
    await store.close()
