"""A plain command means the same words in bash and in dash; everything else is not plain."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.permissions.plain_shell import MAX_LENGTH, NotPlain, PlainCommand, Redirection, read_plain

TOKENS = (
    *(
        "aa",
        "bb",
        "cc",
        "'q r'",
        '"d e"',
        "\\",
        "\\ ",
        "\\*",
        "\n",
        "\t",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "(",
        ")",
    ),
    *(
        "{ ",
        " }",
        "$(",
        "`",
        "$x",
        "${x}",
        "x=1",
        "X=y",
        ">f",
        " >f",
        " >>f",
        " 2>&1",
        " <f",
        " <<<",
        "#",
        "~",
        "~/a",
        "*",
    ),
    *(
        "{a,b}",
        "{",
        "}",
        "-o",
        "=",
        "'",
        '"',
        "$'a'",
        "!",
        "if ",
        "then ",
        "fi",
        "for i in ",
        "do ",
        "done",
        "a*",
        "./?",
    ),
    *(
        "[ ",
        " ]",
        "<<EOF\n",
        "EOF\n",
        "\\\n",
        "$((1+2))",
        "[[ ",
        " ]]",
        "eval ",
        "time ",
        "case ",
        "esac",
        "^",
        "%1",
    ),
    *(
        " in ",
        "aa() ",
        "function ",
        "coproc ",
        "é",
        "'é'",
        "\u00a0",
        ",",
        "..",
        "&>",
        ">|",
        "<(",
        ">(",
        "&>>",
        "\r",
    ),
    *(
        ">&",
        " >&2",
        " 2>&-",
        "2",
        "$",
        "${x:-",
        "while ",
        "until ",
        '"\\""',
        '"\\$x"',
        '"\\a"',
        "'\\'",
        '"!a"',
        " 3>f",
        "12>f",
    ),
)
SHELLS = ("bash", "dash")
RECORDER = """#!/bin/sh
printf '%s\\2' "${0##*/}" "$@" > "$OUT/$$"
"""
"""A file for each process, because those of a pipeline run at the same time."""


class Recorder:
    """Three programs that record the words they are called with."""

    def __init__(self, folder: Path) -> None:
        self._bin, self._out, self._home = folder / "bin", folder / "out", folder / "home"
        for one in (self._bin, self._out, self._home):
            one.mkdir()
        for name in ("aa", "bb", "cc"):
            (self._bin / name).write_text(RECORDER)
            (self._bin / name).chmod(0o755)

    @property
    def home(self) -> Path:
        return self._home

    def run(self, shell: str, text: str) -> tuple[list[tuple[str, ...]], set[str]]:
        for one in self._out.iterdir():
            one.unlink()
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [f"/bin/{shell}", "-c", text],
                cwd=folder,
                env={"PATH": str(self._bin), "OUT": str(self._out), "x": "xv", "HOME": str(self._home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=60,
                check=False,
            )
            calls = [one.read_bytes().decode(errors="replace") for one in self._out.iterdir()]
            ran = [tuple(one.split("\2")[:-1]) for one in calls]
            return ran, {one.name for one in Path(folder).iterdir()}


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return Recorder(tmp_path_factory.mktemp("recorder"))


def check_against_shells(recorder: Recorder, text: str) -> bool:
    plain = read_plain(text)
    if isinstance(plain, NotPlain):
        return False
    written = {one.path for part in plain.parts for one in part.redirections if one.writes}
    words = {part.words for part in plain.parts}
    for shell in SHELLS:
        ran, made = recorder.run(shell, text)
        assert set(ran) <= words, f"{shell} ran {ran}, but {words} was read from {text!r}"
        assert made <= written, f"{shell} made {made}"
    return True


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from(TOKENS) | st.just(" "), min_size=1, max_size=12).map("".join))
def test_what_shells_run_and_write_was_read(recorder: Recorder, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(recorder.home))
        check_against_shells(recorder, f"aa {text}")


PIECES = st.sampled_from(
    [
        "a",
        "B9",
        "'c d'",
        '"e f"',
        '"\\""',
        '"\\$"',
        '"\\\\"',
        '"\\d"',
        "\\;",
        "\\ ",
        "\\(",
        "''",
        "'$x'",
        "'`'",
        "'é'",
        '"~"',
        "%",
        "b^",
        "b~1",
        ":",
        "=",
        "@",
        ",",
    ]
)
WORDS = st.lists(PIECES, min_size=1, max_size=4).map("".join).map(lambda word: f"a{word}")
SIMPLE = st.tuples(
    st.sampled_from(["aa", "bb", "'cc'", '"a"a']),
    st.lists(WORDS | st.sampled_from(["-x", "--", "-", "~/a", "~", "a*", "./b?"]), max_size=3),
    st.sampled_from(["", " 2>&1", " > f", " >> f", " 2>/dev/null", " > 'g h'", " < /dev/null"]),
).map(lambda parts: " ".join([parts[0], *parts[1]]) + parts[2])
COMPOSED = st.lists(SIMPLE, min_size=1, max_size=4).flatmap(
    lambda parts: st.lists(
        st.sampled_from([" && ", " || ", "; ", " | ", "\n", " |\n", ";\n", "\n\n"]), min_size=4, max_size=4
    ).map(
        lambda joints: (
            "".join(part + joint for part, joint in zip(parts[:-1], joints, strict=False)) + parts[-1]
        )
    )
)


@settings(max_examples=150, deadline=None)
@given(COMPOSED)
def test_plain_commands_have_the_same_words_in_both_shells(recorder: Recorder, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(recorder.home))
        assert check_against_shells(recorder, text), read_plain(text)


def test_the_comparison_sees_something(recorder: Recorder) -> None:
    text = "aa 'b c' | bb && cc > f; nothing || aa \"\\$x\""
    for shell in SHELLS:
        ran, made = recorder.run(shell, text)
        assert set(ran) == {("aa", "b c"), ("bb",), ("cc",), ("aa", "$x")}
        assert made == {"f"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la", [("ls", "-la")]),
        ("  ls\t-la \n", [("ls", "-la")]),
        ("a | b && c || d; e\nf;", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("a |\n\n b &&\n c", [("a",), ("b",), ("c",)]),
        ("a;\nb\n\nc", [("a",), ("b",), ("c",)]),
        ("'r'm r\"m\" x'y z'w", [("rm", "rm", "xy zw")]),
        ('a "b \\" \\$ \\` \\\\ \\n" \'$x `y` \\\'', [("a", 'b " $ ` \\ \\n', "$x `y` \\")]),
        ("a b\\ c \\( \\! \\; \\)", [("a", "b c", "(", "!", ";", ")")]),
        ("a 'é\nü' ''", [("a", "é\nü", "")]),
        ("make X=1 a=b -DX=2", [("make", "X=1", "a=b", "-DX=2")]),
        ("git show HEAD^ HEAD~1 a@b a%b", [("git", "show", "HEAD^", "HEAD~1", "a@b", "a%b")]),
        ("a 2>&1 >/dev/null 2>/dev/null <&- 2>&-", [("a",)]),
        ("", []),
        (" \n ", []),
    ],
)
def test_literal_words_are_plain(text: str, words: list[tuple[str, ...]]) -> None:
    plain = read_plain(text)
    assert isinstance(plain, PlainCommand), plain
    assert [part.words for part in plain.parts] == words


def test_a_pattern_for_files_follows_a_name() -> None:
    plain = read_plain("ls src/*.py ./* a?b")
    assert isinstance(plain, PlainCommand)
    assert plain.parts[0].globs == {1, 2, 3}
    assert plain.parts[0].known_words == ("ls", None, None, None)
    for text in (
        "ls *",
        "ls *.py",
        "ls ?a",
        "ls -*",
        "ls --a=*",
        "ls 'a'*",
        "ls a\\**",
        "ls a*/../b",
        "l* a",
        "ls > a*",
    ):
        assert isinstance(read_plain(text), NotPlain), text


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("a > f", [Redirection("f", True, "> f")]),
        ("a >> 'f g'", [Redirection("f g", True, ">> 'f g'")]),
        ("a 2>f <g", [Redirection("f", True, "2>f"), Redirection("g", False, "<g")]),
        ("a > /dev/null 2>&1", []),
    ],
)
def test_redirections_name_the_files_that_the_shell_opens(text: str, files: list[Redirection]) -> None:
    plain = read_plain(text)
    assert isinstance(plain, PlainCommand), plain
    assert list(plain.parts[0].redirections) == files


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("echo $x", "$x"),
        ('echo "a $x b"', "$x"),
        ("ls $(rm a)", "$(rm a)"),
        ("ls `rm a`", "`rm a`"),
        ("ls <(rm a)", "<(rm a)"),
        ("x=${y:-<(touch p)}", "${y:-<(touch p)}"),
        ("x=$ PROGRAM", "$"),
        ("x=1 ls", "x=1 ls"),
        ("[ a > ~/.bashrc ]", "["),
        ("ls & rm a", "&"),
        ("ls |& rm a", "|"),
        ("ls &> f", "&>"),
        ("ls >| f", ">|"),
        ("ls >& f", ">&"),
        ("ls <> f", "<>"),
        ("ls 12> f", ">"),
        ("ls>f", ">f"),
        ("ls {HOME}<a", "{HOME}<a"),
        ("cat <<EOF\na\nEOF", "<<EOF"),
        ("cat <<< a", "<<<"),
        ("(ls)", "(ls)"),
        ("{ ls; }", "{"),
        ("f() { ls; }", "()"),
        (":(){ :|:& };:", "(){"),
        ("! ls", "!"),
        ("if ls; then ls; fi", "if ls"),
        ("time ls", "time ls"),
        ("coproc ls", "coproc ls"),
        ("for i in a; do ls; done", "for i in a"),
        ("ls a{b,c}", "{b,c}"),
        ("ls # a", "#"),
        ("ls\\\nrm a", "\\"),
        ("ls 'a", "'a"),
        ('ls "a', '"a'),
        ("ls \u00a0", "U+00A0"),
        ("ls é", "é"),
        ("ls \r", "U+000D"),
        ("ls 'a\x1b[2K'", "U+001B"),
        ("ls '\u202e'", "U+202E"),
        ("ls \0", "U+0000"),
        ("ls '\udc80'", "U+DC80"),
        ("ls ~root", "~root"),
        ("ls a:~b", "a:~b"),
        ("ls 'a'~b", "'a'~b"),
        ("ls a=~/b", "a=~/b"),
        ("ls ~'/a'", "~'/a'"),
        ("ls ~+", "~+"),
        ("ls ~/a*", "~/a*"),
        ("ls ^a", "^a"),
        ("ls [ab]", "[ab]"),
        ("ls > f b", "ls > f b"),
        ("> f", "> f"),
        ("> f ls", "> f ls"),
        ("cat < /dev/tcp/host/80", "< /dev/tcp/host/80"),
        ("ls > /dev/stderr", "> /dev/stderr"),
        ("ls > //dev/fd/3", "> //dev/fd/3"),
        ("ls > /proc/self/fd/3", "> /proc/self/fd/3"),
        ("a &&", "&&"),
        ("a && && b", "&&"),
        ("a ; ; b", ";"),
        ("a;;b", ";"),
        ("; a", ";"),
        ("a |", "|"),
        ("$'rm' a", "$"),
        ('$"rm" a', "$"),
        ("%1", "%1"),
        ("'a b' c", "'a b' c"),
        ("'[' a ']'", "'[' a ']'"),
        ("-x a", "-x a"),
    ],
)
def test_everything_else_is_not_plain_and_the_part_is_named(text: str, part: str) -> None:
    plain = read_plain(text)
    assert isinstance(plain, NotPlain), plain
    assert plain.why
    assert plain.part.startswith(part), plain


def test_a_command_has_a_greatest_length() -> None:
    assert isinstance(read_plain("echo " + "x" * MAX_LENGTH), NotPlain)
    assert isinstance(read_plain("ls; " * 2000), PlainCommand)


def test_the_home_is_known_only_if_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    plain = read_plain("cat ~/a > ~/b")
    assert isinstance(plain, PlainCommand) and plain.uses_home
    assert plain.parts[0].words == ("cat", "/home/ada/a")
    assert plain.parts[0].redirections[0].path == "/home/ada/b"
    monkeypatch.delenv("HOME")
    assert isinstance(read_plain("cat ~/a"), NotPlain)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read_plain(text)
    read_plain(f"echo '{text}'")


def test_the_reader_is_loaded_when_a_command_is_judged() -> None:
    look = "import sys; from ostler.permissions import judge as it; from pathlib import Path; "
    judge = "it.Judge('ask', (), Path()).judge({}, {}); print('ostler.permissions.harmless' in sys.modules)"
    for call, loaded in (
        ("'read', 'read', {'path': 'a'}", False),
        ("'bash', 'execute', {'command': 'ls'}", True),
    ):
        code = look + judge.replace("{}, {}", call)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == str(loaded)
