from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.models.sse import Frame, SseSplitter
from ostler.schema.errors import StreamBroken


def split(data: bytes, *cuts: int) -> list[Frame]:
    splitter = SseSplitter()
    edges = [0, *sorted(cuts), len(data)]
    frames = [frame for a, b in pairwise(edges) for frame in splitter.feed(data[a:b])]
    return frames + splitter.flush()


def read_slowly(data: bytes) -> list[Frame]:
    """A parser that follows the standard line by line, over the whole stream at once."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    frames: list[Frame] = []
    event, texts = b"", []
    for line in [*lines, b""]:
        if not line:
            if texts:
                frames.append((event, b"\n".join(texts)))
            event, texts = b"", []
        elif line.startswith(b":"):
            continue
        else:
            name, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if name == b"data":
                texts.append(value)
            elif name == b"event":
                event = value
    return frames


LINES = st.sampled_from(
    [
        b"data: one",
        b"data:two",
        b"data",
        b"data: ",
        b"data:  x",
        "data: größe ✓".encode(),
        b"\xef\xbb\xbfdata: b",
        b" data: no",
        b"dataset: no",
        b"event: e",
        b"event:f",
        b": hi",
        b"id: 7",
        b"retry: 5",
        *[b""] * 4,
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=30).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(STREAMS, st.binary(max_size=3), st.lists(st.integers(0, 400), max_size=12))
def test_any_split_of_the_bytes_yields_the_same_frames(stream: bytes, tail: bytes, cuts: list[int]) -> None:
    stream += tail
    expected = read_slowly(stream)
    assert split(stream) == expected
    assert split(stream, *(cut for cut in cuts if cut < len(stream))) == expected
    assert split(stream, *range(len(stream))) == expected


def test_two_data_lines_are_joined_and_a_comment_is_skipped() -> None:
    assert split(b"event: note\n: a comment\ndata: a\ndata: b\n\n") == [(b"note", b"a\nb")]


def test_a_stream_without_its_last_blank_line_is_flushed() -> None:
    assert split(b"data: a\n\ndata: b") == [(b"", b"a"), (b"", b"b")]


def test_a_line_end_split_between_two_reads_is_one_line_end() -> None:
    splitter = SseSplitter()
    assert splitter.feed(b"data: a\r") == []
    assert splitter.feed(b"\n\r") == [(b"", b"a")]
    assert splitter.feed(b"\ndata: b\r\n\r\n") == [(b"", b"b")]


def test_a_frame_without_end_is_refused() -> None:
    splitter = SseSplitter(limit=100)
    with pytest.raises(StreamBroken):
        for _ in range(20):
            splitter.feed(b"data: xxx ")
    with pytest.raises(StreamBroken):
        SseSplitter(limit=100).feed(b"data: " + b"x" * 200)


def test_many_frames_are_not_one_long_frame() -> None:
    splitter = SseSplitter(limit=100)
    assert (
        sum(len(splitter.feed(b"data: x\n\nda")) + len(splitter.feed(b"ta: y\n\n")) for _ in range(50)) == 100
    )
