"""Which level of reasoning a model is asked for: the one place that decides it, for every wire."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

import msgspec

Level = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""Those that a model may have; a person asks for none above `high`."""

LEVELS: tuple[Level, ...] = get_args(Level)
WORDS: dict[Level, str] = {level: "none" if level == "off" else level for level in LEVELS}
"""As OpenAI calls them, and those who imitate it."""

Spelling = Mapping[Level, Any]
"""What stands for each level on a wire."""


class Levels(msgspec.Struct, frozen=True):
    """What the wire of a kind of models can say about reasoning; nothing for those that take no level."""

    spelled: Spelling = {}
    """A level that is not here is never sent, whoever lists it: the vendor would refuse it."""
    assumed: Spelling | None = None
    """Where nobody lists the model's levels; by default all that are spelled."""
    stoppable: bool = False
    """The vendor is known to take `off`, also where a list leaves it out."""

    def had(self, listed: Collection[Level], reasons: bool | None) -> Spelling:
        """Those of a model of which somebody lists levels, or says whether it reasons."""
        if reasons is False:
            return {}
        kept = {level: said for level, said in self.spelled.items() if level in listed}
        if not kept:
            return self.spelled if self.assumed is None else self.assumed
        return {"off": self.spelled["off"], **kept} if self.stoppable else kept


def nearest(asked: Level | None, had: Collection[Level]) -> Level | None:
    """The least level that is not below the one asked for, else the highest; nothing where there is none."""
    if asked is None:
        return None
    ordered = [level for level in LEVELS if level in had]
    enough = [level for level in ordered if LEVELS.index(level) >= LEVELS.index(asked)]
    return next(iter(enough or ordered[-1:]), None)
