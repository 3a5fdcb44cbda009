"""What the tests of the server share."""

from __future__ import annotations

from tests.cli.conftest import configure, ostler, serve

__all__ = ["configure", "ostler", "serve"]
