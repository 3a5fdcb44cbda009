"""Themes of the terminal: the built-in ones, files of people and projects, and which of them is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.app.settings import load_settings
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
from ostler.schema.errors import ConfigurationError
from ostler.tui.render.diff import diff_lines, diff_rows
from ostler.tui.themes import (
    BUILT_IN,
    ThemeList,
    chosen_theme,
    missing_theme,
    parse_theme,
    themes_for,
)
from tests.support.paths import DOCS

NAMES = [DEFAULT, *sorted(path.stem for path in BUILT_IN.iterdir())]
QUIET = {"muted": 3.0, "very_muted": 3.0, "md_comment": 3.0}
NO_TEXT = {"background", "border", "muted_border", "highlight"}


class Notices(list[str]):
    """What was said."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    (folder / "themes").mkdir(parents=True)
    monkeypatch.setenv("OSTLER_HOME", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / ".ostler" / "themes").mkdir(parents=True)
    return folder


@pytest.fixture
def said() -> Notices:
    return Notices()


@pytest.fixture
def shelf(project: Path, said: Notices) -> ThemeList:
    return themes_for(project, said.append)


def channels(color: str) -> list[float]:
    """Red, green and blue of `#rrggbb`, as light."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    """As WCAG defines it: from 1 to 21."""
    lights = [sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), channels(color))) for color in (one, other)]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def shown(name: str, dark: bool) -> ThemeColors:
    book = ThemeRegistry()
    book.bring_along(ThemeList((), pytest.fail))
    return book.resolved(name, dark=dark)


# --- those that come along ------------------------------------------------------------------------------


def test_there_are_at_least_22_built_in_themes_and_each_says_what_it_is(shelf: ThemeList) -> None:
    assert list(shelf) == sorted(NAMES)
    assert len(shelf) >= 22
    descriptions = [shelf.description(name) for name in shelf]
    assert all(0 < len(one) <= 80 for one in descriptions)
    assert len(set(descriptions)) == len(descriptions)


def test_a_built_in_theme_has_every_colour_on_both_sides(shelf: ThemeList, said: Notices) -> None:
    for name in shelf:
        colors = [getattr(shelf[name], slot) for slot in SLOTS]
        assert all(full_hex(one.light) and full_hex(one.dark) for one in colors), name
    assert said == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_a_built_in_theme_is_readable(name: str, dark: bool) -> None:
    colors = shown(name, dark)
    needed = {slot: QUIET.get(slot, 4.5) for slot in SLOTS if slot not in NO_TEXT}
    found = {slot: contrast(getattr(colors, slot), colors.background) for slot in needed}
    assert {slot: found[slot] for slot in needed if found[slot] < needed[slot]} == {}
    assert contrast(colors.text, colors.highlight) >= 4.5
    assert (contrast(colors.background, "#000000") < contrast(colors.background, "#ffffff")) == dark


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_the_changed_words_of_a_diff_are_readable_on_their_tint(name: str, dark: bool) -> None:
    rows = diff_rows(diff_lines("@@ -1 +1 @@\n-one old word\n+one new word\n"), 60, shown(name, dark))
    found = re.findall(r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m(?:old|new)", "".join(rows))
    assert len(found) == 2
    for digits in found:
        red, green, blue, *behind = map(int, digits)
        text, tint = f"#{red:02x}{green:02x}{blue:02x}", "#{:02x}{:02x}{:02x}".format(*behind)
        assert contrast(text, tint) >= 4.5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_good_and_bad_news_are_told_apart_by_colour(name: str, dark: bool) -> None:
    colors = shown(name, dark)
    assert len({colors.success, colors.warning, colors.error, colors.info}) == 4
    assert colors.primary not in (colors.warning, colors.error)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_high_contrast_is_higher(dark: bool) -> None:
    colors = shown("high-contrast", dark)
    texts = [getattr(colors, slot) for slot in SLOTS if slot not in NO_TEXT and slot not in QUIET]
    assert min(contrast(one, colors.background) for one in texts) >= 7


# How those see who lack one kind of cone (Viénot, Brettel and Mollon, 1999): what is red and green of light.
WITHOUT_RED = ((0.1124, 0.8876, 0.0), (0.1124, 0.8876, 0.0), (0.0040, -0.0040, 1.0))
WITHOUT_GREEN = ((0.2920, 0.7080, 0.0), (0.2920, 0.7080, 0.0), (-0.0223, 0.0223, 1.0))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("sight", [WITHOUT_RED, WITHOUT_GREEN], ids=["without red", "without green"])
def test_the_safe_theme_tells_success_from_failure_without_red_and_green(
    sight: tuple[tuple[float, ...], ...], dark: bool
) -> None:
    def distance(name: str) -> float:
        colors = shown(name, dark)
        seen = [
            [max(0.0, sum(map(float.__mul__, row, channels(one)))) ** (1 / 2.2) for row in sight]
            for one in (colors.success, colors.error)
        ]
        return max(abs(one - other) for one, other in zip(*seen, strict=True))

    assert distance("color-safe") > 0.5


def test_a_theme_is_read_only_when_it_is_looked_at(
    project: Path, said: Notices, shelf: ThemeList, home: Path
) -> None:
    (home / "themes" / "broken.toml").write_text("primary = ")
    book = ThemeRegistry()
    book.bring_along(shelf)
    assert "broken" in book.names()
    book.resolved("nord", dark=True)
    assert said == []
    book.resolved("broken", dark=True)
    assert len(said) == 1


# --- files ----------------------------------------------------------------------------------------------


def test_a_file_says_one_colour_for_both_sides_or_one_for_each() -> None:
    file = parse_theme(
        {"primary": "#ABC", "text": {"light": "112233", "dark": "#ddd"}, "error": {"dark": "#f00"}}
    )
    assert file.theme.primary == ThemeColor("#aabbcc", "#aabbcc")
    assert file.theme.text == ThemeColor("#112233", "#dddddd")
    assert file.theme.error == ThemeColor("", "#ff0000")
    assert file.theme.muted == ThemeColor()
    assert file.problems == ()


def test_what_is_wrong_costs_its_own_line_and_the_rest_of_the_theme_counts(
    home: Path, shelf: ThemeList, said: Notices
) -> None:
    path = home / "themes" / "odd.toml"
    path.write_text(
        """
        primray = "#fff"
        "\\u001b[31m" = "#fff"
        primary = "#112233"
        error = "reddish"
        warning = 7
        text = { light = "#000", dark = "\\u001b[2J", noon = "#fff" }
        description = ["no", "text"]
        """
    )
    theme = shelf["odd"]
    assert (theme.primary, theme.text) == (ThemeColor("#112233", "#112233"), ThemeColor("#000000", ""))
    assert (theme.error, theme.warning) == (ThemeColor(), ThemeColor())
    assert said == [
        f"{path}: unknown name 'primray'; did you mean primary?",
        f"{path}: unknown name '\\x1b[31m'; docs/themes.md lists all names",
        f"{path}: error must be a colour like #rrggbb, not 'reddish'",
        f"{path}: warning must be a colour like #rrggbb, not 7",
        f"{path}: text has light and dark, but no 'noon'",
        f"{path}: text must be a colour like #rrggbb, not '\\x1b[2J'",
        f"{path}: description must be a text, not ['no', 'text']",
    ]
    assert shelf["odd"] == theme
    assert len(said) == 7, "each is said once"


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["#fff", "#a0b1c2"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["light", "dark", "x"]), inner)
    ),
)


@given(st.dictionaries(st.sampled_from([*SLOTS, "description", "inherits"]) | st.text(), _VALUES, max_size=8))
def test_any_values_make_a_theme_that_can_be_registered(values: dict[str, object]) -> None:
    file = parse_theme(values)
    ThemeRegistry().register("any", file.theme)
    assert all(problem.isprintable() for problem in file.problems)


def test_what_a_theme_leaves_out_is_inherited_slot_by_slot_and_side_by_side(
    home: Path, shelf: ThemeList, said: Notices
) -> None:
    (home / "themes" / "mine.toml").write_text('inherits = "nord"\nprimary = { dark = "#ffffff" }\n')
    (home / "themes" / "yours.toml").write_text('inherits = "mine"\nerror = "#ff0000"\n')
    mine, yours, nord = shelf["mine"], shelf["yours"], shelf["nord"]
    assert mine.primary == ThemeColor(nord.primary.light, "#ffffff")
    assert mine.text == yours.text == nord.text
    assert (yours.primary, yours.error) == (mine.primary, ThemeColor("#ff0000", "#ff0000"))
    assert said == []


def test_without_a_theme_to_inherit_the_rest_is_that_of_the_default(home: Path, shelf: ThemeList) -> None:
    (home / "themes" / "mine.toml").write_text('primary = "#123456"')
    book = ThemeRegistry()
    book.bring_along(shelf)
    assert book.resolved("mine", dark=True).primary == "#123456"
    assert book.resolved("mine", dark=True).text == DEFAULT_THEME.text.dark


def test_a_file_replaces_a_theme_of_its_name_and_may_build_on_it(
    home: Path, project: Path, said: Notices
) -> None:
    below = project / "a" / "b"
    (below / ".ostler" / "themes").mkdir(parents=True)
    before = themes_for(project, said.append)["nord"]
    (home / "themes" / "nord.toml").write_text('inherits = "nord"\nprimary = "#111111"\nerror = "#111111"')
    (project / ".ostler" / "themes" / "nord.toml").write_text('inherits = "nord"\nprimary = "#222222"')
    (below / ".ostler" / "themes" / "nord.toml").write_text('inherits = "nord"\naccent = "#333333"')
    nord = themes_for(project, said.append)["nord"]
    assert (nord.primary.dark, nord.error.dark, nord.text) == ("#222222", "#111111", before.text)
    nearest = themes_for(below, said.append)["nord"]
    assert (nearest.accent.dark, nearest.primary.dark) == ("#333333", "#222222")
    (home / "themes" / "default.toml").write_text('primary = "#444444"')
    book = ThemeRegistry()
    book.bring_along(themes_for(project, said.append))
    assert book.resolved(DEFAULT, dark=False).primary == "#444444"
    assert said == []


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a": 'inherits = "none"'}, "it inherits 'none', which does not exist"),
        ({"a": 'inherits = "a"'}, "it inherits 'a', which does not exist"),
        ({"a": 'inherits = "b"', "b": 'inherits = "a"'}, "it inherits 'a', which inherits it back"),
        ({"a": "inherits = 3"}, "inherits must be a text, not 3"),
        ({"a": "= 3"}, "it is not valid TOML: "),
        ({"a": 'text = "#fff"' + "\n" * 70_000}, "it is larger than 64 KiB"),
    ],
)
def test_a_theme_that_cannot_be_as_it_says_is_shown_as_far_as_it_goes(
    files: dict[str, str], problem: str, home: Path, shelf: ThemeList, said: Notices
) -> None:
    for name, text in files.items():
        (home / "themes" / f"{name}.toml").write_text(f"{text}\n")
    assert shelf["a"] == Theme()
    assert shelf["a"] == Theme()
    (line,) = said
    assert f".toml: {problem}" in line
    assert "\n" not in line


def test_a_broken_file_leaves_the_theme_that_it_was_to_replace(
    home: Path, shelf: ThemeList, said: Notices, project: Path
) -> None:
    (home / "themes" / "nord.toml").write_bytes(b"primary = \xff")
    nord = shelf["nord"]
    (home / "themes" / "nord.toml").unlink()
    assert nord == themes_for(project, said.append)["nord"]
    assert nord.primary.dark
    assert len(said) == 1


def test_a_project_cannot_show_a_file_that_is_not_its_own(
    home: Path, project: Path, shelf: ThemeList, said: Notices
) -> None:
    (home / "secret.toml").write_text('primary = "#111111"')
    (project / ".ostler" / "themes" / "led-out.toml").symlink_to(home / "secret.toml")
    (home / "themes" / "linked.toml").symlink_to(home / "secret.toml")
    assert shelf["led-out"] == Theme()
    assert said == [f"{project}/.ostler/themes/led-out.toml: it is a link to a file outside the project"]
    assert shelf["linked"].primary.light == "#111111", "a person may keep his own elsewhere"


def test_a_file_whose_name_cannot_be_typed_is_no_theme(home: Path, shelf: ThemeList, said: Notices) -> None:
    (home / "themes" / "my theme.toml").write_text('primary = "#111111"')
    (home / "themes" / "notes.txt").write_text("no theme")
    assert sorted(shelf) == sorted(NAMES)
    assert said == [
        f"{home}/themes/my theme.toml: the name of a theme may only have letters, digits, . - and _"
    ]


# --- which is shown -------------------------------------------------------------------------------------


def test_an_extensions_theme_goes_first_whenever_it_came(shelf: ThemeList) -> None:
    book, extension = ThemeRegistry(), object()
    book.register("nord", Theme(primary=ThemeColor("#111111", "#111111")), extension)
    book.bring_along(shelf)
    assert book.resolved("nord", dark=True).primary == "#111111"
    assert set(NAMES) <= set(book.names())
    book.forget(extension)
    assert book["nord"] == shelf["nord"]


async def test_the_setting_chooses_and_a_theme_that_there_is_not_is_said_in_a_line(
    home: Path, project: Path, shelf: ThemeList
) -> None:
    (home / "config.toml").write_text("theme = 'nord'\nappearance = 'light'")
    settings = load_settings(project, {}, {}).settings
    book = ThemeRegistry()
    book.bring_along(shelf)
    assert (chosen_theme(settings.theme, {}), settings.appearance) == ("nord", "light")
    assert chosen_theme("", {}) == DEFAULT
    assert await missing_theme("nord", book, None, "") == ""
    unknown = await missing_theme(chosen_theme("nrod", {}), book, None, "")
    assert unknown == "there is no theme 'nrod'; /theme lists the themes"
    assert book.resolved("nrod", dark=True).name == DEFAULT
    assert load_settings(project, {}, {"OSTLER_THEME": "dusk"}).settings.theme == "dusk"
    with pytest.raises(ConfigurationError, match=r"appearance must be .*auto"):
        load_settings(project, {}, {"OSTLER_APPEARANCE": "noon"})


def test_without_colours_no_theme_is_shown(shelf: ThemeList) -> None:
    book = ThemeRegistry()
    book.bring_along(shelf)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert chosen_theme("nord", environment) == chosen_theme("", environment) == ""
    assert chosen_theme("nord", {"NO_COLOR": "", "TERM": "xterm"}) == "nord"
    assert book.resolved("nord", dark=True).primary == shelf["nord"].primary.dark


def test_every_slot_is_explained() -> None:
    page = (DOCS / "themes.md").read_text()
    assert [slot for slot in SLOTS if f"`{slot}`" not in page] == []
