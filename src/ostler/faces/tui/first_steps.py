"""The first time, when nothing can answer yet: what was looked for, and the ways in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ostler.faces.cli.columns import aligned
from ostler.faces.tui.commands.lines import print_lines
from ostler.faces.tui.commands.models import ask_for_key, set_model
from ostler.faces.tui.pickers.picker import Choice, Picker
from ostler.kernel.store import Store
from ostler.runs.first_run import Finding, Surroundings
from ostler.runs.home import gguf_folder
from ostler.runs.settings import load_settings
from ostler.vocabulary.errors import OstlerError

if TYPE_CHECKING:
    from ostler.faces.tui.tui import Tui

DEMO = "demo/script"
_KINDS = {"key": "key", "server": "local server", "gguf": "model file"}
_DEMO = Choice("the demo", "demo", about="a script with the real tools: no key, no network; not a model")


async def first_steps(tui: Tui, open_store: Callable[[], Store] | None = None) -> None:
    """Shows what was looked for, and lets a person choose how to go on: until something can answer, or they
    go away from it. From then on sessions are kept in the store that is opened, if the present one is for
    the demo only."""
    is_told = False
    while True:
        settings = load_settings(tui.conversation.harness.cwd, {}).settings
        around = Surroundings(settings)
        findings = await asyncio.to_thread(list, around.findings())
        if not is_told:
            rows = [
                (_KINDS[one.kind], one.name, one.detail, one.to_do) for one in findings if one.kind in _KINDS
            ]
            heading = "nothing can answer yet; this was looked for:"
            print_lines(tui, [heading, *aligned(rows)], has_heading=True)
            is_told = True
        picked = await Picker("how shall it answer?", _ways(findings), tui.colors).ask(tui.panels)
        if picked is None:
            tui.say("the demo answers until you choose: /model, /key, or /doctor for more")
            return
        try:
            if await _go(tui, picked.choice.value, around):
                if open_store is not None and tui.conversation.harness.model.name != DEMO:
                    await tui.switching.to("", store=open_store())
                return
        except OstlerError as error:
            tui.say(error.message, "error")


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
    if not any(one.kind == "gguf" and one.models for one in findings):
        about = f"put a GGUF file into {gguf_folder()}, and look again"
        ways.append(Choice("run a model file", "again", about=about))
    return [*ways, _DEMO]


async def _go(tui: Tui, way: str, around: Surroundings) -> bool:
    """Whether something can answer now."""
    if way == "again":
        return False
    if way != "key":
        return await set_model(tui, way)
    usable = [one for one in around.providers.values() if one.default_model and one.key_variables]
    choices = [
        Choice(
            one.name, one, (one.default_model,), about=f"keeps a key, and asks {one.name}/{one.default_model}"
        )
        for one in usable
    ]
    picked = await Picker("whose key?", choices, tui.colors).ask(tui.panels)
    if picked is None or not await ask_for_key(tui, picked.choice.value.name):
        return False
    provider = picked.choice.value
    return await set_model(tui, f"{provider.name}/{provider.default_model}")
