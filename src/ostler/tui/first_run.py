"""The first run, when no model can answer yet: lists what was searched and offers ways to set one up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


async def set_up_model(context: CommandContext, open_store: Callable[[], Store] | None = None) -> None:
    """Lists what was searched, and offers ways to set up a model, until one works or the person cancels. Then
    sessions go to the store that `open_store` opens, if the present one is for the demo only."""
    heading = "no model is set up yet; ostler searched for:"
    while True:
        probe = ModelProbe(load_settings(context.conversation.harness.cwd, {}).settings)
        results = await asyncio.to_thread(list, probe.findings())
        if heading:
            kinds = ("server", "gguf") if heading == AGAIN else tuple(_KINDS)
            news = [one for one in results if one.kind in kinds]
            context.say("\n".join([heading, *_result_lines(news, probe)]))
        picker = Picker("how do you want to set up a model?", _ways(results), context.colors)
        picked = await picker.ask(context.panels)
        if picked is None:
            context.say("the demo answers until you set up a model: /model, /key, or /doctor for help")
            return
        heading = AGAIN if picked.choice.value == "again" else ""
        try:
            if await _set_up(context, picked.choice.value, probe):
                if open_store is not None and context.conversation.harness.model.name != DEMO:
                    await context.session_switch.to("", store=open_store())
                return
        except OstlerError as error:
            context.say(error.message, "error")


def _result_lines(results: list[ProbeResult], probe: ModelProbe) -> list[str]:
    """A line for all missing keys, one for all missing servers, and one for each other result."""
    keys = [one for one in results if one.kind == "key" and not one.found]
    servers = [one for one in results if one.kind == "server" and not one.found]
    names = ", ".join(probe.providers[one.name].key_variables[0] for one in keys)
    lines = [f"a key: none is stored, and none is set in {names}"] if keys else []
    if servers:
        lines.append("a local server: " + ", ".join(f"{one.name} at {one.detail}" for one in servers))
    for one in results:
        if one.kind in _KINDS and one not in keys and one not in servers:
            name = "" if one.kind == "gguf" else one.name  # its kind is enough
            lines.append(f"{_KINDS[one.kind]}: {': '.join(filter(None, (name, one.detail, one.to_do)))}")
    return lines


def _ways(results: list[ProbeResult]) -> list[Choice]:
    """The ways to set up a model; those that work at once come first."""
    ways = [
        Choice(f"use {one.name}/{model}", f"{one.name}/{model}", (one.detail,), about="runs on this machine")
        for one in results
        if one.kind == "server" and one.found
        for model in one.models
    ]
    ways += [
        Choice(f"use {one.detail}", one.models[0], about="a model file on this machine")
        for one in results
        if one.kind == "gguf" and one.models
    ]
    about = f"enter the path of a GGUF file; files in {gguf_folder()} are found automatically"
    return [
        *ways,
        Choice("add an API key", "key", about="typed in a hidden line, and stored in a file of yours"),
        Choice("search again for a local server", "again", about="start one first, such as Ollama"),
        Choice("run a model file", "file", about=about),
        Choice("the demo", "demo", about="a script that uses the real tools: no key, no network, no model"),
    ]


async def _set_up(context: CommandContext, way: str, probe: ModelProbe) -> bool:
    """Sets up one way; False if no model can answer yet."""
    if way == "again":
        return False
    if way == "key":
        return await _set_up_key(context, probe)
    if way == "file":
        way = await _model_file(context, probe)
    if not way or not await set_model(context, way):
        return False
    for server in probe.servers:
        if way.startswith(f"{server.provider}/"):
            remember_server(server.base_url, allowed=True)
    return True


async def _set_up_key(context: CommandContext, probe: ModelProbe) -> bool:
    """Stores a key and tests it with its provider; a refused key is removed."""
    choices = []
    for one in probe.providers.values():
        if one.default_model and one.key_variables:
            about = f"stores a key, and uses {one.name}/{one.default_model}"
            choices.append(Choice(one.name, one, (one.default_model,), about=about))
    picked = await Picker("which provider?", choices, context.colors).ask(context.panels)
    if picked is None or not await ask_for_key(context, picked.choice.value.name):
        return False
    provider: Provider = picked.choice.value
    context.say(f"testing the key with {provider.name}")
    settings = for_any_model(load_settings(context.conversation.harness.cwd, {}).settings)
    name = f"{provider.name}/{provider.default_model}"
    problem = await check_key(ModelFactory(msgspec.structs.replace(settings, model=name))(name))
    if problem is not None and problem.kind in _REFUSED_KEY:
        remove_key(provider)
        context.say(f"{problem.message}; the key is not stored", "error")
        return False
    if problem is not None:
        context.say(f"{problem.message}; the key is stored but untested", "warning")
    return await set_model(context, name)


async def _model_file(context: CommandContext, probe: ModelProbe) -> str:
    """The model of a GGUF file; empty if the person cancels."""
    line = TextLine("where is the GGUF file?", context.colors, hint="enter uses it, esc cancels")
    name = await line.ask(context.panels)
    if not name:
        return ""
    file = expand_home(name).absolute()
    if not await asyncio.to_thread(file.is_file):
        raise UsageError(f"there is no file {file}")
    if not probe.can_run_gguf:
        raise UsageError(how_to_install("local"))
    return f"gguf/{file}"
