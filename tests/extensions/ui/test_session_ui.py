"""Live values of extensions: widgets, header, footer, status."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from ostler.extensions.api import ExtensionAPI
from ostler.extensions.extension_session import SessionOpened
from ostler.extensions.ui.renderer import LiveValues
from ostler.extensions.ui.types import Content, Style, Visibility, Widget
from ostler.models.scripted import ScriptedModel
from ostler.schema import events
from ostler.schema.errors import UsageError
from ostler.schema.messages import as_content
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_front_end import opened, until
from tests.support.extension_session import extension


async def test_a_widget_is_shown_replaced_and_removed() -> None:
    face = FakeFrontEnd(width=20)
    session, host, context = await opened(face)
    context.ui.set_widget(Widget("todo", "three things to do and more"))
    assert (await face.screen()).splitlines() == ["│ three things to do", "│ and more", "─" * 20, "> "]
    assert host.ui.live_values(session.id)["widget:demo/todo"] == {
        "extension": "demo",
        "text": "three things to do and more",
        "markdown": "",
        "render": None,
        "style": {"border": "", "borderless": False},
        "placement": "above",
        "priority": 0,
        "order": 1,
    }
    context.ui.set_widget(Widget("todo", Content(markdown="**one**"), "below", Style("#f00", True), 3))
    await until(session, lambda: "one" in face.values["widget:demo/todo"]["markdown"])
    assert (await face.screen()).splitlines() == ["─" * 20, "> ", "**one**"]
    context.ui.remove_widget("todo")
    context.ui.remove_widget("never was")
    await until(session, lambda: not face.values)
    await session.close()


async def test_widgets_are_sorted_by_priority_and_age() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    for name, priority in (("z", 0), ("b", 5), ("a", 5), ("c", -1)):
        context.ui.set_widget(Widget(name, name, priority=priority))
    context.ui.set_widget(Widget("b", "b again", priority=5))
    await until(session, lambda: len(face.widgets()) == 4)
    assert [one.text for one in face.widgets()] == ["c", "z", "b again", "a"]
    await session.close()


async def test_two_extensions_may_use_the_same_id() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    extension_session = host.sessions[session.id]
    extension_session.add(extension("other", lambda ostler: None))
    context.ui.set_widget(Widget("one", "mine"))
    extension_session.channels["other"].context.ui.set_widget(Widget("one", "theirs"))
    extension_session.live_values.flush()
    assert [one.text for one in face.widgets()] == ["mine", "theirs"]
    await extension_session.remove("other")
    assert [one.text for one in face.widgets()] == ["mine"]
    await session.close()


async def test_the_last_header_and_footer_win() -> None:
    face = FakeFrontEnd(width=10)
    session, host, context = await opened(face)
    extension_session = host.sessions[session.id]
    extension_session.add(extension("other", lambda ostler: None))
    other = extension_session.channels["other"].context
    context.ui.set_header("mine")
    context.ui.set_footer("foot", Style(borderless=True))
    other.ui.set_header("theirs")
    extension_session.live_values.flush()
    assert (await face.screen()).splitlines() == ["│ theirs", "─" * 10, "> ", "foot"]
    await extension_session.remove("demo")
    assert (await face.screen()).splitlines() == ["│ theirs", "─" * 10, "> "]
    other.ui.remove_header()
    other.ui.remove_footer()
    extension_session.live_values.flush()
    assert not face.values
    await session.close()


async def test_status_entries_are_sorted_by_priority() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    context.ui.set_status("b", "second", 2)
    context.ui.set_status("a", "third", 2)
    context.ui.set_status("z", "first", 1)
    host.sessions[session.id].live_values.flush()
    assert (await face.screen()).splitlines()[-1] == "first · second · third"
    context.ui.remove_status("b")
    host.sessions[session.id].live_values.flush()
    assert face.status() == ["first", "third"]
    await session.close()


async def test_parts_of_the_front_end_can_be_hidden() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    context.ui.set_status("a", "status")
    context.ui.set_visibility(Visibility(hide_status=True, hide_separator=True))
    host.sessions[session.id].live_values.flush()
    assert await face.screen() == "> "
    context.ui.set_visibility(Visibility(hide_startup=True, hide_hint=True))
    host.sessions[session.id].live_values.flush()
    assert face.values["visibility"] == msgspec.to_builtins(Visibility(hide_startup=True, hide_hint=True))
    assert "status" in await face.screen()
    await session.close()


async def test_a_front_end_that_opens_later_gets_the_live_values() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened()
    context.ui.set_widget(Widget("one", "here already"))
    context.ui.set_status("a", "status")
    face.follow(session, host)
    assert "here already" in await face.screen()
    assert face.status() == ["status"]
    assert host.ui.live_values("ses_unknown") == {}
    await session.close()


async def test_a_widget_that_is_set_and_removed_at_once_leaves_nothing() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    for _ in range(3):
        context.ui.set_widget(Widget("one", "here"))
        context.ui.remove_widget("one")
    context.ui.set_status("end", "end")
    await until(session, lambda: face.status() == ["end"])
    assert not face.widgets()
    await session.close()


async def test_a_fast_changing_live_value_is_throttled_and_its_last_value_published() -> None:
    published: list[events.LiveValue] = []
    again = asyncio.Event()

    def publish(values: Sequence[events.LiveValue]) -> None:
        published.extend(values)
        if len(published) > 1:
            again.set()

    values = LiveValues(publish)
    for number in range(1000):
        values.put("widget:a/b", Style(str(number)), None)
    assert [one.value["border"] for one in published] == ["0"]
    async with asyncio.timeout(60):
        await again.wait()
    assert published[1].value["border"] == "999"
    values.put("widget:a/b", Style("999"), None)
    values.flush()
    assert len(published) == 2, "what has not changed is not told"
    values.stop()


async def test_everything_an_extension_displays_is_removed_with_it() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    context.ui.set_widget(Widget("one", Content(render=lambda width: "x")))
    context.ui.set_header("head")
    context.ui.set_footer("foot")
    context.ui.set_status("a", "status")
    context.ui.set_visibility(Visibility(hide_hint=True))
    host.sessions[session.id].live_values.flush()
    assert len(face.values) == 5
    await host.sessions[session.id].remove("demo", "reload")
    assert face.values == {}
    assert await host.ui.render(session.id, "widget:demo/one#1", 40) is None
    await session.close()


async def test_content_that_cannot_be_displayed_is_refused() -> None:
    session, host, context = await opened()
    with pytest.raises(UsageError, match="widget:demo/one cannot be displayed"):
        context.ui.set_widget(Widget("one", "x", placement="left"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be displayed"):
        context.ui.set_header("half a \ud800 character")
    with pytest.raises(UsageError, match="cannot be displayed"):
        context.ui.set_status("a", 3)  # type: ignore[arg-type]
    assert host.ui.live_values(session.id) == {}
    await session.close()


async def test_a_plain_handler_shows_things_from_its_own_thread() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.on(SessionOpened)
        def begin(opened: SessionOpened, context: Any) -> None:
            context.ui.set_widget(Widget("one", "from a thread"))

        @ostler.on(events.RunEnded)
        def end(ended: events.RunEnded, context: Any) -> None:
            context.ui.set_widget(Widget("one", ended.status))

    face = FakeFrontEnd()
    session, _, _ = await opened(face, setup, model=ScriptedModel(["done"]))
    await session.prompt(as_content("go"))
    assert [one.text for one in face.widgets()] == ["completed"], "told when the session comes to rest"
    await session.close()
    assert face.values == {}


async def test_printed_text_has_its_level_and_extension() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.print("plain")
    context.print_info("info")
    context.print_error("error")
    context.print_block("block", title="title", color="#f00")
    context.print("half a \ud800 character")
    assert face.printed == [
        events.Printed("plain", "plain", "demo"),
        events.Printed("info", "info", "demo"),
        events.Printed("error", "error", "demo"),
        events.Printed("block", "block", "demo", "title", "#f00"),
        events.Printed("half a ? character", "plain", "demo"),
    ]
    await session.close()
