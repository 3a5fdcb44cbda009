"""An agent that asks before it acts, drawn as the vendor named in its arguments draws it: run as a program.

`/write NAME` opens a dialog. Choosing a line that allows it writes the file NAME with that line. Text that is
pasted into a dialog has no effect, and Enter chooses what is marked, as in the vendors' own dialogs. With
`--trust` it begins with a dialog; `/again NAME` asks the same twice; `/odd` shows a dialog that nobody knows.
`/choices` shows a list that is none: it is part of an answer.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dialog_choices import CHOICES, REFUSALS
from echo_agent import ALIASES, BORDER, EchoAgent, main, say

PASTE = re.compile(rb"\x1b\[200~.*?\x1b\[201~", re.DOTALL)
KEYS = re.compile(rb"\x1b\[[A-D]|\x1bO[A-D]|\x1b|.", re.DOTALL)
PLAIN, SELECTED = "\x1b[48;2;30;30;30m", "\x1b[48;2;245;167;66m"


class DialogAgent(EchoAgent):
    def __init__(self, greeting: str) -> None:
        super().__init__(greeting)
        self.vendor = sys.argv[1]
        self.asks_for = "trust" if "--trust" in sys.argv else ""
        self.left = 1
        self.marked = 0
        self.letters = b""
        self.is_odd = False

    @property
    def choices(self) -> tuple[str, ...]:
        return CHOICES[self.vendor]

    # --- what it draws --------------------------------------------------------------------------------

    def draw(self) -> None:
        self.announce()
        if self.is_odd:
            self.show([*self.shown, "The moon is full.", "Press any key to howl."])
        elif self.asks_for:
            self.show([*self.shown, *getattr(self, f"{self.vendor}_dialog")()])
        else:
            self.show([*self.shown, *self.box()])

    def show(self, lines: list[str]) -> None:
        say("\x1b[?2026h\x1b[0m\x1b[2J\x1b[H" + "\r\n".join(lines) + "\x1b[?2026l")

    def announce(self) -> None:
        if self.vendor == "codex":
            state = "blocked:app=codex:kind=permission" if self.asks_for else "idle:app=codex"
            say(f"\x1b]7501;state={state}\x1b\\")
        elif self.vendor == "gemini":
            say(f"\x1b]0;{'✋  Action Required' if self.asks_for else '◇  Ready'} (orchard)\x07")
        elif self.vendor == "claude":
            say("\x1b]0;✳ Claude Code\x07")

    def box(self) -> list[str]:
        typed = self.typed.decode(errors="ignore").split("\n")
        if self.vendor == "codex":
            return [f"› {typed[0]}", *[f"  {line}" for line in typed[1:]], "", "  gpt-5 · ~/orchard"]
        if self.vendor == "opencode":
            return ["  ┃", f"  ┃  {typed[0]}", "  ┃", "  ┃  Build", "  ╹" + "▀" * 40, "  ctrl+p commands"]
        if self.vendor in ("aider", "amazonq"):
            return [BORDER, f"> {typed[0]}", *[f"> {line}" for line in typed[1:]]]
        return [BORDER, f"> {typed[0]}", *[f"  {line}" for line in typed[1:]], BORDER]

    def list_of(self, mark: str) -> list[str]:
        return [
            f"{mark if at == self.marked else ' '} {at + 1}. {choice}"
            for at, choice in enumerate(self.choices)
        ]

    def claude_dialog(self) -> list[str]:
        head = ["", BORDER, " Write file", "", f" {self.asks_for}", "╌" * 60, " Do you want to proceed?"]
        return [*head, *[f" {line}" for line in self.list_of("❯")], "", " Esc to cancel"]

    def codex_dialog(self) -> list[str]:
        head = ["", "", "", "  Would you like to run this?", "", f"  $ touch {self.asks_for}", ""]
        return [*head, *self.list_of("›"), "", "  Press enter to confirm or esc to cancel"]

    def gemini_dialog(self) -> list[str]:
        inside = [f"? Write {self.asks_for}", "Allow it?", "", *self.list_of("●")]
        return framed(inside)

    def cursor_dialog(self) -> list[str]:
        rows = [f" {'→' if at == self.marked else ' '} {one}" for at, one in enumerate(self.choices)]
        return [*framed([f"$ touch {self.asks_for}"]), *framed(["Run this command?", *rows])]

    def opencode_dialog(self) -> list[str]:
        buttons = [
            f"{SELECTED if at == self.marked else PLAIN} {choice} {PLAIN} "
            for at, choice in enumerate(self.choices)
        ]
        head = ["", "  ┃  △ Permission required", f"  ┃  $ touch {self.asks_for}", "  ┃"]
        return [*head, f"  ┃{PLAIN}  {''.join(buttons)} ⇆ select  enter con\x1b[0m", "  ┃"]

    def aider_dialog(self) -> list[str]:
        return ["", self.asks_for, f"Create new file? (Y)es/(N)o/(A)ll [Yes]: {self.letters.decode()}"]

    def amazonq_dialog(self) -> list[str]:
        return [f"Write {self.asks_for}", "Allow this action? [y/n/t]:", "", f"> {self.letters.decode()}"]

    # --- what it takes --------------------------------------------------------------------------------

    def take(self, keys: bytes) -> None:
        if self.is_odd:
            self.is_odd = False
            self.shown.append("howled")
            return
        if not self.asks_for:
            super().take(keys)
            return
        for key in KEYS.findall(PASTE.sub(b"", ALIASES.sub(b"", keys)) if b"\x1b[200~" in keys else keys):
            self.press(key)

    def press(self, key: bytes) -> None:
        if not self.asks_for:
            return
        if self.vendor in ("aider", "amazonq"):
            self.press_letter(key)
        elif key[-1:] in b"AD" and key[:1] == b"\x1b" and len(key) > 1:
            self.marked = (self.marked - 1) % len(self.choices)
        elif key[-1:] in b"BC" and key[:1] == b"\x1b" and len(key) > 1:
            self.marked = (self.marked + 1) % len(self.choices)
        elif key == b"\x1b":
            self.choose(next(one for one in self.choices if one.startswith(REFUSALS)))
        elif key == b"\r":
            self.choose(self.choices[self.marked])
        elif key.isdigit() and self.vendor != "cursor" and 0 < int(key) <= len(self.choices):
            self.choose(self.choices[int(key) - 1])

    def press_letter(self, key: bytes) -> None:
        if key == b"\x03":
            self.choose("No")
        elif key != b"\r":
            self.letters += key
        else:
            letter = self.letters.decode().lower() or self.choices[0][0].lower()
            found = [one for one in self.choices if one[0].lower() == letter]
            self.letters = b""
            if found:
                self.choose(found[0])

    def choose(self, choice: str) -> None:
        self.shown.append(f"chosen: {choice}")
        if not choice.startswith(REFUSALS):
            with Path(self.asks_for).open("a") as file:
                file.write(f"{choice}\n")
        self.left -= 1
        self.marked = 0
        if self.left <= 0:
            self.asks_for = ""

    def answer(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        if word in ("/write", "/again"):
            self.shown.append(f"> {text}")
            self.asks_for, self.marked, self.left = rest, 0, 2 if word == "/again" else 1
        elif word == "/odd":
            self.is_odd = True
        elif word == "/choices":
            self.shown += ["You could:", "❯ 1. Yes", "  2. No"]
        else:
            super().answer(text)


def framed(lines: list[str]) -> list[str]:
    width = 58
    return [f"┌{'─' * width}┐", *[f"│ {line:<{width - 1}}│" for line in lines], f"└{'─' * width}┘"]


if __name__ == "__main__":
    main(DialogAgent)
