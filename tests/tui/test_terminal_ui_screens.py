"""The main screens on file at two widths, and what holds in any terminal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ostler.testkit.vendors import Think, Trouble, call, say, turn
from ostler.testkit.vendors.script import Answer
from tests.support.command import Ostler, use, wait_until
from tests.support.fixtures import Open, Serve
from tests.support.needed import program
from tests.tui.screens import check, check_text
from tests.tui.terminal import Terminal

PROGRAM = '''def longest(words: list[str]) -> str:
    """The longest of them; the first, if there are several."""
    best = ""
    for word in words:
        if len(word) > len(best):
            best = word
    return best
'''
ANSWER = f"""## The longest word

It goes through the words **once** and keeps the best so far:

```python
{PROGRAM}"""
widths = pytest.mark.parametrize("columns", [80, 40])


def held_answer(*parts: Any) -> Answer:
    """An answer that halts before its end."""
    pieces = sum(len(getattr(part, "pieces", " ")) for part in parts)
    return turn(*parts, trouble=Trouble("silence", pieces + 1))


def prompt(terminal: Terminal, text: str) -> None:
    terminal.type(text)
    terminal.press("enter")


def pieces(text: str, size: int = 12) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


@widths
def test_screen_of_a_streaming_answer(open_tui: Open, serve: Serve, columns: int) -> None:
    vendor = serve(held_answer(Think(("The simplest way ", "is one pass.")), say(*pieces(ANSWER))))
    terminal = open_tui(vendor, columns=columns)
    terminal.wait_for("openai/fake")
    check(terminal, "first-paint")
    prompt(terminal, "How do I find the longest word?")
    terminal.wait_for("return best")
    check(terminal, "streaming", title="an answer as it comes")
    terminal.press("ctrl+t")
    terminal.wait_for("The simplest way is one pass.")


@widths
def test_screen_of_a_file_being_written(open_tui: Open, serve: Serve, ostler: Ostler, columns: int) -> None:
    (ostler.work / ".git" / "HEAD").write_text("ref: refs/heads/longest-word\n")
    vendor = serve(held_answer(call("write", {"path": "longest.py", "content": PROGRAM})))
    terminal = open_tui(vendor, "--max-steps", "5", columns=columns)
    terminal.wait_for("openai/fake")
    prompt(terminal, "Write it down.")
    terminal.wait_for("writing longest.py")
    terminal.wait_for("return be")
    check(terminal, "writing", title="a file as it is written")


@widths
def test_screen_of_an_edit_being_written(open_tui: Open, serve: Serve, columns: int) -> None:
    edits = [
        {"old_text": 'best = ""\n', "new_text": 'best, at = "", 0\n'},
        {"old_text": "best = word\nreturn best", "new_text": "best, at = word, place\nreturn best, at"},
    ]
    terminal = open_tui(
        serve(held_answer(call("edit", {"path": "longest.py", "edits": edits}))), columns=columns
    )
    terminal.wait_for("openai/fake")
    prompt(terminal, "Keep its place, too.")
    terminal.wait_for("+ return b")
    check(terminal, "editing", title="a change as it is written")


@widths
def test_screen_of_tools_and_questions(open_tui: Open, serve: Serve, ostler: Ostler, columns: int) -> None:
    vendor = serve(
        turn(call("bash", {"command": "cp -r src backup && rm -r src/old"})),
        turn(
            call("write", {"path": "longest.py", "content": PROGRAM}),
            call("bash", {"command": "sh check.sh longest.py"}),
            call("bash", {"command": "sh measure.sh longest.py"}),
        ),
        turn("It is written, and **both** checks pass."),
    )
    (ostler.work / "src" / "old").mkdir(parents=True)
    for name, output in (("check.sh", "checked $1: 12 passed"), ("measure.sh", "measured $1: 0.3 ms")):
        (ostler.work / name).write_text(f"echo {output}\nuntil [ -e go ]; do sleep 0.01; done\n")
    ostler.configure("allow = ['bash', 'edit']\nask = ['bash(cp *)']")
    terminal = open_tui(vendor, columns=columns)
    terminal.wait_for("openai/fake")
    prompt(terminal, "Tidy up, then write longest.py.")
    terminal.wait_for_question()
    terminal.wait_for("waiting for you")
    check(terminal, "permission", title="it asks before it acts")
    terminal.answer("y")
    terminal.wait_for("│ checked" if columns == 80 else "\nchecked")
    check(terminal, "several-calls", title="calls one after the other")
    (ostler.work / "go").touch()
    terminal.wait_for("completed")
    check(terminal, "finished", title="a run that is done")
    terminal.resize(60, 20)
    prompt(terminal, "/help")
    terminal.wait_for_ever("/quit")
    text = terminal.everything()
    assert text.count("▌ Tidy up" if columns == 80 else "> Tidy up") == 1
    assert "both checks pass" in text


@widths
def test_screen_of_children(open_tui: Open, serve: Serve, columns: int) -> None:
    children = {
        "Read the tests.": held_answer(say("The tests\n", "look ", "sound.")),
        "Read the code.": turn("The code is fine."),
    }

    def by(request: dict[str, Any]) -> Answer:
        content = str(request["messages"][-1].get("content"))
        for task, answer in children.items():
            if task in content:
                return answer
        return turn(*(call("delegate", {"task": task}) for task in children))

    terminal = open_tui(serve(by=by), columns=columns)
    terminal.wait_for("openai/fake")
    prompt(terminal, "Have it reviewed.")
    terminal.wait_for("look sound.")
    terminal.wait_for("running delegate Read the tests.")  # the other one has ended
    check(terminal, "children", title="children at work")


def test_a_reopened_conversation_shows_its_end(open_tui: Open, serve: Serve, ostler: Ostler) -> None:
    def by(request: dict[str, Any]) -> Answer:
        last = request["messages"][-1]
        if last["role"] == "tool":
            return turn("The end of it.")
        return turn(call("bash", {"command": "echo looked; exit 3"}))

    vendor = serve(by=by)
    ostler("-p", "--yes", *use(vendor), "prompt 0")
    ostler("-p", "--yes", "--continue", *use(vendor), "prompt 1")
    terminal = open_tui(vendor, "--continue")
    screen = terminal.wait_for("openai/fake")
    assert screen.index("▌ prompt 0") < screen.index("▌ prompt 1") < screen.rindex("The end of it.")
    assert "bash echo looked; exit 3" in screen
    assert screen.count("completed") == 2


# --- in any terminal ------------------------------------------------------------------------------------


def test_the_scrollback_before_the_start_is_untouched(open_tui: Open, serve: Serve) -> None:
    """Neither the screen nor what has left it is cleared."""
    vendor = serve(turn("".join(f"line {number}\n\n" for number in range(40))))
    terminal = open_tui(vendor, before="seq -f 'before %g' 30", rows=16)
    terminal.wait_for("openai/fake")
    prompt(terminal, "Count.")
    terminal.wait_for("completed")
    terminal.press("ctrl+c", "ctrl+c")
    assert terminal.wait_for_end() == 0
    text = terminal.everything().splitlines()
    assert [line for line in text if line.startswith("before")] == [f"before {n}" for n in range(1, 31)]
    assert [line for line in text if line.startswith("line")] == [f"line {n}" for n in range(40)]


@pytest.fixture
def tmux(ostler: Ostler) -> Iterator[Tmux]:
    with TemporaryDirectory(dir="/tmp", prefix="ostler-test-") as folder:  # a socket's path must be short
        server = Tmux(program("tmux"), ostler, Path(folder, "tmux"))
        yield server
        server.run("kill-server")


class Tmux:
    """A server of its own, with one window."""

    def __init__(self, program: str, ostler: Ostler, socket: Path) -> None:
        self._command = [program, "-S", str(socket), "-f", "/dev/null"]
        self._ostler = ostler

    def run(self, *words: str) -> str:
        environment = self._ostler.environment(
            {"LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/sh"}
        )
        ran = subprocess.run(
            [*self._command, *words],
            cwd=self._ostler.home.parent,
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        return ran.stdout

    def screen(self) -> str:
        return self.run("capture-pane", "-p", "-S", "-")

    def resize(self, columns: int, rows: int) -> None:
        """Stops the program meanwhile: tmux resizes its own screen at once, but tells the program a quarter
        of a second later, and what it would draw in between cannot fit."""
        (shell,) = self.run("list-panes", "-F", "#{pane_pid}").split()
        children = Path("/proc", shell, "task", shell, "children").read_text().split()
        terminal = os.open(self.run("list-panes", "-F", "#{pane_tty}").strip(), os.O_RDWR | os.O_NOCTTY)
        try:
            os.kill(int(children[0]), signal.SIGSTOP)
            self.run("resize-window", "-x", str(columns), "-y", str(rows))
            wait_until(lambda: os.get_terminal_size(terminal) == (columns, rows))
        finally:
            os.kill(int(children[0]), signal.SIGCONT)
            os.close(terminal)

    def joined(self) -> str:
        """As it is copied: rows that the terminal itself has wrapped are one line."""
        return self.run("capture-pane", "-p", "-J", "-S", "-")

    def wait_for(self, text: str) -> str:
        """The screen that has it: the next look may fall into a frame that is being drawn."""
        screens = [""]

        def is_there() -> bool:
            screens[0] = self.screen()
            return text in screens[0]

        wait_until(is_there)
        return screens[0]


def test_the_ui_works_in_tmux_also_during_a_resize(tmux: Tmux, serve: Serve, ostler: Ostler) -> None:
    code = "".join(f"value_{n} = 'a row that is wider than the window will be'\n" for n in range(4))
    vendor = serve(turn("In **tmux**."), held_answer(say(*pieces(f"Some code:\n\n```python\n{code}"))))
    command = shlex.join([str(Path(sys.executable).parent / "ostler"), *use(vendor)])
    tmux.run("new-session", "-d", "-x", "80", "-y", "28", "-c", str(ostler.work), f"{command}; exit")
    tmux.wait_for("openai/fake")
    tmux.run("send-keys", "hello", "Enter")
    tmux.wait_for("completed")
    tmux.run("send-keys", "again", "Enter")
    tmux.wait_for("value_3")
    tmux.resize(50, 28)
    tmux.run("send-keys", "typed")
    check_text(tmux.wait_for("> typed\n…/work  openai/fake"), "tmux", 50)
    tmux.resize(50, 6)
    wait_until(lambda: "openai/fake" in tmux.run("capture-pane", "-p"))  # tmux has cut it off
    tmux.run("send-keys", "Escape")
    text = tmux.wait_for("■ cancelled")
    assert [text.count(f"value_{n}") for n in range(4)] == [1] * 4, "what was pushed above is printed again"
