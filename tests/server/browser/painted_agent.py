"""An agent with a coloured screen, for pictures of the page: run as a program by the tests.

Its first answer is always the same; then it repeats what it is told. `/work` keeps it busy until it is
stopped.
"""

from __future__ import annotations

import itertools
import os
import re
import select
import termios
import tty

WIDTH = 78
ACCENT, DIM, GREEN, RED, BOLD, PLAIN = (
    "\x1b[38;5;173m",
    "\x1b[2m",
    "\x1b[32m",
    "\x1b[31m",
    "\x1b[1m",
    "\x1b[0m",
)
WELCOME = f"""\
{ACCENT}╭──────────────────────────────────────────────╮
│ ✻ {PLAIN}{BOLD}Farrier{PLAIN}{ACCENT}                                    │
│   {PLAIN}{DIM}in ~/stable, with a small model{PLAIN}{ACCENT}            │
╰──────────────────────────────────────────────╯{PLAIN}
"""
ANSWERS = [
    f"""\
{GREEN}●{PLAIN} {BOLD}Read{PLAIN}(longest.py)
  {DIM}└  Read 8 lines{PLAIN}

{GREEN}●{PLAIN} {BOLD}Update{PLAIN}(longest.py)
  {DIM}└  Updated longest.py with 1 addition and 1 removal{PLAIN}
     5       for word in words:
     6 {RED}-         if len(word) >= len(best):{PLAIN}
     6 {GREEN}+         if len(word) > len(best):{PLAIN}
     7               best = word

{GREEN}●{PLAIN} {BOLD}Bash{PLAIN}(python3 -B check.py)
  {DIM}└  3 checks passed{PLAIN}

{GREEN}●{PLAIN} The first of equals wins now: the comparison took every word that was as
  long as the best so far, so the last one stayed.""",
]
STOP = {0x1B, 0x03}
PASTE = re.compile(rb"\x1b\[20[01]~|.\x08|\x1b\[[A-D]", re.DOTALL)


def draw(shown: list[str], typed: str) -> None:
    line = f"{DIM}{'─' * WIDTH}{PLAIN}"
    screen = "\n".join([WELCOME, *shown, line, f"> {typed}", line, f"{DIM}  ? for shortcuts{PLAIN}"])
    up = f"\x1b[2A\x1b[{len(typed) + 3}G"
    written = f"\x1b[?2026h\x1b[H\x1b[2J{screen}{up}\x1b[?2026l".replace("\n", "\r\n")
    data = written.encode()
    while data:
        data = data[os.write(1, data) :]


def work(shown: list[str]) -> None:
    for turn in itertools.count():
        draw([*shown, f"{ACCENT}{'◐◓◑◒'[turn % 4]} Working… {turn}{PLAIN}", ""], "")
        if select.select([0], [], [], 0.05)[0] and STOP & set(os.read(0, 65536)):
            return


def main() -> None:
    before = termios.tcgetattr(0)
    tty.setraw(0)
    shown: list[str] = []
    typed = b""
    answers = iter(ANSWERS)
    try:
        os.write(1, b"\x1b[?2004h")
        while True:
            draw(shown, typed.decode(errors="ignore"))
            keys = os.read(0, 65536)
            if not keys or b"\x03" in keys:
                return
            *entered, typed = PASTE.sub(b"", typed + keys).split(b"\r")
            for one in entered:
                text = one.decode()
                if text == "/work":
                    work(shown)
                    shown += [f"{RED}●{PLAIN} Stopped.", ""]
                    continue
                shown += [f"{DIM}>{PLAIN} {text}", "", next(answers, f"{GREEN}●{PLAIN} {text}"), ""]
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


if __name__ == "__main__":
    main()
