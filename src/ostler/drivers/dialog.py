"""Reads a dialog from an agent's screen: its text, its choices, and which one is marked.

A dialog is at the end of the screen, in place of the input box. Its choices are a list with a mark in front
of one line, a row of buttons, or letters to type. If they cannot be read, it can only be answered with keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ostler.drivers.screen import without_blank_ends

Drawn = Callable[[int], str]
"""A row of the screen with its colours, by its place in the text of the screen."""

_MARKS = "❯›→▸➤▶➜▌"
_FILLED, _HOLLOW = "●◉◆", "○◯◇"
_SIDES = "│|┃║"
_FRAME = re.compile(r"^\s*[╭┌┏╔╰└┗╚├]?[─━═╌╍▄▀┄┈]{10,}[╮┐┓╗╯┘┛╝┤]?\s*$")
_RULE = re.compile(r"^\s*[─━═]{15,}\s*$")
_NUMBERED = re.compile(rf"^(\s*)([{_MARKS}{_FILLED}{_HOLLOW}>*]?)(\s*)(\d{{1,2}})([.)])\s+(\S.*)$")
_MARKED = re.compile(rf"^(\s*)([{_MARKS}{_FILLED}])(\s+)(\S.*)$")
_HEADS = tuple(f"{' ' * indent}{corner}" for indent in (0, 1) for corner in "╭┌┏╔")
_FEET = tuple(f"{' ' * indent}{corner}" for indent in (0, 1) for corner in "╰└┗╚")
_LETTERS = re.compile(r"((?:\(\w\)[\w' ]+/)+\(\w\)[\w' ]+?)\s*(?:\[[^\]]*\])?\s*[:?]\s*(\S*)\s*$")
_WORDS = re.compile(r"[\[(]((?:[A-Za-z]{1,6}/){1,5}[A-Za-z]{1,6})[\])]\s*[:?>]?\s*(\S*)\s*$")
_Q_PROMPT = re.compile(r"[^>]{0,40}> ?(\S*)")
_BUTTON = re.compile(r"\S+(?: \S+)*")
_HINT = re.compile(r"^(?:ctrl|alt|shift|tab|esc|enter|return|space|[⇆↑↓←→↔⏎])", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[([\d;:]*)m")
_OTHER_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
_REFUSES = re.compile(r"^(?:no\b|n$|reject\b|deny\b|cancel\b|exit\b|quit\b|abort\b)", re.IGNORECASE)

_MOST_LINES_BELOW = 8
_MOST_LINES_OF_A_CHOICE = 12
_MOST_LINES_ABOVE = 200
_LONGEST_TEXT = 20_000
_GAP = 3
"""Blank rows that separate a dialog from what was drawn before it."""


class Choice(msgspec.Struct, frozen=True):
    label: str
    key: str = ""
    """The number in front of it, or what to type for it."""


class Dialog(msgspec.Struct, frozen=True):
    """What an agent asks on its screen."""

    kind: Literal["list", "row", "typed", "keys"]
    text: str
    choices: tuple[Choice, ...] = ()
    marked: int = -1
    typed: str = ""
    """What is typed behind a question, so far."""
    row: int = 0
    """Where its choices begin."""

    def is_same(self, other: Dialog | None) -> bool:
        """Whether both ask the same, whatever is marked or typed."""
        if other is None:
            return False
        return (self.kind, self.text, self.choices) == (other.kind, other.text, other.choices)

    @property
    def labels(self) -> tuple[str, ...]:
        """Each once: a label that occurs again has its number behind it."""
        labels: list[str] = []
        for place, choice in enumerate(self.choices, 1):
            labels.append(f"{choice.label} ({place})" if choice.label in labels else choice.label)
        return tuple(labels)

    @property
    def refusal(self) -> int:
        """The place of the choice that says no; -1 if none does."""
        return next((at for at, one in enumerate(self.choices) if _REFUSES.match(one.label)), -1)


class OpenDialog(msgspec.Struct, frozen=True):
    """A dialog that waits for an answer; after an answer without effect it has a new number."""

    number: int
    dialog: Dialog


def read_dialog(agent_type: str, screen: str, drawn: Drawn | None = None) -> Dialog | None:
    """The dialog at the end of the screen; None if there are no choices to be read."""
    lines = [_inside(line) for line in screen.split("\n")]
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    lines = lines[:end]
    if not lines:
        return None
    if agent_type == "opencode" and (row := _button_row(lines, drawn)):
        return row
    return _numbered_list(lines) or _marked_list(lines) or _typed(agent_type, lines)


def unreadable_dialog(screen: str) -> Dialog:
    """A dialog whose choices cannot be read: the last lines of the screen."""
    lines = [_inside(line) for line in screen.split("\n")]
    return Dialog("keys", _text_above(lines, len(lines)))


def _inside(line: str) -> str:
    """A line without the frame around it, with its place kept."""
    stripped = line.rstrip()
    body = stripped.lstrip()
    while body[:1] and body[0] in _SIDES:
        at = len(stripped) - len(body)
        stripped = f"{stripped[:at]} {body[1:]}".rstrip()
        if stripped and stripped[-1] in _SIDES:
            stripped = stripped[:-1].rstrip()
        body = stripped.lstrip()
    return stripped


def is_border(line: str) -> bool:
    return _FRAME.match(line) is not None


def _is_blank(line: str) -> bool:
    return not line.strip() or is_border(line)


def _few_lines_below(lines: Sequence[str], at: int) -> bool:
    return sum(not _is_blank(line) for line in lines[at:]) <= _MOST_LINES_BELOW


# --- a list -----------------------------------------------------------------------------------------


def _numbered_list(lines: Sequence[str]) -> Dialog | None:
    """The last list that counts from 1 and has a mark in front of exactly one number."""
    found = [(at, match) for at, line in enumerate(lines) if (match := _NUMBERED.match(line))]
    if not found:
        return None
    first = len(found) - 1
    while first > 0 and int(found[first][1][4]) != 1 and _follows(found[first - 1], found[first]):
        first -= 1
    rows = found[first:]
    if len(rows) < 2 or int(rows[0][1][4]) != 1:
        return None
    marks = [place for place, (_, match) in enumerate(rows) if match[2] and match[2] not in _HOLLOW]
    last_end = _choice_end(lines, rows[-1])
    if len(marks) != 1 or not _few_lines_below(lines, last_end):
        return None
    ends = [at for at, _ in rows[1:]] + [last_end]
    choices = tuple(
        Choice(_joined(match[6], lines[at + 1 : end]), match[4])
        for (at, match), end in zip(rows, ends, strict=True)
    )
    return Dialog("list", _text_above(lines, rows[0][0]), choices, marks[0], row=rows[0][0])


def _follows(one: tuple[int, re.Match[str]], other: tuple[int, re.Match[str]]) -> bool:
    (at, before), (next_at, after) = one, other
    is_next = int(after[4]) == int(before[4]) + 1
    aligned = before.start(5) - len(before[4]) == after.start(5) - len(after[4])
    return is_next and aligned and next_at - at <= _MOST_LINES_OF_A_CHOICE


def _choice_end(lines: Sequence[str], row: tuple[int, re.Match[str]]) -> int:
    """Where the lines end that belong to the last choice: they are indented as far as its label."""
    at, match = row
    column, end = match.start(6), at + 1
    while end < len(lines) and lines[end].strip() and len(lines[end]) - len(lines[end].lstrip()) >= column:
        end += 1
    return end


def _joined(label: str, more: Sequence[str]) -> str:
    words = [label, *(line for line in more if not _is_blank(line))]
    return " ".join(" ".join(words).split())


def _marked_list(lines: Sequence[str]) -> Dialog | None:
    """The last line with a mark in front of it, and its neighbours with their text in the same column."""
    for at in range(len(lines) - 1, -1, -1):
        match = _MARKED.match(lines[at])
        if not match or _NUMBERED.match(lines[at]):
            continue
        column, mark = match.start(4), match[2]

        def is_choice(line: str, column: int = column, mark: str = mark) -> bool:
            before, label = line[:column].strip(), line[column:]
            allowed = (_HOLLOW,) if mark in _FILLED else ("",)
            is_allowed = any(before == one or (before and before in one) for one in allowed)
            return is_allowed and label[:1].strip() != "" and not is_border(line)

        first, end = at, at + 1
        while first > 0 and is_choice(lines[first - 1]):
            first -= 1
        while end < len(lines) and is_choice(lines[end]):
            end += 1
        if end - first < 2 or not _few_lines_below(lines, end):
            return None
        choices = tuple(Choice(" ".join(line[column:].split())) for line in lines[first:end])
        return Dialog("list", _text_above(lines, first), choices, at - first, row=first)
    return None


# --- a row, and a question to type after ------------------------------------------------------------


def _button_row(lines: Sequence[str], drawn: Drawn | None) -> Dialog | None:
    """OpenCode: buttons beside each other, the selected one in another colour; below a line with a `△`."""
    heading = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].lstrip().startswith("△")), -1)
    row = next((at for at in range(len(lines) - 1, heading, -1) if lines[at].strip()), -1)
    if heading < 0 or row <= heading:
        return None
    buttons = []
    for found in _BUTTON.finditer(lines[row]):
        if _HINT.match(found[0]):
            break
        buttons.append(found)
    if len(buttons) < 2:
        return None
    marked = _highlighted(drawn(row), [found.start() for found in buttons]) if drawn else -1
    choices = tuple(Choice(found[0]) for found in buttons)
    text = "\n".join(line.strip() for line in without_blank_ends(lines[heading:row]))
    return Dialog("row", text[-_LONGEST_TEXT:], choices, marked)


def _highlighted(row: str, columns: Sequence[int]) -> int:
    """Which of these columns has another background than all others; -1 if none or several have."""
    backgrounds = _backgrounds(row)
    shown = [backgrounds[column] if column < len(backgrounds) else "" for column in columns]
    alone = [at for at, one in enumerate(shown) if shown.count(one) == 1]
    if len(shown) == 2 and len(alone) == 2:  # the space between them has the usual one
        gap = backgrounds[columns[1] - 2] if columns[1] - 2 < len(backgrounds) else ""
        alone = [at for at, one in enumerate(shown) if one != gap]
    return alone[0] if len(alone) == 1 else -1


def _backgrounds(row: str) -> list[str]:
    """The background of each character, as its parameters are written."""
    backgrounds: list[str] = []
    colour, at = "", 0
    while at < len(row):
        if found := _COLOUR.match(row, at):
            colour = _background(found[1], colour)
        elif not (found := _OTHER_SEQUENCE.match(row, at)):
            backgrounds.append(colour)
            at += 1
            continue
        at = found.end()
    return backgrounds


def _background(parameters: str, colour: str) -> str:
    values = re.split("[;:]", parameters or "0")
    at = 0
    while at < len(values):
        value = values[at]
        if value in ("", "0", "49", "27"):
            colour = ""
        elif value in ("38", "48"):
            count = 5 if values[at + 1 : at + 2] == ["2"] else 3
            if value == "48":
                colour = ";".join(values[at : at + count])
            at += count
            continue
        elif value == "7" or (value.startswith(("4", "10")) and len(value) > 1 and value != "49"):
            colour = value
        at += 1
    return colour


def _typed(agent_type: str, lines: Sequence[str]) -> Dialog | None:
    """Aider's `(Y)es/(N)o [Yes]:`, and `[y/n]` at the end of the last line."""
    at, typed = len(lines) - 1, ""
    if agent_type == "amazonq" and (prompt := _Q_PROMPT.fullmatch(lines[at].strip())):
        typed = prompt[1]  # below the question
        at = next((row for row in range(at - 1, -1, -1) if lines[row].strip()), at)
    line = lines[at]
    if found := _LETTERS.search(line):
        choices = tuple(
            Choice(part.replace("(", "", 1).replace(")", "", 1).strip(), part[1].lower())
            for part in found[1].split("/")
        )
    elif found := _WORDS.search(line):
        choices = tuple(Choice(word, word.lower()) for word in found[1].split("/"))
    else:
        return None
    asked = [*lines[:at], line[: found.start(2)].rstrip()]
    return Dialog("typed", _text_above(asked, len(asked)), choices, typed=found[2] or typed)


# --- its text ---------------------------------------------------------------------------------------


def _text_above(lines: Sequence[str], end: int) -> str:
    """The text of a dialog, up to a rule or several blank rows above it."""
    start = end
    blank = 0
    while start > 0 and end - start < _MOST_LINES_ABOVE:
        line = lines[start - 1]
        if _RULE.match(line) and start != end:
            break
        if line.startswith(_HEADS) and not (start > 1 and lines[start - 2].startswith(_FEET)):
            break  # frames that touch belong together
        blank = blank + 1 if not line.strip() else 0
        if blank >= _GAP and any(one.strip() for one in lines[start - 1 : end]):
            break
        start -= 1
    kept = [line.strip() if not is_border(line) else "" for line in lines[start:end]]
    text: list[str] = []
    for line in without_blank_ends(kept):
        if line or (text and text[-1]):
            text.append(line)
    return "\n".join(text)[-_LONGEST_TEXT:]
