"""From a screen to an agent's message: the new text without echo, input box and progress reports of tools.

Each agent echoes the input in its own way: behind a `>`, in a box, wrapped, without code fences. So the echo
is found by its first characters and then followed character by character, with small gaps on either side.
"""

from __future__ import annotations

import re
from collections import Counter

from ostler.drivers.input_box import has_known_box, remove_box
from ostler.drivers.screen import ASCII_WHITESPACE, trim_blank_lines, without_blank_ends, without_gaps

_NEEDLE = 6
_SEARCHED_LINES = 6
_SEARCHED_CHARACTERS = 25
_GAP = 5

# What closes the frame around an echo, on the line after it: both corners, or a line of half blocks.
_FRAME_ENDS = {"gemini": "╯╰", "copilot": "╯╰", "cursor": "┘└"}
_HALF_BLOCKS = "▀" * 15
_OPENCODE_LINES_AFTER_ECHO = 2


def remove_user_input(text: str, user_input: str, agent_type: str) -> str:
    """The message without the lines that echo `user_input`."""
    wanted = _without_whitespace(user_input)
    needle = _without_whitespace(user_input.split("\n", 1)[0])[:_NEEDLE]
    if not needle:
        return text
    lines = text.split("\n")
    start = _find(lines, needle)
    if start < 0:
        return text
    # No step along the echo is longer than the gap, so no more of the message can matter.
    visible, line_numbers = _characters(lines, start + _GAP * (len(wanted) + 1) + 1)
    last = line_numbers[_follow(visible, wanted, start)]
    return "\n".join(lines[last + 1 + _lines_after_echo(lines[last + 1 :], agent_type) :])


def _without_whitespace(text: str) -> str:
    return "".join(character for character in text if character not in ASCII_WHITESPACE)


def _find(lines: list[str], needle: str) -> int:
    characters, numbers = _characters(lines, _SEARCHED_CHARACTERS, whole_lines=_SEARCHED_LINES)
    searched = sum(number < _SEARCHED_LINES for number in numbers)
    return characters[: max(searched, _SEARCHED_CHARACTERS)].find(needle)


def _characters(lines: list[str], wanted: int, whole_lines: int = 0) -> tuple[str, list[int]]:
    """The first characters that are not blank, at least as many as wanted, and the line of each."""
    parts: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(lines):
        if number >= whole_lines and len(numbers) >= wanted:
            break
        visible = _without_whitespace(line)
        parts.append(visible)
        numbers += [number] * len(visible)
    return "".join(parts), numbers


def _follow(visible: str, wanted: str, start: int) -> int:
    """Where in the message the echo ends."""
    at, matched = start, 0
    while (step := _next_match(visible, wanted, at, matched)) is not None:
        at, matched = step
    return at


def _next_match(visible: str, wanted: str, at: int, matched: int) -> tuple[int, int] | None:
    for in_wanted in range(matched + 1, matched + _GAP + 1):
        for in_visible in range(at + 1, at + _GAP + 1):
            if in_wanted >= len(wanted) or in_visible >= len(visible):
                return None
            if wanted[in_wanted] == visible[in_visible]:
                return in_visible, in_wanted
    return None


def _lines_after_echo(below: list[str], agent_type: str) -> int:
    if agent_type == "opencode":
        return _OPENCODE_LINES_AFTER_ECHO if len(below) >= _OPENCODE_LINES_AFTER_ECHO else 0
    ends = _FRAME_ENDS.get(agent_type)
    if not ends or not below:
        return 0
    return int(all(corner in below[0] for corner in ends) or below[0].startswith(_HALF_BLOCKS))


# Title, share address and token count, which change at any time. Newer ones begin with a blank line instead.
_OPENCODE_HEADER = 3

# What blinks while an agent waits for a person: the bullet of a call that is not permitted yet.
_BLINKING = {"claude": re.compile(r"^[●⏺ ](?= \S)", re.MULTILINE)}


def new_text(before: str, after: str, agent_type: str) -> str:
    """From the first line of `after` that is not in `before`, or not as often, to the end.

    The position of a line does not matter, so a screen that scrolled gives the same.
    """
    counts = Counter(before.split("\n"))
    lines = after.split("\n")
    start = _OPENCODE_HEADER if agent_type == "opencode" and lines[0].strip() else 0
    for number in range(start, len(lines)):
        line = lines[number]
        if line not in counts:
            return "\n".join(without_blank_ends(lines[number:]))
        counts[line] -= 1
        if counts[line] < 0 and any(character.isalnum() for character in line):  # frames come and go
            return "\n".join(without_blank_ends(lines[number:]))
    return ""


def format_message(agent_type: str, text: str, user_input: str) -> str:
    """The agent's own text in `text`, the `new_text` since `user_input` was sent."""
    if not has_known_box(agent_type):
        return text
    answer = remove_box(agent_type, remove_user_input(text, user_input, agent_type))
    return without_gaps(trim_blank_lines(answer))


def only_blinks(agent_type: str, before: str, after: str) -> bool:
    """Whether two screens differ only in a blinking mark."""
    blinking = _BLINKING.get(agent_type)
    return blinking is not None and blinking.sub(" ", before) == blinking.sub(" ", after)


def is_ready(agent_type: str, screen: str) -> bool:
    """Whether the agent shows its input box. Agents without a known one count as ready."""
    if not has_known_box(agent_type):
        return True
    text = trim_blank_lines(screen)
    return remove_box(agent_type, text) != text


_CLAUDE_OPENS = "coder - coder_report_task (MCP)"
_CLAUDE_CLOSES = '"message": "Thanks for reporting!"'
_CODEX_CALL = "•Called"
_CODEX_OPENS = "Coder.coder_report_task"
_CODEX_CLOSES = '{"message": "Thanks for reporting!"}'


def split_tool_calls(agent_type: str, text: str) -> tuple[str, list[str]]:
    """The text without calls of Coder's reporting tool, and the complete calls, the last one first."""
    if agent_type == "claude":
        return _split_claude(text)
    if agent_type == "codex":
        return _split_codex(text)
    return text, []


def _split_claude(text: str) -> tuple[str, list[str]]:
    lines = ["", *text.split("\n")]
    ranges: list[tuple[int, int, bool]] = []
    opened = after_blank = -1
    for at in range(1, len(lines) - 1):
        line = lines[at].strip()
        if _CLAUDE_OPENS in line:
            opened, after_blank = at, -1
        if opened < 0:
            continue
        if not line:
            after_blank = at + 1
        if line == _CLAUDE_CLOSES and lines[at + 1].strip() == "}" and lines[at - 1].strip().endswith("{"):
            ranges.append((opened, at + 2, True))
            opened = after_blank = -1
    if opened >= 0:
        ranges.append((opened, after_blank if after_blank >= 0 else len(lines), False))
    text, calls = _cut(lines, ranges)
    return text.lstrip("\n"), calls


def _split_codex(text: str) -> tuple[str, list[str]]:
    lines = text.split("\n")
    ranges: list[tuple[int, int, bool]] = []
    opened = -1
    for at, line in enumerate(lines):
        if line.strip().replace(" ", "") == _CODEX_CALL and _CODEX_OPENS in "".join(lines[at + 1 : at + 2]):
            opened = at
        elif opened >= 0 and line.strip() == _CODEX_CLOSES:
            end = at + 1
            while end < len(lines) and not lines[end].strip():
                end += 1
            ranges.append((opened, end, True))
            opened = -1
    text, calls = _cut(lines, ranges)
    return text.rstrip("\n"), calls


def _cut(lines: list[str], ranges: list[tuple[int, int, bool]]) -> tuple[str, list[str]]:
    calls = []
    for start, end, complete in reversed(ranges):
        if complete:
            calls.append("\n".join(lines[start:end]))
        del lines[start:end]
    return "\n".join(lines), calls
