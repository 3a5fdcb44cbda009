"""What the tests of a served agent share."""

from __future__ import annotations

from tests.cli.conftest import ostler

__all__ = ["ostler"]
