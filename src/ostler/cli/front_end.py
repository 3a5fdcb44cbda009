"""The plain command line as extensions use it."""

from __future__ import annotations

import os
import sys

from ostler.app.console import real_stdout
from ostler.core.harness import Harness
from ostler.extensions.idle_host import active_host
from ostler.extensions.ui.front_end import Headless


class CliFrontEnd(Headless):
    """Shows one session, and lets nobody type: what concerns an editor or themes is as without a face."""

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
        """Ends the run, or the one that is about to begin."""
        host = active_host(self._harness)
        for session in host.sessions.values() if host else ():
            if session.session.harness is self._harness:
                session.session.cancel("an extension left")
