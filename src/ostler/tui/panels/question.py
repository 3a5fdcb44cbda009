"""The panel of a question: one frame, and a body for each kind of answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostler.app.question_queue import DECLINED, Attention, answer_options, dialog_in
from ostler.app.remote_sessions import RemoteSessions
from ostler.extensions.ui import types as ui
from ostler.schema.events import QuestionAsked
from ostler.schema.outcomes import Question
from ostler.schema.text import cells, cut, one_line
from ostler.tui.extension_ui import MOST_ROWS
from ostler.tui.panels.choices import DIALOG_MOVES, ConsentBody, DialogBody
from ostler.tui.panels.question_forms import PENDING, FormBody, QuestionBody, TextBody
from ostler.tui.render.boxes import NARROW, framed, inside
from ostler.tui.render.items import ItemRenderer, on_background
from ostler.tui.render.spans import BOLD, REVERSE, Piece, cells_of, drawn, sgr, styled, tint

if TYPE_CHECKING:
    from ostler.tui.terminal_ui import TerminalUI

ContentRows = Callable[[str, str, ui.Rendering | None, int], list[str]]


class QuestionPanel:
    """Shows the present question of a queue, and answers it.

    Keys go to it or to the input line, as its `Attention` decides; `shift+tab` switches between both.
    """

    def __init__(self, tui: TerminalUI) -> None:
        self._tui = tui
        self._queue = tui.questions
        self._asked: QuestionAsked | None = None
        self._body: QuestionBody | None = None
        self._attention = Attention(tui.clock)
        self._was_on = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _present(self) -> QuestionBody | None:
        if self._asked is not self._queue.present:
            self._asked = self._queue.present
            self._body = self._new_body(self._asked) if self._asked else None
            self._attention, self._was_on = Attention(self._tui.clock), False
        return self._body

    def _new_body(self, asked: QuestionAsked) -> QuestionBody:
        question, conversation = asked.question, self._tui.conversation
        dialog = dialog_in(asked)
        # The files of a remote session are on another machine.
        is_remote = isinstance(conversation.store, RemoteSessions)
        cwd = None if is_remote else conversation.harness.cwd
        if isinstance(dialog, ui.OverlayDialog):
            return OverlayBody(question, dialog, self._tui.rows, cwd, self._tui.extensions.content_rows)
        body: type[QuestionBody] = FormBody if question.kind == "form" else TextBody
        if isinstance(dialog, ui.MultiSelectDialog):
            body = ManyBody
        elif isinstance(dialog, ui.InputDialog):
            body = TextBody
        elif dialog:
            body = DialogBody
        elif question.kind == "permission" or question.choices:
            body = ConsentBody
        return body(question, dialog, self._tui.rows, cwd)

    # --- drawing ----------------------------------------------------------------------------------------

    @property
    def anchor(self) -> ui.Anchor:
        return body.anchor if isinstance(body := self._present, OverlayBody) else "center"

    @property
    def is_large(self) -> bool:
        """It may take most of the screen, so that a person sees what would happen."""
        return isinstance(self._present, ConsentBody)

    def rows(self, width: int, most: int) -> list[str]:
        body, asked = self._present, self._asked
        if body is None or asked is None:
            return []
        self._attention.seen()
        hint = self._hint()
        if isinstance(body, OverlayBody):
            return body.window(width, most)
        height = max(2, most - (1 if width <= NARROW else 2))
        body.hint = hint
        rows, about = body.rows(inside(width), height), (body.question.details or {}).get("extension", "")
        if not body.dialog:
            about = " · ".join(filter(None, (asked.asked_by, self._queue.asking_child(asked.id))))
        note = f"{self._queue.behind} more" if self._queue.behind else ""
        slot = "accent" if body.dialog else "warning"
        return framed(rows, width, body.colors, title="?", about=about, note=note, slot=slot)[:most]

    def _hint(self) -> str:
        """What is shown in place of the keys that count, while keys are for the input line."""
        if self._focused is not None:
            return ""
        if self._tui.composer.line.text or self._attention.is_chosen:
            return "shift+tab answers this · enter sends what you type"
        if self._timer is None:
            left = self._attention.seconds_left
            self._timer = asyncio.get_running_loop().call_later(left, self._refresh)
        return "wait a moment: what you type now goes to the input line"

    def _refresh(self) -> None:
        self._timer = None
        self._tui.app.refresh()

    # --- keys -------------------------------------------------------------------------------------------

    @property
    def _focused(self) -> QuestionBody | None:
        """The question, if keys are for it."""
        body, panels = self._present, self._tui.panels
        has_draft = bool(self._tui.composer.line.text)
        is_on = self._attention.is_on_question(has_draft=has_draft, is_busy=panels.is_used_below)
        if body is not None and self._was_on and not is_on:
            body.leave()
        self._was_on = is_on
        return body if is_on else None

    @property
    def is_noticed(self) -> bool:
        return self._focused is not None

    @property
    def takes_text(self) -> bool:
        return self._focused is not None

    @property
    def takes_pastes(self) -> bool:
        return self._focused is not None and self._focused.takes_pastes

    def takes(self, key: str) -> bool:
        if self._present is None:
            return False
        if (body := self._focused) is not None:
            return key in ("esc", "shift+tab") or body.takes(key)
        # Too early for an answer, and not meant for an empty line either.
        is_early = not self._tui.composer.line.text and not self._attention.is_chosen
        return key == "shift+tab" or (key in ("enter", "esc") and is_early)

    def key(self, key: str) -> None:
        body = self._focused
        if key == "shift+tab" and (body is None or not body.takes(key)):
            self._attention.toggle(has_draft=bool(self._tui.composer.line.text))
        elif body is not None:
            answer = body.escape() if key == "esc" else body.key(key)
            if answer is not PENDING:
                self._queue.answer(answer)


class ManyBody(QuestionBody):
    """Some of several."""

    def __init__(
        self, question: Question, dialog: ui.Dialog | None, draw: ItemRenderer, cwd: Path | None
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        assert isinstance(dialog, ui.MultiSelectDialog)
        self._options = dialog.options
        self._selected = set(dialog.selected)
        self._marked = 0

    @property
    def legend(self) -> str:
        return f"space selects, a all, n none, {super().legend}"

    def fields(self, room: int, most: int) -> list[str]:
        first = max(0, min(self._marked - most // 2, len(self._options) - most))
        rows = []
        for place, option in list(enumerate(self._options))[first : first + most]:
            is_marked = place == self._marked
            mark = "x" if place in self._selected else " "
            text = f"{'❯' if is_marked else ' '} [{mark}] {one_line(option)}"
            style = sgr(self.colors, "accent", BOLD) if is_marked else ""
            rows.append(drawn([Piece(cut(text, room), style)]))
        return rows

    def key(self, key: str) -> Any:
        if key == "enter":
            selected = (text for place, text in enumerate(self._options) if place in self._selected)
            return list(dict.fromkeys(selected))
        if key in DIALOG_MOVES:
            self._marked = (self._marked + DIALOG_MOVES[key]) % len(self._options)
        elif key in (" ", "x"):
            self._selected ^= {self._marked}
        elif key == "a":
            self._selected = set(range(len(self._options)))
        elif key == "n":
            self._selected = set()
        return PENDING


class OverlayBody(QuestionBody):
    """An extension's window with actions: above all that still changes, above the input line, or below it."""

    dialog: ui.OverlayDialog

    def __init__(
        self,
        question: Question,
        dialog: ui.OverlayDialog,
        draw: ItemRenderer,
        cwd: Path | None,
        content: ContentRows,
    ) -> None:
        super().__init__(question, dialog, draw, cwd)
        self._options = answer_options(question)
        self._content = content
        self._marked = 0
        self._top = 0
        self._page = 1

    @property
    def anchor(self) -> ui.Anchor:
        return self.dialog.anchor

    def window(self, width: int, most: int) -> list[str]:
        """The whole window: it has a frame of its own."""
        dialog, colors = self.dialog, self.colors
        columns, height = ui.overlay_extent(dialog, width, most)
        is_bare = width <= NARROW
        inner = columns if is_bare else columns - 2
        rows = self._content(dialog.text, dialog.markdown, dialog.render, inner)
        edges = 1 if is_bare else 2
        actions = self._actions(inner, max(1, (height - edges) // 2))
        self._page = room = max(1, height - edges - len(actions))
        self._top = max(0, min(self._top, len(rows) - room))
        more = len(rows) - self._top - room
        note = f"{more} more rows" if more > 0 else ""
        rows = [*rows[self._top : self._top + room], *actions]
        has_colors = bool(colors and colors.name)
        edge = styled(dialog.style.border) if has_colors else ""
        window = framed(
            rows,
            columns,
            colors,
            title=dialog.title,
            note=note,
            slot="accent",
            edge_style=edge,
            is_bare=is_bare,
        )
        if has_colors and (background := tint(dialog.style.background, dialog.style.background, 1.0)):
            window = [on_background(row, background, columns) for row in window]
        margin = " " * ((width - columns) // 2)
        return [f"{margin}{row}" for row in window][:most]

    def _actions(self, width: int, most: int) -> list[str]:
        """Side by side, in as many rows as they need; where not all fit, those around the marked one."""
        accent = sgr(self.colors, "accent", REVERSE)
        rows: list[list[Piece]] = [[]]
        at_marked = 0
        for place, option in enumerate(self._options):
            is_marked = place == self._marked
            action = Piece(cut(f"[{one_line(option.label)}]", width), accent if is_marked else "")
            if rows[-1] and cells_of(rows[-1]) + 1 + cells(action.text) > width:
                rows.append([])
            rows[-1] += [Piece(" "), action] if rows[-1] else [action]
            at_marked = len(rows) - 1 if is_marked else at_marked
        first = max(0, min(at_marked - most // 2, len(rows) - most))
        return [drawn(row) for row in rows[first : first + most]]

    def escape(self) -> Any:
        """A window that is only read is closed, not declined."""
        return DECLINED if self.dialog.actions else self._options[0].answer

    def key(self, key: str) -> Any:
        match key:
            case "enter":
                return self._options[self._marked].answer
            case "left" | "shift+tab" | "right" | "tab":
                by = -1 if key in ("left", "shift+tab") else 1
                self._marked = (self._marked + by) % len(self._options)
            case "up" | "down":
                self._top += 1 if key == "down" else -1
            case "pgup" | "pgdown":
                self._top += self._page if key == "pgdown" else -self._page
            case "home" | "end":
                self._top = 0 if key == "home" else MOST_ROWS
        return PENDING
