"""Which panel a question gets."""

from __future__ import annotations

from ostler.faces.tui.asking.asked import Asked
from ostler.faces.tui.asking.question_panel import QuestionPanel
from ostler.faces.tui.asking.typed_panels import FormPanel, TextPanel
from ostler.faces.tui.panels import Panel


def panel_for(asked: Asked) -> Panel:
    question = asked.question
    if question.kind == "permission" or question.choices:
        return QuestionPanel(asked)
    return FormPanel(asked) if question.kind == "form" else TextPanel(asked)
