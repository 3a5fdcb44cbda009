"""The last row of the terminal: what happens, with which model, at what cost, in how full a context."""

from __future__ import annotations

from pathlib import Path

import msgspec
from rich.cells import cell_len

from ostler.kernel.user_paths import below_home
from ostler.runs.costs import dollars

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FULL, _NEARLY_FULL = 0.9, 0.7
_UNUSUAL = {"read-only": "only reads", "edit": "edits unasked", "full": "asks nothing"}
"""Profiles that are told; to ask is what is expected."""
_LONG_PLACE = 30
"""Cells, from which on only the end of it is shown."""


class Meters(msgspec.Struct, frozen=True):
    """What the status shows."""

    model: str
    cwd: Path
    branch: str = ""
    reasoning: str = ""
    activity: str = ""
    """What is happening; empty while nothing is."""
    seconds: float = 0.0
    """Since when."""
    run_seconds: float = 0.0
    run_cost: float = 0.0
    """Of the run under way, its children included."""
    tokens: int = 0
    """Of the session and its children, both ways."""
    cost: float | None = 0.0
    context: int = 0
    """Tokens that the model was told at last."""
    window: int = 0
    """How many it can be told; 0 if nobody knows."""
    budget: str = ""
    """What is left of it."""
    waiting: int = 0
    """Prompts that wait for their turn."""
    notes: tuple[str, ...] = ()
    """Of extensions."""
    permissions: str = ""
    """The profile; empty where another process decides."""


class Part(msgspec.Struct, frozen=True):
    text: str
    slot: str = "muted"
    """Of the theme."""
    give_way: int = 0
    """Where there is no room, those with the highest number go first."""


def short(tokens: int) -> str:
    """`42`, `2.7k`, `35k`, `1.1M`."""
    for limit, divisor, unit in ((1_000, 1, ""), (1_000_000, 1_000, "k"), (10**12, 1_000_000, "M")):
        if tokens < limit:
            number = tokens / divisor
            return f"{number:.0f}{unit}" if number >= 10 or not unit else f"{number:.1f}{unit}"
    return f"{tokens:.0e}"


def elapsed(seconds: float) -> str:
    """`4 s`, `2:05`, `1:02:05`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def activity_parts(meters: Meters, frame: int, hint: str = "") -> list[Part]:
    """The row above the line to type in, while something is under way."""
    if not meters.activity:
        return []
    turning = SPINNER[frame % len(SPINNER)]
    parts = [Part(f"{turning} {meters.activity} · {elapsed(meters.seconds)}", "accent")]
    run = [elapsed(meters.run_seconds)] if meters.run_seconds - meters.seconds >= 1 else []
    run += [dollars(meters.run_cost)] if meters.run_cost else []
    if run:
        parts.append(Part(f"run {' · '.join(run)}", "muted", 1))
    return [*parts, Part(hint, "very_muted", 2)] if hint else parts


def status_parts(meters: Meters) -> list[Part]:
    """The last row, from left to right."""
    parts = [Part(_place(meters.cwd), "muted", 3)]
    if meters.branch:
        parts.append(Part(meters.branch, "muted", 5))
    parts += [Part(note, "info", 6) for note in meters.notes]
    thinks = f" · {meters.reasoning}" if meters.reasoning not in ("", "off") else ""
    parts.append(Part(f"{meters.model}{thinks}", "secondary", 1))
    if meters.permissions in _UNUSUAL:
        parts.append(Part(_UNUSUAL[meters.permissions], "warning", 3))
    if meters.waiting:
        parts.append(Part(f"{meters.waiting} waiting", "warning", 2))
    if meters.tokens:
        price = "" if meters.cost is None else f" · {dollars(meters.cost)}"
        parts.append(Part(f"{short(meters.tokens)}{price}", "muted", 4))
    if meters.window:
        share = meters.context / meters.window
        slot = "error" if share >= _FULL else "warning" if share >= _NEARLY_FULL else "muted"
        parts.append(Part(f"{share:.0%} of {short(meters.window)}", slot, 2))
    if meters.budget:
        parts.append(Part(meters.budget, "warning", 2))
    return parts


def fitting(parts: list[Part], width: int, between: str = "  ") -> list[Part]:
    """As many as there is room for; the last that is left is cut."""
    kept = list(parts)
    while len(kept) > 1 and _width(kept, between) > width:
        kept.remove(max(reversed(kept), key=lambda part: part.give_way))
    if kept and _width(kept, between) > width:
        kept[0] = msgspec.structs.replace(kept[0], text=_cut(kept[0].text, width))
    return kept


def _width(parts: list[Part], between: str) -> int:
    return sum(cell_len(part.text) for part in parts) + cell_len(between) * max(0, len(parts) - 1)


def _cut(text: str, width: int) -> str:
    while text and cell_len(text) + 1 > width:
        text = text[:-1]
    return f"{text}…" if width > 0 else ""


def _place(cwd: Path) -> str:
    place = below_home(cwd) or str(cwd)
    return place if cell_len(place) <= _LONG_PLACE else f"…/{cwd.name}"
