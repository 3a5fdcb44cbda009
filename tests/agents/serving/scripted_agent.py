"""A small agent that says what a script has: run as a program, in a terminal whose lines the kernel edits.

The script is a JSON file: a list of turns with `expects`, `thinks` (seconds) and `says`. A turn that expects
nothing is said unasked; a message that is not expected ends the agent with 1. After the last turn it idles.
"""

from __future__ import annotations

import json
import re
import select
import signal
import sys
import termios
from pathlib import Path

SPINNER = "|/-\\"
ALIASES = re.compile(r"\x1b\[\d+~|\x1b\[[0-9;?]*[A-Za-z]|.\x08", re.DOTALL)


def draw(history: list[str], below: str) -> None:
    print("\x1b[2J\x1b[H" + "\n".join([*history, below]), end="", flush=True)


def think(history: list[str], seconds: float) -> None:
    draw(history, "Thinking... ")
    for step in range(round(seconds / 0.05)):
        select.select([], [], [], 0.05)
        print(f"\rThinking... {SPINNER[step % 4]}", end="", flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
    turns = json.loads(Path(sys.argv[1]).read_text())
    history: list[str] = []
    for turn in turns:
        if expected := turn.get("expects", ""):
            draw(history, "> ")
            said = ALIASES.sub("", input()).strip()
            if said != expected:
                draw(history, f"expected {expected!r}, not {said!r}\n")
                sys.exit(1)
            history.append(f"> {said}")
        if seconds := turn.get("thinks", 0):
            think(history, seconds)
        termios.tcflush(0, termios.TCIFLUSH)
        history.append(turn["says"])
    draw(history, "> ")
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
