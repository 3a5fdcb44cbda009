"""The Responses wire sends what the vendor's own SDK would send."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from ostler.core.model import ModelRequest
from ostler.models.wires.responses import ResponsesModel
from ostler.schema.events import Warned
from ostler.schema.messages import File, Image, Message, Opaque, Reasoning, Text, ToolResult, user
from ostler.testkit.vendors import FakeVendor, Think, call, turn
from tests.models.wires.responses_cases import MODEL, ask
from tests.models.wires.transcripts import CALLS, PIXEL, RESULTS
from tests.models.wires.wire_cases import KEY, READ, request_of

SEALED = {"id": "rs_1", "summary": [], "encrypted_content": "sealed"}
THOUGHT = Reasoning("Hm.", Opaque("responses", {"provider": "openai", "model": MODEL, "fields": SEALED}))
CLOSED = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "sizes": {"type": "array", "items": {"type": "integer"}}},
    "required": ["city", "sizes"],
    "additionalProperties": False,
}


def sent(request: ModelRequest, model: str = MODEL, **options: Any) -> dict[str, Any]:
    return json.loads(ResponsesModel(model, **options).body(request))


async def test_the_request_is_what_the_sdk_sends() -> None:
    calls = Message("assistant", (Text("Looking."), THOUGHT, *CALLS.content[1:]))
    request = request_of(
        user("Hi", Image("image/png", PIXEL)),
        calls,
        RESULTS,
        system="Be brief.",
        tools=(READ,),
        tool_choice="read",
        max_output_tokens=500,
        reasoning="low",
        answer_schema=CLOSED,
    )
    items: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Hi"},
                {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"},
            ],
        },
        {"role": "assistant", "content": "Looking."},
        {"type": "reasoning", **SEALED},
        {"type": "function_call", "call_id": "call_a", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call", "call_id": "call_b", "name": "read", "arguments": '{"path":"b"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": "alpha"},
        {"type": "function_call_output", "call_id": "call_b", "output": "[error] no b"},
    ]
    tool: Any = {"type": "function", "name": READ.name, "description": READ.description, "strict": False}
    async with FakeVendor([turn("ok"), turn("ok")], api_key=KEY) as vendor:
        assert (await ask(vendor, request)).done.stop_reason == "end"
        async with openai.AsyncOpenAI(base_url=vendor.chat_url, api_key=KEY) as client:
            stream = await client.responses.create(
                model=MODEL,
                input=items,
                instructions="Be brief.",
                tools=[tool | {"parameters": READ.schema}],
                tool_choice={"type": "function", "name": "read"},
                parallel_tool_calls=True,
                max_output_tokens=500,
                reasoning={"effort": "low", "summary": "auto"},
                include=["reasoning.encrypted_content"],
                text={"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": CLOSED}},
                store=False,
                stream=True,
            )
            async for _ in stream:
                pass
        ours, theirs = vendor.requests
    assert ours.path == theirs.path
    assert ours.json == theirs.json
    assert ours.headers["authorization"] == theirs.headers["authorization"] == f"Bearer {KEY}"


async def test_azure_gets_the_bare_key_in_its_own_header_under_its_own_path() -> None:
    async with FakeVendor([turn("ok"), turn("ok")], api_key=KEY) as vendor:
        address = vendor.chat_url.replace("/v1", "/openai/v1/")
        azure = await ask(vendor, base_url=address, key_header="api-key", provider="azure")
        assert azure.done.stop_reason == "end"
        received = vendor.requests[0]
        assert received.path == "/openai/v1/responses"
        assert received.headers["api-key"] == KEY and "authorization" not in received.headers
        failure = (await ask(vendor, api_key="another", key_header="api-key")).failure.failure
    assert failure.kind == "authentication_failed"


@pytest.mark.parametrize(
    "content",
    [
        (THOUGHT,),
        (THOUGHT, Text("")),
        (Text("So"), THOUGHT),
        (THOUGHT, THOUGHT, Text("So")),
        (Reasoning("Hm.", Opaque("anthropic", {"type": "thinking", "signature": "s"})), Text("So")),
    ],
)
async def test_reasoning_is_never_sent_without_what_it_led_to(content: Any) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, request_of(user("Hi"), Message("assistant", content), user("And?")))
    assert answer.done.stop_reason == "end"


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "reasoning", **SEALED}],
        [{"type": "reasoning", **SEALED, "status": "completed"}, {"role": "assistant", "content": "x"}],
        [{"type": "reasoning", "id": "rs_1", "summary": []}, {"role": "assistant", "content": "x"}],
        [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}],
        [{"type": "function_call_output", "call_id": "c", "output": "x"}],
        [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
    ],
)
async def test_the_fake_vendor_refuses_what_the_real_one_refuses(items: list[Any]) -> None:
    async with (
        FakeVendor([turn("ok")]) as vendor,
        openai.AsyncOpenAI(base_url=vendor.chat_url, api_key=KEY, max_retries=0) as client,
    ):
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model=MODEL, input=items, store=False, stream=True)


async def test_reasoning_is_replayed_as_it_came_and_only_to_the_model_it_came_from() -> None:
    script = [
        turn(Think(("Let ", "me see"), "sealed-1"), Think(redacted="sealed-2"), call("read", {"path": "a"})),
        turn("done"),
    ]
    async with FakeVendor(script) as vendor:
        first = (await ask(vendor, request_of(tools=(READ,)))).done
        answer = Message("assistant", first.content)
        result = Message("tool", (ToolResult(answer.calls[0].id, "read", (Text("a"),)),))
        request = request_of(user("Hello"), answer, result, tools=(READ,))
        assert (await ask(vendor, request)).done.content == (Text("done"),)
        replayed = vendor.requests[1].json["input"]
    summary = [{"type": "summary_text", "text": "Let me see"}]
    assert replayed[1:3] == [
        {"type": "reasoning", "id": "rs_0001_0", "summary": summary, "encrypted_content": "sealed-1"},
        {"type": "reasoning", "id": "rs_0001_1", "summary": [], "encrypted_content": "sealed-2"},
    ]
    assert [item.get("type") for item in replayed[3:]] == ["function_call", "function_call_output"]
    assert "sealed" not in json.dumps(sent(request, provider="azure"))
    assert "sealed" not in json.dumps(sent(request, "gpt-5.2"))


LEVELS = ("off", "minimal", "low", "medium", "high")


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("gpt-4o", None),
        ("gpt-4.1-mini", None),
        ("gpt-5-chat-latest", None),
        ("gpt-5", "minimal minimal low medium high"),
        ("gpt-5-mini", "minimal minimal low medium high"),
        ("gpt-5-pro", "high high high high high"),
        ("gpt-5-codex", "low low low medium high"),
        ("gpt-5.1", "none low low medium high"),
        ("openai/gpt-5.1", "none low low medium high"),
        ("gpt-5.1-codex-max", "low low low medium high"),
        ("gpt-5.2-pro", "medium medium medium medium high"),
        ("gpt-5.3-chat-latest", "medium medium medium medium medium"),
        ("gpt-5.6-luna", "none low low medium high"),
        ("gpt-6-astra", "low low low medium high"),
        ("gpt-6-sol", "none low low medium high"),
        ("gpt-6.1-sol", "low low low medium high"),
        ("gpt-6.1-terra", "none low low medium high"),
        ("o3", "low low low medium high"),
        ("o4-mini", "low low low medium high"),
        ("gpt-oss-20b", "low low low medium high"),
    ],
)
def test_each_reasoning_level_maps_to_an_effort_of_the_model(model: str, efforts: str | None) -> None:
    bodies = [sent(request_of(reasoning=level), model) for level in LEVELS]
    silent = sent(request_of(), model)
    assert "reasoning" not in silent
    if efforts is None:
        assert not any({"reasoning", "include"} & body.keys() for body in (*bodies, silent))
        return
    assert [body["reasoning"]["effort"] for body in bodies] == efforts.split()
    for body in bodies:
        assert (body["reasoning"].get("summary") == "auto") == (body["reasoning"]["effort"] != "none")
    assert all(body["include"] == ["reasoning.encrypted_content"] for body in (*bodies, silent))


def test_an_unknown_model_reasons_if_a_level_is_requested() -> None:
    for level in (None, "off"):
        assert not {"reasoning", "include"} & sent(request_of(reasoning=level), "deployment-7").keys()
    body = sent(request_of(reasoning="minimal"), "deployment-7")
    assert body["reasoning"]["effort"] == "low" and "include" in body


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5", "gpt-5.1", "gpt-6-sol", "gpt-6.1-sol", "o3"])
@pytest.mark.parametrize("level", LEVELS)
async def test_every_level_is_accepted_by_the_vendor(model: str, level: Any) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, request_of(reasoning=level), model=model)
    assert answer.done.stop_reason == "end"


async def test_what_the_model_cannot_do_is_warned_of() -> None:
    loose = {"type": "object", "properties": {"city": {"type": "string"}}}
    request = request_of(
        user("Look", Image("image/svg+xml", "PHN2Zy8+")), reasoning="high", answer_schema=loose
    )
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, request, model="gpt-4o")
        assert vendor.requests[0].json["text"]["format"]["strict"] is False
    warnings = " ".join(event.text for event in answer.events if isinstance(event, Warned))
    assert "reasoning levels" in warnings and "schema" in warnings and "image/svg+xml" in warnings


@pytest.mark.parametrize(
    ("choice", "spelled"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ("read", {"type": "function", "name": "read"}),
    ],
)
def test_the_choice_of_a_tool(choice: str, spelled: Any) -> None:
    assert sent(request_of(tools=(READ,), tool_choice=choice)).get("tool_choice") == spelled
    without = sent(request_of(tool_choice=choice))
    assert not {"tool_choice", "tools", "parallel_tool_calls"} & without.keys()


async def test_a_limit_below_the_vendors_least_is_raised_to_it() -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        assert (await ask(vendor, request_of(max_output_tokens=5))).done.stop_reason == "end"
        assert vendor.requests[0].json["max_output_tokens"] == 16
    assert "max_output_tokens" not in sent(request_of())


def test_files_become_text_documents_urls_or_placeholders() -> None:
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    request = request_of(
        user(
            File("application/pdf", "a.pdf", "JVBERi0="),
            File(word, "", "UEsDBA=="),
            File("text/plain", "a.txt", "aGVsbG8="),
            File("application/pdf", url="https://example.org/a.pdf"),
            File("application/zip", "a.zip", "UEsDBA=="),
        )
    )
    pdf, document, text, address, other = sent(request)["input"][0]["content"]
    data = "data:application/pdf;base64,JVBERi0="
    assert pdf == {"type": "input_file", "filename": "a.pdf", "file_data": data}
    assert document["filename"] == "file.docx"
    assert text == {"type": "input_text", "text": "a.txt:\nhello"}
    assert address == {"type": "input_file", "file_url": "https://example.org/a.pdf"}
    assert other["type"] == "input_text" and "a.zip" in other["text"]


async def test_pictures_and_documents_of_tools_stay_with_their_results() -> None:
    media = (Text("Here:"), Image("image/png", PIXEL), File("application/pdf", "a.pdf", "JVBERi0="))
    results = (
        ToolResult("call_a", "read", media),
        ToolResult("call_b", "read", (Image("image/png", PIXEL),), failed=True),
    )
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, request_of(user("Hi"), CALLS, Message("tool", results)))
        first, second = vendor.requests[0].json["input"][-2:]
    assert answer.done.stop_reason == "end"
    assert [part["type"] for part in first["output"]] == ["input_text", "input_image", "input_file"]
    assert second["output"][0] == {"type": "input_text", "text": "[error]"}
