"""One gate a key: fifty agents do not turn one refusal into a storm."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from typing import Any

import pytest

from ostler.core.harness import Harness
from ostler.core.model import ModelDone
from ostler.models.factory import make_model
from ostler.models.rate_gate import LONGEST_WAIT, RateGate, gate_of
from ostler.schema.errors import RateLimited
from ostler.schema.events import Warned
from ostler.schema.messages import as_content
from ostler.sessions.session import create_session
from ostler.store.memory import MemoryStore
from ostler.testkit.vendors import FakeVendor, turn
from ostler.testkit.vendors.script import Refusal, Turn
from tests.models.wires.wire_cases import KEY, answer_of, request_of

AGENTS = 50


async def test_fifty_agents_make_no_storm_of_a_refusal() -> None:
    """The vendor refuses its first request and three more; each time only one agent asks again."""
    asked = Counter[str]()

    def script(request: dict[str, Any]) -> Turn | Refusal:
        asked["all"] += 1
        if asked["all"] <= 4:
            return Refusal(429, "slow down", headers={"retry-after-ms": "80"})
        return turn("ok")

    async with FakeVendor(script) as vendor:
        models = [make_model("ollama/x", base_url=vendor.chat_url, environment={}) for _ in range(AGENTS)]
        first = await answer_of(models[0], request_of())
        assert first.failure.failure.kind == "rate_limited"

        async def insist(model: Any) -> int:
            for attempt in range(1, 10):
                answer = await answer_of(model, request_of())
                if isinstance(answer.last, ModelDone):
                    return attempt
            raise AssertionError("never answered")

        async with asyncio.timeout(30):
            attempts = await asyncio.gather(*map(insist, models))
        for model in models:
            await model.aclose()
    assert sum(attempts) == AGENTS + 3, "after the first refusal the three others met one agent each"
    assert asked["all"] == AGENTS + 4


def test_a_request_that_would_wait_too_long_fails_with_the_delay() -> None:
    gate = RateGate()
    gate.refused(3600)
    with pytest.raises(RateLimited, match="for another 3600 s") as caught:
        gate.pause("acme")
    assert caught.value.retry_after is not None and caught.value.retry_after > LONGEST_WAIT


def test_a_lost_probe_does_not_keep_the_gate_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gate = RateGate()
    gate.refused(0.0)
    assert gate.pause("acme") == 0.0, "one goes first"
    assert gate.pause("acme") > 0.0
    now = 20.0
    assert gate.pause("acme") == 0.0


def test_without_a_retry_delay_the_pause_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    gate = RateGate()
    pauses = []
    for _ in range(3):
        gate.refused(None)
        pauses.append(gate._opens_at - now)
        gate.refused(None)
        assert gate._opens_at - now == pauses[-1], "the refusals of one moment count once"
        now = gate._opens_at
    assert 0.7 < pauses[0] < 1.3 and 1.5 < pauses[1] < 2.6 and 3 < pauses[2] < 5


def test_models_share_a_gate_by_server_and_key_and_no_longer_than_they_live() -> None:
    one, other = gate_of("acme", "a"), gate_of("acme", "b")
    assert one is not other and one is gate_of("acme", "a")
    one.refused(5)
    del one
    assert gate_of("acme", "a")._refusals == 0


async def test_a_run_waits_at_the_gate_and_continues() -> None:
    async with FakeVendor([Refusal(429, "slow down", headers={"retry-after": "0"}), turn("ok")]) as vendor:
        model = make_model("openai/x", base_url=vendor.chat_url, api_key=KEY, environment={})
        session = await create_session(MemoryStore(), Harness(model))
        ended = await session.prompt(as_content("go"))
        await model.aclose()
    assert ended.status == "completed"  # type: ignore[union-attr]


async def test_a_waiting_request_reports_the_wait_once() -> None:
    async with FakeVendor([turn("ok"), turn("ok")]) as vendor:
        model: Any = make_model("openai/x", base_url=vendor.chat_url, api_key=KEY, environment={})
        gate_of(vendor.chat_url.partition("//")[2].partition("/")[0], KEY).refused(1.3)
        answers = [await answer_of(model, request_of()) for _ in range(2)]
        await model.aclose()
    warnings = [[event.text for event in one.events if isinstance(event, Warned)] for one in answers]
    (waits,), nothing = warnings
    assert re.fullmatch(r"openai has reached its rate limit: waiting for [12] s", waits)
    assert nothing == []
    assert isinstance(answers[0].events[0], Warned)


async def test_waiting_at_the_gate_is_not_silence() -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        model = make_model("openai/x", base_url=vendor.chat_url, api_key=KEY, environment={})
        gate_of(vendor.chat_url.partition("//")[2].partition("/")[0], KEY).refused(1.2)
        session = await create_session(MemoryStore(), Harness(model, silence_limit=0.9))
        ended = await session.prompt(as_content("go"))
        await model.aclose()
    assert ended.status == "completed"  # type: ignore[union-attr]
