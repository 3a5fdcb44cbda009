"""A small agent with a box to type in, as other vendors' agents have one. It counts what it is told.

Told `scream`, it prints ten megabytes first.
"""

from __future__ import annotations

import os
import re
import sys
import termios
import tty

BORDER = "─" * 60
MARKERS = re.compile(r"\x1b\[20[01]~|.\x08", re.DOTALL)
SCREAM = 10_000_000


def draw(said: list[str], typed: str) -> None:
    lines = [*said[-20:], BORDER, f"> {typed}", BORDER]
    sys.stdout.write("\x1b[H\x1b[2J" + "\r\n".join(lines))
    sys.stdout.flush()


def scream() -> None:
    line = "So much to say that \x1b[31mnobody\x1b[0m can read it, and more comes behind it\r\n"
    sys.stdout.write("\x1b[H\x1b[2J")
    for _ in range(SCREAM // (len(line) * 100)):
        sys.stdout.write(line * 100)
    sys.stdout.flush()


def main() -> None:
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    said, typed = ["Ready."], ""
    try:
        draw(said, typed)
        while data := os.read(terminal, 65536):
            typed = MARKERS.sub("", typed + data.decode())
            if typed.endswith("\r"):
                if typed.strip() == "scream":
                    scream()
                said += [f"> {typed.strip()}", f"It was said in {len(typed.strip())} letters."]
                typed = ""
            draw(said, typed)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
