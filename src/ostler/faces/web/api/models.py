"""Models: which there are, which can answer now, and which one would."""

from __future__ import annotations

import asyncio

import msgspec

from ostler.faces.web.operations import Operations
from ostler.faces.web.server import Server
from ostler.models.settings import Modality, Prices
from ostler.runs.first_run import Finding, Surroundings, can_answer
from ostler.runs.model_candidates import Candidate, known_models
from ostler.runs.settings import Settings

model_operations = Operations("models")


class FolderQuery(msgspec.Struct, frozen=True):
    cwd: str = ""
    """A folder that a session works in; that of the server if it is left out."""


class KnownModel(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    provider: str
    ready: bool
    """It can be asked now: there is a key for it, or it needs none."""
    to_do: str = ""
    """What is missing before it can answer."""
    default: bool = False
    """It is what its provider is asked for where no model is named."""
    aliases: tuple[str, ...] = ()
    window: int | None = None
    """Tokens that it holds."""
    output_limit: int | None = None
    input: tuple[Modality, ...] = ()
    reasoning: tuple[str, ...] = ()
    """The levels that can be chosen."""
    prices: Prices | None = None
    """Dollars a million tokens."""


class Models(msgspec.Struct, frozen=True):
    models: list[KnownModel]
    """Those first that can answer now."""
    default: str
    """The one that answers where none is named; empty when none can."""
    because: str
    notice: str
    """What a person should know of that."""
    looked_for: list[Finding]
    """When none can answer: everything that could, and what to do."""


@model_operations.add("GET", "/models")
async def list_models(server: Server, query: FolderQuery) -> Models:
    """The models, with what they hold and cost, and whether there is a key for them"""
    settings = server.settings(await server.folders.folder(query.cwd))
    return await asyncio.to_thread(_models, settings)


def _models(settings: Settings) -> Models:
    around = Surroundings(settings)
    known = [_shown(one) for one in known_models(around)]
    answering = can_answer(around)
    if answering.model and all(answering.model not in (one.name, *one.aliases) for one in known):
        provider = answering.model.partition("/")[0]
        known.insert(0, KnownModel(answering.model, provider, ready=True))
    findings = [] if answering.model else list(around.findings())
    return Models(known, answering.model, answering.because, answering.notice, findings)


def _shown(one: Candidate) -> KnownModel:
    info = one.info
    assert info is not None
    return KnownModel(
        name=one.name,
        provider=one.provider,
        ready=not one.to_do,
        to_do=one.to_do,
        default=one.is_default,
        aliases=one.aliases,
        window=info.context_window,
        output_limit=info.output_limit,
        input=info.input,
        reasoning=info.reasoning_levels,
        prices=info.prices,
    )
