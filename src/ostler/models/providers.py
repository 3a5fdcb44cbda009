"""The built-in providers, and those that a user's configuration adds or changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ostler.schema.errors import ConfigurationError

Wire = Literal["anthropic", "chat", "responses", "gemini"]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A vendor, or a local server."""

    name: str
    base_url: str = ""
    """As in the vendor's own SDK."""
    key_variables: tuple[str, ...] = ()
    """The environment variables of its key; empty for a server that needs no key."""
    default_model: str = ""
    wire: Wire = "chat"
    wire_elsewhere: Wire | None = None
    """The default wire at any other address than the vendor's own."""
    base_url_variable: str = ""
    base_path: str = ""
    """Added to the address in that variable, for a vendor with an address for each customer."""
    key_header: str = "authorization"
    """`authorization` carries `Bearer KEY`; any other header the key alone."""
    charges: bool = True
    """Whether calls cost money."""
    like: str = ""
    """The provider whose dialect and models it shares; by default its own."""
    headers: dict[str, str] = {}

    @property
    def is_local(self) -> bool:
        """Whether it is a server on this machine."""
        return self.base_url.startswith(("http://127.0.0.1:", "http://localhost:", "http://[::1]:"))


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A provider in the configuration: `[providers.NAME]`. Absent values are not changed."""

    base_url: str | None = None
    key_variable: str | None = None
    """The environment variable that holds its key."""
    api_key: str = ""
    """The key itself; only in the user's own configuration."""
    key_command: str = ""
    """A shell command that prints the key; it has 30 seconds."""
    default_model: str | None = None
    wire: Wire | None = None
    charges: bool | None = None
    """`false` for a free or a subscription endpoint."""
    like: str | None = None
    """The provider whose quirks and models it shares."""
    headers: dict[str, str] | None = None
    """Sent with every request."""


class ModelOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a user sets about models: which one, how its provider is reached, what the catalogue lacks."""

    model: str = ""
    """`PROVIDER/ID` or an alias; without one, what `ostler doctor` finds."""
    base_url: str = ""
    """Another server that speaks the provider's protocol."""
    api_key: str = ""
    """Goes before the provider's own variable."""
    key_command: str = ""
    """A shell command that prints the key; it has 30 seconds."""
    wire: Wire | None = None
    """The protocol to speak with that model, where it is not its provider's usual one."""
    providers: dict[str, ProviderSettings] = {}
    """Further providers, and changes to known ones: `[providers.NAME]`."""
    models: dict[str, dict[str, Any]] = {}
    """What is known of models beside or against the catalogue: `[models."PROVIDER/ID"]`."""
    aliases: dict[str, str] = {}
    """Short names for models."""


FOR_ONE_MODEL = frozenset({"base_url", "api_key", "key_command", "wire"})
"""Options that belong to the provider of the model that is set beside them."""


def _vendor(name: str, base_url: str, key_variable: str, default_model: str = "") -> Provider:
    return Provider(name=name, base_url=base_url, key_variables=(key_variable,), default_model=default_model)


def _local(name: str, port: int) -> Provider:
    return Provider(name=name, base_url=f"http://127.0.0.1:{port}/v1", charges=False)


_ALL = (
    Provider(
        name="anthropic",
        base_url="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY",),
        default_model="claude-sonnet-5-5",
        wire="anthropic",
        base_url_variable="ANTHROPIC_BASE_URL",
        key_header="x-api-key",
    ),
    Provider(
        name="openai",
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        default_model="gpt-6.1-sol",
        wire="responses",
        wire_elsewhere="chat",  # the wire of every compatible server
        base_url_variable="OPENAI_BASE_URL",
    ),
    Provider(
        name="google",
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini-4-argon",
        wire="gemini",
        base_url_variable="GOOGLE_GEMINI_BASE_URL",
        key_header="x-goog-api-key",
    ),
    _vendor("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openrouter/auto"),
    _vendor("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "openai/gpt-oss-120b"),
    _vendor("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-large-4"),
    _vendor("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-v4-pro"),
    _vendor("xai", "https://api.x.ai/v1", "XAI_API_KEY", "grok-4.7"),
    _vendor("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY", "kimi-k3.1-pro"),
    _vendor("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", "zai-org/GLM-5.3"),
    _vendor(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        "FIREWORKS_API_KEY",
        "accounts/fireworks/models/glm-5p3",
    ),
    Provider(
        name="azure",
        key_variables=("AZURE_OPENAI_API_KEY",),
        wire="responses",
        base_url_variable="AZURE_OPENAI_ENDPOINT",
        base_path="/openai/v1",
        key_header="api-key",
        like="openai",
    ),
    _local("ollama", 11434),
    _local("lmstudio", 1234),
    _local("llamacpp", 8080),
    _local("vllm", 8000),
    _local("jan", 1337),
    Provider(name="gguf", charges=False),
)

PROVIDERS: dict[str, Provider] = {provider.name: provider for provider in _ALL}


def configured_providers(configured: Mapping[str, ProviderSettings]) -> dict[str, Provider]:
    """The known providers with what a user's configuration adds or changes."""
    return PROVIDERS | {name: _configured(name, settings) for name, settings in configured.items()}


def variables_with_keys(providers: Mapping[str, Provider]) -> frozenset[str]:
    """The environment variables that Ostler reads keys from, also those of other models than the chosen."""
    own = (variable for one in (*PROVIDERS.values(), *providers.values()) for variable in one.key_variables)
    return frozenset({*own, "OSTLER_API_KEY", "OSTLER_TOKEN"})


def _configured(name: str, settings: ProviderSettings) -> Provider:
    built_in = PROVIDERS.get(name)
    if built_in is None and not settings.base_url:
        raise ConfigurationError(f"providers.{name} is new and needs a base_url")
    if not name or "/" in name:
        raise ConfigurationError(f"providers.{name}: a provider's name has no slash in it")
    if settings.like and settings.like not in PROVIDERS:
        raise ConfigurationError(f"providers.{name}: like must be one of {', '.join(PROVIDERS)}")
    fields = ("base_url", "default_model", "wire", "charges", "headers")
    changes: dict[str, Any] = {field: getattr(settings, field) for field in fields}
    changes["like"] = settings.like and (PROVIDERS[settings.like].like or settings.like)
    changes = {field: value for field, value in changes.items() if value is not None}
    if settings.key_variable is not None:
        changes["key_variables"] = tuple(filter(None, [settings.key_variable]))
    if settings.wire is not None:
        changes["wire_elsewhere"] = None
    if settings.base_url and built_in is not None:
        changes = {"wire": built_in.wire_elsewhere or built_in.wire} | changes | {"base_url_variable": ""}
    return msgspec.structs.replace(built_in or Provider(name=name), **changes)
