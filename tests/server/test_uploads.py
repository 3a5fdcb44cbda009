"""Uploads: kept under names of our own, bounded, and shown to the model when a prompt names them."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.schema.errors import NotFound
from ostler.schema.messages import File, Image, Message, Text
from ostler.server import uploads
from ostler.server.api.events import upload_operations
from ostler.server.uploads import KEPT_DAYS, LONGEST_NAME, Upload, Uploads, safe_name
from ostler.tools.media import LONGEST_SIDE
from tests.server.raw_http import connected
from tests.server.served import Served, serving, text

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n%%EOF\n"
SECRET = b"not to be had"


async def sent(served: Served, content: bytes, name: str = "a.txt", media_type: str = "text/plain") -> Any:
    answer = await served.http.post(
        "uploads", params={"name": name}, content=content, headers={"Content-Type": media_type}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()


def named(upload: Any, kind: str = "file") -> dict[str, str]:
    return {"type": kind, "media_type": upload["media_type"], "url": f"upload:{upload['id']}"}


async def told(served: Served, *blocks: dict[str, str]) -> tuple[Any, ...]:
    """What the model is told of a prompt."""
    session = await served.new_session()
    await served.ask(session, "prompt", content=[*text("look"), *blocks])
    await served.rest(session)
    return last_message(served).content


def last_message(served: Served) -> Message:
    return served.model.requests[-1].transcript.messages[-1]


async def test_an_upload_is_stored_listed_read_and_deleted(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await sent(served, b"one\ntwo\n", "notes.md", "text/markdown")
        assert made["name"] == "notes.md"
        assert (made["media_type"], made["size"]) == ("text/markdown", 8)
        folder = served.home / "uploads" / made["id"]
        assert modes_in(folder) == {folder.name: 0o700, "file.md": 0o600, "about.json": 0o600}
        assert made["path"] == str(folder / "file.md")
        assert (await served.get("uploads"))["uploads"] == [made]
        read = await served.http.get(f"uploads/{made['id']}")
        assert read.content == b"one\ntwo\n"
        assert (await served.http.delete(f"uploads/{made['id']}")).status_code == 204
        assert not modes_in(folder.parent).keys() & {made["id"]}
        await served.get(f"uploads/{made['id']}", 404)
        assert (await served.http.delete(f"uploads/{made['id']}")).status_code == 404


def modes_in(folder: Path) -> dict[str, int]:
    return {one.name: one.stat().st_mode & 0o777 for one in (folder, *folder.iterdir())}


def put_link(path: str, target: Path) -> Path:
    put = Path(path)
    put.unlink()
    put.symlink_to(target)
    return put


def age(folder: Path, seconds: float) -> None:
    for path in (*folder.glob("*/about.json"), *folder.iterdir()):
        os.utime(path, (seconds, seconds))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what other code does with files wakes nobody
            await asyncio.sleep(0)


NAMES = [
    "../../etc/passwd",
    "..",
    ".",
    "/etc/passwd",
    "//etc/passwd",
    "..\\..\\boot.ini",
    "C:\\boot.ini",
    "a\x00.txt",
    "\x00",
    "a/../../b",
    "\u2025/\u2025/passwd",
    "..\uff0f..\uff0fpasswd",
    "..\u2215..\u2215passwd",
    "..\u2044passwd",
    "\uff0e\uff0e/\uff0e\uff0e",
    "a\u202etxt.exe",
    "\u200b",
    "a\r\nSet-Cookie: x=y",
    "~/.ssh/id_rsa",
    ".ssh",
    "about.json",
    "x" * 5000 + ".png",
    "e\u0301" * 300,
    "%2e%2e%2fpasswd",
    "file.txt\u0000.png",
    "a.b/../c",
    "a.\u0000..",
    "",
]


async def test_no_name_reaches_a_path(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for name in NAMES:
            made = await sent(served, b"x", name)
            folder = served.home / "uploads" / made["id"]
            assert {one.name for one in folder.iterdir()} == {"about.json", Path(made["path"]).name}
            assert Path(made["path"]).parent == folder
            assert Path(made["path"]).name.rpartition(".")[0] in ("", "file")
            shown = made["name"]
            assert shown not in ("", ".", "..")
            assert not set(shown) & set("/\\\x00\r\n\u202e")
        others = [one for one in served.home.rglob("*") if one.is_file() and "uploads" not in one.parts]
        assert {one.name.partition(".")[0] for one in others} <= {"tokens", "ostler", "answers"}


@given(st.text())
def test_a_safe_name_is_safe_whatever_it_is_made_of(name: str) -> None:
    safe = safe_name(name)
    assert safe not in ("", ".", "..")
    assert safe.isprintable()
    assert "/" not in safe
    assert "\\" not in safe
    assert len(safe.encode()) <= LONGEST_NAME
    assert safe_name(safe) == safe


NO_IDS = [
    "..",
    "%2e%2e",
    "..%2f..%2ftokens.json",
    "..%2ftokens.json",
    "%2fetc%2fpasswd",
    "upl_",
    "upl_" + "0" * 32,
    "upl_" + "0" * 32 + "%00",
    "upl_" + "0" * 32 + "%0a",
    "upl_" + "A" * 32,
    "..\\tokens.json",
    "\uff0e\uff0e",
]


async def test_what_is_no_id_leads_nowhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        session = await served.new_session()
        for id in NO_IDS:
            for method in ("GET", "DELETE"):
                answer = await served.http.request(method, f"uploads/{id}")
                assert answer.status_code in (404, 405), id
            block = {"type": "file", "media_type": "a/b", "url": f"upload:{unquote(id)}"}
            await served.post(f"sessions/{session}/requests", {"type": "prompt", "content": [block]}, 404)
        assert served.tokens.all()


async def test_a_planted_symlink_is_not_followed(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        secret = tmp_path / "secret"
        secret.write_bytes(SECRET)
        made = await sent(served, b"x", "a.txt")
        kept = put_link(made["path"], secret)
        await served.get(f"uploads/{made['id']}", 404)
        other = await sent(served, b"y", "b.txt")
        planted = kept.parent.with_name("upl_" + "a" * 32)
        planted.symlink_to(Path(other["path"]).parent)
        await served.get(f"uploads/{planted.name}", 404)
        assert [one["id"] for one in (await served.get("uploads"))["uploads"]] == [other["id"]]
        session = await served.new_session()
        prompt = {"type": "prompt", "content": [named(made)]}
        await served.post(f"sessions/{session}/requests", prompt, 404)
        read = Uploads(served.home / "uploads").read
        with pytest.raises(NotFound):
            read(msgspec.convert(made, Upload), 0, 100)
        assert secret.read_bytes() == SECRET


async def test_images_documents_and_texts_reach_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path, "seen") as served:
        picture = await sent(served, PNG, "dot.png", "application/x-wrong")
        document = await sent(served, PDF, "paper.pdf", "text/plain")
        note = await sent(served, "grüße\n".encode(), "note.txt")
        assert [one["media_type"] for one in (picture, document, note)] == [
            "image/png",
            "application/pdf",
            "text/plain",
        ]
        look, image, file, words = await told(served, named(picture, "image"), named(document), named(note))
        assert look == Text("look")
        assert image == Image("image/png", data=base64.b64encode(PNG).decode())
        assert file == File("application/pdf", name="paper.pdf", data=base64.b64encode(PDF).decode())
        assert words == Text("--- note.txt, uploaded ---\ngrüße\n")


async def test_a_session_can_begin_with_an_upload_and_a_run_be_steered_with_one(tmp_path: Path) -> None:
    async with serving(tmp_path, "seen") as served:
        note = await sent(served, b"inside", "note.txt")
        made = await served.post("sessions", {"prompt": [named(note)]}, 201)
        await served.rest(made["id"])
        assert "inside" in last_message(served).text
        facts = (await served.get(f"sessions/{made['id']}/events"))["facts"]
        assert not any("upload:" in str(fact) for fact in facts)


async def test_other_files_reach_the_model_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_TEXT", 100)
    async with serving(tmp_path, "seen") as served:
        archive = await sent(served, b"PK\x03\x04\x00\x00", "a.zip", "application/zip")
        long = await sent(served, b"x" * 101, "long.txt")
        claimed = await sent(served, b"<svg onload='alert(1)'/>", "a.svg", "image/svg+xml")
        assert claimed["media_type"] == "text/plain"
        _, told_archive, told_long, told_svg = await told(
            served, named(archive), named(long), named(claimed, "image")
        )
        assert archive["path"] in told_archive.text
        assert "a.zip (application/zip, 6 B)" in told_archive.text
        assert long["path"] in told_long.text
        assert "<svg" in told_svg.text


async def test_a_large_picture_is_made_smaller(tmp_path: Path) -> None:
    from PIL.Image import new

    content = BytesIO()
    new("RGB", (LONGEST_SIDE + 500, 10)).save(content, "PNG")
    async with serving(tmp_path, "seen") as served:
        made = await sent(served, content.getvalue(), "wide.png")
        _, image = await told(served, named(made, "image"))
        assert isinstance(image, Image)
        assert base64.b64decode(image.data) != content.getvalue()


async def test_a_prompt_cannot_hold_more_than_a_vendor_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_ATTACHED", 150)
    async with serving(tmp_path, "seen") as served:
        made = await sent(served, PNG, "dot.png")
        session = await served.new_session()
        content = [named(made, "image")] * 2
        await served.post(f"sessions/{session}/requests", {"type": "prompt", "content": content}, 413)


async def test_one_file_and_all_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {one.most_body for one in upload_operations if one.method == "POST"} == {uploads.MOST_BYTES}
    monkeypatch.setattr(uploads, "MOST_OF_ALL", 100)
    async with serving(tmp_path) as served:
        made = await sent(served, b"x" * 60)
        answer = await served.http.post("uploads?name=b", content=b"x" * 60)
        assert answer.status_code == 413
        assert "delete some" in answer.json()["detail"]
        assert [one["id"] for one in (await served.get("uploads"))["uploads"]] == [made["id"]]
        assert len(list((served.home / "uploads").iterdir())) == 1
        await served.http.delete(f"uploads/{made['id']}")
        await sent(served, b"x" * 60)
        monkeypatch.setattr(uploads, "MOST_FILES", 1)
        assert (await served.http.post("uploads?name=b", content=b"x")).status_code == 413


async def test_a_file_sent_twice_with_one_key_is_stored_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        headers = {"Idempotency-Key": "one", "Content-Type": "text/plain"}
        made = [await served.http.post("uploads?name=a", content=b"x", headers=headers) for _ in range(2)]
        assert [one.status_code for one in made] == [201, 201]
        assert made[0].json() == made[1].json()
        assert len((await served.get("uploads"))["uploads"]) == 1


async def test_two_at_a_time_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_OF_ALL", 100)
    kept = Uploads(tmp_path / "uploads")
    go_on = asyncio.Event()

    async def slowly() -> Any:
        yield b"x" * 60
        await go_on.wait()

    async def quickly() -> Any:
        yield b"y" * 60

    first = asyncio.ensure_future(kept.receive("a", "", slowly()))
    await asyncio.sleep(0)
    with pytest.raises(uploads.TooLarge):
        await kept.receive("b", "", quickly())
    go_on.set()
    assert (await first).size == 60
    assert len(kept.all()) == 1


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        folder = served.home / "uploads"
        async with connected(served.base_url) as (_, writer), asyncio.timeout(60):
            head = "POST /api/v1/uploads?name=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            head += f"Content-Type: text/plain\r\nAuthorization: Bearer {served.token}\r\n\r\n"
            writer.write(head.encode() + b"begun")
            await until(lambda: folder.is_dir() and any(folder.iterdir()))
        await until(lambda: not any(folder.iterdir()))


async def test_old_ones_are_removed_and_used_ones_are_not(tmp_path: Path) -> None:
    clock = [1_000_000_000.0]
    kept = Uploads(tmp_path, lambda: clock[0])

    async def content() -> Any:
        yield b"x"

    old, used = await kept.receive("old", "", content()), await kept.receive("used", "", content())
    broken = tmp_path / ("upl_" + "b" * 32)
    broken.mkdir()
    foreign = tmp_path / "mine"
    foreign.mkdir()
    age(tmp_path, clock[0])
    clock[0] += KEPT_DAYS * 86400 - 10
    kept.sweep()
    assert len(kept.all()) == 2
    kept.keep_longer(used)
    clock[0] += 20
    kept.sweep()
    assert [one.id for one in kept.all()] == [used.id]
    assert not broken.exists()
    assert foreign.exists()
    with pytest.raises(NotFound):
        kept.find(old.id)


async def test_a_browser_never_runs_what_was_uploaded(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        page = await sent(served, b"<script>alert(1)</script>", "a.html", "text/html")
        answer = await served.http.get(f"uploads/{page['id']}")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert_harmless(answer)
        script = await sent(served, b"alert(1)", 'a"; x=".js', "application/javascript")
        answer = await served.http.get(f"uploads/{script['id']}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a%22%3B%20x%3D%22.js"
        assert_harmless(answer)
        image = await sent(served, PNG, "grün.png", "image/png")
        answer = await served.http.get(f"uploads/{image['id']}")
        assert answer.headers["content-type"] == "image/png"
        assert answer.headers["content-disposition"] == "inline; filename*=UTF-8''gr%C3%BCn.png"
        assert_harmless(answer)


def assert_harmless(answer: httpx2.Response) -> None:
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
