"""Editors of extensions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ostler.extensions.ui import renderer
from ostler.extensions.ui.front_end import Editor, KeyAction
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_front_end import opened
from tests.support.extension_session import extension, facts_of


def vowels_are_special(key: str, text: str) -> KeyAction | None:
    match key:
        case "a":
            return KeyAction("consume")
        case "e":
            return KeyAction("remap", key="x")
        case "i":
            return KeyAction("remap", key="no such key")
        case "o":
            return KeyAction("submit")
        case "u":
            return KeyAction("submit", text=f"{text}!")
        case "y":
            return KeyAction()
    return None


async def test_an_editor_passes_consumes_remaps_and_submits() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_editor(Editor(handle_key=vowels_are_special))
    await face.press("b", "a", "e", "i", "y")
    assert face.typed == "bxiy"
    await face.press("o", "k", "u", "enter")
    assert face.submitted == ["bxiy", "k!", ""]
    context.ui.reset_editor()
    await face.press("a")
    assert face.typed == "a"
    await session.close()


async def test_an_editor_renders_around_the_default_at_a_width() -> None:
    async def draw(width: int, default: str) -> str:
        return f"[{default}]".ljust(width, ".")

    face = FakeFrontEnd(width=10)
    session, _, context = await opened(face)
    context.ui.set_editor(Editor(render=draw))
    await face.press("h", "i")
    assert (await face.screen()).splitlines()[-1] == "[> hi]...."
    await session.close()


async def test_an_editor_that_raises_or_hangs_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_end = threading.Event()

    def handle(key: str, text: str) -> Any:
        if key == "a":
            raise ValueError("no")
        if key == "b":
            may_end.wait(60)
        return "nonsense"

    face = FakeFrontEnd()
    session, _, context = await opened(face)
    context.ui.set_editor(Editor(handle, lambda width, default: 3))  # type: ignore[arg-type, return-value]
    await face.press("a")
    with monkeypatch.context() as hurried:
        hurried.setattr(renderer, "RENDER_SECONDS", 0.02)
        await face.press("b")
    may_end.set()
    await face.press("c", "enter")
    assert face.submitted == ["abc"]
    assert (await face.screen()).splitlines()[-1] == "> "
    reported = [one.text for one in await facts_of(session, "warned")]
    assert len(reported) == 2
    assert "failed in handle_key: ValueError: no (test_front_end_editor.py:" in reported[0]
    assert "failed in the editor's render: it returned 3" in reported[1]
    await session.close()


async def test_the_last_editor_is_active_until_it_is_removed() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    extension_session = host.sessions[session.id]
    extension_session.add(extension("other", lambda ostler: None))
    context.ui.set_editor(Editor(lambda key, text: KeyAction("remap", key="1")))
    extension_session.channels["other"].context.ui.set_editor(
        Editor(lambda key, text: KeyAction("remap", key="2"))
    )
    await face.press("a")
    await extension_session.remove("other", "reload")
    await face.press("a")
    await extension_session.remove("demo", "reload")
    await face.press("a")
    assert face.typed == "21a"
    await session.close()


async def test_an_extension_reads_and_writes_the_editor() -> None:
    face = FakeFrontEnd()
    session, _, context = await opened(face)
    await face.press("h", "i", "space", "!", "backspace")
    assert context.ui.editor_text == "hi "
    context.ui.set_editor_text("something else")
    assert face.typed == "something else"
    await session.close()
