"""Prompts and options of the command line, and usage errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ostler import __version__
from ostler.testkit.vendors import turn
from tests.support.command import Ostler, Ran, finish, use
from tests.support.fixtures import Serve

DEMO = ("--json", "--model", "demo", "--no-session")


def prompt_of(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    (message,) = ran.all("user_message")
    (block,) = message["content"]
    return block["text"]


@pytest.mark.parametrize(
    ("arguments", "prompt"),
    [
        (("-p", *DEMO, "what", "is", "it"), "what is it"),
        (("what", "-p", "is", "--json", "it", "--model", "demo", "--no-session"), "what is it"),
        (("-p", *DEMO, "--", "--yes", "-p", "is", "--", "no"), "--yes -p is -- no"),
        (("-p", *DEMO, " two  spaces ", "stay"), "two  spaces  stay"),
        (("-p", *DEMO, "sessions"), "sessions"),
    ],
)
def test_words_before_and_after_options_make_the_prompt(
    ostler: Ostler, arguments: tuple[str, ...], prompt: str
) -> None:
    ran = ostler(*arguments)
    assert prompt_of(ran) == prompt
    assert ran.err == ""


def test_piped_input_is_appended_to_the_words(ostler: Ostler) -> None:
    assert prompt_of(ostler("-p", *DEMO, "review", "this", piped=b"a change\n")) == "review this\n\na change"
    assert prompt_of(ostler("-p", *DEMO, piped=b"\n only piped \n")) == "only piped"
    assert prompt_of(ostler("-p", *DEMO, "nothing piped", piped=b"")) == "nothing piped"


def test_invalid_utf8_is_replaced(ostler: Ostler) -> None:
    assert prompt_of(ostler("-p", *DEMO, b"caf\xe9", piped=b"\xff!")) == "caf\ufffd\n\n\ufffd!"


def test_an_idle_pipe_is_ignored(ostler: Ostler) -> None:
    reading, writing = os.pipe()
    try:
        ran = finish(ostler.start("-p", *DEMO, "go", stdin=reading))
    finally:
        os.close(reading)
        os.close(writing)
    assert prompt_of(ran) == "go"
    assert ran.err == "ostler: standard input had no data for 1 s and is ignored\n"


def test_a_closed_input_is_empty(ostler: Ostler) -> None:
    command = 'exec "$0" -m ostler -p --json --model demo --no-session go <&-'
    process = subprocess.Popen(
        ["sh", "-c", command, sys.executable],
        cwd=ostler.work,
        env=ostler.environment({}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert prompt_of(finish(process)) == "go"


def test_an_unreadable_input_is_empty(ostler: Ostler) -> None:
    unreadable = os.open(os.devnull, os.O_WRONLY)  # what `nohup` gives its command
    try:
        assert prompt_of(finish(ostler.start("-p", *DEMO, "go", stdin=unreadable))) == "go"
        assert finish(ostler.start("-p", *DEMO, stdin=unreadable)).code == 2
    finally:
        os.close(unreadable)


REFUSED = [
    (("-p", "--model", "demo"), "there is no prompt"),
    (
        ("-p", "--yes", "--permissions", "read-only", "x"),
        "--permissions read-only cannot be combined",
    ),
    (("-p", "--model", "ollama/x", "--base-url", "http://[::1/v1", "x"), "the base URL is not an address"),
    (("-p", "--model", "demo", "  "), "there is no prompt"),
    (("-p", "--frob", "x"), "unrecognized arguments: --frob"),
    (("-p", "--mod", "demo", "x"), "unrecognized arguments: --mod"),
    (("hello",), "give a prompt or a command: `ostler -p PROMPT…`"),
    (("hello",), "; the commands are: "),
    (("sesions", "list", "--here"), "there is no command 'sesions': did you mean `ostler sessions`"),
    (("-p", "--model"), "argument --model: expected one argument"),
    (("-p", "--max-steps", "none", "x"), "argument --max-steps: 'none' is not a whole number of at least 1"),
    (("-p", "--max-steps", "0", "x"), "argument --max-steps: '0' is not a whole number of at least 1"),
    (("-p", "--permissions", "all", "x"), "argument --permissions: invalid choice: 'all'"),
    (("-p", "--continue", "--no-session", "x"), "--continue and --no-session cannot be combined"),
    (("-p", "--session", "a", "--continue", "x"), "--session and --continue cannot be combined"),
    (("-p", "--session", "", "--no-session", "x"), "--session and --no-session cannot be combined"),
    (("-p", "--no-tools", "--tools", "read", "x"), "--no-tools and --tools cannot be combined"),
    (("-p", "--model", "demo", "--cwd", "/no/such/place", "x"), "there is no directory /no/such/place"),
    (("-p", "--model", "demo", "--tools", "hammer", "x"), "no tool 'hammer'; the tools are: agent, "),
    (("-p", "--model", "acme/smart", "x"), "there is no model 'acme/smart'"),
    (("-p", "--model", "ollama", "x"), "'ollama' names no model: write ollama/ID"),
    (("-p", "--model", "ollama/x", "--base-url", "nowhere", "x"), "the base URL is not an address"),
    (("demo", "--frob"), "unrecognized arguments: --frob"),
    (("sessions", "frob"), "invalid choice: 'frob'"),
    (("sessions", "--limit", "x"), "'x' is not a whole number of at least 1"),
    (("sessions", "show"), "the following arguments are required: ID"),
    (("trust", "--list", "--remove"), "not allowed with argument"),
    (("trust", "--list", "."), "--list takes no directory"),
]


@pytest.mark.parametrize(("arguments", "complaint"), REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_a_usage_error_is_one_line_and_exit_code_2(
    ostler: Ostler, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = ostler(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("ostler: ") and ran.err.count("\n") == 1
    assert complaint in ran.err
    assert not ostler.store.exists()


def test_a_command_without_arguments_prints_help(ostler: Ostler) -> None:
    bare, asked = ostler(), ostler("--help")
    assert (bare.code, bare.err) == (2, "")
    assert (asked.code, asked.err) == (0, "")
    assert bare.out == asked.out
    assert "usage: ostler [OPTIONS] [PROMPT…" in asked.out and "exit codes: 0 done" in asked.out
    assert ostler("--version").out == f"ostler {__version__}\n"
    assert "usage: ostler sessions" in ostler("sessions", "--help").out


def test_unsupported_characters_are_replaced(ostler: Ostler) -> None:
    ran = ostler("--help", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "usage: ostler [OPTIONS] [PROMPT?" in ran.out


def test_a_directory_that_is_not_utf8_is_refused(ostler: Ostler) -> None:
    folder = ostler.work / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    process = subprocess.Popen(
        ["sh", "-c", 'cd "$1" && exec "$0" -m ostler -p --model demo x', sys.executable, folder],
        env=ostler.environment({}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    ran = finish(process)
    assert (ran.code, ran.err) == (
        2,
        "ostler: the path of the directory is not valid UTF-8: rename it or use another\n",
    )


def test_settings_reach_the_model(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(turn("ok"), turn("ok"))
    options = ("--system", "You are terse.", "--append-system", "One.", "--append-system", "Two.")
    assert ostler("-p", *use(vendor), *options, "--reasoning", "low", "hello").code == 0
    request = vendor.requests[0].json
    assert request["model"] == "fake"
    assert request["reasoning_effort"] == "low"
    system = next(one["content"] for one in request["messages"] if one["role"] in ("system", "developer"))
    assert [part for part in ("You are terse.", "One.", "Two.") if part in system] == [
        "You are terse.",
        "One.",
        "Two.",
    ]
    below = ostler.work / "below"
    below.mkdir()
    ran = ostler("-p", "--json", *use(vendor), "--cwd", "below", "where?")
    assert ran.lines[0]["cwd"] == str(below)
