"""What can be typed, said in the empty line of a terminal that has just been opened."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

HINT = ("say what to do", ", / for commands", ", @ for files")
_PROMPT = 3
"""Columns that the prompt takes, and the cursor."""


class EmptyHint(Processor):
    """Behind the cursor, until something is typed."""

    def __init__(self, is_due: Callable[[], bool]) -> None:
        self._is_due = is_due

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        if transformation_input.document.text or not self._is_due():
            return Transformation(fragments)
        hint, room = "", transformation_input.width - _PROMPT
        for more in HINT:
            if len(hint + more) > room:
                break
            hint += more
        return Transformation([*fragments, ("dim", hint)])
