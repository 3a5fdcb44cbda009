"""The plain command line as a face of extensions: where they print, how wide it is, and how they leave."""

from __future__ import annotations

import os
import sys

from ostler.extensions.face import Headless
from ostler.faces.cli.columns import printable
from ostler.faces.cli.own_output import own_output
from ostler.kernel.harness import Harness
from ostler.vocabulary.events import Printed


class CliFace(Headless):
    """Shows one session, and lets nobody type: what concerns an editor or themes is as without a face."""

    name = "cli"

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def size(self) -> tuple[int, int]:
        for stream in (own_output(), sys.stderr):
            if stream.isatty():
                columns, rows = os.get_terminal_size(stream.fileno())
                return columns, rows
        return 0, 0

    def exit(self) -> None:
        """Ends the run, or the one that is about to begin."""
        for session in getattr(self._harness.attendant, "sessions", {}).values():
            if session.session.harness is self._harness:
                session.session.cancel("an extension left")


def say_printed(printed: Printed) -> None:
    """On standard error, whatever it is: standard output is the answer's, or that of `--json`."""
    text, who = printable(printed.text), f"{printed.extension or 'ostler'}: "
    match printed.level:
        case "info":
            text = f"{who}{text}"
        case "error":
            text = f"{who}error: {text}"
        case "block":
            lines = [f"│ {line}".rstrip() for line in text.splitlines()]
            text = "\n".join([*lines, f"╰ {printable(printed.title)}".rstrip()])
    print(text, file=sys.stderr)
