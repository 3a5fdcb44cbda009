"""A question with all that its panel needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ostler.extensions.showing.theme_colors import ThemeColors
from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.drawing.boxes import NARROW, framed
from ostler.faces.tui.questions import OpenQuestions
from ostler.vocabulary.events import QuestionAsked
from ostler.vocabulary.outcomes import Question


class Asked(NamedTuple):
    questions: OpenQuestions
    event: QuestionAsked
    draw: BlockRows
    cwd: Path
    """Where the paths of a call begin."""
    who: Callable[[], str]
    """The child that asks; empty for the session itself."""

    @property
    def question(self) -> Question:
        return self.event.question

    @property
    def details(self) -> dict[str, Any]:
        return self.question.details or {}

    @property
    def colors(self) -> ThemeColors | None:
        return self.draw.colors

    def framed(self, rows: Sequence[str], width: int) -> list[str]:
        behind = self.questions.behind
        return framed(
            rows,
            width,
            self.colors,
            title="?",
            about=" · ".join(one for one in (self.event.asked_by, self.who()) if one),
            note=f"{behind} more" if behind else "",
            slot="warning",
        )


def room_inside(width: int, most: int) -> int:
    """Rows inside of the frame."""
    return max(2, most - (1 if width <= NARROW else 2))
