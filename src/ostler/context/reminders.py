"""Reminders: said to a model at the end of one request, and never a part of the conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ostler.context.policy import Reminders
from ostler.kernel.repetition import reminder as repetition
from ostler.kernel.state import SessionState

Rule = Callable[[SessionState], str | None]
"""A host's own: what to say now, or nothing. It must not change anything."""


class Reminder(msgspec.Struct, frozen=True):
    rule: str
    text: str


def due(state: SessionState, policy: Reminders, own: dict[str, Rule]) -> Iterator[Reminder]:
    """Those whose time is now, in a fixed order."""
    run = state.run
    if run is None:
        return
    if policy.repetition and (text := repetition(run)):
        yield Reminder("repetition", text)
    limit = run.started.limits.steps
    if policy.last_steps and limit is not None and 0 < (left := limit - run.steps + 1) <= policy.last_steps:
        steps = "This is the last step" if left == 1 else f"{left} steps are left, with this one"
        yield Reminder("last_steps", f"{steps}: come to an end, and say what is not done.")
    items = state.todo.get("main", ())
    is_open = any(item.status in ("open", "active") for item in items)
    if policy.todo_every and is_open and run.steps % policy.todo_every == 0:
        rows = "\n".join(f"- {item.text} ({item.status})" for item in items)
        yield Reminder("todo", f"Your to-do list:\n{rows}")
    for name, rule in own.items():
        try:
            said = rule(state)
        except Exception as error:  # a host's own code: nothing is said then, but that it failed
            said = f"(the reminder {name} failed: {type(error).__name__})"
        if said:
            yield Reminder(name, said)


def as_text(reminders: list[Reminder]) -> str:
    lines = "\n".join(f"- {one.text}" for one in reminders)
    return f"<system-reminder>\n{lines}\n</system-reminder>"
