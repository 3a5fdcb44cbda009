"""Makes the model for a name such as `anthropic/claude-…`: its provider, key, address and wire."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ostler.core.lazy import load
from ostler.core.model import Model, ModelEvent, ModelRequest
from ostler.models.catalogue import FREE, Catalogue, ModelInfo, ModelProfile, Prices
from ostler.models.credentials import Key, KeySearch, find_key, is_sendable
from ostler.models.providers import (
    FOR_ONE_MODEL,
    PROVIDERS,
    ModelOptions,
    Provider,
    ProviderSettings,
    Wire,
    configured_providers,
)
from ostler.models.rate_gate import RateGate, gate_of
from ostler.schema.errors import NoModel, UsageError
from ostler.store.paths import key_file

if TYPE_CHECKING:
    from ostler.models.transport import Transport
    from ostler.models.wires.wire_model import WireModel

MakeModel = Callable[[str], Model]
Options = TypeVar("Options", bound=ModelOptions)
FindKey = Callable[[Provider, KeySearch], Key | None]


class ModelFactory:
    """Makes models by name or alias, with the providers, keys and prices that the settings know.

    The settings' own `base_url`, `api_key`, `key_command` and `wire` are meant for the provider of their
    `model`: a model of another provider gets none of them.
    """

    def __init__(
        self, settings: ModelOptions, environment: Mapping[str, str] = os.environ, find: FindKey = find_key
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._find = find
        self.providers = configured_providers(settings.providers)
        self.catalogue = Catalogue(settings.models, settings.aliases)

    def limits(self, model: str) -> tuple[int, int | None]:
        """How many tokens a model reads, and how many it writes."""
        return self.catalogue.limits(model)

    def __call__(self, name: str) -> Model:
        if name in ("demo", "demo/script"):  # as it is asked for, and as a session remembers it
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
    """Where the settings let a provider's key be looked for."""
    is_own = names_vendor_of_key(settings, provider)
    known = settings.providers.get(provider.name, ProviderSettings())
    return KeySearch(
        named=settings.api_key if is_own else "",
        environment=environment,
        configured=known.api_key,
        command=(settings.key_command if is_own else "") or known.key_command,
        file=key_file(),
    )


def names_vendor_of_key(settings: ModelOptions, provider: Provider) -> bool:
    """Whether what is set for one model's provider is set for this one."""
    if not settings.model:
        return True
    named = Catalogue(aliases=settings.aliases).resolve(settings.model.strip())
    return named.partition("/")[0] == provider.name


def for_any_model(settings: Options) -> Options:
    """Without what was meant for one model's provider: a key must not go to another's."""
    defaults = ModelOptions()
    return msgspec.structs.replace(settings, **{name: getattr(defaults, name) for name in FOR_ONE_MODEL})


_WIRES: dict[Wire, str] = {
    "anthropic": "ostler.models.wires.anthropic:AnthropicModel",
    "chat": "ostler.models.wires.chat:ChatModel",
    "responses": "ostler.models.wires.responses:ResponsesModel",
    "gemini": "ostler.models.wires.gemini:GeminiModel",
}


class LazyModel:
    """A model whose wire is imported at its first `prepare` or `stream`: the start does not wait for it.

    It holds the rate gate of its server and key from the beginning.
    """

    def __init__(self, name: str, make: Callable[[], WireModel], gate: RateGate) -> None:
        self.name = name
        self._make = make
        self._gate = gate
        self._model: WireModel | None = None

    def load(self) -> WireModel:
        """The model itself."""
        if self._model is None:
            self._model = self._make()
        return self._model

    def prepare(self) -> None:
        """Loads what the first request needs."""
        self.load().prepare()

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
    """The model of that name or alias. What is not given comes from the environment, then the provider.

    A provider's key goes to whatever base URL is named: who names both means both.
    """
    catalogue = catalogue or Catalogue()
    provider, model = split_name(catalogue.resolve(name.strip()), providers)
    info = catalogue.lookup(f"{provider.name}/{model}", like=provider.like)
    informed = _informed(settings or ModelProfile(), provider, info, catalogue.prices_of_user(info.name))
    if provider.name == "gguf":
        return _from_file(model, base_url, informed, info)
    own_address = _address_in(environment, provider)
    named_address = base_url or own_address
    address = named_address or provider.base_url
    _check_address(provider, address)
    key = (api_key or key_in(environment, provider)).strip()
    # Another server may do without a key; where a path belongs to the variable, it names the vendor's own.
    is_elsewhere = bool(base_url or (own_address and not provider.base_path))
    if not key and provider.key_variables and not is_elsewhere:
        raise NoModel(needs_key(provider))
    if not is_sendable(key):
        raise UsageError(f"the key for {provider.name} holds characters that no key has: copy it again")
    wire = wire or (named_address and provider.wire_elsewhere) or provider.wire
    if not named_address and provider.charges:  # nobody expects the catalogue to know another server's
        informed = msgspec.structs.replace(informed, assumptions=info.assumptions)
    spoken = wire

    def make() -> WireModel:
        loaded: WireModel = load(_WIRES[spoken])(
            model,
            base_url=address,
            api_key=key,
            transport=transport,
            settings=informed,
            provider=provider.name,
            **_wire_options(spoken, provider, address),
        )
        return loaded

    return LazyModel(f"{provider.name}/{model}", make, gate_of(urlsplit(address).netloc, key))


def split_name(name: str, providers: Mapping[str, Provider]) -> tuple[Provider, str]:
    """The provider and the id in a name; a provider alone means its default model."""
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
    written = {one.lower(): one for one in (*catalogue.aliases, *(f"{one}/" for one in providers))}
    for info in catalogue.models():
        written[info.name.lower()] = info.name
        written.setdefault(info.name.partition("/")[2].lower(), info.name)
    close = get_close_matches(name.lower(), written, n=1, cutoff=0.75)
    if close:
        return f"there is no model {name!r}: did you mean {written[close[0]].rstrip('/')}?"
    start, slash, _ = name.partition("/")
    if slash and (near := get_close_matches(start.lower(), providers, n=1, cutoff=0.75)):
        return f"there is no model {name!r}, and no provider {start!r}: did you mean the provider {near[0]}?"
    return (
        f"there is no model {name!r}: a model is named PROVIDER/ID, or by an alias that `ostler models` "
        f"lists; providers are {', '.join(providers)}"
    )


def key_in(environment: Mapping[str, str], provider: Provider) -> str:
    return next((key for one in provider.key_variables if (key := environment.get(one, "").strip())), "")


def needs_key(provider: Provider) -> str:
    return (
        f"{provider.name} needs a key: set {provider.key_variables[0]}, "
        f"say `ostler key set {provider.name}`, or name another model"
    )


def _from_file(file: str, base_url: str, settings: ModelProfile, info: ModelInfo) -> Model:
    if base_url:
        raise UsageError(f"gguf/{file} is a file and has no base URL: leave it out")
    model: Model = load("ostler.models.gguf:GgufModel")(file, settings=settings, context=info.context_window)
    return model


def _address_in(environment: Mapping[str, str], provider: Provider) -> str:
    address = environment.get(provider.base_url_variable, "") if provider.base_url_variable else ""
    if address and provider.base_path and provider.base_path not in address:
        address = address.rstrip("/") + provider.base_path
    return address


def _informed(
    settings: ModelProfile, provider: Provider, info: ModelInfo, prices_of_user: Prices | None
) -> ModelProfile:
    """The settings with what is known of the model, where they do not say it themselves."""
    prices = settings.prices or prices_of_user or (info.prices if provider.charges else FREE)
    return msgspec.structs.replace(
        settings,
        prices=prices,
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
    # A vendor's quirks are its own server's; another one behind its name gets the wire as it is written.
    is_own = provider.like or not provider.key_variables or _host(address) == _host(provider.base_url)
    if wire == "chat" and is_own:
        options["dialect"] = load("ostler.models.wires.chat_dialects:DIALECTS").get(
            provider.like or provider.name
        )
    return options


def _check_address(provider: Provider, address: str) -> None:
    if not address:
        raise NoModel(
            f"{provider.name} needs an address: set {provider.base_url_variable}, or name a base URL"
        )
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that are not closed, a port beyond 65535
        usable = False
    if not usable:
        raise UsageError("the base URL is not an address: write it as https://host/path or http://host:port")


def _host(address: str) -> str | None:
    return urlsplit(address).hostname
