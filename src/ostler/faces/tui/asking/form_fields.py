"""The fields of a form: what a JSON Schema wants, as something that a person can fill in."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.asking.answers import is_unseen
from ostler.faces.tui.asking.text_field import TextField
from ostler.faces.tui.drawing.pieces import BOLD, DIM, Piece, Row, cut, one_line, sgr
from ostler.kernel.json_schema import mismatch, referred

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
        is_secret = is_secret or is_unseen(schema)
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
        if problem := mismatch(value, self._schema, self._whole, where="it"):
            raise Wrong(problem)
        return value

    def _read(self, text: str) -> Any:
        takes_none = self.kind == "text" and self.is_needed and not mismatch("", self._schema, self._whole)
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
    found = referred(schema["$ref"], whole) if "$ref" in schema else schema
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
