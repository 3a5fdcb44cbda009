"""What stands in a line of Markdown: emphasis, code, links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.drawing.path_spans import is_path
from ostler.faces.tui.drawing.pieces import (
    BOLD,
    DIM,
    ITALIC,
    STRUCK,
    UNDERLINE,
    Piece,
    Row,
    harmless,
    sgr,
)

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ATTRIBUTES = {"strong_open": BOLD, "em_open": ITALIC, "s_open": STRUCK}
_CLICKED = re.compile(r"(?:https?|mailto|file):[!-~]+", re.IGNORECASE)


def inline_pieces(inline: Token, colors: ThemeColors | None, *, hyperlinks: bool, style: str = "") -> Row:
    """The pieces of one block's text. A break that was written is kept: models mean it."""
    pieces: Row = []
    styles = [style]
    link_start, address = 0, ""
    for token in inline.children or []:
        match token.type:
            case "text":
                pieces.append(Piece(_LINE_BREAK.sub("\n", harmless(token.content)), styles[-1]))
            case "softbreak" | "hardbreak":
                pieces.append(Piece("\n"))
            case "code_inline":
                code_style = sgr(colors, "accent") or BOLD
                code = harmless(token.content)
                pieces.append(Piece(code, _both(style, code_style), whole=is_path(code)))
            case "strong_open" | "em_open" | "s_open":
                styles.append(_both(styles[-1], _ATTRIBUTES[token.type]))
            case "strong_close" | "em_close" | "s_close":
                styles.pop()
            case "link_open":
                styles.append(_both(styles[-1], sgr(colors, "md_link", UNDERLINE)))
                link_start, address = len(pieces), harmless(str(token.attrs.get("href", "")))
            case "link_close":
                styles.pop()
                pieces[link_start:] = _link(pieces[link_start:], address, hyperlinks=hyperlinks)
            case "image":
                alt = [Piece(harmless(token.content) or "image", _both(style, ITALIC))]
                pieces += _link(alt, harmless(str(token.attrs.get("src", ""))), hyperlinks=hyperlinks)
            case _:
                pieces.append(Piece(harmless(token.content), styles[-1]))
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
