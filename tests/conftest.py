"""What holds for every test."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from ostler.testkit.watch import watched_sessions

# The programs that tests start are told to hang up, also where the tests were started with `nohup`:
# what is ignored would stay so in them, what has a handler does not.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

# A slow machine is no reason for a test to fail.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def invariants() -> Iterator[None]:
    with watched_sessions():
        yield


@pytest.fixture(autouse=True)
def patient_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it one for a face to draw the default in place of what an extension draws."""
    monkeypatch.setattr("ostler.extensions.showing.rendering.RENDER_SECONDS", 20.0)
