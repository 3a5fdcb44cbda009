"""Panels for what is typed: a text, and a form with its fields."""

from __future__ import annotations

from typing import Any

import msgspec

from ostler.faces.tui.asking.asked import Asked, room_inside
from ostler.faces.tui.asking.form_fields import Wrong, fields_of
from ostler.faces.tui.asking.planned_call import PlannedCall
from ostler.faces.tui.asking.text_field import TextField
from ostler.faces.tui.drawing.boxes import inside
from ostler.faces.tui.drawing.folding import folded
from ostler.faces.tui.drawing.markdown import markdown_rows
from ostler.faces.tui.drawing.pieces import BOLD, DIM, Piece, Row, cut, drawn, one_line, sgr
from ostler.faces.tui.drawing.wide_rows import fitted
from ostler.kernel.json_schema import mismatch

_MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}


class _Typed:
    """What is asked, rows to fill in, and a line that says how."""

    takes_text = True

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._planned = PlannedCall(asked.details, asked.cwd)

    def takes(self, key: str) -> bool:
        return True

    def rows(self, width: int, most: int) -> list[str]:
        room, height = inside(width), room_inside(width, most)
        below = self.below(room, max(1, height - 2))
        question = self.asked.question
        about = fitted(markdown_rows(question.text, room, self.asked.colors), room)
        if question.reason:
            about.append(self.dim(f"({question.reason})", room))
        about += self._planned.rows(room, self.asked.colors)
        about = folded(about, max(1, height - len(below)), room, self.asked.colors)
        return self.asked.framed([*about, *below][-height:], width)

    def below(self, room: int, most: int) -> list[str]:
        raise NotImplementedError

    def dim(self, text: str, room: int) -> str:
        return drawn([Piece(cut(one_line(text), room), sgr(self.asked.colors, "muted") or DIM)])


class TextPanel(_Typed):
    """A text. A secret one is not seen, and nowhere kept."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._field = TextField(is_secret=self.asked.question.secret)

    def below(self, room: int, most: int) -> list[str]:
        unseen = "; it is not shown, and not kept" if self.asked.question.secret else ""
        row: Row = [Piece("› "), *self._field.row(room - 2, self.asked.colors)]
        return [drawn(row), self.dim(f"enter answers, esc declines{unseen}", room)]

    def key(self, key: str) -> None:
        if key == "esc":
            self.asked.questions.decline()
        elif key == "enter" and self._field.text.strip():
            self.asked.questions.type(self._field.text)
        elif key != "enter":
            self._field.key(key)


class FormPanel(_Typed):
    """Fields, one below the other. What does not fit is said beside its field."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._form = self.asked.question.form or {}
        self._fields = fields_of(self._form, is_secret=self.asked.question.secret)
        self._at = 0
        self._problem = ""

    def below(self, room: int, most: int) -> list[str]:
        colors = self.asked.colors
        most = max(1, most - 2)
        first = max(0, min(self._at - most // 2, len(self._fields) - most))
        names = [f"{field.title}{'*' if field.is_needed else ''}" for field in self._fields]
        wide = min(max(map(len, names)), room // 3)
        rows = []
        for place in range(first, min(len(self._fields), first + most)):
            is_active = place == self._at
            style = sgr(colors, "accent", BOLD) if is_active else ""
            lead = f"{'❯' if is_active else ' '} {cut(names[place], wide):<{wide}}  "
            field = self._fields[place].row(room - len(lead), colors, is_active=is_active)
            rows.append(drawn([Piece(lead, style), *field]))
        hint = self._fields[self._at].hint
        if self._problem:
            rows.append(drawn([Piece(cut(f"✗ {self._problem}", room), sgr(colors, "error", BOLD))]))
        elif hint:
            rows.append(self.dim(f"  {hint}", room))
        last = "sends it" if self._at == len(self._fields) - 1 else "goes on"
        at = f"{self._at + 1} of {len(self._fields)} · " if len(self._fields) > 1 else ""
        return [*rows, self.dim(f"{at}enter {last}, ctrl+s sends it, esc declines · * is needed", room)]

    def key(self, key: str) -> None:
        if key == "esc":
            self.asked.questions.decline()
        elif key == "ctrl+s" or (key == "enter" and self._at == len(self._fields) - 1):
            self._send()
        elif key == "enter":
            self._problem = self._wrong(self._at)
            self._at += not self._problem
        elif key in _MOVES:
            self._problem = ""
            self._at = (self._at + _MOVES[key]) % len(self._fields)
        else:
            self._problem = ""
            self._fields[self._at].key(key)

    def _wrong(self, place: int) -> str:
        try:
            self._fields[place].value()
        except Wrong as wrong:
            return f"{self._fields[place].title}: {wrong}"
        return ""

    def _send(self) -> None:
        for place in range(len(self._fields)):
            if problem := self._wrong(place):
                self._at, self._problem = place, problem
                return
        values = {field.name: field.value() for field in self._fields}
        given: Any = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        if list(values) == [""]:
            given = values[""]
        self._problem = mismatch(given, self._form)
        if not self._problem:
            self.asked.questions.type(msgspec.json.encode(given).decode())
