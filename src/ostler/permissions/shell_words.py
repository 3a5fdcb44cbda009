"""The parts of a shell command, and its words as bash reads them if that is certain before it runs."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from ostler.store.paths import home_folder

if TYPE_CHECKING:
    from tree_sitter import Node


class Command(msgspec.Struct, frozen=True):
    """A program or builtin with its words; a word that is known only at run time is None."""

    words: tuple[str | None, ...]
    source: str
    assignments: tuple[str, ...] = ()
    """Assignments before it that may change what it does, verbatim: `PATH=.`"""
    only_restricts: bool = False
    """Rules that deny or ask apply to it, but another part must be allowed instead."""


class FileWrite(msgspec.Struct, frozen=True):
    """A redirection into a file."""

    path: str
    source: str


class FileRead(msgspec.Struct, frozen=True):
    path: str
    source: str


class Unparsed(msgspec.Struct, frozen=True):
    """Something that cannot be judged before it runs."""

    why: str
    source: str


Part = Command | FileWrite | FileRead | Unparsed


class ParsedCommand(msgspec.Struct, frozen=True):
    parts: tuple[Part, ...]
    folder: str | None = "."
    """The folder that the parts run in, relative to that of the command; None if it is uncertain."""


_HARMLESS_NAMES = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CI|COLUMNS|LINES|RUST_BACKTRACE"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE"
)


def is_plain_name(name: str) -> bool:
    """Whether setting this variable changes at most how output looks."""
    return _HARMLESS_NAMES.fullmatch(name) is not None


_GLOB = frozenset("*?[")


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MASK = re.compile("zQ([0-9a-f]+)Qz")


def as_ascii(command: str) -> bytes | None:
    """The command with all other characters encoded in ASCII letters; None if it contains such letters.

    The parser looks characters up in a table of 256, and crashes on some that are far beyond its end.
    """
    if _MASK.search(command):
        return None
    return re.sub(r"[^\x00-\x7f]", lambda match: f"zQ{ord(match[0]):x}Qz", command).encode()


def text_of(node: Node) -> str:
    """The text of a node, verbatim."""
    return _MASK.sub(lambda match: chr(int(match[1], 16)), (node.text or b"").decode())


def literal(node: Node) -> str | None:
    """The word without its quotes; None for one that is known only at run time."""
    if node.type in ("word", "number"):
        return _home_for_tilde(text_of(node)) if _is_plain(text_of(node)) else None
    return _joined(node) if node.type == "concatenation" else _quoted(node)


def _quoted(node: Node) -> str | None:
    text = text_of(node)
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "string" and all(child.type in ('"', "string_content") for child in node.children):
        # A backslash is special only before these characters.
        return re.sub(r'\\(?:\n|([$`"\\]))', lambda match: match[1] or "", text[1:-1])
    return None


def _joined(node: Node) -> str | None:
    """A word of adjacent pieces; None if braces or wildcards could expand in it."""
    pieces: list[str] = []
    position = node.start_byte
    for child in node.children:
        if child.start_byte != position:
            return None
        position = child.end_byte
        if child.type in ("word", "number"):
            text = text_of(child)
            # `find` and `xargs` replace `{}`, and bash does not change it.
            has_braces = "{" in text and re.search(r"[{}]", text_of(node).replace("{}", "")) is not None
            if not _is_plain(text) or has_braces or (not pieces and text == "~"):
                return None
            piece = _unescaped(text) if pieces else _home_for_tilde(text)
        else:
            piece = _quoted(child)
            if not pieces and piece is not None and piece.startswith("~"):
                return None
        if piece is None:
            return None
        pieces.append(piece)
    return "".join(pieces)


def _is_plain(word: str) -> bool:
    """Whether the word has no wildcards, no brace expansion and no substitutions."""
    bare = re.sub(r"\\.", "", word, flags=re.DOTALL)
    if _GLOB & set(bare) or re.search(r"[$`\s]", bare):
        return False
    if "{" in bare and ("," in bare or ".." in bare):
        return False
    return not bare.startswith("~") or word == "~" or word.startswith("~/")


def _home_for_tilde(word: str) -> str | None:
    if word == "~" or word.startswith("~/"):
        home = home_folder()  # without one, the meaning depends on the shell
        return None if home is None else str(home) + _unescaped(word[1:])
    return _unescaped(word)


def _unescaped(word: str) -> str:
    return re.sub(r"\\(?:\n|(.))", lambda match: match[1] or "", word, flags=re.DOTALL)


def is_covered(root: Node, source: bytes) -> bool:
    """Whether the nodes cover every character that is not a blank."""
    position = 0
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.children and node.type not in _WHOLE:
            waiting += reversed(node.children)
            continue
        if _gap(source, position, node.start_byte).strip(b" \t\n"):
            return False
        position = max(position, node.end_byte)
    return not _gap(source, position, len(source)).strip(b" \t\n")


_WHOLE = frozenset({"string", "heredoc_body"})


def are_apart(command: Node) -> bool:
    """Whether there is a blank between any two words; without one, bash reads them as one word."""
    words = [child for child in command.named_children if not child.type.endswith("_redirect")]
    source = command.text or b""
    start = command.start_byte
    gaps = [_gap(source, one.end_byte - start, other.start_byte - start) for one, other in pairwise(words)]
    return all(gap and b"\n" not in gap for gap in gaps)


def may_be_several_words(redirection: Node) -> bool:
    words = [child for child in redirection.children if child.type not in ("<<<", "file_descriptor")]
    return len(words) != 1 or (words[0].type in ("word", "concatenation") and literal(words[0]) is None)


def _gap(source: bytes, start: int, end: int) -> bytes:
    return source[start:end].replace(b"\\\n", b"")


def leading_folder(root: Node) -> str | None:
    """The folder of `cd FOLDER && …`, if the whole command depends on that `cd`."""
    statements = [child for child in root.named_children if child.type != "comment"]
    if len(statements) != 1 or any(child.type == "&" for child in root.children):
        return None
    node = statements[0]
    while node.type in ("list", "redirected_statement") and node.children:
        if node.type == "list" and [one.type for one in node.children if not one.is_named] != ["&&"]:
            return None
        node = node.children[0]
    if node.type != "command":
        return None
    words = [literal(child) for child in node.named_children[1:]]
    if text_of(node.named_children[0]) != "cd" or len(words) != 1 or not words[0] or words[0].startswith("-"):
        return None
    return words[0]


def heredoc_problem(node: Node) -> str:
    """Checks that bash finds the end of a here-document where the parser did."""
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    end = next((child for child in node.children if child.type == "heredoc_end"), None)
    if start is None or end is None or node.parent is None:
        return "a here-document has no end"
    mark = re.fullmatch(r"(['\"]?)(\w+)\1", text_of(start))
    if mark is None:
        return "a here-document has an unusual delimiter"
    root = node
    while root.parent is not None:
        root = root.parent
    whole = text_of(root).split("\n")
    strip = text_of(node).partition("<<")[2].startswith("-")
    below = start.start_point.row + 1
    lines = [line.lstrip("\t") if strip else line for line in whole[below:]]
    if mark[2] not in lines or lines.index(mark[2]) + below != end.start_point.row:
        return "the end of a here-document is uncertain"
    if text_of(root).count("<<") > 1:
        return "it has several here-documents"
    body = "\n".join(lines[: lines.index(mark[2])])
    runs_commands = not mark[1] and re.search(r"\$[({\[]|`", body)
    return "a here-document runs commands" if runs_commands else ""
