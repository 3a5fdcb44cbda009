"""Files that are sent for the agent."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.server.agentapi.uploads import last_part, parameters
from tests.server.agentapi.served_agent import FakeAgent, ServedAgent, serving

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedAgent]:
    async with serving(FakeAgent(), tmp_path) as served:
        yield served


async def upload(served: ServedAgent, content: bytes, name: str = "a.txt", field: str = "file") -> Any:
    return await served.http.post("/upload", files={field: (name, content, "text/plain")})


def kept(answer: Any) -> Path:
    assert answer.status_code == 200, answer.text
    return Path(answer.json()["filePath"])


def details(answer: Any) -> list[dict[str, str]]:
    assert (answer.status_code, answer.json()["detail"]) == (422, "validation failed")
    return list(answer.json()["errors"])


async def test_a_file_is_stored_in_a_folder_named_after_its_hash(served: ServedAgent) -> None:
    answer = await upload(served, b"hello")
    path = served.uploads / hashlib.sha256(b"hello").hexdigest()[:16] / "a.txt"
    assert answer.content == (
        b'{"$schema":"%b/schemas/UploadResponseBody.json","ok":true,"filePath":"%b"}\n'
        % (served.base_url.encode(), str(path).encode())
    )
    assert path.read_bytes() == b"hello"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644 & ~mask
    assert (await upload(served, b"hello")).json()["filePath"] == str(path)
    assert (await upload(served, b"other")).json()["filePath"] != str(path)
    assert len(list(served.uploads.rglob("*.txt"))) == 2
    assert list(served.uploads.glob(".*")) == []


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("../x", "x"),
        ("/tmp/x", "x"),
        ("a/b/x", "x"),
        ("a b (1).txt", "a b (1).txt"),
        ("a\\b", "a\\b"),
        ("grüße.md", "grüße.md"),
        ("..", "file"),
        ("/", "file"),
    ],
)
async def test_only_the_last_part_of_a_name_counts(served: ServedAgent, name: str, last: str) -> None:
    boundary = b"xxx"
    body = (
        b'--xxx\r\nContent-Disposition: form-data; name="file"; filename="%b"\r\n\r\nhello\r\n--xxx--\r\n'
        % name.replace("\\", "\\\\").encode()
    )
    headers = {"content-type": f"multipart/form-data; boundary={boundary.decode()}"}
    answer = await served.http.post("/upload", content=body, headers=headers)
    path = kept(answer)
    assert path.name == last
    assert path.parent.parent == served.uploads
    assert path.read_bytes() == b"hello"


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ("filename*=UTF-8''gr%C3%BC%C3%9Fe.md", "grüße.md"),
        ("filename=\"=?utf-8?B?Z3LDvMOfZS5tZA==?=\"; filename*=utf-8''gr%C3%BC%C3%9Fe.md", "grüße.md"),
        ("filename=plain.txt", "plain.txt"),
        ('filename="C:\\folder\\x.txt"', "C:\\folder\\x.txt"),
        ('filename="a;\\"b.txt"', 'a;"b.txt'),
    ],
)
async def test_all_encodings_of_a_file_name_are_read(
    served: ServedAgent, disposition: str, name: str
) -> None:
    head = f'--x\r\nContent-Disposition: form-data; name="file"; {disposition}\r\n\r\n'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = await served.http.post("/upload", content=f"{head}hi\r\n--x--\r\n".encode(), headers=headers)
    assert kept(answer).name == name


@given(st.text())
def test_whatever_a_part_says_of_itself_can_be_read(said: str) -> None:
    assert all(isinstance(value, str) for value in parameters(said).values())


@given(st.text())
def test_no_name_leads_elsewhere(name: str) -> None:
    last = last_part(name)
    assert last and last not in (".", "..") and "/" not in last and "\0" not in last


async def test_ten_mebibytes_are_taken_and_not_a_byte_more(served: ServedAgent) -> None:
    assert (await upload(served, b"")).status_code == 200
    answer = await upload(served, b"x" * (10 * MEBIBYTE))
    assert answer.status_code == 200
    assert kept(answer).stat().st_size == 10 * MEBIBYTE
    for size in (10 * MEBIBYTE + 1, 13 * MEBIBYTE):
        answer = await upload(served, b"y" * size)
        assert (answer.status_code, answer.json()["detail"]) == (400, "file size exceeds 10MB limit")
        assert "errors" not in answer.json()
    assert len(list(served.uploads.rglob("*.txt"))) == 2
    assert list(served.uploads.glob(".*")) == []


async def test_a_form_without_the_file_is_refused(served: ServedAgent) -> None:
    required = [{"message": "File required", "location": "file"}]
    assert details(await upload(served, b"x", field="other")) == required
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nno file\r\n--x--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=x"}
    assert details(await served.http.post("/upload", content=body, headers=headers)) == required


async def test_other_fields_of_the_form_are_passed_over(served: ServedAgent) -> None:
    files = {"file": ("a.txt", b"this", "text/plain"), "more": ("b.txt", b"that", "text/plain")}
    answer = await served.http.post("/upload", files=files, data={"note": "x"})
    assert kept(answer).read_bytes() == b"this"


async def test_only_one_file_is_taken(served: ServedAgent) -> None:
    files = [("file", ("a.txt", b"a", "text/plain")), ("file", ("b.txt", b"b", "text/plain"))]
    several = "Multiple files received but only one was expected"
    assert details(await served.http.post("/upload", files=files)) == [
        {"message": several, "location": "file"}
    ]
    assert list(served.uploads.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "content_type", "said"),
    [
        (b"{}", "application/json", "request Content-Type isn't multipart/form-data"),
        (b"", "", "request Content-Type isn't multipart/form-data"),
        (b"x", "multipart/form-data", "no multipart boundary param in Content-Type"),
        (b"", "multipart/form-data; boundary=x", "multipart: NextPart: EOF"),
        (b"--x\r\nContent-Dis", "multipart/form-data; boundary=x", "multipart: NextPart: EOF"),
    ],
)
async def test_what_is_no_form_is_refused(
    served: ServedAgent, body: bytes, content_type: str, said: str
) -> None:
    headers = {"content-type": content_type} if content_type else {}
    answer = await served.http.post("/upload", content=body, headers=headers)
    assert details(answer) == [{"message": f"cannot read multipart form: {said}", "location": "body"}]


async def test_a_broken_form_is_refused(served: ServedAgent) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = await served.http.post("/upload", content=b"no boundary at all" * 5, headers=headers)
    (detail,) = details(answer)
    assert detail["message"].startswith("cannot read multipart form: multipart: ")


async def test_a_name_that_the_disk_refuses_is_an_error(served: ServedAgent) -> None:
    answer = await upload(served, b"x", "n" * 300)
    assert (answer.status_code, answer.json()["detail"]) == (500, "unexpected error occurred")
    assert answer.json()["errors"][0]["message"].startswith("failed to write file: ")
    assert list(served.uploads.glob(".*")) == []


async def test_the_folder_goes_with_the_server(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path) as served:
        assert kept(await upload(served, b"x")).exists()
    assert not served.uploads.exists()
