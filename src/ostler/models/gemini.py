"""The Gemini wire: Google's models, asked through `streamGenerateContent`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import msgspec

from ostler.kernel.model import ModelRequest, ToolOffer
from ostler.models.gemini_families import gemini_family, thinking_for
from ostler.models.gemini_messages import WIRE, encode_tools, message_encoder, not_shown
from ostler.models.gemini_stream import GeminiDecoder
from ostler.models.reasoning_levels import nearest
from ostler.models.settings import ModelSettings
from ostler.models.shortfalls import Taken
from ostler.models.transport import Transport
from ostler.models.wire_model import WireModel
from ostler.vocabulary.messages import Block

_encode = msgspec.json.Encoder().encode


class GeminiModel(WireModel):
    """A model behind the Gemini wire."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "https://generativelanguage.googleapis.com",
        api_key: str = "",
        transport: Transport | None = None,
        settings: ModelSettings | None = None,
        provider: str = "google",
    ) -> None:
        super().__init__(
            model,
            url=_address(base_url.rstrip("/"), model),
            headers={"x-goog-api-key": api_key} if api_key else {},
            secret=api_key,
            provider=provider,
            transport=transport,
            settings=settings,
        )
        self._family = gemini_family(model)
        self._levels = self._family.levels.had(self._settings.reasoning_levels, self._settings.reasons)
        self._encoding = f"{WIRE}/strict" if self._family.strict else WIRE
        self._encode_message = message_encoder(self._family.strict)

    def _body(self, request: ModelRequest) -> bytes:
        head: dict[str, Any] = {}
        if generation := self._generation(request):
            head["generationConfig"] = generation
        if request.tools and request.tool_choice != "auto":
            head["toolConfig"] = {"functionCallingConfig": _tool_choice(request.tool_choice)}
        if request.system.strip():
            head["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            head["tools"] = msgspec.Raw(self._encoded_tools(request.tools))
        head["contents"] = []
        messages = self._encoded_messages(request, self._encoding, self._encode_message)
        return b"".join((_encode(head)[:-2], b",".join(filter(None, messages)), b"]}"))

    def _decoder(self, request: ModelRequest) -> GeminiDecoder:
        return GeminiDecoder(request, self._provider, self._model, self._settings.prices)

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        return encode_tools(tools)

    def _refused(self, block: Block) -> str:
        return not_shown(block)

    def _taken(self, request: ModelRequest) -> Taken:
        level = nearest(request.reasoning, self._levels)
        return Taken(level=level, schema=self._takes_schema(request))

    def _generation(self, request: ModelRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if output := self._output_limit(request):
            fields["maxOutputTokens"] = output
        if thinking := thinking_for(self._levels, request.reasoning):
            fields["thinkingConfig"] = thinking
        if request.answer_schema is not None and self._takes_schema(request):
            fields["responseMimeType"] = "application/json"
            fields["responseJsonSchema"] = request.answer_schema
        return fields

    def _takes_schema(self, request: ModelRequest) -> bool:
        """The older families refuse a schema beside tools."""
        return self._family.strict or not request.tools


def _address(base_url: str, model: str) -> str:
    """Of the beta, unless the base URL names a version: some names of models are known only there."""
    versioned = base_url if re.search(r"/v\d\w*$", base_url) else f"{base_url}/v1beta"
    resource = model if "/" in model else f"models/{model}"
    return f"{versioned}/{quote(resource)}:streamGenerateContent?alt=sse"


def _tool_choice(choice: str) -> dict[str, Any]:
    if choice == "none":
        return {"mode": "NONE"}
    if choice == "required":
        return {"mode": "ANY"}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}
