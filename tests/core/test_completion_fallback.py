"""When a model fails for good: a budget of retries, and others that go on with the run."""

from __future__ import annotations

import asyncio

import pytest

from ostler.core.function_tool import tool
from ostler.core.hooks import FailedCall, GiveUp, Hook, Retry
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema import events
from ostler.schema.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    InvalidRequest,
    ModelError,
    NoModel,
    Overloaded,
    RateLimited,
    StreamBroken,
)
from ostler.schema.messages import as_content
from ostler.schema.requests import SetModel
from ostler.schema.usage import Usage
from tests.support.running import Ran, run, started


@tool(kind="read")
async def look() -> str:
    """Looks."""
    return "a horse"


def failures(ran: Ran) -> list[tuple[float | None, str]]:
    return [(one.retry_in, one.rescue) for one in ran.all(events.ModelFailed)]


def down() -> ModelError:
    return AuthenticationFailed("the key is wrong", status=401)


@pytest.mark.parametrize(
    "error",
    [
        down(),
        RateLimited("no quota", status=429, retry_after=3600.0),
        InvalidRequest("the credit is used up", status=402),
        Overloaded("too busy", status=529, stream_opened=True),
        StreamBroken("cut", stream_opened=True),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_fallback_model_continues_without_a_second_user_message(error: ModelError) -> None:
    other = ScriptedModel(["saved"], name="other/one")
    ran = await run([error], fallbacks=(other,))
    assert ran.status == "completed"
    assert failures(ran) == [(0.0, "other/one")]
    assert [one.model for one in ran.all(events.ModelCalled)] == ["scripted/model", "other/one"]
    assert [m.text for m in other.requests[0].transcript] == ["go"]
    assert len(ran.all(events.UserMessage)) == 1


async def test_the_run_stays_with_the_fallback_model_and_usage_adds_up() -> None:
    other = ScriptedModel([Call("look"), "saved"], name="other/one")
    ran = await run([Call("look"), down(), "own"], tools=[look], fallbacks=(other,))
    assert ran.status == "completed"
    asked = [one.model for one in ran.all(events.ModelCalled)]
    assert asked == ["scripted/model", "scripted/model", "other/one", "other/one"]
    assert ran.results() == ["a horse", "a horse"]
    (ended,) = ran.all(events.RunEnded)
    assert ended.own.model_calls == 4
    assert ended.own.usage.input_tokens == sum(
        one.usage.input_tokens for one in ran.all(events.UsageReported)
    )
    ran.quiet = await ran.session.prompt(as_content("again"))
    assert ran.all(events.ModelCalled)[-1].model == "scripted/model", "the next run begins with its own model"


async def test_fallbacks_are_tried_in_order_and_each_model_has_its_own_retries() -> None:
    busy = [Overloaded("too busy", status=529)] * 3
    second = ScriptedModel([down()], name="other/two")
    third = ScriptedModel([*busy[:2], "at last"], name="other/three")
    ran = await run(busy, fallbacks=(second, third))
    assert ran.status == "completed"
    rescues = [(delay is not None and delay > 0, rescue) for delay, rescue in failures(ran)]
    assert rescues == [
        (True, ""),
        (True, ""),
        (False, "other/two"),
        (False, "other/three"),
        (True, ""),
        (True, ""),
    ]
    assert [one.attempt for one in ran.all(events.ModelCalled)] == [1, 2, 3, 4, 5, 6, 7]


async def test_without_more_fallbacks_the_run_fails_with_the_last_reason() -> None:
    ran = await run([down()], fallbacks=(ScriptedModel([ConnectionFailed("no way")] * 3, name="other/one"),))
    assert ran.status == "failed"
    (ended,) = ran.all(events.RunEnded)
    assert ended.failure.kind == "connection_failed"


async def test_a_fallback_that_cannot_be_made_is_reported_and_skipped() -> None:
    names: list[str] = []
    saved = ScriptedModel(["saved"], name="other/two")

    def make(name: str) -> ScriptedModel:
        names.append(name)
        if name == "other/one":
            raise NoModel("other needs a key")
        return saved

    ran = await run(["fine"], fallbacks=("other/one", "alias"), make_model=make)
    assert ran.status == "completed" and names == []
    ran = await run([down()], fallbacks=("other/one", "alias"), make_model=make)
    assert ran.status == "completed" and names == ["other/one", "alias"]
    assert [one.text for one in ran.all(events.Warned)] == ["other/one cannot be used: other needs a key"]
    assert failures(ran) == [(0.0, "other/two")]


async def test_a_context_overflow_does_not_use_the_fallback() -> None:
    other = ScriptedModel(["never"], name="other/one")
    ran = await run([ContextOverflow("too long", status=400)], fallbacks=(other,))
    assert ran.status == "failed" and other.requests == []
    (ended,) = ran.all(events.RunEnded)
    assert ended.failure.kind == "context_overflow"


async def test_a_run_has_a_budget_of_retries() -> None:
    script = [
        ConnectionFailed("no"),
        Call("look"),
        ConnectionFailed("no"),
        Call("look"),
        ConnectionFailed("no"),
    ]
    ran = await run(script, tools=[look], limits=events.Limits(retries=2))
    assert ran.status == "failed"
    assert [delay is not None for delay, _ in failures(ran)] == [True, True, False]


async def test_a_failure_is_published_before_the_retry_delay() -> None:
    ran = await started([ConnectionFailed("no"), "yes"])
    seen = asyncio.Event()

    def watch(batch: object) -> None:
        if "model_failed" in ran.types and "assistant_message" not in ran.types:
            seen.set()

    ran.session.subscribe(watch)
    running = asyncio.ensure_future(ran.session.prompt(as_content("go")))
    await asyncio.wait_for(seen.wait(), 60)
    assert not running.done()
    ran.quiet = await asyncio.wait_for(running, 60)
    assert ran.status == "completed"


async def test_a_hook_overrides_the_fallbacks() -> None:
    chain = ScriptedModel(["from the chain"], name="other/chain")
    chosen = ScriptedModel(["from the hook"], name="other/hook")
    hook = Hook("after_failure", lambda failed: Retry(model=chosen))
    ran = await run([down()], fallbacks=(chain,), hooks=[hook])
    assert failures(ran) == [(0.0, "other/hook")]

    def give_up(failed: FailedCall) -> GiveUp:
        return GiveUp()

    ran = await run([down()], fallbacks=(chain,), hooks=[Hook("after_failure", give_up)])
    assert ran.status == "failed" and failures(ran) == [(None, "")]


async def test_a_model_can_be_set_while_the_run_is_open() -> None:
    other = ScriptedModel(["from the other"], name="other/one")
    ran = await started([Call("look"), "never"], tools=[look], make_model={"other/one": other}.__getitem__)
    store = ran.session.journal.store

    def ask(batch: object) -> None:
        if "tool_started" in ran.types and not submitted:
            submitted.append(
                asyncio.ensure_future(
                    store.submit(ran.session.id, SetModel(id="set", model="other/one", reasoning="high"))
                )
            )

    submitted: list[asyncio.Future[None]] = []
    ran.session.subscribe(ask)
    ran.quiet = await asyncio.wait_for(ran.session.prompt(as_content("go")), 60)
    assert ran.status == "completed"
    (changed,) = ran.all(events.SettingsChanged)
    assert (changed.model, changed.reasoning, changed.request) == ("other/one", "high", "set")
    assert ran.session.state.settings.model == "other/one"
    last = ran.all(events.ModelCalled)[-1]
    assert last.model == "other/one" and other.requests[0].reasoning == "high"


async def test_a_model_that_cannot_be_made_is_refused_with_the_reason() -> None:
    ran = await started(["one"])
    store = ran.session.journal.store
    await store.submit(ran.session.id, SetModel(id="set", model="other/one"))
    ran.quiet = await ran.session.prompt(as_content("go"))
    (refused,) = ran.all(events.RequestRefused)
    assert (refused.request, refused.reason) == ("set", "this session works with one model only")
    assert ran.status == "completed" and not ran.all(events.SettingsChanged)


async def test_usage_of_failed_calls_counts_too() -> None:
    other = ScriptedModel(["saved"], name="other/one")
    ran = await run([down()], fallbacks=(other,))
    assert [one.model for one in ran.all(events.UsageReported)] == ["scripted/model", "other/one"]
    assert isinstance(ran.session.state.usage, Usage)
