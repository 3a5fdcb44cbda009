"""The command line as a front end of extensions."""

from __future__ import annotations

import os
import sys

from ostler.app.console import real_stdout
from ostler.core.harness import Harness
from ostler.extensions.idle_host import active_host
from ostler.extensions.ui.front_end import Headless


class CliFrontEnd(Headless):
    """Prints one session, without input: editor and themes behave as without a front end."""

    name = "cli"

    def __init__(self, harness: Harness) -> None:
        self._harness = harness

    def size(self) -> tuple[int, int]:
        for stream in (real_stdout(), sys.stderr):
            if stream.isatty():
                columns, rows = os.get_terminal_size(stream.fileno())
                return columns, rows
        return 0, 0

    def exit(self) -> None:
        """Cancels the run, or the next one."""
        host = active_host(self._harness)
        for session in host.sessions.values() if host else ():
            if session.session.harness is self._harness:
                session.session.cancel("an extension left")
