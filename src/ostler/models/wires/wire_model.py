"""`WireModel`, the base of all wires, and warnings about what a model does not support."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.lazy import load
from ostler.core.model import ModelEvent, ModelRequest, ReasoningLevel, ToolOffer
from ostler.models.catalogue import ModelProfile
from ostler.models.endpoint import Endpoint
from ostler.models.families import Level
from ostler.models.transport import Transport
from ostler.models.wires.encoder import (
    encode_json,
    refused_by_vendor,
    unsupported_by_model,
    with_placeholders,
    without_foreign_data,
)
from ostler.schema.messages import Block, Message, ToolResult

if TYPE_CHECKING:
    from ostler.models.wires.decoder import AnswerDecoder

Describe = Callable[[Block], str]
"""Describes a block that cannot be sent; returns an empty string for any other."""


class WireModel:
    """The base of all wires; see `Model` for what it promises.

    A wire has the vendor's `PROVIDER`, `BASE_URL` and `KEY_HEADER`, its `DECODER` and the field of its
    `MESSAGES`, and defines `url`, `_head`, `_encode_tools` and `_support`; `_configure` sets what depends on
    the model's name and profile.
    """

    PROVIDER = "openai"
    BASE_URL = "https://api.openai.com/v1"
    KEY_HEADER = "authorization"
    DECODER: str
    """The module and the name of its `AnswerDecoder`."""
    MESSAGES = "messages"

    def __init__(
        self,
        model: str,
        *,
        base_url: str = "",
        api_key: str = "",
        key_header: str = "",
        transport: Transport | None = None,
        settings: ModelProfile | None = None,
        provider: str = "",
    ) -> None:
        self._model = model
        self._base_url = (base_url or self.BASE_URL).rstrip("/")
        self._api_key = api_key
        self._key_header = key_header or self.KEY_HEADER
        self._provider = provider or self.PROVIDER
        self.name = f"{self._provider}/{model}"
        self._settings = settings or ModelProfile()
        self._sees_images = not self._settings.input or "image" in self._settings.input
        # No source says which models read files, but one that takes only text reads none.
        self._reads_files = set(self._settings.input) != {"text"}
        self._refused: Describe = refused_by_vendor
        self._encode_message: Callable[[Message], bytes]
        self._encoding: str
        """Names everything that changes what `_encode_message` returns."""
        self._tools: tuple[tuple[ToolOffer, ...], bytes] = ((), b"")
        self._endpoint = Endpoint(
            self._provider,
            self.url(),
            self.headers(),
            secret=api_key,
            extra_headers=self._settings.headers,
            transport=transport,
        )
        self._configure()

    def url(self) -> str:
        """The address that requests are posted to."""
        raise NotImplementedError

    def headers(self) -> dict[str, str]:
        """The headers of every request: the key, if there is one; in `authorization` as a bearer token."""
        if not self._api_key:
            return {}
        prefix = "Bearer " if self._key_header == "authorization" else ""
        return {self._key_header: f"{prefix}{self._api_key}"}

    def _configure(self) -> None:
        raise NotImplementedError

    def body(self, request: ModelRequest) -> bytes:
        """The request's bytes. They depend only on the request, and a longer transcript only adds to them."""
        request = self._with_schema_in_prompt(self._with_supported_tools(request))
        head = self._head(request)
        if request.tools:
            if self._tools[0] != request.tools:
                self._tools = (request.tools, self._encode_tools(request.tools))
            head["tools"] = msgspec.Raw(self._tools[1])
        head[self.MESSAGES] = []
        return b"".join((encode_json(head)[:-2], b",".join(filter(None, self._messages(request))), b"]}"))

    def _head(self, request: ModelRequest) -> dict[str, Any]:
        """All fields of a request but the tools and the messages."""
        raise NotImplementedError

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        raise NotImplementedError

    def _support(self, request: ModelRequest) -> RequestSupport:
        raise NotImplementedError

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        warnings: list[str] = []

        def build() -> bytes:
            if len(request.transcript) == 1 and self._settings.assumptions:
                warnings.append(self._settings.assumptions)
            warnings.extend(self.warnings(request))
            return self.body(request)

        def make_decoder() -> AnswerDecoder:
            decoder: AnswerDecoder = load(self.DECODER)(
                request, self._provider, self._model, self._settings.prices
            )
            for warning in warnings:
                decoder.warn(warning)
            return decoder

        return self._endpoint.stream(build, make_decoder)

    def warnings(self, request: ModelRequest) -> list[str]:
        """A sentence for each feature of the request that the model does not support."""
        support = self._support(self._with_supported_tools(request))
        return unsupported_features(self.name, request, support, self._settings, self._omitted)

    def _with_supported_tools(self, request: ModelRequest) -> ModelRequest:
        if self._settings.tools is not False or not request.tools:
            return request
        return msgspec.structs.replace(request, tools=(), tool_choice="auto")

    def _with_schema_in_prompt(self, request: ModelRequest) -> ModelRequest:
        """Puts the schema into the system prompt if the wire cannot enforce it."""
        if request.answer_schema is None or self._support(request).schema:
            return request
        schema = encode_json(request.answer_schema).decode()
        system = f"{request.system}\n\nAnswer only with JSON that matches this JSON Schema: {schema}"
        return msgspec.structs.replace(request, system=system.strip())

    def _omitted(self, block: Block) -> str:
        unsupported = unsupported_by_model(block, images=self._sees_images, files=self._reads_files)
        return unsupported or self._refused(block)

    def _messages(self, request: ModelRequest) -> list[bytes]:
        """One encoding a message, without other providers' data and blocks that the model cannot read."""
        images, files, provider = self._sees_images, self._reads_files, self._provider

        def encode(message: Message) -> bytes:
            if not (images and files):
                message = with_placeholders(message, images=images, files=files)
            if message.role == "assistant":
                message = without_foreign_data(message, provider)
            return self._encode_message(message)

        encoded = request.transcript.encoded(f"{self._encoding}/{provider}/{images:d}{files:d}", encode)
        return [*encoded, *map(encode, request.tail)] if request.tail else encoded

    def _output_limit(self, request: ModelRequest) -> int | None:
        """The limit that is set for the answer's length, if any; never above the model's own limit."""
        limit = request.max_output_tokens or self._settings.max_output_tokens
        most = self._settings.output_limit
        return min(limit, most) if limit and most else limit


class RequestSupport(msgspec.Struct, frozen=True, kw_only=True):
    """Which features of a request the wire can send."""

    level: Level | None
    """The reasoning level that is sent; None if none can be."""
    stopped: bool = False
    """The model may not reason because it must call a tool."""
    schema: bool = True
    choice: Literal["as_asked", "any", "free"] = "as_asked"
    """Whether the model must call the requested tool, any tool, or none."""
    output_tokens: int | None = None
    """The limit of the answer, if it had to be raised for the reasoning."""


def unsupported_features(
    name: str, request: ModelRequest, support: RequestSupport, settings: ModelProfile, omitted: Describe
) -> list[str]:
    """A sentence for each feature of the request that the model `name` does not support.

    Later steps of a run do not repeat them: features of the whole request are reported when the person's
    message is the newest, and a block when it is new.
    """
    transcript = request.transcript
    newest = transcript[-1].content if len(transcript) else ()
    parts = [
        part for block in newest for part in (block.content if isinstance(block, ToolResult) else (block,))
    ]
    blocks = dict.fromkeys(filter(None, map(omitted, parts)))
    warnings = [f"{name} cannot read {block}; it is omitted" for block in blocks]
    if len(transcript) and transcript[-1].role != "user":
        return warnings
    if request.tools and settings.tools is False:
        warnings.append(f"{name} does not support tools; none are sent")
    if support.stopped:
        warnings.append(f"{name} cannot reason when it must call a tool; reasoning is turned off")
    elif request.reasoning is not None:
        warnings += _level_warning(name, request.reasoning, support.level, settings.reasons)
    if support.output_tokens:
        warnings.append(f"{name} needs room to reason; the output limit is {support.output_tokens:,} tokens")
    if request.answer_schema is not None and not support.schema:
        warnings.append(f"{name} cannot enforce a schema; its answer may not match it")
    if support.choice == "any":
        warnings.append(f"{name} cannot be made to call {request.tool_choice}; it must call any tool instead")
    elif support.choice == "free":
        warnings.append(f"{name} does not support a tool choice; it chooses for itself")
    return warnings


def _level_warning(
    name: str, requested: ReasoningLevel, sent: Level | None, reasons: bool | None
) -> list[str]:
    if sent == requested:
        return []
    if sent is not None:
        feature = "turn reasoning off" if requested == "off" else f"reason at the level {requested}"
        instead = "reasoning is turned off" if sent == "off" else f"the level is {sent}"
        return [f"{name} cannot {feature}; {instead}"]
    if requested != "off":
        return [f"{name} does not support reasoning levels; none is sent"]
    return [f"it is not known how to turn reasoning off for {name}; it stays on"] if reasons else []
