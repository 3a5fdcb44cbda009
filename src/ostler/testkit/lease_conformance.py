"""The contract of `Leases`: one writer a session, by the store's clock."""

from __future__ import annotations

from ostler.kernel.processes import ProcessId
from ostler.log.leasing import LEASE_MS
from ostler.testkit.store_cases import DEAD, ELSEWHERE, HERE, StoreCases, other_process, raises, said
from ostler.vocabulary import events
from ostler.vocabulary.errors import LeaseLost, SessionHeld
from ostler.vocabulary.facts import Fact
from ostler.vocabulary.messages import as_content

PERIOD = LEASE_MS / 1000


class LeaseConformance(StoreCases):
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
            refusal = await raises(SessionHeld, other.acquire("ses_1", HERE))
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
            await raises(LeaseLost, store.append(former, [_next(writing.facts[-1].seq)]))
            await raises(LeaseLost, store.renew(former))
            await writing.append(said("two"))
            await writing.is_unchanged()

    async def test_an_owner_elsewhere_keeps_it_until_it_expires(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            held = await store.acquire("ses_1", ELSEWHERE)
            self.clock.pass_seconds(PERIOD - 0.001)
            refusal = await raises(SessionHeld, store.acquire("ses_1", HERE))
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
            await raises(SessionHeld, store.acquire("ses_1", HERE))
            self.clock.pass_seconds(PERIOD * 0.25)
            await store.acquire("ses_1", HERE)

    async def test_an_expired_lease_still_writes_until_somebody_takes_it(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            self.clock.pass_seconds(PERIOD * 2)
            await writing.append(said("late, but nobody else is here"))
            writing.lease = await store.renew(writing.lease)
            await writing.is_unchanged()

    async def test_a_lease_at_rest_still_writes_until_somebody_takes_it(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            writing.lease = await store.rest(writing.lease)
            assert await store.holder("ses_1") is None
            await writing.append(said("still mine"))
            writing.lease = await store.renew(writing.lease)
            assert await store.holder("ses_1") == HERE
            writing.lease = await store.rest(writing.lease)
            await store.acquire("ses_1", ELSEWHERE)
            await raises(LeaseLost, store.rest(writing.lease))

    async def test_after_a_take_over_the_former_owner_can_do_nothing(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            self.clock.pass_seconds(PERIOD)
            taken = await other.acquire("ses_1", ELSEWHERE)
            former = writing.lease
            await raises(LeaseLost, store.append(former, [_next(1)]))
            await raises(LeaseLost, store.renew(former))
            await raises(LeaseLost, store.own_process(former, "call_1", HERE))
            await store.release(former)
            await raises(SessionHeld, store.acquire("ses_1", HERE))
            assert await store.owned_processes("ses_1") == []
            await other.append(taken, [_next(1)])
            assert await store.last_seq("ses_1") == 2

    async def test_a_released_lease_writes_nothing_any_more(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.release(writing.lease)
            await raises(LeaseLost, store.append(writing.lease, [_next(1)]))
            await raises(LeaseLost, store.renew(writing.lease))
            await store.release(writing.lease)
            await writing.is_unchanged()

    async def test_a_lease_on_a_deleted_session_is_lost_even_if_the_session_returns(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            self.clock.pass_seconds(PERIOD)
            await store.delete("ses_1", ELSEWHERE)
            await raises(LeaseLost, store.renew(writing.lease))
            await raises(LeaseLost, store.append(writing.lease, [_next(1)]))
            await store.release(writing.lease)
            await store.create(writing.facts[0], ELSEWHERE)
            await raises(LeaseLost, store.append(writing.lease, [_next(1)]))

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
    return Fact.of(said("x"), seq=last + 1, session="ses_1", run="", time_ms=1, parent=0)


def _process(pid: int) -> ProcessId:
    return ProcessId(pid=pid, started="then", boot="a boot", host="a host")
