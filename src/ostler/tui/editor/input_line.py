"""The input line: its text and chips, the prompt history, its hint while empty, and `$EDITOR`."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from ostler.core.lazy import lazy_module
from ostler.core.processes import find_program
from ostler.schema.errors import UsageError
from ostler.tools.truncation import without_surrogates
from ostler.tui.editor.chips import Chips, Picture, PromptDraft
from ostler.tui.editor.prompt_history import PromptHistory

if TYPE_CHECKING:
    from ostler.tui.editor import paste
else:
    paste = lazy_module("ostler.tui.editor.paste")


class InputLine:
    """The input line, of any number of rows. `on_typed` is called when a person changes or sends it."""

    def __init__(self, history: PromptHistory) -> None:
        self.buffer = Buffer(multiline=True)
        self.chips = Chips()
        self.history = history
        self.on_typed: Callable[[], None] = lambda: None
        self.pasting: asyncio.Future[int] | None = None
        """A paste that is being checked for dropped files."""
        self._number = -1
        """The shown prompt of the history; -1 for the draft."""
        self._draft = PromptDraft("", self.chips)
        self._is_put = False
        self.buffer.on_text_changed += self._changed
        self.buffer.on_cursor_position_changed += self._moved

    @property
    def text(self) -> str:
        return self.buffer.text

    def take(self) -> PromptDraft:
        """Takes the draft and clears the line."""
        typed = PromptDraft(self.text, self.chips)
        self.chips = Chips()
        self._number = -1
        with self._putting():
            self.buffer.reset()
        self.on_typed()
        return typed

    def put(self, draft: PromptDraft) -> None:
        """Replaces the line."""
        self.chips = draft.chips
        self._show(draft.text)

    def put_back(self, draft: PromptDraft) -> bool:
        """Restores a draft unless something else is typed; False then."""
        if not self.text:
            self.put(draft)
        return self.text == draft.text

    def replace(self, begin: int, end: int, text: str, cursor: int) -> None:
        """Replaces a part, and sets the cursor."""
        self.buffer.save_to_undo_stack()
        whole = self.text[:begin] + text + self.text[end:]
        self.buffer.document = Document(whole, cursor)

    def insert(self, text: str) -> None:
        self.buffer.save_to_undo_stack()
        self.buffer.insert_text(text)

    def delete_chip(self) -> bool:
        """Deletes a chip that ends at the cursor; False without one."""
        at = self.buffer.cursor_position
        begin = next((begin for begin, end in self.chips.spans(self.text) if end == at), None)
        if begin is not None:
            self.replace(begin, at, "", begin)
        return begin is not None

    # --- pasting ----------------------------------------------------------------------------------------

    def paste(self, pasted: str, cwd: Path) -> None:
        if paste.may_be_dropped(pasted):
            before = self.pasting if self.pasting is not None and not self.pasting.done() else None
            at = self.buffer.cursor_position
            self.pasting = asyncio.ensure_future(self._drop(pasted, at, before, cwd))
        else:
            self.insert(self.chips.paste(pasted))

    async def _drop(self, pasted: str, at: int, before: asyncio.Future[int] | None, cwd: Path) -> int:
        """Inserts a drop or paste before later keys. Returns how many letters it and earlier pastes added."""
        chips = self.chips
        added = await before if before is not None else 0
        at = min(at + added, len(self.text))
        pieces = await asyncio.to_thread(paste.insertion, pasted, self.text[:at], cwd)
        text = "".join(chips.add_picture(one) if isinstance(one, Picture) else one for one in pieces)
        text = text or chips.paste(pasted)
        at = min(at, len(self.text))
        self.replace(at, at, text, self.buffer.cursor_position + len(text))
        return added + len(text)

    # --- history ----------------------------------------------------------------------------------------

    def older(self) -> None:
        """Shows the previous prompt of the history."""
        if self._number < 0 and self.history.get(0) is not None:
            self._draft = PromptDraft(self.text, self.chips)
        self._show_entry(self._number + 1)

    def newer(self) -> None:
        """Shows the next prompt; after the newest, the draft."""
        if self._number > 0:
            self._show_entry(self._number - 1)
        elif self._number == 0:
            self.put(self._draft)

    def _show_entry(self, number: int) -> None:
        if (entry := self.history.get(number)) is not None:
            self.chips = Chips()
            self._show(self.chips.restored(entry))
            self._number = number

    async def add_to_history(self, draft: PromptDraft) -> None:
        """Raises `ConfigurationError` if the history cannot be written."""
        await asyncio.to_thread(self.history.add, draft.chips.to_save(draft.text))

    def _show(self, text: str) -> None:
        self._number = -1
        with self._putting():
            self.buffer.save_to_undo_stack()
            self.buffer.document = Document(text, len(text))

    @contextmanager
    def _putting(self) -> Iterator[None]:
        self._is_put = True
        try:
            yield
        finally:
            self._is_put = False

    def _changed(self, buffer: Buffer) -> None:
        if not self._is_put:
            self._number = -1
            self.on_typed()

    def _moved(self, buffer: Buffer) -> None:
        if not self._is_put:
            self.on_typed()


_USUAL = ("nano", "vi")


def editor_command() -> list[str]:
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"cannot parse the editor command {named!r}: {error}") from None
    words = words or [name for name in _USUAL if find_program(name)][:1]
    if not words:
        raise UsageError("no editor found: set VISUAL or EDITOR")
    return words


def edited(text: str, command: list[str], cwd: Path) -> str:
    """Edits a text in an editor, which has the terminal meanwhile: not for the event loop. Raises
    `UsageError` if the editor cannot start, or fails."""
    with TemporaryDirectory(prefix="ostler-") as folder:
        file = Path(folder, "prompt.md")
        file.write_text(without_surrogates(text), encoding="utf-8")
        try:
            code = subprocess.run(
                [*command, str(file)], cwd=cwd, check=False, env=dict(os.environ)
            ).returncode
            written = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
    if code:
        raise UsageError(f"{command[0]} exited with {code}: the prompt is unchanged")
    return written.removesuffix("\n")


@contextmanager
def interrupts_for_editor() -> Iterator[None]:
    """Ignores Ctrl+C, which also reaches us, while the editor runs. Only in the main thread."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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


HINTS = (
    "type a prompt, / for commands, @ for files",
    "type a prompt, / for commands",
    "type a prompt",
)
_PROMPT = 3
"""Columns of the prompt and the cursor."""


class EmptyHint(Processor):
    """A hint behind the cursor, until something is typed."""

    def __init__(self, is_due: Callable[[], bool]) -> None:
        self._is_due = is_due

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = transformation_input.fragments
        if transformation_input.document.text or not self._is_due():
            return Transformation(fragments)
        room = transformation_input.width - _PROMPT
        hint = next((one for one in HINTS if len(one) <= room), "")
        return Transformation([*fragments, ("dim", hint)])
