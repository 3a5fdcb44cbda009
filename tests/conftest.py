"""What holds for every test."""

from __future__ import annotations

import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from hypothesis import settings

from ostler.testkit.checks import watched_sessions
from tests.support.fixtures import attach as attach
from tests.support.fixtures import configure as configure
from tests.support.fixtures import in_process as in_process
from tests.support.fixtures import open_tui as open_tui
from tests.support.fixtures import ostler as ostler
from tests.support.fixtures import serve as serve
from tests.support.seeds import SEED

# The programs that tests start are told to hang up or interrupted, also where the tests were started with
# `nohup`, or by a script with `&`: what is ignored would stay so in them, what has a handler does not.
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda number, frame: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine is no reason for a test to fail.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection")
    group.addoption(
        "--sample", type=int, metavar="N", help="at most N tests of each file, chosen by the seed"
    )
    group.addoption("--shuffle", action="store_true", help="run the tests in an order that the seed decides")


def pytest_report_header() -> str:
    return f"seed: {SEED} (set OSTLER_SEED={SEED} to run the same again)"


@pytest.hookimpl(trylast=True)  # after -m and -k have made their choice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (most := config.getoption("--sample")) is not None:
        suites: defaultdict[Path, list[pytest.Item]] = defaultdict(list)
        for item in items:
            suites[item.path].append(item)
        # Each file has a generator of its own, so that a new test changes the sample of its own file only.
        sample = {
            item
            for path, suite in suites.items()
            for item in Random(f"{SEED}:{path.name}").sample(suite, min(most, len(suite)))
        }
        config.hook.pytest_deselected(items=[item for item in items if item not in sample])
        items[:] = [item for item in items if item in sample]
    if config.getoption("--shuffle"):
        Random(SEED).shuffle(items)


@pytest.fixture(autouse=True)
def own_home(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test reads or writes what is the user's. Long ones start programs that are kept in the home."""
    home = tmp_path_factory.getbasetemp() / "homes" / uuid4().hex
    home.mkdir(parents=True)
    monkeypatch.setenv("OSTLER_HOME", str(home / "ostler"))
    if request.node.get_closest_marker("long") is None:
        monkeypatch.setenv("HOME", str(home))


@pytest.fixture(autouse=True)
def invariants() -> Iterator[None]:
    with watched_sessions():
        yield


@pytest.fixture(autouse=True)
def patient_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it one for a face to draw the default in place of what an extension draws."""
    monkeypatch.setattr("ostler.extensions.ui.renderer.RENDER_SECONDS", 20.0)
