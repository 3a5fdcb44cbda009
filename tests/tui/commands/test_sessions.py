"""The list of sessions: filtering, searching messages, and deleting one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from ostler.core.store import Store
from ostler.schema.errors import StoreError
from ostler.schema.events import AssistantMessage, Event, SessionRenamed, SessionStarted, UserMessage
from ostler.schema.facts import Fact
from ostler.schema.messages import as_content
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import turn
from ostler.tui.commands.sessions import SessionPages
from ostler.tui.panels.panel import Panels
from ostler.tui.panels.picker import NOTHING, Choice, Picked, Picker
from tests.support.command import Ostler
from tests.support.fixtures import Open, Serve
from tests.tui.commands.test_registry import say
from tests.tui.panels.test_picker import plain


async def put(
    store: Store, name: str, *texts: str, title: str = "", cwd: str = "/w", child_of: str = ""
) -> None:
    """Adds a session with these messages of a person and a model, in turn. Later ones are newer."""
    events: list[tuple[Event, int | None]] = []
    for number, text in enumerate(texts):
        content = as_content(text)
        message = UserMessage(content) if number % 2 == 0 else AssistantMessage("mod_1", content, "end")
        events.append((message, number + 1 if number else 0))
    if title:
        events.append((SessionRenamed(title), None))
    begin = 1_700_000_000_000 + 1000 * len(await store.sessions())
    facts = [Fact.of(SessionStarted(cwd, "0", child_of=child_of), seq=1, session=name, run="", time_ms=begin)]
    for seq, (event, parent) in enumerate(events, 2):
        facts.append(Fact.of(event, seq=seq, session=name, run="", time_ms=begin + seq, parent=parent))
    await store.import_session(facts)


class PickerDriver:
    """Types into a picker."""

    def __init__(self, picker: Picker) -> None:
        self.picker = picker
        self.changed = asyncio.Event()
        self.panels = Panels(self.changed.set)
        self.asking = asyncio.ensure_future(picker.ask(self.panels))

    async def lists(self, *values: object) -> None:
        """Waits until the picker lists exactly these, in this order."""
        async with asyncio.timeout(60):
            while self.values() != list(values):
                self.changed.clear()
                await self.changed.wait()

    def values(self) -> list[object]:
        return [self.picker._at(place)[0].value for place in range(len(self.picker))]

    async def press(self, *keys: str) -> Picked | None:
        for key in keys:
            self.picker.key(key)
        return await asyncio.wait_for(self.asking, 60)


async def test_sessions_that_match_by_title_come_before_those_that_match_by_message() -> None:
    store = MemoryStore()
    await put(store, "ses_old", "fix the login", "It is a cookie.", title="login")
    await put(store, "ses_said", "something else", "The login page is at fault.")
    await put(store, "ses_far", "a long offer gains in number", "yes")
    await put(store, "ses_child", "what a child says of the login", "x", child_of="ses_said")
    pages = SessionPages(store, None, "")
    one = Picker("sessions", await pages.more(), lambda: None, more=pages.more, elsewhere=pages.with_messages)
    driver = PickerDriver(one)
    await asyncio.sleep(0)
    for letter in "login":
        one.key(letter)
    assert driver.values() == ["ses_old"]
    await driver.lists("ses_old", "ses_said")
    one.key("down")
    assert any("#3 says: The login page" in row for row in plain(one.rows(80, 12)))
    one.key("ctrl+u")
    for letter in "lofn":
        one.key(letter)
    await driver.lists("ses_far")
    picked = await driver.press("enter")
    assert picked is not None and picked.query == "lofn"


async def test_visible_text_matches_before_the_folder_of_a_session() -> None:
    store = MemoryStore()
    await put(store, "ses_old", "look at the garden", "yes", cwd="/garden")
    await put(store, "ses_said", "something", "The garden is green.", cwd="/garden")
    await put(store, "ses_new", "else", "no", cwd="/garden")
    pages = SessionPages(store, "/garden", "")
    one = Picker("sessions", await pages.more(), lambda: None, query="garden", elsewhere=pages.with_messages)
    driver = PickerDriver(one)
    await driver.lists("ses_old", "ses_said", "ses_new")
    assert await driver.press("enter")


async def test_sessions_are_filtered_by_title_and_folder() -> None:
    store = MemoryStore()
    await put(store, "ses_a", "alpha", "zebra", title="named", cwd="/here")
    await put(store, "ses_b", "beta", "zebra", cwd="/here")
    await put(store, "ses_c", "gamma", "zebra", title="also named", cwd="/there")
    titled = SessionPages(store, None, "", is_titled=True)
    assert [one.value for one in await titled.more()] == ["ses_c", "ses_a"]
    here = SessionPages(store, "/here", "")
    assert [one.value for one in await here.more()] == ["ses_b", "ses_a"]
    assert {one.value for one in await here.with_messages("zebra")} == {"ses_a", "ses_b"}
    assert {one.value for one in await titled.with_messages("zebra")} == {"ses_a", "ses_c"}
    assert {one.value for one in await titled.with_messages("zebra q")} == {"ses_a", "ses_c"}
    assert await titled.with_messages("ze b") == []


async def test_picker_keys_work_in_an_empty_list() -> None:
    one = Picker("sessions", [], lambda: None, keys={"tab": "others"}, empty="there is none")
    driver = PickerDriver(one)
    await asyncio.sleep(0)
    one.key("enter")
    assert any("there is none" in row for row in plain(driver.panels.rows(60, 12)))
    picked = await driver.press("tab")
    assert picked is not None and picked.choice is NOTHING


async def test_errors_of_a_background_search_reach_the_caller() -> None:
    async def more() -> Sequence[Choice]:
        raise StoreError("the disk is gone")

    with pytest.raises(StoreError, match="the disk is gone"):
        await Picker("sessions", [Choice("a")], lambda: None, more=more).ask(Panels(lambda: None))


def test_sessions_are_searched_filtered_and_deleted_in_the_terminal(
    open_tui: Open, serve: Serve, ostler: Ostler
) -> None:
    async def add_sessions() -> None:
        ostler.home.mkdir(exist_ok=True)
        store = SqliteStore(ostler.store)
        await put(store, "ses_kept", "the first question", "an answer about a zebra", cwd=str(ostler.work))
        await put(store, "ses_named", "unseen", "x", title="the plan", cwd="/elsewhere")
        await put(store, "ses_gone", "to be deleted", "y", cwd=str(ostler.work))
        await store.close()

    asyncio.run(add_sessions())
    terminal = open_tui(serve(turn("as before")), rows=30)
    terminal.wait_for(">")
    say(terminal, "/resume")
    terminal.wait_for("❯ to be deleted")
    assert "the plan" not in terminal.screen()
    terminal.press("tab")
    terminal.wait_for("the plan")
    terminal.press("ctrl+t")
    terminal.wait_for("to be deleted", gone=True)
    terminal.press("ctrl+t")
    terminal.wait_for("❯ to be deleted")
    terminal.press("ctrl+d")
    terminal.wait_for("❯ no, keep it")
    terminal.press("enter")
    terminal.wait_for("❯ to be deleted")
    terminal.press("ctrl+d")
    terminal.wait_for("❯ no, keep it")
    terminal.press("down", "enter")
    terminal.wait_for("'to be deleted' is deleted")
    terminal.wait_for("❯ the plan")
    terminal.type("zebra")
    terminal.wait_for("❯ the first question")
    terminal.wait_for("says: an answer about a zebra")
    terminal.press("enter")
    terminal.wait_for("session ses_kept")
    say(terminal, "/sessions")
    terminal.wait_for("this session")
    terminal.press("ctrl+d")
    terminal.wait_for_ever("this session is open here")
    assert {one["id"] for one in ostler("sessions", "--json").lines} == {"ses_kept", "ses_named"}
