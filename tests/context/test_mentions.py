"""Files that a prompt mentions: what is attached, and what is not a mention."""

from __future__ import annotations

import base64
from pathlib import Path
from struct import pack
from zlib import compress, crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.context import mentions
from ostler.context.mentions import with_mentions
from ostler.schema.messages import File, Image, Text, text_of
from ostler.tools.files import digest_of


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src/deep").mkdir(parents=True)
    (folder / "src/a.py").write_text("one\ntwo\nthree\nfour\n")
    (folder / "src/deep/b.py").write_text("b\n")
    (folder / "my notes.md").write_text("notes\n")
    (folder / "Makefile").write_text("all:\n")
    return folder


def attached_texts(text: str, cwd: Path) -> list[str]:
    result = with_mentions(text, cwd)
    assert result.text == text
    return [one.text for one in result.blocks if isinstance(one, Text)]


@pytest.mark.parametrize(
    "prompt",
    [
        "look at @src/a.py",
        "@src/a.py",
        "(@src/a.py)",
        "what is in @src/a.py?",
        "read @src/a.py, then @src/a.py.",
        "@src/a.py's lines",
        "看@src/a.py",
        '@"src/a.py"!',
        "@./src/../src/a.py",
        "see:@src/a.py",
    ],
)
def test_a_file_is_attached_in_the_format_of_the_read_tool(work: Path, prompt: str) -> None:
    assert attached_texts(prompt, work) == [
        "--- src/a.py, as read shows it ---\n1\tone\n2\ttwo\n3\tthree\n4\tfour"
    ]


@pytest.mark.parametrize(
    ("mention", "lines"),
    [
        ("@src/a.py:2-3", "2\ttwo\n3\tthree\n[lines 2-3 of 4; use offset=4 to continue]"),
        ("@src/a.py#L2-L3", "2\ttwo\n3\tthree\n[lines 2-3 of 4; use offset=4 to continue]"),
        ("@src/a.py#L2-3.", "2\ttwo\n3\tthree\n[lines 2-3 of 4; use offset=4 to continue]"),
        ('@"src/a.py":3-4', "3\tthree\n4\tfour"),
        ("@src/a.py:4", "4\tfour"),
        ("@src/a.py:4:17:", "4\tfour"),
        ("@src/a.py:3-", "3\tthree\n4\tfour"),
        ("@src/a.py:9", "[there are only 4 lines: offset 9 is past the end]"),
    ],
)
def test_lines_can_be_chosen(work: Path, mention: str, lines: str) -> None:
    assert attached_texts(mention, work) == [f"--- src/a.py, as read shows it ---\n{lines}"]


@pytest.mark.parametrize("mention", ['@"my notes.md"', "@my\\ notes.md"])
def test_names_may_have_blanks(work: Path, mention: str) -> None:
    assert attached_texts(mention, work) == ["--- my notes.md, as read shows it ---\n1\tnotes"]


@pytest.mark.parametrize(
    "prompt",
    [
        "write to me@Makefile.org or a@src",
        "@property and @pytest.fixture()",
        '@app.route("/x")',
        "`@src/a.py`",
        "```\n@src/a.py\n```",
        "@nobody said so @",
        "https://example.com/@src",
        "@\0",
    ],
)
def test_text_that_is_no_path_is_not_reported(work: Path, prompt: str) -> None:
    result = with_mentions(prompt, work)
    assert (result.text, result.blocks, result.notices) == (prompt, (), ())


@pytest.mark.parametrize("mention", ["@src/ab.py", "@nothing.md", '@"no such thing"'])
def test_a_missing_path_is_reported(work: Path, mention: str) -> None:
    result = with_mentions(f"see {mention}", work)
    assert result.blocks == ()
    assert len(result.notices) == 1
    assert "no such file or directory" in result.notices[0]


def test_an_escaped_sign_is_only_a_sign(work: Path) -> None:
    result = with_mentions(r"\@Makefile and `\@` and a\@b", work)
    assert (result.text, result.blocks) == (r"@Makefile and `\@` and a\@b", ())


def test_a_directory_is_listed_without_what_is_ignored(work: Path) -> None:
    (work / ".gitignore").write_text("*.log\nbuild/\n")
    (work / "x.log").touch()
    (work / "build").mkdir()
    (work / "build/y").touch()
    heading = "without what is ignored or hidden ---"
    assert attached_texts("@src/", work) == [f"--- src/, {heading}\na.py\ndeep/\ndeep/b.py"]
    assert attached_texts("@.", work) == [
        f"--- ./, {heading}\nMakefile\nmy notes.md\nsrc/\nsrc/a.py\nsrc/deep/\nsrc/deep/b.py"
    ]


def test_a_link_that_leads_nowhere_is_listed_like_a_file(work: Path) -> None:
    (work / "src" / "link").symlink_to("x" * 300)
    assert attached_texts("@src/", work)[0].splitlines()[1:] == ["a.py", "deep/", "deep/b.py", "link"]


def test_a_large_directory_lists_its_upper_levels(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mentions, "MOST_ENTRIES", 2)
    assert attached_texts("@src", work)[0].splitlines()[1:] == [
        "a.py",
        "deep/",
        "[2 of 3 entries: use ls or find for more]",
    ]


def picture() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    header = pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    rows = compress(b"\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_a_picture_and_a_document_are_attached(work: Path) -> None:
    (work / "p.png").write_bytes(picture())
    (work / "d.pdf").write_bytes(b"%PDF-1.4\n")
    result = with_mentions("@p.png @d.pdf", work)
    name, image, _, document = result.blocks
    assert text_of([name]).startswith("p.png (image/png")
    assert image == Image("image/png", data=base64.b64encode(picture()).decode())
    assert isinstance(document, File)
    assert document.name == "d.pdf"


def test_unreadable_blocks_become_placeholders(work: Path) -> None:
    (work / "x.bin").write_bytes(b"\0\1")
    result = with_mentions("@x.bin @src/a.py:3-2", work)
    assert result.blocks == ()
    assert "@x.bin is not attached: x.bin is binary" in result.notices[0]
    assert result.notices[1] == "@src/a.py is not attached: line 2 comes before line 3"


def test_together_they_stay_within_a_bound(work: Path) -> None:
    for number in range(6):
        (work / f"{number}.txt").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 450)
    result = with_mentions(" ".join(f"@{number}.txt" for number in range(6)), work)
    assert sum(len(one.text) for one in result.blocks if isinstance(one, Text)) < mentions.MOST_TEXT + 1000
    assert [notice.partition(" ")[0] for notice in result.notices] == ["@4.txt", "@5.txt"]
    assert text_of(result.blocks[-1:]) == "5.txt is not included here because it is too large: use read or ls"


def test_each_file_is_attached_once_with_its_digest(work: Path) -> None:
    result = with_mentions("@Makefile and @./Makefile and @src", work)
    assert len(result.blocks) == 2
    assert result.digests == {str(work.resolve() / "Makefile"): digest_of(b"all:\n")}


def test_another_text_can_be_the_one_that_mentions(work: Path) -> None:
    result = with_mentions("@Makefile @src/a.py", work, mentioned_in="@src/a.py")
    assert result.text == "@Makefile @src/a.py"
    assert [text_of([one]).partition(",")[0] for one in result.blocks] == ["--- src/a.py"]


PARTS = st.sampled_from(
    ["@", '"', "\\", "a", "/", "..", ":1-2", "#L", " ", "`", "\n", "~", "\0", "é", "Makefile"]
)


@given(st.lists(st.one_of(PARTS, st.text(max_size=3)), max_size=12).map("".join))
def test_no_prompt_is_too_odd(text: str) -> None:
    result = with_mentions(text, Path(__file__).parent / "nowhere")
    assert result.text == text or "\\@" in text
