"""Reports of progress that an agent makes through a tool: noise on the screen, taken out of the message."""

from __future__ import annotations

_CLAUDE_OPENS = "coder - coder_report_task (MCP)"
_CLAUDE_CLOSES = '"message": "Thanks for reporting!"'
_CODEX_CALL = "•Called"
_CODEX_OPENS = "Coder.coder_report_task"
_CODEX_CLOSES = '{"message": "Thanks for reporting!"}'


def split_tool_calls(agent_type: str, text: str) -> tuple[str, list[str]]:
    """The text without such calls, and the calls that are complete, the last one first."""
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
    kept, calls = _cut(lines, ranges)
    return kept.lstrip("\n"), calls


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
    kept, calls = _cut(lines, ranges)
    return kept.rstrip("\n"), calls


def _cut(lines: list[str], ranges: list[tuple[int, int, bool]]) -> tuple[str, list[str]]:
    calls = []
    for start, end, complete in reversed(ranges):
        if complete:
            calls.append("\n".join(lines[start:end]))
        del lines[start:end]
    return "\n".join(lines), calls
