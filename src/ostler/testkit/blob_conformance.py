"""The contract of `Blobs`: bytes too large for a fact."""

from __future__ import annotations

from ostler.testkit.store_cases import StoreCases, raises
from ostler.vocabulary.errors import NotFound
from ostler.vocabulary.messages import BlobRef


class BlobConformance(StoreCases):
    async def test_a_blob_grows_piece_by_piece_and_can_be_read_meanwhile(self) -> None:
        async with self.opened_twice() as (store, other):
            await self.begun(store)
            whole = b""
            for piece in (b"one, ", b"", bytes(range(256)), b"x" * 100_000):
                await store.append_blob("ses_1", "out_1", piece, "application/x-mixed")
                whole += piece
                assert await other.read_blob("ses_1", "out_1") == whole
                assert await other.blob("ses_1", "out_1") == BlobRef(
                    "out_1", len(whole), "application/x-mixed"
                )

    async def test_any_range_of_a_blob_can_be_read(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            whole = bytes(range(100))
            for start in range(0, 100, 7):
                await store.append_blob("ses_1", "out_1", whole[start : start + 7])
            for start in (0, 1, 6, 7, 8, 50, 99, 100, 200):
                assert await store.read_blob("ses_1", "out_1", start) == whole[start:]
                for size in (0, 1, 6, 7, 8, 13, 99, 100, 1000):
                    assert await store.read_blob("ses_1", "out_1", start, size) == whole[start : start + size]

    async def test_an_empty_blob_exists(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            await store.append_blob("ses_1", "out_1", b"")
            assert await store.blob("ses_1", "out_1") == BlobRef("out_1", 0, "text/plain")
            assert await store.read_blob("ses_1", "out_1") == b""

    async def test_a_missing_blob_is_not_found(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            assert await store.blob("ses_1", "out_none") is None
            await raises(NotFound, store.read_blob("ses_1", "out_none"))

    async def test_a_blobs_name_is_its_sessions_own(self) -> None:
        async with self.opened() as store:
            await self.begun(store)
            await self.begun(store, "ses_2")
            await store.append_blob("ses_1", "out_call_0", b"of the first")
            assert await store.blob("ses_2", "out_call_0") is None
            await store.append_blob("ses_2", "out_call_0", b"of the second")
            assert await store.read_blob("ses_1", "out_call_0") == b"of the first"
            assert await store.read_blob("ses_2", "out_call_0") == b"of the second"
