"""When a model has failed for good: another one may go on where it stopped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ostler.vocabulary.errors import ERRORS, Failure, ModelError, OstlerError
from ostler.vocabulary.events import RunEnded

if TYPE_CHECKING:
    from ostler.faces.tui.desk import Desk
    from ostler.faces.tui.pickers.picker import Choice
    from ostler.runs.model_candidates import Candidate

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
        from ostler.faces.tui.commands.models import ask_for_key, set_model
        from ostler.faces.tui.far_store import model_candidates
        from ostler.faces.tui.pickers.picker import Picker
        from ostler.runs.model_candidates import rescuers

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
    from ostler.faces.tui.pickers.models import model_choice

    owner = failed.partition("/")[0]
    elsewhere = [model_choice(one, "") for one in others if one.provider != owner]
    beside = [model_choice(one, "") for one in others if one.provider == owner]
    return [*elsewhere, *_same_model(failed, kind), *beside]


def _same_model(name: str, kind: str) -> list[Choice]:
    """It may be better off after a while, or with another key."""
    from ostler.faces.tui.pickers.picker import Choice

    if kind not in NO_ANSWER_WITH_KEY:
        return [Choice(f"{name} once more", name, about="it is asked again; nothing is repeated")]
    provider = name.partition("/")[0]
    return [Choice(f"{name} with another key", KEY, about=f"asks you for a key of {provider}, and keeps it")]


def _is_vendors(failure: Failure) -> bool:
    is_models = issubclass(ERRORS.get(failure.kind, OstlerError), ModelError)
    return is_models and failure.kind not in NOT_THE_VENDORS
