"""The contracts of leases (one writer a session), inbox (pending requests) and blobs (large bytes)."""

from __future__ import annotations

import asyncio

from ostler.core.processes import ProcessId
from ostler.core.store import Store
from ostler.schema import events, requests
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef, as_content
from ostler.schema.outcomes import ok
from ostler.store.rules import LEASE_MS
from ostler.testkit.store_conformance.cases import (
    DEAD,
    ELSEWHERE,
    HERE,
    StoreTestCase,
    assert_raises,
    other_process,
    soon,
    user_message,
)

PERIOD = LEASE_MS / 1000


class LeaseConformance(StoreTestCase):
    async def test_a_released_lease_is_free(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            lease = await store.acquire("ses_1", ELSEWHERE)
            assert lease.owner == ELSEWHERE
            assert lease.generation > writing.lease.generation

    async def test_a_lease_lasts_for_its_period_by_the_stores_clock(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            assert writing.lease.expires_ms == self.clock.ms + LEASE_MS
            self.clock.pass_seconds(5)
            renewed = await store.renew(writing.lease)
            assert renewed.expires_ms == self.clock.ms + LEASE_MS
            assert renewed.generation == writing.lease.generation

    async def test_a_living_process_keeps_its_session_and_is_named(self) -> None:
        async with self.opened_twice() as (store, other), other_process() as holder:
            writing = await self.begun(store)
            await store.release(writing.lease)
            await store.acquire("ses_1", holder.id)
            refusal = await assert_raises(SessionHeld, other.acquire("ses_1", HERE))
            assert str(holder.id.pid) in refusal.message
            assert "\n" not in refusal.message

    async def test_what_a_dead_process_held_is_free_at_once(self) -> None:
        async with self.opened_twice() as (store, other), other_process() as holder:
            writing = await self.begun(store)
            await store.release(writing.lease)
            held = await store.acquire("ses_1", holder.id)
            await holder.die()
            lease = await other.acquire("ses_1", HERE)
            assert lease.generation > held.generation

    async def test_a_later_process_with_the_same_pid_is_another_one(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            await store.acquire("ses_1", DEAD)
            assert (await store.acquire("ses_1", HERE)).owner == HERE

    async def test_our_own_lease_can_be_taken_again_and_ends_the_former(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            former, writing.lease = writing.lease, await store.acquire("ses_1", HERE)
            assert writing.lease.generation > former.generation
            await assert_raises(LeaseLost, store.append(former, [_next(writing.facts[-1].seq)]))
            await assert_raises(LeaseLost, store.renew(former))
            await writing.append(user_message("two"))
            await writing.is_unchanged()

    async def test_an_owner_elsewhere_keeps_it_until_it_expires(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            held = await store.acquire("ses_1", ELSEWHERE)
            self.clock.pass_seconds(PERIOD - 0.001)
            refusal = await assert_raises(SessionHeld, store.acquire("ses_1", HERE))
            assert ELSEWHERE.host in refusal.message
            self.clock.pass_seconds(0.001)
            lease = await store.acquire("ses_1", HERE)
            assert lease.generation > held.generation

    async def test_renewing_puts_the_expiry_off(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            held = await store.acquire("ses_1", ELSEWHERE)
            self.clock.pass_seconds(PERIOD / 2)
            held = await store.renew(held)
            self.clock.pass_seconds(PERIOD * 0.75)
            await assert_raises(SessionHeld, store.acquire("ses_1", HERE))
            self.clock.pass_seconds(PERIOD * 0.25)
            await store.acquire("ses_1", HERE)

    async def test_an_expired_lease_still_writes_until_somebody_takes_it(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            self.clock.pass_seconds(PERIOD * 2)
            await writing.append(user_message("late, but nobody else is here"))
            writing.lease = await store.renew(writing.lease)
            await writing.is_unchanged()

    async def test_a_lease_at_rest_still_writes_until_somebody_takes_it(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            writing.lease = await store.suspend(writing.lease)
            assert await store.holder("ses_1") is None
            await writing.append(user_message("still mine"))
            writing.lease = await store.renew(writing.lease)
            assert await store.holder("ses_1") == HERE
            writing.lease = await store.suspend(writing.lease)
            await store.acquire("ses_1", ELSEWHERE)
            await assert_raises(LeaseLost, store.suspend(writing.lease))

    async def test_after_a_take_over_the_former_owner_can_do_nothing(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            self.clock.pass_seconds(PERIOD)
            taken = await other.acquire("ses_1", ELSEWHERE)
            former = writing.lease
            await assert_raises(LeaseLost, store.append(former, [_next(1)]))
            await assert_raises(LeaseLost, store.renew(former))
            await assert_raises(LeaseLost, store.own_process(former, "call_1", HERE))
            await store.release(former)
            await assert_raises(SessionHeld, store.acquire("ses_1", HERE))
            assert await store.owned_processes("ses_1") == []
            await other.append(taken, [_next(1)])
            assert await store.last_seq("ses_1") == 2

    async def test_a_released_lease_writes_nothing_any_more(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            await assert_raises(LeaseLost, store.append(writing.lease, [_next(1)]))
            await assert_raises(LeaseLost, store.renew(writing.lease))
            await store.release(writing.lease)
            await writing.is_unchanged()

    async def test_a_lease_on_a_deleted_session_is_lost_even_if_the_session_returns(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            self.clock.pass_seconds(PERIOD)
            await store.delete("ses_1", ELSEWHERE)
            await assert_raises(LeaseLost, store.renew(writing.lease))
            await assert_raises(LeaseLost, store.append(writing.lease, [_next(1)]))
            await store.release(writing.lease)
            await store.create(writing.facts[0], ELSEWHERE)
            await assert_raises(LeaseLost, store.append(writing.lease, [_next(1)]))

    # --- the processes of running tools -------------------------------------------------------------

    async def test_a_result_removes_the_processes_of_its_call(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            first, second = _process(101), _process(102)
            await store.own_process(writing.lease, "call_1", first)
            await store.own_process(writing.lease, "call_1", second)
            await store.own_process(writing.lease, "call_2", first)
            assert sorted(await other.owned_processes("ses_1"), key=str) == [
                ("call_1", first),
                ("call_1", second),
                ("call_2", first),
            ]
            await writing.append(events.ToolResultFact("call_1", "bash", as_content("done")))
            assert await other.owned_processes("ses_1") == [("call_2", first)]
            await writing.append(events.ToolResultFact("call_2", "bash", failed="tool_cancelled"))
            assert await other.owned_processes("ses_1") == []

    async def test_processes_outlive_their_owners_lease(self) -> None:
        """Whoever takes over must find them."""
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.own_process(writing.lease, "call_1", _process(101))
            self.clock.pass_seconds(PERIOD)
            await store.acquire("ses_1", ELSEWHERE)
            assert await store.owned_processes("ses_1") == [("call_1", _process(101))]

    async def test_calls_of_the_same_name_in_two_sessions_are_two_calls(self) -> None:
        async with self.opened() as store:
            one, two = await self.begun(store), await self.begun(store, "ses_2")
            await store.own_process(one.lease, "call_0", _process(101))
            await store.own_process(two.lease, "call_0", _process(102))
            await one.append(events.ToolResultFact("call_0", "bash"))
            assert await store.owned_processes("ses_1") == []
            assert await store.owned_processes("ses_2") == [("call_0", _process(102))]


def _next(last: int) -> Fact:
    return Fact.of(user_message("x"), seq=last + 1, session="ses_1", run="", time_ms=1, parent=0)


def _process(pid: int) -> ProcessId:
    return ProcessId(pid=pid, started="then", boot="a boot", host="a host")


class InboxConformance(StoreTestCase):
    async def test_a_request_counts_once(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            first = requests.Rename(id="req_1", title="the first")
            assert await store.submit("ses_1", first) is True
            assert await store.submit("ses_1", first) is False
            assert await other.submit("ses_1", requests.Rename(id="req_1", title="the second")) is False
            assert await other.pending("ses_1") == [first]
            await writing.append(events.SessionRenamed("the first", "req_1"), settled={"req_1": 2})
            assert await other.submit("ses_1", first) is False
            assert await store.pending("ses_1") == []

    async def test_an_id_counts_for_its_own_session_only(self) -> None:
        async with self.opened() as store:
            one, _ = await self.begun(store), await self.begun(store, "ses_2")
            request = requests.Pause(id="req_1")
            assert await store.submit("ses_1", request)
            assert await store.submit("ses_2", request)
            await one.append(events.RequestRefused("req_1", "no"), settled={"req_1": 2})
            assert await store.pending("ses_1") == []
            assert await store.pending("ses_2") == [request]
            assert await store.settlement("ses_2", "req_1") is None

    async def test_anyone_may_submit_without_a_lease(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            assert await other.submit("ses_1", requests.Pause(id="req_1"))
            await store.release(writing.lease)
            assert await other.submit("ses_1", requests.Pause(id="req_2"))
            assert [request.id for request in await store.pending("ses_1")] == ["req_1", "req_2"]

    async def test_requests_come_in_order_but_cancel_and_answer_overtake(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            submitted: list[requests.AnyRequest] = [
                requests.Prompt(id="z", content=as_content("first")),
                requests.Steer(id="y", content=as_content("second")),
                requests.Answer(id="x", question="q_1", answer={"colour": "red"}),
                requests.Prompt(id="w", content=as_content("third")),
                requests.Cancel(id="v", call="call_1"),
                requests.FinishCall(id="u", call="call_2", outcome=ok("later")),
            ]
            for request in submitted:
                await store.submit("ses_1", request)
            pending = await store.pending("ses_1")
            assert [request.id for request in pending] == ["x", "v", "z", "y", "w", "u"]
            assert sorted(pending, key=lambda request: request.id, reverse=True) == submitted

    async def test_a_request_is_settled_with_the_facts_that_settle_it(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            for number in (1, 2, 3):
                await store.submit("ses_1", requests.Prompt(id=f"req_{number}", content=as_content("go")))
            await writing.append(user_message("go"), user_message("go on"), settled={"req_1": 2, "req_2": 3})
            assert [request.id for request in await store.pending("ses_1")] == ["req_3"]
            assert await store.settlement("ses_1", "req_1") == 2
            assert await store.settlement("ses_1", "req_2") == 3
            assert await store.settlement("ses_1", "req_3") is None
            assert await store.settlement("ses_1", "req_unknown") is None

    async def test_the_first_settlement_stands(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.submit("ses_1", requests.Pause(id="req_1"))
            await writing.append(user_message("two"), settled={"req_1": 2})
            await writing.append(user_message("three"), settled={"req_1": 3})
            assert await store.settlement("ses_1", "req_1") == 2

    async def test_a_request_that_was_settled_without_the_inbox_is_known_too(self) -> None:
        """A face in the owner's process hands its prompt over directly; a second try must not start a run."""
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(user_message("two"), settled={"req_1": 2})
            assert await store.settlement("ses_1", "req_1") == 2
            assert (
                await store.submit("ses_1", requests.Prompt(id="req_1", content=as_content("two"))) is False
            )
            assert await store.pending("ses_1") == []

    async def test_arrivals_return_at_once_to_who_has_seen_nothing(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            seen = await soon(store.arrivals("ses_1", -1))
            await store.submit("ses_1", requests.Pause(id="req_1"))
            assert await soon(store.arrivals("ses_1", seen)) != seen

    async def test_a_request_wakes_whoever_waits_for_one(self) -> None:
        async with self.opened_twice() as (store, other):
            await self.begun(store)
            for number, submitter in enumerate((store, other, store)):
                waiting = asyncio.ensure_future(_next_request(store, f"req_{number}"))
                await asyncio.sleep(0)
                assert not waiting.done()
                await submitter.submit("ses_1", requests.Pause(id=f"req_{number}"))
                await soon(waiting)

    async def test_waiting_ends_when_the_session_is_deleted(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            waiting = asyncio.ensure_future(_next_request(store, "req_never"))
            await asyncio.sleep(0)
            await store.delete("ses_1", HERE)
            await assert_raises(NotFound, waiting)


async def _next_request(store: Store, request: str) -> None:
    """Waits as the owner of a session does: look, wait for arrivals, look again."""
    seen = -1
    while True:
        seen = await store.arrivals("ses_1", seen)
        if any(pending.id == request for pending in await store.pending("ses_1")):
            return


class BlobConformance(StoreTestCase):
    async def test_a_blob_grows_piece_by_piece_and_can_be_read_meanwhile(self) -> None:
        async with self.opened_twice() as (store, other):
            await self.begun(store)
            whole = b""
            for piece in (b"one, ", b"", bytes(range(256)), b"x" * 100_000):
                await store.append_blob("ses_1", "out_1", piece, "application/x-mixed")
                whole += piece
                assert await other.read_blob("ses_1", "out_1") == whole
                assert await other.blob("ses_1", "out_1") == BlobRef(
                    "out_1", len(whole), "application/x-mixed"
                )

    async def test_any_range_of_a_blob_can_be_read(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            whole = bytes(range(100))
            for start in range(0, 100, 7):
                await store.append_blob("ses_1", "out_1", whole[start : start + 7])
            for start in (0, 1, 6, 7, 8, 50, 99, 100, 200):
                assert await store.read_blob("ses_1", "out_1", start) == whole[start:]
                for size in (0, 1, 6, 7, 8, 13, 99, 100, 1000):
                    assert await store.read_blob("ses_1", "out_1", start, size) == whole[start : start + size]

    async def test_an_empty_blob_exists(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            await store.append_blob("ses_1", "out_1", b"")
            assert await store.blob("ses_1", "out_1") == BlobRef("out_1", 0, "text/plain")
            assert await store.read_blob("ses_1", "out_1") == b""

    async def test_a_missing_blob_is_not_found(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            assert await store.blob("ses_1", "out_none") is None
            await assert_raises(NotFound, store.read_blob("ses_1", "out_none"))

    async def test_a_blobs_name_is_its_sessions_own(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            await self.begun(store, "ses_2")
            await store.append_blob("ses_1", "out_call_0", b"of the first")
            assert await store.blob("ses_2", "out_call_0") is None
            await store.append_blob("ses_2", "out_call_0", b"of the second")
            assert await store.read_blob("ses_1", "out_call_0") == b"of the first"
            assert await store.read_blob("ses_2", "out_call_0") == b"of the second"
