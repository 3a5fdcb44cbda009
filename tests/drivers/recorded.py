"""Screens recorded from the vendors' real programs, as files.

A file has the screen before the user wrote, what was written, the screen some time later, whether the agent
shows its input box on that, and the message that it amounts to. Long stretches of blank rows are counted.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

RECORDED = Path(__file__).parent / "recorded"
_PARTS = ("before", "user", "after", "ready", "message")
_BLANK_ROWS = re.compile(r"(?<=\n)\n{5,}")
_COUNTED = re.compile(r"(?<=\n)@blank (\d+)\n")


class Moment(msgspec.Struct, frozen=True):
    before: str
    user: str
    after: str
    ready: bool
    message: str


def written(moment: Moment) -> str:
    values = [moment.before, moment.user, moment.after, "yes" if moment.ready else "no", moment.message]
    return "".join(f"@{part}\n{_counted(value)}\n" for part, value in zip(_PARTS, values, strict=True))


def read(path: Path) -> Moment:
    text = _COUNTED.sub(lambda found: "\n" * int(found[1]), path.read_text())
    found = re.fullmatch("".join(f"@{part}\n(.*)\n" for part in _PARTS), text, re.DOTALL)
    assert found, f"{path.name} has not the parts {_PARTS}"
    before, user, after, ready, message = found.groups()
    return Moment(before, user, after, ready == "yes", message)


def _counted(text: str) -> str:
    rows = "\n".join(row.rstrip() for row in text.rstrip().split("\n"))
    return _BLANK_ROWS.sub(lambda found: f"@blank {len(found[0])}\n", rows)
