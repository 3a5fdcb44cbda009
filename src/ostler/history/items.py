"""What a call is about, in one line: as its tool wants it shown, or the telling part of its arguments."""

from __future__ import annotations

from ostler.permissions.rules import preview, preview_line
from ostler.schema.events import ToolCalled


def about_call(called: ToolCalled) -> str:
    title = called.display.title_for(called.arguments) if called.display else ""
    return preview_line(title) if title else preview(called.name, called.arguments)
