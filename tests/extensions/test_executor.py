"""Exceptions in code of extensions are reported and do not disturb the session."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ostler import events
from ostler.extensions import Content, ExtensionAPI, ExtensionContext, Widget
from ostler.extensions.api import HookPoint
from ostler.extensions.host import CommandFailed
from ostler.extensions.ui.front_end import Editor
from ostler.testkit import Call
from ostler.testkit.extensions import ExtensionTest
from ostler.testkit.front_end import FakeFrontEnd


def fail(place: str) -> Any:
    raise ValueError(f"in {place}")


def hostile(ostler: ExtensionAPI) -> None:
    points = [name for name, point in vars(ostler).items() if isinstance(point, HookPoint)]
    for point in points:
        hook: Any = getattr(ostler, point)
        options = {"guard": False} if point == "before_tool" else {}
        hook(**options)(lambda subject, point=point: fail(point))

    @ostler.on(events.RunStarted)
    def observer(started: events.RunStarted) -> None:
        fail("observer")

    @ostler.on(events.RunEnded)
    async def async_observer(ended: events.RunEnded) -> None:
        fail("async observer")

    @ostler.on("news")
    def news(data: Any) -> None:
        fail("news")

    @ostler.tool
    def look() -> str:
        """Looks around."""
        return str(fail("tool"))

    @ostler.command("failing", complete=lambda typed: fail("completion"))
    def failing(arguments: str) -> None:
        fail("command")

    @ostler.shortcut("f5")
    def shortcut(context: ExtensionContext) -> None:
        fail("shortcut")

    ostler.tool_renderer(
        "look",
        header=lambda arguments, width: fail("header"),
        body=lambda result, failed, width: fail("body"),
    )

    @ostler.message_renderer("banner")
    def banner(text: str, width: int) -> str:
        return str(fail("banner"))

    @ostler.command("all")
    async def everything(arguments: str, context: ExtensionContext) -> str:
        context.ui.set_widget(Widget("w", Content(text="the default", render=lambda width: fail("widget"))))
        context.ui.set_editor(
            Editor(lambda key, text: fail("key"), render=lambda width, drawn: fail("editor"))
        )
        await context.emit("news")
        await context.render_message("banner", "plain")
        answer = await context.models.complete("One word.", on_chunk=lambda text: fail("chunk"))
        child = await context.run_subagent(
            "Look.", on_event=lambda event: fail("event"), on_complete=lambda result: fail("complete")
        )
        return f"{answer.text} {child.text}"


async def test_an_error_in_any_handler_is_reported_with_its_line_and_the_session_continues() -> None:
    script: list[Any] = [Call("look"), "done", "word", Call("look"), "seen"]
    async with ExtensionTest(hostile, script, face=FakeFrontEnd()) as test:
        ended = await test.prompt("go")
        assert isinstance(ended, events.RunEnded) and ended.status == "completed"
        with pytest.raises(
            CommandFailed, match=r"/failing failed: ValueError: in command \(test_executor.py:21\)"
        ):
            await test.command("/failing")
        assert await test.command("/all") == "word seen"
        assert "the default" in await test.face.screen()
        assert await test.host.ui.completions(test.session.id, "failing", "") == []
        await test.press("f5", "a")
        assert await test.face.call("look", {}, "a tree") == "look\na tree"
        assert "plain" in test.prints
        own = await _failures(test, test.session.id)
        (child,) = [one.id for one in await test.session.journal.store.sessions() if one.child_of]
        below = await _failures(test, child)
    hooks = {"input", "before_run", "before_step", "context", "before_tool", "after_tool", "before_message"}
    everywhere = {*hooks, "observer", "async observer", "tool"}
    callbacks = {"news", "banner", "chunk", "event", "complete"}
    faces = {"widget", "editor", "key", "completion", "shortcut", "header", "body"}
    assert own == everywhere | callbacks | faces
    assert below == everywhere, "in children, too"


async def _failures(test: ExtensionTest, session: str) -> set[str]:
    facts = await test.session.journal.store.read(session)
    texts = [fact.event.text for fact in facts if isinstance(fact.event, events.Warned)]
    pattern = r"the (?:extension|hook) extension failed.*: ValueError: in (.+) \(test_executor.py:21\)"
    matches = [re.fullmatch(pattern, text) for text in texts]
    assert all(matches), texts
    return {one[1] for one in matches if one}
