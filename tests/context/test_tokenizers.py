"""The contract of the estimate; see `Tokenizer`."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture

from ostler.context.tokenizers import (
    PAGE_TOKENS,
    EstimatingTokenizer,
    estimated_tokens,
    picture_size,
    picture_tokens,
)
from ostler.core.context import NO_TOKENS, Count, total
from ostler.core.model import ToolOffer
from ostler.schema.messages import File, Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult

MODEL = "openai/gpt-9"
tokenizer = EstimatingTokenizer()
texts = st.text(st.characters(exclude_categories=()), max_size=300) | st.text("aA0 .\n{}\"'ä中", max_size=300)


def tokens(*content: Any, model: str = MODEL, role: Any = "assistant") -> int:
    return tokenizer.message(Message(role, content), model).tokens


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def picture(size: tuple[int, int], kind: str = "PNG", **options: Any) -> bytes:
    target = io.BytesIO()
    Picture.new("RGB", size).save(target, kind, **options)
    return target.getvalue()


def test_an_empty_text_has_no_tokens_and_a_source() -> None:
    assert tokenizer.text("", MODEL) == Count(0, "estimated", "low")


@given(texts)
def test_a_text_has_at_least_one_token_and_always_as_many(text: str) -> None:
    count = estimated_tokens(text)
    assert count == estimated_tokens(text)
    assert count >= (1 if text else 0)


@given(texts, texts)
def test_two_texts_together_count_about_what_they_count_apart(one: str, other: str) -> None:
    together = estimated_tokens(one + other)
    assert together >= max(estimated_tokens(one), estimated_tokens(other)) - 1
    # A word that is put together from two may look like no word at all.
    assert abs(together - estimated_tokens(one) - estimated_tokens(other)) <= 12


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog. It was not amused. " * 20, 3.4, 4.8),
        ("def total(rows):\n    return sum(row.price for row in rows if row.sold)\n" * 20, 3.0, 4.6),
        ('{"id": 17, "name": "thyme", "tags": ["herb", "green"]}\n' * 20, 2.2, 3.6),
        ("我们需要在模型的上下文窗口之内保留最重要的内容。" * 20, 1.0, 1.8),
        ("Die Sitzung wird fortgesetzt, sobald jemand geantwortet hat. " * 20, 3.2, 5.4),
        ("f" * 10_000, 1.0, 4.0),
        (base64_of(bytes(range(256)) * 20), 1.0, 2.2),
    ],
    ids=["prose", "code", "json", "chinese", "german", "one letter", "base64"],
)
def test_characters_for_each_token_follow_the_kind_of_text(text: str, low: float, high: float) -> None:
    assert low <= len(text) / estimated_tokens(text) <= high


@given(st.lists(texts, max_size=4))
def test_a_message_counts_more_than_its_texts(parts: list[str]) -> None:
    assert tokens(*map(Text, parts)) > sum(map(estimated_tokens, parts))


def test_a_call_counts_with_its_frame_id_name_and_arguments() -> None:
    call = ToolCall("call_17", "read", '{"path": "README.md"}')
    parts = sum(map(estimated_tokens, (call.id, call.name, call.arguments)))
    assert tokens(call) - tokens() > parts
    assert tokens(call, call) - tokens(call) == tokens(call) - tokens()


def test_a_result_counts_with_its_call_name_and_content() -> None:
    result = ToolResult("call_17", "read", (Text("one\ntwo"),))
    assert tokens(result, role="tool") - tokens(role="tool") > sum(
        map(estimated_tokens, ("call_17", "read", "one\ntwo"))
    )


def test_reasoning_counts_where_its_vendor_gets_it_back() -> None:
    own = Reasoning("because " * 50, Opaque("chat", {}, "openai"))
    sealed = Reasoning("", Opaque("responses", {"fields": {"encrypted_content": "x" * 5000}}, "openai"))
    others = Reasoning("because " * 50, Opaque("anthropic", {"signature": "x" * 5000}, "anthropic"))
    assert tokens(own) >= 50
    assert tokens(sealed) >= 1000
    assert tokens(others) == tokens(Reasoning("for people only " * 50)) == tokens()


def test_ids_among_a_vendors_data_are_not_counted() -> None:
    assert tokens(Text("hello", Opaque("responses", {"id": "msg_" + "1" * 50}, "openai"))) == tokens(
        Text("hello")
    )


@pytest.mark.parametrize(
    ("model", "size", "expected"),
    [
        ("anthropic/claude-sonnet-5-5", (1000, 1000), 1334),
        ("anthropic/claude-sonnet-5-5", (4000, 4000), 4800),
        ("google/gemini-4-argon", (100, 100), 1120),
        (MODEL, (10, 10), 85),
        (MODEL, (4000, 4000), 1600),
    ],
)
def test_a_picture_counts_by_its_pixels_and_its_vendor(
    model: str, size: tuple[int, int], expected: int
) -> None:
    assert picture_tokens(Image("image/png", base64_of(picture(size))), model) == expected


def test_a_picture_of_unknown_size_counts_the_most() -> None:
    assert picture_tokens(Image("image/png", url="https://example.org/a.png"), MODEL) == 1600
    assert picture_tokens(Image("image/png", "no base64 ☃"), MODEL) == 1600


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + b"x" * 60_000}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0II*\0"}),
    ],
    ids=str,
)
def test_the_size_of_a_picture_is_read_from_its_head(kind: str, options: dict[str, Any]) -> None:
    assert picture_size(picture((321, 123), kind, **options)[:70_000]) == (321, 123)


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8", b"RIFF0000WEBPVP8X", b"RIFF0000WEBP"]),
    st.binary(max_size=64),
)
def test_no_head_of_a_picture_is_too_broken_to_be_looked_at(magic: bytes, rest: bytes) -> None:
    size = picture_size(magic + rest)
    assert size is None or min(size) >= 0


def test_a_text_file_counts_as_its_text_and_a_pdf_by_its_pages() -> None:
    notes = File("text/plain", "notes.txt", base64_of(b"word " * 1000))
    assert tokens(notes) == pytest.approx(tokens(Text("word " * 1000)), abs=10)
    pages = b"".join(b"%d 0 obj <</Type /Page /Parent 2 0 R>> endobj\n" % page for page in range(10))
    pdf = File("application/pdf", "a.pdf", base64_of(b"%PDF-1.7\n<</Type /Pages /Count 10>>\n" + pages))
    assert tokens(pdf) == pytest.approx(10 * PAGE_TOKENS, abs=20)


def test_any_other_file_counts_by_its_size_within_bounds() -> None:
    def count(size: int) -> int:
        return tokens(File("application/pdf", data=base64_of(b"%PDF-1.7" + bytes(size))))

    assert PAGE_TOKENS <= count(10) < count(400_000) < count(4_000_000) == count(8_000_000)


def test_tools_count_with_their_schemas_and_none_are_nothing() -> None:
    small = ToolOffer("read", "Reads a file.", {"type": "object"})
    large = ToolOffer("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    assert tokenizer.tools((), MODEL).tokens == 0
    assert 0 < tokenizer.tools((small,), MODEL).tokens < tokenizer.tools((large,), MODEL).tokens
    claude = "anthropic/claude-sonnet-5-5"
    assert tokenizer.tools((small,), claude).tokens > tokenizer.tools((small,), MODEL).tokens + 200


def test_a_sum_is_no_more_certain_than_its_least_certain_part() -> None:
    exact, corrected = Count(10, "tokenizer", "medium"), Count(5, "calibrated", "high")
    assert exact + corrected == total([exact, corrected]) == Count(15, "calibrated", "medium")
    assert NO_TOKENS + exact == exact
    assert total([]) == NO_TOKENS
    assert total([exact, Count(1, "estimated", "low")]) == Count(11, "estimated", "low")
