"""Helpers to check rows of a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unicodedata import bidirectional, category

from rich.cells import cell_len

from ostler.extensions.ui.themes import SLOTS, ThemeColors
from ostler.history.items import CallItem, CallResult, CallStage
from ostler.schema.messages import Image, Text
from ostler.tui.render.spans import fitted, path_spans

_STYLES = re.compile("\x1b\\[[0-9;]*m|\x1b]8;;[!-~]*\x1b\\\\")

_OBEYED = ("Cc", "Cs", "Zl", "Zp")
_REORDERING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")

COLORS = ThemeColors("test", True, **{slot: f"#0000{number:02x}" for number, slot in enumerate(SLOTS, 1)})
"""Each slot can be told by its blue."""


def plain(rows: Sequence[str]) -> list[str]:
    """Without styles."""
    return [_STYLES.sub("", row) for row in rows]


def color_of(row: str, text: str) -> str:
    """The slot whose colour a text has in a row; empty if it has none."""
    match = re.search(rf"\x1b\[[0-9;]*?38;2;0;0;(\d+)[0-9;]*m[^\x1b]*{re.escape(text)}", row)
    return SLOTS[int(match[1]) - 1] if match else ""


def assert_drawable(rows: Sequence[str], width: int) -> None:
    """No row is too wide, but for a path in it; none leaves a style behind, or has anything else that a
    terminal would obey. What is drawn anew with each frame is made to fit."""
    for text in plain(rows):
        is_path = any(path_spans(text))
        assert cell_len(text) <= width or is_path, f"{text!r} takes {cell_len(text)} cells of {width}"
    _assert_harmless(rows)
    fitting = fitted(rows, width)
    for text in plain(fitting):
        is_single = cell_len(text) == 2 and width == 1  # a wide character cannot be broken
        assert cell_len(text) <= width or is_single, f"{text!r} takes {cell_len(text)} cells of {width}"
    _assert_harmless(fitting)
    assert "".join(plain(fitting)) == "".join(plain(rows))


def _assert_harmless(rows: Sequence[str]) -> None:
    for row, text in zip(rows, plain(rows), strict=True):
        obeyed = [one for one in text if category(one) in _OBEYED or bidirectional(one) in _REORDERING]
        assert not obeyed, f"{text!r} has {obeyed}"
        assert not row.count("\x1b[") % 2 and not re.search("\x1b\\[0m[^\x1b]*\x1b\\[0m", row), (
            f"{row!r} leaves a style"
        )


def call_item(
    name: str,
    stage: CallStage,
    arguments: dict[str, Any],
    tool_kind: str = "other",
    *,
    result: str = "",
    summary: str = "",
    images: tuple[Image, ...] = (),
) -> CallItem:
    """A call with this result."""
    content = (*([Text(result)] if result else []), *images)
    return CallItem(
        "call:c",
        call="c",
        name=name,
        stage=stage,
        arguments=arguments,
        tool_kind=tool_kind,
        result=CallResult(content=content, summary=summary),
    )
