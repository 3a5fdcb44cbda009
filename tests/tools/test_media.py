from __future__ import annotations

import base64
import random
import struct
import subprocess
import sys
import threading
import zlib
from io import BytesIO
from typing import Any

import pytest
from PIL import Image as Pictures

from ostler.schema.messages import Image
from ostler.schema.outcomes import Failed, Ok
from ostler.testkit.fakes import FakeToolContext, result_text, run_tool
from ostler.tools import media
from ostler.tools.read import MAX_IMAGE, read


def picture(kind: str, width: int, height: int, mode: str = "RGB", **options: Any) -> bytes:
    target = BytesIO()
    Pictures.new(mode, (width, height)).save(target, kind, **options)
    return target.getvalue()


def image_of(outcome: Any) -> tuple[str, bytes]:
    assert isinstance(outcome, Ok), outcome
    image = outcome.content[1]
    assert isinstance(image, Image) and image.data
    return image.media_type, base64.b64decode(image.data)


async def read_bytes(context: FakeToolContext, content: bytes) -> Any:
    (context.cwd / "a").write_bytes(content)
    return await run_tool(read, {"path": "a"}, context)


@pytest.mark.parametrize(
    ("kind", "size", "expected", "expected_kind"),
    [
        ("PNG", (4000, 1000), (2000, 500), "PNG"),
        ("PNG", (1500, 6000), (500, 2000), "PNG"),
        ("PNG", (9000, 1), (2000, 1), "PNG"),
        ("JPEG", (2001, 2001), (2000, 2000), "JPEG"),
        ("GIF", (2400, 1200), (2000, 1000), "PNG"),
        ("WEBP", (4000, 400), (2000, 200), "WEBP"),
    ],
)
async def test_a_large_picture_is_scaled_down(
    context: FakeToolContext,
    kind: str,
    size: tuple[int, int],
    expected: tuple[int, int],
    expected_kind: str,
) -> None:
    outcome = await read_bytes(context, picture(kind, *size))
    media_type, content = image_of(outcome)
    with Pictures.open(BytesIO(content)) as small:
        assert (small.size, small.format) == (expected, expected_kind)
    assert media_type == f"image/{expected_kind.lower()}"
    words = f"scaled down from {size[0]}×{size[1]} to {expected[0]}×{expected[1]} pixels"
    assert words in result_text(outcome)
    assert outcome.details["original_size"] == list(size)
    assert outcome.details["size"] == list(expected)
    assert outcome.details["bytes"] == len(content)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_picture_that_is_small_enough_is_passed_byte_for_byte(
    context: FakeToolContext, kind: str
) -> None:
    content = picture(kind, 2000, 20)
    outcome = await read_bytes(context, content)
    assert image_of(outcome) == (f"image/{kind.lower()}", content)
    assert "scaled" not in result_text(outcome)
    assert "size" not in outcome.details


@pytest.mark.parametrize("cut", [14, 30, 60, -20])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_picture_that_cannot_be_decoded_is_passed_as_it_is(
    context: FakeToolContext, kind: str, cut: int
) -> None:
    content = picture(kind, 2500, 100)[:cut] + b"\xfe" * 200
    _, passed = image_of(await read_bytes(context, content))
    if passed != content:  # some decoders make do with what there is
        with Pictures.open(BytesIO(passed)) as small:
            assert max(small.size) == 2000


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("P", 0, (0, 0, 0, 255)),
        ("1", 1, (255, 255, 255, 255)),
        ("L", 77, (77, 77, 77, 255)),
        ("LA", (77, 10), (77, 77, 77, 10)),
        ("RGBA", (10, 20, 30, 200), (10, 20, 30, 200)),
        ("I;16", 0x8000, (128, 128, 128, 255)),
    ],
)
async def test_every_kind_of_png_keeps_its_colours(
    context: FakeToolContext, mode: str, colour: Any, expected: tuple[int, ...]
) -> None:
    target = BytesIO()
    Pictures.new(mode, (2500, 10), colour).save(target, "PNG")
    _, content = image_of(await read_bytes(context, target.getvalue()))
    with Pictures.open(BytesIO(content)) as small:
        assert small.size == (2000, 8)
        pixel = small.convert("RGBA").getpixel((1000, 4))
    assert isinstance(pixel, tuple)
    assert all(abs(a - b) <= 1 for a, b in zip(pixel, expected, strict=True))


async def test_a_rotated_photo_is_turned_upright(context: FakeToolContext) -> None:
    exif = Pictures.Exif()
    exif[0x0112] = 6
    _, content = image_of(await read_bytes(context, picture("JPEG", 4000, 1000, exif=exif)))
    with Pictures.open(BytesIO(content)) as small:
        assert small.size == (500, 2000)
        assert small.getexif().get(0x0112, 1) == 1


async def test_a_picture_with_a_large_file_is_scaled_down(context: FakeToolContext) -> None:
    noise = Pictures.frombytes("RGB", (2600, 1000), random.Random(1).randbytes(2600 * 1000 * 3))
    target = BytesIO()
    noise.save(target, "JPEG", quality=98)
    content = target.getvalue() + b"\0" * MAX_IMAGE
    media_type, passed = image_of(await read_bytes(context, content))
    assert media_type == "image/jpeg"
    assert len(passed) < MAX_IMAGE < len(content)


def bomb(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


@pytest.mark.parametrize("side", [10_000, 60_000])
async def test_a_picture_that_would_fill_the_memory_is_refused(context: FakeToolContext, side: int) -> None:
    outcome = await read_bytes(context, bomb(side, side))
    assert isinstance(outcome, Failed)
    assert f"{side}×{side} pixels, too many to decode: make a smaller copy" in result_text(outcome)
    assert "\n" not in result_text(outcome)


async def test_without_pillow_a_picture_is_passed_as_it_is(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "find_spec", lambda name: None)
    content = picture("PNG", 4000, 10)
    assert image_of(await read_bytes(context, content)) == ("image/png", content)


async def test_pictures_are_scaled_off_the_event_loop(
    context: FakeToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    resized = media._resized

    def noting(*arguments: Any) -> media.Scaled:
        threads.append(threading.current_thread())
        return resized(*arguments)

    monkeypatch.setattr(media, "_resized", noting)
    image_of(await read_bytes(context, picture("PNG", 3000, 10)))
    assert threads and threads[0] is not threading.main_thread()


def test_pillow_is_not_loaded_before_a_picture_is_read() -> None:
    code = "import sys, ostler.tools, ostler.tools.read; assert 'PIL' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
