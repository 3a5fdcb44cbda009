"""Themes of the terminal: the built-in ones, files of people and projects, and which one is used."""

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
    """The reported problems."""


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
def notices() -> Notices:
    return Notices()


@pytest.fixture
def theme_list(project: Path, notices: Notices) -> ThemeList:
    return themes_for(project, notices.append)


def channels(color: str) -> list[float]:
    """Red, green and blue of `#rrggbb`, as light."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    """As WCAG defines it: from 1 to 21."""
    lights = [sum(map(float.__mul__, (0.2126, 0.7152, 0.0722), channels(color))) for color in (one, other)]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def theme_colors(name: str, dark: bool) -> ThemeColors:
    book = ThemeRegistry()
    book.bring_along(ThemeList((), pytest.fail))
    return book.resolved(name, dark=dark)


# --- those that come along ------------------------------------------------------------------------------


def test_there_are_at_least_22_built_in_themes_with_descriptions(theme_list: ThemeList) -> None:
    assert list(theme_list) == sorted(NAMES)
    assert len(theme_list) >= 22
    descriptions = [theme_list.description(name) for name in theme_list]
    assert all(0 < len(one) <= 80 for one in descriptions)
    assert len(set(descriptions)) == len(descriptions)


def test_a_built_in_theme_has_every_colour_for_light_and_dark(
    theme_list: ThemeList, notices: Notices
) -> None:
    for name in theme_list:
        colors = [getattr(theme_list[name], slot) for slot in SLOTS]
        assert all(full_hex(one.light) and full_hex(one.dark) for one in colors), name
    assert notices == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_a_built_in_theme_is_readable(name: str, dark: bool) -> None:
    colors = theme_colors(name, dark)
    needed = {slot: QUIET.get(slot, 4.5) for slot in SLOTS if slot not in NO_TEXT}
    contrasts = {slot: contrast(getattr(colors, slot), colors.background) for slot in needed}
    assert {slot: contrasts[slot] for slot in needed if contrasts[slot] < needed[slot]} == {}
    assert contrast(colors.text, colors.highlight) >= 4.5
    assert (contrast(colors.background, "#000000") < contrast(colors.background, "#ffffff")) == dark


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_the_changed_words_of_a_diff_are_readable_on_their_tint(name: str, dark: bool) -> None:
    rows = diff_rows(diff_lines("@@ -1 +1 @@\n-one old word\n+one new word\n"), 60, theme_colors(name, dark))
    contrasts = re.findall(r"38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m(?:old|new)", "".join(rows))
    assert len(contrasts) == 2
    for digits in contrasts:
        red, green, blue, *behind = map(int, digits)
        text, tint = f"#{red:02x}{green:02x}{blue:02x}", "#{:02x}{:02x}{:02x}".format(*behind)
        assert contrast(text, tint) >= 4.5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_success_and_error_colours_differ(name: str, dark: bool) -> None:
    colors = theme_colors(name, dark)
    assert len({colors.success, colors.warning, colors.error, colors.info}) == 4
    assert colors.primary not in (colors.warning, colors.error)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_high_contrast_theme_has_higher_contrast(dark: bool) -> None:
    colors = theme_colors("high-contrast", dark)
    texts = [getattr(colors, slot) for slot in SLOTS if slot not in NO_TEXT and slot not in QUIET]
    assert min(contrast(one, colors.background) for one in texts) >= 7


# How those see who lack one kind of cone (Viénot, Brettel and Mollon, 1999): what is red and green of light.
WITHOUT_RED = ((0.1124, 0.8876, 0.0), (0.1124, 0.8876, 0.0), (0.0040, -0.0040, 1.0))
WITHOUT_GREEN = ((0.2920, 0.7080, 0.0), (0.2920, 0.7080, 0.0), (-0.0223, 0.0223, 1.0))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("sight", [WITHOUT_RED, WITHOUT_GREEN], ids=["without red", "without green"])
def test_the_colour_blind_theme_avoids_red_and_green(
    sight: tuple[tuple[float, ...], ...], dark: bool
) -> None:
    def distance(name: str) -> float:
        colors = theme_colors(name, dark)
        perceived = [
            [max(0.0, sum(map(float.__mul__, row, channels(one)))) ** (1 / 2.2) for row in sight]
            for one in (colors.success, colors.error)
        ]
        return max(abs(one - other) for one, other in zip(*perceived, strict=True))

    assert distance("color-safe") > 0.5


def test_a_theme_file_is_read_on_first_use(
    project: Path, notices: Notices, theme_list: ThemeList, home: Path
) -> None:
    (home / "themes" / "broken.toml").write_text("primary = ")
    book = ThemeRegistry()
    book.bring_along(theme_list)
    assert "broken" in book.names()
    book.resolved("nord", dark=True)
    assert notices == []
    book.resolved("broken", dark=True)
    assert len(notices) == 1


# --- files ----------------------------------------------------------------------------------------------


def test_a_theme_file_sets_one_colour_or_one_each_for_light_and_dark() -> None:
    file = parse_theme(
        {"primary": "#ABC", "text": {"light": "112233", "dark": "#ddd"}, "error": {"dark": "#f00"}}
    )
    assert file.theme.primary == ThemeColor("#aabbcc", "#aabbcc")
    assert file.theme.text == ThemeColor("#112233", "#dddddd")
    assert file.theme.error == ThemeColor("", "#ff0000")
    assert file.theme.muted == ThemeColor()
    assert file.problems == ()


def test_a_mistake_in_a_theme_costs_only_its_line(
    home: Path, theme_list: ThemeList, notices: Notices
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
    theme = theme_list["odd"]
    assert (theme.primary, theme.text) == (ThemeColor("#112233", "#112233"), ThemeColor("#000000", ""))
    assert (theme.error, theme.warning) == (ThemeColor(), ThemeColor())
    assert notices == [
        f"{path}: unknown name 'primray'; did you mean primary?",
        f"{path}: unknown name '\\x1b[31m'; docs/themes.md lists all names",
        f"{path}: error must be a colour like #rrggbb, not 'reddish'",
        f"{path}: warning must be a colour like #rrggbb, not 7",
        f"{path}: text has light and dark, but no 'noon'",
        f"{path}: text must be a colour like #rrggbb, not '\\x1b[2J'",
        f"{path}: description must be a text, not ['no', 'text']",
    ]
    assert theme_list["odd"] == theme
    assert len(notices) == 7, "each problem is reported once"


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
def test_any_values_parse_to_a_valid_theme(values: dict[str, object]) -> None:
    file = parse_theme(values)
    ThemeRegistry().register("any", file.theme)
    assert all(problem.isprintable() for problem in file.problems)


def test_missing_colours_are_inherited_per_slot_and_side(
    home: Path, theme_list: ThemeList, notices: Notices
) -> None:
    (home / "themes" / "mine.toml").write_text('inherits = "nord"\nprimary = { dark = "#ffffff" }\n')
    (home / "themes" / "yours.toml").write_text('inherits = "mine"\nerror = "#ff0000"\n')
    mine, yours, nord = theme_list["mine"], theme_list["yours"], theme_list["nord"]
    assert mine.primary == ThemeColor(nord.primary.light, "#ffffff")
    assert mine.text == yours.text == nord.text
    assert (yours.primary, yours.error) == (mine.primary, ThemeColor("#ff0000", "#ff0000"))
    assert notices == []


def test_missing_colours_without_a_parent_come_from_the_default(home: Path, theme_list: ThemeList) -> None:
    (home / "themes" / "mine.toml").write_text('primary = "#123456"')
    book = ThemeRegistry()
    book.bring_along(theme_list)
    assert book.resolved("mine", dark=True).primary == "#123456"
    assert book.resolved("mine", dark=True).text == DEFAULT_THEME.text.dark


def test_a_theme_file_replaces_and_may_extend_a_theme_of_its_name(
    home: Path, project: Path, notices: Notices
) -> None:
    below = project / "a" / "b"
    (below / ".ostler" / "themes").mkdir(parents=True)
    before = themes_for(project, notices.append)["nord"]
    (home / "themes" / "nord.toml").write_text('inherits = "nord"\nprimary = "#111111"\nerror = "#111111"')
    (project / ".ostler" / "themes" / "nord.toml").write_text('inherits = "nord"\nprimary = "#222222"')
    (below / ".ostler" / "themes" / "nord.toml").write_text('inherits = "nord"\naccent = "#333333"')
    nord = themes_for(project, notices.append)["nord"]
    assert (nord.primary.dark, nord.error.dark, nord.text) == ("#222222", "#111111", before.text)
    nearest = themes_for(below, notices.append)["nord"]
    assert (nearest.accent.dark, nearest.primary.dark) == ("#333333", "#222222")
    (home / "themes" / "default.toml").write_text('primary = "#444444"')
    book = ThemeRegistry()
    book.bring_along(themes_for(project, notices.append))
    assert book.resolved(DEFAULT, dark=False).primary == "#444444"
    assert notices == []


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
def test_a_theme_with_broken_inheritance_keeps_its_own_colours(
    files: dict[str, str], problem: str, home: Path, theme_list: ThemeList, notices: Notices
) -> None:
    for name, text in files.items():
        (home / "themes" / f"{name}.toml").write_text(f"{text}\n")
    assert theme_list["a"] == Theme()
    assert theme_list["a"] == Theme()
    (line,) = notices
    assert f".toml: {problem}" in line
    assert "\n" not in line


def test_a_broken_theme_file_keeps_the_theme_it_would_replace(
    home: Path, theme_list: ThemeList, notices: Notices, project: Path
) -> None:
    (home / "themes" / "nord.toml").write_bytes(b"primary = \xff")
    nord = theme_list["nord"]
    (home / "themes" / "nord.toml").unlink()
    assert nord == themes_for(project, notices.append)["nord"]
    assert nord.primary.dark
    assert len(notices) == 1


def test_a_project_theme_cannot_link_outside_the_project(
    home: Path, project: Path, theme_list: ThemeList, notices: Notices
) -> None:
    (home / "secret.toml").write_text('primary = "#111111"')
    (project / ".ostler" / "themes" / "led-out.toml").symlink_to(home / "secret.toml")
    (home / "themes" / "linked.toml").symlink_to(home / "secret.toml")
    assert theme_list["led-out"] == Theme()
    assert notices == [f"{project}/.ostler/themes/led-out.toml: it is a link to a file outside the project"]
    assert theme_list["linked"].primary.light == "#111111", "a person may keep his own elsewhere"


def test_a_theme_file_with_an_invalid_name_is_ignored(
    home: Path, theme_list: ThemeList, notices: Notices
) -> None:
    (home / "themes" / "my theme.toml").write_text('primary = "#111111"')
    (home / "themes" / "notes.txt").write_text("no theme")
    assert sorted(theme_list) == sorted(NAMES)
    assert notices == [
        f"{home}/themes/my theme.toml: the name of a theme may only have letters, digits, . - and _"
    ]


# --- which one is used ----------------------------------------------------------------------------------


def test_a_theme_of_an_extension_takes_precedence(theme_list: ThemeList) -> None:
    book, extension = ThemeRegistry(), object()
    book.register("nord", Theme(primary=ThemeColor("#111111", "#111111")), extension)
    book.bring_along(theme_list)
    assert book.resolved("nord", dark=True).primary == "#111111"
    assert set(NAMES) <= set(book.names())
    book.forget(extension)
    assert book["nord"] == theme_list["nord"]


async def test_the_setting_chooses_the_theme_and_an_unknown_one_is_reported(
    home: Path, project: Path, theme_list: ThemeList
) -> None:
    (home / "config.toml").write_text("theme = 'nord'\nappearance = 'light'")
    settings = load_settings(project, {}, {}).settings
    book = ThemeRegistry()
    book.bring_along(theme_list)
    assert (chosen_theme(settings.theme, {}), settings.appearance) == ("nord", "light")
    assert chosen_theme("", {}) == DEFAULT
    assert await missing_theme("nord", book, None, "") == ""
    unknown = await missing_theme(chosen_theme("nrod", {}), book, None, "")
    assert unknown == "there is no theme 'nrod'; /theme lists the themes"
    assert book.resolved("nrod", dark=True).name == DEFAULT
    assert load_settings(project, {}, {"OSTLER_THEME": "dusk"}).settings.theme == "dusk"
    with pytest.raises(ConfigurationError, match=r"appearance must be .*auto"):
        load_settings(project, {}, {"OSTLER_APPEARANCE": "noon"})


def test_without_colours_no_theme_is_used(theme_list: ThemeList) -> None:
    book = ThemeRegistry()
    book.bring_along(theme_list)
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert chosen_theme("nord", environment) == chosen_theme("", environment) == ""
    assert chosen_theme("nord", {"NO_COLOR": "", "TERM": "xterm"}) == "nord"
    assert book.resolved("nord", dark=True).primary == theme_list["nord"].primary.dark


def test_every_slot_is_documented() -> None:
    page = (DOCS / "themes.md").read_text()
    assert [slot for slot in SLOTS if f"`{slot}`" not in page] == []
