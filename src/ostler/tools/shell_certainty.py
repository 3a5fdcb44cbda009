"""Where bash may read a command differently from the parser: checks on what the parser made of it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ostler.tools.shell_words import literal, text_of

if TYPE_CHECKING:
    from tree_sitter import Node


def is_covered(root: Node, source: bytes) -> bool:
    """Whether the parser made something of every character that is not a blank."""
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
    """Whether there is a blank between any two words: where there is none, bash takes them for one."""
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
    """Where `cd FOLDER && …` goes, when the whole command depends on that."""
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
    """Where bash finds the end of a text may differ from where the parser did, so it is looked for again."""
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    end = next((child for child in node.children if child.type == "heredoc_end"), None)
    if start is None or end is None or node.parent is None:
        return "a text for its input has no end"
    mark = re.fullmatch(r"(['\"]?)(\w+)\1", text_of(start))
    if mark is None:
        return "a text for its input has an odd end"
    root = node
    while root.parent is not None:
        root = root.parent
    whole = text_of(root).split("\n")
    strip = text_of(node).partition("<<")[2].startswith("-")
    below = start.start_point.row + 1
    lines = [line.lstrip("\t") if strip else line for line in whole[below:]]
    if mark[2] not in lines or lines.index(mark[2]) + below != end.start_point.row:
        return "the end of a text for its input is uncertain"
    if text_of(root).count("<<") > 1:
        return "several texts for its input"
    body = "\n".join(lines[: lines.index(mark[2])])
    if not mark[1] and re.search(r"\$[({\[]|`", body):
        return "a text for its input runs commands"
    return ""
