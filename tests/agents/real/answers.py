"""What the model behind every agent says: the same to all, on whichever wire it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ostler.testkit.vendors import Turn, say, turn

FIRST = "tell me of apples"
SECOND = "and what of pears?"
LINES = "Read this:\n\n```py\nprint(1)\n```\n\nThat is all."
PLANT = "plant the orchard"
SLOW = "count slowly"

ANSWERS = {
    FIRST: turn("Apples are red.\n\n- Boskoop\n- Topaz\n\n> Prune in winter."),
    SECOND: turn("Pears are green."),
    "That is all.": turn("I have read it."),
    SLOW: turn(say(*(f"{number}\n\n" for number in range(1, 400))), delay=0.2),
}
AFTER_THE_TOOL = "It is planted."
PLANTED = "planted.txt"
COMMAND = f"echo orchard > {PLANTED}"

_RESULTS = ('"tool_result"', '"function_call_output"', '"role": "tool"', '"functionResponse"')
_THE_AGENTS_OWN = ("function_call", "reasoning")


def answering(acts: Turn, tool: str) -> Callable[[dict[str, Any]], Turn]:
    """A script. `acts` answers the wish to plant, if the request offers the tool that it calls."""

    def answer(request: dict[str, Any]) -> Turn:
        asked = json.dumps(_not_answered_yet(request), ensure_ascii=False)
        if any(mark in asked for mark in _RESULTS):
            return turn(AFTER_THE_TOOL)
        if PLANT in asked and tool in json.dumps(request.get("tools", "")):
            return acts
        return next((said for prompt, said in ANSWERS.items() if prompt in asked), turn("An orchard"))

    return answer


def _not_answered_yet(request: dict[str, Any]) -> list[Any]:
    said = request.get("messages") or request.get("input") or request.get("contents") or []
    for at in range(len(said), 0, -1):
        one = said[at - 1]
        if one.get("role") in ("assistant", "model") or one.get("type") in _THE_AGENTS_OWN:
            return list(said[at:])
    return list(said)
