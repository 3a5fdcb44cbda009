"""Follows one string field of a JSON document while the document is still arriving.

A model writes a tool's arguments as JSON text, a few characters at a time. To show a file while the model
writes it, a front end needs the decoded text of one field before the document can be parsed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

EACH = "*"
"""In a path: every element of an array."""

_PLAIN = re.compile(r'[^"\\]*')
_BETWEEN_STRINGS = re.compile(r'[^"{}\[\]:,]*')
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_REPLACEMENT = "\ufffd"


class StreamingString:
    """The text of one string field, as far as it has arrived.

    `StreamingString("content")` follows a key of the outermost object, `StreamingString("edits", "*",
    "new_text")` a key of every object in an array; the same key elsewhere is another field.

    - Decoded text never changes: an escape, or half of a surrogate pair, is withheld until complete.
    - Every character is read once, so the cost is linear however small the fragments are.
    - Each new occurrence of the field starts afresh and raises `index`.
    - A document that is not JSON never raises an error; its field may stay missing, or stop growing.
    """

    def __init__(self, *path: str) -> None:
        self.index = 0
        """How often the field has occurred; 0 before the first time."""
        self._path = path
        self._containers: list[_Container] = []
        self._on_path = True
        self._expects_key = False
        self._ended = False
        self._key: _StringDecoder | None = None
        self._string: _StringDecoder | None = None
        self._followed: _StringDecoder | None = None

    @property
    def is_found(self) -> bool:
        """The present occurrence is a string, and it has begun."""
        return self._followed is not None

    @property
    def done(self) -> bool:
        """The present occurrence is complete."""
        return self._followed is not None and self._followed.closed and not self._followed.cut

    @property
    def value(self) -> str:
        """The present occurrence, decoded. To follow it cheaply, use what `feed` returns."""
        return self._followed.text() if self._followed else ""

    def feed(self, fragment: str) -> str:
        """Takes the next characters of the document; returns what they add to the present occurrence.

        When `index` has risen, what is returned begins the new occurrence.
        """
        followed = self._followed
        start = len(followed.decoded) if followed else 0
        at = 0
        while at < len(fragment) and not self._ended:
            if self._string is None:
                at = self._read_structure(fragment, at)
                continue
            at = self._string.read(fragment, at)
            if self._string.closed:
                self._string = None
                self._ended = not self._containers
        if self._followed is None:
            return ""
        return "".join(self._followed.decoded[start if self._followed is followed else 0 :])

    def _read_structure(self, text: str, at: int) -> int:
        at = _end_of(_BETWEEN_STRINGS, text, at)
        if at == len(text):
            return at
        match text[at]:
            case '"':
                self._open_string()
            case "{" | "[" as bracket:
                leads_on = self._on_path and len(self._containers) < len(self._path)
                self._containers.append(_Container(bracket == "{", leads_on))
                self._next_member()
            case "}" | "]":
                del self._containers[-1:]
                self._on_path = self._expects_key = False
                self._ended = not self._containers
            case ":":
                self._end_key()
            case _:
                self._next_member()
        return at + 1

    def _open_string(self) -> None:
        if self._expects_key:
            self._expects_key = False
            self._string = self._key = _StringDecoder(keep=self._containers[-1].on_path)
            return
        followed = self._on_path and len(self._containers) == len(self._path)
        self._on_path = False
        self._string = _StringDecoder(keep=followed)
        if not followed:
            return
        if not self._containers or not self._containers[-1].is_object:
            self.index += 1
        self._followed = self._string

    def _end_key(self) -> None:
        if self._key is None:
            return
        key, self._key = self._key, None
        depth = len(self._containers)
        self._on_path = self._containers[-1].on_path and key.text() == self._path[depth - 1] != EACH
        self._on_path = self._on_path and not key.cut
        if self._on_path and depth == len(self._path):
            self.index += 1
            self._followed = None

    def _next_member(self) -> None:
        if not self._containers:
            return
        container = self._containers[-1]
        self._expects_key = container.is_object
        self._on_path = (
            container.on_path and not container.is_object and self._path[len(self._containers) - 1] == EACH
        )


class _Container(NamedTuple):
    is_object: bool
    on_path: bool
    """The field may be inside."""


class _StringDecoder:
    """Decodes one JSON string from after its opening quote, however it is cut into fragments."""

    def __init__(self, *, keep: bool) -> None:
        self.decoded: list[str] = []
        self.closed = False
        self.cut = False
        """A broken `\\u` escape: what follows it in this string is lost."""
        self._keep = keep
        self._escape = ""
        self._high_surrogate = 0

    def text(self) -> str:
        if len(self.decoded) > 1:
            self.decoded[:] = ["".join(self.decoded)]
        return self.decoded[0] if self.decoded else ""

    def read(self, text: str, at: int) -> int:
        """Reads some of `text` from `at` on; returns where to go on reading."""
        if self._escape:
            return self._read_escape(text, at)
        end = _end_of(_PLAIN, text, at)
        if end > at:
            self._add(text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._add("")
            self.closed = True
        else:
            self._escape = "\\"
        return end + 1

    def _read_escape(self, text: str, at: int) -> int:
        character = text[at]
        if self._escape == "\\":
            self._escape = "\\u" if character == "u" else ""
            if character != "u":
                self._add(_ESCAPES.get(character, "\\" + character))
            return at + 1
        if character not in _HEX_DIGITS:
            self._escape = ""
            self._add("")
            self.cut = True
            return at  # it may be the closing quote
        self._escape += character
        if len(self._escape) == len("\\uXXXX"):
            unit = int(self._escape[2:], 16)
            self._escape = ""
            self._add_unit(unit)
        return at + 1

    def _add_unit(self, unit: int) -> None:
        """Adds a UTF-16 code unit; a half without its other half becomes U+FFFD."""
        if 0xD800 <= unit < 0xDC00:
            self._add("")
            self._high_surrogate = unit
        elif not 0xDC00 <= unit < 0xE000:
            self._add(chr(unit))
        elif self._high_surrogate:
            high, self._high_surrogate = self._high_surrogate, 0
            self._add(chr(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00)))
        else:
            self._add(_REPLACEMENT)

    def _add(self, characters: str) -> None:
        if self._high_surrogate:
            self._high_surrogate = 0
            characters = _REPLACEMENT + characters
        if characters and self._keep and not self.cut:
            self.decoded.append(characters)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, "the pattern matches the empty string"
    return match.end()
