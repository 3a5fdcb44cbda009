"""Panels in plain lines: what can be chosen has a number, and the line that is typed chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ostler.faces.tui.block_words import plain
from ostler.faces.tui.panels import Panel, Panels
from ostler.faces.tui.pickers.picker import Choice, Picker
from ostler.faces.tui.pickers.reading import ReadingPanel
from ostler.faces.tui.pickers.text_line import TextLine
from ostler.faces.tui.plain_questions import echo

PAGE = 20
"""Choices that are read out at once."""
_FEW = 8
"""Choices of which is also said what each would do."""


class PlainPanels(Panels):
    """`say` prints lines. What is open is said once; `take` gets the lines that are typed meanwhile."""

    def __init__(self, say: Callable[..., None]) -> None:
        super().__init__(self._look)
        self._say = say
        self._shown: Panel | None = None
        self._first = 0

    def _look(self) -> None:
        panel = self.present
        if isinstance(panel, ReadingPanel) and panel.note != "…":
            self._read_out(panel)
        if panel is self._shown:
            return
        self._shown = panel
        echo(not (isinstance(panel, TextLine) and panel.is_secret))
        self._first = 0
        match panel:
            case Picker():
                self._list(panel)
            case TextLine():
                self._say(f"{plain(panel.title)}:", "type it, or /cancel")

    def _read_out(self, panel: ReadingPanel) -> None:
        self._say(*plain(panel.text).splitlines(), f"({plain(panel.note)})")
        panel.note = "…"  # said
        asyncio.get_running_loop().call_soon(panel.key, "esc")

    def take(self, line: str) -> None:
        """A line that was typed while a panel is open."""
        panel = self.present
        if line == "/cancel":
            self.key("esc")
        elif isinstance(panel, Picker):
            self._choose(panel, line)
        else:
            for letter in line:
                self.key(letter)
            self.key("enter")

    # --- lists ----------------------------------------------------------------------------------------

    def _choose(self, picker: Picker, line: str) -> None:
        """By number, after the name of a key for what else can be done; or by what the choice is called."""
        word, _, number = line.rpartition(" ")
        choices = _choices(picker)
        named = [at for at, one in enumerate(choices) if one.text.strip().lower() == line.lower()]
        if number.isdecimal() and 0 < int(number) <= len(choices) and word in ("", *picker.keys):
            self._pick(picker, int(number) - 1, word or "enter")
        elif line in picker.keys and choices:
            self._pick(picker, 0, line)
        elif line in ("", "+"):
            self._first = self._first + PAGE if self._first + PAGE < len(choices) else 0
            self._list(picker)
        elif named:
            self._pick(picker, named[0], "enter")
        else:
            self._narrow(picker, line)

    def _pick(self, picker: Picker, place: int, key: str) -> None:
        picker.place = place
        self.key(key)

    def _narrow(self, picker: Picker, wanted: str) -> None:
        picker.key("ctrl+u")
        for letter in wanted:
            picker.key(letter)
        if not len(picker):
            self._say(f"error: nothing is called {wanted!r:.60}")
            picker.key("ctrl+u")
        self._first = 0
        self._list(picker)

    def _list(self, picker: Picker) -> None:
        choices = _choices(picker)
        lines = [f"choose: {plain(picker.title)}"]
        last = min(len(choices), self._first + PAGE)
        for at in range(self._first, last):
            lines.append(f"{at + 1}. {_in_words(choices[at], is_explained=len(choices) <= _FEW)}")
        if len(choices) > last:
            lines.append(f"and {len(choices) - last} more: an empty line goes on")
        ways = ["a number chooses", "words narrow the list", "/cancel goes back"]
        lines += [", ".join(ways), *(f"{key} and a number: {about}" for key, about in picker.keys.items())]
        self._say(*lines, "answer:")


def _choices(picker: Picker) -> list[Choice]:
    before, found = picker.place, []
    for place in range(len(picker)):
        picker.place = place
        if (choice := picker.present) is not None:
            found.append(choice)
    picker.place = before
    return found


def _in_words(choice: Choice, *, is_explained: bool) -> str:
    said = [choice.text.strip(), *choice.cells]
    said += [choice.about] if is_explained else []
    said += ["the present one"] if choice.is_present else []
    return ", ".join(" ".join(plain(one).split()) for one in said if one)
