"""Sessions and what a search found, a line each: for a terminal, or whole and stable for a pipe."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ostler.faces.cli.columns import aligned, cut, cut_left, one_line, printable, width_of
from ostler.kernel.store import Hit, SessionSummary
from ostler.kernel.user_paths import home_folder

_SHORTEST_ID = 8
_FOLDER_WIDTH = 30
_NARROWEST_TEXT = 12
_UNITS = ((7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m"))


def rows(shown: Sequence[SessionSummary], known: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, age, status, title or first prompt, folder. `known` are all there are: ids are cut to be unique."""
    if not shown:
        return
    if not sys.stdout.isatty():
        yield from aligned(
            [
                (one.id, moment(one.updated_ms), one.status or "new", _text(one), printable(one.cwd))
                for one in shown
            ]
        )
        return
    width = shutil.get_terminal_size().columns
    short = short_ids([one.id for one in known])
    home, now = home_folder(), time.time()
    left = [(short[one.id], age(now - one.updated_ms / 1000), one.status or "new") for one in shown]
    folders = [cut_left(_under_home(printable(one.cwd), home), _FOLDER_WIDTH) for one in shown]
    taken = sum(max(map(width_of, column)) + 2 for column in (*zip(*left, strict=True), folders))
    room = max(_NARROWEST_TEXT, width - taken)
    texts = [cut(_text(one), room) for one in shown]
    table = [(*cells, text, folder) for cells, text, folder in zip(left, texts, folders, strict=True)]
    for line in aligned([("ID", "AGE", "STATUS", "SESSION", "FOLDER"), *table]):
        yield cut(line, width)


def hit_rows(hits: Sequence[Hit], known: Sequence[SessionSummary]) -> Iterator[str]:
    """Id, number of the message, and the words around what was found."""
    if not hits:
        return
    has_terminal = sys.stdout.isatty()
    short = short_ids([one.id for one in known])
    table = [
        (
            short.get(hit.session, hit.session) if has_terminal else hit.session,
            f"#{hit.seq}",
            one_line(hit.snippet),
        )
        for hit in hits
    ]
    for line in aligned(table):
        yield cut(line, shutil.get_terminal_size().columns) if has_terminal else line


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Of each id the shortest beginning that no other has."""
    short: dict[str, str] = {}
    ordered = sorted(ids)
    for before, one, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        alike = max(_alike(one, before), _alike(one, after))
        short[one] = one[: max(alike + 1, _SHORTEST_ID)]
    return short


def _alike(one: str, other: str) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _text(summary: SessionSummary) -> str:
    return one_line(summary.title or summary.preview) or "(no prompt)"


def age(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "now"


def moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _under_home(folder: str, home: Path | None) -> str:
    if home is not None and (folder == str(home) or folder.startswith(f"{home}/")):
        return f"~{folder.removeprefix(str(home))}"
    return folder
