"""The plain form of a shell command: literal words, joined by `|`, `&&`, `||`, `;` and newlines.

The text of a plain command says which programs run with which words, in bash and in dash alike. What is not
listed here is not plain, and is never guessed at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Literal

import msgspec

MAX_LENGTH = 20_000


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


Joint = Literal["", "|", "&&", "||", ";", "\n"]


class Redirection(msgspec.Struct, frozen=True):
    """A file that the shell opens for a command. Descriptors and `/dev/null` need no judgement."""

    path: str
    writes: bool
    source: str


class PlainPart(msgspec.Struct, frozen=True):
    """One program or builtin with its words."""

    words: tuple[str, ...]
    source: str
    globs: frozenset[int] = frozenset()
    """The words that the shell replaces by the names of files, by their positions."""
    redirections: tuple[Redirection, ...] = ()
    joint: Joint = ""
    """What stands before it."""

    @property
    def known_words(self) -> tuple[str | None, ...]:
        """The words, with None for each that depends on the files that are there."""
        if not self.globs:
            return self.words
        return tuple(None if number in self.globs else word for number, word in enumerate(self.words))


class PlainCommand(msgspec.Struct, frozen=True):
    parts: tuple[PlainPart, ...]
    uses_home: bool = False
    """A word begins with `~`, and has the value that it has when the command begins."""


class NotPlain(msgspec.Struct, frozen=True):
    """Why a command is not plain, and the part of it that is the reason."""

    why: str
    part: str


BUILTINS = word_set(
    ". : alias bg bind break builtin caller cd chdir command compgen complete compopt continue "
    "declare dirs disown enable eval exec exit export fc fg getopts hash help history jobs kill let "
    "local logout mapfile popd pushd printf read readarray readonly return set shift shopt source "
    "suspend test times trap type typeset ulimit umask unalias unset wait"
)
"""Commands of the shell itself that may change it: after them, other words may mean something else."""

_RESERVED = word_set(
    "! { } [ ] [[ ]] ( ) if then elif else fi for select in do done while until case esac function "
    "time coproc"
)
_PROGRAM = re.compile(r"[A-Za-z0-9_./:+@,][A-Za-z0-9_./:+@%,-]*")
_BARE = r"[A-Za-z0-9_./,:+@%=*?~-][A-Za-z0-9_./,:+@%=*?~^-]*"
_PIECE = re.compile(
    rf"""(?P<bare>{_BARE})
    |'(?P<single>[^']*)'
    |"(?P<double>(?:[^"\\$`]|\\[^\n])*)"
    |\\(?P<escaped>[ !-/:-@\[-`{{-~])""",
    re.VERBOSE,
)
_OPERATOR = re.compile(r"&&(?!&)|\|\|(?![|&])|\|(?![|&])|;(?![;&])|\n")
_REDIRECTION = re.compile(r"(?P<number>[0-9]?)(?P<sign>>>|>|<)(?![<>|&(])[ \t]*")
_DESCRIPTOR = re.compile(r"[0-9]?[<>]&[0-9-](?=[ \t\n;|&]|\Z)")
_IN_DOUBLE_QUOTES = re.compile(r'\\([$`"\\])')
_TILDE = re.compile(r"(?<![A-Za-z0-9_^~])~")
"""Where a shell may replace it: not in `HEAD~1`."""

_END_OF_WORD = frozenset(" \t\n;|&")
_SNIPPET = re.compile(
    r"\$\([^)]*\)?|\$\{[^}]*\}?|\$[^\s\"']*|`[^`]*`?|[<>]\([^)]*\)?|[<>&|;]+[^\s;|&]{0,39}|\S[^\s;|&]{0,39}|\s"
)

_REASONS = {
    "$": "$ expands to something that is known only at run time",
    "`": "backquotes run a command",
    "&": "& runs it in the background, or redirects in a way that shells disagree about",
    "(": "it uses a subshell, a function or an array",
    ")": "it uses a subshell, a function or an array",
    "{": "braces group or expand",
    "}": "braces group or expand",
    "[": "[ is a test or a pattern",
    "]": "[ is a test or a pattern",
    "#": "it has a comment",
    "!": "! negates it",
    "\\": "a backslash stands before something other than a punctuation mark",
    "<": "this redirection is not one of <, >, >>, 2>&1",
    ">": "this redirection is not one of <, >, >>, 2>&1",
    "'": "a quotation mark has no partner",
    '"': "a quotation mark has no partner",
    "|": "|& and ||| mean different things in different shells",
    ";": ";; belongs to case",
    "^": "^ stands at the beginning of a word",
}


def read_plain(command: str) -> PlainCommand | NotPlain:
    """The parts of a plain command, or why it is not plain."""
    if len(command) > MAX_LENGTH:
        return NotPlain("it is too long to be judged", command[:40])
    hidden = next((c for c in command if not c.isprintable() and c not in "\n\t"), None)
    if hidden is not None:
        return NotPlain("it has invisible characters", f"U+{ord(hidden):04X}")
    try:
        parts = tuple(_parts(command))
    except _NotPlainError as error:
        return error.reason
    return PlainCommand(parts, _HOME_WORD.search(command) is not None)


class _NotPlainError(Exception):
    def __init__(self, reason: NotPlain) -> None:
        self.reason = reason


_HOME_WORD = re.compile(r"(?:^|[\s;|&<>])~")


def _parts(command: str) -> Iterator[PlainPart]:
    position, joint = 0, ""
    needed = ""
    """The operator that another command must follow."""
    while True:
        position = _behind_blanks(command, position, "\n" if needed or not joint or joint == "\n" else "")
        if position >= len(command):
            if needed:
                raise _NotPlainError(NotPlain("it ends too early", needed))
            return
        part, position = _part(command, position, joint)  # type: ignore[arg-type]
        yield part
        if position >= len(command):
            return
        operator = _OPERATOR.match(command, position)
        if operator is None:
            raise _not_plain(command, position)
        joint, position = operator[0], operator.end()
        needed = joint if joint in ("&&", "||", "|") else ""
        if joint == ";":  # a line may end with it
            behind = _behind_blanks(command, position, "")
            if behind < len(command) and command[behind] == "\n":
                position = _behind_blanks(command, behind, "\n")


def _behind_blanks(command: str, position: int, also: str) -> int:
    while position < len(command) and command[position] in f" \t{also}":
        position += 1
    return position


def _part(command: str, start: int, joint: Joint) -> tuple[PlainPart, int]:
    words: list[str] = []
    globs: set[int] = set()
    redirections: list[Redirection] = []
    has_redirection = False
    position = end = start
    while position < len(command) and not _OPERATOR.match(command, position):
        if descriptor := _DESCRIPTOR.match(command, position):
            end, has_redirection = descriptor.end(), True
        elif redirection := _REDIRECTION.match(command, position):
            path, is_glob, end = _word(command, redirection.end())
            source = command[position:end]
            if is_glob or re.match(r"/+dev/+(?!null\Z)|/+proc/", path):
                raise _NotPlainError(NotPlain("this is no redirection to or from a plain file", source))
            if path != "/dev/null":
                redirections.append(Redirection(path, redirection["sign"] != "<", source))
            has_redirection = True
        else:
            if has_redirection:
                raise _NotPlainError(
                    NotPlain("a word follows a redirection", command[start : position + 20].split("\n")[0])
                )
            word, is_glob, end = _word(command, position)
            if is_glob:
                globs.add(len(words))
            words.append(word)
        position = _behind_blanks(command, end, "")
    source = command[start:end]
    if not words:
        why = (
            "no command stands before it" if has_redirection or start < len(command) else "it ends too early"
        )
        raise _NotPlainError(NotPlain(why, source or command[start : start + 2]))
    _check_program(words[0], 0 in globs, source)
    return PlainPart(tuple(words), source, frozenset(globs), tuple(redirections), joint), position


def _check_program(word: str, is_glob: bool, source: str) -> None:
    if "=" in word:
        raise _NotPlainError(NotPlain("it sets a variable", source))
    if word in _RESERVED:
        raise _NotPlainError(NotPlain(f"{word} is a word of the shell's own language", source))
    is_path = word.startswith(("/", "./", "../"))  # in quotes, it may contain blanks
    if is_glob or not (is_path or _PROGRAM.fullmatch(word)):
        raise _NotPlainError(NotPlain("its first word is not the plain name of a program", source))


def _word(command: str, start: int) -> tuple[str, bool, int]:
    """The value of a word, whether it is a glob, and where it ends."""
    texts: list[str] = []
    position = start
    bare = ""
    while position < len(command) and command[position] not in _END_OF_WORD:
        piece = _PIECE.match(command, position)
        if piece is None:
            raise _not_plain(command, position)
        if piece["bare"] is not None:
            if _TILDE.search(piece["bare"]):
                return _below_home(command, start)
            bare += piece["bare"]
            texts.append(piece["bare"])
        elif piece["double"] is not None:
            texts.append(_IN_DOUBLE_QUOTES.sub(r"\1", piece["double"]))
        else:
            texts.append(piece["single"] if piece["single"] is not None else piece["escaped"])
        position = piece.end()
    source, text = command[start:position], "".join(texts)
    if not source:
        raise (
            _not_plain(command, start)
            if start < len(command)
            else _NotPlainError(NotPlain("it ends too early", command[-20:]))
        )
    is_glob = "*" in bare or "?" in bare
    if is_glob and (bare != source or source[0] in "*?-" or re.search(r"[*?].*/\.\.(?:/|\Z)", source)):
        raise _NotPlainError(NotPlain("a pattern for files must follow a name, as in ./*.txt", source))
    return text, is_glob, position


def _below_home(command: str, start: int) -> tuple[str, bool, int]:
    """`~` and `~/folder` in a word without quotes; all other forms differ between shells."""
    home = os.environ.get("HOME", "")
    word = re.compile(r"~(?:/[A-Za-z0-9_./,:+@%=^-]*)?(?=[ \t\n;|&]|\Z)").match(command, start)
    if word is None or not home.startswith("/"):
        source = re.compile(r"[^\s;|&]*").match(command, start)
        raise _NotPlainError(
            NotPlain("~ stands for something that shells disagree about", source[0] if source else "~")
        )
    return home + word[0][1:], False, word.end()


def _not_plain(command: str, position: int) -> _NotPlainError:
    """The reason at a position where nothing plain stands."""
    character = command[position]
    if character == '"':
        # The quotation mark has a partner if an expansion is the problem.
        inner = re.compile(r'(?:[^"\\$`]|\\[^\n])*').match(command, position + 1)
        stop = inner.end() if inner else position
        if stop < len(command) and command[stop] in "$`\\":
            position, character = stop, command[stop]
    snippet = _SNIPPET.match(command, position)
    if not character.isascii():
        return _NotPlainError(NotPlain("a character beyond ASCII has no quotes around it", character))
    why = _REASONS.get(character, "this is not plain")
    return _NotPlainError(NotPlain(why, snippet[0] if snippet else character))
