"""What was seen of a real program: its row in the documentation, and its screens for the quick tests.

`make real-agents-seen` writes both anew.
"""

from __future__ import annotations

import fcntl
import os
import re
from datetime import date
from pathlib import Path

from tests.real_agents.programs import PROGRAMS, Program
from tests.terminals.recorded import RECORDED, Moment, written

STEPS = (
    "first screen",
    "prompt",
    "second prompt",
    "multi-line prompt",
    "tool confirmation",
    "interrupt",
    "exit",
)
TABLE = Path(__file__).parents[2] / "docs" / "terminal-agents-tested.md"
IS_RENEWED = bool(os.environ.get("OSTLER_RENEW_SCREENS"))
_ROW = re.compile(r"^\| `(\S+)` (.*) \|$", re.MULTILINE)


def rows() -> dict[str, list[str]]:
    """Of each package: version, the outcomes of the steps, and the day."""
    return {package: rest.strip("| ").split(" | ") for package, rest in _ROW.findall(TABLE.read_text())}


def renew_row(program: Program, outcomes: dict[str, str]) -> None:
    with TABLE.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # programs are tested beside each other
        page = file.read()
        known = dict(_ROW.findall(page))
        cells = [program.version, *(outcomes[step] for step in STEPS), date.today().isoformat()]
        known[program.package] = "| " + " | ".join(cells)
        made = [f"| `{one.package}` {known[one.package]} |" for one in PROGRAMS if one.package in known]
        file.seek(0)
        file.truncate()
        file.write(page[: page.index("|---")] + "|---" * (len(STEPS) + 3) + "|\n" + "\n".join(made) + "\n")


def record(agent_type: str, name: str, moment: Moment, home: Path) -> None:
    folder = RECORDED / agent_type
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(written(moment).replace(str(home), "/home/gardener"))
