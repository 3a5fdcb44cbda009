"""How much the model thinks, from one level to the next by a key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from inspect import unwrap
from typing import get_args

from ostler.faces.tui.conversation import Conversation
from ostler.kernel.harness import Harness
from ostler.kernel.model import ReasoningLevel
from ostler.vocabulary.events import SettingsChanged
from ostler.vocabulary.requests import SetModel

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
    from ostler.runs.model_choice import ModelMaker

    maker = unwrap(harness.make_model) if harness.make_model else None
    if not isinstance(maker, ModelMaker):
        return list(LEVELS)
    info = maker.catalogue.lookup(harness.model.name)
    if info.reasoning is False:
        return []
    return [one for one in LEVELS if one in info.reasoning_levels] or list(LEVELS)
