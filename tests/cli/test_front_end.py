"""Output and dialogs of extensions on the command line, in real processes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import textwrap
from typing import Any

import pytest

from ostler.cli.output import print_printed
from ostler.schema.events import Printed
from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, finish, read_terminal, use
from tests.support.fixtures import Serve

NOISY = """
    import os, subprocess, sys
    from ostler.extensions.ui.types import Widget
    from ostler.schema.events import StepStarted

    print("noise: at import")

    def setup(ostler):
        print("noise: in setup")

        @ostler.on(StepStarted)
        def begin(step, context):
            print("noise: in a handler")
            os.write(1, b"noise: to the descriptor\\n")
            sys.__stdout__.write("noise: to the first stream\\n")
            sys.__stdout__.flush()
            subprocess.run(["echo", "noise: of a child"], check=True)
            context.print("said plainly")
            context.print_info("said")
            context.print_error("complained")
            context.print_block("framed\\ntext", title="about it")
            context.ui.set_widget(Widget("one", "shown"))
"""

NOISES = ("at import", "in setup", "in a handler", "to the descriptor", "to the first stream", "of a child")

GATE = """
    from ostler.core.hooks import Refuse

    def setup(ostler):
        @ostler.before_tool
        def gate(call, context):
            said = context.wait(context.ui.confirm("May it be read?"))
            return None if said.value else Refuse("cancelled" if said.cancelled else "no")
"""


def extension(ostler: Ostler, text: str) -> tuple[str, str]:
    path = ostler.work / "demo.py"
    path.write_text(textwrap.dedent(text))
    return ("-e", str(path))


def question_from(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Reads lines until one is a question."""
    assert process.stdout is not None
    while True:
        line: dict[str, Any] = json.loads(process.stdout.readline())
        if line["type"] == "question_asked":
            return line


def test_standard_output_has_only_the_answer(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("the answer"))
    ran = ostler("-p", *use(vendor), *extension(ostler, NOISY), "go")
    assert (ran.code, ran.out) == (0, "the answer\n"), ran.err
    assert [noise for noise in NOISES if f"noise: {noise}\n" not in ran.err] == []
    printed_lines = [
        "said plainly",
        "demo: said",
        "demo: error: complained",
        "│ framed",
        "│ text",
        "╰ about it",
    ]
    assert [line for line in ran.err.splitlines() if line in printed_lines] == printed_lines


def test_json_lines_include_what_extensions_print(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("the answer"))
    ran = ostler("-p", "--json", *use(vendor), *extension(ostler, NOISY), "go")
    assert ran.code == 0, ran.err
    assert [one["text"] for one in ran.all("printed")] == [
        "said plainly",
        "said",
        "complained",
        "framed\ntext",
    ]
    shown, removed = ran.all("live_value")
    assert (shown["name"], shown["value"]["text"]) == ("widget:demo/one", "shown")
    assert removed == {"type": "live_value", "name": "widget:demo/one"}
    assert "noise" not in ran.out
    assert "noise: of a child\n" in ran.err


def test_a_dialog_without_a_person_is_cancelled(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("text")
    vendor = serve(turn(call("read", {"path": "a.txt"})), turn("done"))
    ran = ostler("-p", "--json", *use(vendor), *extension(ostler, GATE), "go")
    assert ran.all("tool_result")[0]["content"][0]["text"].endswith("cancelled")
    assert ran.all("question_asked") == []


@pytest.mark.parametrize(("answer", "outcome"), [("yes", "text"), ("no", "no")])
def test_a_dialog_of_a_waiting_run_is_answered_by_another_process(
    ostler: Ostler, serve: Serve, answer: str, outcome: str
) -> None:
    (ostler.work / "a.txt").write_text("text")
    vendor = serve(turn(call("read", {"path": "a.txt"})), turn("done"))
    options = ("-p", "--json", "--on-question", "wait", *use(vendor), *extension(ostler, GATE))
    process = ostler.start(*options, "go")
    asked = question_from(process)
    assert asked["question"]["details"] == {"dialog": "confirm", "default": False, "extension": "demo"}
    answered = ostler("answer", asked["session"], answer)
    assert answered.code == 0, answered.err
    ran = finish(process)
    assert ran.code == (0 if answer == "yes" else 4), ran.err
    assert outcome in ran.all("tool_result")[0]["content"][0]["text"]
    assert [(one["outcome"], one["answer"]) for one in ran.all("question_answered")] == [("answered", answer)]


def test_a_dialog_of_a_command_is_answered_by_another_process(ostler: Ostler) -> None:
    asks = """
        def setup(ostler):
            @ostler.command("ask")
            async def ask(arguments, context):
                return (await context.ui.input("Who?")).value
    """
    options = ("--json", "--on-question", "wait", "--model", "demo", *extension(ostler, asks))
    process = ostler.start("-p", *options, "/ask")
    answered = ostler("answer", question_from(process)["session"], "Ada")
    assert answered.code == 0, answered.err
    ran = finish(process)
    assert ran.code == 0, ran.err
    assert [(one["type"], one.get("answer") or one["text"]) for one in ran.lines] == [
        ("question_answered", "Ada"),
        ("command_ran", "Ada"),
    ]


def test_an_extension_may_end_the_run(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn(call("read", {"path": "a.txt"})), turn("never"))
    leaves = """
        from ostler.schema.events import ToolStarted

        def setup(ostler):
            @ostler.before_tool
            def leave(call, context):
                context.exit()
    """
    ran = ostler("-p", "--json", *use(vendor), *extension(ostler, leaves), "go")
    assert ran.code == 130, ran.err
    assert ran.all("run_ended")[0]["reason"] == "an extension left"


def test_control_characters_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_printed(Printed("\x1b[2Jgone", "plain", "demo"))
    print_printed(Printed("text", "block", "demo", "\x07title"))
    assert capsys.readouterr().err == "\ufffd[2Jgone\n│ text\n╰ \ufffdtitle\n"


def test_the_front_end_knows_the_size_of_the_terminal(ostler: Ostler) -> None:
    sized = """
        def setup(ostler):
            @ostler.command("size")
            def size(arguments, context):
                return str(context.ui.size())
    """
    options = ("-p", "--model", "demo", *extension(ostler, sized), "/size")
    assert ostler(*options).out == "(0, 0)\n"
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        process = ostler.start(*options, stdout=theirs)
        os.close(theirs)
        assert read_terminal(ours) == b"(100, 30)\r\n"
        finish(process)
    finally:
        os.close(ours)
