"""`next_action`: what a run does next follows from its facts and four flags."""

from __future__ import annotations

import pytest

from ostler.core.loop import next_action
from ostler.core.run_state import CallState, RunState, StepState
from ostler.schema import events
from ostler.schema.messages import Text

MESSAGE = events.AssistantMessage("msg_1", (Text("hi"),), "stop")
RESULT = events.ToolResultFact("call_1", "look", (Text("seen"),))


def run(
    step: bool = True,
    message: bool = False,
    call: str = "",
    step_ended: bool = False,
    waiting: events.RunWaiting | None = None,
) -> RunState:
    state = RunState("run_1", events.RunStarted("1", "/", "demo"), 0)
    state.waiting = waiting
    if step:
        state.step = StepState(events.StepStarted(1))
        state.step.message = MESSAGE if message else None
        state.step.ended = events.StepEnded(1) if step_ended else None
        if call:
            state.step.calls["call_1"] = CallState(events.ToolCalled("call_1", "look", {}, 1), {})
            state.step.calls["call_1"].result = RESULT if call == "done" else None
    return state


PAUSED, PENDING = events.RunWaiting("paused"), events.RunWaiting("pending")


@pytest.mark.parametrize(
    ("state", "flags", "action"),
    [
        (run(step=False), (), "begin_step"),
        (run(), (), "call_model"),
        (run(message=True, call="open"), (), "run_tools"),
        (run(message=True, call="open", waiting=PENDING), (), "run_tools"),
        (run(message=True, call="done"), (), "end_step"),
        (run(message=True), (), "end_step"),
        (run(message=True, call="done", step_ended=True), (), "begin_step"),
        (run(waiting=PAUSED), (), "wait"),
        (run(message=True, call="open"), ("stuck",), "wait"),
        (run(step=False), ("pause",), "wait"),
        (run(message=True, call="done", step_ended=True), ("pause",), "wait"),
        (run(message=True, step_ended=True), ("pause",), "begin_step"),  # it is about to end anyway
        (run(step_ended=True), ("pause",), "begin_step"),
        (run(), ("pause",), "call_model"),
        (run(waiting=PAUSED), ("cancelled", "stuck", "pause"), "cancel"),
        (run(waiting=PAUSED), ("ending", "cancelled", "stuck", "pause"), "end_run"),
    ],
)
def test_the_next_action_follows_from_the_facts(state: RunState, flags: tuple[str, ...], action: str) -> None:
    arguments = {flag: flag in flags for flag in ("ending", "cancelled", "pause", "stuck")}
    assert next_action(state, **arguments) == action
