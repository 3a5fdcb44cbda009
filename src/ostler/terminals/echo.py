"""Taking the echo of what the user wrote from the start of an agent's message.

An agent repeats the input in its own way: behind a `>`, in a box, wrapped, without code fences. So the echo
is found by its first characters and then followed character by character, with small gaps on either side.
"""

from __future__ import annotations

from ostler.terminals.lines import ASCII_WHITESPACE

_NEEDLE = 6
_SEARCHED_LINES = 6
_SEARCHED_CHARACTERS = 25
_GAP = 5

# What closes the frame around an echo, on the line after it: both corners, or a line of half blocks.
_FRAME_ENDS = {"gemini": "╯╰", "copilot": "╯╰", "cursor": "┘└"}
_HALF_BLOCKS = "▀" * 15
_OPENCODE_LINES_AFTER_ECHO = 2


def remove_user_input(text: str, user_input: str, agent_type: str) -> str:
    """The message without the lines that repeat `user_input`; unchanged where they do not."""
    wanted = "".join(character for character in user_input if character not in ASCII_WHITESPACE)
    needle = "".join(
        character for character in user_input.split("\n", 1)[0] if character not in ASCII_WHITESPACE
    )[:_NEEDLE]
    if not needle:
        return text
    lines = text.split("\n")
    start = _find(lines, needle)
    if start < 0:
        return text
    # No step along the echo is longer than the gap, so no more of the message can matter.
    shown, shown_lines = _characters(lines, start + _GAP * (len(wanted) + 1) + 1)
    last = shown_lines[_follow(shown, wanted, start)]
    return "\n".join(lines[last + 1 + _lines_after_echo(lines[last + 1 :], agent_type) :])


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
        visible = "".join(character for character in line if character not in ASCII_WHITESPACE)
        parts.append(visible)
        numbers += [number] * len(visible)
    return "".join(parts), numbers


def _follow(shown: str, wanted: str, start: int) -> int:
    """Where in the message the echo ends."""
    at, matched = start, 0
    while (step := _next_match(shown, wanted, at, matched)) is not None:
        at, matched = step
    return at


def _next_match(shown: str, wanted: str, at: int, matched: int) -> tuple[int, int] | None:
    for in_wanted in range(matched + 1, matched + _GAP + 1):
        for in_shown in range(at + 1, at + _GAP + 1):
            if in_wanted >= len(wanted) or in_shown >= len(shown):
                return None
            if wanted[in_wanted] == shown[in_shown]:
                return in_shown, in_wanted
    return None


def _lines_after_echo(rest: list[str], agent_type: str) -> int:
    if agent_type == "opencode":
        return _OPENCODE_LINES_AFTER_ECHO if len(rest) >= _OPENCODE_LINES_AFTER_ECHO else 0
    ends = _FRAME_ENDS.get(agent_type)
    if not ends or not rest:
        return 0
    return int(all(corner in rest[0] for corner in ends) or rest[0].startswith(_HALF_BLOCKS))
