"""Which model answers: how a name becomes one under the settings, and what is used where none is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ostler.kernel.model import Model
from ostler.runs.settings import Settings
from ostler.vocabulary.errors import NoModel

MakeModel = Callable[[str], Model]


def model_maker(settings: Settings, environment: Mapping[str, str] = os.environ) -> MakeModel:
    """Makes models by name or alias, with the providers, keys and prices that the settings know.

    The settings' own `base_url`, `api_key`, `key_command` and `wire` are meant for the provider of their
    `model`: a model of another provider gets none of them.
    """
    from ostler.models.catalogue import Catalogue
    from ostler.models.keys import find_key
    from ostler.models.provider_table import ProviderSettings, configured_providers
    from ostler.models.providers import make_model, split_name

    providers = configured_providers(settings.providers)
    catalogue = Catalogue(settings.models, settings.aliases)

    def make(name: str) -> Model:
        if name == "demo":
            from ostler.models.demo import DemoModel

            return DemoModel()
        name = catalogue.resolve(name.strip())
        provider, _ = split_name(name, providers)
        is_own = not settings.model or catalogue.resolve(settings.model.strip()).startswith(f"{provider.name}/")
        known = settings.providers.get(provider.name, ProviderSettings())
        key = find_key(
            provider,
            api_key=(settings.api_key if is_own else "") or known.api_key,
            key_command=(settings.key_command if is_own else "") or known.key_command,
            environment=environment,
        )
        return make_model(
            name,
            base_url=settings.base_url if is_own else "",
            api_key=key.value if key else "",
            wire=settings.wire if is_own else None,
            environment=environment,
            providers=providers,
            catalogue=catalogue,
        )

    return make


def default_model(environment: Mapping[str, str] = os.environ) -> str:
    """The default model of the first vendor whose key is in the environment."""
    from ostler.models.provider_table import PROVIDERS
    from ostler.models.providers import key_in

    for provider in PROVIDERS.values():
        if provider.default_model and key_in(environment, provider):
            return f"{provider.name}/{provider.default_model}"
    variables = " or ".join(one.key_variables[0] for one in list(PROVIDERS.values())[:2])
    raise NoModel(
        f"no model can answer: set {variables}, name a local server's with --model ollama/NAME, "
        "or try --model demo"
    )
