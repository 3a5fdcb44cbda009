"""Themes of extensions."""

from __future__ import annotations

import pytest

from ostler.extensions.ui.themes import (
    DEFAULT,
    DEFAULT_THEME,
    SLOTS,
    Theme,
    ThemeColor,
    ThemeColors,
    ThemeRegistry,
    full_hex,
)
from ostler.schema.errors import UsageError
from ostler.testkit.front_end import FakeFrontEnd
from tests.support.extension_front_end import opened

SEA = Theme(primary=ThemeColor("#036", "9CF"), text=ThemeColor(dark="#ffffff"))


def test_a_theme_has_16_slots_of_the_interface_and_6_of_markdown() -> None:
    assert len(SLOTS) == 22
    assert sum(slot.startswith("md_") for slot in SLOTS) == 6
    assert (*("name", "dark"), *SLOTS) == ThemeColors.__struct_fields__


def test_the_default_theme_has_every_colour() -> None:
    for dark in (False, True):
        colors = ThemeRegistry().resolved(DEFAULT, dark=dark)
        assert all(full_hex(getattr(colors, slot)) for slot in SLOTS)


def test_an_empty_colour_falls_back_to_the_default_theme() -> None:
    book = ThemeRegistry()
    book.register("sea", SEA)
    light, dark = book.resolved("sea", dark=False), book.resolved("sea", dark=True)
    assert (light.name, light.dark, light.primary) == ("sea", False, "#003366")
    assert (dark.dark, dark.primary, dark.text) == (True, "#99ccff", "#ffffff")
    assert light.text == DEFAULT_THEME.text.light
    assert light.md_link == DEFAULT_THEME.md_link.light


@pytest.mark.parametrize(
    ("color", "codes"),
    [
        ("#ff8000", "38;2;255;128;0"),
        ("FF8000", "38;2;255;128;0"),
        ("#f80", "38;2;255;136;0"),
        ("f80", "38;2;255;136;0"),
    ],
)
def test_text_is_coloured_whether_the_colour_has_three_digits_or_six(color: str, codes: str) -> None:
    colors = ThemeColors()
    assert colors.ansi(color, "hi") == f"\x1b[{codes}mhi\x1b[0m"
    assert colors.ansi_bold(color, "hi") == f"\x1b[1;{codes}mhi\x1b[0m"


@pytest.mark.parametrize("color", ["", "#", "red", "#12345", "#1234567", "##fff", "#+f0", "1_2", "#ffg"])
def test_an_invalid_colour_leaves_the_text_plain_or_bold(color: str) -> None:
    colors = ThemeColors()
    assert colors.ansi(color, "hi") == "hi"
    assert colors.ansi_bold(color, "hi") == "\x1b[1mhi\x1b[0m"


def test_a_theme_with_a_bad_colour_is_refused_with_its_slot() -> None:
    with pytest.raises(UsageError, match="'odd': accent is not a colour"):
        ThemeRegistry().register("odd", Theme(accent=ThemeColor("blue-ish")))
    with pytest.raises(UsageError, match="needs a name"):
        ThemeRegistry().register("", SEA)
    with pytest.raises(UsageError, match="'odd': primary is not a ThemeColor"):
        ThemeRegistry().register("odd", Theme(primary="#fff"))  # type: ignore[arg-type]


def test_the_last_theme_of_a_name_wins_until_it_is_removed() -> None:
    book, first, second = ThemeRegistry(), object(), object()
    book.register("sea", SEA, first)
    book.register("sea", Theme(primary=ThemeColor("#111", "#111")), second)
    book.register(DEFAULT, Theme(primary=ThemeColor("#222", "#222")), second)
    assert book.resolved("sea", dark=False).primary == "#111111"
    assert book.resolved(DEFAULT, dark=False).primary == "#222222", "an extension's goes first"
    book.forget(second)
    assert book.resolved("sea", dark=False).primary == "#003366"
    assert book[DEFAULT] is DEFAULT_THEME
    book.forget(first)
    assert book.names() == [DEFAULT]
    assert book.resolved("sea", dark=False).name == DEFAULT


async def test_an_extension_registers_and_sets_a_theme() -> None:
    face = FakeFrontEnd(is_dark=True)
    session, _, context = await opened(face)
    context.ui.register_theme("sea", SEA)
    assert context.ui.themes() == [DEFAULT, "sea"]
    context.ui.set_theme("sea")
    assert face.theme() == "sea"
    assert context.ui.theme().primary == "#99ccff"
    assert face.values["theme"]["name"] == "sea"
    assert face.values["theme"]["colors"]["primary"] == {"light": "#036", "dark": "9CF"}
    await session.close()


async def test_an_unknown_theme_is_refused_with_those_there_are() -> None:
    session, _, context = await opened(FakeFrontEnd())
    with pytest.raises(UsageError, match="there is no theme 'sea'; there are: default"):
        context.ui.set_theme("sea")
    await session.close()


async def test_the_theme_of_an_extension_goes_with_it() -> None:
    face = FakeFrontEnd()
    session, host, context = await opened(face)
    context.ui.register_theme("sea", SEA)
    context.ui.set_theme("sea")
    await host.sessions[session.id].remove("demo", "reload")
    assert face.theme() == DEFAULT
    assert host.ui.themes.names() == [DEFAULT]
    assert "theme" not in face.values
    await session.close()


async def test_without_a_front_end_there_are_no_themes_but_a_theme_is_published() -> None:
    session, host, context = await opened()
    context.ui.register_theme("sea", SEA)
    context.ui.set_theme("unknown")
    assert host.ui.live_values(session.id) == {}
    context.ui.set_theme("sea")
    assert host.ui.live_values(session.id)["theme"]["name"] == "sea"
    assert context.ui.themes() == []
    assert context.ui.theme() == ThemeColors()
    await session.close()
