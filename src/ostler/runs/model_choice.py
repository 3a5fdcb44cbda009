"""How a name becomes a model under the settings, and where the key for it is looked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import msgspec

from ostler.kernel.model import Model
from ostler.models.keys import Key, KeySearch, find_key
from ostler.models.provider_table import Provider, ProviderSettings, configured_providers
from ostler.runs.home import key_file
from ostler.runs.settings import FOR_ONE_MODEL, Settings

MakeModel = Callable[[str], Model]
FindKey = Callable[[Provider, KeySearch], Key | None]


class ModelMaker:
    """Makes models by name or alias, with the providers, keys and prices that the settings know.

    The settings' own `base_url`, `api_key`, `key_command` and `wire` are meant for the provider of their
    `model`: a model of another provider gets none of them.
    """

    def __init__(self, settings: Settings, environment: Mapping[str, str], find: FindKey) -> None:
        from ostler.models.catalogue import Catalogue

        self._settings = settings
        self._environment = environment
        self._find = find
        self.providers = configured_providers(settings.providers)
        self.catalogue = Catalogue(settings.models, settings.aliases)

    def __call__(self, name: str) -> Model:
        if name in ("demo", "demo/script"):  # as it is asked for, and as a session remembers it
            from ostler.models.demo import DemoModel

            return DemoModel()
        from ostler.models.providers import make_model, split_name

        settings = self._settings
        name = self.catalogue.resolve(name.strip())
        provider, _ = split_name(name, self.providers)
        is_own = is_meant_for(settings, provider)
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


def model_maker(
    settings: Settings, environment: Mapping[str, str] = os.environ, find: FindKey = find_key
) -> ModelMaker:
    return ModelMaker(settings, environment, find)


def key_search(
    settings: Settings, provider: Provider, environment: Mapping[str, str] = os.environ
) -> KeySearch:
    """Where the settings let a provider's key be looked for."""
    is_own = is_meant_for(settings, provider)
    known = settings.providers.get(provider.name, ProviderSettings())
    return KeySearch(
        named=settings.api_key if is_own else "",
        environment=environment,
        configured=known.api_key,
        command=(settings.key_command if is_own else "") or known.key_command,
        file=key_file(),
    )


def is_meant_for(settings: Settings, provider: Provider) -> bool:
    """Whether what is set for one model's provider is set for this one."""
    if not settings.model:
        return True
    from ostler.models.catalogue import Catalogue

    named = Catalogue(aliases=settings.aliases).resolve(settings.model.strip())
    return named.partition("/")[0] == provider.name


def for_any_model(settings: Settings) -> Settings:
    """Without what was meant for one model's provider: a key must not go to another's."""
    defaults = Settings()
    return msgspec.structs.replace(settings, **{name: getattr(defaults, name) for name in FOR_ONE_MODEL})
