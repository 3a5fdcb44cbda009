"""What is loaded before the first frame: only what it needs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ostler.testkit.vendors import FakeVendor, turn
from ostler.tui.terminal_ui import LATER
from tests.support.command import Ostler, use, wait_until
from tests.support.fixtures import Serve
from tests.tui.terminal import Terminal

PROGRAM = """
import os, sys
from pathlib import Path

from ostler.main import main
from ostler.tui.inline_app import InlineApp

end_frame = InlineApp._end_frame
notes = Path(os.environ["NOTES"])

def end_and_note(app, sender):
    end_frame(app, sender)
    name = "later" if (notes / "first").exists() else "first"
    (notes / f"{name}.part").write_text("\\n".join(sys.modules))
    (notes / f"{name}.part").rename(notes / name)

InlineApp._end_frame = end_and_note
main()
"""

UNSEEN = {
    "ctypes",
    "markdown_it",
    "pygments",
    "httpx2",
    "http",
    "difflib",
    "ostler.core.loop",
    "ostler.models.endpoint",
    "ostler.models.wires.chat_stream",
    "ostler.sessions.children",
    "ostler.tools.read",
    "ostler.tools.bash",
    "ostler.cli.output",
    "ostler.tui.commands.sessions",
    "ostler.tui.panels.picker",
    "ostler.tui.panels.question",
    "ostler.app.project_files",
    "ostler.tui.editor.completion",
    "ostler.tui.editor.paste",
    "ostler.tui.render.code",
    "ostler.tui.render.call_arguments",
}
"""Each is needed for something that a person does, or that a model answers."""


@contextmanager
def traced(ostler: Ostler, vendor: FakeVendor, notes: Path, *arguments: str) -> Iterator[Terminal]:
    """A terminal whose frames record the loaded modules."""
    notes.mkdir()
    environment = ostler.environment({"LANG": "C.UTF-8", "NOTES": str(notes)})
    command = [sys.executable, "-c", PROGRAM, *use(vendor), *arguments]
    with Terminal(command, environment=environment, cwd=ostler.work) as terminal:
        yield terminal


def loaded(note: Path) -> set[str]:
    return set(note.read_text().splitlines()) if note.exists() else set()


def loaded_first(notes: Path) -> set[str]:
    wait_until(lambda: (notes / "first").exists())
    return loaded(notes / "first")


def test_the_first_frame_loads_only_what_it_needs(ostler: Ostler, serve: Serve, tmp_path: Path) -> None:
    vendor = serve(turn("Plain words for an answer."))
    with traced(ostler, vendor, notes := tmp_path / "new") as terminal:
        terminal.wait_for("openai/fake")
        assert not (UNSEEN | {"ostler.tui.render.markdown_stream"}) & loaded_first(notes)
        terminal.type("hello")
        wait_until(lambda: set(LATER) <= loaded(notes / "later") or terminal.type("!"))
        terminal.press("enter")
        terminal.wait_for("Plain words for an answer.")
        terminal.wait_for("completed")
        terminal.press("ctrl+d")
        assert terminal.wait_for_end() == 0

    with traced(ostler, vendor, notes := tmp_path / "again", "--continue") as terminal:
        terminal.wait_for("openai/fake")
        assert "Plain words for an answer." in terminal.everything()
        assert not UNSEEN & loaded_first(notes)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for("again")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait_for_end() == 0
