"""The journal during a running append: its waiters, and its failure."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from ostler.core.journal import Journal, World, open_journal
from ostler.core.processes import current_process
from ostler.core.store import NO_REQUESTS, Lease
from ostler.schema.errors import StoreError, StoreFull
from ostler.schema.events import Event, SessionRenamed, SessionStarted, StoreFailed
from ostler.schema.facts import Fact
from ostler.store.memory import MemoryStore


class SlowStore(MemoryStore):
    """Appends when `finish_append` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[asyncio.Future[None], Lease, Sequence[Fact], Mapping[str, int]]] = []

    def append_now(
        self, lease: Lease, facts: Sequence[Fact], settled: Mapping[str, int] = NO_REQUESTS
    ) -> bool | asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((done, lease, facts, settled))
        return done

    async def finish_append(self, problem: StoreError | None = None) -> None:
        """Ends the oldest append, and lets those who waited for it go on."""
        done, lease, facts, settled = self.waiting.pop(0)
        if problem is None:
            super().append_now(lease, facts, settled)
            done.set_result(None)
        else:
            done.set_exception(problem)
        for _ in range(5):
            await asyncio.sleep(0)


class Watched:
    """A journal, what its observers saw, and its commits."""

    def __init__(self, store: SlowStore, journal: Journal) -> None:
        self.store = store
        self.journal = journal
        self.seen: list[Fact | Event] = []
        journal.subscribe(self.seen.extend)

    def titles(self) -> list[str]:
        events = [item.event for item in self.seen if isinstance(item, Fact)]
        return [event.title for event in events if isinstance(event, SessionRenamed)]

    async def commits(self, *titles: str) -> asyncio.Task[None]:
        for title in titles:
            self.journal.record(SessionRenamed(title))
        commit = asyncio.ensure_future(self.journal.commit())
        await asyncio.sleep(0)
        return commit


@pytest.fixture
async def watched() -> Watched:
    store = SlowStore()
    first = Fact.of(SessionStarted("/", "0"), seq=1, session="ses_1", run="", time_ms=1)
    lease = await store.create(first, current_process())
    return Watched(store, await open_journal(store, lease, World()))


async def test_a_commit_ends_when_its_facts_are_stored_and_published(watched: Watched) -> None:
    commit = await watched.commits("a", "b")
    assert not commit.done() and watched.seen == []
    await watched.store.finish_append()
    assert commit.done() and watched.titles() == ["a", "b"]


async def test_facts_recorded_during_an_append_follow_in_one_append(watched: Watched) -> None:
    commits = [await watched.commits(title) for title in ("a", "b", "c")]
    assert len(watched.store.waiting) == 1, "one after the other"
    await watched.store.finish_append()
    assert [commit.done() for commit in commits] == [True, False, False]
    await watched.store.finish_append()
    assert all(commit.done() for commit in commits) and not watched.store.waiting
    assert watched.titles() == ["a", "b", "c"]
    assert await watched.store.last_seq("ses_1") == 4


async def test_a_commit_without_facts_waits_for_the_running_append(watched: Watched) -> None:
    commits = [await watched.commits("a"), await watched.commits()]
    assert not commits[1].done()
    await watched.store.finish_append()
    assert commits[1].done()


async def test_an_append_is_not_cancelled_with_its_waiters(watched: Watched) -> None:
    commits = [await watched.commits("a"), await watched.commits("b")]
    for commit in commits:
        commit.cancel()
    await asyncio.wait(commits)
    await watched.store.finish_append()
    await watched.store.finish_append()
    assert watched.titles() == ["a", "b"], "recorded facts are stored, and published once"


async def test_a_failed_append_fails_all_waiters_and_later_records(watched: Watched) -> None:
    commits = [await watched.commits("a"), await watched.commits(), await watched.commits("b")]
    await watched.store.finish_append(StoreFull("the disk is full"))
    await watched.store.finish_append(StoreError("a gap"))
    for commit in commits:
        assert isinstance(commit.exception(), StoreError)
    assert watched.titles() == []
    assert [item for item in watched.seen if isinstance(item, StoreFailed)] == watched.seen
    assert len(watched.seen) == 1, "subscribers get the failure once"
    with pytest.raises(StoreFull):
        watched.journal.record(SessionRenamed("c"))
