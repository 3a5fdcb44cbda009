"""Displays the agent's children and their usage; `/scout TASK` starts one.

ostler -e examples/extensions/subagent_monitor.py -p "have the scout look at the tests"
"""

from ostler import events
from ostler.extensions import ExtensionAPI, ExtensionContext, SubagentEvent, SubagentResult, Widget


def setup(ostler: ExtensionAPI) -> None:
    running: dict[str, str] = {}

    def show(context: ExtensionContext) -> None:
        if running:
            context.ui.set_widget(Widget("children", "\n".join(f"⚙ {line}" for line in running.values())))
        else:
            context.ui.remove_widget("children")

    @ostler.on(events.ChildStarted)
    def started(event: events.ChildStarted, context: ExtensionContext) -> None:
        running[event.child] = f"{event.agent or 'child'}: {event.task}"
        show(context)

    @ostler.on(events.ChildEnded)
    def ended(event: events.ChildEnded, context: ExtensionContext) -> None:
        running.pop(event.child, None)
        show(context)
        own = event.own
        context.print_info(f"a child {event.status}: {own.steps} steps, {own.usage.total_tokens} tokens")

    @ostler.command("scout", description="Start a child that only reads")
    async def scout(task: str, context: ExtensionContext) -> str:
        def show_call(event: SubagentEvent) -> None:
            if event.kind == "tool_call":
                context.ui.set_status("scout", f"the scout calls {event.tool}")

        tools = [one.name for one in context.tools.all() if one.kind in ("read", "search")]
        result: SubagentResult = await context.run_subagent(task, tools=tools, on_event=show_call)
        context.ui.remove_status("scout")
        return result.text if result.ok else f"the scout failed: {result.error}"
