"""The terminal face in a real pseudo-terminal, before the fake vendor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from ostler.testkit.vendors import FakeVendor
from tests.cli.command import Ostler, use
from tests.cli.conftest import ostler as ostler
from tests.cli.conftest import serve as serve
from tests.tui.terminal import Terminal

Open = Callable[..., Terminal]


@pytest.fixture
def open_tui(ostler: Ostler) -> Iterator[Open]:
    """`ostler` in a terminal of its own, until the end of the test."""
    with ExitStack() as stack:

        def start(
            vendor: FakeVendor,
            *arguments: str,
            columns: int = 80,
            rows: int = 24,
            before: str = "",
            program: Sequence[str | Path] = (Path(sys.executable).parent / "ostler",),
            **more: str,
        ) -> Terminal:
            command = [*program, *use(vendor), *arguments]
            if before:
                command = ["sh", "-c", f'{before}; exec "$@"', "sh", *command]
            environment = ostler.environment({"LANG": "C.UTF-8", "COLORTERM": "truecolor", **more})
            terminal = Terminal(command, environment=environment, cwd=ostler.work, columns=columns, rows=rows)
            return stack.enter_context(terminal)

        yield start
