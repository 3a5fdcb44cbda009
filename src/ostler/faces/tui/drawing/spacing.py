"""What stands between blocks: one blank row, where one ends or the next begins with one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def apart(blocks: Iterable[Sequence[str]], *, after_blank: bool) -> list[str]:
    """The rows of blocks one after the other; `after_blank` says how what stands before them ends."""
    rows: list[str] = []
    for block in blocks:
        is_double = block and not block[0] and (not rows[-1] if rows else after_blank)
        rows += block[1:] if is_double else block
    return rows
