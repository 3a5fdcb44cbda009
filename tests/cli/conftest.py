"""What the tests of the command line share."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from socket import socket
from typing import Any

import pytest

from ostler import main
from ostler.models.providers import PROVIDERS
from ostler.store.sqlite import SqliteStore
from ostler.testkit.vendors import Answer, FakeVendor, Script
from tests.cli.command import Ostler

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
    """Starts fake vendors that answer in turn, or as a function of the request says."""
    with ExitStack() as running:

        def start(*answers: Answer, by: Script | None = None, **options: Any) -> FakeVendor:
            return running.enter_context(FakeVendor(answers if by is None else by, **options))

        yield start


InProcess = Callable[..., tuple[int, str, str]]


@pytest.fixture
def in_process(
    ostler: Ostler, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> InProcess:
    """Runs a command in the process of the test: its exit code, output and errors. Quick, for refusals."""
    for name in list(os.environ):
        if name.startswith("OSTLER_") or name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OSTLER_HOME", str(ostler.home))
    monkeypatch.chdir(ostler.work)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    # A command leaves its store to the end of its process. This process goes on.
    monkeypatch.setattr(SqliteStore, "tidy", SqliteStore.close)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main.run(list(arguments))
        return code, *capsys.readouterr()

    return run
