"""Chips stand out in the line."""

from __future__ import annotations

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from ostler.faces.tui.input_line import InputLine


class ChipStyle(Processor):
    def __init__(self, line: InputLine) -> None:
        self._line = line

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments: StyleAndTextTuples = explode_text_fragments(transformation_input.fragments)
        for begin, end in self._line.chips.spans(fragment_list_to_text(fragments)):
            for place in range(begin, end):
                style, text, *_ = fragments[place]
                fragments[place] = (f"{style} reverse", text)
        return Transformation(fragments)
