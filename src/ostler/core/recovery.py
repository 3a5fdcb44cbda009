"""Recovery: outcomes for what a process left open when it died.

open question that nothing waits for    withdrawn
open model call                         its usage is unknown, `model_failed`; a step tries again
started call of a repeatable tool       starts again
any other started call                  `tool_interrupted`
call that had started before an import  `tool_interrupted`, whatever its tool
open child of no call                   ended
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ostler.core.completion import INTERRUPTED, record_failure, retry_delay
from ostler.core.journal import Journal
from ostler.core.lazy import lazy_module
from ostler.core.model import ModelFailure
from ostler.core.questions import withdraw_imported, withdraw_question
from ostler.core.run_state import CallState, RunState, StepState
from ostler.schema import events
from ostler.schema.facts import Fact
from ostler.schema.messages import Text
from ostler.schema.usage import UNKNOWN_USAGE

if TYPE_CHECKING:
    from ostler.core import call_context
    from ostler.core.loop import Loop
    from ostler.core.tool_calls import ToolRunner
else:
    call_context = lazy_module("ostler.core.call_context")

TAIL_SIZE = 4096
PROCESS_ENDED = "the process that ran it ended"
UNKNOWN_EFFECT = "The process ended while this call ran; its effect may have happened, in part or in whole."


async def recover(loop: Loop) -> None:
    """Records an outcome for everything that a dead process left pending. Does nothing in a live run."""
    journal = loop.journal
    for asked in list(journal.state.questions.values()):
        is_open_here = asked.asked_by == "extension" and loop.session.questions.expects(asked.id)
        if not asked.durable and not is_open_here:
            withdraw_question(journal, asked)
    run = journal.state.run
    if run is None:
        return
    if run.open_children():
        await loop.spawned.recover()
    for called in list(run.side_calls.values()):
        if called.id not in journal.side_calls:
            record_failure(journal, called, ModelFailure(INTERRUPTED))
    if run.step is not None and not run.step.ended:
        await _recover_step(loop, run, run.step)


async def _recover_step(loop: Loop, run: RunState, step: StepState) -> None:
    journal, children = loop.journal, loop.session.children
    for child in run.open_children() if children else ():
        assert children is not None
        loop.budget.count(child, (await children.status(child)).used)
    called = step.model_call
    if called is not None and step.message is None and step.failure is None:
        delay = retry_delay(INTERRUPTED, step.tries, journal.world.random)
        if step.usage_known:
            journal.record(events.ModelFailed(called.id, INTERRUPTED, called.attempt, delay))
        else:
            record_failure(journal, called, ModelFailure(INTERRUPTED, UNKNOWN_USAGE), delay)
    imported = [call for call in step.open_calls() if call.must_be_judged]
    if imported and run.waiting and not run.is_paused:
        journal.record(events.RunResumed())
    for call in imported:
        if call.began_elsewhere:
            withdraw_imported(journal, call)
            await _close_call(loop.tool_runner, journal, call)
    for call in step.open_calls():
        if call.started is None or call.is_waiting or call.answered:
            continue
        tool = loop.session.harness.tools.get(call.called.name)
        if tool is None or (tool.spec.idempotent == "no" and not tool.spec.reattaches):
            await _close_call(loop.tool_runner, journal, call)


async def _close_call(tool_runner: ToolRunner, journal: Journal, call: CallState) -> None:
    """Gives a call that had started a result with the end of its output."""
    blob = await journal.store.blob(journal.session, call_context.blob_of_call(call.called.call))
    tail = ""
    if blob is not None:
        start = max(0, blob.size - TAIL_SIZE)
        tail = (await journal.store.read_blob(journal.session, blob.id, start)).decode(errors="replace")
    await tool_runner.record_result(
        call, call_context.cut_short(UNKNOWN_EFFECT, tail, "tool_interrupted"), blob
    )


async def close_run(loop: Loop, status: events.RunStatus, reason: str) -> events.RunEnded | None:
    """Ends the open run where it is: open calls get their result first."""
    await recover(loop)
    run = loop.journal.state.run
    if run is None:
        return None
    await loop.close_step(run, reason)
    await loop.end_run(run, events.RunEnded(status, reason, request=loop.cancel.request))
    await loop.journal.commit()
    return loop.ended


async def close_interrupted_run(journal: Journal) -> None:
    """Ends the run of another vendor's agent whose process is gone: no loop drives such a run."""
    run, last_ms = journal.state.run, journal.state.last_time_ms
    for question in tuple(journal.state.questions):
        journal.record(events.QuestionAnswered(question, "withdrawn"))
    if run is None:
        await journal.commit()  # what it asked between two runs
        return
    if run.waiting is not None:
        journal.record(events.RunResumed())
    facts = await journal.store.read(journal.session, run.first_seq - 1)
    calls = [fact.event for fact in facts if isinstance(fact.event, events.ToolCalled)]
    results = [fact.event for fact in facts if isinstance(fact.event, events.ToolResultFact)]
    closed = {result.call for result in results}
    for call in calls:
        if call.call not in closed:
            content = (Text(UNKNOWN_EFFECT),)
            journal.record(events.ToolResultFact(call.call, call.name, content, "tool_interrupted"))
    own = events.Totals(
        tool_calls=len(calls),
        refused_calls=sum(result.failed == "call_refused" for result in results),
        usage=run.usage,
        duration_ms=max(0, last_ms - run.time_ms),
    )
    journal.record(events.RunEnded("interrupted", PROCESS_ENDED, own=own, cumulative=journal.state.usage))
    await journal.commit()


def close_interrupted_calls(journal: Journal, facts: Sequence[Fact]) -> None:
    """Records the failure of model calls between runs that a dead process left open."""
    open_calls: dict[str, events.ModelCalled] = {}
    for fact in facts:
        match fact.event:
            case events.ModelCalled(id=call, purpose="summary" | "extension" | "aside") as called:
                open_calls[call] = called
            case events.UsageReported(call=call):
                open_calls.pop(call, None)
    for call, called in open_calls.items():
        if call not in journal.side_calls:
            record_failure(journal, called, ModelFailure(INTERRUPTED))
