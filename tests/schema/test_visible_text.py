"""Text that a person decides about: nothing in it can hide, or look like something else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.schema.visible_text import revealed, visible_text


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("echo ok\x1b[8m; rm x", "echo ok⟨U+001B⟩[8m; rm x"),
        ("a\rb", "a⟨U+000D⟩b"),
        ("rm \u202e txt.exe", "rm ⟨U+202E⟩ txt.exe"),
        ("\u2066a\u2069", "⟨U+2066⟩a⟨U+2069⟩"),
        ("a\u200bb\u2060c\ufeffd\u00ade", "a⟨U+200B⟩b⟨U+2060⟩c⟨U+FEFF⟩d⟨U+00AD⟩e"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("rm\u3164x \u2800", "rm⟨U+3164⟩x ⟨U+2800⟩"),
        ("ls\u00a0-l", "ls⟨U+00A0⟩-l"),
        ("x\U000e0041\U000e0100", "x⟨U+E0041⟩⟨U+E0100⟩"),
        ("p\u0430ypal.com", "p⟨U+0430⟩ypal.com"),
        ("\u0441\u043e\u0440\u0443 f", "⟨U+0441⟩⟨U+043E⟩⟨U+0440⟩⟨U+0443⟩ f"),
        ("\uff52m x", "⟨U+FF52⟩m x"),
        ("good.com\u2215evil", "good.com⟨U+2215⟩evil"),
        ("a" + " " * 200 + "; rm x", "a ⟨200 spaces⟩ ; rm x"),
        ("a" + "\t" * 9 + "b", "a ⟨72 spaces⟩ b"),
        ("a" + "\n" * 31 + "b", "a\n⟨30 blank lines⟩\nb"),
        ("x\u0338\u0338\u0338\u0338", "x\u0338\u0338\u0338⟨U+0338⟩"),
        ("f\ud800", "f⟨U+D800⟩"),
    ],
)
def test_what_deceives_is_named(text: str, visible: str) -> None:
    assert revealed(text) == visible
    assert visible_text(text).marks > 0


@pytest.mark.parametrize(
    "text",
    [
        'for f in *.py; do\n    echo "$f"\ndone',
        "naïve café, e\u0301, Grüße",
        "Привет, мир! Тут и сор",
        "Pythonを使う 한국어 中文",
        "می\u200cخواهم",
        "👨\u200d👩\u200d👧 ❤\ufe0f ✓ →",
        "x = 1      # aligned",
        " " * 40 + "deeply indented",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert revealed(text) == text
    assert visible_text(text).marks == 0


@given(st.text())
def test_only_newlines_and_tabs_are_left_of_what_has_no_shape(text: str) -> None:
    visible = revealed(text).replace("\n", "").replace("\t", "")
    assert not any(ord(one) < 32 or 0x202A <= ord(one) <= 0x202E or one == "\u200b" for one in visible)
