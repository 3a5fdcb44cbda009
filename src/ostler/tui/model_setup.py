"""The first time, when nothing can answer yet: what was looked for, and the ways in."""
# MERGED: When a model has failed for good: another one may go on where it stopped.
# MERGED: How much the model thinks, from one level to the next by a key.

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import unwrap
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from ostler.app.default_model import Finding, Surroundings, remember_server
from ostler.app.settings import load_settings
from ostler.core.harness import Harness
from ostler.core.model import ReasoningLevel
from ostler.core.store import Store
from ostler.models.factory import ModelMaker, for_any_model
from ostler.models.providers import Provider
from ostler.schema.errors import ERRORS, Failure, ModelError, OstlerError, UsageError, how_to_install
from ostler.schema.events import RunEnded, SettingsChanged
from ostler.schema.requests import SetModel
from ostler.store.paths import expand_home, gguf_folder
from ostler.tui.commands.models import ask_for_key, set_model
from ostler.tui.conversation import Conversation
from ostler.tui.panels.panel import TextLine
from ostler.tui.panels.picker import Choice, Picker

if TYPE_CHECKING:
    from ostler.app.default_model import Candidate
    from ostler.tui.command_context import Desk


DEMO = "demo/script"

AGAIN = "looked again:"

_KINDS = {"key": "a key", "server": "a local server", "gguf": "a model file"}

_REFUSED_KEY = ("authentication_failed", "permission_denied")

_DEMO = Choice("the demo", "demo", about="a script with the real tools: no key, no network; not a model")


async def first_steps(desk: Desk, open_store: Callable[[], Store] | None = None) -> None:
    """Shows what was looked for, and lets a person choose how to go on: until something can answer, or they
    go away from it. From then on sessions are kept in the store that is opened, if the present one is for
    the demo only."""
    says = "nothing can answer yet; this was looked for:"
    while True:
        settings = load_settings(desk.conversation.harness.cwd, {}).settings
        around = Surroundings(settings)
        findings = await asyncio.to_thread(list, around.findings())
        if says:
            kinds = ("server", "gguf") if says == AGAIN else tuple(_KINDS)
            news = [one for one in findings if one.kind in kinds]
            desk.say("\n".join([says, *_in_words(news, around)]))
        picked = await Picker("how shall it answer?", _ways(findings), desk.colors).ask(desk.panels)
        if picked is None:
            desk.say("the demo answers until you choose: /model, /key, or /doctor for more")
            return
        says = AGAIN if picked.choice.value == "again" else ""
        try:
            if await _go(desk, picked.choice.value, around):
                if open_store is not None and desk.conversation.harness.model.name != DEMO:
                    await desk.switching.to("", store=open_store())
                return
        except OstlerError as error:
            desk.say(error.message, "error")


def _in_words(findings: list[Finding], around: Surroundings) -> list[str]:
    """A line for each kind; what is there in spite of all has one of its own."""
    names = [around.providers[one.name].key_variables[0] for one in findings if _is_absent_key(one)]
    lines = [f"a key: none was kept, and none is in {', '.join(names)}"] if names else []
    nobody = [one for one in findings if one.kind == "server" and not one.found]
    if nobody:
        lines.append("a local server: " + ", ".join(f"{one.name} at {one.detail}" for one in nobody))
    lines += [
        f"{_KINDS[one.kind]}: {': '.join(filter(None, (_name(one), one.detail, one.to_do)))}"
        for one in findings
        if one.kind in _KINDS and not _is_absent_key(one) and one not in nobody
    ]
    return lines


def _name(one: Finding) -> str:
    return "" if one.kind == "gguf" else one.name  # its kind says it


def _is_absent_key(one: Finding) -> bool:
    return one.kind == "key" and not one.found


def _ways(findings: list[Finding]) -> list[Choice]:
    """What works at once first."""
    ways = [
        Choice(f"use {one.name}/{model}", f"{one.name}/{model}", (one.detail,), about="it is on this machine")
        for one in findings
        if one.kind == "server" and one.found
        for model in one.models
    ]
    ways += [
        Choice(f"use {one.detail}", one.models[0], about="a model file, on this machine")
        for one in findings
        if one.kind == "gguf" and one.models
    ]
    ways.append(Choice("give a vendor's key", "key", about="it is typed unseen, and kept in a file of yours"))
    ways.append(
        Choice(
            "look again for a local server", "again", about="start one, such as Ollama, and come back here"
        )
    )
    about = f"you say where the GGUF file is; one in {gguf_folder()} is found by itself"
    ways.append(Choice("run a model file", "file", about=about))
    return [*ways, _DEMO]


async def _go(desk: Desk, way: str, around: Surroundings) -> bool:
    """Whether something can answer now."""
    if way == "again":
        return False
    if way == "file":
        way = await _model_file(desk, around)
    if way != "key":
        is_set = bool(way) and await set_model(desk, way)
        chosen = [one for one in around.servers if is_set and way.startswith(f"{one.provider}/")]
        for server in chosen:
            remember_server(server.base_url, allowed=True)
        return is_set
    usable = [one for one in around.providers.values() if one.default_model and one.key_variables]
    choices = [
        Choice(
            one.name, one, (one.default_model,), about=f"keeps a key, and asks {one.name}/{one.default_model}"
        )
        for one in usable
    ]
    picked = await Picker("whose key?", choices, desk.colors).ask(desk.panels)
    if picked is None or not await ask_for_key(desk, picked.choice.value.name):
        return False
    provider: Provider = picked.choice.value
    return await _is_taken(desk, provider) and await set_model(desk, _default(provider))


async def _model_file(desk: Desk, around: Surroundings) -> str:
    """The model that a file is; empty if none was named."""
    named = await TextLine("where is the GGUF file?", desk.colors, hint="enter takes it, esc goes back").ask(
        desk.panels
    )
    if not named:
        return ""
    file = await asyncio.to_thread(_existing, named)
    if not around.can_run_gguf:
        raise UsageError(how_to_install("local"))
    return f"gguf/{file}"


def _existing(named: str) -> Path:
    file = expand_home(named).absolute()
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    return file


async def _is_taken(desk: Desk, provider: Provider) -> bool:
    """Asks the vendor; a key that it refuses is forgotten again."""
    from ostler.app.provider_keys import forget
    from ostler.models.credentials import refusal_of_key

    desk.say(f"asking {provider.name} whether it takes the key")
    settings = for_any_model(load_settings(desk.conversation.harness.cwd, {}).settings)
    name = _default(provider)
    model = ModelMaker(msgspec.structs.replace(settings, model=name))(name)
    refusal = await refusal_of_key(model)
    if refusal is None:
        return True
    if refusal.kind in _REFUSED_KEY:
        forget(provider)
        desk.say(f"{refusal.message}; the key is not kept", "error")
        return False
    desk.say(f"{refusal.message}; the key is kept, and not known to work", "warning")
    return True


def _default(provider: Provider) -> str:
    return f"{provider.name}/{provider.default_model}"


NOT_THE_VENDORS = ("context_overflow", "invalid_answer", "interrupted")
"""Failures with which another model would not be better off."""


NO_ANSWER_WITH_KEY = ("authentication_failed", "permission_denied")

KEY = "key"


class Rescue:
    """Offers the models that can answer now. The one that is chosen continues the run: what the tools have
    done is not done again."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._offering: asyncio.Task[None] | None = None

    def take(self, event: object) -> None:
        if not isinstance(event, RunEnded) or event.status != "failed" or event.failure is None:
            return
        if _is_vendors(event.failure):
            self.end()
            self._offering = asyncio.ensure_future(self._offer(event.failure))

    def end(self) -> None:
        if self._offering is not None:
            self._offering.cancel()

    async def _offer(self, failure: Failure) -> None:
        from ostler.app.default_model import rescuers
        from ostler.tui.commands.models import ask_for_key, model_candidates, set_model
        from ostler.tui.panels.picker import Picker

        desk, conversation = self._desk, self._desk.conversation
        try:
            found = await model_candidates(conversation.store, conversation.harness.cwd)
            failed = conversation.harness.model.name
            choices = rescuing(rescuers(found, failed, failure.kind), failed, failure.kind)
            picker = Picker("another model goes on", choices, desk.colors, keys={"esc": "leaves it as it is"})
            picked = await picker.ask(desk.panels)
            is_there = conversation is desk.conversation and conversation.session.state.run is None
            if picked is None or not is_there:
                return
            name = getattr(picked.choice.value, "name", picked.choice.value)
            if picked.choice.value == KEY:
                name = conversation.harness.model.name
                if not await ask_for_key(desk, name.partition("/")[0]):
                    return
            if await set_model(desk, name):
                await conversation.go_on()
        except OstlerError as error:
            desk.say(error.message, "error")


def rescuing(others: list[Candidate], failed: str, kind: str) -> list[Choice]:
    """Other vendors' models, the one that failed, then its vendor's others: what keeps it from answering will
    mostly keep those, too."""
    from ostler.tui.commands.models import model_choice

    owner = failed.partition("/")[0]
    elsewhere = [model_choice(one, "") for one in others if one.provider != owner]
    beside = [model_choice(one, "") for one in others if one.provider == owner]
    return [*elsewhere, *_same_model(failed, kind), *beside]


def _same_model(name: str, kind: str) -> list[Choice]:
    """It may be better off after a while, or with another key."""
    from ostler.tui.panels.picker import Choice

    if kind not in NO_ANSWER_WITH_KEY:
        return [Choice(f"{name} once more", name, about="it is asked again; nothing is repeated")]
    provider = name.partition("/")[0]
    return [Choice(f"{name} with another key", KEY, about=f"asks you for a key of {provider}, and keeps it")]


def _is_vendors(failure: Failure) -> bool:
    is_models = issubclass(ERRORS.get(failure.kind, OstlerError), ModelError)
    return is_models and failure.kind not in NOT_THE_VENDORS


LEVELS: tuple[str, ...] = get_args(ReasoningLevel)


class ThinkingLevel:
    """Several presses go as many levels on."""

    def __init__(self, conversation: Callable[[], Conversation], say: Callable[[str], None]) -> None:
        self._conversation = conversation
        self._say = say
        self._in_turn = asyncio.Lock()

    async def next(self) -> None:
        async with self._in_turn:
            conversation = self._conversation()
            harness = conversation.harness
            name, levels = harness.model.name, await asyncio.to_thread(levels_of, harness)
            if not levels:
                self._say(f"{name} does not think")
                return
            place = levels.index(harness.reasoning) + 1 if harness.reasoning in levels else 0
            level = levels[place % len(levels)]
            came = await conversation.ask(lambda id: SetModel(id=id, by="tui", model=name, reasoning=level))
            if isinstance(came, SettingsChanged):
                self._say(f"thinking: {came.reasoning}")


def levels_of(harness: Harness) -> list[str]:
    """Those of its model; all of them where nobody knows. Reads the catalogue: not for the event loop."""
    from ostler.models.factory import ModelMaker

    maker = unwrap(harness.make_model) if harness.make_model else None
    if not isinstance(maker, ModelMaker):
        return list(LEVELS)
    info = maker.catalogue.lookup(harness.model.name)
    if info.reasoning is False:
        return []
    return [one for one in LEVELS if one in info.reasoning_levels] or list(LEVELS)
