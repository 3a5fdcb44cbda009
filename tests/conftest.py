"""Options and fixtures for all tests."""

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

# Tests send SIGHUP and SIGINT to the programs that they start. If the tests run with `nohup`, or in a script
# with `&`, those signals are ignored, and programs would inherit that; they do not inherit handlers.
for number in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda number, frame: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because the machine is slow.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection")
    group.addoption(
        "--sample", type=int, metavar="N", help="at most N tests of each file, chosen by the seed"
    )
    group.addoption("--shuffle", action="store_true", help="run the tests in random order, by the seed")


def pytest_report_header() -> str:
    return f"seed: {SEED} (set OSTLER_SEED={SEED} to run the same again)"


@pytest.hookimpl(trylast=True)  # after the selection by -m and -k
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
    """Tests do not use the user's files. Long ones start programs that are installed in the home folder."""
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
def patient_front_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine, a front end still waits for what an extension draws."""
    monkeypatch.setattr("ostler.extensions.ui.renderer.RENDER_SECONDS", 20.0)
