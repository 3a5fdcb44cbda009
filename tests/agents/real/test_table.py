"""The table in the documentation is about the programs as they are pinned."""

from __future__ import annotations

from tests.agents.real.programs import PROGRAMS
from tests.agents.real.seen import STEPS, rows
from tests.drivers.recorded import RECORDED


def test_every_program_was_seen_in_the_version_that_is_pinned() -> None:
    seen = rows()
    assert {package: row[0] for package, row in seen.items()} == {
        program.package: program.version for program in PROGRAMS
    }
    assert all(len(row) == len(STEPS) + 2 for row in seen.values())


def test_there_are_screens_of_every_program() -> None:
    assert {folder.name for folder in RECORDED.iterdir()} == {program.agent_type for program in PROGRAMS}
