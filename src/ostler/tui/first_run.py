"""The first run, when no model can answer yet: lists what was searched and offers ways to set one up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ostler.app.default_model import ModelProbe, ProbeResult, remember_server
from ostler.app.provider_keys import remove_key
from ostler.app.settings import load_settings
from ostler.core.store import Store
from ostler.models.credentials import check_key
from ostler.models.factory import ModelFactory, for_any_model
from ostler.models.providers import Provider
from ostler.schema.errors import OstlerError, UsageError, how_to_install
from ostler.store.paths import expand_home, gguf_folder
from ostler.tui.commands.models import ask_for_key, set_model
from ostler.tui.panels.panel import TextLine
from ostler.tui.panels.picker import Choice, Picker

if TYPE_CHECKING:
    from ostler.tui.command_context import CommandContext


DEMO = "demo/script"

AGAIN = "looked again:"

_KINDS = {"key": "a key", "server": "a local server", "gguf": "a model file"}

_REFUSED_KEY = ("authentication_failed", "permission_denied")

_DEMO = Choice("the demo", "demo", about="a script with the real tools: no key, no network; not a model")


async def set_up_model(context: CommandContext, open_store: Callable[[], Store] | None = None) -> None:
    """Shows what was looked for, and lets a person choose how to go on: until something can answer, or they
    go away from it. From then on sessions are kept in the store that is opened, if the present one is for
    the demo only."""
    says = "nothing can answer yet; this was looked for:"
    while True:
        settings = load_settings(context.conversation.harness.cwd, {}).settings
        around = ModelProbe(settings)
        findings = await asyncio.to_thread(list, around.findings())
        if says:
            kinds = ("server", "gguf") if says == AGAIN else tuple(_KINDS)
            news = [one for one in findings if one.kind in kinds]
            context.say("\n".join([says, *_in_words(news, around)]))
        picked = await Picker("how shall it answer?", _ways(findings), context.colors).ask(context.panels)
        if picked is None:
            context.say("the demo answers until you choose: /model, /key, or /doctor for more")
            return
        says = AGAIN if picked.choice.value == "again" else ""
        try:
            if await _go(context, picked.choice.value, around):
                if open_store is not None and context.conversation.harness.model.name != DEMO:
                    await context.switching.to("", store=open_store())
                return
        except OstlerError as error:
            context.say(error.message, "error")


def _in_words(findings: list[ProbeResult], around: ModelProbe) -> list[str]:
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


def _name(one: ProbeResult) -> str:
    return "" if one.kind == "gguf" else one.name  # its kind says it


def _is_absent_key(one: ProbeResult) -> bool:
    return one.kind == "key" and not one.found


def _ways(findings: list[ProbeResult]) -> list[Choice]:
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


async def _go(context: CommandContext, way: str, around: ModelProbe) -> bool:
    """Whether something can answer now."""
    if way == "again":
        return False
    if way == "file":
        way = await _model_file(context, around)
    if way != "key":
        is_set = bool(way) and await set_model(context, way)
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
    picked = await Picker("whose key?", choices, context.colors).ask(context.panels)
    if picked is None or not await ask_for_key(context, picked.choice.value.name):
        return False
    provider: Provider = picked.choice.value
    return await _is_taken(context, provider) and await set_model(context, _default(provider))


async def _model_file(context: CommandContext, around: ModelProbe) -> str:
    """The model that a file is; empty if none was named."""
    named = await TextLine(
        "where is the GGUF file?", context.colors, hint="enter takes it, esc goes back"
    ).ask(context.panels)
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


async def _is_taken(context: CommandContext, provider: Provider) -> bool:
    """Asks the vendor; a key that it refuses is forgotten again."""
    context.say(f"asking {provider.name} whether it takes the key")
    settings = for_any_model(load_settings(context.conversation.harness.cwd, {}).settings)
    name = _default(provider)
    model = ModelFactory(msgspec.structs.replace(settings, model=name))(name)
    refusal = await check_key(model)
    if refusal is None:
        return True
    if refusal.kind in _REFUSED_KEY:
        remove_key(provider)
        context.say(f"{refusal.message}; the key is not kept", "error")
        return False
    context.say(f"{refusal.message}; the key is kept, and not known to work", "warning")
    return True


def _default(provider: Provider) -> str:
    return f"{provider.name}/{provider.default_model}"
