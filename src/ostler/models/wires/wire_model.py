"""`WireModel`, the base of all wires, and warnings about what a model does not support."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Literal

import msgspec

from ostler.core.model import ModelEvent, ModelRequest, ReasoningLevel, ToolOffer
from ostler.core.transcript import Transcript
from ostler.models.catalogue import ModelProfile
from ostler.models.endpoint import Endpoint
from ostler.models.families import Level
from ostler.models.transport import Transport
from ostler.models.wires.decoder import AnswerDecoder
from ostler.models.wires.encoder import (
    refused_by_vendor,
    unsupported_by_model,
    with_placeholders,
    without_foreign_data,
)
from ostler.schema.messages import Block, Message, ToolResult


class WireModel:
    """The base of all wires; see `Model` for what it promises.

    A wire has the vendor's `PROVIDER`, `BASE_URL` and `KEY_HEADER`, and defines `url`, `_body`, `_decoder`,
    `_encode_tools` and `_support`; `_configure` derives what it needs from the model's name and profile.
    """

    PROVIDER = "openai"
    BASE_URL = "https://api.openai.com/v1"
    KEY_HEADER = "authorization"

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
        """The headers of every request: the key, if there is one, `authorization` as a bearer token."""
        if not self._api_key:
            return {}
        prefix = "Bearer " if self._key_header == "authorization" else ""
        return {self._key_header: f"{prefix}{self._api_key}"}

    def _configure(self) -> None:
        pass

    def body(self, request: ModelRequest) -> bytes:
        """The request's bytes: the same request gives the same, and a longer transcript only adds to them."""
        return self._body(self._with_schema_told(self._with_usable_tools(request)))

    def _body(self, request: ModelRequest) -> bytes:
        raise NotImplementedError

    def _decoder(self, request: ModelRequest) -> AnswerDecoder:
        raise NotImplementedError

    def _encode_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        raise NotImplementedError

    def _support(self, request: ModelRequest) -> RequestSupport:
        raise NotImplementedError

    def _refused(self, block: Block) -> str:
        """What the block is, where the vendor refuses it from everybody; else nothing."""
        return refused_by_vendor(block)

    def prepare(self) -> None:
        """Loads what the first request needs; may be called from any thread, to save time at the start."""
        self._endpoint.prepare()

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        decoder = self._decoder(request)

        def build() -> bytes:
            if len(request.transcript) == 1 and self._settings.assumptions:
                decoder.warn(self._settings.assumptions)
            for sentence in self._unsupported(request):
                decoder.warn(sentence)
            return self.body(request)

        return self._endpoint.stream(build, decoder)

    def _unsupported(self, request: ModelRequest) -> list[str]:
        """What is asked that this model cannot do, a sentence each."""

        taken = self._support(self._with_usable_tools(request))
        return unsupported_features(self.name, request, taken, self._settings, self._hidden)

    def _with_usable_tools(self, request: ModelRequest) -> ModelRequest:
        if self._settings.tools is not False or not request.tools:
            return request
        return msgspec.structs.replace(request, tools=(), tool_choice="auto")

    def _with_schema_told(self, request: ModelRequest) -> ModelRequest:
        """A model that cannot be held to a schema is at least told of it."""
        if request.answer_schema is None or self._support(request).schema:
            return request
        schema = msgspec.json.encode(request.answer_schema).decode()
        system = f"{request.system}\n\nAnswer with nothing but JSON that fits this JSON Schema: {schema}"
        return msgspec.structs.replace(request, system=system.strip())

    def _hidden(self, block: Block) -> str:
        seen = unsupported_by_model(block, images=self._sees_images, files=self._reads_files)
        return seen or self._refused(block)

    def _encoded_messages(
        self, request: ModelRequest, key: str, encode: Callable[[Message], bytes]
    ) -> list[bytes]:
        """One encoding a message, without what is another provider's own or the model cannot see."""

        sees_all, provider = self._sees_images and self._reads_files, self._provider

        def encode_own(message: Message) -> bytes:
            if not sees_all:
                message = with_placeholders(message, images=self._sees_images, files=self._reads_files)
            return encode(without_foreign_data(message, provider) if message.role == "assistant" else message)

        sight = f"{self._sees_images:d}{self._reads_files:d}"
        encoded = request.transcript.encoded(f"{key}/{self._provider}/{sight}", encode_own)
        return [*encoded, *map(encode_own, request.tail)] if request.tail else encoded

    def _output_limit(self, request: ModelRequest) -> int | None:
        """How long the answer may be, where somebody set it; never more than the model can write."""
        asked = request.max_output_tokens or self._settings.max_output_tokens
        most = self._settings.output_limit
        return min(asked, most) if asked and most else asked

    def _encoded_tools(self, tools: tuple[ToolOffer, ...]) -> bytes:
        if self._tools[0] != tools:
            self._tools = (tools, self._encode_tools(tools))
        return self._tools[1]


Hidden = Callable[[Block], str]
"""What a block is, where the vendor is not shown it; nothing for one that it is shown."""


class RequestSupport(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a request on its wire."""

    level: Level | None
    """The level of reasoning that is sent; nothing where none can be."""
    stopped: bool = False
    """Whether the model may not reason because it is made to call a tool."""
    schema: bool = True
    choice: Literal["as_asked", "any", "free"] = "as_asked"
    """Whether the model is made to call the tool that was asked for, any tool, or none."""
    output_tokens: int | None = None
    """The limit of the answer, where it had to be raised for the reasoning."""


def unsupported_features(
    name: str, request: ModelRequest, taken: RequestSupport, settings: ModelProfile, hidden: Hidden
) -> list[str]:
    """A sentence for each thing that is asked of the model `name` and that it does not take.

    The later steps of a run would only repeat them: what concerns the whole request is said where the
    person's own message is the newest, and what concerns a block where that block is new.
    """
    transcript = request.transcript
    warnings = [f"{name} is not shown {what}" for what in _hidden_blocks(transcript, hidden)]
    if len(transcript) and transcript[-1].role != "user":
        return warnings
    if request.tools and settings.tools is False:
        warnings.append(f"{name} takes no tools; it is offered none")
    if taken.stopped:
        warnings.append(f"{name} cannot reason while it is made to call a tool; it is asked not to")
    elif request.reasoning is not None:
        warnings += _level(name, request.reasoning, taken.level, settings.reasons)
    if taken.output_tokens:
        warnings.append(f"{name} needs room to reason; its answer may have {taken.output_tokens:,} tokens")
    if request.answer_schema is not None and not taken.schema:
        warnings.append(f"{name} cannot be held to a schema; its answer may not fit")
    if taken.choice == "any":
        warnings.append(f"{name} cannot be made to call {request.tool_choice}; it is made to call any tool")
    elif taken.choice == "free":
        warnings.append(f"{name} cannot be told which tool to call; it chooses for itself")
    return warnings


def _level(name: str, asked: ReasoningLevel, sent: Level | None, reasons: bool | None) -> list[str]:
    if sent == asked:
        return []
    if sent is not None:
        cannot = "be stopped from reasoning" if asked == "off" else f"reason at the level {asked}"
        instead = "not to" if sent == "off" else f"for {sent}"
        return [f"{name} cannot {cannot}; it is asked {instead}"]
    if asked != "off":
        return [f"{name} takes no level of reasoning; it is asked without one"]
    return [f"nobody knows how {name} is stopped from reasoning; it is not asked to"] if reasons else []


def _hidden_blocks(transcript: Transcript, hidden: Hidden) -> list[str]:
    if not len(transcript):
        return []
    names: dict[str, None] = {}
    for block in transcript[-1].content:
        for part in block.content if isinstance(block, ToolResult) else (block,):
            what = hidden(part)
            if what:
                names[what] = None
    return list(names)
