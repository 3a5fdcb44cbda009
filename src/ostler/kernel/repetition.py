"""Noticing that the model makes the same call with the same result again and again."""

from __future__ import annotations

import msgspec

from ostler.kernel.digest import blake2b
from ostler.kernel.run_state import CallState, RunState

REMIND_AT = 3
STOP_AT = 5

_encoder = msgspec.json.Encoder(order="sorted")


def signature(call: CallState) -> str:
    """The same for the same tool, arguments and result, however the model spelled its JSON."""
    result = call.result
    what = (call.called.name, call.called.arguments, result and (result.failed, result.content))
    return blake2b(_encoder.encode(what), digest_size=12).hexdigest()


def most_repeated(run: RunState) -> int:
    """For how many steps in a row the most repeated call has been made."""
    return max(run.repeats.values(), default=0)


def reminder(run: RunState) -> str | None:
    """What to tell the model once it has repeated itself too often, said once."""
    if REMIND_AT not in run.repeats.values():
        return None
    calls = run.step.calls.values() if run.step else ()
    names = sorted({call.called.name for call in calls if run.repeats.get(signature(call)) == REMIND_AT})
    return (
        f"You have made the same call ({', '.join(names)}) with the same result {REMIND_AT} times in a row. "
        "Making it again will not help: use what it told you, try something else, or say what is in your way."
    )
