"""Render functions of extensions: widths, rates and time limits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ostler.extensions.api import ExtensionAPI
from ostler.extensions.ui import renderer
from ostler.extensions.ui.renderer import Renderer
from ostler.extensions.ui.types import Content, Widget
from ostler.schema.errors import UsageError
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_front_end import opened
from tests.support.extension_session import facts_of


class Clock:
    """A clock of the renderer that tests advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(Renderer, "now", lambda renderer: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def widget(function: Any, hz: float = 0, text: str = "") -> Widget:
    return Widget("one", Content(text, render=function, hz=hz))


async def test_a_render_function_gets_the_width_of_the_front_end() -> None:
    face = FakeFrontEnd(width=12)
    session, _, context = await opened(face)
    context.ui.set_widget(widget(lambda width: "=" * width))
    assert (await face.screen()).splitlines()[0] == "│ " + "=" * 10
    assert (await face.screen(6)).splitlines()[0] == "│ " + "=" * 4
    await session.close()


async def test_a_render_function_without_a_rate_is_called_once_for_each_width(clock: Clock) -> None:
    widths: list[int] = []
    session, host, context = await opened()
    context.ui.set_widget(widget(lambda width: widths.append(width) or str(width)))
    (value,) = host.ui.live_values(session.id).values()
    for width in (40, 20, 40, 20):
        clock.now += 100
        assert await host.ui.render(session.id, value["render"]["id"], width) == str(width)
    assert widths == [40, 20]
    await session.close()


async def test_a_render_function_with_a_rate_is_called_once_per_interval_and_width(
    clock: Clock,
) -> None:
    widths: list[int] = []

    async def draw(width: int) -> str:
        widths.append(width)
        return str(len(widths))

    session, host, context = await opened()
    context.ui.set_widget(widget(draw, hz=5))
    (value,) = host.ui.live_values(session.id).values()
    name = value["render"]["id"]
    assert value["render"]["hz"] == 5
    for _ in range(100):  # a second of frames
        clock.now += 0.01
        await host.ui.render(session.id, name, 40)
    assert len(widths) == 5
    assert await host.ui.render(session.id, name, 30) == "6"
    await session.close()


@pytest.mark.parametrize("hz", [-1, 31, "5"])
async def test_a_rate_is_from_1_to_30(hz: Any) -> None:
    session, _, context = await opened()
    with pytest.raises(UsageError, match="hz is 0, or from 1 to 30"):
        context.ui.set_widget(widget(str, hz=hz))
    with pytest.raises(UsageError, match="render is a function"):
        context.ui.set_widget(widget("no function"))
    await session.close()


async def test_an_empty_text_hides_a_widget_and_none_leaves_it_to_its_text() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_widget(widget(lambda width: "", text="fallback"))
    assert "fallback" not in await face.screen()
    context.ui.set_widget(widget(lambda width: None, text="fallback"))
    assert "fallback" in await face.screen()
    await session.close()


@pytest.mark.parametrize("hz", [0, 30])
async def test_a_render_function_that_raises_is_reported_once_and_the_default_used(
    clock: Clock, hz: int
) -> None:
    def bad(width: int) -> str:
        raise ValueError("no")

    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_widget(widget(bad, hz, "fallback"))
    for _ in range(5):
        clock.now += 1
        assert "fallback" in await face.screen()
    (warned,) = await facts_of(session, "warned")
    assert "the extension demo failed in widget:demo/one" in warned.text
    assert "ValueError: no (test_renderer.py:" in warned.text
    await session.close()


async def test_a_render_result_that_is_no_string_is_reported_and_the_default_used() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_widget(widget(lambda width: 3, text="fallback"))
    assert "fallback" in await face.screen()
    (warned,) = await facts_of(session, "warned")
    assert "it returned 3, not a string" in warned.text
    await session.close()


async def test_a_hanging_render_function_times_out_and_is_not_called_after_three_times(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderer, "RENDER_SECONDS", 0.02)
    widths: list[int] = []
    never = threading.Event()

    def hang(width: int) -> str:
        widths.append(width)
        never.wait(60)
        return "late"

    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_widget(widget(hang, 30, "fallback"))
    for _ in range(6):
        clock.now += 1
        assert "fallback" in await face.screen()
    never.set()
    assert len(widths) == 3
    (warned,) = await facts_of(session, "warned")
    assert "took longer than 0.02 s" in warned.text
    await session.close()


async def test_time_in_which_the_process_was_stalled_is_not_a_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renderer, "RENDER_SECONDS", 0.2)
    loop = asyncio.get_running_loop()
    clock, stood_still = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: clock() + stood_still)

    def draw(width: int) -> str:
        nonlocal stood_still
        stood_still = 3600.0
        # Each of these is a turn of the loop; its timers are due with the first.
        for _ in range(3):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)
        return "drawn"

    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_widget(widget(draw, 30, "fallback"))
    assert "drawn" in await face.screen()
    await session.close()


async def test_a_widget_is_drawn_while_a_handler_of_its_extension_works() -> None:
    began, may_end = threading.Event(), threading.Event()

    def setup(ostler: ExtensionAPI) -> None:
        @ostler.command("work")
        def work(arguments: str) -> None:
            began.set()
            may_end.wait(60)

    face = FakeFrontEnd()
    session, host, context = await opened(face, setup)
    context.ui.set_widget(widget(lambda width: "drawn"))
    running = asyncio.ensure_future(host.run_command(session, "work", ""))
    await asyncio.to_thread(began.wait, 20)
    assert "drawn" in await face.screen()
    may_end.set()
    await running
    await session.close()


async def test_a_replaced_render_function_is_called_again() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_widget(widget(lambda width: "old"))
    assert "old" in await face.screen()
    context.ui.set_widget(widget(lambda width: "new"))
    await session.journal.commit()
    host = context.host
    (value,) = host.ui.live_values(session.id).values()
    assert await host.ui.render(session.id, value["render"]["id"], 40) == "new"
    assert await host.ui.render(session.id, "widget:demo/one#1", 40) is None
    await session.close()


async def test_a_tool_renderer_draws_calls_and_empty_text_means_the_default() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        ostler.tool_renderer(
            "deploy",
            title="Deploying",
            header=lambda arguments, width: f"to {arguments['to']} in {width}",
            body=lambda result, failed, width: f"{'bad' if failed else 'good'}: {result}",
        )
        ostler.tool_renderer("quiet", title="Quietly", header=lambda arguments, width: "", body=None)

    face = FakeFrontEnd(width=30)
    session, host, _ = await opened(face, setup)
    assert await face.call("deploy", {"to": "here"}, "done") == "to here in 30\ngood: done"
    assert await face.call("deploy", {"to": "here"}, "oh", failed=True) == "to here in 30\nbad: oh"
    assert await face.call("quiet", {}, "done") == "Quietly\ndone"
    assert await face.call("other", {}, "done") == "other\ndone"
    renderer = host.ui.tool_renderer("deploy")
    assert renderer is not None
    assert renderer.title == "Deploying"
    await session.close()


async def test_a_tool_renderer_that_raises_falls_back_to_the_default() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        ostler.tool_renderer("deploy", header=lambda arguments, width: arguments["nowhere"])

    face = FakeFrontEnd()
    session, _, _ = await opened(face, setup)
    for _ in range(2):
        assert await face.call("deploy", {}, "done") == "deploy\ndone"
    (warned,) = await facts_of(session, "warned")
    assert "failed in the header of deploy: KeyError" in warned.text
    await session.close()


async def test_a_renderer_cannot_change_the_arguments_of_a_call() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        ostler.tool_renderer("deploy", header=lambda arguments, width: arguments.pop("to"))

    session, host, _ = await opened(None, setup)
    arguments = {"to": "here"}
    assert await host.ui.tool_header(session.id, "deploy", arguments, 80) == "here"
    assert arguments == {"to": "here"}
    await session.close()


async def test_a_message_is_printed_as_its_renderer_draws_it_verbatim() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.message_renderer("box")
        def box(text: str, width: int) -> str:
            return f"+{'-' * (width - 2)}+\n| {text}"

        @ostler.message_renderer("bad")
        async def bad(text: str, width: int) -> str:
            raise ValueError("no")

    face = FakeFrontEnd(width=6)
    session, _, context = await opened(face, setup)
    await context.render_message("box", "hello")
    await context.render_message("unknown", "plain")
    await context.render_message("bad", "also plain")
    assert face.texts("plain") == ["+----+\n| hello", "plain", "also plain"]
    await session.close()


async def test_a_message_is_80_columns_wide_without_a_terminal() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        ostler.message_renderer("width")(lambda text, width: f"{text} {width}")

    printed: list[Any] = []
    session, _, context = await opened(None, setup)
    session.subscribe(printed.extend)
    await context.render_message("width", "at")
    assert [one.text for one in printed] == ["at 80"]
    await session.close()
