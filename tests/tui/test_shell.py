"""Shell lines: the command, and whether the model reads its output."""

from __future__ import annotations

import pytest

from ostler.tui.shell import ShellLine, shell_line, without_escape


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("!ls -l", ShellLine("ls -l", is_for_model=True)),
        ("! ls", ShellLine("ls", is_for_model=True)),
        ("!!ls", ShellLine("ls", is_for_model=False)),
        ("!! make test\n", ShellLine("make test", is_for_model=False)),
        (" !export KEY=x", ShellLine("export KEY=x", is_for_model=True)),
        ("!for i in 1 2\ndo echo $i\ndone", ShellLine("for i in 1 2\ndo echo $i\ndone", is_for_model=True)),
        ("!echo !!", ShellLine("echo !!", is_for_model=True)),
        ("!!!true", ShellLine("!true", is_for_model=False)),
        ("!", ShellLine("", is_for_model=True)),
        ("!!", ShellLine("", is_for_model=False)),
    ],
)
def test_an_exclamation_mark_at_the_start_makes_a_shell_command(typed: str, line: ShellLine) -> None:
    assert shell_line(typed) == line


@pytest.mark.parametrize("typed", ["", "hello!", "\\!important", "/help", "@a !b"])
def test_other_lines_are_prompts(typed: str) -> None:
    assert shell_line(typed) is None


@pytest.mark.parametrize(
    ("typed", "text"), [("\\!important", "!important"), ("a \\! b", "a \\! b"), (" \\!\\!", " !\\!")]
)
def test_an_escaped_exclamation_mark_is_text(typed: str, text: str) -> None:
    assert without_escape(typed) == text
