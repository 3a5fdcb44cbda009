"""Blocks that end with a token or with silence, by a clock of their own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from ostler.core.cancellation import (
    CancelToken,
    ScopeCancelled,
    SilenceTimeout,
    cancel_scope,
    run_with_timeout,
)
from ostler.testkit.simulator.process import VirtualLoop


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    loop = VirtualLoop(Random(1), start=0.0)
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_scope_stays_open_while_it_is_reset() -> None:
    async def work() -> None:
        with pytest.raises(SilenceTimeout):
            async with cancel_scope(CancelToken(), silence=10) as watch:
                for _ in range(20):
                    await asyncio.sleep(9)
                    watch.reset()
                await asyncio.sleep(100)
        assert now() == pytest.approx(190)

    in_virtual_time(work())


def test_a_scope_can_be_used_again() -> None:
    async def work() -> None:
        watch = cancel_scope(CancelToken(), silence=10)
        for begin in (0, 16, 32):
            async with watch:
                await asyncio.sleep(8)
            await asyncio.sleep(8)
            assert now() == begin + 16
        with pytest.raises(SilenceTimeout):
            async with watch:
                await asyncio.sleep(100)
        assert now() == pytest.approx(58)
        async with watch:
            await asyncio.sleep(9)

    in_virtual_time(work())


def test_a_token_ends_a_scope_with_a_silence_timeout() -> None:
    async def work() -> None:
        token = CancelToken()
        asyncio.get_running_loop().call_later(4, token.cancel)
        with pytest.raises(ScopeCancelled):
            async with cancel_scope(token, silence=10):
                await asyncio.sleep(100)
        assert now() == 4
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0

    in_virtual_time(work())


def test_the_timer_of_a_scope_keeps_nothing_alive() -> None:
    async def work() -> None:
        token = CancelToken()
        reference = weakref.ref(token)
        async with cancel_scope(token, silence=10):
            pass
        del token
        gc.collect()
        assert reference() is None

    in_virtual_time(work())


def test_run_with_timeout_stops_work_at_the_timeout_or_when_the_token_fires() -> None:
    async def work() -> None:
        status, task = await run_with_timeout(asyncio.sleep(5, "rested"), CancelToken(), 10)
        assert (status, task.result(), now()) == ("done", "rested", 5)
        status, task = await run_with_timeout(asyncio.sleep(50), CancelToken(), 10)
        assert (status, task.cancelled(), now()) == ("timed_out", True, 15)
        token = CancelToken()
        asyncio.get_running_loop().call_later(3, token.cancel)
        status, task = await run_with_timeout(asyncio.sleep(50), token, 10)
        assert (status, task.cancelled(), now()) == ("cancelled", True, 18)

    in_virtual_time(work())
