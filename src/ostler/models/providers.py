"""The providers there are, and how a name such as `anthropic/claude-…` becomes a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from ostler.kernel.model import Model
from ostler.models.chat import ChatDialect, ChatModel
from ostler.models.settings import ModelSettings, Prices
from ostler.models.transport import Transport
from ostler.vocabulary.errors import NoModel, UsageError


class Provider(msgspec.Struct, frozen=True):
    """`base_url` is what the vendor's own SDK calls by that name."""

    name: str
    base_url: str
    key_variable: str = ""
    """Empty for a server of one's own, which needs no key and costs nothing."""
    default_model: str = ""
    wire: Literal["chat", "anthropic"] = "chat"
    base_url_variable: str = ""
    dialect: ChatDialect = ChatDialect()


_OPENAI = ChatDialect(
    output_limit="max_completion_tokens", call_id=r"[a-zA-Z0-9_-]{1,40}", no_reasoning="none"
)
_MISTRAL = ChatDialect(usage_option=False, call_id=r"[a-zA-Z0-9]{9}")
_CAN_STOP_REASONING = ChatDialect(no_reasoning="none")

_ALL = (
    Provider(
        "anthropic",
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "claude-sonnet-5-5",
        wire="anthropic",
        base_url_variable="ANTHROPIC_BASE_URL",
    ),
    Provider(
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "gpt-6.1-sol",
        base_url_variable="OPENAI_BASE_URL",
        dialect=_OPENAI,
    ),
    Provider(
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        "openrouter/auto",
        dialect=_CAN_STOP_REASONING,
    ),
    Provider("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    Provider(
        "mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-large-latest", dialect=_MISTRAL
    ),
    Provider("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    Provider("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    Provider("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    Provider("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    Provider("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    Provider("ollama", "http://127.0.0.1:11434/v1", dialect=_CAN_STOP_REASONING),
    Provider("lmstudio", "http://127.0.0.1:1234/v1"),
    Provider("llamacpp", "http://127.0.0.1:8080/v1"),
    Provider("vllm", "http://127.0.0.1:8000/v1"),
)

PROVIDERS: dict[str, Provider] = {provider.name: provider for provider in _ALL}


def make_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    transport: Transport | None = None,
    settings: ModelSettings | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Model:
    """The model of that name. What is not given comes from the environment, then from the provider.

    A provider's key goes to whatever base URL is named: who names both means both.
    """
    provider, model = _parse(name)
    address = base_url or _variable(environment, provider.base_url_variable) or provider.base_url
    _check_address(address)
    key = (api_key or _variable(environment, provider.key_variable)).strip()
    if not key and provider.key_variable and address == provider.base_url:
        raise NoModel(f"{provider.name} needs a key: set {provider.key_variable}, or name another model")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"the key for {provider.name} holds characters that no key has: copy it again")
    settings = settings or ModelSettings()
    if not provider.key_variable and settings.prices is None:
        settings = msgspec.structs.replace(settings, prices=Prices())
    if provider.wire == "anthropic":
        from ostler.models.anthropic import AnthropicModel

        return AnthropicModel(
            model,
            base_url=address,
            api_key=key,
            transport=transport,
            settings=settings,
            provider=provider.name,
        )
    own_server = not provider.key_variable or _host(address) == _host(provider.base_url)
    return ChatModel(
        model,
        base_url=address,
        api_key=key,
        transport=transport,
        settings=settings,
        provider=provider.name,
        dialect=provider.dialect if own_server else ChatDialect(),
    )


def _parse(name: str) -> tuple[Provider, str]:
    provider_name, _, model = name.strip().partition("/")
    provider = PROVIDERS.get(provider_name)
    if provider is None:
        known = ", ".join(PROVIDERS)
        raise UsageError(f"no provider in {name!r}: a model is named PROVIDER/ID; providers are {known}")
    model = model or provider.default_model
    if not model:
        raise UsageError(f"{name!r} names no model: write {provider.name}/ID")
    return provider, model


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name, "") if name else ""


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are not closed, a port beyond 65535
        usable = False
    if not usable:
        raise UsageError("the base URL is not an address: write it as https://host/path or http://host:port")


def _host(address: str) -> str | None:
    return urlsplit(address).hostname
