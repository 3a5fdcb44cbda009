"""Displays the model's to-do list in a widget that follows its changes, with a key to hide it.

    ostler -e examples/extensions/todo_widget.py -p "…"

`/todo` prints the list. `alt+t` hides the widget and shows it again.
"""

from ostler import events
from ostler.extensions import Content, ExtensionAPI, ExtensionContext, SessionOpened, Widget

MARKS = {"open": "○", "active": "◐", "done": "●", "dropped": "⊘"}


def setup(ostler: ExtensionAPI) -> None:
    @ostler.on(SessionOpened)
    def opened(event: SessionOpened, context: ExtensionContext) -> None:
        _show(context)

    @ostler.on(events.TodoUpdated)
    def updated(event: events.TodoUpdated, context: ExtensionContext) -> None:
        _show(context)

    @ostler.shortcut("alt+t", description="Show or hide the to-do list")
    def toggle(context: ExtensionContext) -> None:
        context.state["hidden"] = not context.state.get("hidden", False)
        _show(context)

    @ostler.command("todo", description="Print the to-do list")
    def todo(arguments: str, context: ExtensionContext) -> str:
        return "\n".join(_lines(context, 100)) or "nothing to do"


def _show(context: ExtensionContext) -> None:
    items = context.journal.state.todo.get("main", ())
    if not items or context.state.get("hidden", False):
        context.ui.remove_widget("list")
        context.ui.remove_status("left")
        return
    left = sum(item.status in ("open", "active") for item in items)
    content = Content(text=f"{left} to do", render=lambda width: "\n".join(_lines(context, width)))
    context.ui.set_widget(Widget("list", content))
    context.ui.set_status("left", f"{left} to do")


def _lines(context: ExtensionContext, width: int) -> list[str]:
    items = context.journal.state.todo.get("main", ())
    return [f"{MARKS[item.status]} {item.text}"[:width] for item in items]
