"""A small agent with a box to type in, drawn as terminal agents draw theirs: run as a program by the tests.

It repeats what it is told, unless that is one of the words below. The answer comes at once, or after the
seconds that its argument says.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import tty

BORDER = "─" * 60
THINKING = "Thinking..."
ALIASES = re.compile(rb"\x1b\[200~|\x1b\[201~|.\x08", re.DOTALL)


class EchoAgent:
    def __init__(self, greeting: str) -> None:
        self.shown = [greeting]
        self.typed = b""
        self.is_thinking = False

    def draw(self) -> None:
        typed = self.typed.decode(errors="ignore").split("\n")
        box = [BORDER, f"> {typed[0]}", *[f"  {line}" for line in typed[1:]], BORDER]
        lines = [*self.shown, *([THINKING] if self.is_thinking else []), *box]
        say("\x1b[?2026h\x1b[2J\x1b[H" + "\r\n".join(lines) + "\x1b[?2026l")

    def live(self) -> None:
        say("\x1b[?2004h")
        self.draw()
        while keys := os.read(0, 65536):
            while is_in_paste(self.typed + keys):
                keys += os.read(0, 65536)
            self.take(keys)
            self.draw()

    def take(self, keys: bytes) -> None:
        if b"\x03" in keys:
            if self.is_thinking:
                self.shown.append("interrupted")
            self.is_thinking = False
            return
        *entered, self.typed = ALIASES.sub(b"", self.typed + keys).split(b"\r")
        for one in entered:
            self.answer(one.decode())

    def answer(self, text: str) -> None:
        self.shown += [f"> {line}" for line in text.split("\n")]
        word, _, rest = text.partition(" ")
        match word:
            case "/exit":
                sys.exit(int(rest))
            case "/crash":
                say("\r\nabout to crash")
                os.kill(os.getpid(), signal.SIGKILL)
            case "/think":
                self.is_thinking = True
            case "/size":
                size = os.get_terminal_size(0)
                self.shown.append(f"{size.columns}x{size.lines}")
            case "/flood":
                for number in range(int(rest) // 70_000 + 1):
                    say(f"{number:08} {'0123456789' * 6}\r\n" * 1000)
                self.shown = ["flooded"]
            case "/later":
                self.shown.append("first thoughts")
                self.draw()
                select.select([], [], [], float(rest))
                self.shown[-1] = "second thoughts"
            case "/ask":
                say("\x1b[6n")
                self.shown.append("position " + os.read(0, 100).decode().replace("\x1b", "ESC"))
            case _:
                self.shown += [f"you said: {line}" for line in text.split("\n")]


def is_in_paste(data: bytes) -> bool:
    return data.rfind(b"\x1b[200~") > data.rfind(b"\x1b[201~")


def say(text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]


def main(kind: type[EchoAgent] = EchoAgent) -> None:
    signal.signal(signal.SIGINT, lambda number, frame: sys.exit(0))
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        kind(sys.argv[1] if len(sys.argv) > 1 else "Hello, I repeat things.").live()
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)


if __name__ == "__main__":
    main()
