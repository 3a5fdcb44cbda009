"""Front matter of Markdown files, and which parts of a Markdown text are code.

Front matter is the part of YAML that people write there: plain, quoted and block strings; integers, true,
false and null; lists, inline or one item a line; nested tables. Anything else is an error with its line
number. One thing is more lenient than YAML: an unquoted one-line string may contain `: `.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from ostler.context.files import Unusable

Value: TypeAlias = "str | int | bool | list[Value] | dict[str, Value] | None"

DEEPEST = 16
"""How far lists and tables may be nested."""

_KEY = re.compile(r"""("[^"\\]*"|'[^']*'|[^\W\d][\w.-]*)[ \t]*:(?:[ \t]+(.*))?""")
_CLOSING = {'"': re.compile(r'((?:[^"\\]|\\.)*)"'), "'": re.compile(r"((?:[^']|'')*)'(?!')")}

_ITEM = re.compile(
    r"""[ \t]*("(?:[^"\\]|\\.)*"[ \t]*|'(?:[^']|'')*'[ \t]*|[^\s"'\[\]{},][^\[\]{},]*)(?:,|(?=\]))"""
)

_ENDS_IN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_BLOCK = re.compile(r"([|>])([+-]?)(?:[ \t]+#.*)?")
_COMMENT = re.compile(r"(?:^|[ \t])#")
_COLON = re.compile(r":(?:[ \t]|$)")
_OWN_MEANING = re.compile(r"[&*!|>%@`{}\[\],\"'#]|[-?:](?:[ \t]|$)")
_WHOLE_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")
_WORDS = {"true": True, "false": False, "null": None}


class InvalidFrontMatter(Exception):
    """What is wrong, in one line with its number."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


class Document(msgspec.Struct, frozen=True):
    fields: dict[str, Value]
    body: str


def read_document(content: bytes) -> Document:
    """Like `read_front_matter`, for the bytes of a file. Raises `Unusable`."""
    try:
        return read_front_matter(content.decode())
    except UnicodeDecodeError:
        raise Unusable("it is not UTF-8") from None
    except InvalidFrontMatter as error:
        raise Unusable(str(error)) from None


def read_front_matter(text: str) -> Document:
    """The fields and the text below them; a text without front matter has no fields."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip(" \t") != "---":
        return Document({}, "\n".join(lines))
    end = next((number for number, line in enumerate(lines) if number and line.rstrip(" \t") == "---"), 0)
    if not end:
        raise InvalidFrontMatter(1, "the front matter has no end: a line `---` is missing")
    return Document(_Reader(lines[:end]).table(0, 0), "\n".join(lines[end + 1 :]))


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 1
        self._number = 1
        """The number of the line for errors."""

    def _error(self, text: str) -> InvalidFrontMatter:
        return InvalidFrontMatter(self._number, text)

    def _next_line(self) -> tuple[int, str] | None:
        """The indent and the text of the next line that is neither blank nor a comment; it is not passed."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip(" \t")
            if text and not text.startswith("#"):
                self._number = self._at + 1
                if line[_indent(line)] == "\t":
                    raise self._error("lines are indented with spaces, not with tabs")
                return _indent(line), text
            self._at += 1
        return None

    def table(self, indent: int, depth: int) -> dict[str, Value]:
        self._check_depth(depth)
        fields: dict[str, Value] = {}
        while (line := self._next_line()) and line[0] == indent:
            key = _KEY.fullmatch(line[1])
            if key is None:
                raise self._error("expected `name: value` here, with a space after the colon")
            name = key[1] if key[1][0] not in "\"'" else key[1][1:-1]
            if name in fields:
                raise self._error(f"{name!r} is defined twice")
            self._at += 1
            fields[name] = self._value(key[2] or "", indent, depth, behind_name=True)
        self._check_indent(line, indent)
        return fields

    def _list(self, indent: int, depth: int) -> list[Value]:
        self._check_depth(depth)
        items: list[Value] = []
        while (line := self._next_line()) and line[0] == indent and _is_item(line[1]):
            text = line[1][1:].strip(" \t")
            if _is_item(text) or _KEY.fullmatch(text):
                # `- name: value` begins a table whose other lines stand below the name.
                column = indent + len(line[1]) - len(text)
                self._lines[self._at] = " " * column + text
                inner = self._list if _is_item(text) else self.table
                items.append(inner(column, depth + 1))
            else:
                self._at += 1
                items.append(self._value(text, indent, depth))
        self._check_indent(line, indent)
        return items

    def _check_depth(self, depth: int) -> None:
        if depth > DEEPEST:
            raise self._error(f"lists and tables are nested more than {DEEPEST} deep")

    def _check_indent(self, line: tuple[int, str] | None, indent: int) -> None:
        if line and line[0] > indent:
            raise self._error("this line is indented further than those it belongs to")

    def _value(self, text: str, indent: int, depth: int, *, behind_name: bool = False) -> Value:
        """The value after a name or a dash, and in the lines below it that are indented further."""
        text = text.strip(" \t")
        if not text or text[0] == "#":
            return self._value_below(indent, depth, list_may_align=behind_name)
        if text[0] in "|>":
            return self._block_text(text, indent)
        if text[0] in "\"'":
            return self._quoted(text, indent)
        if text[0] == "[":
            return self._list_in_a_line(text)
        return self._plain(text, indent, may_have_colons=behind_name)

    def _value_below(self, indent: int, depth: int, *, list_may_align: bool) -> Value:
        line = self._next_line()
        if line is None or line[0] < indent:
            return None
        if line[0] == indent and not (list_may_align and _is_item(line[1])):
            return None
        if _is_item(line[1]):
            return self._list(line[0], depth + 1)
        if _KEY.fullmatch(line[1]):
            return self.table(line[0], depth + 1)
        self._at += 1
        return self._value(line[1], indent, depth)

    def _block_text(self, header: str, indent: int) -> str:
        style = _BLOCK.fullmatch(header)
        if style is None:
            raise self._error(f"after {header[0]} only + or - may follow, and the text in the next lines")
        width = widest_blank = 0
        lines: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip(" "):
                width = width or _indent(line)
                if width <= indent or _indent(line) < width:
                    break
                if widest_blank > width:
                    raise self._error("the text begins with a line of too many spaces")
            elif not width:
                widest_blank = max(widest_blank, len(line))
                line = ""
            lines.append(line)
            self._at += 1
        lines = [line[width:] for line in lines]
        blank = 0
        while lines and not lines[-1]:
            lines.pop()
            blank += 1
        if not lines:
            return "\n" * blank if style[2] == "+" else ""
        text = "\n".join(lines) if style[1] == "|" else _folded_block(lines)
        return text + {"": "\n", "-": "", "+": "\n" * (blank + 1)}[style[2]]

    def _quoted(self, text: str, indent: int) -> str:
        quote, pieces, piece = text[0], list[str](), text[1:]
        while (closed := _CLOSING[quote].match(piece)) is None:
            pieces.append(piece)
            if quote == '"' and _ENDS_IN_ESCAPE.search(piece):
                raise self._error("a backslash at the end of a line is not supported")
            if not self._goes_on(indent):
                raise self._error(f"the text has no {quote} at its end")
            piece = self._lines[self._at].strip(" \t")
            self._at += 1
        self._check_end(piece[closed.end() :])
        return self._unquoted(quote + _folded([*pieces, closed[1]]) + quote)

    def _goes_on(self, indent: int) -> bool:
        """Whether a text may continue in the next line: it is indented further, or blank."""
        if self._at == len(self._lines):
            return False
        line = self._lines[self._at]
        return _indent(line) > indent or not line.strip(" \t")

    def _unquoted(self, text: str) -> str:
        if text[0] == "'":
            return text[1:-1].replace("''", "'")
        try:
            return msgspec.json.decode(text.replace("\n", "\\n"), type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise self._error(
                'between " a backslash begins \\n, \\t, \\", \\\\ or \\u0000, and a tab is \\t'
            ) from None

    def _check_end(self, text: str) -> None:
        rest = text.lstrip(" \t")
        if rest and (rest == text or rest[0] != "#"):
            raise self._error("there is text after the end of the value: put quotes around all of it")

    def _list_in_a_line(self, text: str) -> list[Value]:
        items: list[Value] = []
        at = 1
        while item := _ITEM.match(text, at):
            items.append(self._item(item[1].strip(" \t")))
            at = item.end()
        end = text[at:].lstrip(" \t")
        if not end.startswith("]"):
            raise self._error(
                "a list in brackets is [a, b, c] on one line; quote what has brackets, braces or commas in it"
            )
        self._check_end(end[1:])
        return items

    def _item(self, text: str) -> Value:
        if text[:1] in ('"', "'"):
            return self._unquoted(text)
        if _COMMENT.search(text):
            raise self._error("a text with # in it needs quotes here")
        return self._typed(text)

    def _typed(self, text: str, *, may_have_colons: bool = False) -> str | int | bool | None:
        self._check_plain(text, may_have_colons=may_have_colons)
        if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.capitalize()):
            return _WORDS[text.lower()]
        if text == "~":
            return None
        # A number with a point stays text: `version: 1.10` is not 1.1.
        return int(text) if _WHOLE_NUMBER.fullmatch(text) else text

    def _check_plain(self, text: str, *, may_have_colons: bool) -> None:
        if _OWN_MEANING.match(text):
            raise self._error(f"{text[0]} has a special meaning here: put quotes around the text")
        if not may_have_colons and _COLON.search(text):
            raise self._error("a text with a colon in it needs quotes here")

    def _plain(self, text: str, indent: int, *, may_have_colons: bool) -> Value:
        pieces = [text]
        while not _COMMENT.search(pieces[-1]) and self._goes_on(indent):
            piece = self._lines[self._at].strip(" \t")
            if piece.startswith("#"):
                break
            pieces.append(piece)
            self._at += 1
        pieces[-1] = _COMMENT.split(pieces[-1], maxsplit=1)[0].rstrip(" \t")
        while not pieces[-1]:
            pieces.pop()
        if len(pieces) == 1:
            return self._typed(pieces[0], may_have_colons=may_have_colons)
        for piece in pieces:
            if _COLON.search(piece):
                raise self._error("a text of several lines with a colon in it needs quotes, or | or >")
        self._check_plain(text, may_have_colons=False)
        return _folded(pieces)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _folded(pieces: Sequence[str]) -> str:
    """Joins the lines of a text: an end of line becomes a space, and blank lines become ends of lines."""
    text, blank = pieces[0].rstrip(" \t") if len(pieces) > 1 else pieces[0], 0
    for number, piece in enumerate(pieces[1:], 2):
        if piece or number == len(pieces):
            text += ("\n" * blank or " ") + piece
            blank = 0
        else:
            blank += 1
    return text


def _folded_block(lines: Sequence[str]) -> str:
    """As `_folded` for a block, in which lines that are indented further stay as they are."""
    text, blank, before = "", 0, ""
    for line in lines:
        if not line:
            blank += 1
            continue
        if not before:
            text = "\n" * blank + line
        elif before[0] in " \t" or line[0] in " \t":
            text += "\n" * (blank + 1) + line
        else:
            text += ("\n" * blank or " ") + line
        before, blank = line, 0
    return text


_FENCE = re.compile(r"^[ \t]*(?:(`{3,})[^`\n]*|(~{3,})[^\n]*)$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


def outside_code(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text, as begin and end, that are neither in a fence nor between backticks.

    A fence without an end extends to the end of the text; a backtick without a partner is a character.
    """
    at = 0
    while fence := _FENCE.search(text, at):
        yield from _outside_ticks(text, at, fence.start())
        at = _end_of_fence(text, fence)
    yield from _outside_ticks(text, at, len(text))


def _end_of_fence(text: str, fence: re.Match[str]) -> int:
    mark = fence[1] or fence[2]
    closing = re.compile(rf"^[ \t]*{mark[0]}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
    closed = closing.search(text, min(fence.end() + 1, len(text)))
    return closed.end() if closed else len(text)


def _outside_ticks(text: str, begin: int, end: int) -> Iterator[tuple[int, int]]:
    closings = _next_of_same_length(text, begin, end)
    at = begin
    for opening in _TICKS.finditer(text, begin, end):
        if opening.start() < at or (closed := closings.get(opening.start())) is None:
            continue
        yield at, opening.start()
        at = closed
    yield at, end


def _next_of_same_length(text: str, begin: int, end: int) -> dict[int, int]:
    """For each run of backticks the end of the next one that is as long, in the same paragraph."""
    closings: dict[int, int] = {}
    last: dict[int, int] = {}
    at = begin
    for run in _TICKS.finditer(text, begin, end):
        if _BLANK_LINE.search(text, at, run.start()):
            last.clear()
        length = run.end() - run.start()
        if length in last:
            closings[last[length]] = run.end()
        last[length] = run.start()
        at = run.end()
    return closings
