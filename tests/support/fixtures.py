"""Fixtures of all tests: the program in processes and terminals, its configuration, and fake vendors."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from ostler import main
from ostler.models.providers import PROVIDERS
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Answer, FakeVendor, Script
from tests.support.attach import Attach, attaching
from tests.support.command import Ostler, use
from tests.tui.terminal import Terminal

Serve = Callable[..., FakeVendor]


@pytest.fixture
def ostler(tmp_path: Path) -> Ostler:
    return Ostler(tmp_path)


Configure = Callable[..., None]


@pytest.fixture
def configure(ostler: Ostler) -> Iterator[Configure]:
    """Writes the user's configuration: `configure("model = 'a/b'", ollama=URL)`.

    Local servers are where they are named; at all other ports nobody is, whatever runs on this machine.
    """
    with socket() as nobody:
        nobody.bind(("127.0.0.1", 0))

        def write(text: str = "", **servers: str) -> None:
            nowhere = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"
            places = {one.name: nowhere for one in PROVIDERS.values() if one.is_local} | servers
            tables = "".join(f"[providers.{name}]\nbase_url = '{url}'\n" for name, url in places.items())
            ostler.home.mkdir(exist_ok=True)
            (ostler.home / "config.toml").write_text(f"{text}\n{tables}")

        write()
        yield write


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts fake vendors that answer from a list, or by a function of the request."""
    with ExitStack() as running:

        def start(*answers: Answer, by: Script | None = None, **options: Any) -> FakeVendor:
            return running.enter_context(FakeVendor(answers if by is None else by, **options))

        yield start


InProcess = Callable[..., tuple[int, str, str]]


@pytest.fixture
def in_process(
    ostler: Ostler, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Runs a command in the test's process, which is fast; returns its exit code, output and errors."""
    for name in list(os.environ):
        if name.startswith("OSTLER_") or name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OSTLER_HOME", str(ostler.home))
    monkeypatch.chdir(ostler.work)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # A command closes its store only when its process ends, and this process does not.
    monkeypatch.setattr(SqliteStore, "checkpoint", SqliteStore.close)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main.run(list(arguments))
        return code, *capsys.readouterr()

    return run


Open = Callable[..., Terminal]


@pytest.fixture
def open_tui(ostler: Ostler) -> Iterator[Open]:
    """`ostler` in its own terminal, until the end of the test."""
    with ExitStack() as stack:

        def start(
            vendor: FakeVendor,
            *arguments: str,
            columns: int = 80,
            rows: int = 24,
            before: str = "",
            program: Sequence[str | Path] = (Path(sys.executable).parent / "ostler",),
            **more: str,
        ) -> Terminal:
            command = [*program, *use(vendor), *arguments]
            if before:
                command = ["sh", "-c", f'{before}; exec "$@"', "sh", *command]
            environment = ostler.environment({"LANG": "C.UTF-8", "COLORTERM": "truecolor", **more})
            terminal = Terminal(command, environment=environment, cwd=ostler.work, columns=columns, rows=rows)
            return stack.enter_context(terminal)

        yield start


@pytest.fixture
def attach(ostler: Ostler) -> Iterator[Attach]:
    """`ostler attach` in its own terminal, until the end of the test."""
    with attaching(ostler) as start:
        yield start
