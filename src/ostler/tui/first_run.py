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
AGAIN = "searched again:"
_KINDS = {"key": "a key", "server": "a local server", "gguf": "a model file"}
_REFUSED_KEY = ("authentication_failed", "permission_denied")
_DEMO = Choice("the demo", "demo", about="a script that uses the real tools: no key, no network, no model")


async def set_up_model(context: CommandContext, open_store: Callable[[], Store] | None = None) -> None:
    """Lists what was searched, and offers ways to set up a model, until one works or the person cancels. Then
    sessions go to the store that `open_store` opens, if the present one is for the demo only."""
    says = "no model is set up yet; ostler searched for:"
    while True:
        settings = load_settings(context.conversation.harness.cwd, {}).settings
        around = ModelProbe(settings)
        findings = await asyncio.to_thread(list, around.findings())
        if says:
            kinds = ("server", "gguf") if says == AGAIN else tuple(_KINDS)
            news = [one for one in findings if one.kind in kinds]
            context.say("\n".join([says, *_in_words(news, around)]))
        picked = await Picker("how do you want to set up a model?", _ways(findings), context.colors).ask(
            context.panels
        )
        if picked is None:
            context.say("the demo answers until you set up a model: /model, /key, or /doctor for help")
            return
        says = AGAIN if picked.choice.value == "again" else ""
        try:
            if await _go(context, picked.choice.value, around):
                if open_store is not None and context.conversation.harness.model.name != DEMO:
                    await context.session_switch.to("", store=open_store())
                return
        except OstlerError as error:
            context.say(error.message, "error")


def _in_words(findings: list[ProbeResult], around: ModelProbe) -> list[str]:
    """A line for each kind of finding, and one for each finding that exists."""
    names = [around.providers[one.name].key_variables[0] for one in findings if _is_absent_key(one)]
    lines = [f"a key: none is stored, and none is set in {', '.join(names)}"] if names else []
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
    return "" if one.kind == "gguf" else one.name  # its kind is enough


def _is_absent_key(one: ProbeResult) -> bool:
    return one.kind == "key" and not one.found


def _ways(findings: list[ProbeResult]) -> list[Choice]:
    """The ways to set up a model; those that work at once come first."""
    ways = [
        Choice(f"use {one.name}/{model}", f"{one.name}/{model}", (one.detail,), about="runs on this machine")
        for one in findings
        if one.kind == "server" and one.found
        for model in one.models
    ]
    ways += [
        Choice(f"use {one.detail}", one.models[0], about="a model file on this machine")
        for one in findings
        if one.kind == "gguf" and one.models
    ]
    ways.append(
        Choice("add an API key", "key", about="typed in a hidden line, and stored in a file of yours")
    )
    ways.append(Choice("search again for a local server", "again", about="start one first, such as Ollama"))
    about = f"enter the path of a GGUF file; files in {gguf_folder()} are found automatically"
    ways.append(Choice("run a model file", "file", about=about))
    return [*ways, _DEMO]


async def _go(context: CommandContext, way: str, around: ModelProbe) -> bool:
    """Sets up one way; False if no model can answer yet."""
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
            one.name,
            one,
            (one.default_model,),
            about=f"stores a key, and uses {one.name}/{one.default_model}",
        )
        for one in usable
    ]
    picked = await Picker("which provider?", choices, context.colors).ask(context.panels)
    if picked is None or not await ask_for_key(context, picked.choice.value.name):
        return False
    provider: Provider = picked.choice.value
    return await _is_taken(context, provider) and await set_model(context, _default(provider))


async def _model_file(context: CommandContext, around: ModelProbe) -> str:
    """The model of a GGUF file; empty if the person cancels."""
    named = await TextLine("where is the GGUF file?", context.colors, hint="enter uses it, esc cancels").ask(
        context.panels
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


async def _is_taken(context: CommandContext, provider: Provider) -> bool:
    """Tests a key with the provider; a refused key is removed."""
    context.say(f"testing the key with {provider.name}")
    settings = for_any_model(load_settings(context.conversation.harness.cwd, {}).settings)
    name = _default(provider)
    model = ModelFactory(msgspec.structs.replace(settings, model=name))(name)
    refusal = await check_key(model)
    if refusal is None:
        return True
    if refusal.kind in _REFUSED_KEY:
        remove_key(provider)
        context.say(f"{refusal.message}; the key is not stored", "error")
        return False
    context.say(f"{refusal.message}; the key is stored but untested", "warning")
    return True


def _default(provider: Provider) -> str:
    return f"{provider.name}/{provider.default_model}"
