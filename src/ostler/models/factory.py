"""Makes the model for a name such as `anthropic/claude-…`: finds its provider, key, address and wire."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ostler.core.lazy import load
from ostler.core.model import Model, ModelEvent, ModelRequest
from ostler.models.catalogue import FREE, Catalogue, ModelInfo, ModelProfile, Prices
from ostler.models.credentials import Key, KeySearch, find_key, is_sendable, learn_keys
from ostler.models.providers import (
    FOR_ONE_MODEL,
    PROVIDERS,
    ModelOptions,
    Provider,
    ProviderSettings,
    Wire,
    configured_providers,
    variables_with_keys,
)
from ostler.models.rate_gate import RateGate, gate_of
from ostler.schema.errors import ConfigurationError, NoModel, UsageError
from ostler.store.paths import key_file

if TYPE_CHECKING:
    from ostler.models.transport import Transport
    from ostler.models.wires.wire_model import WireModel

MakeModel = Callable[[str], Model]
Options = TypeVar("Options", bound=ModelOptions)
FindKey = Callable[[Provider, KeySearch], Key | None]


class ModelFactory:
    """Makes models by name or alias, with the providers, keys and prices of the settings.

    The settings' own `base_url`, `api_key`, `key_command` and `wire` apply only to the provider of their
    `model`.
    """

    def __init__(
        self, settings: ModelOptions, environment: Mapping[str, str] = os.environ, find: FindKey = find_key
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._find = find
        self.providers = configured_providers(settings.providers)
        self.catalogue = Catalogue(settings.models, settings.aliases)
        learn_known_keys(settings, environment)

    def limits(self, model: str) -> tuple[int, int | None]:
        return self.catalogue.limits(model)

    def __call__(self, name: str) -> Model:
        if name in ("demo", "demo/script"):  # the alias, and the name in a session's log
            demo: Model = load("ostler.models.scripted:DemoModel")()
            return demo

        settings = self._settings
        name = self.catalogue.resolve(name.strip())
        provider, _ = split_name(name, self.providers)
        is_own = names_vendor_of_key(settings, provider)
        key = self._find(provider, key_search(settings, provider, self._environment))
        return make_model(
            name,
            base_url=settings.base_url if is_own else "",
            api_key=key.value if key else "",
            wire=settings.wire if is_own else None,
            environment=self._environment,
            providers=self.providers,
            catalogue=self.catalogue,
        )


def key_search(
    settings: ModelOptions, provider: Provider, environment: Mapping[str, str] = os.environ
) -> KeySearch:
    """Where to look for a provider's key, by the settings."""
    is_own = names_vendor_of_key(settings, provider)
    configured = settings.providers.get(provider.name, ProviderSettings())
    return KeySearch(
        named=settings.api_key if is_own else "",
        environment=environment,
        configured=configured.api_key,
        command=(settings.key_command if is_own else "") or configured.key_command,
        file=key_file(),
    )


def learn_known_keys(
    settings: ModelOptions | None = None, environment: Mapping[str, str] = os.environ
) -> None:
    """Makes the keys of all providers known, to mask them, and hides their variables from tools."""
    settings = settings or ModelOptions()
    file = None
    with suppress(ConfigurationError):  # there is no home directory, and so no file
        file = key_file()
    learn_keys(
        KeySearch(named=settings.api_key, environment=environment, file=file),
        variables_with_keys(configured_providers(settings.providers)),
        [one.api_key for one in settings.providers.values()],
    )


def names_vendor_of_key(settings: ModelOptions, provider: Provider) -> bool:
    """Whether the settings for one model's provider apply to this provider."""
    if not settings.model:
        return True
    model = Catalogue(aliases=settings.aliases).resolve(settings.model.strip())
    return model.partition("/")[0] == provider.name


def for_any_model(settings: Options) -> Options:
    """The settings without those for one model's provider: another provider must not get its key."""
    defaults = ModelOptions()
    return msgspec.structs.replace(settings, **{name: getattr(defaults, name) for name in FOR_ONE_MODEL})


_WIRES: dict[Wire, str] = {
    "anthropic": "ostler.models.wires.anthropic:AnthropicModel",
    "chat": "ostler.models.wires.chat:ChatModel",
    "responses": "ostler.models.wires.responses:ResponsesModel",
    "gemini": "ostler.models.wires.gemini:GeminiModel",
}


class LazyModel:
    """A model whose wire is imported when it is first used, to save time at the start.

    It keeps the rate gate of its server and key alive.
    """

    def __init__(self, name: str, address: str, make: Callable[[], WireModel], gate: RateGate) -> None:
        self.name = name
        self.address = address
        self._make = make
        self._gate = gate
        self._model: WireModel | None = None

    def load(self) -> WireModel:
        if self._model is None:
            self._model = self._make()
        return self._model

    def stream(self, request: ModelRequest) -> AsyncGenerator[list[ModelEvent], None]:
        return self.load().stream(request)

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.aclose()


def make_model(
    name: str,
    *,
    base_url: str = "",
    api_key: str = "",
    wire: Wire | None = None,
    transport: Transport | None = None,
    settings: ModelProfile | None = None,
    environment: Mapping[str, str] = os.environ,
    providers: Mapping[str, Provider] = PROVIDERS,
    catalogue: Catalogue | None = None,
) -> Model:
    """The model of that name or alias. Missing options come from the environment, then from the provider.

    The provider's key is sent to any base URL that is set.
    """
    catalogue = catalogue or Catalogue()
    provider, model = split_name(catalogue.resolve(name.strip()), providers)
    info = catalogue.lookup(f"{provider.name}/{model}", like=provider.like)
    profile = _profile(settings or ModelProfile(), provider, info, catalogue.prices_of_user(info.name))
    if provider.name == "gguf":
        if base_url:
            raise UsageError(f"gguf/{model} is a file and has no base URL: leave it out")
        local: Model = load("ostler.models.gguf:GgufModel")(
            model, settings=profile, context=info.context_window
        )
        return local
    own_address = _address_in(environment, provider)
    named_address = base_url or own_address
    address = named_address or provider.base_url
    _check_address(provider, address)
    variables = (environment.get(name, "").strip() for name in provider.key_variables)
    key = (api_key or next(filter(None, variables), "")).strip()
    # Another server may need no key. With a base path, the variable names the vendor's own server.
    is_elsewhere = bool(base_url or (own_address and not provider.base_path))
    if not key and provider.key_variables and not is_elsewhere:
        raise NoModel(
            f"{provider.name} needs a key: set {provider.key_variables[0]}, "
            f"run `ostler key set {provider.name}`, or name another model"
        )
    if not is_sendable(key):
        raise UsageError(f"the key for {provider.name} contains invalid characters: copy it again")
    spoken = wire or (named_address and provider.wire_elsewhere) or provider.wire
    if not named_address and provider.charges:  # the catalogue does not describe other servers' models
        profile = msgspec.structs.replace(profile, assumptions=info.assumptions)

    def make() -> WireModel:
        loaded: WireModel = load(_WIRES[spoken])(
            model,
            base_url=address,
            api_key=key,
            transport=transport,
            settings=profile,
            provider=provider.name,
            **_wire_options(spoken, provider, address),
        )
        return loaded

    return LazyModel(f"{provider.name}/{model}", address, make, gate_of(urlsplit(address).netloc, key))


def split_name(name: str, providers: Mapping[str, Provider]) -> tuple[Provider, str]:
    """The provider and the id of a name; a provider alone means its default model."""
    provider_name, _, model = name.partition("/")
    provider = providers.get(provider_name)
    if provider is None:
        raise UsageError(_unknown(name, providers))
    model = model or provider.default_model
    if not model:
        raise UsageError(f"{name!r} names no model: write {provider.name}/ID")
    return provider, model


def _unknown(name: str, providers: Mapping[str, Provider]) -> str:
    from difflib import get_close_matches

    catalogue = Catalogue()
    names = {one.lower(): one for one in (*catalogue.aliases, *(f"{one}/" for one in providers))}
    for info in catalogue.models():
        names[info.name.lower()] = info.name
        names.setdefault(info.name.partition("/")[2].lower(), info.name)
    if close := get_close_matches(name.lower(), names, n=1, cutoff=0.75):
        return f"there is no model {name!r}: did you mean {names[close[0]].rstrip('/')}?"
    start, slash, _ = name.partition("/")
    if slash and (near := get_close_matches(start.lower(), providers, n=1, cutoff=0.75)):
        return f"there is no model {name!r}, and no provider {start!r}: did you mean the provider {near[0]}?"
    return (
        f"there is no model {name!r}: a model is named PROVIDER/ID, or by an alias that `ostler models` "
        f"lists; providers are {', '.join(providers)}"
    )


def _address_in(environment: Mapping[str, str], provider: Provider) -> str:
    address = environment.get(provider.base_url_variable, "") if provider.base_url_variable else ""
    if address and provider.base_path and provider.base_path not in address:
        address = address.rstrip("/") + provider.base_path
    return address


def _profile(
    settings: ModelProfile, provider: Provider, info: ModelInfo, prices_of_user: Prices | None
) -> ModelProfile:
    """The settings, with missing values from the catalogue."""
    return msgspec.structs.replace(
        settings,
        prices=settings.prices or prices_of_user or (info.prices if provider.charges else FREE),
        headers={**provider.headers, **settings.headers},
        output_limit=settings.output_limit or info.output_limit,
        input=settings.input or info.input,
        reasons=info.reasoning if settings.reasons is None else settings.reasons,
        reasoning_levels=settings.reasoning_levels or info.reasoning_levels,
        tools=info.tools if settings.tools is None else settings.tools,
    )


def _wire_options(wire: Wire, provider: Provider, address: str) -> dict[str, Any]:
    """The options of OpenAI's wires, which other vendors imitate with differences."""
    if wire not in ("chat", "responses"):
        return {}
    options: dict[str, Any] = {"key_header": provider.key_header}
    # A vendor's dialect applies to its own server; another server under its name gets the plain wire.
    is_vendor = urlsplit(address).hostname == urlsplit(provider.base_url).hostname
    if wire == "chat" and (provider.like or not provider.key_variables or is_vendor):
        dialects = load("ostler.models.wires.chat_dialects:DIALECTS")
        options["dialect"] = dialects.get(provider.like or provider.name)
    return options


def _check_address(provider: Provider, address: str) -> None:
    if not address:
        raise NoModel(f"{provider.name} needs an address: set {provider.base_url_variable}, or a base URL")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unclosed brackets, or a port above 65535
        usable = False
    if not usable:
        raise UsageError("the base URL is not an address: write it as https://host/path or http://host:port")
