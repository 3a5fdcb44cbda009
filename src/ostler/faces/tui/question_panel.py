"""The panel that shows what is asked, and takes the answer."""

from __future__ import annotations

from ostler.faces.tui.block_rows import BlockRows
from ostler.faces.tui.questions import OpenQuestions

_MOVES = {"up": -1, "shift+tab": -1, "down": 1, "tab": 1}


class QuestionPanel:
    """Open as long as something is asked. What has no options is answered in the line to type in."""

    def __init__(self, questions: OpenQuestions, draw: BlockRows) -> None:
        self._questions = questions
        self._draw = draw

    @property
    def takes_text(self) -> bool:
        return bool(self._questions.options)

    def rows(self, width: int, most: int) -> list[str]:
        return self._draw.question(self._questions, width)[-most:]

    def takes(self, key: str) -> bool:
        return key == "esc" or (bool(self._questions.options) and (key == "enter" or key in _MOVES))

    def key(self, key: str) -> None:
        questions = self._questions
        answers = [answer for answer, _ in questions.options]
        if key == "esc":
            questions.decline()
        elif key == "enter":
            questions.choose()
        elif key in _MOVES:
            questions.move(_MOVES[key])
        elif key.isdigit() and 0 < int(key) <= len(answers):
            questions.choose(int(key) - 1)
        elif answers[:2] == ["yes", "no"] and key in ("y", "n"):
            questions.choose("yn".index(key))
