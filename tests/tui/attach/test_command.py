"""`ostler attach`: errors take one line and leave the terminal alone."""

from __future__ import annotations

import socket

import pytest

from tests.support.attach import Attach
from tests.support.command import Ostler


def test_an_unreachable_server_is_reported(attach: Attach) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        terminal = attach(f"localhost:{listener.getsockname()[1]}")
        assert terminal.wait_for_end() == 1
    assert "connection refused; is the server running?" in terminal.screen().replace("\n", "")
    assert b"\x1b[?1049h" not in terminal.written


def test_attach_without_a_terminal_is_an_error(ostler: Ostler) -> None:
    ran = ostler("attach", "localhost:1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "ostler: attach needs a terminal; `ostler follow` prints a run without one\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("http://",), "that is not the address of a server"),
        (("ftp://example.com",), "that is not the address of a server"),
        (("user:secret@example.com",), "that is not the address of a server"),
        (("localhost:3284", "--detach-key", "x"), "'x' is not a key to detach with"),
        (("localhost:3284", "--detach-key", "ctrl+m"), "'ctrl+m' is not a key to detach with"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(
    ostler: Ostler, arguments: tuple[str, ...], problem: str
) -> None:
    ran = ostler("attach", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"ostler: {problem}")
    assert ran.err.count("\n") == 1
    assert "secret" not in ran.err
