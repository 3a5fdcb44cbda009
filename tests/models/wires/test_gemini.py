"""The Gemini wire sends what Google's own SDK would send."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.genai import types

from ostler.core.model import ModelRequest
from ostler.core.transcript import TranscriptBuilder
from ostler.models.catalogue import ModelProfile
from ostler.models.wires.chat import ChatModel
from ostler.models.wires.gemini import GeminiModel
from ostler.schema.events import AssistantMessage, UserMessage, Warned
from ostler.schema.messages import File, Image, Message, Opaque, Reasoning, Text, ToolCall, ToolResult, user
from ostler.testkit.vendors import FakeVendor, Think, call, gemini, say, turn
from tests.models.wires.gemini_cases import MODEL, OLDER, ask, decoded, frame, sdk_reads, sent
from tests.models.wires.transcripts import AWKWARD, CALLS, PIXEL, RESULTS
from tests.models.wires.wire_cases import KEY, READ, answer_of, request_of

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FOREIGN = "skip_thought_signature_validator"


def with_bytes(value: Any) -> Any:
    """Base64 has two alphabets, and the vendor takes both."""
    if isinstance(value, list):
        return [with_bytes(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(one, "-_" if set(one) & {"-", "_"} else None)
        if name in ("data", "thoughtSignature")
        else with_bytes(one)
        for name, one in value.items()
    }


async def test_the_request_is_what_the_sdk_sends() -> None:
    request = request_of(
        user("Hi", Image("image/png", PIXEL)),
        CALLS,
        RESULTS,
        system="Be brief.",
        tools=(READ,),
        tool_choice="read",
        max_output_tokens=500,
        reasoning="low",
        answer_schema=SCHEMA,
    )
    contents: Any = [
        {"role": "user", "parts": [{"text": "Hi"}, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}]},
        {
            "role": "model",
            "parts": [
                {"text": "Looking."},
                {
                    "functionCall": {"id": "call_a", "name": "read", "args": {"path": "a"}},
                    "thoughtSignature": FOREIGN,
                },
                {"functionCall": {"id": "call_b", "name": "read", "args": {"path": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "call_a", "name": "read", "response": {"output": "alpha"}}},
                {"functionResponse": {"id": "call_b", "name": "read", "response": {"error": "no b"}}},
            ],
        },
    ]
    declaration = types.FunctionDeclaration(
        name=READ.name, description=READ.description, parameters_json_schema=READ.schema
    )
    config = types.GenerateContentConfig(
        system_instruction=types.Content(parts=[types.Part(text="Be brief.")]),
        tools=[types.Tool(function_declarations=[declaration])],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["read"]
            )
        ),
        max_output_tokens=500,
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.LOW),
        response_mime_type="application/json",
        response_json_schema=SCHEMA,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    async with FakeVendor([turn("ok"), turn("ok")], api_key=KEY) as vendor:
        await ask(vendor, request)
        await sdk_reads(vendor, contents=contents, config=config, version="v1beta")
        ours, theirs = vendor.requests
    assert ours.path == theirs.path
    assert with_bytes(ours.json) == with_bytes(gemini.camel_case(theirs.json))
    assert ours.headers["x-goog-api-key"] == theirs.headers["x-goog-api-key"] == KEY
    assert ours.headers["content-type"] == theirs.headers["content-type"]


class Address:
    """A transport that only takes note of where a request goes."""

    url = ""

    async def post(self, url: str, headers: Any, body: bytes) -> Any:
        self.url = url
        raise ValueError("no more than the address")

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    ("base", "model", "url"),
    [
        ("http://h", "gemini-x", "http://h/v1beta/models/gemini-x"),
        ("http://h/v1beta/", "gemini-x", "http://h/v1beta/models/gemini-x"),
        ("http://h/v1", "models/gemini-x", "http://h/v1/models/gemini-x"),
        ("http://h/proxy", "tunedModels/mine", "http://h/proxy/v1beta/tunedModels/mine"),
        ("http://h", "a?key=b", "http://h/v1beta/models/a%3Fkey%3Db"),
    ],
)
async def test_the_address_names_the_model_and_never_the_key(base: str, model: str, url: str) -> None:
    transport = Address()
    await answer_of(GeminiModel(model, base_url=base, api_key=KEY, transport=transport), request_of())
    assert transport.url == f"{url}:streamGenerateContent?alt=sse"


@pytest.mark.parametrize("model", [OLDER, "gemma-3-27b-it"])
@pytest.mark.parametrize("case", AWKWARD)
async def test_an_awkward_transcript_is_accepted_by_older_models(case: str, model: str) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, request_of(*AWKWARD[case], tools=(READ,)), model=model)
    assert answer.done.content == (Text("ok"),)


async def test_signatures_are_sent_back_on_the_parts_they_came_with() -> None:
    script = [
        turn(
            Think(("Let ", "me see"), "one"),
            Think(redacted="two"),
            say("I ", "look."),
            call("read", {"path": "a"}),
        ),
        turn(Think(("Ah",), "three"), "done"),
        turn("ok"),
    ]
    transcript = [user("Hello")]
    async with FakeVendor(script) as vendor:
        first = Message("assistant", (await ask(vendor, request_of(tools=(READ,)))).done.content)
        transcript += first, Message("tool", (ToolResult(first.calls[0].id, "read", (Text("a"),)),))
        second = (await ask(vendor, request_of(*transcript, tools=(READ,)))).done
        transcript += Message("assistant", second.content), user("And?")
        request = request_of(*transcript, tools=(READ,))
        assert (await ask(vendor, request)).done.content == (Text("ok"),)
        _, calls, results, done, _ = vendor.requests[2].json["contents"]
    assert calls["parts"] == [
        {"text": "Let me see", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "b25l"},
        {"text": "I look."},
        {
            "functionCall": {"id": first.calls[0].id, "name": "read", "args": {"path": "a"}},
            "thoughtSignature": "dHdv",
        },
    ]
    assert results["parts"][0]["functionResponse"]["id"] == first.calls[0].id
    assert done["parts"] == [{"text": "done"}, {"text": "", "thoughtSignature": "dGhyZWU="}]
    elsewhere = ChatModel("m").body(request)
    assert not [signature for signature in (b"b25l", b"dHdv", b"dGhyZWU=") if signature in elsewhere]


def test_a_signed_part_within_a_text_is_replayed_as_its_own_part() -> None:
    parts = [
        {"text": "one "},
        {"text": "twö ", "thoughtSignature": "QQ=="},
        {"text": "three "},
        {"text": "four", "thoughtSignature": "QUE="},
    ]
    done = decoded([*map(frame, parts), frame(finish="STOP")]).done
    assert len(done.content) == 1 and Message("assistant", done.content).text == "one twö three four"
    stored = json.loads(json.dumps(done.content[0].opaque.data))  # type: ignore[union-attr]
    kept = Message("assistant", (Text("one twö three four", Opaque("gemini", stored)),))
    for message in (Message("assistant", done.content), kept):
        assert sent(request_of(user("Hi"), message, user("x")))["contents"][1]["parts"] == parts


@pytest.mark.parametrize(
    ("model", "signature"), [(MODEL, FOREIGN), ("gemini-4-argon", FOREIGN), (OLDER, None)]
)
async def test_calls_of_another_vendor_are_marked_as_such_for_models_that_insist(
    model: str, signature: str | None
) -> None:
    request = request_of(user("Hi"), CALLS, RESULTS, tools=(READ,))
    async with FakeVendor([turn("ok")]) as vendor:
        assert (await ask(vendor, request, model=model)).done.stop_reason == "end"
        _, first, second = vendor.requests[0].json["contents"][1]["parts"]
    assert first.get("thoughtSignature") == signature and "thoughtSignature" not in second
    assert ("id" in first["functionCall"]) == (signature is not None)


def test_signatures_of_other_wires_are_not_sent() -> None:
    answer = Message(
        "assistant",
        (
            Reasoning("Hm", Opaque("anthropic", {"type": "thinking", "signature": "theirs"})),
            Text("So.", Opaque("responses", {"id": "theirs"})),
            ToolCall("c", "read", "{}", Opaque("responses", {"id": "theirs"})),
        ),
    )
    result = Message("tool", (ToolResult("c", "read"),))
    assert "theirs" not in json.dumps(sent(request_of(user("Hi"), answer, result)))


def test_pictures_of_tools_are_inside_their_result_if_supported() -> None:
    content = (
        Text("both"),
        Image("image/png", PIXEL),
        Image("image/jpeg", url="https://example.org/a.jpg"),
        File("application/pdf", "a.pdf", "JVBERi0="),
    )
    messages = [
        user("Hi"),
        Message("assistant", (ToolCall("c", "read", "{}"),)),
        Message("tool", (ToolResult("c", "read", content),)),
    ]
    inside = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    pdf = {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}
    linked = {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.org/a.jpg"}}
    result, beside = sent(request_of(*messages))["contents"][2:]
    assert result["parts"][0]["functionResponse"]["parts"] == [inside, pdf]
    assert beside["parts"][1:] == [linked]
    result, beside = sent(request_of(*messages), OLDER)["contents"][2:]
    assert "parts" not in result["parts"][0]["functionResponse"]
    assert beside["parts"][1:] == [inside, linked, {"text": "a.pdf:"}, pdf]


def test_files_are_sent_as_what_they_are() -> None:
    request = request_of(
        user(
            File("text/x-python", "a.py", "cHJpbnQoKQ=="),
            File("audio/mp3", data="AAAA"),
            File("application/zip", "a.zip", "UEsDBA=="),
            File("application/pdf", url="https://example.org/a.pdf"),
            Image("image/gif", "R0lG"),
        )
    )
    code, sound, other, linked, gif = sent(request)["contents"][0]["parts"]
    assert code == {"text": "a.py:\nprint()"}
    assert sound == {"inlineData": {"mimeType": "audio/mp3", "data": "AAAA"}}
    assert "a.zip" in other["text"] and "image/gif" in gif["text"]
    assert linked == {"fileData": {"mimeType": "application/pdf", "fileUri": "https://example.org/a.pdf"}}


THINKING: dict[str, list[Any]] = {
    "gemini-2.0-flash": [None] * 5,
    "gemma-3-27b-it": [None] * 5,
    "gemini-2.5-pro": [128, 128, 2048, 8192, 24576],
    "gemini-2.5-flash": [0, 512, 2048, 8192, 24576],
    "gemini-2.5-flash-lite": [0, 512, 2048, 8192, 24576],
    "gemini-2.5-flash-image": [None] * 5,
    "gemini-3-pro-preview": ["LOW", "LOW", "LOW", "HIGH", "HIGH"],
    "gemini-3.1-pro-preview": ["LOW", "LOW", "LOW", "MEDIUM", "HIGH"],
    "gemini-3-flash-preview": ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH"],
    "gemini-3.1-flash-lite": ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH"],
    "gemini-3.5-flash": ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH"],
    "gemini-3.8-flash": ["LOW", "LOW", "LOW", "MEDIUM", "HIGH"],
    "gemini-4-argon": ["LOW", "LOW", "LOW", "MEDIUM", "HIGH"],
    "gemini-pro-latest": ["LOW", "LOW", "LOW", "MEDIUM", "HIGH"],
}
LEVELS = ("off", "minimal", "low", "medium", "high")


@pytest.mark.parametrize("model", THINKING)
async def test_each_gemini_family_gets_its_own_thinking_fields(model: str) -> None:
    async with FakeVendor(lambda request: turn("ok")) as vendor:
        for level in LEVELS:
            request = request_of(reasoning=level)
            assert (await ask(vendor, request, model=model)).done.stop_reason == "end"
        configs = [received.json.get("generationConfig", {}) for received in vendor.requests]
    asked = [config.get("thinkingConfig", {}) for config in configs]
    assert [one.get("thinkingBudget", one.get("thinkingLevel")) for one in asked] == THINKING[model]
    shown = [one.get("includeThoughts", False) for one in asked]
    assert shown == [False, *[THINKING[model][0] is not None] * 4]
    assert "generationConfig" not in sent(request_of(), model)


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", None),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("read", {"mode": "ANY", "allowedFunctionNames": ["read"]}),
    ],
)
def test_the_choice_of_a_tool(choice: str, config: Any) -> None:
    body = sent(request_of(tools=(READ,), tool_choice=choice))
    assert body.get("toolConfig", {}).get("functionCallingConfig") == config
    assert "toolConfig" not in sent(request_of(tool_choice=choice))


@pytest.mark.parametrize("model", [MODEL, OLDER])
async def test_an_answer_schema_is_sent_if_the_model_supports_it(model: str) -> None:
    async with FakeVendor([turn('{"n":1}')] * 2) as vendor:
        for tools in ((), (READ,)):
            await ask(vendor, request_of(answer_schema=SCHEMA, tools=tools), model=model)
        alone, beside = [received.json.get("generationConfig") for received in vendor.requests]
    form = {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}
    assert alone == form and beside == (form if model == MODEL else None)


@pytest.mark.parametrize(
    ("model", "request_", "words"),
    [
        (
            MODEL,
            request_of(user("Look", Image("image/gif", "R0lG"))),
            "cannot read an image of type image/gif",
        ),
        (MODEL, request_of(user(File("video/mp4", data="AAAA")), reasoning="high", answer_schema=SCHEMA), ""),
        (OLDER, request_of(answer_schema=SCHEMA, tools=(READ,)), "cannot enforce a schema"),
        ("gemma-3-27b-it", request_of(reasoning="high"), "does not support reasoning levels"),
    ],
)
async def test_unsupported_features_are_reported(model: str, request_: ModelRequest, words: str) -> None:
    async with FakeVendor([turn("ok")]) as vendor:
        answer = await ask(vendor, request_, model=model)
    said = [event.text for event in answer.events if isinstance(event, Warned)]
    assert len(said) == bool(words) and all(words in text for text in said)


async def test_a_model_without_reasoning_gets_no_level() -> None:
    body = sent(request_of(reasoning="high"), settings=ModelProfile(reasons=False, output_limit=9))
    assert "generationConfig" not in body


def test_a_call_that_was_never_run_is_answered_under_its_name() -> None:
    telling = TranscriptBuilder()
    telling.add(UserMessage((Text("Hi"),)), 1)
    telling.add(AssistantMessage("mc_1", (ToolCall("c", "read", "{}"),), "tool_calls"), 1)
    telling.close_results()
    result = sent(request_of(*telling.transcript))["contents"][-1]["parts"][0]["functionResponse"]
    assert result["name"] == "read"
