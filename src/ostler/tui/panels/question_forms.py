"""A question with all that its panel needs."""
# MERGED: A text that is typed in a panel: what was being typed in the line stays there.
# MERGED: The fields of a form: what a JSON Schema wants, as something that a person can fill in.
# MERGED: Panels for what is typed: a text, and a form with its fields.

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from ostler.app.question_queue import QuestionQueue, is_secret_field
from ostler.core.json_schema import resolve_reference, schema_error
from ostler.core.lazy import lazy_module
from ostler.extensions.ui.themes import ThemeColors
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.render.boxes import NARROW, framed, inside
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import BOLD, DIM, REVERSE, Piece, Row, drawn, fitted, folded, sgr

if TYPE_CHECKING:
    from ostler.tui.panels import call_details
else:
    call_details = lazy_module("ostler.tui.panels.call_details")


class Asked(NamedTuple):
    questions: QuestionQueue
    event: QuestionAsked
    draw: ItemRenderer
    cwd: Path
    """Where the paths of a call begin."""
    who: Callable[[], str]
    """The child that asks; empty for the session itself."""

    @property
    def question(self) -> Question:
        return self.event.question

    @property
    def details(self) -> dict[str, Any]:
        return self.question.details or {}

    @property
    def colors(self) -> ThemeColors | None:
        return self.draw.colors

    def framed(self, rows: Sequence[str], width: int) -> list[str]:
        behind = self.questions.behind
        return framed(
            rows,
            width,
            self.colors,
            title="?",
            about=" · ".join(one for one in (self.event.asked_by, self.who()) if one),
            note=f"{behind} more" if behind else "",
            slot="warning",
        )


def room_inside(width: int, most: int) -> int:
    """Rows inside of the frame."""
    return max(2, most - (1 if width <= NARROW else 2))


_SHOWN = str.maketrans({"\n": "⏎", "\t": " "})


class TextField:
    """With a cursor, and the keys of a line. A secret is seen as dots only."""

    def __init__(self, text: str = "", *, placeholder: str = "", is_secret: bool = False) -> None:
        self._before, self._after = text, ""
        self._placeholder = one_line(placeholder)
        self._is_secret = is_secret

    @property
    def text(self) -> str:
        return self._before + self._after

    def row(self, width: int, colors: ThemeColors | None, *, is_active: bool = True) -> Row:
        """What is around the cursor, as far as there is room."""
        if not self.text and self._placeholder:
            rest = Piece(cut(self._placeholder[1:], width - 1), sgr(colors, "very_muted") or DIM)
            return [Piece(self._placeholder[0], REVERSE if is_active else rest.style), rest]
        before, after = self._shown(self._before), self._shown(self._after)
        if not is_active:
            return [Piece(cut(before + after, width))]
        before = before[-width:]
        while cells(before) > max(0, width - 2):
            before = before[1:]
        under = after[:1] or " "
        return [
            Piece(before),
            Piece(under, REVERSE),
            Piece(cut(after[1:], width - cells(before) - cells(under))),
        ]

    def _shown(self, text: str) -> str:
        return "•" * len(text) if self._is_secret else printable(text.translate(_SHOWN))

    def key(self, key: str) -> bool:
        """Whether it was one for a text."""
        match key:
            case "backspace":
                self._before = self._before[:-1]
            case "delete":
                self._after = self._after[1:]
            case "left":
                self._before, self._after = self._before[:-1], self._before[-1:] + self._after
            case "right":
                self._before, self._after = self._before + self._after[:1], self._after[1:]
            case "home" | "ctrl+a":
                self._before, self._after = "", self.text
            case "end" | "ctrl+e":
                self._before, self._after = self.text, ""
            case "ctrl+u":
                self._before = ""
            case "ctrl+k":
                self._after = ""
            case "ctrl+w":
                self._before = self._before.rstrip().rpartition(" ")[0]
            case _ if len(key) == 1 and (key.isprintable() or key in "\n\t"):
                self._before += key
            case _:
                return False
        return True


Kind = Literal["text", "integer", "number", "words", "json", "choice", "many"]


class Wrong(ValueError):
    """What is wrong with what was filled in."""


class Field:
    """One of them. `name` is empty for a form that wants a single value."""

    def __init__(
        self, name: str, schema: dict[str, Any], whole: dict[str, Any], *, is_needed: bool, is_secret: bool
    ) -> None:
        self.name = name
        self.title = one_line(str(schema.get("title") or name or "answer"))
        self.about = one_line(str(schema.get("description", "")))
        self.is_needed = is_needed
        self._schema, self._whole = schema, whole
        self.options = _options(schema, whole)
        self.kind = _kind(schema, self.options)
        is_secret = is_secret or is_secret_field(schema)
        default = schema.get("default")
        self._at = 0
        """The option that is chosen, or where among many options the mark is."""
        self._is_set = is_needed or default is not None
        self._chosen: set[int] = set()
        if self.kind == "choice":
            self._at = self.options.index(default) if default in self.options else 0
        elif self.kind == "many" and isinstance(default, list):
            self._chosen = {place for place, one in enumerate(self.options) if one in default}
        self.text = TextField("" if default is None else _typed(self.kind, default), is_secret=is_secret)

    # --- what is filled in ----------------------------------------------------------------------------

    def value(self) -> Any:
        """`msgspec.UNSET` if it was left out; raises `Wrong`."""
        if self.kind == "choice":
            value = self.options[self._at] if self._is_set else msgspec.UNSET
        elif self.kind == "many":
            value = [one for place, one in enumerate(self.options) if place in self._chosen]
        else:
            value = self._read(self.text.text)
        if value is msgspec.UNSET:
            if self.is_needed:
                raise Wrong("it is needed")
            return value
        if problem := schema_error(value, self._schema, self._whole, where="it"):
            raise Wrong(problem)
        return value

    def _read(self, text: str) -> Any:
        takes_none = (
            self.kind == "text" and self.is_needed and not schema_error("", self._schema, self._whole)
        )
        if not text.strip() and not takes_none:
            return msgspec.UNSET
        match self.kind:
            case "text":
                return text
            case "words":
                return [word.strip() for word in text.split(",") if word.strip()]
            case "integer" | "number":
                try:
                    return int(text) if self.kind == "integer" else float(text)
                except ValueError:
                    raise Wrong(f"it is not a{'n' if self.kind == 'integer' else ''} {self.kind}") from None
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise Wrong(f"it is not JSON: {error}") from None

    def key(self, key: str) -> None:
        if self.kind == "choice" and key in ("left", "right", " "):
            by = -1 if key == "left" else 1
            places = len(self.options) + (not self.is_needed)  # or nothing, where it may be left out
            at = (self._at if self._is_set else len(self.options)) + by
            self._at, self._is_set = at % places % max(1, len(self.options)), at % places < len(self.options)
        elif self.kind == "many":
            if key in ("left", "right"):
                self._at = (self._at + (1 if key == "right" else -1)) % max(1, len(self.options))
            elif key == " ":
                self._chosen ^= {self._at}
        elif self.kind != "choice":
            self.text.key(key)

    # --- what is seen ---------------------------------------------------------------------------------

    @property
    def hint(self) -> str:
        how = {
            "choice": "← → chooses",
            "many": "← → moves, space marks",
            "words": "several with commas between them",
            "json": "as JSON",
            "integer": "a whole number",
            "number": "a number",
        }.get(self.kind, "")
        return " · ".join(one for one in (self.about, how) if one)

    def row(self, width: int, colors: ThemeColors | None, *, is_active: bool) -> Row:
        if self.kind not in ("choice", "many"):
            return self.text.row(width, colors, is_active=is_active)
        strong = sgr(colors, "accent", BOLD) if is_active else BOLD
        row: Row = []
        for place, option in enumerate(self.options):
            said = one_line(_said(option))
            if self.kind == "choice":
                is_chosen = self._is_set and place == self._at
                row.append(Piece(f"({'•' if is_chosen else ' '}) {said}  ", strong if is_chosen else ""))
            else:
                mark = "x" if place in self._chosen else " "
                here = is_active and place == self._at
                row.append(Piece(f"[{mark}] {said}  ", strong if here else ""))
        if sum(len(piece.text) for piece in row) <= width or not self.options:
            return row
        shown = row[self._at] if self._is_set or self.kind == "many" else Piece("(none)  ", DIM)
        return [shown._replace(text=cut(f"{shown.text.rstrip()} ({self._at + 1} of {len(row)})", width))]


def fields_of(form: dict[str, Any], *, is_secret: bool) -> list[Field]:
    properties = form.get("properties")
    if not isinstance(properties, dict) or not properties:
        return [Field("", form, form, is_needed=True, is_secret=is_secret)]
    needed = form.get("required", ())
    return [
        Field(name, _resolved(schema, form), form, is_needed=name in needed, is_secret=is_secret)
        for name, schema in properties.items()
    ]


def _resolved(schema: Any, whole: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}
    found = resolve_reference(schema["$ref"], whole) if "$ref" in schema else schema
    return {**found, **schema} if isinstance(found, dict) else schema


def _options(schema: dict[str, Any], whole: dict[str, Any]) -> list[Any]:
    """What can be chosen from; empty if a person types it."""
    if isinstance(schema.get("enum"), list):
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    if schema.get("type") == "boolean":
        return [True, False]
    forms = schema.get("oneOf") or schema.get("anyOf") or ()
    if forms and all(isinstance(one, dict) and "const" in one for one in forms):
        return [one["const"] for one in forms]
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, dict):
        return _options(_resolved(items, whole), whole)
    return []


def _kind(schema: dict[str, Any], options: list[Any]) -> Kind:
    wanted = schema.get("type")
    if options:
        return "many" if wanted == "array" else "choice"
    if wanted == "array":
        items = schema.get("items")
        return "words" if isinstance(items, dict) and items.get("type") == "string" else "json"
    if wanted in ("integer", "number"):
        return "integer" if wanted == "integer" else "number"
    return "text" if wanted == "string" else "json"


def _typed(kind: Kind, value: Any) -> str:
    if kind == "words" and isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) and kind != "json" else msgspec.json.encode(value).decode()


def _said(option: Any) -> str:
    if isinstance(option, bool):
        return "yes" if option else "no"
    return option if isinstance(option, str) else msgspec.json.encode(option).decode()


_MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}


class _Typed:
    """What is asked, rows to fill in, and a line that says how."""

    takes_text = True

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._planned = call_details.CallDetails(asked.details, asked.cwd)

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
        self._problem = schema_error(given, self._form)
        if not self._problem:
            self.asked.questions.type(msgspec.json.encode(given).decode())
