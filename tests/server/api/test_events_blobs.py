"""Blobs of a session: any part of them, and never as a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ostler.server import uploads
from tests.server.served import Served, serving

WHOLE = bytes(range(256)) * 5


async def kept(served: Served, content: bytes = WHOLE, media_type: str = "text/plain") -> str:
    session = await served.new_session()
    await served.store.append_blob(session, "out_1", content, media_type)
    return f"sessions/{session}/blobs/out_1"


async def test_a_blob_is_read_in_pieces_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PIECE", 100)
    async with serving(tmp_path) as served:
        path = await kept(served)
        answer = await served.http.get(path)
        assert answer.content == WHOLE
        assert answer.headers["accept-ranges"] == "bytes"
        assert answer.headers["content-length"] == str(len(WHOLE))
        head = await served.http.head(path)
        assert head.headers["content-length"] == str(len(WHOLE))


PARTS = {
    "bytes=0-9": (0, 10),
    "bytes=10-": (10, 1280),
    "bytes=-5": (1275, 1280),
    "bytes=-5000": (0, 1280),
    "bytes=1279-5000": (1279, 1280),
    "bytes=100-100": (100, 101),
}


async def test_a_part_is_what_was_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        path = await kept(served)
        for asked, (start, end) in PARTS.items():
            answer = await served.http.get(path, headers={"Range": asked})
            assert answer.content == WHOLE[start:end], asked
            if end - start < len(WHOLE):
                assert answer.status_code == 206
                assert answer.headers["content-range"] == f"bytes {start}-{end - 1}/1280"


async def test_a_part_that_is_not_there_is_refused_and_a_strange_one_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        path = await kept(served)
        for asked in ("bytes=1280-", "bytes=9999-10000", "bytes=-0"):
            answer = await served.http.get(path, headers={"Range": asked})
            assert answer.status_code == 416
            assert answer.headers["content-range"] == "bytes */1280"
            assert answer.json()["kind"] == "range_not_there"
        for asked in ("bytes=", "bytes=-", "bytes=5-1", "lines=1-2", "bytes=0-1,3-4", "bytes=" + "9" * 5000):
            answer = await served.http.get(path, headers={"Range": asked})
            assert (answer.status_code, len(answer.content)) == (200, 1280)
        conditional = await served.http.get(path, headers={"Range": "bytes=0-1", "If-Range": '"x"'})
        assert conditional.status_code == 200
        empty = await served.http.get(await kept(served, b""), headers={"Range": "bytes=0-"})
        assert empty.status_code in (404, 416)


SAID = {
    "text/html": "text/plain; charset=utf-8",
    "text/html; charset=utf-7": "text/plain; charset=utf-8",
    "TEXT/HTML": "text/plain; charset=utf-8",
    "application/xhtml+xml": "application/octet-stream",
    "image/svg+xml": "application/octet-stream",
    "application/javascript": "application/octet-stream",
    "multipart/x-mixed-replace": "application/octet-stream",
    "": "application/octet-stream",
    "x\r\nSet-Cookie: a=b": "application/octet-stream",
    "image/png": "image/png",
}


async def test_what_a_tool_calls_its_output_cannot_make_it_a_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for media_type, said in SAID.items():
            answer = await served.http.get(await kept(served, b"<script>1</script>", media_type))
            assert answer.headers["content-type"] == said
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]
            assert "set-cookie" not in answer.headers


async def test_a_blob_belongs_to_its_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await kept(served)
        other = await served.new_session()
        for path in (
            f"sessions/{other}/blobs/out_1",
            "sessions/none/blobs/out_1",
            f"sessions/{other}/blobs/x",
        ):
            await served.get(path, 404)


async def test_no_response_of_the_api_can_run_as_a_page(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        for path in ("me", "sessions", f"sessions/{session}/export?format=html", "nothing", "sessions/none"):
            answer = await served.http.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff", path
            if answer.headers["content-type"] != "application/problem+json":
                assert "sandbox" in answer.headers["content-security-policy"], path
