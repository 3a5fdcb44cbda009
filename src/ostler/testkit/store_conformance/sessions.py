"""The contract of `Log` for whole sessions: listing, searching, what they used, importing, deleting."""

from __future__ import annotations

import asyncio

from ostler.core.store import BlobPart, Store
from ostler.schema import events, requests
from ostler.schema.errors import LeaseLost, NotFound, SessionHeld, StoreError
from ostler.schema.facts import Fact
from ostler.schema.messages import Reasoning, Text, as_content
from ostler.schema.usage import Usage
from ostler.testkit.simulator import simulate
from ostler.testkit.store_conformance.cases import (
    ELSEWHERE,
    HERE,
    SessionWriter,
    StoreTestCase,
    assert_raises,
    assistant_message,
    message_fact,
    moved_to,
    other_process,
    user_message,
)


class SessionConformance(StoreTestCase):
    # --- the list -----------------------------------------------------------------------------------

    async def test_sessions_are_listed_newest_activity_first(self) -> None:
        async with self.opened() as store:
            written = {}
            for name in ("ses_a", "ses_b", "ses_c"):
                self.clock.pass_seconds(1)
                written[name] = await self.new_session(store, name)
            assert await _ids(store) == ["ses_c", "ses_b", "ses_a"]
            self.clock.pass_seconds(1)
            await written["ses_a"].append(user_message("again"))
            assert await _ids(store) == ["ses_a", "ses_c", "ses_b"]
            assert await _ids(store, limit=2) == ["ses_a", "ses_c"]
            assert await _ids(store, limit=0) == []

    async def test_sessions_are_filtered_by_folder_and_by_prefix(self) -> None:
        async with self.opened() as store:
            folders = {"ses_ab": "/one", "ses_ac": "/two", "ses_b": "/one", "ses%": "/one/sub"}
            for name, cwd in folders.items():
                self.clock.pass_seconds(1)
                await self.new_session(store, name, cwd)
            assert await _ids(store, cwd="/one") == ["ses_b", "ses_ab"]
            assert await _ids(store, cwd="/") == []
            assert await _ids(store, prefix="ses_a") == ["ses_ac", "ses_ab"]
            assert await _ids(store, prefix="ses_a", cwd="/one") == ["ses_ab"]
            assert await _ids(store, prefix="ses%") == ["ses%"]
            assert await _ids(store, prefix="SES") == []
            assert await _ids(store, prefix="ses_ab_and_more") == []
            assert await _ids(store, prefix="ses_", limit=1) == ["ses_b"]

    async def test_a_summary_follows_the_facts(self) -> None:
        async with self.session() as (store, writer):
            created = self.clock.ms
            summary = await store.summary("ses_1")
            assert (summary.id, summary.cwd, summary.driver) == ("ses_1", "/home/ada", "agent")
            assert (summary.status, summary.preview, summary.title) == ("", "", "")
            steps: tuple[tuple[tuple[events.Event, ...], str], ...] = (
                ((events.RunStarted("0", "/", "m"), user_message("a reminder", hidden=True)), "running"),
                ((user_message("  Fix the\n parser  "),), "running"),
                ((events.RunWaiting("question"),), "waiting"),
                ((events.RunResumed(), user_message("and this")), "running"),
                ((events.RunEnded("failed"),), "failed"),
                ((events.RunStarted("0", "/", "m"), events.RunEnded("completed")), "completed"),
            )
            for added, status in steps:
                self.clock.pass_seconds(1)
                await writer.append(*added)
                assert (await store.summary("ses_1")).status == status
            await writer.append(events.SessionRenamed("The parser"))
            summary = await store.summary("ses_1")
            assert summary.preview == "Fix the parser"
            assert summary.title == "The parser"
            assert (summary.created_ms, summary.updated_ms) == (created, self.clock.ms)
            assert summary.last_seq == len(writer.facts)
            assert await store.sessions() == [summary]

    async def test_a_preview_is_the_start_of_a_long_prompt(self) -> None:
        async with self.session() as (store, writer):
            await writer.append(user_message("word " * 1000))
            preview = (await store.summary("ses_1")).preview
            assert 20 < len(preview) < 500
            assert ("word " * 1000).startswith(preview)

    async def test_the_old_time_of_a_copied_fact_does_not_change_the_update_time(self) -> None:
        async with self.session() as (store, writer):
            writer.facts.append(Fact(2, "ses_1", "", 5, b'{"type":"warned","text":"x"}'))
            await store.append(writer.lease, writer.facts[1:])
            assert (await store.summary("ses_1")).updated_ms == self.clock.ms

    async def test_summaries_of_forks_and_children_name_their_origin(self) -> None:
        async with self.opened() as store:
            started = events.SessionStarted(
                "/", "0", driver="terminal", forked_from="ses_0", child_of="ses_p"
            )
            await store.create(Fact.of(started, seq=1, session="ses_1", run="", time_ms=1), HERE)
            summary = await store.summary("ses_1")
            assert (summary.driver, summary.forked_from, summary.child_of) == ("terminal", "ses_0", "ses_p")

    # --- search -------------------------------------------------------------------------------------

    async def test_search_matches_all_words_in_any_order(self) -> None:
        async with self.opened() as store:
            await self._library(store)
            assert await _search(store, "brown fox") == [("ses_1", 2)]
            assert await _search(store, "fox brown") == [("ses_1", 2)]
            assert await _search(store, "FOX") == [("ses_1", 2), ("ses_2", 2)]
            assert await _search(store, "fox cat") == []
            assert await _search(store, "owl") == [("ses_1", 3)]

    async def test_search_matches_the_start_of_a_word(self) -> None:
        async with self.opened() as store:
            await self._library(store)
            assert await _search(store, "bro") == [("ses_1", 2)]
            assert await _search(store, "rown") == []
            assert await _search(store, "naive") == [("ses_2", 2)]
            assert await _search(store, "NAÏVE") == [("ses_2", 2)]

    async def test_search_covers_only_messages(self) -> None:
        async with self.opened() as store:
            writer = await self.new_session(store, cwd="/zebra")
            await writer.append(
                events.SessionRenamed("zebra"),
                events.ToolResultFact("call_1", "bash", as_content("zebra")),
                events.AssistantMessage("mc_1", (Reasoning("zebra"), Text("a horse")), "end"),
                events.Warned("zebra"),
            )
            await writer.append_bodies(b'{"type":"of_tomorrow","text":"zebra"}')
            assert await _search(store, "zebra") == []
            assert await _search(store, "horse") == [("ses_1", 4)]

    async def test_search_accepts_any_query(self) -> None:
        """Quotes, operators and emoji only separate words."""
        async with self.opened() as store:
            await self._library(store)
            for nothing in ("", "  ", '"', "*", "'", "-", "🦊", '"" ""', "\0", "^", "()", "%", "_", "\\"):
                assert await store.search(nothing) == []
            for query in ('"brown" fox', "brown*", "brown -fox", "(brown", 'brown"', "brown🦊fox"):
                assert await _search(store, query) == [("ses_1", 2)], query
            for query in ("brown\0fox", "brown + fox", "^brown", "{brown}"):
                assert await _search(store, query) == [("ses_1", 2)], query
            for query in (
                "quick AND brown",
                "text:brown",
                "brown'; drop table sessions; --",
                "NEAR(brown fox)",
            ):
                assert await _search(store, query) == [], query
            assert await _search(store, "cafe") == await _search(store, "café") == [("ses_2", 3)]

    async def test_a_hit_has_its_place_time_and_a_snippet(self) -> None:
        async with self.session() as (store, writer):
            self.clock.pass_seconds(9)
            await writer.append(user_message("so much " * 200 + "needle" + " and more" * 200))
            (hit,) = await store.search("needle")
            assert (hit.session, hit.seq, hit.time_ms) == ("ses_1", 2, self.clock.ms)
            assert "needle" in hit.snippet
            assert len(hit.snippet) < 500

    async def test_search_covers_everything_appended_before_it(self) -> None:
        async with self.shared_session() as (store, other, writer):
            for number in range(30):
                await writer.append(user_message(f"apple {number}"), assistant_message(f"pear {number}"))
                assert len(await other.search("apple", limit=100)) == number + 1
            assert len(await store.search("apple", limit=7)) == 7
            assert len(await store.search("apple pear")) == 0

    async def _library(self, store: Store) -> None:
        one = await self.new_session(store)
        await one.append(user_message("The quick brown fox"), assistant_message("jumps over the owl"))
        self.clock.pass_seconds(1)
        two = await self.new_session(store, "ses_2")
        await two.append(user_message("a naïve fox"), assistant_message("in a cafe\u0301 with a cat"))

    # --- usage --------------------------------------------------------------------------------------

    async def test_usages_are_sorted_by_time(self) -> None:
        async with self.opened_twice() as (store, other):
            one, two = await self.new_session(store), await self.new_session(store, "ses_2")
            written = []
            for number, writer in enumerate((one, two, two, one)):
                self.clock.pass_seconds(1)
                await writer.append(user_message(f"no. {number}"), assistant_message("yes"))
                written += await writer.append(_used(f"mc_{number}", number), run=f"run_{number}")
            for handle in (store, other):
                assert await handle.usages() == written
                assert await handle.usages(session="ses_2") == written[1:3]
                assert await handle.usages(since_ms=written[2].time_ms) == written[2:]
                assert await handle.usages(since_ms=written[2].time_ms, session="ses_1") == written[3:]
                assert await handle.usages(since_ms=self.clock.ms + 1) == []
                await assert_raises(NotFound, handle.usages(session="ses_3"))

    async def test_usages_omit_copies_and_other_facts(self) -> None:
        async with self.session() as (store, writer):
            elsewhere = _used("mc_1", 7).usage
            await writer.append(events.HistoryReplaced((), elsewhere), events.RunEnded("completed"))
            assert await store.usages() == await store.usages(session="ses_1") == []
            copy = writer.fact(_used("mc_1", 7))
            copy.origin = "ses_0:9"
            await store.append(writer.lease, [copy])
            assert await store.usages() == await store.usages(session="ses_1") == []

    async def test_usages_include_imported_sessions_until_they_are_deleted(self) -> None:
        async with self.opened() as store:
            writer = SessionWriter(store, "ses_1", self.clock)
            writer.fact(events.SessionStarted("/", "0"))
            self.clock.pass_seconds(5)
            used = writer.fact(_used("mc_1", 7), run="run_1")
            await store.import_session(writer.facts)
            assert await store.usages(since_ms=self.clock.ms) == [used]
            await store.delete("ses_1", HERE)
            assert await store.usages() == []

    # --- import -------------------------------------------------------------------------------------

    async def test_an_imported_session_equals_an_appended_one(self) -> None:
        async with self.opened() as store:
            report = await asyncio.to_thread(simulate, 3)
            facts = moved_to("ses_imported", report.facts)
            await store.import_session(facts, [BlobPart("out", b"one, "), BlobPart("out", b"two", "x/y")])
            assert await store.read("ses_imported") == facts
            assert await store.read_blob("ses_imported", "out") == b"one, two"
            lease = await store.create(moved_to("ses_written", facts)[0], HERE)
            await store.append(lease, moved_to("ses_written", facts)[1:])
            imported, written = await store.summary("ses_imported"), await store.summary("ses_written")
            for name in imported.__struct_fields__:
                if name != "id":
                    assert getattr(imported, name) == getattr(written, name), name
            opening = [[fact.seq for fact in await store.read_opening(one.id)] for one in (imported, written)]
            assert opening[0] == opening[1]

    async def test_an_imported_session_is_free_and_continues_with_the_next_number(self) -> None:
        async with self.opened() as store:
            writer = SessionWriter(store, "ses_1", self.clock)
            writer.fact(events.SessionStarted("/", "0"))
            writer.fact(user_message("hello"))
            await store.import_session(writer.facts)
            writer.lease = await store.acquire("ses_1", ELSEWHERE)
            await writer.append(assistant_message("hi"))
            await writer.assert_unchanged()
            assert await _search(store, "hello") == [("ses_1", 2)]

    async def test_an_import_is_atomic(self) -> None:
        async with self.opened() as store:
            existing = await self.new_session(store)
            await assert_raises(StoreError, store.import_session(existing.facts, [BlobPart("out", b"x")]))
            assert await store.blob("ses_1", "out") is None
            new = SessionWriter(store, "ses_2", self.clock)
            new.fact(events.SessionStarted("/", "0"))
            for number in range(3):
                new.fact(user_message(str(number)))
            for facts in ([], new.facts[1:], [new.facts[0], *new.facts[2:]], [*new.facts, existing.facts[0]]):
                await assert_raises(StoreError, store.import_session(facts))
            assert await _ids(store) == ["ses_1"]
            await assert_raises(NotFound, store.read("ses_2"))
            await store.import_session(new.facts)
            await new.assert_unchanged()

    # --- delete -------------------------------------------------------------------------------------

    async def test_delete_removes_everything_of_one_session(self) -> None:
        async with self.opened_twice() as (store, other):
            written = [await self.new_session(store, f"ses_{number}") for number in (1, 2)]
            for one in written:
                await one.append(user_message(f"apple of {one.session}"))
                await store.append_blob(one.session, "out", one.session.encode())
                await store.submit(one.session, requests.Pause(id="req_1"))
                await store.own_process(one.lease, "call_1", HERE)
            assert len(await store.search("apple")) == 2
            await store.delete("ses_1", HERE)
            for handle in (store, other):
                assert await _ids(handle) == ["ses_2"]
                await assert_raises(NotFound, handle.read("ses_1"))
                await assert_raises(NotFound, handle.pending("ses_1"))
                await assert_raises(NotFound, handle.read_blob("ses_1", "out"))
                assert await _search(handle, "apple") == [("ses_2", 2)]
                await written[1].assert_unchanged()
                assert await handle.read_blob("ses_2", "out") == b"ses_2"
                assert len(await handle.pending("ses_2")) == 1
                assert await handle.owned_processes("ses_2") == [("call_1", HERE)]
            await assert_raises(LeaseLost, store.append(written[0].lease, [message_fact(3)]))

    async def test_a_session_created_again_after_its_deletion_is_empty(self) -> None:
        async with self.opened_twice() as (store, other):
            before = await self.new_session(store)
            await before.append(user_message("apple"))
            await store.append_blob("ses_1", "out", b"before")
            await store.submit("ses_1", requests.Pause(id="req_1"))
            assert await other.read("ses_1") == before.facts
            assert await _search(other, "apple") == [("ses_1", 2)]
            await store.delete("ses_1", HERE)
            await self.new_session(store, "ses_another")
            assert await store.blob("ses_another", "out") is None
            assert await store.pending("ses_another") == []
            after = await self.new_session(store)
            await after.append(user_message("pear"))
            for handle in (store, other):
                assert await handle.read("ses_1") == after.facts
                assert await handle.blob("ses_1", "out") is None
                assert await handle.pending("ses_1") == []
                assert await handle.owned_processes("ses_1") == []
                assert await _search(handle, "apple") == []
            assert await other.submit("ses_1", requests.Pause(id="req_1")) is True

    async def test_a_session_that_another_living_process_holds_cannot_be_deleted(self) -> None:
        async with self.session() as (store, writer), other_process() as holder:
            await store.append_blob("ses_1", "out", b"x")
            await writer.hand_over(holder.id)
            refusal = await assert_raises(SessionHeld, store.delete("ses_1", HERE))
            assert str(holder.id.pid) in refusal.message
            await writer.assert_unchanged()
            assert await store.read_blob("ses_1", "out") == b"x"
            await holder.die()
            await store.delete("ses_1", HERE)
            assert await _ids(store) == []


def _used(call: str, tokens: int) -> events.UsageReported:
    usage = Usage(input_tokens=tokens)
    return events.UsageReported(call, "scripted/model", usage, usage)


async def _ids(store: Store, **choice: object) -> list[str]:
    return [summary.id for summary in await store.sessions(**choice)]  # type: ignore[arg-type]


async def _search(store: Store, query: str) -> list[tuple[str, int]]:
    return sorted((hit.session, hit.seq) for hit in await store.search(query))
