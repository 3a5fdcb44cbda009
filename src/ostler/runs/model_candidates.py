"""The models that somebody may choose from, and what is missing before each can answer."""

from __future__ import annotations

import msgspec

from ostler.models.catalogue import Catalogue, ModelInfo
from ostler.runs.first_run import Surroundings

_NO_ANSWER_WITH_KEY = ("authentication_failed", "permission_denied")


class Candidate(msgspec.Struct, frozen=True):
    """A model that somebody may choose."""

    name: str
    provider: str
    to_do: str = ""
    """What is missing before it can answer."""
    is_default: bool = False
    info: ModelInfo | None = None
    aliases: tuple[str, ...] = ()


def known_models(around: Surroundings, *, set_key: str = "ostler key set") -> list[Candidate]:
    """All, those first that can answer now. It looks around: not for the event loop.

    `set_key` is what sets the key of a provider, when it is named behind it.
    """
    settings = around.settings
    catalogue = Catalogue(settings.models, settings.aliases)
    aliases = aliases_by_model(catalogue)
    found: dict[str, Candidate] = {}

    def add(info: ModelInfo, provider: str, to_do: str = "", *, is_default: bool = False) -> None:
        if info.name not in found:
            known = tuple(aliases.get(info.name, ()))
            found[info.name] = Candidate(info.name, provider, to_do, is_default, info, known)

    for provider in around.providers.values():
        if provider.default_model and _is_ready(around, provider.name):
            info = catalogue.lookup(f"{provider.name}/{provider.default_model}")
            add(info, provider.name, is_default=True)
    for server in around.servers:
        for model in server.models:
            add(catalogue.lookup(f"{server.provider}/{model}"), server.provider)
    if around.gguf is not None and around.gguf.is_file() and around.can_run_gguf:
        add(catalogue.lookup(f"gguf/{around.gguf}"), "gguf")
    for info in catalogue.models():
        owner = info.name.partition("/")[0]
        if info.deprecated or owner not in around.providers:
            continue
        if not _is_local(around, owner):  # those were found at their servers, or are not there
            add(info, owner, "" if _is_ready(around, owner) else f"needs a key: {set_key} {owner}")
    return sorted(found.values(), key=lambda one: bool(one.to_do))


def _is_ready(around: Surroundings, name: str) -> bool:
    """It has a key, or is a server of the user's own that needs none."""
    if name in around.key_places:
        return True
    is_own = name in around.settings.providers and not around.providers[name].key_variables
    return is_own and not _is_local(around, name)


def _is_local(around: Surroundings, name: str) -> bool:
    return around.providers[name].is_local and not around.providers[name].key_variables


def rescuers(found: list[Candidate], failed: str, kind: str) -> list[Candidate]:
    """Those that can go on for one that has failed: others' first, and none with a key that was refused."""
    owner = failed.partition("/")[0]
    ready = [one for one in found if not one.to_do and one.name != failed]
    if kind in _NO_ANSWER_WITH_KEY:
        ready = [one for one in ready if one.provider != owner]
    return sorted(ready, key=lambda one: (one.provider == owner, not one.is_default))


def aliases_by_model(catalogue: Catalogue) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for alias in sorted(catalogue.aliases):
        names.setdefault(catalogue.resolve(alias), []).append(alias)
    return names
