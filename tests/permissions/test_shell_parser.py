"""A shell command is parsed as bash would; uncertain parts are reported."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostler.permissions.shell_parser import MAX_LENGTH, parse_command
from ostler.permissions.shell_words import Command, FileRead, FileWrite, Unparsed

TOKENS = (
    *("aa", "bb", "cc", "'q r'", '"d e"', "\\", "\\ ", "\n", "\t", ";", "&&", "||", "|", "&", "(", ")"),
    *("{ ", " }", "$(", "`", "$x", "${x}", "x=1", "X=y", ">f", ">>f", "2>&1", "<f", "<<<", "#", "~", "*"),
    *("{a,b}", "{", "}", "-o", "=", "'", '"', "$'a'", "!", "if ", "then ", "fi", "for i in ", "do ", "done"),
    *("[ ", " ]", "<<EOF\n", "EOF\n", "\\\n", "$((1+2))", "[[ ", " ]]", "eval ", "time ", "case ", "esac"),
    *(" in ", "aa() ", "function ", "coproc ", "é", "\u00a0", ",", "..", "&>", ">|", "<(", ">(", "&>>"),
    *(">&", "2", "$", "${x:-", "while ", "until ", "env ", "nohup ", "bash -c ", "xargs ", "exec "),
)
TELLING = """exec 9>"$OUT"
command_not_found_handle() { local IFS=$'\\2'; printf '\\1%s\\2' "$*" >&9; }
"""


def commands(text: str) -> list[tuple[str | None, ...]]:
    return [part.words for part in parse_command(text).parts if isinstance(part, Command)]


def unclear(text: str) -> list[str]:
    return [part.why for part in parse_command(text).parts if isinstance(part, Unparsed)]


def ran_by_bash(text: str) -> tuple[list[tuple[str, ...]], set[str]]:
    """Every command that bash would start, with its words, and the files that it made.

    It finds no program, and tells of each that it looked for.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            ["/bin/bash", "-c", TELLING + text],
            cwd=folder,
            env={"PATH": "/nonexistent", "OUT": out.name, "x": "xv", "HOME": str(Path.home())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        arguments = Path(out.name).read_bytes().split(b"\1")[1:]
        ran = [tuple(one.decode(errors="replace").split("\2")[:-1]) for one in arguments]
        return ran, {one.name for one in Path(folder).iterdir()}


def fits(words: Sequence[str], pattern: Sequence[str | None]) -> bool:
    """A word that was not known may have become any number of words."""

    @cache
    def rest_fits(word: int, part: int) -> bool:
        if part == len(pattern):
            return word == len(words)
        if pattern[part] is None:
            return any(rest_fits(next_word, part + 1) for next_word in range(word, len(words) + 1))
        return word < len(words) and words[word] == pattern[part] and rest_fits(word + 1, part + 1)

    return rest_fits(0, 0)


def check_against_bash(text: str) -> None:
    if unclear(text):
        return
    parts = parse_command(text).parts
    judged = [part.words for part in parts if isinstance(part, Command)]
    written = {part.path for part in parts if isinstance(part, FileWrite)}
    ran, made = ran_by_bash(text)
    for words in ran:
        assert any(fits(words, pattern) for pattern in judged), f"bash ran {words}, but {judged} was judged"
    assert made <= written


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS) | st.just(" "), min_size=1, max_size=14).map("".join))
def test_what_bash_runs_and_writes_was_judged(text: str) -> None:
    check_against_bash(f"aa {text}")


WORDS = st.sampled_from(["aa", "bb", "'c d'", '"$x"', "$x", "-o", "$(bb cc)", '"e f"', "a\\ b", "{}"])
SIMPLE = st.lists(WORDS, min_size=1, max_size=3).map(lambda words: " ".join(["aa", *words]))
COMPOSED = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" && ", " || ", "; ", " | ", "\n", " & "]), inner).map("".join),
        inner.map(lambda one: f"( {one} )"),
        inner.map(lambda one: f"{{ {one}; }}"),
        inner.map(lambda one: f"if {one}; then {one}; fi"),
        inner.map(lambda one: f"for i in 1; do {one}; done"),
        inner.map(lambda one: f"aa $({one})"),
        inner.map(lambda one: f"( {one} ) > f 2>&1"),
        inner.map(lambda one: f"! {one}"),
        inner.map(lambda one: f"case x in x) {one};; esac"),
        inner.map(lambda one: f"g() {{ {one}; }}; g"),
        inner.map(lambda one: f"eval '{one}'" if "'" not in one else one),
    ),
    max_leaves=4,
)


@settings(max_examples=100, deadline=None)
@given(COMPOSED)
def test_what_bash_runs_of_whole_scripts_was_judged(text: str) -> None:
    check_against_bash(text)


def test_the_comparison_with_bash_sees_something() -> None:
    ran, made = ran_by_bash("aa 'b c' $(bb) | cc > f; false || dd &")
    assert {("aa", "b c"), ("bb",), ("cc",)} <= set(ran)
    assert made == {"f"}
    assert not unclear("aa 'b c' $(bb) | cc > f; false || dd &")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a | b && c || d; e & f", ["a", "b", "c", "d", "e", "f"]),
        ("(a; b) && { c; }", ["a", "b", "c"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("while a; do b; done; until c; do d; done", ["a", "b", "c", "d"]),
        ("for i in $(a); do b; done; select i in x; do c; done", ["a", "b", "c"]),
        ("case $x in y) a;; *) b;; esac", ["a", "b"]),
        ("f() { a; }; function g { b; }; f", ["a", "b", "f"]),
        ("a $(b `c`) <(d) >(e)", ["c", "b", "d", "e", "a"]),
        ('a "x $(b) y"', ["b", "a"]),
        ("x=$(a); y=`b` c", ["a", "b", "c"]),
        ("a <<EOF\n$(b)\nEOF", ["a", "b"]),
        ("a <<'EOF'\n$(b)\nEOF", ["a"]),
        ("a <<< $(b)", ["b", "a"]),
        ("a <<EOF | b\nx\nEOF\nc", ["a", "b", "c"]),
        ("a > $(b)", ["a", "b"]),
        ("! a", ["a"]),
        ("[ -f x ] && a", ["a"]),
        ("[[ $(a) == b ]] || c", ["a", "c"]),
        ("a # b; c", ["a"]),
        ("\\rm x; 'r'm; r\"m\"", ["rm"]),
    ],
)
def test_every_command_is_parsed(text: str, found: list[str]) -> None:
    names = [words[0] for words in commands(text)]
    assert list(dict.fromkeys(names)) == found


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("sudo -u root rm x", ("rm", "x")),
        ("doas rm x", ("rm", "x")),
        ("env -i A=1 rm x", ("rm", "x")),
        ("/usr/bin/env rm x", ("rm", "x")),
        ("nice -n 5 rm x", ("rm", "x")),
        ("timeout -k 5 10 rm x", ("rm", "x")),
        ("nohup rm x &", ("rm", "x")),
        ("time rm x", ("rm", "x")),
        ("command rm x", ("rm", "x")),
        ("builtin cd x", ("cd", "x")),
        ("exec rm x", ("rm", "x")),
        ("stdbuf -oL rm x", ("rm", "x")),
        ("setsid rm x", ("rm", "x")),
        ("bash -c 'a; rm x'", ("rm", "x")),
        ("sh -ec 'rm x'", ("rm", "x")),
        ("eval rm x", ("rm", "x")),
        ("eval 'a && rm x'", ("rm", "x")),
        ("trap 'rm x' EXIT", ("rm", "x")),
        ("a | xargs -n 1 rm x", ("rm", "x", None)),
        ("find . -exec rm x {} +", ("rm", "x", None)),
        ("sudo timeout 5 bash -c 'nohup rm x'", ("rm", "x")),
        ("bash -c 'bash -c \"rm x\"'", ("rm", "x")),
    ],
)
def test_the_command_in_a_wrapper_is_parsed(text: str, inner: tuple[str | None, ...]) -> None:
    assert inner in commands(text)
    assert not unclear(text)


@pytest.mark.parametrize(
    "text",
    [
        "$x y",
        '"$x" y',
        "$(a) y",
        "a{b,c} d",
        "*/run",
        "a && && b",
        "a 'b",
        "if a; then b",
        "a\u00a0b",
        "a\x07",
        "a\rb",
        "eval $x",
        'eval "a $x"',
        "bash -c $x",
        'bash -c "a $x"',
        "bash",
        "a | sh",
        "sh -s x",
        "zsh -c a",
        "env -S 'a b'",
        "sudo -i a",
        "timeout $x rm y",
        "a | xargs -I{} sh -c 'rm {}'",
        "PATH=.; a",
        "export A=1",
        "declare -x A=1",
        "unset A",
        "for PATH in x; do a; done",
        "((i++))",
        "echo $((x))",
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${x:=y}",
        "echo ${x/a/$(b)}",
        "[ $x ]",
        "[[ x -eq a[0] ]]",
        "[ -v a ]",
        "a > $x",
        "a > f b",
        "a < /dev/tcp/host/80",
        "a > /dev/udp/host/80",
        "a <<EOF\n$(b)\nEOF",
        "a <<EOF\n`b`\nEOF",
        "a <<EOF",
        "echo `a \\`b\\``",
        "a[0]=$(b)",
        "a $'\\x41'; $'rm' x",
        "a \\\n&& b\\\nc",
        "x" * (MAX_LENGTH + 1),
        "(" * 200 + "a" + ")" * 200,
        "a|" * 501,
        "a zQe9Qz",
    ],
)
def test_what_is_known_only_at_run_time_is_unparsed(text: str) -> None:
    assert unclear(text)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a > f", [FileWrite("f", "> f")]),
        ("a >> f", [FileWrite("f", ">> f")]),
        ("a >| f", [FileWrite("f", ">| f")]),
        ("a &> f", [FileWrite("f", "&> f")]),
        ("a >& f", [FileWrite("f", ">& f")]),
        ("a 2> 'f g'", [FileWrite("f g", "2> 'f g'")]),
        ("a < f", [FileRead("f", "< f")]),
        ("a > /dev/null 2>&1", []),
        ("a 2>/dev/stderr >&2", []),
        ("> f", [FileWrite("f", "> f")]),
        ("{ a; } > f", [FileWrite("f", "> f")]),
        ("while a; do b; done < f > g", [FileRead("f", "< f"), FileWrite("g", "> g")]),
    ],
)
def test_redirections_write_and_read(text: str, parts: list[FileWrite | FileRead]) -> None:
    assert [part for part in parse_command(text).parts if isinstance(part, FileWrite | FileRead)] == parts
    assert not unclear(text)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("a", "."),
        ("cd src && a > f", "src"),
        ("cd 'my dir' && a && b | c", "my dir"),
        ("cd src; a", None),
        ("cd src || a", None),
        ("cd src && a || b", None),
        ("(cd src && a); b", None),
        ("cd src && cd .. && a", None),
        ("cd $x && a", None),
        ("cd - && a", None),
        ("pushd src && a", None),
        ("bash -c 'cd src; a'", None),
        ("builtin cd src && a", None),
        ("cd() { a; }; cd src && b", None),
        ("cd src && a &", None),
    ],
)
def test_a_change_of_folder_is_followed_only_where_all_depends_on_it(text: str, folder: str | None) -> None:
    assert parse_command(text).folder == folder


def test_variables_that_affect_only_the_output_are_ignored() -> None:
    (shown,) = parse_command("LC_ALL=C NO_COLOR=1 a").parts
    assert isinstance(shown, Command) and shown.assignments == ()
    (changed,) = parse_command("LD_PRELOAD=x LC_ALL=C a").parts
    assert isinstance(changed, Command) and changed.assignments == ("LD_PRELOAD=x",)


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    parse_command(text)


def test_characters_that_crash_the_parser_are_preserved() -> None:
    assert commands("echo {\U000a4fa6 é 'ü \U0010fffd'") == [("echo", None, "é", "ü \U0010fffd")]


def test_the_parser_is_loaded_when_a_command_is_judged() -> None:
    look = "import sys; from ostler.permissions import judge as it; from pathlib import Path; "
    judge = "it.Judge('ask', (), Path()).judge({}, {}); print('tree_sitter' in sys.modules)"
    for call, loaded in (
        ("'read', 'read', {'path': 'a'}", False),
        ("'bash', 'execute', {'command': 'ls'}", True),
    ):
        code = look + judge.replace("{}, {}", call)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ran.stdout.strip() == str(loaded)
