"""What a question's panel shows when the answer is typed: a text, or a form made from a JSON Schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from ostler.app.question_queue import DECLINED, is_secret_field
from ostler.core.json_schema import resolve_reference, schema_error
from ostler.core.questions import answer_problem
from ostler.extensions.ui.themes import ThemeColors
from ostler.extensions.ui.types import Dialog, InputDialog
from ostler.schema.outcomes import Question
from ostler.schema.text import cells, cut, one_line, printable
from ostler.tui.panels.call_details import CallDetails
from ostler.tui.render.items import ItemRenderer
from ostler.tui.render.markdown import markdown_rows
from ostler.tui.render.spans import BOLD, DIM, REVERSE, Piece, Row, drawn, fitted, folded, muted_row, sgr

PENDING = object()
"""What `QuestionBody.key` returns for a key that does not answer."""

_DIALOG_TEXT = 8
"""Rows of the text of an extension's dialog, at most."""


class QuestionBody:
    """The rows and keys inside a question's panel, a class for each kind of answer. Escape declines."""

    takes_pastes = False
    """Whether a pasted text goes into the panel."""

    hint = ""
    """What is shown in place of the legend, while keys are for the input line."""

    def __init__(
        self, question: Question, dialog: Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        """`dialog` is how an extension wants it drawn; paths of a call begin in `cwd`, if they are here."""
        self.question = question
        self.dialog = dialog
        self.call = CallDetails(question.details or {}, cwd)
        self._draw = draw

    @property
    def colors(self) -> ThemeColors | None:
        return self._draw.colors

    def takes(self, key: str) -> bool:
        """Whether a key that types nothing is for the panel."""
        return True

    def key(self, key: str) -> Any:
        """The answer that a key gives; else `PENDING`."""
        raise NotImplementedError

    def escape(self) -> Any:
        return DECLINED

    def leave(self) -> None:
        """Keys go elsewhere from now on."""

    @property
    def legend(self) -> str:
        """Which keys count."""
        return f"enter answers, esc {'cancels' if self.dialog else 'declines'}"

    def rows(self, room: int, most: int) -> list[str]:
        """The text of the question, and below it what can be filled in; no more rows than `most`."""
        below = [*self.fields(room, max(1, most - 3)), self.legend_row(room)]
        about = fitted(markdown_rows(self.question.text, room, self.colors), room)
        if self.question.reason:
            about.append(self.dim(f"({self.question.reason})", room))
        about += self.call.rows(room, self.colors)
        about_most = max(1, most - len(below))
        about = folded(about, min(about_most, _DIALOG_TEXT) if self.dialog else about_most, room, self.colors)
        return [*about, *below][-most:]

    def fields(self, room: int, most: int) -> list[str]:
        raise NotImplementedError

    def dim(self, text: str, room: int) -> str:
        return muted_row(one_line(text), room, self.colors)

    def legend_row(self, room: int) -> str:
        """Which keys count, or where else they go."""
        if not self.hint:
            return self.dim(self.legend, room)
        return drawn([Piece(cut(self.hint, room), sgr(self.colors, "warning") or DIM)])


_VISIBLE = str.maketrans({"\n": "⏎", "\t": " "})


class TextField:
    """One line of text with a cursor. A secret appears as dots."""

    def __init__(self, text: str = "", *, placeholder: str = "", is_secret: bool = False) -> None:
        self._before, self._after = text, ""
        self._placeholder = one_line(placeholder)
        self._is_secret = is_secret

    @property
    def text(self) -> str:
        return self._before + self._after

    def row(self, width: int, colors: ThemeColors | None, *, is_active: bool = True) -> Row:
        """The part around the cursor that fits."""
        if not self.text and self._placeholder:
            style = sgr(colors, "very_muted") or DIM
            first = Piece(self._placeholder[0], REVERSE if is_active else style)
            return [first, Piece(cut(self._placeholder[1:], width - 1), style)]
        before, after = self._visible(self._before), self._visible(self._after)
        if not is_active:
            return [Piece(cut(before + after, width))]
        before = before[-width:]
        while cells(before) > max(0, width - 2):
            before = before[1:]
        under = after[:1] or " "
        room = width - cells(before) - cells(under)
        return [Piece(before), Piece(under, REVERSE), Piece(cut(after[1:], room))]

    def _visible(self, text: str) -> str:
        return "•" * len(text) if self._is_secret else printable(text.translate(_VISIBLE))

    def key(self, key: str) -> bool:
        """Whether the key edits a text."""
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


class FieldError(ValueError):
    """Why the text of a field is no value for it."""


class Field:
    """One field of a form. `name` is empty for a form that wants a single value."""

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
        """The chosen option; of many options, the one at the cursor."""
        self._is_set = is_needed or default is not None
        self._chosen: set[int] = set()
        if self.kind == "choice":
            self._at = self.options.index(default) if default in self.options else 0
        elif self.kind == "many" and isinstance(default, list):
            self._chosen = {place for place, one in enumerate(self.options) if one in default}
        self.text = TextField("" if default is None else _text_of(self.kind, default), is_secret=is_secret)

    # --- its value --------------------------------------------------------------------------------------

    def value(self) -> Any:
        """`msgspec.UNSET` if it is left out; raises `FieldError`."""
        if self.kind == "choice":
            value = self.options[self._at] if self._is_set else msgspec.UNSET
        elif self.kind == "many":
            value = [one for place, one in enumerate(self.options) if place in self._chosen]
        else:
            value = self._read(self.text.text)
        if value is msgspec.UNSET:
            if self.is_needed:
                raise FieldError("it is required")
            return value
        if problem := schema_error(value, self._schema, self._whole, where="it"):
            raise FieldError(problem)
        return value

    def _read(self, text: str) -> Any:
        takes_empty = self.kind == "text" and self.is_needed
        if not text.strip() and (not takes_empty or schema_error("", self._schema, self._whole)):
            return msgspec.UNSET
        try:
            match self.kind:
                case "text":
                    return text
                case "words":
                    return [word.strip() for word in text.split(",") if word.strip()]
                case "integer":
                    return int(text)
                case "number":
                    return float(text)
                case _:
                    return msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise FieldError(f"it is not JSON: {error}") from None
        except ValueError:
            raise FieldError(f"it is not {'an integer' if self.kind == 'integer' else 'a number'}") from None

    def key(self, key: str) -> None:
        if self.kind == "choice" and key in ("left", "right", " "):
            by = -1 if key == "left" else 1
            places = len(self.options) + (not self.is_needed)  # or none, if it is optional
            at = (self._at if self._is_set else len(self.options)) + by
            self._at, self._is_set = at % places % max(1, len(self.options)), at % places < len(self.options)
        elif self.kind == "many":
            if key in ("left", "right"):
                self._at = (self._at + (1 if key == "right" else -1)) % max(1, len(self.options))
            elif key == " ":
                self._chosen ^= {self._at}
        elif self.kind != "choice":
            self.text.key(key)

    # --- its row ----------------------------------------------------------------------------------------

    @property
    def hint(self) -> str:
        how = {
            "choice": "← → chooses",
            "many": "← → moves, space selects",
            "words": "separate several with commas",
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
            label = one_line(_label(option))
            if self.kind == "choice":
                is_chosen = self._is_set and place == self._at
                row.append(Piece(f"({'•' if is_chosen else ' '}) {label}  ", strong if is_chosen else ""))
            else:
                mark = "x" if place in self._chosen else " "
                here = is_active and place == self._at
                row.append(Piece(f"[{mark}] {label}  ", strong if here else ""))
        if sum(len(piece.text) for piece in row) <= width or not self.options:
            return row
        piece = row[self._at] if self._is_set or self.kind == "many" else Piece("(none)  ", DIM)
        return [piece._replace(text=cut(f"{piece.text.rstrip()} ({self._at + 1} of {len(row)})", width))]


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
    target = resolve_reference(schema["$ref"], whole) if "$ref" in schema else schema
    return {**target, **schema} if isinstance(target, dict) else schema


def _options(schema: dict[str, Any], whole: dict[str, Any]) -> list[Any]:
    """The values to choose from; empty if a person types one."""
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


def _text_of(kind: Kind, value: Any) -> str:
    if kind == "words" and isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) and kind != "json" else msgspec.json.encode(value).decode()


def _label(option: Any) -> str:
    if isinstance(option, bool):
        return "yes" if option else "no"
    return option if isinstance(option, str) else msgspec.json.encode(option).decode()


class TextBody(QuestionBody):
    """A line of its own to type in: what is in the input line stays there. A secret appears as dots."""

    takes_pastes = True

    def __init__(
        self, question: Question, dialog: Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        dialog = dialog if isinstance(dialog, InputDialog) else InputDialog()
        self._field = TextField(dialog.default, placeholder=dialog.placeholder, is_secret=question.secret)

    @property
    def legend(self) -> str:
        return super().legend + ("; it is not shown, and not stored" if self.question.secret else "")

    def fields(self, room: int, most: int) -> list[str]:
        return [drawn([Piece("› "), *self._field.row(room - 2, self.colors)])]

    def key(self, key: str) -> Any:
        if key != "enter":
            self._field.key(key)
            return PENDING
        return self._field.text if self.dialog or self._field.text.strip() else PENDING


_FIELD_MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}


class FormBody(QuestionBody):
    """Fields, one below the other. A problem appears with its field."""

    takes_pastes = True

    def __init__(
        self, question: Question, dialog: Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._fields = fields_of(question.form or {}, is_secret=question.secret)
        self._at = 0
        self._problem = ""

    @property
    def legend(self) -> str:
        at = f"{self._at + 1} of {len(self._fields)} · " if len(self._fields) > 1 else ""
        next_step = "sends the form" if self._at == len(self._fields) - 1 else "next field"
        return f"{at}enter {next_step}, ctrl+s sends the form, esc declines · * is required"

    def fields(self, room: int, most: int) -> list[str]:
        most = max(1, most - 1)
        first = max(0, min(self._at - most // 2, len(self._fields) - most))
        names = [f"{field.title}{'*' if field.is_needed else ''}" for field in self._fields]
        wide = min(max(map(len, names)), room // 3)
        rows = []
        for place in range(first, min(len(self._fields), first + most)):
            is_active = place == self._at
            style = sgr(self.colors, "accent", BOLD) if is_active else ""
            lead = f"{'❯' if is_active else ' '} {cut(names[place], wide):<{wide}}  "
            field = self._fields[place].row(room - len(lead), self.colors, is_active=is_active)
            rows.append(drawn([Piece(lead, style), *field]))
        if self._problem:
            rows.append(drawn([Piece(cut(f"✗ {self._problem}", room), sgr(self.colors, "error", BOLD))]))
        elif hint := self._fields[self._at].hint:
            rows.append(self.dim(f"  {hint}", room))
        return rows

    def key(self, key: str) -> Any:
        if key == "ctrl+s" or (key == "enter" and self._at == len(self._fields) - 1):
            return self._value()
        if key == "enter":
            self._problem = self._problem_of(self._fields[self._at])
            self._at += not self._problem
        elif key in _FIELD_MOVES:
            self._problem = ""
            self._at = (self._at + _FIELD_MOVES[key]) % len(self._fields)
        else:
            self._problem = ""
            self._fields[self._at].key(key)
        return PENDING

    def _problem_of(self, field: Field) -> str:
        try:
            field.value()
        except FieldError as error:
            return f"{field.title}: {error}"
        return ""

    def _value(self) -> Any:
        """The whole form, if it fits; else the first problem is shown."""
        for place, field in enumerate(self._fields):
            if problem := self._problem_of(field):
                self._at, self._problem = place, problem
                return PENDING
        values = {field.name: field.value() for field in self._fields}
        value: Any = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        if list(values) == [""]:
            value = values[""]
        self._problem = answer_problem(self.question, value)
        return PENDING if self._problem else value
