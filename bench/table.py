"""The rows of the table: measuring sides in turn, goals, and the Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


class Row(NamedTuple):
    """One measure. The goal is about `compared`, a ratio or a plain figure."""

    name: str
    ours: float | None
    reference: float | None
    unit: str
    compared: float | None
    goal: str
    ok: bool
    note: str = ""


def interleaved(rounds: int, **sides: Callable[[], Sequence[float]]) -> dict[str, list[float]]:
    """Measures each side in turn, so that a busy machine slows all alike, and returns the medians.

    A side returns one figure for each thing that it measures. Each side has a warm-up round that does not
    count, and the order is reversed after each round.
    """
    results: dict[str, list[Sequence[float]]] = {name: [] for name in sides}
    for side in sides.values():
        side()
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            results[name].append(sides[name]())
        order.reverse()
    return {
        name: [median(column) for column in zip(*figures, strict=True)] for name, figures in results.items()
    }


def ratio_row(
    name: str, ours: float, reference: float, unit: str, relation: Literal["≤", "≥"], goal: float
) -> Row:
    ratio = ours / reference
    ok = ratio <= goal if relation == "≤" else ratio >= goal
    return Row(name, ours, reference, unit, ratio, f"{relation} {goal:g} ×", ok)


def limit_row(name: str, ours: float, unit: str, goal: float, reference: float | None = None) -> Row:
    """An upper limit; with a reference, a limit of the difference from it."""
    figure = ours if reference is None else ours - reference
    plus = "" if reference is None else "+"
    return Row(name, ours, reference, unit, figure, f"≤ {plus}{goal:g} {unit}", figure <= goal)


def skipped_row(name: str, reason: str) -> Row:
    return Row(name, None, None, "", None, "", True, f"skipped: {reason}")


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| measure | Ostler | reference | compared | goal | |", "|---|---:|---:|---:|---|---|"]
    for row in rows:
        result = row.note if row.compared is None else ("met" if row.ok else "**missed**")
        cells = [
            row.name,
            _figure(row.ours, row.unit),
            _figure(row.reference, row.unit),
            _compared(row),
            row.goal,
            result,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_between_marks(path: Path, text: str) -> None:
    """Replaces the text between the two marks of a page."""
    page = path.read_text(encoding="utf-8")
    if BEGIN not in page or END not in page:
        raise SystemExit(f"{path} lacks the lines {BEGIN} and {END}; the table goes between them")
    before, _, old = page.partition(BEGIN)
    _, _, after = old.partition(END)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}"


def _compared(row: Row) -> str:
    if row.compared is None:
        return ""
    if row.goal.endswith("×"):
        return f"{row.compared:.2f} ×"
    plus = "+" if row.reference is not None and row.compared >= 0 else ""
    return plus + _figure(row.compared, row.unit)
