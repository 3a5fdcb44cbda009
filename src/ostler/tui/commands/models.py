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
    """All that are known here, those first that can answer now. It looks around: not on the event loop."""
    return known_models(ModelProbe(load_settings(cwd, {}).settings), set_key="/key set")


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


LEVELS: tuple[str, ...] = get_args(ReasoningLevel)


def model_commands(context: CommandContext) -> list[Command]:
    group = _Models(context)
    return [
        Command("model", "which model answers", group.model, ("m",), "[name]", complete=group.names),
        Command("thinking", "how much it thinks", group.thinking, ("think",), "[level]", complete=_levels),
        Command(
            "key",
            "where keys are found; keep or forget one",
            group.key,
            (),
            "[set|remove provider]",
            complete=group.providers,
        ),
        Command(
            "login", "keep a provider's key", group.login, (), "[provider]", complete=group.all_providers
        ),
        Command("logout", "forget a key that is kept", group.logout, (), "[provider]", complete=_kept_keys),
    ]


async def _levels(typed: str) -> list[str]:
    return list(LEVELS)


def _about_level(level: str) -> str:
    does = "it does not think" if level == "off" else f"its effort is {level}"
    return f"{does} from the next step on; a model without that level takes the nearest"


async def _kept_keys(typed: str) -> list[str]:
    return list(read_key_file(key_file()))


class _Models:
    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ready: asyncio.Future[list[Candidate]] | None = None

    async def names(self, typed: str) -> list[str]:
        """Looked for once while they are typed: it takes a moment."""
        if self._ready is None or not typed:
            conversation = self._context.conversation
            self._ready = asyncio.ensure_future(
                model_candidates(conversation.store, conversation.harness.cwd)
            )
        return [one.name for one in await asyncio.shield(self._ready) if not one.to_do]

    async def model(self, arguments: str) -> None:
        if arguments:
            await set_model(self._context, arguments)
            return
        harness = self._context.conversation.harness
        found = await model_candidates(self._context.conversation.store, harness.cwd)
        present = harness.model.name
        if all(one.name != present for one in found):
            found.insert(0, Candidate(present, present.partition("/")[0]))
        choices = [model_choice(one, present) for one in found]
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
            choices = [
                Choice(one, one, about=_about_level(one), is_present=one == harness.reasoning)
                for one in LEVELS
            ]
            picked = await Picker("thinking", choices, self._context.colors).ask(self._context.panels)
            if picked is None:
                return
            level = picked.choice.value
        if level not in LEVELS:
            raise UsageError(f"there is no level {level!r:.40}; the levels are: {', '.join(LEVELS)}")
        await set_model(self._context, harness.model.name, level)

    async def all_providers(self, typed: str) -> list[str]:
        configured = self._settings().providers
        known = configured_providers(configured)
        return [name for name, one in known.items() if one.key_variables or name in configured]

    async def providers(self, typed: str) -> list[str]:
        words = typed.split(" ")
        if len(words) < 2:
            return ["set", "remove"]
        names = await (_kept_keys(typed) if words[0] == "remove" else self.all_providers(typed))
        return [f"{words[0]} {name}" for name in names]

    async def key(self, arguments: str) -> None:
        verb, _, name = arguments.partition(" ")
        if verb == "set":
            await self.login(name)
        elif verb == "remove":
            await self.logout(name)
        elif verb:
            raise UsageError(
                "say /key, /key set PROVIDER, or /key remove PROVIDER; a key is never typed here"
            )
        elif lines := list_keys(self._settings()):
            print_lines(self._context, lines)
        else:
            self._context.say("there are no keys; /key set PROVIDER keeps one")

    async def login(self, arguments: str) -> None:
        if " " in arguments:
            raise UsageError("say only the provider; its key is typed unseen, in a line of its own")
        name = arguments or await self._choose("whose key?", "keeps a key of {}", self.all_providers)
        if name:
            await ask_for_key(self._context, name)

    async def logout(self, arguments: str) -> None:
        name = arguments or await self._choose("forget whose key?", "forgets the key of {}", _kept_keys)
        if name:
            remove_key(provider_named(name, self._settings()))
            self._context.say(f"the key for {name} is forgotten")

    async def _choose(self, title: str, about: str, names: Complete) -> str:
        choices = [Choice(name, name, about=about.format(name)) for name in await names("")]
        picker = Picker(title, choices, self._context.colors, empty="no key is kept")
        picked = await picker.ask(self._context.panels)
        return picked.choice.value if picked is not None else ""

    def _settings(self) -> Settings:
        return load_settings(self._context.conversation.harness.cwd, {}).settings


async def set_model(context: CommandContext, name: str, level: str = "") -> bool:
    """From the next step on that model answers; False if it cannot."""
    came = await context.conversation.ask(lambda id: SetModel(id=id, by="tui", model=name, reasoning=level))
    if not isinstance(came, SettingsChanged):
        return False
    thinks = f", thinking: {came.reasoning}" if came.reasoning else ""
    context.say(f"{came.model} answers from now on{thinks}")
    return True


async def ask_for_key(context: CommandContext, provider: str) -> bool:
    """Keeps the key of a provider, which is typed unseen; False if none was given."""
    known = provider_named(provider, load_settings(context.conversation.harness.cwd, {}).settings)
    hint = "enter keeps it, esc goes back; it is not shown"
    line = TextLine(f"key for {provider}", context.colors, is_secret=True, hint=hint)
    given = await line.ask(context.panels)
    if not given:
        return False
    context.say(f"the key for {provider} is kept in {quoted(store_provider_key(known, given))}")
    return True


async def model_candidates(store: Store, cwd: Path) -> list[Candidate]:
    """All that somebody may choose from, those first that can answer now."""
    if isinstance(store, RemoteSessions):
        return await store.candidates()

    return await asyncio.to_thread(candidates, cwd)
