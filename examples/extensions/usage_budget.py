"""Ends a run when its session has cost as much as it may.

    OSTLER_OPT_BUDGET=0.50 ostler -e examples/extensions/usage_budget.py -p "…"

`/budget` shows the cost so far, `/budget 2.00` allows more. The numbers are stored in the session: a resumed
session has them, and a fork starts with them. The cost of a child counts when it has ended.
"""

from ostler import events
from ostler.extensions import ExtensionAPI, ExtensionContext, Refuse, StepPlan


def setup(ostler: ExtensionAPI) -> None:
    ostler.option("budget", description="Dollars that a session may cost", default="1.00")

    @ostler.on(events.UsageReported)
    def count(reported: events.UsageReported, context: ExtensionContext) -> None:
        """Counts every model call, also failed ones and those outside of steps."""
        state = context.state
        state["calls"] = state.get("calls", 0) + 1
        state["spent"] = state.get("spent", 0.0) + (reported.usage.cost or 0.0)

    @ostler.on(events.ChildEnded)
    def count_child(ended: events.ChildEnded, context: ExtensionContext) -> None:
        cost = (ended.own + ended.children).least_cost
        context.state["spent"] = context.state.get("spent", 0.0) + cost

    @ostler.before_step(guard=True)
    def stop(plan: StepPlan, context: ExtensionContext) -> Refuse | None:
        spent, allowed = context.state.get("spent", 0.0), _allowed(context)
        return (
            Refuse(f"${spent:.2f} of ${allowed:.2f} is spent; `/budget` allows more")
            if spent >= allowed
            else None
        )

    @ostler.on(events.RunEnded)
    def report(ended: events.RunEnded, context: ExtensionContext) -> None:
        total = ended.own + ended.children
        context.print_info(
            f"{total.steps} steps, {total.tool_calls} tool calls, {total.usage.total_tokens} tokens; "
            f"session: ${context.state.get('spent', 0.0):.4f} of ${_allowed(context):.2f}"
        )
        if total.usage.cost is None:
            context.print_error("some of these calls have no known price and do not count")

    @ostler.command("budget", description="Show what was spent, or allow more")
    def budget(arguments: str, context: ExtensionContext) -> str:
        if arguments.strip():
            context.state["allowed"] = float(arguments)
        spent, calls = context.state.get("spent", 0.0), context.state.get("calls", 0)
        return f"${spent:.4f} of ${_allowed(context):.2f} in {calls} calls"


def _allowed(context: ExtensionContext) -> float:
    return float(context.state.get("allowed", context.option("budget")))
