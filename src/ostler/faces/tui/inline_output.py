"""The terminal as something is drawn into that shares it with what stands above."""

from __future__ import annotations

from prompt_toolkit.output.vt100 import Vt100_Output


class InlineOutput(Vt100_Output):
    """Erases so that nothing is kept of what is erased."""

    def erase_down(self) -> None:
        """From the beginning of a row, where the toolkit stands. tmux takes erasing from its first cell
        for clearing the screen, and puts what was there into its history: so not from that cell."""
        self.write_raw("\x1b[K\x1b[C\x1b[J\x1b[D")
