"""What the words of a program are, by pygments, in portions: where one ends, the next can go on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

UNSETTLED = 3
"""Lines at the end of what is there whose words the next lines may still change."""

_LONGEST_LINE = 5000
"""Longer ones were not written by people, and some patterns take very long for them."""

_ROLES = (
    ("Comment.Preproc", "keyword"),
    ("Comment", "comment"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Keyword.Constant", "number"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Name.Tag", "keyword"),
    ("Name.Builtin", "builtin"),
    ("Name.Decorator", "builtin"),
    ("Name.Attribute", "builtin"),
    ("Name.Function", "name"),
    ("Name.Class", "name"),
    ("Generic.Heading", "heading"),
    ("Generic.Subheading", "heading"),
    ("Generic.Inserted", "added"),
    ("Generic.Deleted", "removed"),
)

_OPENINGS = (
    (re.compile(r"/\*"), "/* x */"),
    (re.compile("<!--"), "<!-- x -->"),
    (re.compile(r"<<-?\s{0,4}['\"\\]?[A-Za-z_]"), "cat <<E\nx\nE\n"),
)
_LONGEST_OPENING = 10

Word = tuple[str, str]
"""Its text, and its role: `keyword`, `string`, …, or empty."""


class _Border(NamedTuple):
    at: int
    state: tuple[str, ...]


@lru_cache(64)
def lexer_of(language: str = "", path: str = "") -> Lexer | None:
    """By the name of a language, else by that of a file; None where neither is known."""
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    if language:
        try:
            return get_lexer_by_name(language)
        except ClassNotFound:
            return None
    found = find_lexer_class_for_filename(path) if path else None
    return found() if found else None


def lines_of_words(lexer: Lexer | None, code: str, state: tuple[str, ...] = ()) -> list[list[Word]]:
    """Every line of the code, in words."""
    lines: list[list[Word]] = [[]]
    for _, role, text, _ in _words(lexer, code, state):
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, role))
        lines += [[(other, role)] if other else [] for other in others]
    return lines[:-1] if code.endswith("\n") or not code else lines


def settled(lexer: Lexer | None, code: str, state: tuple[str, ...] = ()) -> tuple[int, tuple[str, ...]]:
    """How many lines from the first on are final, and the state in which the lexer goes on after them."""
    lines = code.count("\n")
    if lexer is None or not _is_readable(code):
        return lines, ()
    end = len(code)
    for _ in range(UNSETTLED + 1):
        end = code.rfind("\n", 0, end)
        if end < 0:
            return 0, state
    best = _Border(0, state)
    openings = _openings(lexer)
    for at, role, text, border in _words(lexer, code, state):
        if border is not None and best.at < border.at <= end + 1:
            best = border
        if at > end or (role not in ("comment", "string") and _opens(openings, at, text, code)):
            break
    return code.count("\n", 0, best.at), best.state


def _is_readable(code: str) -> bool:
    return len(code) < _LONGEST_LINE or max(map(len, code.split("\n"))) < _LONGEST_LINE


def _words(
    lexer: Lexer | None, code: str, state: tuple[str, ...]
) -> Iterator[tuple[int, str, str, _Border | None]]:
    if lexer is None or not _is_readable(code):
        yield 0, "", code, None
        return
    done = 0
    try:
        for at, kind, text, border in _lexed(lexer, code, state):
            yield at, _role(kind), text, border
            done = at + len(text)
    except Exception:
        # A lexer is other people's code, run on anything a model writes: plain text is better than none.
        yield done, "", code[done:], None


def _lexed(lexer: Lexer, code: str, state: tuple[str, ...]) -> Iterator[tuple[int, Any, str, _Border | None]]:
    """Tokens, and the border before each that begins a line.

    pygments takes a stack of states to begin with and does not give one back, so it is read from the
    generator. A lexer that keeps none there begins anew after every line that ends outside of strings and
    comments.
    """
    tokens = lexer.get_tokens_unprocessed(code, state) if state else lexer.get_tokens_unprocessed(code)
    cut, is_inside, stack_before = 0, False, None
    for at, kind, text in tokens:
        border = None
        if cut:
            stack = _stack(tokens, at)
            if stack is None:
                border = None if is_inside else _Border(cut, ())
            elif stack and (cut == at or stack == stack_before):
                border = _Border(cut, stack)
        yield at, kind, text, border
        newline = text.rfind("\n")
        cut = at + newline + 1 if newline >= 0 else 0
        if cut:
            is_inside = _role(kind) in ("string", "comment") and not str(kind).endswith(".Single")
            stack_before = _stack(tokens, at) if text.isspace() else None


def _stack(tokens: Any, at: int) -> tuple[str, ...] | None:
    """The states in which the match at this place was looked for; empty inside of a match."""
    known = tokens.gi_frame.f_locals if getattr(tokens, "gi_frame", None) else {}
    if "statestack" not in known:
        return None
    return tuple(known["statestack"]) if known.get("pos") == at else ()


@lru_cache(256)
def _role(kind: Any) -> str:
    name = str(kind).removeprefix("Token.")
    return next((role for prefix, role in _ROLES if f"{name}.".startswith(f"{prefix}.")), "")


@lru_cache(64)
def _openings(lexer: Lexer) -> tuple[re.Pattern[str], ...]:
    """How something begins that this lexer only knows when it sees the end of it."""
    return tuple(
        opening
        for opening, closed in _OPENINGS
        if any(_role(kind) in ("comment", "string") for _, kind, _ in lexer.get_tokens_unprocessed(closed))
    )


def _opens(openings: Sequence[re.Pattern[str]], at: int, text: str, code: str) -> bool:
    end = at + len(text)
    found = (opening.search(code, at, end + _LONGEST_OPENING) for opening in openings)
    return any(one is not None and one.start() < end for one in found)
