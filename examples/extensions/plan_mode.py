"""First a plan, then the work: while it plans, the model has tools that only look.

    ostler -e examples/extensions/plan_mode.py -p /plan
    ostler -e examples/extensions/plan_mode.py -p --continue "a parser for dates"
    ostler -e examples/extensions/plan_mode.py --permissions edit -p --continue /go

`/plan` begins to plan, `/go` lets it work. The mode belongs to the session, so it is the same after a crash.
"""

from msgspec.structs import replace

from ostler.extensions import ExtensionAPI, ExtensionContext, PlannedCall, Refuse, RunPlan, StepPlan

LOOKING = frozenset({"read", "search", "fetch", "ask"})
TOLD = "Make a plan in numbered steps. Look at what you need, change nothing, and ask whether to go on."


def setup(ostler: ExtensionAPI) -> None:
    @ostler.command("plan", description="Plan first: nothing is changed until /go")
    def plan(arguments: str, context: ExtensionContext) -> str:
        context.state["planning"] = True
        return "planning: tools that change something are switched off until /go"

    @ostler.command("go", description="Carry the plan out")
    def go(arguments: str, context: ExtensionContext) -> str:
        context.state["planning"] = False
        context.wait(context.send(arguments or "Carry the plan out."))
        return "the plan is carried out"

    @ostler.before_run
    def tell(run: RunPlan, context: ExtensionContext) -> RunPlan | None:
        return replace(run, messages=(*run.messages, TOLD)) if context.state.get("planning") else None

    @ostler.before_step
    def only_look(step: StepPlan, context: ExtensionContext) -> StepPlan | None:
        if not context.state.get("planning"):
            return None
        tools = context.session.harness.tools
        return replace(step, tools=tuple(name for name in step.tools if tools[name].spec.kind in LOOKING))

    @ostler.before_tool
    def nothing_else(call: PlannedCall, context: ExtensionContext) -> Refuse | None:
        if context.state.get("planning") and call.kind not in LOOKING:
            return Refuse("We are planning: nothing is changed yet.")
        return None
