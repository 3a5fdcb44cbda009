"""Files dropped on the terminal: which pastes are drops, and what they become."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ostler.app.completion import can_be_mentioned, mention_of, name_below
from ostler.context.mentions import with_mentions
from ostler.schema.messages import Text
from ostler.schema.text import split_words
from ostler.tui.editor.paste import Picture, dropped_paths, insertion

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its own path needs no quoting: the tests are about the names in it."""
    with TemporaryDirectory(dir="/tmp", prefix="ostler-test-") as name:
        folder = Path(name).resolve()
        monkeypatch.setenv("HOME", str(folder))
        fill(folder)
        yield folder


def fill(folder: Path) -> None:
    for name in ("plain.txt", "my notes.md", "it's.txt", 'say "x".txt', "a(1).txt", "$HOME.txt", "ünï.txt"):
        (folder / name).write_text(f"{name}\n")
    (folder / "folder").mkdir()
    (folder / "pixel.png").write_bytes(PIXEL)


@pytest.mark.parametrize(
    ("pasted", "names"),
    [
        ("{}/plain.txt", ["plain.txt"]),
        ("  {}/plain.txt \n", ["plain.txt"]),
        ("{}/my\\ notes.md", ["my notes.md"]),
        ("{}/my notes.md", ["my notes.md"]),
        ("'{}/my notes.md'", ["my notes.md"]),
        ('"{}/my notes.md"', ["my notes.md"]),
        ("'{}/it'\\''s.txt'", ["it's.txt"]),
        ("{}/it\\'s.txt", ["it's.txt"]),
        ('"{}/it\'s.txt"', ["it's.txt"]),
        ('"{}/say \\"x\\".txt"', ['say "x".txt']),
        ("{}/a\\(1\\).txt", ["a(1).txt"]),
        ("{}/a(1).txt", ["a(1).txt"]),
        ("{}/\\$HOME.txt", ["$HOME.txt"]),
        ("'{}/$HOME.txt'", ["$HOME.txt"]),
        ('"{}/\\$HOME.txt"', ["$HOME.txt"]),
        ("file://{}/my%20notes.md", ["my notes.md"]),
        ("file://localhost{}/%C3%BCn%C3%AF.txt", ["ünï.txt"]),
        ("file://{0}/plain.txt\r\nfile://{0}/folder\r\n", ["plain.txt", "folder"]),
        ("{0}/plain.txt {0}/my\\ notes.md", ["plain.txt", "my notes.md"]),
        ("'{0}/plain.txt' '{0}/my notes.md' ", ["plain.txt", "my notes.md"]),
        ("~/plain.txt", ["plain.txt"]),
        ("{}/folder/", ["folder"]),
    ],
)
def test_a_drop_is_recognised_in_any_quoting(place: Path, pasted: str, names: list[str]) -> None:
    assert dropped_paths(pasted.format(place)) == tuple(place / name for name in names)


@pytest.mark.parametrize(
    "pasted",
    [
        "{}/plain.txt; ls",
        "{}/plain.txt|cat",
        "{}/plain.txt && ls",
        "{}/pl*.txt",
        "{}/$HOME.txt",
        '"{}/$HOME.txt"',
        "{}/`ls`",
        "$(ls) {}/plain.txt",
        "{}/plain.txt > x",
        "{}/missing.txt",
        "{0}/plain.txt {0}/missing.txt",
        "{}/plain.txt is broken",
        "look at {}/plain.txt",
        "{0}/plain.txt\n{0}/folder",
        "'{}/plain.txt",
        '"{}/plain.txt',
        "{}/plain.txt\\",
        "~/missing.txt",
        "~nobody-of-this-name/plain.txt",
        "~",
        "~/",
        "/",
        "plain.txt",
        "./plain.txt",
        "file://elsewhere{}/plain.txt",
        "file://{}/missing.txt",
        "https://example.com{}/plain.txt",
        "",
        "''",
        "{}/" + "x" * 5000,
        "{}/\0",
        "{}/plain.txt" + " " * 40_000 + "x",
    ],
)
def test_other_pastes_are_no_drops(place: Path, pasted: str) -> None:
    text = pasted.format(place)
    assert dropped_paths(text) == ()
    assert insertion(text, "", place) == ()


@given(st.text(max_size=40))
def test_any_paste_can_be_checked_for_drops(pasted: str) -> None:
    for text in (pasted, f"/{pasted}"):
        assert all(path.exists() for path in dropped_paths(text))


def test_a_file_becomes_a_mention_and_a_folder_one_with_a_slash(place: Path) -> None:
    pasted = f"{place}/plain.txt '{place}/my notes.md' {place}/folder"
    assert insertion(pasted, "", place) == ("@plain.txt", " ", '@"my notes.md"', " ", "@folder/", " ")
    assert insertion(f"{place}/plain.txt", "", place / "folder") == (f"@{place}/plain.txt", " ")


@pytest.mark.parametrize(("before", "blank"), [("see", [" "]), ("see ", []), ("see\n", []), ("", [])])
def test_a_space_separates_a_mention_from_the_text_before_it(
    place: Path, before: str, blank: list[str]
) -> None:
    pieces = insertion(f"{place}/plain.txt", before, place)
    assert list(pieces) == [*blank, "@plain.txt", " "]
    assert len(with_mentions(before + "".join(map(str, pieces)), place).blocks) == 1


def test_a_picture_is_recognised_by_its_bytes(place: Path) -> None:
    (place / "pixel.png").rename(place / "pixel.dat")
    (place / "fake.png").write_text("no picture")
    (place / "huge.png").write_bytes(PIXEL + bytes(5_000_000))
    picture, _, fake, _, huge, _ = insertion(
        f"{place}/pixel.dat {place}/fake.png {place}/huge.png", "", place
    )
    assert isinstance(picture, Picture)
    assert (picture.about, b64decode(picture.block.data)) == ("PNG 1x1", PIXEL)
    assert (fake, huge) == ("@fake.png", "@huge.png")


def test_special_files_are_not_opened(place: Path) -> None:
    os.mkfifo(place / "pipe.png")
    assert insertion(f"{place}/pipe.png", "", place) == ("@pipe.png", " ")


def test_in_a_shell_line_a_drop_is_a_quoted_path(place: Path) -> None:
    for name in ("it's.txt", "pixel.png"):
        path = str(place / name)
        assert insertion(quote(path), "!cat ", place) == (quote(path), " ")


@pytest.mark.parametrize("name", ["it's.txt", "my notes.md", 'say "x".txt', "pixel.png"])
def test_after_a_slash_command_a_drop_is_an_escaped_path(place: Path, name: str) -> None:
    text, _ = insertion(quote(str(place / name)), "/import ", place)
    assert isinstance(text, str)
    assert [word.text for word in split_words(text)] == [str(place / name)]


def test_a_path_that_cannot_be_mentioned_stays_a_paste(place: Path) -> None:
    (place / "tick`s`.txt").write_text("x")
    assert insertion(f"'{place}/tick`s`.txt'", "", place) == ()


NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"], max_codepoint=0x2FFF),
    min_size=1,
    max_size=12,
).filter(lambda name: name.strip() and name not in (".", "..") and len(name.encode()) < 200)


@given(NAMES)
@example("~")
@example("~x")
def test_the_mention_of_any_file_name_is_parsed_back_to_that_file(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    if not can_be_mentioned(name):
        return
    folder = tmp_path_factory.mktemp("names")
    (folder / name).write_text("what is in it\n")
    expansion = with_mentions(f"Look at {mention_of(name_below(folder, name))} now", folder)
    assert not expansion.notices
    (block,) = expansion.blocks
    assert isinstance(block, Text) and block.text.endswith("\n1\twhat is in it")
