"""The contracts of leases (one writer a session), inbox (pending requests) and blobs (large bytes)."""

from __future__ import annotations

from ostler.core.process_tree import local_user
from ostler.core.processes import ProcessId
from ostler.core.store import Store, accepted
from ostler.schema import events, requests
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld
from ostler.schema.messages import BlobRef, as_content
from ostler.schema.outcomes import ok
from ostler.store.rules import LEASE_MS
from ostler.testkit.store_conformance.cases import (
    DEAD,
    ELSEWHERE,
    HERE,
    StoreTestCase,
    assert_raises,
    message_fact,
    other_process,
    soon,
    user_message,
    waiting,
)

PERIOD = LEASE_MS / 1000


class LeaseConformance(StoreTestCase):
    async def test_a_released_lease_is_free(self) -> None:
        async with self.session() as (_, writer):
            lease = await writer.hand_over(ELSEWHERE)
            assert lease.owner == ELSEWHERE
            assert lease.generation > writer.lease.generation

    async def test_a_lease_lasts_for_its_period_by_the_stores_clock(self) -> None:
        async with self.session() as (store, writer):
            assert writer.lease.expires_ms == self.clock.ms + LEASE_MS
            self.clock.pass_seconds(5)
            renewed = await store.renew(writer.lease)
            assert renewed.expires_ms == self.clock.ms + LEASE_MS
            assert renewed.generation == writer.lease.generation

    async def test_acquire_names_the_living_process_that_holds_the_session(self) -> None:
        async with self.shared_session() as (_, other, writer), other_process() as holder:
            await writer.hand_over(holder.id)
            refusal = await assert_raises(SessionHeld, other.acquire("ses_1", HERE))
            assert str(holder.id.pid) in refusal.message
            assert "\n" not in refusal.message

    async def test_a_lease_is_free_as_soon_as_its_process_is_dead(self) -> None:
        async with self.shared_session() as (_, other, writer), other_process() as holder:
            held = await writer.hand_over(holder.id)
            await holder.die()
            lease = await other.acquire("ses_1", HERE)
            assert lease.generation > held.generation

    async def test_a_later_process_with_the_same_pid_is_not_the_owner(self) -> None:
        async with self.session() as (store, writer):
            await writer.hand_over(DEAD)
            assert (await store.acquire("ses_1", HERE)).owner == HERE

    async def test_acquiring_our_own_lease_again_invalidates_the_former(self) -> None:
        async with self.session() as (store, writer):
            former, writer.lease = writer.lease, await store.acquire("ses_1", HERE)
            assert writer.lease.generation > former.generation
            await assert_raises(LeaseLost, store.append(former, [message_fact(2)]))
            await assert_raises(LeaseLost, store.renew(former))
            await writer.append(user_message("two"))
            await writer.assert_unchanged()

    async def test_an_owner_on_another_host_keeps_its_lease_until_it_expires(self) -> None:
        async with self.session() as (store, writer):
            held = await writer.hand_over(ELSEWHERE)
            self.clock.pass_seconds(PERIOD - 0.001)
            refusal = await assert_raises(SessionHeld, store.acquire("ses_1", HERE))
            assert ELSEWHERE.host in refusal.message
            self.clock.pass_seconds(0.001)
            lease = await store.acquire("ses_1", HERE)
            assert lease.generation > held.generation

    async def test_renewing_postpones_the_expiry(self) -> None:
        async with self.session() as (store, writer):
            held = await writer.hand_over(ELSEWHERE)
            self.clock.pass_seconds(PERIOD / 2)
            held = await store.renew(held)
            self.clock.pass_seconds(PERIOD * 0.75)
            await assert_raises(SessionHeld, store.acquire("ses_1", HERE))
            self.clock.pass_seconds(PERIOD * 0.25)
            await store.acquire("ses_1", HERE)

    async def test_an_expired_lease_still_writes_until_another_process_acquires_it(self) -> None:
        async with self.session() as (store, writer):
            self.clock.pass_seconds(PERIOD * 2)
            await writer.append(user_message("late, but nobody else is here"))
            writer.lease = await store.renew(writer.lease)
            await writer.assert_unchanged()

    async def test_a_suspended_lease_still_writes_until_another_process_acquires_it(self) -> None:
        async with self.session() as (store, writer):
            writer.lease = await store.suspend(writer.lease)
            assert await store.holder("ses_1") is None
            await writer.append(user_message("still mine"))
            writer.lease = await store.renew(writer.lease)
            assert await store.holder("ses_1") == HERE
            writer.lease = await store.suspend(writer.lease)
            await store.acquire("ses_1", ELSEWHERE)
            await assert_raises(LeaseLost, store.suspend(writer.lease))

    async def test_the_former_owner_can_write_nothing_after_a_take_over(self) -> None:
        async with self.shared_session() as (store, other, writer):
            self.clock.pass_seconds(PERIOD)
            taken = await other.acquire("ses_1", ELSEWHERE)
            former = writer.lease
            await assert_raises(LeaseLost, store.append(former, [message_fact(2)]))
            await assert_raises(LeaseLost, store.renew(former))
            await assert_raises(LeaseLost, store.own_process(former, "call_1", HERE))
            await store.release(former)
            await assert_raises(SessionHeld, store.acquire("ses_1", HERE))
            assert await store.owned_processes("ses_1") == []
            await other.append(taken, [message_fact(2)])
            assert await store.last_seq("ses_1") == 2

    async def test_a_released_lease_cannot_write(self) -> None:
        async with self.session() as (store, writer):
            await store.release(writer.lease)
            await assert_raises(LeaseLost, store.append(writer.lease, [message_fact(2)]))
            await assert_raises(LeaseLost, store.renew(writer.lease))
            await store.release(writer.lease)
            await writer.assert_unchanged()

    async def test_a_lease_on_a_deleted_session_is_lost_even_if_the_session_is_created_again(self) -> None:
        async with self.session() as (store, writer):
            self.clock.pass_seconds(PERIOD)
            await store.delete("ses_1", ELSEWHERE)
            await assert_raises(LeaseLost, store.renew(writer.lease))
            await assert_raises(LeaseLost, store.append(writer.lease, [message_fact(2)]))
            await store.release(writer.lease)
            await store.create(writer.facts[0], ELSEWHERE)
            await assert_raises(LeaseLost, store.append(writer.lease, [message_fact(2)]))

    # --- the processes of running tools -------------------------------------------------------------

    async def test_a_result_removes_the_processes_of_its_call(self) -> None:
        async with self.shared_session() as (store, other, writer):
            first, second = _process(101), _process(102)
            await store.own_process(writer.lease, "call_1", first)
            await store.own_process(writer.lease, "call_1", second)
            await store.own_process(writer.lease, "call_2", first)
            expected = [("call_1", first), ("call_1", second), ("call_2", first)]
            assert sorted(await other.owned_processes("ses_1"), key=str) == expected
            await writer.append(events.ToolResultFact("call_1", "bash", as_content("done")))
            assert await other.owned_processes("ses_1") == [("call_2", first)]
            await writer.append(events.ToolResultFact("call_2", "bash", failed="tool_cancelled"))
            assert await other.owned_processes("ses_1") == []

    async def test_processes_outlive_their_owners_lease(self) -> None:
        """The next owner must find them."""
        async with self.session() as (store, writer):
            await store.own_process(writer.lease, "call_1", _process(101))
            self.clock.pass_seconds(PERIOD)
            await store.acquire("ses_1", ELSEWHERE)
            assert await store.owned_processes("ses_1") == [("call_1", _process(101))]

    async def test_a_call_id_belongs_to_its_session(self) -> None:
        async with self.opened() as store:
            one, two = await self.new_session(store), await self.new_session(store, "ses_2")
            await store.own_process(one.lease, "call_0", _process(101))
            await store.own_process(two.lease, "call_0", _process(102))
            await one.append(events.ToolResultFact("call_0", "bash"))
            assert await store.owned_processes("ses_1") == []
            assert await store.owned_processes("ses_2") == [("call_0", _process(102))]


def _process(pid: int) -> ProcessId:
    return ProcessId(pid=pid, started="then", boot="a boot", host="a host")


class InboxConformance(StoreTestCase):
    async def test_a_request_with_a_known_id_is_rejected(self) -> None:
        async with self.shared_session() as (store, other, writer):
            first = requests.Rename(id="req_1", title="the first")
            assert await store.submit("ses_1", first) is True
            assert await store.submit("ses_1", first) is False
            assert await other.submit("ses_1", requests.Rename(id="req_1", title="the second")) is False
            assert await other.pending("ses_1") == [first]
            await writer.append(events.SessionRenamed("the first", "req_1"), settled={"req_1": 2})
            assert await other.submit("ses_1", first) is False
            assert await store.pending("ses_1") == []

    async def test_a_request_id_belongs_to_its_session(self) -> None:
        async with self.opened() as store:
            one, _ = await self.new_session(store), await self.new_session(store, "ses_2")
            request = requests.Pause(id="req_1")
            assert await store.submit("ses_1", request)
            assert await store.submit("ses_2", request)
            await one.append(events.RequestRefused("req_1", "no"), settled={"req_1": 2})
            assert await store.pending("ses_1") == []
            assert await store.pending("ses_2") == [request]
            assert await store.settlement("ses_2", "req_1") is None

    async def test_anyone_may_submit_without_a_lease(self) -> None:
        async with self.shared_session() as (store, other, writer):
            assert await other.submit("ses_1", requests.Pause(id="req_1"))
            await store.release(writer.lease)
            assert await other.submit("ses_1", requests.Pause(id="req_2"))
            assert [request.id for request in await store.pending("ses_1")] == ["req_1", "req_2"]

    async def test_requests_are_pending_in_order_but_cancel_and_answer_overtake(self) -> None:
        async with self.session() as (store, _):
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
            stored = [accepted(request) for request in submitted]
            assert sorted(pending, key=lambda request: request.id, reverse=True) == stored

    async def test_an_answer_names_the_user_of_this_process_unless_the_server_has_set_a_token(self) -> None:
        async with self.session() as (store, _):
            await store.submit("ses_1", requests.Answer(id="a", question="q_1", answer="yes", by="eve"))
            token = requests.Answer(id="b", question="q_1", answer="yes", identity="token:phone")
            await store.submit("ses_1", token)
            local, remote = await store.pending("ses_1")
            assert isinstance(local, requests.Answer) and isinstance(remote, requests.Answer)
            assert (local.by, local.identity) == ("eve", local_user())
            assert remote.identity == "token:phone"

    async def test_every_handle_of_a_store_has_its_one_id(self) -> None:
        async with self.shared_session() as (store, other, _):
            assert store.id and other.id == store.id
            assert store.consent_problem() == ""

    async def test_append_settles_requests(self) -> None:
        async with self.session() as (store, writer):
            for number in (1, 2, 3):
                await store.submit("ses_1", requests.Prompt(id=f"req_{number}", content=as_content("go")))
            await writer.append(user_message("go"), user_message("go on"), settled={"req_1": 2, "req_2": 3})
            assert [request.id for request in await store.pending("ses_1")] == ["req_3"]
            assert await store.settlement("ses_1", "req_1") == 2
            assert await store.settlement("ses_1", "req_2") == 3
            assert await store.settlement("ses_1", "req_3") is None
            assert await store.settlement("ses_1", "req_unknown") is None

    async def test_a_settlement_never_changes(self) -> None:
        async with self.session() as (store, writer):
            await store.submit("ses_1", requests.Pause(id="req_1"))
            await writer.append(user_message("two"), settled={"req_1": 2})
            await writer.append(user_message("three"), settled={"req_1": 3})
            assert await store.settlement("ses_1", "req_1") == 2

    async def test_a_request_that_was_settled_without_the_inbox_cannot_be_submitted(self) -> None:
        """A front end in the owner's process does not use the inbox; its retry must not start another run."""
        async with self.session() as (store, writer):
            await writer.append(user_message("two"), settled={"req_1": 2})
            assert await store.settlement("ses_1", "req_1") == 2
            prompt = requests.Prompt(id="req_1", content=as_content("two"))
            assert await store.submit("ses_1", prompt) is False
            assert await store.pending("ses_1") == []

    async def test_arrivals_returns_at_once_for_an_old_version(self) -> None:
        async with self.session() as (store, _):
            seen = await soon(store.arrivals("ses_1", -1))
            await store.submit("ses_1", requests.Pause(id="req_1"))
            assert await soon(store.arrivals("ses_1", seen)) != seen

    async def test_a_request_wakes_arrivals(self) -> None:
        async with self.shared_session() as (store, other, _):
            for number, submitter in enumerate((store, other, store)):
                arrival = await waiting(_arrival(store, f"req_{number}"))
                await submitter.submit("ses_1", requests.Pause(id=f"req_{number}"))
                await soon(arrival)

    async def test_arrivals_ends_when_the_session_is_deleted(self) -> None:
        async with self.session() as (store, _):
            arrival = await waiting(_arrival(store, "req_never"))
            await store.delete("ses_1", HERE)
            await assert_raises(NotFound, arrival)


async def _arrival(store: Store, request: str) -> None:
    """Waits for a request as the owner of a session does."""
    seen = -1
    while True:
        seen = await store.arrivals("ses_1", seen)
        if any(pending.id == request for pending in await store.pending("ses_1")):
            return


class BlobConformance(StoreTestCase):
    async def test_a_growing_blob_can_be_read(self) -> None:
        async with self.shared_session() as (store, other, _):
            whole = b""
            for piece in (b"one, ", b"", bytes(range(256)), b"x" * 100_000):
                await store.append_blob("ses_1", "out_1", piece, "application/x-mixed")
                whole += piece
                assert await other.read_blob("ses_1", "out_1") == whole
                blob = BlobRef("out_1", len(whole), "application/x-mixed")
                assert await other.blob("ses_1", "out_1") == blob

    async def test_any_range_of_a_blob_can_be_read(self) -> None:
        async with self.session() as (store, _):
            whole = bytes(range(100))
            for start in range(0, 100, 7):
                await store.append_blob("ses_1", "out_1", whole[start : start + 7])
            for start in (0, 1, 6, 7, 8, 50, 99, 100, 200):
                assert await store.read_blob("ses_1", "out_1", start) == whole[start:]
                for size in (0, 1, 6, 7, 8, 13, 99, 100, 1000):
                    assert await store.read_blob("ses_1", "out_1", start, size) == whole[start : start + size]

    async def test_an_empty_blob_exists(self) -> None:
        async with self.session() as (store, _):
            await store.append_blob("ses_1", "out_1", b"")
            assert await store.blob("ses_1", "out_1") == BlobRef("out_1", 0, "text/plain")
            assert await store.read_blob("ses_1", "out_1") == b""

    async def test_a_missing_blob_is_not_found(self) -> None:
        async with self.session() as (store, _):
            assert await store.blob("ses_1", "out_none") is None
            await assert_raises(NotFound, store.read_blob("ses_1", "out_none"))

    async def test_a_blob_id_belongs_to_its_session(self) -> None:
        async with self.session() as (store, _):
            await self.new_session(store, "ses_2")
            await store.append_blob("ses_1", "out_call_0", b"of the first")
            assert await store.blob("ses_2", "out_call_0") is None
            await store.append_blob("ses_2", "out_call_0", b"of the second")
            assert await store.read_blob("ses_1", "out_call_0") == b"of the first"
            assert await store.read_blob("ses_2", "out_call_0") == b"of the second"
