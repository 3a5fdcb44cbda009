"""The list of harmless programs, and that nothing on it runs or writes anything."""

from __future__ import annotations

import re

import pytest

from ostler.permissions.harmless import Harmless, NotHarmless, check_harmless, program_of
from ostler.permissions.harmless_programs import GIT, PROGRAMS
from ostler.permissions.judge import Judge
from tests.support.seeds import SEED
from tests.support.shell_commands import CommandGrammar
from tests.support.tripwires import batches, need_shells, tripwires

FORBIDDEN = {
    "sort": "-o -T -S --output --compress-program --files0-from --random-source --temporary-directory",
    "find": "-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    "rg": "-z --pre --pre-glob --search-zip --hostname-bin --ignore-file",
    "tree": "-o -R -H --fromfile",
    "diff": "-l --paginate -X",
    "file": "-C -m -z -Z -f -p -S --compile",
    "tail": "-f -F --follow --retry",
    "date": "-s -f -r --set --file",
    "jq": "-f -L --from-file --rawfile --slurpfile --args",
    "md5sum": "-c --check",
    "wc": "--files0-from",
    "du": "--files0-from -X",
    "hostname": "-F -b",
    "sed": "-i -e -f -s --in-place",
    "grep": "--exclude-from",
    "printf": "-v",
    "command": "-p -V",
    "log": "-O --output --ext-diff --textconv --show-signature --no-index",
    "diff ": "-O --output --ext-diff --textconv --no-index --submodule",
    "branch": "-d -D -m -M -c -C -f -u --edit-description --set-upstream-to",
    "tag": "-a -s -d -f -m -F",
    "cat-file": "--textconv --filters --batch",
    "grep ": "-O --open-files-in-pager --textconv --no-index",
    "blame": "--contents -S --ignore-revs-file",
}


@pytest.mark.parametrize(("name", "options"), FORBIDDEN.items())
def test_options_that_write_or_run_something_are_not_listed(name: str, options: str) -> None:
    is_git = name.endswith(" ") or name not in PROGRAMS
    line = GIT[name.strip()] if is_git else PROGRAMS[name]
    assert not set(options.split()) & set(program_of(line).options)


def test_every_line_of_the_list_is_understood() -> None:
    shapes = (
        r"|ANY\.\.\.|(TEXT|FILE)(\.\.\.)?|(PATTERN|FILTER|RANGE) FILE\.\.\.|FORMAT TEXT\.\.\.|\+FORMAT|TEST"
        r"|NUMBER\.\.\.|SECONDS"
    )
    for name, line in {**PROGRAMS, **GIT}.items():
        program = program_of(line)
        assert re.fullmatch(shapes, program.operands), name
        for option, one in program.options.items():
            assert re.fullmatch(r"-[A-Za-z0-9.]|--[a-z0-9][a-z0-9-]*", option) or name == "find", option
            assert one.value in ("", "NUM", "TEXT", "FILE", "FORMAT"), option
    assert list(PROGRAMS) == sorted(PROGRAMS) and list(GIT) == sorted(GIT)


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        ("cat a b", ("a", "b")),
        ("cat - a", ("a",)),
        ("grep a b c", ("b", "c")),
        ("grep -e a b c", ("b", "c")),
        ("grep -f a b", ("a", "b")),
        ("grep -rnf a b", ("a", "b")),
        ("grep --file=a b", ("a", "b")),
        ("grep -A 2 a b", ("b",)),
        ("grep -A2 a b", ("b",)),
        ("head -n 5 a", ("a",)),
        ("head -n -5 a", ("a",)),
        ("head -5 a", ("a",)),
        ("rg --files a", ("a",)),
        ("find a b -newer c -name d", ("a", "b", "c")),
        ("sort -k 2 a -t , b", ("a", "b")),
        ("uniq -f 1 a", ("a",)),
        ("echo a b", ()),
        ("jq . a", ("a",)),
        ("git diff HEAD a", ("HEAD", "a")),
        ("git grep a b", ("b",)),
        ("realpath --relative-to=a b", ("a", "b")),
    ],
)
def test_the_files_that_a_command_reads_are_known(words: str, paths: tuple[str, ...]) -> None:
    check = check_harmless(tuple(words.split()))
    assert isinstance(check, Harmless), check
    assert sorted(check.paths) == sorted(paths)


@pytest.mark.parametrize(
    "words", ["grep --colo=never a", "ls --al", "sort --uniq", "git log --onelin", "ls --color --", "ls -l5"]
)
def test_a_long_option_is_spelled_in_full(words: str) -> None:
    is_listed = words == "ls --color --"
    assert isinstance(check_harmless(tuple(words.split())), Harmless if is_listed else NotHarmless)


def test_a_pattern_for_files_stands_only_where_any_number_of_files_may_stand() -> None:
    for words, number, is_harmless in (
        (("cat", "a*"), 1, True),
        (("echo", "a*"), 1, True),
        (("grep", "x", "a*"), 2, True),
        (("find", "a*", "-name", "b"), 1, True),
        (("grep", "a*", "b"), 1, False),
        (("uniq", "a*"), 1, False),
        (("head", "-n", "a*"), 2, False),
        (("printf", "a*"), 1, False),
        (("test", "-f", "a*"), 2, False),
        (("find", ".", "-name", "a*"), 3, False),
        (("git", "lo*"), 1, False),
        (("date", "a*"), 1, False),
    ):
        check = check_harmless(words, frozenset({number}))
        assert isinstance(check, Harmless) == is_harmless, words


def test_a_sample_of_harmless_commands_trips_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    need_shells()
    grammar = CommandGrammar(f"sample {SEED}")
    with tripwires() as wires:
        monkeypatch.setenv("HOME", str(wires.home))
        judge = Judge("edit", (), wires.work)
        commands = [grammar.command() for _ in range(500)]
        harmless = [one for one in commands if judge.judge("bash", "execute", {"command": one}).is_harmless][
            :100
        ]
        assert len(harmless) == 100
        assert [tripped for some in batches(harmless) for tripped in wires.check(some)] == []


def test_the_tripwires_notice_what_runs_and_what_is_written() -> None:
    need_shells()
    hostile = (
        "touch p",
        "echo a > p",
        "echo a >> ~/.bashrc",
        "HOME=.",
        "cat a | x",
        "ls; p",
        "chmod 777 .",
        "ls",
    )
    with tripwires() as wires:
        tripped = wires.check(hostile)
    assert {one.command for one in tripped if one.shell == "bash"} == set(hostile) - {"ls"}
    assert {one.command for one in tripped if one.shell == "dash"} == set(hostile) - {"ls"}
