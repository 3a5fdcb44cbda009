"""Which way of drawing pictures a terminal understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Images = Literal["auto", "kitty", "iterm2", "blocks", "off"]
Way = Literal["kitty", "iterm2", "blocks", ""]


def way_to_draw(wanted: Images, environment: Mapping[str, str]) -> Way:
    """Only what a terminal says of itself counts. tmux passes no pictures on, and VS Code draws none unless
    it is told to; who names a way gets it everywhere."""
    if wanted == "off" or (wanted == "blocks" and environment.get("NO_COLOR")):
        return ""
    if wanted != "auto":
        return wanted
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or term.startswith(("tmux", "screen", "dumb")) or program == "vscode":
        return ""
    if "kitty" in term or "ghostty" in term or program == "ghostty" or environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return ""
