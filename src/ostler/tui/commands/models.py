"""/model, /thinking, /key, /login and /logout, and the rows of models to choose from."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ostler.app.default_model import Candidate, ModelProbe, known_models
from ostler.app.provider_keys import list_keys, provider_named, remove_key, store_provider_key
from ostler.app.remote_sessions import RemoteSessions
from ostler.app.reports import UNKNOWN, window_and_prices
from ostler.app.settings import Settings, load_settings
from ostler.core.model import ReasoningLevel
from ostler.models.credentials import read_key_file
from ostler.models.providers import configured_providers
from ostler.schema.errors import UsageError
from ostler.schema.events import SettingsChanged
from ostler.schema.requests import SetModel
from ostler.store.paths import key_file
from ostler.tui.commands.registry import Command, Complete, print_lines
from ostler.tui.panels.panel import TextLine
from ostler.tui.panels.picker import Choice, Picker
from ostler.tui.render.spans import quoted

if TYPE_CHECKING:
    from ostler.core.store import Store
    from ostler.tui.command_context import CommandContext


def candidates(cwd: Path) -> list[Candidate]:
    """All known models, usable ones first. Probes servers and files: not for the event loop."""
    return known_models(ModelProbe(load_settings(cwd, {}).settings), set_key="/key set")


def model_choice(one: Candidate, present: str) -> Choice:
    if one.info is None or not one.info.known:
        window, prices, details = "", "", "its context window and price are unknown"
    else:
        window, input_price, output_price = window_and_prices(one.info)
        has_price = UNKNOWN not in (input_price, output_price)
        prices = f"${input_price} → ${output_price}" if has_price else ""
        price = (
            f"${input_price} in and ${output_price} out per million tokens"
            if has_price
            else "its price is unknown"
        )
        details = f"{window} tokens of context; {price}"
    about = one.to_do or f"used from the next step on; {details}"
    cells = (window, prices, "no key" if one.to_do else "")
    return Choice(one.name, one, cells, " ".join(one.aliases), about, one.name == present)


LEVELS: tuple[str, ...] = get_args(ReasoningLevel)


def model_commands(context: CommandContext) -> list[Command]:
    group = _Models(context)
    about_key, key_arguments = "list API keys; store or remove one", "[set|remove provider]"
    return [
        Command("model", "choose the model", group.model, ("m",), "[name]", group.names),
        Command("thinking", "set the thinking level", group.thinking, ("think",), "[level]", _levels),
        Command("key", about_key, group.key, (), key_arguments, group.providers),
        Command("login", "store a provider's API key", group.login, (), "[provider]", group.all_providers),
        Command("logout", "remove a stored API key", group.logout, (), "[provider]", _stored_keys),
    ]


async def _levels(typed: str) -> list[str]:
    return list(LEVELS)


async def _stored_keys(typed: str) -> list[str]:
    return list(read_key_file(key_file()))


class _Models:
    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._search: asyncio.Future[list[Candidate]] | None = None

    async def names(self, typed: str) -> list[str]:
        """Searches once for each argument, since it takes a moment."""
        if self._search is None or not typed:
            conversation = self._context.conversation
            search = model_candidates(conversation.store, conversation.harness.cwd)
            self._search = asyncio.ensure_future(search)
        return [one.name for one in await asyncio.shield(self._search) if not one.to_do]

    async def model(self, arguments: str) -> None:
        if arguments:
            await set_model(self._context, arguments)
            return
        harness = self._context.conversation.harness
        all_models = await model_candidates(self._context.conversation.store, harness.cwd)
        present = harness.model.name
        if all(one.name != present for one in all_models):
            all_models.insert(0, Candidate(present, present.partition("/")[0]))
        choices = [model_choice(one, present) for one in all_models]
        picked = await Picker("model", choices, self._context.colors).ask(self._context.panels)
        if picked is None:
            return
        chosen: Candidate = picked.choice.value
        if not chosen.to_do or await ask_for_key(self._context, chosen.provider):
            await set_model(self._context, chosen.name)

    async def thinking(self, arguments: str) -> None:
        harness = self._context.conversation.harness
        level = arguments
        if not level:
            choices = []
            for one in LEVELS:
                effort = "no thinking" if one == "off" else f"effort {one}"
                about = f"{effort} from the next step on; a model without this level uses the nearest"
                choices.append(Choice(one, one, about=about, is_present=one == harness.reasoning))
            picked = await Picker("thinking", choices, self._context.colors).ask(self._context.panels)
            if picked is None:
                return
            level = picked.choice.value
        if level not in LEVELS:
            raise UsageError(f"there is no level {level!r:.40}; the levels are: {', '.join(LEVELS)}")
        await set_model(self._context, harness.model.name, level)

    async def all_providers(self, typed: str) -> list[str]:
        own = self._settings().providers
        return [name for name, one in configured_providers(own).items() if one.key_variables or name in own]

    async def providers(self, typed: str) -> list[str]:
        words = typed.split(" ")
        if len(words) < 2:
            return ["set", "remove"]
        names = await (_stored_keys(typed) if words[0] == "remove" else self.all_providers(typed))
        return [f"{words[0]} {name}" for name in names]

    async def key(self, arguments: str) -> None:
        verb, _, name = arguments.partition(" ")
        if verb == "set":
            await self.login(name)
        elif verb == "remove":
            await self.logout(name)
        elif verb:
            raise UsageError("use /key, /key set PROVIDER or /key remove PROVIDER; never type a key here")
        elif lines := list_keys(self._settings()):
            print_lines(self._context, lines)
        else:
            self._context.say("there are no keys; /key set PROVIDER stores one")

    async def login(self, arguments: str) -> None:
        if " " in arguments:
            raise UsageError("name only the provider; you then type its key in a hidden line")
        name = arguments or await self._choose("which provider?", "stores a key for {}", self.all_providers)
        if name:
            await ask_for_key(self._context, name)

    async def logout(self, arguments: str) -> None:
        name = arguments or await self._choose("remove which key?", "removes the key for {}", _stored_keys)
        if name:
            remove_key(provider_named(name, self._settings()))
            self._context.say(f"the key for {name} is removed")

    async def _choose(self, title: str, about: str, names: Complete) -> str:
        choices = [Choice(name, name, about=about.format(name)) for name in await names("")]
        picker = Picker(title, choices, self._context.colors, empty="no key is stored")
        picked = await picker.ask(self._context.panels)
        return picked.choice.value if picked is not None else ""

    def _settings(self) -> Settings:
        return load_settings(self._context.conversation.harness.cwd, {}).settings


async def set_model(context: CommandContext, name: str, level: str = "") -> bool:
    """Sets the model from the next step on; False if it was refused."""
    outcome = await context.conversation.ask(
        lambda id: SetModel(id=id, by="tui", model=name, reasoning=level)
    )
    if not isinstance(outcome, SettingsChanged):
        return False
    thinking = f", thinking: {outcome.reasoning}" if outcome.reasoning else ""
    context.say(f"the model is now {outcome.model}{thinking}")
    return True


async def ask_for_key(context: CommandContext, provider: str) -> bool:
    """Asks for a provider's key in a hidden line and stores it; False if the person cancels."""
    entry = provider_named(provider, load_settings(context.conversation.harness.cwd, {}).settings)
    hint = "enter stores it, esc cancels; the key stays hidden"
    line = TextLine(f"key for {provider}", context.colors, is_secret=True, hint=hint)
    if key := await line.ask(context.panels):
        context.say(f"the key for {provider} is stored in {quoted(store_provider_key(entry, key))}")
    return bool(key)


async def model_candidates(store: Store, cwd: Path) -> list[Candidate]:
    """All models to choose from, usable ones first."""
    if isinstance(store, RemoteSessions):
        return await store.candidates()
    return await asyncio.to_thread(candidates, cwd)
