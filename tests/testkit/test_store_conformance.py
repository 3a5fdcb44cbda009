"""Our own stores pass the conformance tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ostler.core.journal import World
from ostler.core.store import Store
from ostler.store.memory import MemoryStore
from ostler.store.sqlite import SqliteStore
from ostler.store.sqlite_connection import Durability
from ostler.testkit.store_conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    async def make_store(self, world: World) -> Store:
        return MemoryStore(world)


class TestSqliteStore(StoreConformance):
    durability: Durability = "process"

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "store.db"

    async def make_store(self, world: World) -> Store:
        return SqliteStore(self.path, durability=self.durability, world=world)

    async def another_handle(self, store: Store, world: World) -> Store:
        return SqliteStore(self.path, durability=self.durability, world=world)


class TestSqliteStoreThatSurvivesAPowerCut(TestSqliteStore):
    durability = "power"


def test_the_conformance_tests_can_be_imported_without_pytest() -> None:
    script = "import sys; sys.modules['pytest'] = None; import ostler.testkit.store_conformance"
    subprocess.run([sys.executable, "-c", script], check=True)
