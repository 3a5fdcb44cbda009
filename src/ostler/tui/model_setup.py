"""Offers another model when one has failed for good, and cycles the reasoning level by a key."""

from __future__ import annotations

import asyncio
from inspect import unwrap
from typing import TYPE_CHECKING, get_args

from ostler.core.harness import Harness
from ostler.core.lazy import lazy_module
from ostler.core.model import ReasoningLevel
from ostler.models.factory import ModelFactory
from ostler.schema.errors import ERRORS, ModelError, OstlerError
from ostler.schema.events import RunEnded, SettingsChanged
from ostler.schema.requests import SetModel

if TYPE_CHECKING:
    from ostler.app import default_model
    from ostler.app.default_model import Candidate
    from ostler.tui.command_context import CommandContext
    from ostler.tui.commands import models
    from ostler.tui.panels import picker
    from ostler.tui.panels.picker import Choice
else:
    default_model = lazy_module("ostler.app.default_model")
    models = lazy_module("ostler.tui.commands.models")
    picker = lazy_module("ostler.tui.panels.picker")

SHARED_FAILURES = ("context_overflow", "invalid_answer", "interrupted")
"""Failures that another model would have, too."""

REFUSED_KEY = ("authentication_failed", "permission_denied")
KEY = "key"


class ModelFallback:
    """Offers other models when one has failed. The chosen one continues the run; no tool call is repeated."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._offer_task: asyncio.Task[None] | None = None

    def take(self, event: object) -> None:
        if not isinstance(event, RunEnded) or event.status != "failed" or event.failure is None:
            return
        kind = event.failure.kind
        if issubclass(ERRORS.get(kind, OstlerError), ModelError) and kind not in SHARED_FAILURES:
            self.end()
            self._offer_task = asyncio.ensure_future(self._offer(kind))

    def end(self) -> None:
        if self._offer_task is not None:
            self._offer_task.cancel()

    async def _offer(self, kind: str) -> None:
        context, conversation = self._context, self._context.conversation
        try:
            all_models = await models.model_candidates(conversation.store, conversation.harness.cwd)
            failed = conversation.harness.model.name
            others = default_model.fallback_candidates(all_models, failed, kind)
            choices, keys = fallback_choices(others, failed, kind), {"esc": "cancel"}
            panel = picker.Picker("continue with another model", choices, context.colors, keys=keys)
            picked = await panel.ask(context.panels)
            is_idle = conversation is context.conversation and conversation.session.state.run is None
            if picked is None or not is_idle:
                return
            name = getattr(picked.choice.value, "name", picked.choice.value)
            if name == KEY:
                name = conversation.harness.model.name
                if not await models.ask_for_key(context, name.partition("/")[0]):
                    return
            if await models.set_model(context, name):
                await conversation.continue_run()
        except OstlerError as error:
            context.say(error.message, "error")


def fallback_choices(others: list[Candidate], failed: str, kind: str) -> list[Choice]:
    """Models of other providers, the failed model, then others of its provider, which mostly fail, too."""
    provider = failed.partition("/")[0]
    if kind in REFUSED_KEY:
        about = f"asks you for a key for {provider}, and stores it"
        same = picker.Choice(f"{failed} with another key", KEY, about=about)
    else:
        same = picker.Choice(f"{failed} again", failed, about="calls it again; tools are not run again")
    of_others = [models.model_choice(one, "") for one in others if one.provider != provider]
    of_same = [models.model_choice(one, "") for one in others if one.provider == provider]
    return [*of_others, same, *of_same]


LEVELS: tuple[str, ...] = get_args(ReasoningLevel)


class ThinkingLevel:
    """Switches to the next thinking level with each press."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._in_turn = asyncio.Lock()

    async def next(self) -> None:
        async with self._in_turn:
            conversation = self._context.conversation
            harness = conversation.harness
            name, levels = harness.model.name, await asyncio.to_thread(levels_of, harness)
            if not levels:
                self._context.show_notice(f"{name} has no thinking levels")
                return
            place = levels.index(harness.reasoning) + 1 if harness.reasoning in levels else 0
            level = levels[place % len(levels)]
            outcome = await conversation.ask(
                lambda id: SetModel(id=id, by="tui", model=name, reasoning=level)
            )
            if isinstance(outcome, SettingsChanged):
                self._context.show_notice(f"thinking: {outcome.reasoning}")


def levels_of(harness: Harness) -> list[str]:
    """The levels of the model; all of them if unknown. Reads the catalogue: not for the event loop."""
    maker = unwrap(harness.make_model) if harness.make_model else None
    if not isinstance(maker, ModelFactory):
        return list(LEVELS)
    info = maker.catalogue.lookup(harness.model.name)
    if info.reasoning is False:
        return []
    return [one for one in LEVELS if one in info.reasoning_levels] or list(LEVELS)
