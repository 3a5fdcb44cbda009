"""Chooses the model when none is named, and lists the models that can be chosen.

The order: a key in the environment, then one that is configured or stored, with its provider's default
model; a server on this machine; a GGUF file; on a terminal, the demo.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from ostler.app.settings import Settings
from ostler.core.lazy import lazy_module
from ostler.models.catalogue import Catalogue, ModelInfo
from ostler.models.credentials import places_of_key, write_privately
from ostler.models.factory import for_any_model, key_search
from ostler.models.providers import Provider, configured_providers
from ostler.schema.errors import ConfigurationError, NoModel, how_to_install
from ostler.schema.text import plural
from ostler.store.consent import require_own_consent
from ostler.store.paths import expand_home, gguf_folder, server_consent_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.models import local_servers, scripted, transport
    from ostler.models.local_servers import LocalServer
else:
    local_servers = lazy_module("ostler.models.local_servers")
    scripted = lazy_module("ostler.models.scripted")
    transport = lazy_module("ostler.models.transport")

Ask = Callable[[str], bool]
"""Asks the person at the terminal; returns whether they agreed."""

Why = Literal["named", "key", "server", "gguf", "demo", "nothing"]


class ModelChoice(msgspec.Struct, frozen=True):
    """The model that answers, and why."""

    model: str
    """Empty if no model can answer."""
    why: Why
    because: str
    notice: str = ""
    """For the person: about the choice, or why no model can answer."""


class ProbeResult(msgspec.Struct, frozen=True):
    """One source of models, found or not."""

    kind: Literal["key", "server", "gguf", "fallback"]
    name: str
    found: bool
    detail: str
    models: tuple[str, ...] = ()
    to_do: str = ""


class ModelProbe:
    """The sources of models. Each is looked up when it is first used, and once."""

    def __init__(self, settings: Settings, environment: Mapping[str, str] = os.environ) -> None:
        self.settings = settings
        self.environment = environment

    @cached_property
    def providers(self) -> dict[str, Provider]:
        return configured_providers(self.settings.providers)

    @cached_property
    def key_places(self) -> dict[str, str]:
        """The source of the key, for each provider that has one."""
        # Without a model it is unknown whose key the settings have.
        settings = self.settings if self.settings.model else for_any_model(self.settings)
        places = {}
        for provider in self.providers.values():
            search = key_search(settings, provider, self.environment)
            if key := next(places_of_key(provider, search), None):
                places[provider.name] = key.where
        return places

    @cached_property
    def servers(self) -> list[LocalServer]:
        return local_servers.find_local_servers(self.providers.values())

    @cached_property
    def consent(self) -> dict[str, bool]:
        """The answers of the person about servers on this machine, by base URL."""
        path = server_consent_file()
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, bool])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            raise ConfigurationError(f"{path} cannot be read: remove it and answer again") from None

    @cached_property
    def gguf(self) -> Path | None:
        """The configured model file, or the first in the folder."""
        if self.settings.gguf:
            return expand_home(self.settings.gguf).absolute()
        return min(gguf_folder().glob("*.gguf"), default=None)

    @property
    def can_run_gguf(self) -> bool:
        from importlib.util import find_spec

        return all(map(find_spec, ("xllamacpp", "ostler.models.gguf")))

    @property
    def gguf_model(self) -> str:
        """The name of the model file's model; empty if it cannot run."""
        is_usable = self.gguf is not None and self.gguf.is_file() and self.can_run_gguf
        return f"gguf/{self.gguf}" if is_usable else ""

    def findings(self) -> Iterator[ProbeResult]:
        """All sources, found or not, and what to do about each."""
        for provider in self.providers.values():
            place = self.key_places.get(provider.name)
            if place is not None:
                to_do = "" if provider.default_model else f"name a model: --model {provider.name}/ID"
                yield ProbeResult("key", provider.name, True, place, to_do=to_do)
            elif provider.key_variables:
                to_do = f"set {provider.key_variables[0]}, or run `ostler key set {provider.name}`"
                yield ProbeResult("key", provider.name, False, "no key", to_do=to_do)
            elif provider.name in self.settings.providers and not provider.is_local:
                host = transport.display_host(provider.base_url)
                yield ProbeResult("key", provider.name, True, f"needs none at {host}")
        for server in self.servers:
            yield self._finding_of(server)
        yield self._finding_of_gguf()

    def _finding_of(self, server: LocalServer) -> ProbeResult:
        to_do = ""
        if server.models and self.consent.get(server.base_url) is False:
            to_do = f"you declined it: name it with --model, or remove {server_consent_file()}"
        detail = f"{server.address}: {server.problem or plural(len(server.models), 'model')}"
        return ProbeResult("server", server.provider, bool(server.models), detail, server.models, to_do)

    def _finding_of_gguf(self) -> ProbeResult:
        if self.gguf is None:
            to_do = f"put a file into {gguf_folder()}, or set OSTLER_GGUF"
            return ProbeResult("gguf", "GGUF file", False, "none", to_do=to_do)
        if not self.gguf.is_file():
            return ProbeResult("gguf", "GGUF file", False, f"there is no file {self.gguf}")
        models = (self.gguf_model,) if self.gguf_model else ()
        to_do = "" if models else how_to_install("local")
        return ProbeResult("gguf", "GGUF file", True, str(self.gguf), models, to_do)


def choose_model(probe: ModelProbe, ask: Ask | None = None) -> ModelChoice:
    """Chooses the model. `ask` asks the person, if there is one at a terminal."""
    settings = probe.settings
    if settings.model:
        return ModelChoice(settings.model, "named", "it is named")
    usable = [one for one in probe.providers.values() if one.default_model]
    for provider in usable:
        for variable in provider.key_variables:
            if probe.environment.get(variable, "").strip():
                return _by_key(provider, variable)
    for provider in usable:
        if provider.name in probe.key_places:
            return _by_key(provider, probe.key_places[provider.name])
    if unassigned := [name for name in ("base_url", "api_key", "key_command") if getattr(settings, name)]:
        return _nothing(f"{unassigned[0]} is set, but no model to use it with: name one with --model")
    for server in probe.servers:
        if choice := _by_server(server, probe.consent, ask):
            return choice
    if probe.gguf_model:
        notice = f"no model is named: using the file {probe.gguf}"
        return ModelChoice(probe.gguf_model, "gguf", "a model file on disk", notice)
    if owner := next(iter(probe.key_places), None):
        return _nothing(f"{owner} has a key, but no default model: name one with --model {owner}/ID")
    if ask is not None:
        why = f"no model can answer, so this is the {scripted.LABEL}"
        return ModelChoice(
            "demo", "demo", "nothing else can", f"{why}; `ostler doctor` shows how to connect one"
        )
    return _nothing(
        "there is no key, no local server and no model file",
        "no model can answer: set ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server such as Ollama, "
        "or try --model demo; see `ostler doctor`",
    )


def resolve_model(
    settings: Settings,
    *,
    ask: Ask | None = None,
    say: Callable[[str], None] | None = None,
    announces_demo: bool = True,
) -> Settings:
    """The settings with a model: the one they name, or the default. Raises `NoModel` if there is none."""
    if settings.model:
        return settings
    choice = choose_model(ModelProbe(settings), ask)
    if not choice.model:
        raise NoModel(choice.notice)
    if choice.notice and (announces_demo or choice.why != "demo"):
        (say or _log)(choice.notice)
    return with_model(settings, choice)


def with_model(settings: Settings, choice: ModelChoice) -> Settings:
    """The settings for calling that model."""
    if choice.why not in ("named", "key"):
        settings = for_any_model(settings)
    return msgspec.structs.replace(settings, model=choice.model)


def _by_key(provider: Provider, where: str) -> ModelChoice:
    return ModelChoice(f"{provider.name}/{provider.default_model}", "key", f"its key is in {where}")


def _nothing(why: str, notice: str = "") -> ModelChoice:
    return ModelChoice("", "nothing", why, notice or why)


def _by_server(server: LocalServer, consent: dict[str, bool], ask: Ask | None) -> ModelChoice | None:
    if not server.models:
        return None
    model = f"{server.provider}/{server.models[0]}"
    allowed = consent.get(server.base_url)
    notice = ""
    if allowed is None and ask is None:
        notice = f"no model is named: using {model}, running at {server.address}"
    elif allowed is None and ask is not None:
        allowed = ask(f"{model} is running at {server.address}. Use it from now on?")
        remember_server(server.base_url, allowed=allowed)
    if allowed is False:
        return None
    return ModelChoice(model, "server", f"found at {server.address}", notice)


def remember_server(base_url: str, *, allowed: bool) -> None:
    """Stores the person's answer about a server. Raises `ConsentRefused`."""
    require_own_consent()
    consent = ModelProbe(Settings()).consent | {base_url: allowed}
    write_privately(server_consent_file(), msgspec.json.encode(consent))


def _log(notice: str) -> None:
    from logging import getLogger

    getLogger("ostler").warning(notice)


class Candidate(msgspec.Struct, frozen=True):
    """A model to choose from."""

    name: str
    provider: str
    to_do: str = ""
    """What is missing before it can answer."""
    is_default: bool = False
    info: ModelInfo | None = None
    aliases: tuple[str, ...] = ()


def known_models(probe: ModelProbe, *, set_key: str = "ostler key set") -> list[Candidate]:
    """All models; first those that can answer now. Does I/O, so it does not belong on the event loop.

    `set_key` is the command that sets a key, followed by the name of the provider.
    """
    settings = probe.settings
    catalogue = Catalogue(settings.models, settings.aliases)
    aliases = aliases_by_model(catalogue)
    candidates: dict[str, Candidate] = {}

    def add(info: ModelInfo, provider: str, to_do: str = "", *, is_default: bool = False) -> None:
        names = tuple(aliases.get(info.name, ()))
        candidates.setdefault(info.name, Candidate(info.name, provider, to_do, is_default, info, names))

    for provider in probe.providers.values():
        if provider.default_model and _is_ready(probe, provider.name):
            info = catalogue.lookup(f"{provider.name}/{provider.default_model}")
            add(info, provider.name, is_default=True)
    for server in probe.servers:
        for model in server.models:
            add(catalogue.lookup(f"{server.provider}/{model}"), server.provider)
    if probe.gguf_model:
        add(catalogue.lookup(probe.gguf_model), "gguf")
    for info in catalogue.models():
        owner = info.name.partition("/")[0]
        if info.deprecated or owner not in probe.providers:
            continue
        if not _is_local(probe, owner):  # those are listed by their servers
            add(info, owner, "" if _is_ready(probe, owner) else f"needs a key: {set_key} {owner}")
    return sorted(candidates.values(), key=lambda one: bool(one.to_do))


def _is_ready(probe: ModelProbe, name: str) -> bool:
    """Whether the provider has a key, or is a server of the user that needs none."""
    if name in probe.key_places:
        return True
    is_own = name in probe.settings.providers and not probe.providers[name].key_variables
    return is_own and not _is_local(probe, name)


def _is_local(probe: ModelProbe, name: str) -> bool:
    return probe.providers[name].is_local and not probe.providers[name].key_variables


def fallback_candidates(candidates: list[Candidate], failed: str, kind: str) -> list[Candidate]:
    """Models that can replace a failed one: other providers first, and none whose key was refused."""
    owner = failed.partition("/")[0]
    ready = [one for one in candidates if not one.to_do and one.name != failed]
    if kind in ("authentication_failed", "permission_denied"):
        ready = [one for one in ready if one.provider != owner]
    return sorted(ready, key=lambda one: (one.provider == owner, not one.is_default))


def aliases_by_model(catalogue: Catalogue) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for alias in sorted(catalogue.aliases):
        names.setdefault(catalogue.resolve(alias), []).append(alias)
    return names
