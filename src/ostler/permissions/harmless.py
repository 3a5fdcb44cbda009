"""Whether a command is harmless: a listed program, with listed options only. It writes and runs nothing.

Every word that begins with a dash must be a listed option, wherever it stands. So it does not matter which
word a program takes for the value of another one, or where it sees the end of its options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from ostler.permissions.harmless_programs import GIT, PROGRAMS
from ostler.permissions.plain_shell import word_set

_IN_THE_SHELL = word_set(": command echo false printf pwd test true type")
_GIT_FIRST = ("--no-pager", "--no-optional-locks")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?[A-Za-z]{0,4}")
_PRINTF = re.compile(r"(?:[^%]|%%|%[-+ #0]?\d{0,4}(?:\.\d{1,4})?[sdicuxXofFeEgG])*")
_SED = re.compile(r"(?:\d+|\$)(?:,(?:\d+|\$))?p(?:;(?:\d+|\$)(?:,(?:\d+|\$))?p)*")
_TESTED = word_set("-e -f -d -s -r -w -x -L -h -z -n")
_JQ = re.compile(r"\b(?:import|include|env|ENV|modulemeta|get_search_list)\b")
_FIND_VALUE = re.compile(r"-[0-7]{1,4}|-[ugoa]*\+?=?[rwxst]+")


class Option(msgspec.Struct, frozen=True):
    """One option of a program."""

    value: str = ""
    """What its value is; empty if it has none."""
    optional: bool = False


class Program(msgspec.Struct, frozen=True):
    options: dict[str, Option]
    operands: str
    has_numbers: bool = False


class Harmless(msgspec.Struct, frozen=True):
    """A harmless command, and the words that name what it reads."""

    name: str
    """The program, for git with its subcommand."""
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()


class NotHarmless(msgspec.Struct, frozen=True):
    """Why a command is not harmless."""

    cause: str


@cache
def program_of(line: str) -> Program:
    """Parses a line of the tables."""
    listed, _, operands = line.partition("|")
    options: dict[str, Option] = {}
    has_numbers = False
    for word in listed.split():
        if word == "-NUM":
            has_numbers = True
        elif match := re.fullmatch(r"(-[^=\[]*)\[=?(\w+)\]", word):
            options[match[1]] = Option(match[2], optional=True)
        else:
            name, _, value = word.partition("=")
            options[name] = Option(value)
    return Program(options, operands.strip(), has_numbers)


def check_harmless(words: Sequence[str], globs: frozenset[int] = frozenset()) -> Harmless | NotHarmless:
    """Whether a command with these words writes nothing and runs nothing, whatever the files contain."""
    name, first = words[0], 1
    if name == "git":
        while words[first : first + 1] and words[first] in _GIT_FIRST:
            first += 1
        name, line = _git_line(words[first:])
        if not line:
            return NotHarmless(f"{name} is not listed")
        first += name.count(" ")
        if set(range(first)) & globs:
            return NotHarmless("git's subcommand is a pattern")
    elif name in PROGRAMS:
        line = PROGRAMS[name]
    else:
        return NotHarmless(f"the program {name} is not listed")
    if tuple(words[1:]) in (("--help",), ("--version",)) and name not in _IN_THE_SHELL:
        return Harmless(name)
    if name == "find":
        return _Find(words, globs).check()
    if name == "test":
        problem = "a pattern for files is no test" if globs else _test(words[1:])
        return NotHarmless(problem) if problem else Harmless(name)
    if name == "command" and words[1:2] != ("-v",):
        return NotHarmless("command runs the program that it names")
    return _Arguments(name, program_of(line), words, first, globs).check()


def _git_line(words: Sequence[str]) -> tuple[str, str]:
    """The subcommand and its line; an empty line if it is not listed."""
    for length in (2, 1):
        name = " ".join(words[:length])
        if len(words) >= length and name in GIT:
            return f"git {name}", GIT[name]
    if list(words) == ["--version"]:
        return "git --version", "|"
    return f"git {words[0]}" if words else "git", ""


def shadow_of(name: str, cwd: Path) -> str:
    """Why the name may not be the system's program; empty if it is, or if there is no such program.

    A folder of the project or of the user may hold another program of that name, or one that looks up in the
    project's files what to run, as version managers do.
    """
    name = name.partition(" ")[0]
    if name in _IN_THE_SHELL:
        return ""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if not folder.startswith("/"):
            return f"{name} may be found in {folder or 'the working directory'}, which PATH names"
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK) and not Path(path).is_dir():
            home = os.environ.get("HOME", "").rstrip("/")
            for private in filter(None, (str(cwd).rstrip("/") or "/", home)):
                if path.startswith(f"{private.rstrip('/')}/"):
                    return f"{path} is not a program of the system"
            return ""
    return ""


class _Arguments:
    """Reads the words of one command as its program would."""

    def __init__(
        self, name: str, program: Program, words: Sequence[str], first: int, globs: frozenset[int]
    ) -> None:
        self._name = name
        self._program = program
        self._words = words
        self._next = first
        self._globs = globs
        self._given: set[str] = set()
        self._paths: list[str] = []
        self._glob_paths: list[str] = []

    def check(self) -> Harmless | NotHarmless:
        if self._program.operands == "ANY...":
            self._glob_paths += [self._words[number] for number in sorted(self._globs)]
            return Harmless(self._name, (), tuple(self._glob_paths))
        operands: list[int] = []
        is_last = False
        while self._next < len(self._words):
            position, word = self._next, self._words[self._next]
            self._next += 1
            if word == "--":
                is_last = True
            elif word.startswith("-") and word != "-":
                if is_last or (problem := self._option(word)):
                    return NotHarmless(
                        problem if not is_last else f"{word} begins with a dash; write ./{word}"
                    )
            else:
                operands.append(position)
        problem = self._operands(operands)
        if problem:
            return NotHarmless(problem)
        return Harmless(self._name, tuple(self._paths), tuple(self._glob_paths))

    def _option(self, word: str) -> str:
        """Why the option is not accepted; empty if it is."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = self._program.options.get(name)
            if option is None or (equals and not option.value):
                return self._unlisted(name)
            self._given.add(name)
            if not option.value or (option.optional and not equals):
                return ""
            return self._value(name, option, value) if equals else self._separate_value(name, option)
        if self._program.has_numbers and re.fullmatch(r"-\d+", word):
            return ""
        for position, letter in enumerate(word[1:], 1):
            option = self._program.options.get(f"-{letter}")
            if option is None:
                return self._unlisted(f"-{letter}")
            self._given.add(f"-{letter}")
            if not option.value:
                continue
            value = word[position + 1 :]
            if value:
                return self._value(f"-{letter}", option, value)
            return "" if option.optional else self._separate_value(f"-{letter}", option)
        return ""

    def _unlisted(self, option: str) -> str:
        return f"the option {option} of {self._name} is not listed"

    def _separate_value(self, name: str, option: Option) -> str:
        if self._next >= len(self._words):
            return f"the option {name} of {self._name} has no value"
        value = self._words[self._next]
        if self._next in self._globs:
            return f"the value of {name} is a pattern for files"
        self._next += 1
        if value.startswith("-") and not (option.value == "NUM" and _NUMBER.fullmatch(value)):
            return f"the value {value} of {name} begins with a dash"
        return self._value(name, option, value)

    def _value(self, name: str, option: Option, value: str) -> str:
        if option.value == "NUM" and not _NUMBER.fullmatch(value):
            return f"the value {value} of {name} is not a number"
        if option.value == "FORMAT" and "%G" in value:
            return "%G runs the program that checks signatures"
        if option.value == "FILE":
            self._paths.append(value)
        return ""

    def _operands(self, positions: list[int]) -> str:
        kind = self._program.operands
        words = [self._words[position] for position in positions]
        plus = next((word for word in words if word.startswith("+")), None)
        if plus is not None and kind not in ("+FORMAT", "TEXT...", "FORMAT TEXT..."):
            return f"{plus} begins with a plus sign"
        if kind in ("FILE...", "TEXT..."):
            return self._reads(positions, kind)
        first, _, others = kind.partition(" ")
        if others and not (first == "PATTERN" and self._given & _PATTERN_OPTIONS):
            if not positions:
                return f"{self._name} has no {first}"
            if positions[0] in self._globs:
                return f"{words[0]} is a pattern for files"
            if problem := _FIRST_OPERAND.get(first, _anything)(words[0]):
                return problem
            return self._reads(positions[1:], others)
        if others:
            return self._reads(positions, others)
        if set(positions) & self._globs:
            return f"{self._name} takes no pattern for files"
        if kind == "FILE":
            self._paths += words
        return _SHAPES[kind](words) if kind in _SHAPES else f"{self._name} takes no operands" if words else ""

    def _reads(self, positions: list[int], kind: str) -> str:
        for position in positions:
            word = self._words[position]
            if position in self._globs:
                self._glob_paths.append(word)
            elif kind == "FILE..." and word != "-":
                self._paths.append(word)
        return ""


_PATTERN_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file", "--files", "--type-list"})


def _anything(word: str) -> str:
    return ""


def _accepts(pattern: re.Pattern[str], problem: str) -> Callable[[str], str]:
    return lambda word: "" if pattern.fullmatch(word) else f"{problem}: {word}"


_FIRST_OPERAND: dict[str, Callable[[str], str]] = {
    "FORMAT": _accepts(_PRINTF, "this format is not listed"),
    "RANGE": _accepts(_SED, "sed may only print lines by their numbers"),
    "FILTER": lambda word: f"the filter uses {match[0]}" if (match := _JQ.search(word)) else "",
}


def _at_most_one(words: list[str]) -> str:
    return f"only one operand is listed, not {words[1]}" if len(words) > 1 else ""


def _test(words: Sequence[str]) -> str:
    is_unary = len(words) == 2 and words[0] in _TESTED
    is_comparison = len(words) == 3 and words[1] in ("=", "!=")
    return "" if is_unary or is_comparison else "this test is not listed"


def _numbers(words: list[str]) -> str:
    is_short = 0 < len(words) <= 3 and all(re.fullmatch(r"\d{1,7}", word) for word in words)
    return "" if is_short else "only one to three whole numbers of up to seven digits are listed"


def _seconds(words: list[str]) -> str:
    is_short = len(words) == 1 and re.fullmatch(r"\d{1,2}(?:\.\d{1,3})?s?", words[0])
    return "" if is_short else "only one time of up to 99 seconds is listed"


def _date_format(words: list[str]) -> str:
    return _at_most_one(words) or (
        "" if not words or words[0].startswith("+") else f"{words[0]} sets the date"
    )


_SHAPES: dict[str, Callable[[list[str]], str]] = {
    "FILE": _at_most_one,
    "TEXT": _at_most_one,
    "NUMBER...": _numbers,
    "SECONDS": _seconds,
    "+FORMAT": _date_format,
}


class _Find:
    """`find` has tests and actions instead of options, each a word of its own."""

    def __init__(self, words: Sequence[str], globs: frozenset[int]) -> None:
        self._words = words
        self._globs = globs

    def check(self) -> Harmless | NotHarmless:
        options = program_of(PROGRAMS["find"]).options
        paths: list[str] = []
        position, has_test = 1, False
        while position < len(self._words):
            word = self._words[position]
            if position in self._globs and has_test:
                return NotHarmless(f"{word} is a pattern for files")
            if word in ("(", ")", "!", ","):
                has_test = True
            elif not word.startswith("-"):
                if position not in self._globs:
                    paths.append(word)
            elif (option := options.get(word)) is None:
                return NotHarmless(f"{word} of find is not listed")
            else:
                has_test = has_test or word not in ("-H", "-L", "-P")
                if option.value:
                    position += 1
                    if problem := self._value(word, option, position):
                        return NotHarmless(problem)
                    if option.value == "FILE":
                        paths.append(self._words[position])
            position += 1
        return Harmless("find", tuple(paths), tuple(self._words[one] for one in sorted(self._globs)))

    def _value(self, name: str, option: Option, position: int) -> str:
        if position >= len(self._words):
            return f"{name} of find has no value"
        value = self._words[position]
        if position in self._globs:
            return f"the value of {name} is a pattern for files"
        if value.startswith("-") and not _NUMBER.fullmatch(value) and not _FIND_VALUE.fullmatch(value):
            return f"the value {value} of {name} begins with a dash"
        if option.value == "NUM" and not _NUMBER.fullmatch(value):
            return f"the value {value} of {name} is not a number"
        return ""
