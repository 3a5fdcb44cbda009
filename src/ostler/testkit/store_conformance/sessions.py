"""The contract of `Log` for whole sessions: listing, searching, what they used, importing, deleting."""

from __future__ import annotations

import asyncio

from ostler.core.store import BlobPart, Hit, Store
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
    other_process,
    renumbered,
    user_message,
)


class SessionConformance(StoreTestCase):
    # --- the list -----------------------------------------------------------------------------------

    async def test_sessions_are_listed_newest_activity_first(self) -> None:
        async with self.opened() as store:
            written = {}
            for name in ("ses_a", "ses_b", "ses_c"):
                self.clock.pass_seconds(1)
                written[name] = await self.begun(store, name)
            assert await _ids(store) == ["ses_c", "ses_b", "ses_a"]
            self.clock.pass_seconds(1)
            await written["ses_a"].append(user_message("again"))
            assert await _ids(store) == ["ses_a", "ses_c", "ses_b"]
            assert await _ids(store, limit=2) == ["ses_a", "ses_c"]
            assert await _ids(store, limit=0) == []

    async def test_sessions_can_be_chosen_by_folder_and_by_the_beginning_of_their_id(self) -> None:
        async with self.opened() as store:
            for name, cwd in (
                ("ses_ab", "/one"),
                ("ses_ac", "/two"),
                ("ses_b", "/one"),
                ("ses%", "/one/sub"),
            ):
                self.clock.pass_seconds(1)
                await self.begun(store, name, cwd)
            assert await _ids(store, cwd="/one") == ["ses_b", "ses_ab"]
            assert await _ids(store, cwd="/") == []
            assert await _ids(store, prefix="ses_a") == ["ses_ac", "ses_ab"]
            assert await _ids(store, prefix="ses_a", cwd="/one") == ["ses_ab"]
            assert await _ids(store, prefix="ses%") == ["ses%"]
            assert await _ids(store, prefix="SES") == []
            assert await _ids(store, prefix="ses_ab_and_more") == []
            assert await _ids(store, prefix="ses_", limit=1) == ["ses_b"]

    async def test_a_summary_follows_the_facts(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store, cwd="/home/ada")
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
                await writing.append(*added)
                assert (await store.summary("ses_1")).status == status
            await writing.append(events.SessionRenamed("The parser"))
            summary = await store.summary("ses_1")
            assert summary.preview == "Fix the parser"
            assert summary.title == "The parser"
            assert (summary.created_ms, summary.updated_ms) == (created, self.clock.ms)
            assert summary.last_seq == len(writing.facts)
            assert await store.sessions() == [summary]

    async def test_a_preview_is_the_beginning_of_a_long_prompt(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            await writing.append(user_message("word " * 1000))
            preview = (await store.summary("ses_1")).preview
            assert 20 < len(preview) < 500
            assert ("word " * 1000).startswith(preview)

    async def test_a_copied_facts_old_time_does_not_make_its_session_older(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            writing.facts.append(Fact(2, "ses_1", "", 5, b'{"type":"warned","text":"x"}'))
            await store.append(writing.lease, writing.facts[1:])
            assert (await store.summary("ses_1")).updated_ms == self.clock.ms

    async def test_forks_and_children_say_whose_they_are(self) -> None:
        async with self.opened() as store:
            started = events.SessionStarted(
                "/", "0", driver="terminal", forked_from="ses_0", forked_at=3, child_of="ses_p", call="call_1"
            )
            fact = Fact.of(started, seq=1, session="ses_1", run="", time_ms=self.clock.ms)
            await store.create(fact, HERE)
            summary = await store.summary("ses_1")
            assert (summary.driver, summary.forked_from, summary.child_of) == ("terminal", "ses_0", "ses_p")

    # --- search -------------------------------------------------------------------------------------

    async def test_a_message_is_found_by_all_of_its_words_in_any_order(self) -> None:
        async with self.opened() as store:
            await self._library(store)
            assert await _found(store, "brown fox") == [("ses_1", 2)]
            assert await _found(store, "fox brown") == [("ses_1", 2)]
            assert await _found(store, "FOX") == [("ses_1", 2), ("ses_2", 2)]
            assert await _found(store, "fox cat") == []
            assert await _found(store, "owl") == [("ses_1", 3)]

    async def test_the_beginning_of_a_word_is_enough(self) -> None:
        async with self.opened() as store:
            await self._library(store)
            assert await _found(store, "bro") == [("ses_1", 2)]
            assert await _found(store, "rown") == []
            assert await _found(store, "naive") == [("ses_2", 2)]
            assert await _found(store, "NAÏVE") == [("ses_2", 2)]

    async def test_only_messages_are_searched(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store, cwd="/zebra")
            await writing.append(
                events.SessionRenamed("zebra"),
                events.ToolResultFact("call_1", "bash", as_content("zebra")),
                events.AssistantMessage("mc_1", (Reasoning("zebra"), Text("a horse")), "end"),
                events.Warned("zebra"),
            )
            await writing.append_bodies(b'{"type":"of_tomorrow","text":"zebra"}')
            assert await _found(store, "zebra") == []
            assert await _found(store, "horse") == [("ses_1", 4)]

    async def test_no_query_is_a_mistake(self) -> None:
        """Quotes, operators and emoji part words and mean nothing else."""
        async with self.opened() as store:
            await self._library(store)
            for nothing in ("", "  ", '"', "*", "'", "-", "🦊", '"" ""', "\0", "^", "()", "%", "_", "\\"):
                assert await store.search(nothing) == []
            for fox in (
                '"brown" fox',
                "brown*",
                "brown -fox",
                "(brown",
                'brown"',
                "brown🦊fox",
                "quick AND brown",
                "text:brown",
                "brown\0fox",
                "brown + fox",
                "^brown",
                "{brown}",
                "brown'; drop table sessions; --",
            ):
                expected = [] if "AND" in fox or ":" in fox or "drop" in fox else [("ses_1", 2)]
                assert await _found(store, fox) == expected, fox
            assert await _found(store, "NEAR(brown fox)") == []
            assert await _found(store, "cafe") == await _found(store, "café") == [("ses_2", 3)]

    async def test_a_hit_says_where_and_when_and_shows_the_place(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            self.clock.pass_seconds(9)
            await writing.append(user_message("so much " * 200 + "needle" + " and more" * 200))
            (hit,) = await store.search("needle")
            assert (hit.session, hit.seq, hit.time_ms) == ("ses_1", 2, self.clock.ms)
            assert "needle" in hit.snippet
            assert len(hit.snippet) < 500

    async def test_a_search_sees_everything_that_was_appended_before_it(self) -> None:
        async with self.opened_twice() as (store, other):
            writing = await self.begun(store)
            for number in range(30):
                await writing.append(user_message(f"apple {number}"), assistant_message(f"pear {number}"))
                assert len(await other.search("apple", limit=100)) == number + 1
            assert len(await store.search("apple", limit=7)) == 7
            assert len(await store.search("apple pear")) == 0

    async def _library(self, store: Store) -> None:
        one = await self.begun(store)
        await one.append(user_message("The quick brown fox"), assistant_message("jumps over the owl"))
        self.clock.pass_seconds(1)
        two = await self.begun(store, "ses_2")
        await two.append(user_message("a naïve fox"), assistant_message("in a cafe\u0301 with a cat"))

    # --- usage --------------------------------------------------------------------------------------

    async def test_the_usage_facts_of_all_sessions_come_in_order_of_time(self) -> None:
        async with self.opened_twice() as (store, other):
            one, two = await self.begun(store), await self.begun(store, "ses_2")
            written = []
            for number, writing in enumerate((one, two, two, one)):
                self.clock.pass_seconds(1)
                await writing.append(user_message(f"no. {number}"), assistant_message("yes"))
                written += await writing.append(_used(f"mc_{number}", number), run=f"run_{number}")
            for handle in (store, other):
                assert await handle.usages() == written
                assert await handle.usages(session="ses_2") == written[1:3]
                assert await handle.usages(since_ms=written[2].time_ms) == written[2:]
                assert await handle.usages(since_ms=written[2].time_ms, session="ses_1") == written[3:]
                assert await handle.usages(since_ms=self.clock.ms + 1) == []
                await assert_raises(NotFound, handle.usages(session="ses_3"))

    async def test_what_is_no_usage_fact_or_a_copy_of_one_is_not_counted(self) -> None:
        async with self.opened() as store:
            writing = await self.begun(store)
            elsewhere = _used("mc_1", 7).usage
            await writing.append(events.HistoryReplaced((), elsewhere), events.RunEnded("completed"))
            assert await store.usages() == await store.usages(session="ses_1") == []
            copy = writing.fact(_used("mc_1", 7))
            copy.origin = "ses_0:9"
            await store.append(writing.lease, [copy])
            assert await store.usages() == await store.usages(session="ses_1") == []

    async def test_an_imported_sessions_usage_counts_at_its_own_time_until_it_is_deleted(self) -> None:
        async with self.opened() as store:
            writing = SessionWriter(store, "ses_1", self.clock)
            writing.fact(events.SessionStarted("/", "0"))
            self.clock.pass_seconds(5)
            used = writing.fact(_used("mc_1", 7), run="run_1")
            await store.import_session(writing.facts)
            assert await store.usages(since_ms=self.clock.ms) == [used]
            await store.delete("ses_1", HERE)
            assert await store.usages() == []

    # --- import -------------------------------------------------------------------------------------

    async def test_an_imported_session_is_as_if_it_had_been_written_here(self) -> None:
        async with self.opened() as store:
            report = await asyncio.to_thread(simulate, 3)
            facts = renumbered(report.facts, "ses_imported")
            await store.import_session(facts, [BlobPart("out", b"one, "), BlobPart("out", b"two", "x/y")])
            assert await store.read("ses_imported") == facts
            assert await store.read_blob("ses_imported", "out") == b"one, two"
            lease = await store.create(renumbered(facts, "ses_written")[0], HERE)
            await store.append(lease, renumbered(facts, "ses_written")[1:])
            imported, written = await store.summary("ses_imported"), await store.summary("ses_written")
            for name in imported.__struct_fields__:
                if name != "id":
                    assert getattr(imported, name) == getattr(written, name), name
            opening = [[fact.seq for fact in await store.read_opening(one.id)] for one in (imported, written)]
            assert opening[0] == opening[1]

    async def test_an_imported_session_is_free_and_goes_on_with_the_next_number(self) -> None:
        async with self.opened() as store:
            writing = SessionWriter(store, "ses_1", self.clock)
            writing.fact(events.SessionStarted("/", "0"))
            writing.fact(user_message("hello"))
            await store.import_session(writing.facts)
            writing.lease = await store.acquire("ses_1", ELSEWHERE)
            await writing.append(assistant_message("hi"))
            await writing.is_unchanged()
            assert await _found(store, "hello") == [("ses_1", 2)]

    async def test_an_import_is_whole_or_not_at_all(self) -> None:
        async with self.opened() as store:
            existing = await self.begun(store)
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
            await new.is_unchanged()

    # --- delete -------------------------------------------------------------------------------------

    async def test_deleting_leaves_nothing_and_touches_nothing_else(self) -> None:
        async with self.opened_twice() as (store, other):
            written = [await self.begun(store, f"ses_{number}") for number in (1, 2)]
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
                assert await _found(handle, "apple") == [("ses_2", 2)]
                await written[1].is_unchanged()
                assert await handle.read_blob("ses_2", "out") == b"ses_2"
                assert len(await handle.pending("ses_2")) == 1
                assert await handle.owned_processes("ses_2") == [("call_1", HERE)]
            await assert_raises(
                LeaseLost, store.append(written[0].lease, [written[0].fact(user_message("too late"))])
            )

    async def test_a_session_that_returns_after_its_deletion_is_a_new_one(self) -> None:
        async with self.opened_twice() as (store, other):
            before = await self.begun(store)
            await before.append(user_message("apple"))
            await store.append_blob("ses_1", "out", b"before")
            await store.submit("ses_1", requests.Pause(id="req_1"))
            assert await other.read("ses_1") == before.facts
            assert await _found(other, "apple") == [("ses_1", 2)]
            await store.delete("ses_1", HERE)
            await self.begun(store, "ses_another")
            assert await store.blob("ses_another", "out") is None
            assert await store.pending("ses_another") == []
            after = await self.begun(store)
            await after.append(user_message("pear"))
            for handle in (store, other):
                assert await handle.read("ses_1") == after.facts
                assert await handle.blob("ses_1", "out") is None
                assert await handle.pending("ses_1") == []
                assert await handle.owned_processes("ses_1") == []
                assert await _found(handle, "apple") == []
            assert await other.submit("ses_1", requests.Pause(id="req_1")) is True

    async def test_what_another_living_process_holds_cannot_be_deleted(self) -> None:
        async with self.opened() as store, other_process() as holder:
            writing = await self.begun(store)
            await store.append_blob("ses_1", "out", b"x")
            await store.release(writing.lease)
            await store.acquire("ses_1", holder.id)
            refusal = await assert_raises(SessionHeld, store.delete("ses_1", HERE))
            assert str(holder.id.pid) in refusal.message
            await writing.is_unchanged()
            assert await store.read_blob("ses_1", "out") == b"x"
            await holder.die()
            await store.delete("ses_1", HERE)
            assert await _ids(store) == []


def _used(call: str, tokens: int) -> events.UsageReported:
    usage = Usage(input_tokens=tokens)
    return events.UsageReported(call, "scripted/model", usage, usage)


async def _ids(store: Store, **choice: object) -> list[str]:
    return [summary.id for summary in await store.sessions(**choice)]  # type: ignore[arg-type]


async def _found(store: Store, query: str) -> list[tuple[str, int]]:
    hits: list[Hit] = await store.search(query)
    return sorted((hit.session, hit.seq) for hit in hits)
