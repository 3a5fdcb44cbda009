"""Plans first: until you say `/go`, the model has only tools that read.

    ostler -e examples/extensions/plan_mode.py -p /plan
    ostler -e examples/extensions/plan_mode.py -p --continue "a parser for dates"
    ostler -e examples/extensions/plan_mode.py --permissions edit -p --continue /go

`/plan` starts planning, `/go` starts the work. The mode is stored in the session, and survives a crash.
"""

from msgspec.structs import replace

from ostler.extensions import ExtensionAPI, ExtensionContext, PlannedCall, Refuse, RunPlan, StepPlan

READING = frozenset({"read", "search", "fetch", "ask"})
INSTRUCTIONS = "Make a plan in numbered steps. Read what you need, change nothing, and ask whether to start."


def setup(ostler: ExtensionAPI) -> None:
    @ostler.command("plan", description="Plan first: nothing is changed until /go")
    def plan(arguments: str, context: ExtensionContext) -> str:
        context.state["planning"] = True
        return "planning: tools that change something are disabled until /go"

    @ostler.command("go", description="Carry out the plan")
    def go(arguments: str, context: ExtensionContext) -> str:
        context.state["planning"] = False
        context.wait(context.send(arguments or "Carry out the plan."))
        return "carrying out the plan"

    @ostler.before_run
    def add_instructions(run: RunPlan, context: ExtensionContext) -> RunPlan | None:
        return replace(run, messages=(*run.messages, INSTRUCTIONS)) if context.state.get("planning") else None

    @ostler.before_step
    def limit_tools(step: StepPlan, context: ExtensionContext) -> StepPlan | None:
        if not context.state.get("planning"):
            return None
        tools = context.session.harness.tools
        return replace(step, tools=tuple(name for name in step.tools if tools[name].spec.kind in READING))

    @ostler.before_tool
    def refuse_changes(call: PlannedCall, context: ExtensionContext) -> Refuse | None:
        if context.state.get("planning") and call.kind not in READING:
            return Refuse("This is plan mode: change nothing before /go.")
        return None
