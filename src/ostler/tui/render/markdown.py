"""Markdown as rows. Each part is parsed and drawn once, the open one again for each frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from ostler.core.lazy import lazy_module
from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.text import printable
from ostler.tui.render.boxes import Cell, table_rows
from ostler.tui.render.spans import (
    BOLD,
    DIM,
    ITALIC,
    STRUCK,
    UNDERLINE,
    Piece,
    Row,
    after,
    broken,
    cells_of,
    drawn,
    is_path,
    path_spans,
    sgr,
    wrapped,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

    from ostler.tui.render import code, markdown_stream
    from ostler.tui.render.markdown_stream import Part
else:
    code = lazy_module("ostler.tui.render.code")
    markdown_stream = lazy_module("ostler.tui.render.markdown_stream")

NARROW = 40
"""Up to so many columns code is not indented."""

RULE = 32
"""Columns of a horizontal rule: a wider one would break when the terminal gets narrower."""

_TASK = re.compile(r"\[([ xX])\]\s+")
_MARKS = frozenset("\\`*_~[]<>&|")
"""Without these, a line that begins with a letter is a plain paragraph."""


def markdown_rows(
    text: str, width: int, colors: ThemeColors | None, *, hyperlinks: bool = False
) -> list[str]:
    """The rows of a complete text."""
    return [
        row
        for part in markdown_stream.parts_of(text)
        for row in part_rows(part, width, colors, hyperlinks=hyperlinks)
    ]


def part_rows(part: Part, width: int, colors: ThemeColors | None, *, hyperlinks: bool = False) -> list[str]:
    """The rows of a part, after a blank row unless it begins the text.

    With `hyperlinks` links are clickable; without, their address follows them.
    """
    drawing = _Drawing(max(1, width), colors, hyperlinks)
    if part.fence is not None:
        text = markdown_stream.unindented(part.text[part.fence.start : part.fence.end], part.fence.indent)
        rows = drawing.code(text, part.fence.language, part.fence.state)
    elif plain := _plain(part.text):
        rows = wrapped([Piece(plain)], max(1, width))
    else:
        tokens = _parser().parse(part.text)
        rows = drawing.blocks(tokens, part.number)
        if not tokens and part.text.strip():
            # A part with only link definitions would be invisible.
            rows = wrapped([Piece(printable(part.text.strip()), DIM)], width)
    lines = [drawn(fitting) for row in rows for fitting in _fitted(row, width)]
    return ["", *lines] if lines and not part.begins and not part.continues else lines


def _fitted(row: Row, width: int) -> list[Row]:
    """Breaks rows that nest too deep for the width, but not inside a path."""
    if cells_of(row) <= width or any(path_spans("".join(piece.text for piece in row))):
        return [row]
    return broken(row, width)


def _plain(text: str) -> str:
    """The text of a plain single line, which needs no parser; else empty."""
    line = text.strip("\n")
    if line.startswith("    ") or not line.isprintable() or not _MARKS.isdisjoint(line):
        return ""
    line = line.strip(" ")
    return line if line[:1].isalpha() else ""


@lru_cache(1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # HTML tags are printed as text: hiding them would hide what the model wrote.
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


class _Drawing(msgspec.Struct, frozen=True):
    width: int
    colors: ThemeColors | None
    hyperlinks: bool
    is_nested: bool = False

    def blocks(self, tokens: Sequence[Token], number: int | None = None) -> list[Row]:
        rows: list[Row] = []
        at = 0
        while at < len(tokens):
            end = _end_of(tokens, at)
            block_rows = self._block(tokens[at : end + 1], number)
            if rows and block_rows and not (self.is_nested and tokens[at].type.endswith("list_open")):
                rows.append([])
            rows += block_rows
            at = end + 1
        return rows

    def _block(self, tokens: Sequence[Token], number: int | None) -> list[Row]:
        first = tokens[0]
        match first.type:
            case "heading_open":
                return self._heading(int(first.tag[1:]), tokens[1])
            case "paragraph_open":
                return wrapped(self._inline(tokens[1]), self.width)
            case "bullet_list_open" | "ordered_list_open":
                return self._list(tokens, number)
            case "blockquote_open":
                bar = [Piece("▎ ", sgr(self.colors, "muted"))]
                return after(bar, self._inside(2).blocks(tokens[1:-1]))
            case "fence" | "code_block":
                return self.code(first.content, first.info.split(maxsplit=1)[0] if first.info.strip() else "")
            case "hr":
                return [[Piece("─" * min(self.width, RULE), sgr(self.colors, "muted_border"))]]
            case "table_open":
                return self._table(tokens)
            case _:
                return wrapped([Piece(printable(first.content))], self.width)

    def code(self, text: str, language: str, state: tuple[str, ...] = ()) -> list[Row]:
        indent = 2 if self.width > NARROW else 0
        lines = code.code_lines(text, self.colors, language=language, state=state)
        rows = [row for line in lines for row in broken(line, self.width - indent)]
        return after([Piece(" " * indent)], rows)

    def _heading(self, level: int, inline: Token) -> list[Row]:
        attributes = (BOLD, UNDERLINE) if level == 1 else (BOLD,)
        style = sgr(self.colors, "md_heading", *attributes)
        return wrapped(self._inline(inline, style), self.width)

    def _list(self, tokens: Sequence[Token], number: int | None) -> list[Row]:
        """Blank rows follow only items of several blocks, so that later items change nothing."""
        items = _children(tokens)
        first = number if number is not None else int(tokens[0].attrs.get("start", 1))
        is_numbered = tokens[0].type == "ordered_list_open"
        marks = [f"{first + place}." if is_numbered else "•" for place in range(len(items))]
        indent = max(map(len, marks), default=0) + 1
        rows: list[Row] = []
        is_apart = False
        for mark, item in zip(marks, items, strict=True):
            blocks = _children(item)
            inside = self._inside(indent).blocks(item[1:-1]) or [[]]
            box = self._check_box(inside[0])
            lead = Piece(f"{mark:>{indent - 1}} ", sgr(self.colors, "muted"))
            rows += [[]] if is_apart else []
            rows += after([box or lead], inside, [Piece(" " * indent)])
            is_apart = sum(not block[0].type.endswith("list_open") for block in blocks) > 1
        return rows

    def _check_box(self, row: Row) -> Piece | None:
        """Moves a check box from the text of an item to the place of its mark."""
        match = _TASK.match(row[0].text) if row else None
        if match is None:
            return None
        row[0] = row[0]._replace(text=row[0].text[match.end() :])
        is_done = match[1] != " "
        return Piece("☑ " if is_done else "☐ ", sgr(self.colors, "success" if is_done else "muted"))

    def _table(self, tokens: Sequence[Token]) -> list[Row]:
        rows: list[list[Cell]] = []
        for at, token in enumerate(tokens):
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open"):
                is_head = token.type == "th_open"
                style = sgr(self.colors, "md_heading", BOLD) if is_head else ""
                align = str(token.attrs.get("style", "")).removeprefix("text-align:")
                rows[-1].append(Cell(self._inline(tokens[at + 1], style), align))
        return table_rows(rows, self.width, sgr(self.colors, "muted_border"))

    def _inline(self, token: Token, style: str = "") -> Row:
        return inline_pieces(token, self.colors, hyperlinks=self.hyperlinks, style=style)

    def _inside(self, indent: int) -> _Drawing:
        return msgspec.structs.replace(self, width=max(1, self.width - indent), is_nested=True)


def _end_of(tokens: Sequence[Token], at: int) -> int:
    """The end of the block that begins here."""
    if tokens[at].nesting != 1:
        return at
    level = tokens[at].level
    return next(
        place
        for place in range(at + 1, len(tokens))
        if tokens[place].level == level and tokens[place].nesting == -1
    )


def _children(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The direct child blocks."""
    children, at = [], 1
    while at < len(tokens) - 1:
        end = _end_of(tokens, at)
        children.append(tokens[at : end + 1])
        at = end + 1
    return children


_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ATTRIBUTES = {"strong_open": BOLD, "em_open": ITALIC, "s_open": STRUCK}
_CLICKED = re.compile(r"(?:https?|mailto|file):[!-~]+", re.IGNORECASE)


def inline_pieces(inline: Token, colors: ThemeColors | None, *, hyperlinks: bool, style: str = "") -> Row:
    """The text of a block as pieces. Line breaks are kept: models mean them."""
    pieces: Row = []
    styles = [style]
    link_start, address = 0, ""
    for token in inline.children or []:
        match token.type:
            case "text":
                pieces.append(Piece(_LINE_BREAK.sub("\n", printable(token.content)), styles[-1]))
            case "softbreak" | "hardbreak":
                pieces.append(Piece("\n"))
            case "code_inline":
                code_style = sgr(colors, "accent") or BOLD
                code = printable(token.content)
                pieces.append(Piece(code, _both(style, code_style), whole=is_path(code)))
            case "strong_open" | "em_open" | "s_open":
                styles.append(_both(styles[-1], _ATTRIBUTES[token.type]))
            case "strong_close" | "em_close" | "s_close":
                styles.pop()
            case "link_open":
                styles.append(_both(styles[-1], sgr(colors, "md_link", UNDERLINE)))
                link_start, address = len(pieces), printable(str(token.attrs.get("href", "")))
            case "link_close":
                styles.pop()
                pieces[link_start:] = _link(pieces[link_start:], address, hyperlinks=hyperlinks)
            case "image":
                alt = [Piece(printable(token.content) or "image", _both(style, ITALIC))]
                pieces += _link(alt, printable(str(token.attrs.get("src", ""))), hyperlinks=hyperlinks)
            case _:
                pieces.append(Piece(printable(token.content), styles[-1]))
    return pieces


def _link(pieces: Row, address: str, *, hyperlinks: bool) -> Row:
    if hyperlinks and _CLICKED.fullmatch(address):
        return [piece._replace(link=address) for piece in pieces]
    text = "".join(piece.text for piece in pieces)
    if not address or address.removeprefix("mailto:") == text:
        return pieces
    return [*pieces, Piece(f" ({address})", DIM)]


def _both(style: str, other: str) -> str:
    return f"{style};{other}" if style and other else style or other
