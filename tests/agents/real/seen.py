"""What was seen of a real program: its row in the documentation, and its screens for the quick tests.

`make real-agents-seen` writes both anew.
"""

from __future__ import annotations

import fcntl
import os
import re
from datetime import date
from pathlib import Path

from tests.agents.real.programs import PROGRAMS, Program
from tests.drivers.recorded import RECORDED, Moment, written
from tests.support.paths import DOCS

STEPS = (
    "first screen",
    "prompt",
    "second prompt",
    "multi-line prompt",
    "tool confirmation",
    "interrupt",
    "exit",
)
TABLE = DOCS / "terminal-agents.md"
IS_RENEWED = bool(os.environ.get("OSTLER_RENEW_SCREENS"))
_BEGIN, _END = "<!-- seen:begin -->\n", "<!-- seen:end -->"
_ROW = re.compile(r"^\| `(\S+)` (.*) \|$", re.MULTILINE)


def rows() -> dict[str, list[str]]:
    """Of each package: version, the outcomes of the steps, and the day."""
    _, table, _ = _parts(TABLE.read_text())
    return {package: rest.strip("| ").split(" | ") for package, rest in _ROW.findall(table)}


def renew_row(program: Program, outcomes: dict[str, str]) -> None:
    with TABLE.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # programs are tested beside each other
        before, table, after = _parts(file.read())
        known = dict(_ROW.findall(table))
        cells = [program.version, *(outcomes[step] for step in STEPS), date.today().isoformat()]
        known[program.package] = "| " + " | ".join(cells)
        made = [f"| `{one.package}` {known[one.package]} |" for one in PROGRAMS if one.package in known]
        file.seek(0)
        file.truncate()
        head = table[: table.index("|---")] + "|---" * (len(STEPS) + 3) + "|\n"
        file.write(before + head + "\n".join(made) + "\n" + after)


def _parts(page: str) -> tuple[str, str, str]:
    begin, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    return page[:begin], page[begin:end], page[end:]


def record(agent_type: str, name: str, moment: Moment, home: Path) -> None:
    folder = RECORDED / agent_type
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(written(moment).replace(str(home), "/home/gardener"))
