"""The todo tool: the task list of the model, which front ends display."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from ostler.core.function_tool import tool
from ostler.core.tool import ToolContext
from ostler.schema.errors import InvalidArguments
from ostler.schema.events import TodoItem
from ostler.schema.outcomes import Display, Ok, ok

MOST_ITEMS = 100
_MARKS = {"open": "[ ]", "active": "[>]", "done": "[x]", "dropped": "[-]"}


class Item(msgspec.Struct, frozen=True):
    """One task."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    status: Literal["open", "active", "done", "dropped"] = "open"
    id: str = ""


@tool(source="built-in", kind="agent", display=Display(view="todo", title="To do", icon="list"))
async def todo(
    items: Annotated[list[Item], msgspec.Meta(max_length=MOST_ITEMS)] | None = None, *, context: ToolContext
) -> Ok:
    """Keeps a task list for longer work, for you and for the user who follows it.

    Send the whole list each time; without items, returns the current list. Have one item active at a time.

    Args:
        items: the whole list, in order; an item keeps its id
    """
    if items is not None:
        await context.update_todo(_with_ids(items))
    current = context.todo
    done = sum(item.status in ("done", "dropped") for item in current)
    rows = [f"{_MARKS[item.status]} {item.id} {item.text}" for item in current]
    details = {"items": msgspec.to_builtins(current)}
    return ok("\n".join(rows) or "(nothing to do)", details=details, summary=f"{done} of {len(current)} done")


def _with_ids(items: list[Item]) -> list[TodoItem]:
    """Gives each item without an id the lowest free number."""
    ids = [item.id for item in items if item.id]
    if twice := next((one for one in ids if ids.count(one) > 1), ""):
        raise InvalidArguments(f"two items have the id {twice!r}: each needs its own")
    free = (str(number) for number in range(1, 2 * MOST_ITEMS + 1) if str(number) not in ids)
    return [TodoItem(item.id or next(free), item.text, item.status) for item in items]
