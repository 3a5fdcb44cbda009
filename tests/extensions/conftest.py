"""What holds for every test of extensions."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def patient_faces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine is no reason for a face to draw the default."""
    monkeypatch.setattr("ostler.extensions.showing.rendering.RENDER_SECONDS", 20.0)
