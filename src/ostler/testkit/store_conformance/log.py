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
    message_fact,
    moved_to,
    soon,
    user_message,
    waiting,
)


class LogConformance(StoreTestCase):
    # --- beginning ----------------------------------------------------------------------------------

    async def test_a_new_session_has_its_first_fact_and_a_lease(self) -> None:
        async with self.session() as (_, writer):
            assert writer.lease.session == "ses_1"
            assert writer.lease.owner == HERE
            await writer.assert_unchanged()

    async def test_a_session_cannot_be_created_twice(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(user_message("hello"))
            await assert_raises(StoreError, store.create(writer.facts[0], HERE))
            await writer.assert_unchanged()

    async def test_a_session_must_begin_with_session_started_as_number_1(self) -> None:
        async with self.opened() as store:
            late = Fact.of(events.SessionStarted("/", "0"), seq=2, session="ses_1", run="", time_ms=1)
            other = Fact.of(events.SessionRenamed("x"), seq=1, session="ses_1", run="", time_ms=1)
            await assert_raises(StoreError, store.create(late, HERE))
            await assert_raises(StoreError, store.create(other, HERE))
            assert await store.sessions() == []

    async def test_a_missing_session_is_not_found(self) -> None:
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

    async def test_facts_are_read_as_they_were_appended(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(user_message("one"), run="run_1")
            await writer.append(events.SessionRenamed("two"), assistant_message("three"), run="run_1")
            copy = Fact(5, "ses_1", "", 5, b'{"type":"warned","text":"x"}', origin="ses_0:17")
            writer.facts.append(copy)
            await store.append(writer.lease, [copy])
            await writer.assert_unchanged()
            assert [fact.body for fact in await store.read("ses_1")] == [fact.body for fact in writer.facts]

    async def test_unknown_events_and_fields_keep_their_bytes(self) -> None:
        async with self.session() as (store, writer):
            bodies = (
                b'{"type":"of_tomorrow", "n" : 1.50, "n":2, "no":"\\ud800", "e":"\\u00e9\xc3\xa9"}',
                b'{"type":"session_renamed","title":"x","unheard_of":[1.0,{"a":"\\u00e9"}]}',
                b'{"type":"of_tomorrow","nothing":"\\u0000","long":"' + b"x" * 300_000 + b'"}',
            )
            await writer.append_bodies(*bodies)
            assert tuple(fact.body for fact in await store.read("ses_1", 1)) == bodies
            await writer.run("a run that ends")
            opening = [fact.body for fact in await store.read_opening("ses_1")]
            assert opening[1:4] == list(bodies), "an unknown event may be needed to open a session"

    async def test_an_append_with_wrong_numbers_writes_nothing(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(user_message("two"), user_message("three"))
            await store.submit("ses_1", requests.Rename(id="req_1", title="x"))
            for numbers in ([3], [5], [1], [4, 4], [4, 6], [4, 6, 5], [4, 6, 6], [5, 4], [0], [-1]):
                facts = [message_fact(seq) for seq in numbers]
                await assert_raises(StoreError, store.append(writer.lease, facts, {"req_1": 4}))
                await writer.assert_unchanged()
                assert await store.settlement("ses_1", "req_1") is None
            await assert_raises(StoreError, store.append(writer.lease, [], {"req_1": 4}))
            assert [request.id for request in await store.pending("ses_1")] == ["req_1"]
            await writer.append(user_message("four"))
            await writer.assert_unchanged()

    async def test_a_fact_of_another_session_is_refused(self) -> None:
        async with self.opened() as store:
            writer, other = await self.new_session(store), await self.new_session(store, "ses_2")
            await assert_raises(StoreError, store.append(writer.lease, [message_fact(2, "ses_2")]))
            await writer.assert_unchanged()
            await other.assert_unchanged()

    async def test_an_append_with_a_stale_lease_writes_nothing(self) -> None:
        async with self.session() as (store, writer):
            await store.submit("ses_1", requests.Rename(id="req_1", title="x"))
            stale, writer.lease = writer.lease, await store.acquire("ses_1", HERE)
            await assert_raises(LeaseLost, store.append(stale, [message_fact(2)], {"req_1": 2}))
            await writer.assert_unchanged()
            assert await store.settlement("ses_1", "req_1") is None
            await writer.append(user_message("two"))
            await writer.assert_unchanged()

    async def test_a_cancelled_append_is_atomic(self) -> None:
        """Once the caller gets the cancellation, the append has happened or will never happen."""
        async with self.session() as (store, writer):
            for delay in range(12):
                expected = await store.last_seq("ses_1")
                facts = [message_fact(expected + 1 + n) for n in range(3)]
                appending = asyncio.ensure_future(store.append(writer.lease, facts))
                for _ in range(delay // 2):
                    await asyncio.sleep(0)
                appending.cancel()
                await soon(asyncio.wait({appending}))
                after = await store.last_seq("ses_1")
                assert after in (expected, expected + 3)
                assert len(await store.read("ses_1")) == after

    async def test_sessions_written_in_parallel_keep_their_own_numbers(self) -> None:
        async with self.opened() as store:
            writers = [await self.new_session(store, f"ses_{number}") for number in range(20)]

            async def write(writer: SessionWriter) -> None:
                for number in range(10):
                    await writer.append(user_message(f"{writer.session} {number}"), assistant_message("yes"))

            await soon(asyncio.gather(*map(write, writers)))
            for writer in writers:
                await writer.assert_unchanged()

    async def test_a_refused_append_does_not_affect_parallel_ones(self) -> None:
        async with self.opened() as store:
            writers = [await self.new_session(store, f"ses_{number}") for number in range(12)]
            broken = Fact(2, "ses_4", "", 1, b'{"type":"session_renamed","title":7}')
            wrong = {3: message_fact(9, "ses_3"), 4: broken}
            work = []
            for number, writer in enumerate(writers):
                fact = wrong.get(number) or writer.fact(user_message("y"))
                work.append(store.append(writer.lease, [fact]))
            outcomes = await soon(asyncio.gather(*work, return_exceptions=True))
            assert [number for number, outcome in enumerate(outcomes) if outcome is not None] == [3, 4]
            for writer in writers:
                await writer.assert_unchanged()

    # --- read ---------------------------------------------------------------------------------------

    async def test_read_starts_after_a_number_and_stops_at_a_limit(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(*(user_message(str(number)) for number in range(9)))

            async def numbers(after: int = 0, limit: int | None = None) -> list[int]:
                return [fact.seq for fact in await store.read("ses_1", after, limit)]

            assert await numbers() == list(range(1, 11))
            assert await numbers(after=7) == [8, 9, 10]
            assert await numbers(after=2, limit=3) == [3, 4, 5]
            assert await numbers(after=10) == []
            assert await numbers(after=99) == []
            assert await numbers(limit=0) == []

    async def test_read_opening_gives_the_same_state_as_all_facts(self) -> None:
        """For simulated logs with crashes and open runs, cut at random places."""
        async with self.opened() as store:
            random = Random(5)
            for seed in range(12):
                facts = (await asyncio.to_thread(simulate, seed)).facts
                cuts = {len(facts), *(random.randint(1, len(facts)) for _ in range(8))}
                for cut in sorted(cuts):
                    session = f"ses_{seed}_{cut}"
                    await store.import_session(moved_to(session, facts[:cut]))
                    await _check_opening(store, session)

    async def test_read_opening_gives_the_live_state_of_a_driven_session(self) -> None:
        """After runs that ended, wait or failed, branches, settings, and a replaced history."""
        async with self.opened() as store:
            for seed in range(3):
                await _drive(store, Random(seed), f"ses_{seed}")

    async def test_read_opening_omits_facts_that_only_mattered_inside_ended_runs(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(events.RunStarted("0", "/", "m"), events.StepStarted(1), run="run_1")
            await writer.append(events.StepEnded(1), events.RunEnded("completed"), run="run_1")
            await writer.append(events.SessionRenamed("x"))
            assert "step_started" not in [fact.type for fact in await store.read_opening("ses_1")]
            await writer.append(events.RunStarted("0", "/", "m"), events.StepStarted(1), run="run_2")
            opening = [(fact.run, fact.type) for fact in await store.read_opening("ses_1")]
            assert ("run_1", "step_started") not in opening
            assert opening[-2:] == [("run_2", "run_started"), ("run_2", "step_started")]

    async def test_read_opening_gives_the_last_value_of_extension_state(self) -> None:
        async with self.session() as (store, writer):
            for run in ("run_1", "run_2"):
                await writer.append(events.RunStarted("0", "/", "m"), run=run)
                for number in range(20):
                    states = [events.ExtensionState("counter", key, number) for key in ("a", "b")]
                    await writer.append(*states, run=run)
                gone = events.ExtensionState("counter", "b")
                await writer.append(gone, events.RunEnded("completed"), run=run)
            assert (await _check_opening(store, "ses_1"))["extension_state"] == {"counter": {"a": 19}}

    async def test_read_opening_includes_usage_between_runs(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(events.RunStarted("0", "/", "m"), events.RunEnded("completed"), run="run_1")
            used = Usage(input_tokens=7, cost=0.5)
            await writer.append(events.UsageReported("msg_1", "m", used, used, purpose="summary"))
            await writer.append(events.RunStarted("0", "/", "m"), run="run_2")
            assert fold(await store.read_opening("ses_1")).usage == used

    # --- follow -------------------------------------------------------------------------------------

    async def test_follow_yields_old_facts_and_then_new_ones(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(user_message("two"))
            async with aclosing(store.follow("ses_1")) as batches:  # type: ignore[type-var]
                assert await soon(anext(batches)) == writer.facts
                batch = await waiting(anext(batches))
                new = await writer.append(user_message("three"), user_message("four"))
                assert await soon(batch) == new

    async def test_followers_get_every_fact_once_whenever_they_join(self) -> None:
        async with self.shared_session() as (store, other, writer):
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
                    after = random.randint(0, len(writer.facts))
                    task = asyncio.ensure_future(follow(random.choice((store, other)), after))
                    following.append((after, task))
                if random.random() < 0.5:
                    await asyncio.sleep(0)
                await writer.append(user_message("a"), assistant_message("b"), user_message("c"))
            for after, task in following:
                assert await soon(task) == list(range(after + 1, last + 1))

    async def test_two_followers_get_the_same_facts_in_the_same_order(self) -> None:
        async with self.session() as (store, writer):
            first, second = store.follow("ses_1"), store.follow("ses_1")
            for number in range(5):
                await writer.append(user_message(str(number)))
                assert await soon(anext(first)) == await soon(anext(second))

    async def test_another_handle_reads_a_fact_as_soon_as_it_is_appended(self) -> None:
        async with self.shared_session() as (store, other, writer):
            await writer.append(user_message("two"))
            assert await other.read("ses_1") == writer.facts
            assert await other.last_seq("ses_1") == 2
            assert (await other.summary("ses_1")) == await store.summary("ses_1")

    async def test_an_append_wakes_a_follower_of_another_handle(self) -> None:
        async with self.shared_session() as (_, other, writer):
            batch = await waiting(anext(aiter(other.follow("ses_1", after=1))))
            new = await writer.append(user_message("two"))
            assert await soon(batch) == new

    async def test_deleting_a_session_ends_its_followers(self) -> None:
        async with self.session() as (store, _):
            batch = await waiting(anext(aiter(store.follow("ses_1", after=1))))
            await store.delete("ses_1", HERE)
            await assert_raises(NotFound, batch)

    async def test_closing_the_store_ends_everything_that_waits(self) -> None:
        async with self.session() as (store, _):
            arrival = asyncio.ensure_future(store.arrivals("ses_1", await soon(store.arrivals("ses_1", -1))))
            batch = await waiting(anext(aiter(store.follow("ses_1", after=1))))
            await store.close()
            await assert_raises(StoreError, batch)
            await assert_raises(StoreError, arrival)
            await store.close()


async def _check_opening(store: Store, session: str) -> dict[str, Any]:
    """The state of a session, which must be the same from the opening facts as from all facts."""
    whole, opening = await store.read(session), await store.read_opening(session)
    numbers = [fact.seq for fact in opening]
    assert numbers == sorted(set(numbers))
    assert all(whole[fact.seq - 1] == fact for fact in opening)
    snapshot = fold(whole).snapshot()
    assert fold(opening).snapshot() == snapshot, f"{session}, cut at {len(whole)}"
    return snapshot


async def _drive(store: Store, random: Random, name: str) -> None:
    """Drives a session through runs, requests and other processes, and checks it whenever it is idle."""
    harness = Harness(ScriptedModel(_answers(random)), wait_for_answers=True)
    harness.set_tools(_tools())
    session = await create_session(store, harness, session=name)
    for number in range(6):
        await session.prompt(as_content(f"prompt {number}"))
        await _compare_state(store, session)
        for request in _between_runs(random, number, await store.read(name)):
            await store.submit(name, request)
        await session.advance()
        await _compare_state(store, session)
        while session.state.run is not None:
            await store.submit(name, requests.Cancel(id=f"enough {number}"))
            await session.advance()
        if random.random() < 0.3:
            await session.replace_history((user("what was before"),))
        if random.random() < 0.5:
            await session.close()
            session = await open_session(store, name, harness)
        await _compare_state(store, session)
    await session.close()


async def _compare_state(store: Store, session: Session) -> None:
    assert await _check_opening(store, session.id) == session.state.snapshot()


def _answers(random: Random) -> list[Turn]:
    calls = (Call("look"), Call("ask"), Call("order"), Call("nonsense"), Call("look", raw="{"))
    refused = Turn(text="half an ans", failure=Failure("invalid_request", "no"))

    def turn() -> Turn:
        draw = random.random()
        if draw < 0.1:
            return refused
        if draw < 0.5:
            return Turn(text="let me see", calls=tuple(random.choices(calls, k=random.randint(1, 3))))
        return Turn(text="the answer", reasoning="hm")

    return [turn() for _ in range(60)]


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
