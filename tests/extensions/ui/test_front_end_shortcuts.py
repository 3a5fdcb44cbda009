"""Keyboard shortcuts of extensions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.extensions.api import ExtensionAPI
from ostler.extensions.host import ExtensionHost
from ostler.extensions.ui.front_end import is_reserved, normalised_key, shortcut_key
from ostler.schema.errors import UsageError
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_front_end import opened
from tests.support.extension_session import extension, facts_of


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("Shift+Ctrl+S", "ctrl+shift+s"),
        ("super+hyper+meta+shift+alt+ctrl+x", "ctrl+alt+shift+meta+hyper+super+x"),
        ("Control+Option+a", "ctrl+alt+a"),
        ("opt+CMD+Win+q", "alt+meta+super+q"),
        ("command+ctrl+ctrl+k", "ctrl+meta+k"),
        ("Escape", "esc"),
        ("Return", "enter"),
        ("ctrl+Del", "ctrl+delete"),
        ("ins", "insert"),
        ("PageUp", "pgup"),
        ("pagedn", "pgdown"),
        ("PageDown", "pgdown"),
        ("pgdn", "pgdown"),
        ("spacebar", "space"),
        (" ", "space"),
        ("ctrl+ ", "ctrl+space"),
        ("ctrl++", "ctrl++"),
        ("Shift+Ctrl++", "ctrl+shift++"),
        ("+", "+"),
        ("Foo+X", "Foo+X"),
        ("ctrl+Foo+X", "ctrl+Foo+X"),
        ("A", "A"),
        ("a", "a"),
        ("shift+A", "shift+a"),
        ("F5", "f5"),
        ("", ""),
    ],
)
def test_a_key_has_one_name_however_it_is_spelled(spelled: str, name: str) -> None:
    assert normalised_key(spelled) == name


_WORDS = ["ctrl", "Control", "SHIFT", "opt", "Win", "foo", "s", "S", "+", " ", "", "Escape", "pgdn", "ß", "İ"]


@given(st.one_of(st.text(max_size=12), st.lists(st.sampled_from(_WORDS), max_size=5).map("+".join)))
def test_a_name_of_a_key_is_its_own_name(spelled: str) -> None:
    name = normalised_key(spelled)
    assert normalised_key(name) == name


@pytest.mark.parametrize("key", ["ctrl+c", "Control+C", "", "\t\n"])
def test_reserved_keys_are_refused(key: str) -> None:
    with pytest.raises(UsageError, match=r"key|cannot use"):
        shortcut_key(key)
    with pytest.raises(UsageError):
        ExtensionAPI("demo").shortcut(key)


def test_a_shortcut_on_a_key_of_front_ends_is_reported() -> None:
    notices: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        ostler.shortcut("Escape")(lambda: None)
        ostler.shortcut("ctrl+k")(lambda: None)
        ostler.shortcut("Ctrl+K")(lambda: None)

    from ostler.core.harness import Harness
    from ostler.models.scripted import ScriptedModel

    ExtensionHost([extension("demo", setup)], face=FakeFrontEnd(), say=notices.append).install_into(
        Harness(model=ScriptedModel([]))
    )
    assert notices == [
        "the extension demo registers esc, which front ends use themselves",
        "the extension demo registers ctrl+k twice: the last one is used",
    ]
    ExtensionHost([extension("demo", setup)], say=notices.append).install_into(
        Harness(model=ScriptedModel([]))
    )
    assert len(notices) == 2, "without keys there is nothing to warn of"
    assert is_reserved("shift+tab")


async def test_a_shortcut_calls_its_handler_with_the_context() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.shortcut("Ctrl+Shift+S", description="says where we are")
        def say(context: Any) -> None:
            context.print(context.session_id)

        @ostler.shortcut("ctrl+y")
        async def ask(context: Any) -> None:
            if (await context.ui.confirm("Sure?")).value:
                context.print("sure")

    face = FakeFrontEnd(True)
    session, _, _ = await opened(face, setup)
    await face.press("shift+ctrl+s", "ctrl+y", "ctrl+z")
    assert face.texts() == [session.id, "sure"]
    assert face.typed == ""
    await session.close()


async def test_a_shortcut_matches_the_typed_letter_before_the_key_name() -> None:
    pressed: list[str] = []

    def as_stroke(ostler: ExtensionAPI) -> None:
        ostler.shortcut("shift+a")(lambda: pressed.append("stroke"))

    def as_text(ostler: ExtensionAPI) -> None:
        as_stroke(ostler)
        ostler.shortcut("A")(lambda: pressed.append("text"))

    for setup in (as_stroke, as_text):
        face = FakeFrontEnd()
        session, _, _ = await opened(face, setup)
        await face.press("A", "shift+a")
        await session.close()
    assert pressed == ["stroke", "stroke", "text", "text"]


async def test_a_shortcut_that_raises_is_reported() -> None:
    def setup(ostler: ExtensionAPI) -> None:
        @ostler.shortcut("ctrl+k")
        def bad() -> None:
            raise ValueError("no")

    face = FakeFrontEnd()
    session, _, _ = await opened(face, setup)
    await face.press("ctrl+k", "a")
    (warned,) = await facts_of(session, "warned")
    assert (
        "the extension demo failed in the shortcut ctrl+k: ValueError: no (test_front_end_shortcuts.py:"
        in warned.text
    )
    assert face.typed == "a"
    await session.close()


async def test_shortcuts_do_not_fire_while_a_dialog_is_open() -> None:
    pressed: list[str] = []

    def setup(ostler: ExtensionAPI) -> None:
        ostler.shortcut("ctrl+k")(lambda: pressed.append("k"))

    async def answer(asked: Any) -> bool:
        await face.press("ctrl+k")
        return True

    face = FakeFrontEnd(answer=answer)
    session, _, context = await opened(face, setup)
    assert (await context.ui.confirm("Sure?")).value
    assert not pressed
    await face.press("ctrl+k")
    assert pressed == ["k"]
    await session.close()
