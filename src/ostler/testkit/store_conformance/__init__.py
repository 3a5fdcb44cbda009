"""The tests that every store must pass: one for each sentence of the contracts in `ostler.core.store`.

Subclass `StoreConformance`, and define how to create a store. The tests are async methods with plain asserts,
for any runner; with pytest and pytest-asyncio (in auto mode):

```python
from ostler.testkit.store_conformance import StoreConformance

class TestMyStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path):
        self.path = tmp_path / "my.db"

    async def make_store(self, world):
        return MyStore(self.path, world=world)

    async def another_handle(self, store, world):
        return MyStore(self.path, world=world)
```

`make_store` is called once a test and returns an empty store that takes its time from `world.now_ms`.
`another_handle` opens the same data a second time, as another process would; omit it if no other process can
see the data. Each test closes what it opened.
"""

from __future__ import annotations

from ostler.testkit.store_conformance.leases import BlobConformance, InboxConformance, LeaseConformance
from ostler.testkit.store_conformance.log import LogConformance
from ostler.testkit.store_conformance.sessions import SessionConformance


class StoreConformance(
    LogConformance, SessionConformance, LeaseConformance, InboxConformance, BlobConformance
):
    """All conformance tests."""
