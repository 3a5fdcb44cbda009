"""The contract of `Log`: facts, their numbers, and following them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from random import Random
from typing import Any

from ostler.core.function_tool import FunctionTool, tool
from ostler.core.harness import Harness
from ostler.core.state import fold
from ostler.core.store import Store
from ostler.models.scripted import Call, ScriptedModel, Turn
from ostler.schema import events, requests
from ostler.schema.errors import Failure, LeaseLost, NotFound, StoreError
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content, user
from ostler.schema.outcomes import NeedUser, Pending, Question
from ostler.schema.usage import Usage
from ostler.sessions.session import Session, create_session, open_session
from ostler.testkit.simulator import simulate
from ostler.testkit.store_conformance.cases import (
    HERE,
    SessionWriter,
    StoreTestCase,
    assert_raises,
    assistant_message,
    renumbered,
    soon,
    user_message,
)


class LogConformance(StoreTestCase):
    # --- beginning ----------------------------------------------------------------------------------

    async def test_a_new_session_holds_its_first_fact_and_is_ours(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            assert writing.lease.session == "ses_1"
            assert writing.lease.owner == HERE
            await writing.is_unchanged()

    async def test_a_session_cannot_be_created_twice(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(user_message("hello"))
            await assert_raises(StoreError, store.create(writing.facts[0], HERE))
            await writing.is_unchanged()

    async def test_a_session_begins_with_number_one_and_with_its_own_fact(self) -> None:
        async with self.opened() as store:
            late = Fact.of(events.SessionStarted("/", "0"), seq=2, session="ses_1", run="", time_ms=1)
            other = Fact.of(events.SessionRenamed("x"), seq=1, session="ses_1", run="", time_ms=1)
            await assert_raises(StoreError, store.create(late, HERE))
            await assert_raises(StoreError, store.create(other, HERE))
            assert await store.sessions() == []

    async def test_what_does_not_exist_is_not_found(self) -> None:
        async with self.opened() as store:
            none = "ses_none"
            for work in (
                store.read(none),
                store.read_opening(none),
                store.last_seq(none),
                store.summary(none),
                anext(aiter(store.follow(none))),
                store.acquire(none, HERE),
                store.delete(none, HERE),
                store.owned_processes(none),
                store.submit(none, requests.Pause(id="req_1")),
                store.pending(none),
                store.settlement(none, "req_1"),
                store.arrivals(none, -1),
                store.append_blob(none, "out", b"x"),
                store.read_blob(none, "out"),
            ):
                await assert_raises(NotFound, work)
            assert await store.blob(none, "out") is None

    # --- append -------------------------------------------------------------------------------------

    async def test_facts_come_back_as_they_were_given(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(user_message("one"), run="run_1")
            await writing.append(events.SessionRenamed("two"), assistant_message("three"), run="run_1")
            copy = Fact(5, "ses_1", "", 5, b'{"type":"warned","text":"x"}', origin="ses_0:17")
            writing.facts.append(copy)
            await store.append(writing.lease, [copy])
            await writing.is_unchanged()
            assert [fact.body for fact in await store.read("ses_1")] == [fact.body for fact in writing.facts]

    async def test_what_nobody_understands_is_kept_byte_for_byte(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            bodies = (
                b'{"type":"of_tomorrow", "n" : 1.50, "n":2, "no":"\\ud800", "e":"\\u00e9\xc3\xa9"}',
                b'{"type":"session_renamed","title":"x","unheard_of":[1.0,{"a":"\\u00e9"}]}',
                b'{"type":"of_tomorrow","nothing":"\\u0000","long":"' + b"x" * 300_000 + b'"}',
            )
            await writing.append_bodies(*bodies)
            assert tuple(fact.body for fact in await store.read("ses_1", 1)) == bodies
            await writing.run("a run that ends")
            opening = [fact.body for fact in await store.read_opening("ses_1")]
            assert opening[1:4] == list(bodies), "an unknown event may be needed to open a session"

    async def test_wrong_numbers_are_refused_and_nothing_is_written(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(user_message("two"), user_message("three"))
            await store.submit("ses_1", requests.Rename(id="req_1", title="x"))
            for numbers in ([3], [5], [1], [4, 4], [4, 6], [4, 6, 5], [4, 6, 6], [5, 4], [0], [-1]):
                facts = [
                    Fact.of(user_message("x"), seq=seq, session="ses_1", run="", time_ms=1, parent=3)
                    for seq in numbers
                ]
                await assert_raises(StoreError, store.append(writing.lease, facts, {"req_1": 4}))
                await writing.is_unchanged()
                assert await store.settlement("ses_1", "req_1") is None
            await assert_raises(StoreError, store.append(writing.lease, [], {"req_1": 4}))
            assert [request.id for request in await store.pending("ses_1")] == ["req_1"]
            await writing.append(user_message("four"))
            await writing.is_unchanged()

    async def test_a_fact_of_another_session_is_refused(self) -> None:
        async with self.opened() as store:
            writing, other = await self.begun(store), await self.begun(store, "ses_2")
            stray = Fact.of(user_message("x"), seq=2, session="ses_2", run="", time_ms=1, parent=0)
            await assert_raises(StoreError, store.append(writing.lease, [stray]))
            await writing.is_unchanged()
            await other.is_unchanged()

    async def test_a_stale_lease_writes_nothing(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.submit("ses_1", requests.Rename(id="req_1", title="x"))
            before = writing.lease
            writing.lease = await store.acquire("ses_1", HERE)
            fact = Fact.of(user_message("x"), seq=2, session="ses_1", run="", time_ms=1, parent=0)
            await assert_raises(LeaseLost, store.append(before, [fact], {"req_1": 2}))
            await writing.is_unchanged()
            assert await store.settlement("ses_1", "req_1") is None
            await writing.append(user_message("two"))
            await writing.is_unchanged()

    async def test_an_append_that_is_cancelled_is_whole_or_not_at_all(self) -> None:
        """And once the caller knows of the cancellation, it is decided which."""
        async with self.opened() as store:
            writing = await self.begun(store)
            for delay in range(12):
                expected = await store.last_seq("ses_1")
                facts = [
                    Fact.of(
                        user_message("x"), seq=expected + 1 + n, session="ses_1", run="", time_ms=1, parent=0
                    )
                    for n in range(3)
                ]
                appending = asyncio.ensure_future(store.append(writing.lease, facts))
                for _ in range(delay // 2):
                    await asyncio.sleep(0)
                appending.cancel()
                await soon(asyncio.wait({appending}))
                after = await store.last_seq("ses_1")
                assert after in (expected, expected + 3)
                assert len(await store.read("ses_1")) == after

    async def test_sessions_that_are_written_at_once_keep_their_own_numbers(self) -> None:
        async with self.opened() as store:
            written = [await self.begun(store, f"ses_{number}") for number in range(20)]

            async def write(writing: SessionWriter) -> None:
                for number in range(10):
                    await writing.append(
                        user_message(f"{writing.session} {number}"), assistant_message("yes")
                    )

            await soon(asyncio.gather(*map(write, written)))
            for writing in written:
                await writing.is_unchanged()

    async def test_one_refused_append_does_not_harm_those_beside_it(self) -> None:
        async with self.opened() as store:
            written = [await self.begun(store, f"ses_{number}") for number in range(12)]
            wrong = [Fact.of(user_message("x"), seq=9, session="ses_3", run="", time_ms=1, parent=0)]
            broken = [Fact(2, "ses_4", "", 1, b'{"type":"session_renamed","title":7}')]
            work = [
                store.append(
                    one.lease,
                    wrong if index == 3 else broken if index == 4 else [one.fact(user_message("y"))],
                )
                for index, one in enumerate(written)
            ]
            outcomes = await soon(asyncio.gather(*work, return_exceptions=True))
            assert [index for index, outcome in enumerate(outcomes) if outcome is not None] == [3, 4]
            for writing in written:
                await writing.is_unchanged()

    # --- read ---------------------------------------------------------------------------------------

    async def test_reading_begins_after_a_number_and_stops_at_a_limit(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(*(user_message(str(number)) for number in range(9)))

            async def numbers(after: int = 0, limit: int | None = None) -> list[int]:
                return [fact.seq for fact in await store.read("ses_1", after, limit)]

            assert await numbers() == list(range(1, 11))
            assert await numbers(after=7) == [8, 9, 10]
            assert await numbers(after=2, limit=3) == [3, 4, 5]
            assert await numbers(after=10) == []
            assert await numbers(after=99) == []
            assert await numbers(limit=0) == []

    async def test_what_opening_reads_adds_up_to_the_same_as_everything(self) -> None:
        """Over real logs, with crashes and open runs in them, cut at any place."""
        async with self.opened() as store:
            random = Random(5)
            for seed in range(12):
                report = await asyncio.to_thread(simulate, seed)
                facts = report.facts
                cuts = {len(facts), *(random.randint(1, len(facts)) for _ in range(8))}
                for cut in sorted(cuts):
                    session = f"ses_{seed}_{cut}"
                    await store.import_session(renumbered(facts[:cut], session))
                    await _opens_as_a_whole(store, session)

    async def test_a_session_that_the_kernel_drives_opens_as_a_whole(self) -> None:
        """After every rest: runs that ended, wait or failed, branches, settings, a replaced history."""
        async with self.opened() as store:
            for seed in range(3):
                await _drive(store, Random(seed), f"ses_{seed}")

    async def test_opening_leaves_out_what_only_mattered_inside_ended_runs(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(events.RunStarted("0", "/", "m"), events.StepStarted(1), run="run_1")
            await writing.append(events.StepEnded(1), events.RunEnded("completed"), run="run_1")
            await writing.append(events.SessionRenamed("x"))
            assert "step_started" not in [fact.type for fact in await store.read_opening("ses_1")]
            await writing.append(events.RunStarted("0", "/", "m"), events.StepStarted(1), run="run_2")
            opening = [(fact.run, fact.type) for fact in await store.read_opening("ses_1")]
            assert ("run_1", "step_started") not in opening
            assert opening[-2:] == [("run_2", "run_started"), ("run_2", "step_started")]

    async def test_a_value_that_was_set_often_is_read_once_when_the_session_is_opened(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            for run in ("run_1", "run_2"):
                await writing.append(events.RunStarted("0", "/", "m"), run=run)
                for number in range(20):
                    states = [events.ExtensionState("counter", key, number) for key in ("a", "b")]
                    await writing.append(*states, run=run)
                gone = events.ExtensionState("counter", "b")
                await writing.append(gone, events.RunEnded("completed"), run=run)
            opening = await store.read_opening("ses_1")
            assert fold(opening).extension_state == {"counter": {"a": 19}}
            assert await _opens_as_a_whole(store, "ses_1")

    async def test_opening_knows_what_was_used_between_runs(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(events.RunStarted("0", "/", "m"), events.RunEnded("completed"), run="run_1")
            used = Usage(input_tokens=7, cost=0.5)
            await writing.append(events.UsageReported("msg_1", "m", used, used, purpose="summary"))
            await writing.append(events.RunStarted("0", "/", "m"), run="run_2")
            assert fold(await store.read_opening("ses_1")).usage == used

    # --- follow -------------------------------------------------------------------------------------

    async def test_following_gives_what_was_and_then_what_comes(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(user_message("two"))
            async with aclosing(store.follow("ses_1")) as batches:  # type: ignore[type-var]
                assert await soon(anext(batches)) == writing.facts
                waiting = asyncio.ensure_future(anext(batches))
                await asyncio.sleep(0)
                assert not waiting.done()
                new = await writing.append(user_message("three"), user_message("four"))
                assert await soon(waiting) == new

    async def test_followers_see_every_fact_once_whenever_they_join(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            random = Random(11)
            last = 1 + 3 * 60

            async def follow(handle: Store, after: int) -> list[int]:
                seen: list[int] = []
                async with aclosing(handle.follow("ses_1", after)) as batches:  # type: ignore[type-var]
                    async for facts in batches:
                        seen += [fact.seq for fact in facts]
                        if seen[-1] == last:
                            break
                return seen

            following: list[tuple[int, asyncio.Task[list[int]]]] = []
            for round_ in range(60):
                if round_ < 50:
                    after = random.randint(0, len(writing.facts))
                    task = asyncio.ensure_future(follow(random.choice((store, other)), after))
                    following.append((after, task))
                if random.random() < 0.5:
                    await asyncio.sleep(0)
                await writing.append(user_message("a"), assistant_message("b"), user_message("c"))
            for after, task in following:
                assert await soon(task) == list(range(after + 1, last + 1))

    async def test_two_followers_see_the_same_facts_in_the_same_order(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            first, second = store.follow("ses_1"), store.follow("ses_1")
            for number in range(5):
                await writing.append(user_message(str(number)))
                assert await soon(anext(first)) == await soon(anext(second))

    async def test_another_handle_sees_a_fact_as_soon_as_it_is_appended(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            await writing.append(user_message("two"))
            assert await other.read("ses_1") == writing.facts
            assert await other.last_seq("ses_1") == 2
            assert (await other.summary("ses_1")) == await store.summary("ses_1")

    async def test_a_follower_through_another_handle_is_woken(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            batches = other.follow("ses_1", after=1)
            waiting = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            new = await writing.append(user_message("two"))
            assert await soon(waiting) == new

    async def test_a_follower_of_a_deleted_session_learns_of_it(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            waiting = asyncio.ensure_future(anext(aiter(store.follow("ses_1", after=1))))
            await asyncio.sleep(0)
            await store.delete("ses_1", HERE)
            await assert_raises(NotFound, waiting)

    async def test_closing_the_store_ends_the_waiting(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            following = asyncio.ensure_future(anext(aiter(store.follow("ses_1", after=1))))
            seen = await soon(store.arrivals("ses_1", -1))
            arriving = asyncio.ensure_future(store.arrivals("ses_1", seen))
            await asyncio.sleep(0)
            await store.close()
            await assert_raises(StoreError, following)
            await assert_raises(StoreError, arriving)
            await store.close()


async def _opens_as_a_whole(store: Store, session: str) -> dict[str, Any]:
    whole, opening = await store.read(session), await store.read_opening(session)
    numbers = [fact.seq for fact in opening]
    assert numbers == sorted(set(numbers))
    assert all(whole[fact.seq - 1] == fact for fact in opening)
    snapshot = fold(whole).snapshot()
    assert fold(opening).snapshot() == snapshot, f"{session}, cut at {len(whole)}"
    return snapshot


async def _drive(store: Store, random: Random, name: str) -> None:
    """A session through runs, requests and other processes, checked whenever it rests."""
    harness = Harness(ScriptedModel(_answers(random)), wait_for_answers=True)
    harness.set_tools(_tools())
    session = await create_session(store, harness, session=name)
    for number in range(6):
        await session.prompt(as_content(f"prompt {number}"))
        await _same_live_and_stored(store, session)
        for request in _between_runs(random, number, await store.read(name)):
            await store.submit(name, request)
        await session.advance()
        await _same_live_and_stored(store, session)
        while session.state.run is not None:
            await store.submit(name, requests.Cancel(id=f"enough {number}"))
            await session.advance()
        if random.random() < 0.3:
            await session.replace_history((user("what was before"),))
        if random.random() < 0.5:
            await session.close()
            session = await open_session(store, name, harness)
        await _same_live_and_stored(store, session)
    await session.close()


async def _same_live_and_stored(store: Store, session: Session) -> None:
    assert await _opens_as_a_whole(store, session.id) == session.state.snapshot()


def _answers(random: Random) -> list[Turn]:
    calls = (Call("look"), Call("ask"), Call("order"), Call("nonsense"), Call("look", raw="{"))
    refused = Turn(text="half an ans", failure=Failure("invalid_request", "no"))
    turns: list[Turn] = []
    for _ in range(60):
        draw = random.random()
        if draw < 0.1:
            turns.append(refused)
        elif draw < 0.5:
            turns.append(Turn(text="let me see", calls=tuple(random.choices(calls, k=random.randint(1, 3)))))
        else:
            turns.append(Turn(text="the answer", reasoning="hm"))
    return turns


def _between_runs(random: Random, number: int, facts: Sequence[Fact]) -> list[requests.AnyRequest]:
    entries = [fact.seq for fact in facts if fact.parent is not None]
    possible: tuple[requests.AnyRequest, ...] = (
        requests.Rename(id=f"rename_{number}", title=f"title {number}"),
        requests.Label(id=f"label_{number}", entry=random.choice(entries), label="here"),
        requests.SetModel(id=f"model_{number}", model="scripted/other"),
        requests.Navigate(id=f"go_{number}", entry=random.choice([0, *entries])),
        requests.Steer(id=f"steer_{number}", content=as_content("too late")),
        requests.Cancel(id=f"cancel_{number}"),
    )
    return random.sample(possible, random.randint(0, 3))


def _tools() -> list[FunctionTool]:
    @tool(parallel=True)
    async def look() -> str:
        """Looks."""
        return "seen"

    @tool
    async def ask() -> NeedUser:
        """Needs a person."""
        return NeedUser(Question("Which colour?"))

    @tool
    async def order() -> Pending:
        """Finishes later."""
        return Pending("order 7")

    return [look, ask, order]
