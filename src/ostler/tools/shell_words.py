"""Words of a shell command as bash will read them, where that is certain before it runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ostler.kernel.user_paths import home_folder

if TYPE_CHECKING:
    from tree_sitter import Node

_GLOB = frozenset("*?[")


def word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MASK = re.compile("zQ([0-9a-f]+)Qz")


def as_ascii(command: str) -> bytes | None:
    """The command for the parser, each other character in ASCII letters; None if it has such letters already.

    The parser looks characters up in a table of 256, and crashes on some that lie far behind its end.
    """
    if _MASK.search(command):
        return None
    return re.sub(r"[^\x00-\x7f]", lambda match: f"zQ{ord(match[0]):x}Qz", command).encode()


def text_of(node: Node) -> str:
    """The text of a node as it stands in the command."""
    return _MASK.sub(lambda match: chr(int(match[1], 16)), (node.text or b"").decode())


def literal(node: Node) -> str | None:
    """What the word is after quotes are taken off; None for one that is known only when it runs."""
    match node.type:
        case "word" | "number":
            return _home_for_tilde(text_of(node)) if _is_plain(text_of(node)) else None
        case "concatenation":
            return _joined(node)
    return _quoted(node)


def _quoted(node: Node) -> str | None:
    text = text_of(node)
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "string" and all(child.type in ('"', "string_content") for child in node.children):
        # A backslash keeps its meaning before these only.
        return re.sub(r'\\(?:\n|([$`"\\]))', lambda match: match[1] or "", text[1:-1])
    return None


def _joined(node: Node) -> str | None:
    """Pieces that touch each other. What braces or wildcards would make of them is not known."""
    pieces: list[str] = []
    position = node.start_byte
    for child in node.children:
        if child.start_byte != position:
            return None
        position = child.end_byte
        if child.type in ("word", "number"):
            text = text_of(child)
            if not _is_plain(text) or ("{" in text and not _has_only_empty_braces(node)):
                return None
            piece = _home_for_tilde(text) if not pieces else _unescaped(text)
            if not pieces and text == "~":
                return None
        else:
            piece = _quoted(child)
            if not pieces and piece is not None and piece.startswith("~"):
                return None
        if piece is None:
            return None
        pieces.append(piece)
    return "".join(pieces)


def _has_only_empty_braces(node: Node) -> bool:
    """As in `{}`, which `find` and `xargs` replace and bash leaves alone."""
    rest = text_of(node).replace("{}", "")
    return "{" not in rest and "}" not in rest


def _is_plain(word: str) -> bool:
    """No wildcard, no braces that multiply, nothing that is replaced."""
    bare = re.sub(r"\\.", "", word, flags=re.DOTALL)
    if _GLOB & set(bare) or re.search(r"[$`\s]", bare):
        return False
    if "{" in bare and ("," in bare or ".." in bare):
        return False
    return not bare.startswith("~") or word == "~" or word.startswith("~/")


def _home_for_tilde(word: str) -> str | None:
    if word == "~" or word.startswith("~/"):
        home = home_folder()  # without one the shell decides what it stands for
        return None if home is None else str(home) + _unescaped(word[1:])
    return _unescaped(word)


def _unescaped(word: str) -> str:
    return re.sub(r"\\(?:\n|(.))", lambda match: match[1] or "", word, flags=re.DOTALL)
