from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ostler.testkit.fakes import FakeToolContext
from ostler.tools.child_process import stop_background


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[FakeToolContext]:
    context = FakeToolContext(tmp_path)
    yield context
    await stop_background(context.memory)
