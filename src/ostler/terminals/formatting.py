"""From a screen to an agent's message: what is new, without the echo of the input and the input box."""

from __future__ import annotations

import re
from collections import Counter

from ostler.terminals.boxes import has_known_box, remove_box
from ostler.terminals.echo import remove_user_input
from ostler.terminals.lines import trim_blank_lines, without_blank_ends, without_gaps

# Title, share address and token count, which change at any time. Newer ones begin with a blank line instead.
_OPENCODE_HEADER = 3
# What blinks while an agent waits for a person: the bullet of a call that is not permitted yet.
_BLINKING = {"claude": re.compile(r"^[●⏺ ](?= \S)", re.MULTILINE)}


def new_text(before: str, after: str, agent_type: str) -> str:
    """From the first line of `after` that is not on `before`, or not as often, to the end.

    Where a line stands does not matter, so a screen that scrolled gives the same.
    """
    known = Counter(before.split("\n"))
    lines = after.split("\n")
    start = _OPENCODE_HEADER if agent_type == "opencode" and lines[0].strip() else 0
    for number in range(start, len(lines)):
        line = lines[number]
        if line not in known:
            return "\n".join(without_blank_ends(lines[number:]))
        known[line] -= 1
        if known[line] < 0 and any(character.isalnum() for character in line):  # frames come and go
            return "\n".join(without_blank_ends(lines[number:]))
    return ""


def format_message(agent_type: str, text: str, user_input: str) -> str:
    """The agent's own words in `text`, which is what `new_text` found after `user_input` was sent."""
    if not has_known_box(agent_type):
        return text
    said = remove_box(agent_type, remove_user_input(text, user_input, agent_type))
    return without_gaps(trim_blank_lines(said))


def only_blinks(agent_type: str, before: str, after: str) -> bool:
    """Whether two screens differ in nothing but a mark that comes and goes."""
    blinking = _BLINKING.get(agent_type)
    return blinking is not None and blinking.sub(" ", before) == blinking.sub(" ", after)


def is_ready(agent_type: str, screen: str) -> bool:
    """Whether the agent shows its input box. Agents without a known one count as ready."""
    if not has_known_box(agent_type):
        return True
    shown = trim_blank_lines(screen)
    return remove_box(agent_type, shown) != shown
