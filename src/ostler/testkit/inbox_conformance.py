"""The contract of `Inbox`: requests that a session has not yet taken up."""

from __future__ import annotations

import asyncio

from ostler.kernel.store import Store
from ostler.testkit.store_cases import HERE, StoreCases, raises, said, soon
from ostler.vocabulary import events, requests
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.messages import as_content
from ostler.vocabulary.outcomes import ok


class InboxConformance(StoreCases):
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
            assert await store.settled("ses_2", "req_1") is None

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
            await writing.append(said("go"), said("go on"), settled={"req_1": 2, "req_2": 3})
            assert [request.id for request in await store.pending("ses_1")] == ["req_3"]
            assert await store.settled("ses_1", "req_1") == 2
            assert await store.settled("ses_1", "req_2") == 3
            assert await store.settled("ses_1", "req_3") is None
            assert await store.settled("ses_1", "req_unknown") is None

    async def test_the_first_settlement_stands(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await store.submit("ses_1", requests.Pause(id="req_1"))
            await writing.append(said("two"), settled={"req_1": 2})
            await writing.append(said("three"), settled={"req_1": 3})
            assert await store.settled("ses_1", "req_1") == 2

    async def test_a_request_that_was_settled_without_the_inbox_is_known_too(self) -> None:
        """A face in the owner's process hands its prompt over directly; a second try must not start a run."""
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(said("two"), settled={"req_1": 2})
            assert await store.settled("ses_1", "req_1") == 2
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
            await raises(NotFound, waiting)


async def _next_request(store: Store, request: str) -> None:
    """Waits as the owner of a session does: look, wait for arrivals, look again."""
    seen = -1
    while True:
        seen = await store.arrivals("ses_1", seen)
        if any(pending.id == request for pending in await store.pending("ses_1")):
            return
