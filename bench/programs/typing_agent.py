"""A small terminal agent with an input box, like those of other vendors. It counts the letters of a prompt.

For the prompt `flood` it prints ten megabytes first.
"""

from __future__ import annotations

import os
import re
import sys
import termios
import tty

BORDER = "─" * 60
MARKERS = re.compile(r"\x1b\[20[01]~|.\x08", re.DOTALL)
FLOOD = 10_000_000


def draw(transcript: list[str], typed: str) -> None:
    lines = [*transcript[-20:], BORDER, f"> {typed}", BORDER]
    sys.stdout.write("\x1b[H\x1b[2J" + "\r\n".join(lines))
    sys.stdout.flush()


def flood() -> None:
    line = "This agent prints \x1b[31mfaster\x1b[0m than anyone can read, and more follows\r\n"
    sys.stdout.write("\x1b[H\x1b[2J")
    for _ in range(FLOOD // (len(line) * 100)):
        sys.stdout.write(line * 100)
    sys.stdout.flush()


def main() -> None:
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    transcript, typed = ["Ready."], ""
    try:
        draw(transcript, typed)
        while data := os.read(terminal, 65536):
            typed = MARKERS.sub("", typed + data.decode())
            if typed.endswith("\r"):
                if typed.strip() == "flood":
                    flood()
                transcript += [f"> {typed.strip()}", f"Your prompt has {len(typed.strip())} letters."]
                typed = ""
            draw(transcript, typed)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
