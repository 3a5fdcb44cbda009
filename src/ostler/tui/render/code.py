"""Code in the colours of a theme, highlighted by pygments in portions while it arrives."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.text import printable
from ostler.tui.render.spans import BOLD, DIM, ITALIC, Piece, Row, after, broken, drawn, expanded, sgr

if TYPE_CHECKING:
    from pygments.lexer import Lexer  # type: ignore[import-untyped]

OPEN_LINES = 3
"""Lines at the end whose tokens the next lines may still change."""

_LONGEST_LINE = 5000
"""Longer lines are not highlighted: some patterns take very long for them."""

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
"""The text and its role: `keyword`, `string`, … or empty."""


class _Border(NamedTuple):
    at: int
    state: tuple[str, ...]


@lru_cache(64)
def lexer_of(language: str = "", path: str = "") -> Lexer | None:
    """The lexer for a language or a file name; None if unknown."""
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    if language:
        try:
            return get_lexer_by_name(language)
        except ClassNotFound:
            return None
    lexer_class = find_lexer_class_for_filename(path) if path else None
    return lexer_class() if lexer_class else None


def lines_of_words(lexer: Lexer | None, code: str, state: tuple[str, ...] = ()) -> list[list[Word]]:
    """Each line of the code as tokens."""
    lines: list[list[Word]] = [[]]
    for _, role, text, _ in _words(lexer, code, state):
        first, *others = text.split("\n")
        if first:
            lines[-1].append((first, role))
        lines += [[(other, role)] if other else [] for other in others]
    return lines[:-1] if code.endswith("\n") or not code else lines


def highlighted_lines(
    lexer: Lexer | None, code: str, state: tuple[str, ...] = ()
) -> tuple[int, tuple[str, ...]]:
    """How many lines are final, and the lexer state after them."""
    lines = code.count("\n")
    if lexer is None or not _is_readable(code):
        return lines, ()
    end = len(code)
    for _ in range(OPEN_LINES + 1):
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
        # Lexers are third-party code on any text of a model: plain text is better than none.
        yield done, "", code[done:], None


def _lexed(lexer: Lexer, code: str, state: tuple[str, ...]) -> Iterator[tuple[int, Any, str, _Border | None]]:
    """Tokens, and the state before each that begins a line. pygments does not return its stack of states, so
    this reads it from the generator; a lexer without one restarts after each line outside of strings."""
    tokens = lexer.get_tokens_unprocessed(code, *([state] if state else []))
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
    """The states of the lexer at this place; empty inside a match."""
    names = tokens.gi_frame.f_locals if getattr(tokens, "gi_frame", None) else {}
    if "statestack" not in names:
        return None
    return tuple(names["statestack"]) if names.get("pos") == at else ()


@lru_cache(256)
def _role(kind: Any) -> str:
    name = str(kind).removeprefix("Token.")
    return next((role for prefix, role in _ROLES if f"{name}.".startswith(f"{prefix}.")), "")


@lru_cache(64)
def _openings(lexer: Lexer) -> tuple[re.Pattern[str], ...]:
    """How constructs begin that the lexer recognises only by their end."""
    return tuple(
        opening
        for opening, closed in _OPENINGS
        if any(_role(kind) in ("comment", "string") for _, kind, _ in lexer.get_tokens_unprocessed(closed))
    )


def _opens(openings: Sequence[re.Pattern[str]], at: int, text: str, code: str) -> bool:
    end = at + len(text)
    matches = (opening.search(code, at, end + _LONGEST_OPENING) for opening in openings)
    return any(one is not None and one.start() < end for one in matches)


MOST_LINES = 200
"""Lines of a growing file in memory: more than a tail shows, and enough for the end of a comment."""

_NARROWEST_CODE = 12
"""The narrowest width with line numbers."""

_STYLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "keyword": ("md_keyword", (), (BOLD,)),
    "string": ("md_string", (), ()),
    "number": ("md_number", (), ()),
    "comment": ("md_comment", (ITALIC,), (DIM,)),
    "builtin": ("secondary", (), ()),
    "name": ("info", (), (BOLD,)),
    "heading": ("md_heading", (BOLD,), (BOLD,)),
    "added": ("success", (), ()),
    "removed": ("error", (), ()),
}
"""For each role a theme slot, and attributes with and without colours."""


def code_rows(
    code: str,
    width: int,
    colors: ThemeColors | None,
    *,
    language: str = "",
    path: str = "",
    first_line: int | None = None,
) -> list[str]:
    """Rows of the code, with line numbers if `first_line` is given."""
    return _numbered(code_lines(code, colors, language=language, path=path), width, colors, first_line)


def code_lines(
    code: str, colors: ThemeColors | None, *, language: str = "", path: str = "", state: tuple[str, ...] = ()
) -> list[Row]:
    """The lines of the code in full width; the lexer starts in `state`."""
    lines = lines_of_words(lexer_of(language, path), printable(code), state)
    return [_pieces(line, colors) for line in lines]


class CodeStream:
    """A file while it is written. Each line is highlighted once or twice, and only the end is kept."""

    def __init__(self, *, language: str = "", path: str = "") -> None:
        self._language, self._path = language, path
        self._pending: list[str] = []
        self._final: deque[list[Word]] = deque(maxlen=MOST_LINES)
        self._final_count = 0
        self._open = ""
        """The text after the final lines."""
        self._state: tuple[str, ...] = ()

    def feed(self, text: str) -> None:
        self._pending.append(text)

    def tail(self, rows: int, width: int, colors: ThemeColors | None, *, gutter: bool = True) -> list[str]:
        """The last rows so far."""
        lexer = lexer_of(self._language, self._path)
        self._highlight(lexer)
        open_lines = lines_of_words(lexer, self._open, self._state)
        total = self._final_count + len(open_lines)
        lines = [_pieces(line, colors) for line in [*self._final, *open_lines][-rows:]]
        first = total - len(lines) + 1 if gutter else None
        return _numbered(lines, width, colors, first)[-rows:]

    def _highlight(self, lexer: Lexer | None) -> None:
        text = "".join(self._pending)
        held = "\r" if text.endswith("\r") else ""
        self._pending = [held]
        self._open += printable(text.removesuffix(held))
        count, state = highlighted_lines(lexer, self._open, self._state)
        if not count and self._open.count("\n") > MOST_LINES:
            count = MOST_LINES
        if count:
            self._final += lines_of_words(lexer, self._open, self._state)[:count]
            self._final_count += count
            self._open, self._state = self._open.split("\n", count)[count], state


def _numbered(lines: Sequence[Row], width: int, colors: ThemeColors | None, first: int | None) -> list[str]:
    digits = 0 if first is None else len(str(first + len(lines) - 1))
    if first is None or width - digits < _NARROWEST_CODE:
        return [drawn(row) for line in lines for row in broken(line, width)]
    style = sgr(colors, "very_muted") or DIM
    rows: list[Row] = []
    for number, line in enumerate(lines, first):
        gutter, below = Piece(f"{number:>{digits}} ", style), Piece(" " * (digits + 1))
        rows += after([gutter], broken(line, width - digits - 1), [below])
    return [drawn(row) for row in rows]


def _pieces(line: Iterable[Word], colors: ThemeColors | None) -> Row:
    return expanded(Piece(text, _style(role, colors)) for text, role in line)


def _style(role: str, colors: ThemeColors | None) -> str:
    if role not in _STYLES:
        return ""
    slot, beside, alone = _STYLES[role]
    return sgr(colors, slot, *beside) if colors and getattr(colors, slot) else ";".join(alone)
