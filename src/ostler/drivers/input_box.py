"""Finds the input box at the bottom of each agent's screen.

A box is recognised by its place and its frame, never by a character alone: a reply may end in HTML, in a
quotation or in a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ostler.drivers.screen import cell_width

_BORDER = re.compile("─{15}|╌{15}")
_FRAME = re.compile("─{15}|╌{15}|▄{15}|▀{15}")
_RULE = re.compile("─{15,}")
_TABLE_RULE = re.compile("[├┤┬┴┼]")
_FEET = ("└", "╰", "┗", "╚")
_SIDES = "│|┃ \t\xa0"
_PROMPT_LINES = 6
_BOX_LINES = 9
_BAR_HEAD, _BAR_FOOT = "╻" + "▄" * 15, "╹" + "▀" * 15
_BOX_GLYPHS = ("❯", "›", "→", ">")
_COMPARED_LINES = 200
_UNDRAWN_EDGE = 4
_NARROWEST = 40

_LINE_PROMPTS = {
    "aider": re.compile(r"(?:(?:ask|code|architect|context|help)(?: multi)?|multi)?>"),
    "amazonq": re.compile(r"(?:\[[^\]]+\] ?)?(?:\d+% ?)?(?:↯ ?)?!?>"),
    "custom": re.compile(r"[\w.@~-]*(?:\([\w ]*\))?>{1,3}"),
}

_GOOSE_PROMPT = re.compile(r"\( ?O\)>")
_AMP_LINES = 6
_CODEX_FOOT_LINES = 3
_GEMINI_HINTS = 3
_OPENCODE_FOOT = "╹" + "▀" * 17
_OPENCODE_HEIGHT = 4


def _is_border(line: str) -> bool:
    return _BORDER.search(line) is not None


def _may_be_head(line: str) -> bool:
    """Whether it is the border above a prompt, and not the foot of something drawn before it."""
    return _FRAME.search(line) is not None and not line.lstrip().startswith(_FEET)


def _inside(line: str) -> str:
    return line.strip(_SIDES)


def _is_hint(line: str) -> bool:
    return line.startswith("  ") and not line.strip().startswith("•")


def _last_line(lines: Sequence[str]) -> int:
    return next((number for number in range(len(lines) - 1, -1, -1) if lines[number].strip()), -1)


def _framed_prompt(lines: Sequence[str], at: int) -> bool:
    """A `>` right under a border, in a frame that is closed below."""
    if at == 0 or not _FRAME.search(lines[at - 1]) or not _inside(lines[at]).startswith(">"):
        return False
    return any(_FRAME.search(line) for line in lines[at + 1 :])


def _line_prompt(lines: Sequence[str], at: int, prompt: re.Pattern[str]) -> bool:
    """A prompt without a frame, at the very end: bare, or behind a rule with something typed."""
    if at != _last_line(lines):
        return False
    if prompt.fullmatch(lines[at].rstrip()):
        return True
    return at > 0 and _is_border(lines[at - 1]) and prompt.match(lines[at]) is not None


def _one_line_box(lines: Sequence[str], at: int) -> bool:
    border, content, foot = lines[at : at + 3]
    if not (_is_border(border) and _is_border(foot)) or not any(side in content for side in "|│❯"):
        return False
    if any(_is_border(line) for line in lines[at + 3 :]):  # the first of several: a dialogue
        return False
    if _inside(content).startswith(_BOX_GLYPHS):
        return True
    if _TABLE_RULE.search(border) or _TABLE_RULE.search(foot):
        return False
    # An input box is as wide as the screen; a drawing in a reply seldom is, unless nothing else is there.
    widest = max(cell_width(line.rstrip()) for line in lines[-_COMPARED_LINES:])
    return cell_width(border.rstrip()) >= max(_NARROWEST, widest - _UNDRAWN_EDGE)


def _bar_box(lines: Sequence[str]) -> int:
    """A box of half blocks with a bar at its left and nothing at its right."""
    count = len(lines)
    for foot in range(count - 1, max(count - _BOX_LINES, 0) - 1, -1):
        if not lines[foot].strip().startswith(_BAR_FOOT):
            continue
        head = foot - 1
        while head > 0 and lines[head].strip().startswith("┃"):
            head -= 1
        return head if head >= 0 and lines[head].strip().startswith(_BAR_HEAD) else count
    return count


def _gemini_head(lines: Sequence[str], start: int) -> int:
    """Above the box there may be a rule, with hints below it and to the right above it."""
    for rule in range(start, max(start - _GEMINI_HINTS, 0) - 1, -1):
        if _RULE.fullmatch(lines[rule].strip()):
            return rule - 1 if rule > 0 and lines[rule - 1].rstrip().endswith("? for shortcuts") else rule
    return start


def _gemini_prompt(lines: Sequence[str], at: int) -> bool:
    """Without true colour the frame is blank, and only the rule above it is left."""
    if not lines[at].startswith(" > ") or (at > 0 and lines[at - 1].strip()):
        return False
    return _gemini_head(lines, at) < at


def _claude_head(lines: Sequence[str], start: int) -> int:
    """Right above the box, at its right end, there may be a hint. A reply does not touch the box."""
    hint = lines[start - 1].rstrip() if start > 0 else ""
    width = cell_width(lines[start].rstrip())
    begins, ends = len(hint) - len(hint.lstrip()), cell_width(hint)
    return start - 1 if begins > width / 2 and ends + _UNDRAWN_EDGE >= width else start


def _aider_head(lines: Sequence[str], start: int) -> int:
    """Between the rule and the prompt are the files that it works on."""
    for at in range(start, -1, -1):
        if _RULE.fullmatch(lines[at].strip()):
            return at
        if not lines[at].strip():
            break
    return start


def _generic(lines: Sequence[str], agent_type: str) -> int:
    count = len(lines)
    prompt = _LINE_PROMPTS.get(agent_type)
    for at in range(count - 1, max(count - _PROMPT_LINES, 0) - 1, -1):
        is_prompt = _framed_prompt(lines, at) or (prompt is not None and _line_prompt(lines, at, prompt))
        if not is_prompt and agent_type in ("goose", "custom"):
            is_prompt = _GOOSE_PROMPT.match(lines[at].lstrip()) is not None
        if not is_prompt and agent_type == "gemini":
            is_prompt = _gemini_prompt(lines, at)
        if is_prompt:
            start = at - 1 if at > 0 and _may_be_head(lines[at - 1]) else at
            return _HEADS[agent_type](lines, start) if agent_type in _HEADS else start
    for at in range(count - 3, max(count - _BOX_LINES, 0) - 1, -1):
        if _one_line_box(lines, at):
            return _HEADS[agent_type](lines, at) if agent_type in _HEADS else at
    return _bar_box(lines)


_HEADS: dict[str, Callable[[Sequence[str], int], int]] = {
    "aider": _aider_head,
    "claude": _claude_head,
    "gemini": _gemini_head,
}
"""Finds the first line of what belongs to the box above it."""


def _opencode(lines: Sequence[str]) -> int:
    for at in range(len(lines) - 1, _OPENCODE_HEIGHT - 1, -1):
        if lines[at].strip().startswith(_OPENCODE_FOOT):
            return at - _OPENCODE_HEIGHT
    return len(lines)


def _amp(lines: Sequence[str]) -> int:
    foot_from = max(_last_line(lines) + 1 - _AMP_LINES, 0)
    in_box = False
    for at in range(len(lines) - 1, -1, -1):
        line = lines[at].strip()
        in_box = in_box or (at >= foot_from and line.startswith("╰") and line.endswith("╯"))
        if in_box and line.startswith("╭") and line.endswith("╮"):
            return at
    return len(lines)


def _pi(lines: Sequence[str]) -> int:
    """Two rules with nothing at their sides; the upper one may say what it is doing."""
    rules = [at for at in range(max(len(lines) - _BOX_LINES, 0), len(lines)) if _is_border(lines[at])]
    return rules[-2] if len(rules) > 1 and _RULE.fullmatch(lines[rules[-1]].strip()) else len(lines)


def _without_codex_box(lines: list[str]) -> str:
    """Keeps a single line below the box, which names the model and the remaining context."""
    if len(lines) >= 3 and lines[-3].lstrip().startswith("›"):
        return "\n".join([*lines[:-3], lines[-1]])
    for at in range(len(lines) - 4, max(len(lines) - 3 - _CODEX_FOOT_LINES, -1), -1):
        foot = lines[at + 2 :]
        if lines[at].startswith("›") and not lines[at + 1].strip() and all(_is_hint(line) for line in foot):
            return "\n".join(lines[:at])
    return "\n".join(lines)


def _without_amp_box(lines: list[str]) -> str:
    start = _amp(lines)
    above = "\n".join(lines[:start])
    return above if start == len(lines) or above.strip() else "Welcome to Amp"


_OWN_BOXES: dict[str, Callable[[list[str]], str]] = {
    "codex": _without_codex_box,
    "opencode": lambda lines: "\n".join(lines[: _opencode(lines)]),
    "amp": _without_amp_box,
    "pi": lambda lines: "\n".join(lines[: _pi(lines)]),
}

_GENERIC_BOXES = {"claude", "goose", "aider", "auggie", "amazonq", "gemini", "copilot", "cursor", "custom"}


def has_known_box(agent_type: str) -> bool:
    return agent_type in _OWN_BOXES or agent_type in _GENERIC_BOXES


def remove_box(agent_type: str, text: str) -> str:
    """The text above the agent's input box; unchanged where there is none."""
    lines = text.split("\n")
    if own := _OWN_BOXES.get(agent_type):
        return own(lines)
    return "\n".join(lines[: _generic(lines, agent_type)]) if agent_type in _GENERIC_BOXES else text
