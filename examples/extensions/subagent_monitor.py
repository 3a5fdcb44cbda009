"""Shows what the agent's children do, and what they cost; `/scout TASK` sends one of your own.

ostler -e examples/extensions/subagent_monitor.py -p "have the scout look at the tests"
"""

from ostler import events
from ostler.extensions import ExtensionAPI, ExtensionContext, SubagentEvent, SubagentResult, Widget


def setup(ostler: ExtensionAPI) -> None:
    at_work: dict[str, str] = {}

    def show(context: ExtensionContext) -> None:
        if at_work:
            context.ui.set_widget(Widget("children", "\n".join(f"⚙ {line}" for line in at_work.values())))
        else:
            context.ui.remove_widget("children")

    @ostler.on(events.ChildStarted)
    def started(event: events.ChildStarted, context: ExtensionContext) -> None:
        at_work[event.child] = f"{event.agent or 'child'}: {event.task}"
        show(context)

    @ostler.on(events.ChildEnded)
    def ended(event: events.ChildEnded, context: ExtensionContext) -> None:
        at_work.pop(event.child, None)
        show(context)
        own = event.own
        context.print_info(f"a child {event.status}: {own.steps} steps, {own.usage.total_tokens} tokens")

    @ostler.command("scout", description="Send a child that only looks")
    async def scout(task: str, context: ExtensionContext) -> str:
        def see(event: SubagentEvent) -> None:
            if event.kind == "tool_call":
                context.ui.set_status("scout", f"the scout calls {event.tool}")

        tools = [one.name for one in context.tools.all() if one.kind in ("read", "search")]
        result: SubagentResult = await context.run_subagent(task, tools=tools, on_event=see)
        context.ui.remove_status("scout")
        return result.text if result.ok else f"the scout came to nothing: {result.error}"
