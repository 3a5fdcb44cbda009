"""The scripted model's answers: bytes of Chat Completions streams, built once.

A scenario is named by words joined with dashes, so that it fits into a path:

- `text-N`: one answer of N text deltas.
- `calls-N-TOOL`: N answers that call the tool once, then a text.
- `together-N-TOOL`: one answer that calls the tool N times, then a text.
- `argument-N-T`: T answers that call `write` with N characters, in deltas of 16; then a text.
- `article-N-S`: one answer of Markdown in N deltas, one after the other over S seconds.
- `paragraphs-N`: one answer of N short paragraphs.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, NamedTuple

DELTAS_PER_WRITE = 20
SECONDS_BETWEEN_WRITES = 0.001
ARGUMENT_DELTA = 16
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Answer(NamedTuple):
    """An HTTP response, in the pieces to write. More than one piece is paced like a network."""

    pieces: tuple[bytes, ...]
    pause: float = SECONDS_BETWEEN_WRITES


@cache
def answer(scenario: str, number: int) -> Answer:
    """The answer to request `number` (from 0) of a scenario."""
    kind, count, *rest = scenario.split("-")
    match kind:
        case "text":
            return _paced(_text_deltas(int(count)), "stop")
        case "article":
            return _evenly(_article_deltas(int(count)), float(rest[0]))
        case "paragraphs":
            words = [f"Paragraph {number} is short.\n\n" for number in range(int(count))]
            return _paced([{"content": text} for text in words], "stop")
        case "calls" if number < int(count):
            return _at_once(_call_deltas(number, 1, rest[0]), "tool_calls")
        case "together" if number == 0:
            return _at_once(_call_deltas(number, int(count), rest[0]), "tool_calls")
        case "argument" if number < int(rest[0]):
            return _paced(_argument_deltas(number, int(count)), "tool_calls")
        case "calls" | "together" | "argument":
            return _at_once(_text_deltas(1), "stop")
    raise ValueError(f"unknown scenario {scenario!r}")


def _text_deltas(count: int) -> list[dict[str, Any]]:
    return [{"content": f" word{number % 10}"} for number in range(count)]


_ARTICLE = """## What a harness does

A harness lets a horse pull **without** being hurt: the load lies on its *shoulders*, not on its neck. What is
tied where depends on the work, and `buckles` are looked at every morning.

- the collar carries the load, and has to fit
- the traces lead from the collar to the cart
- the reins go through the rings, to the driver

```python
def load(horses: int, each: float = 80.0) -> float:
    # kilograms that so many can pull all day
    return sum(each for _ in range(horses))
```

"""


def _article_deltas(count: int) -> list[dict[str, Any]]:
    """A word each, as a model gives them."""
    words = re.findall(r"\n+|[^\S\n]*\S+", _ARTICLE)
    return [{"content": words[number % len(words)]} for number in range(count)]


def _call_deltas(number: int, calls: int, tool: str) -> list[dict[str, Any]]:
    deltas = []
    for index in range(calls):
        arguments = json.dumps(_arguments(tool, f"{number}.{index}"))
        deltas.append(_call_begins(index, _call_id(number, index), tool))
        deltas += _call_continues(index, arguments)
    return deltas


def _arguments(tool: str, name: str) -> dict[str, Any]:
    """Different for each call: an agent may well stop a model that repeats itself."""
    match tool:
        case "echo":
            return {"text": f"hi {name}"}
        case "bash":
            return {"command": f"echo hi {name}"}
        case "nap":
            return {"seconds": 0.2}
    raise ValueError(f"unknown tool {tool!r}")


def _argument_deltas(number: int, size: int) -> list[dict[str, Any]]:
    line = "The horse stood still while its harness was mended.\n"
    content = (line * (size // len(line) + 1))[:size]
    arguments = json.dumps({"path": f"written-{number}.txt", "content": content})
    return [_call_begins(0, _call_id(number, 0), "write"), *_call_continues(0, arguments)]


def _call_id(number: int, index: int) -> str:
    """As long as the vendor's own."""
    return f"call_{number:016d}{index:08d}"


def _call_begins(index: int, call: str, tool: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": ""}
    return {"tool_calls": [{"index": index, "id": call, "type": "function", "function": function}]}


def _call_continues(index: int, arguments: str) -> list[dict[str, Any]]:
    fragments = [arguments[at : at + ARGUMENT_DELTA] for at in range(0, len(arguments), ARGUMENT_DELTA)]
    return [{"tool_calls": [{"index": index, "function": {"arguments": text}}]} for text in fragments]


def _at_once(deltas: list[dict[str, Any]], reason: str) -> Answer:
    frames = [_frame(delta) for delta in deltas]
    return Answer((HEAD + _chunk([_opening(), *frames, _closing(reason)]) + _chunk([]),))


def _paced(deltas: list[dict[str, Any]], reason: str) -> Answer:
    frames = [_frame(delta) for delta in deltas]
    groups = [frames[at : at + DELTAS_PER_WRITE] for at in range(0, len(frames), DELTAS_PER_WRITE)]
    first, last = HEAD + _chunk([_opening()]), _chunk([_closing(reason)]) + _chunk([])
    return Answer((first, *map(_chunk, groups), last))


def _evenly(deltas: list[dict[str, Any]], seconds: float) -> Answer:
    first, last = HEAD + _chunk([_opening()]), _chunk([_closing("stop")]) + _chunk([])
    return Answer((first, *(_chunk([_frame(delta)]) for delta in deltas), last), seconds / len(deltas))


def _opening() -> bytes:
    return _frame({"role": "assistant", "content": ""})


def _closing(reason: str) -> bytes:
    usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    return _frame({}, finish_reason=reason) + _event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"


def _frame(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    return _event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def _event(rest: dict[str, Any]) -> bytes:
    head = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "bench",
    }
    return b"data: " + json.dumps(head | rest, separators=(",", ":")).encode() + b"\n\n"


def _chunk(frames: list[bytes]) -> bytes:
    data = b"".join(frames)
    return b"%x\r\n%b\r\n" % (len(data), data)
