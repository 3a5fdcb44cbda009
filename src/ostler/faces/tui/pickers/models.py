"""Models as rows: those that can answer now first, with what they hold and cost."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ostler.faces.cli.models import UNKNOWN, aliases_by_model, window_and_prices
from ostler.faces.tui.pickers.picker import Choice
from ostler.models.catalogue import Catalogue, ModelInfo
from ostler.runs.first_run import Surroundings
from ostler.runs.settings import load_settings

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


def candidates(cwd: Path) -> list[Candidate]:
    """All that are known here, those first that can answer now. It looks around: not on the event loop."""
    settings = load_settings(cwd, {}).settings
    around = Surroundings(settings)
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
            add(info, owner, "" if _is_ready(around, owner) else f"needs a key: /key set {owner}")
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


def model_choice(one: Candidate, present: str) -> Choice:
    if one.info is None or not one.info.known:
        cells, known = ("", ""), "its window and its price are not known"
    else:
        window, given, answered = window_and_prices(one.info)
        has_price = UNKNOWN not in (given, answered)
        cells = (window, f"${given} → ${answered}" if has_price else "")
        price = f"a million cost ${given} in and ${answered} out" if has_price else "its price is not known"
        known = f"it holds {window} tokens; {price}"
    about = one.to_do or f"answers from the next step on; {known}"
    return Choice(
        one.name,
        one,
        (*cells, "" if not one.to_do else "no key"),
        " ".join(one.aliases),
        about,
        one.name == present,
    )
