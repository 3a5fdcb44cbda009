"""The supervisor: many sessions in one process, and a way to those of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from ostler.core.function_tool import tool
from ostler.core.harness import Harness
from ostler.history.audit import audit_of
from ostler.models.scripted import Call, ScriptedModel
from ostler.schema.errors import NotFound, UsageError
from ostler.schema.events import RunEnded, RunWaiting
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.schema.outcomes import NeedUser, Question
from ostler.schema.requests import Prompt
from ostler.sessions.session import Session, create_session, open_session
from ostler.sessions.supervisor import Supervisor
from ostler.store.memory import MemoryStore


class Desk:
    """A supervisor whose agents can be held back and asked."""

    def __init__(self, script: Callable[[], Any], store: MemoryStore | None = None) -> None:
        self.proceed = asyncio.Event()
        self.busy = asyncio.Event()
        self.models: list[ScriptedModel] = []

        @tool
        async def hold() -> str:
            self.busy.set()
            await asyncio.wait_for(self.proceed.wait(), 60)
            return "held"

        @tool
        async def ask() -> NeedUser:
            return NeedUser(Question("Well?"))

        def equip(cwd: Path) -> Harness:
            self.models.append(ScriptedModel(script()))
            harness = Harness(self.models[-1], cwd=cwd, wait_for_answers=True)
            harness.set_tools([hold, ask])
            return harness

        self.supervisor = Supervisor(store or MemoryStore(), equip)

    async def types(self, session: str) -> list[str]:
        return [fact.type for fact in await self.supervisor.store.read(session)]


def ended(quiet: Any) -> str:
    assert isinstance(quiet, RunEnded), quiet
    return quiet.status


async def test_a_run_is_started_followed_and_waited_for() -> None:
    desk = Desk(lambda: ["hello"])
    handle = await desk.supervisor.start("hi")
    assert ended(await desk.supervisor.wait(handle.session, timeout=60)) == "completed"
    assert ended(await handle.result()) == "completed"
    seen: list[str] = []
    async with aclosing(desk.supervisor.follow(handle.session)) as followed:  # type: ignore[type-var]
        async for batch in followed:
            seen += [fact.type for fact in batch]
            if seen[-1] == "run_ended":
                break
    assert seen == await desk.types(handle.session)


async def test_a_run_is_steered_and_a_queued_prompt_follows_it() -> None:
    desk = Desk(lambda: [Call("hold"), "done", "second"])
    handle = await desk.supervisor.start("first")
    await asyncio.wait_for(desk.busy.wait(), 60)
    await desk.supervisor.steer(handle.session, "mind the gap")
    await desk.supervisor.queue(handle.session, "next")
    for _ in range(50):
        await asyncio.sleep(0)
    desk.proceed.set()
    assert ended(await asyncio.wait_for(handle.result(), 60)) == "completed"
    texts = [message.text for message in desk.models[0].requests[1].transcript]
    assert texts[-1] == "mind the gap"
    assert (await desk.types(handle.session)).count("run_ended") == 2


async def test_a_steer_that_comes_too_late_is_refused() -> None:
    store = MemoryStore()
    desk = Desk(lambda: [Call("hold"), "done"], store)
    handle = await desk.supervisor.start("first")
    await asyncio.wait_for(desk.busy.wait(), 60)
    cancel = await desk.supervisor.cancel(handle.session)
    steer = await desk.supervisor.steer(handle.session, "too late")
    assert ended(await asyncio.wait_for(handle.result(), 60)) == "cancelled"
    assert await store.settlement(handle.session, cancel) is not None
    seq = await store.settlement(handle.session, steer)
    assert seq is not None
    (fact,) = await store.read(handle.session, seq - 1, 1)
    assert fact.type == "request_refused"


async def test_a_waiting_run_releases_its_lease_and_continues_with_its_answer() -> None:
    desk = Desk(lambda: [Call("ask"), "thanks", "never"])
    handle = await desk.supervisor.start("go")
    waiting = await handle.result()
    assert isinstance(waiting, RunWaiting)
    assert await desk.supervisor.store.holder(handle.session) is None
    desk.models.clear()
    script = Desk(lambda: ["thanks"], desk.supervisor.store)  # another process, as it were
    await script.supervisor.answer(handle.session, waiting.questions[0], "well enough")
    assert ended(await script.supervisor.wait(handle.session, timeout=60)) == "completed"
    await script.supervisor.drain(10)


async def test_a_paused_run_is_resumed() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    handle = await desk.supervisor.start("go")
    await asyncio.wait_for(desk.busy.wait(), 60)
    await desk.supervisor.pause(handle.session)
    for _ in range(50):
        await asyncio.sleep(0)
    desk.proceed.set()
    paused = await asyncio.wait_for(handle.result(), 60)
    assert isinstance(paused, RunWaiting) and paused.reason == "paused"
    again = Desk(lambda: ["done"], desk.supervisor.store)
    await again.supervisor.resume(handle.session)
    assert ended(await again.supervisor.wait(handle.session, timeout=60)) == "completed"
    await again.supervisor.drain(10)


async def test_leaving_a_handle_cancels_its_run_unless_it_was_detached() -> None:
    for is_detached, status in ((False, "cancelled"), (True, "completed")):
        desk = Desk(lambda: [Call("hold"), "done"])
        async with await desk.supervisor.start("go") as handle:
            await asyncio.wait_for(desk.busy.wait(), 60)
            if is_detached:
                handle.detach()
        desk.proceed.set()
        assert ended(await asyncio.wait_for(handle.result(), 60)) == status


async def test_drain_waits_for_open_runs_and_refuses_new_ones() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    handles = [await desk.supervisor.start(f"go {n}") for n in range(5)]
    assert not await desk.supervisor.drain(0.01)
    with pytest.raises(UsageError, match="about to exit"):
        await desk.supervisor.start("one more")
    desk.proceed.set()
    assert await desk.supervisor.drain(10)
    assert [ended(await handle.result()) for handle in handles] == ["completed"] * 5


async def test_close_waits_until_every_session_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(lambda: ["hello"])
    close, closing, released = Session.close, asyncio.Event(), []

    async def slowly(session: Session) -> None:
        closing.set()
        for _ in range(20):
            await asyncio.sleep(0)
        await close(session)
        released.append(session.id)

    monkeypatch.setattr(Session, "close", slowly)
    handle = await desk.supervisor.start("hi")
    await asyncio.wait_for(closing.wait(), 60)
    await desk.supervisor.close()
    assert released == [handle.session]


async def test_close_ends_every_run() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    handles = [await desk.supervisor.start(f"go {n}") for n in range(3)]
    await asyncio.wait_for(desk.busy.wait(), 60)
    await desk.supervisor.close()
    assert {ended(await handle.result()) for handle in handles} == {"cancelled"}


async def test_a_late_completion_never_overwrites_a_cancel() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    handle = await desk.supervisor.start("go")
    await asyncio.wait_for(desk.busy.wait(), 60)
    await desk.supervisor.cancel(handle.session)
    desk.proceed.set()
    await asyncio.wait_for(handle.result(), 60)
    await desk.supervisor.cancel(handle.session)  # after its end: refused, and nothing changes
    await desk.supervisor.drain(10)
    types = await desk.types(handle.session)
    assert types.count("run_ended") == 1


async def test_a_cancel_right_after_the_start_ends_the_run() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    handle = await desk.supervisor.start("go")
    await desk.supervisor.cancel(handle.session)
    assert ended(await asyncio.wait_for(handle.result(), 60)) == "cancelled"
    async with await desk.supervisor.start("go", session=handle.session) as again:
        pass
    assert ended(await asyncio.wait_for(again.result(), 60)) == "cancelled"


async def test_a_run_whose_start_is_cancelled_is_cancelled() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    starting = asyncio.ensure_future(desk.supervisor.start("go"))
    await asyncio.sleep(0)  # it waits for the run to begin
    assert desk.models
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    assert await desk.supervisor.drain(10)
    (summary,) = await desk.supervisor.store.sessions()
    assert summary.status == "cancelled"


async def test_a_driven_session_refuses_a_second_start() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    handle = await desk.supervisor.start("go")
    await asyncio.wait_for(desk.busy.wait(), 60)
    with pytest.raises(UsageError, match="queue the prompt"):
        await desk.supervisor.start("more", session=handle.session)
    desk.proceed.set()
    assert ended(await asyncio.wait_for(handle.result(), 60)) == "completed"


async def test_a_prompt_to_a_session_whose_last_run_failed_starts() -> None:
    store = MemoryStore()
    desk = Desk(list)
    desk.supervisor.store = store
    handle = await desk.supervisor.start("go")
    assert ended(await handle.result()) == "failed"
    better = Desk(lambda: ["fine"], store)
    again = await better.supervisor.start("again", session=handle.session)
    assert ended(await again.result()) == "completed"


async def test_list_and_peek_show_open_runs() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    asking = Desk(lambda: [Call("ask")], desk.supervisor.store)
    waits = await asking.supervisor.start("first")
    await waits.result()
    works = await desk.supervisor.start("second")
    await asyncio.wait_for(desk.busy.wait(), 60)
    listed = {row.session: row for row in await desk.supervisor.list()}
    assert {session: row.status for session, row in listed.items()} == {
        works.session: "running",
        waits.session: "waiting",
    }
    assert [asked.text for asked in listed[waits.session].questions] == ["Well?"]
    assert await desk.supervisor.peek(works.session) == listed[works.session]

    desk.proceed.set()
    await asyncio.wait_for(works.result(), 60)
    assert [row.session for row in await desk.supervisor.list()] == [waits.session]
    assert len(await desk.supervisor.list(ended=True)) == 2
    last = await desk.supervisor.peek(works.session)
    assert last is not None and (last.status, last.steps) == ("completed", 2)


async def test_a_session_without_a_run_shows_none() -> None:
    desk = Desk(list)
    session = await create_session(desk.supervisor.store, Harness(ScriptedModel()))
    assert await desk.supervisor.peek(session.id) is None
    with pytest.raises(NotFound):
        await desk.supervisor.peek("ses_none")


async def test_a_session_held_elsewhere_is_reached_through_its_inbox() -> None:
    desk = Desk(lambda: [Call("hold"), "done"])
    other = Desk(list, desk.supervisor.store)
    handle = await desk.supervisor.start("go")
    await asyncio.wait_for(desk.busy.wait(), 60)
    await other.supervisor.cancel(handle.session)
    assert ended(await asyncio.wait_for(other.supervisor.wait(handle.session), 60)) == "cancelled"
    assert other.models == [] or not other.models[0].requests
    await handle.result()
    session = await open_session(desk.supervisor.store, handle.session, Harness(ScriptedModel()))
    assert session.state.last_status == "cancelled"


async def test_the_same_request_twice_is_one_run() -> None:
    desk = Desk(lambda: ["hello", "again"])
    first = await desk.supervisor.start("hi", request="r1")
    ending = await first.result()
    again = await desk.supervisor.start("hi", session=first.session, request="r1")
    assert await again.result() == ending
    assert (await desk.types(first.session)).count("run_started") == 1


class Office:
    """A supervisor whose one tool waits for a word."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.busy = asyncio.Event()
        self.proceed = asyncio.Event()

        @tool
        async def hold() -> str:
            self.busy.set()
            await asyncio.wait_for(self.proceed.wait(), 60)
            return "held"

        def equip(cwd: Path) -> Harness:
            harness = Harness(ScriptedModel([Call("hold"), "done", "again"]), cwd=cwd)
            harness.set_tools([hold])
            return harness

        self.store = store or MemoryStore()
        self.supervisor = Supervisor(self.store, equip)

    async def start(self) -> str:
        handle = await self.supervisor.start("go")
        await asyncio.wait_for(self.busy.wait(), 60)
        return handle.session

    async def ended(self, session: str) -> RunEnded:
        self.proceed.set()
        quiet = await self.supervisor.wait(session, timeout=60)
        assert isinstance(quiet, RunEnded)
        assert await self.supervisor.drain(10)
        return quiet


async def test_a_prompt_that_is_submitted_again_before_and_after_its_run_is_one_run() -> None:
    office = Office()
    session = await office.start()
    prompt = Prompt(id="req_1", content=as_content("more"))
    assert await office.supervisor.submit(session, prompt)
    assert not await office.supervisor.submit(session, prompt)
    office.proceed.set()
    await office.supervisor.wait(session, timeout=60)
    assert not await office.supervisor.submit(session, prompt)
    assert await office.supervisor.drain(10)
    starts = [fact.event for fact in await office.store.read(session) if fact.type == "run_started"]
    assert [one.request for one in starts] == ["", "req_1"]


async def test_a_cancel_is_in_the_log_the_audit_and_the_result() -> None:
    office = Office()
    session = await office.start()
    waiting = asyncio.ensure_future(office.supervisor.wait(session, timeout=60))
    request = await office.supervisor.cancel(session)
    quiet = await office.ended(session)
    assert await waiting == quiet
    assert (quiet.status, quiet.request) == ("cancelled", request)
    assert (await office.store.summary(session)).status == "cancelled"
    last = (await audit_of(office.store, session))[-1]
    assert (last.action, last.outcome, last.actor) == ("run.cancel", "cancelled", "user")


async def test_wait_has_a_timeout_and_needs_an_existing_session() -> None:
    office = Office()
    session = await office.start()
    with pytest.raises(TimeoutError):
        await office.supervisor.wait(session, timeout=0.01)
    with pytest.raises(NotFound):
        await office.supervisor.wait("ses_nobody", timeout=10)
    assert (await office.ended(session)).status == "completed"


async def test_wait_returns_the_end_of_a_run_in_another_process() -> None:
    office = Office()
    session = await office.start()
    other = Office(office.store)
    waiting = asyncio.ensure_future(other.supervisor.wait(session, timeout=60))
    await asyncio.sleep(0)
    assert await office.ended(session) == await waiting


async def test_follow_from_the_middle_misses_and_repeats_nothing() -> None:
    office = Office()
    one, _other = await office.start(), await office.supervisor.start("beside it")
    middle = await office.store.last_seq(one) - 2
    seen: list[Fact] = []
    async with aclosing(office.supervisor.follow(one, middle)) as followed:  # type: ignore[type-var]
        async for batch in followed:
            seen += batch
            office.proceed.set()  # it joined during the run; the other facts come now
            if batch[-1].type == "run_ended":
                break
    assert seen == await office.store.read(one, middle)
    assert [fact.seq for fact in seen] == list(range(middle + 1, seen[-1].seq + 1))
    assert {fact.session for fact in seen} == {one}
    assert await office.supervisor.drain(10)
