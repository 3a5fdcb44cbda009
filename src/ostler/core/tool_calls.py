"""Tool calls: each call of the model gets exactly one result."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from ostler.core.budget import Budget
from ostler.core.call_context import CallContext, OutputSpool, bounded, cut_short, replace_surrogates
from ostler.core.call_gate import ApprovedCall, CallGate, not_repeated
from ostler.core.cancellation import CancelToken, run_with_timeout
from ostler.core.children import ChildResult, ChildWaits, child_session, record_child_end
from ostler.core.harness import OpenSession
from ostler.core.hooks import FinishedCall, HookScope
from ostler.core.questions import NOBODY_TO_ASK, Asker, withdraw_question
from ostler.core.run_state import CallState, StepState
from ostler.core.secrets import mask
from ostler.core.tool import Tool, as_outcome, default_summary
from ostler.schema import events
from ostler.schema.errors import CallRefused, InvalidArguments, StoreError, ToolError, describe_error
from ostler.schema.facts import storage_problem
from ostler.schema.messages import BlobRef, Text
from ostler.schema.outcomes import Failed, FinalOutcome, NeedUser, Outcome, Pending, failed

ApprovedCalls = list[tuple[CallState, ApprovedCall]]
AskingCalls = list[tuple[CallState, events.QuestionAsked]]


class ToolRunner:
    """Runs the tool calls of a step."""

    def __init__(self, session: OpenSession, cancel: CancelToken, scope: HookScope, budget: Budget) -> None:
        self._session = session
        self._journal = session.journal
        self._harness = session.harness
        self._questions = session.questions
        self._cancel = cancel
        self._scope = scope
        self._budget = budget
        self._gate = CallGate(session, scope)
        self._tokens: dict[str, CancelToken] = {}
        self._moved: set[str] = set()
        """Calls whose children waited and can continue now."""
        self._turns: dict[str, asyncio.Lock] = {}
        self._cancel.on_cancel(self._cancel_all)

    async def run(self, step: StepState) -> None:
        """Runs each call until it has a result, or waits for a request."""
        while not self._cancel.cancelled:
            if step.ends_run:
                for call in step.open_calls():
                    await self.close_unrun(call, f"Not run: {step.ends_run} ended the run.")
            if not (group := self._next_group(step)):
                return
            await self._run_group(step, group)

    def cancel_call(self, call: str) -> bool:
        """Stops one running call; False if it is not running."""
        token = self._tokens.get(call)
        if token is None:
            return False
        token.cancel("the call was cancelled")
        return True

    def _next_group(self, step: StepState) -> list[CallState]:
        """The first call that can run, and those after it that may run in parallel."""
        movable = [
            call for call in step.open_calls() if not call.is_waiting or call.called.call in self._moved
        ]
        group = movable[:1]
        for call in movable[1:]:
            if not self._is_parallel(group[-1]) or not self._is_parallel(call):
                break
            group.append(call)
        return group

    def _is_parallel(self, call: CallState) -> bool:
        tool = self._harness.tools.get(call.called.name)
        return tool is not None and tool.spec.parallel

    async def _run_group(self, step: StepState, group: list[CallState]) -> None:
        """Checks the calls in order, commits the start of those that may run, and runs them in parallel."""
        if "before_tool" in self._harness.hooks:
            await self._journal.commit()  # a hook may be slow: publish the facts so far first
        decisions = [(call, await self._gate.check(call, step)) for call in group]
        running: ApprovedCalls = []
        repeats: ApprovedCalls = []
        asking: AskingCalls = []
        for call, decision in decisions:
            if isinstance(decision, ApprovedCall):
                if any(decision.key and decision.key == other.key for _, other in running):
                    repeats.append((call, decision))
                elif await self._record_start(call, decision):
                    running.append((call, decision))
            elif isinstance(decision, events.QuestionAsked):
                self._journal.record(decision)
                if self._harness.asker is not None:
                    self._questions.expect(decision)
                asking.append((call, decision))
            else:
                await self.record_result(call, decision, commit=False)
        if not running and not asking:
            return  # only refusals: they are committed with what follows
        await self._journal.commit()
        if len(running) == 1 and not asking and not repeats:
            await self._execute(*running[0], step)
            return
        await self._run_parallel(step, running, repeats, asking)

    async def _run_parallel(
        self, step: StepState, running: ApprovedCalls, repeats: ApprovedCalls, asking: AskingCalls
    ) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for call, ready in running:
                    turn = self._turn_of(ready.key)
                    await turn.acquire()  # before its repeats, whichever task starts first
                    tasks.create_task(self._execute_and_release(call, ready, step, turn))
                for call, ready in repeats:
                    tasks.create_task(self._begin_and_execute(call, ready, step))
                if self._harness.asker is not None:
                    for call, asked in asking:
                        tasks.create_task(self._ask_then_execute(call, asked, step))
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None  # a store's error: an error of a tool is a result

    async def _record_start(self, call: CallState, ready: ApprovedCall) -> bool:
        """Records the start of a call; False if it reuses the result of an earlier one."""
        if ready.key and ready.key in self._journal.state.reusable:
            await self._reuse_result(call, ready.key)
            return False
        called, spec = call.called, ready.tool.spec
        self._moved.discard(called.call)
        started = events.ToolStarted(
            call=called.call,
            name=spec.name,
            attempt=call.started.attempt + 1 if call.started else 1,
            arguments=None if ready.arguments == called.arguments else ready.arguments,
            key=ready.key,
            child=child_session(self._journal.session, called.call, 1) if spec.reattaches else "",
            allowed_by=ready.allowed_by,
            confined=ready.confined,
        )
        self._journal.record(started)
        return True

    async def _reuse_result(self, call: CallState, key: str) -> None:
        """Records the earlier result of the same call of an idempotent tool."""
        earlier = self._journal.state.reusable[key]
        (fact,) = await self._journal.store.read(self._journal.session, earlier - 1, 1)
        assert isinstance(fact.event, events.ToolResultFact)
        changes = {"call": call.called.call, "key": key, "repeats": earlier, "duration_ms": 0}
        self._journal.record(msgspec.structs.replace(fact.event, **changes))
        if self._is_any_open():
            await self._journal.commit()

    def _is_any_open(self) -> bool:
        run = self._journal.state.run
        return bool(run and run.step and run.step.open_calls())

    async def _ask_then_execute(self, call: CallState, asked: events.QuestionAsked, step: StepState) -> None:
        assert self._harness.asker is not None
        token = self._token(call)
        answer = await self._answer(asked, self._harness.asker, token)
        if answer is None or token.cancelled:
            await self.record_result(call, _cancelled(token.reason))
            return
        decision = self._gate.resume(call, self._harness.tools[call.called.name], asked, answer)
        if isinstance(decision, ApprovedCall):
            await self._begin_and_execute(call, decision, step)
        else:
            await self.record_result(call, decision)

    async def _execute_and_release(
        self, call: CallState, ready: ApprovedCall, step: StepState, turn: asyncio.Lock
    ) -> None:
        try:
            await self._execute(call, ready, step)
        finally:
            turn.release()

    async def _begin_and_execute(self, call: CallState, ready: ApprovedCall, step: StepState) -> None:
        """Runs a call after any running one with the same key, whose result it may reuse."""
        async with self._turn_of(ready.key):
            if not self._cancel.cancelled and await self._record_start(call, ready):
                await self._journal.commit()
                await self._execute(call, ready, step)

    def _turn_of(self, key: str) -> asyncio.Lock:
        """Calls with the same key run one after the other."""
        return self._turns.setdefault(key, asyncio.Lock()) if key else asyncio.Lock()

    async def _answer(
        self, asked: events.QuestionAsked, asker: Asker, token: CancelToken
    ) -> events.QuestionAnswered | None:
        """The answer, or None if the call was cancelled first. Closes the question either way."""
        answering = self._questions.ask(asked, asker, self._journal)
        status, task = await run_with_timeout(answering, token, None)
        if status == "done":
            return task.result()
        withdraw_question(self._journal, asked)
        return None

    async def _execute(self, call: CallState, ready: ApprovedCall, step: StepState) -> None:
        """Runs the tool, and records one outcome whatever it does."""
        called, token, now_ms = call.called, self._token(call), self._journal.world.now_ms
        spool = OutputSpool(self._journal, called.call)
        context = CallContext(self._session, self._budget, call, step.number, spool, token)
        context.answer, context.state, context.confined = ready.answer, ready.state, ready.confined
        context.judged = Path(ready.path) if ready.path else None
        start, timeout = now_ms(), ready.tool.spec.timeout
        running = _outcome_of(ready.tool, ready, context)
        span = self._harness.start_span("tool_call", tool=called.name, call=called.call, step=step.number)
        try:
            with span:
                status, task = await run_with_timeout(running, token, timeout, context.stopwatch)
        except asyncio.CancelledError:
            await spool.close(sent=0)  # before the end of the run records a result with this output
            raise
        outcome: Outcome
        if status == "cancelled":
            outcome = _cancelled(token.reason, spool.tail)
        elif status == "timed_out":
            text = f"{called.name} took longer than {timeout:g} s and was stopped"
            outcome = cut_short(text, spool.tail, "tool_timed_out")
        else:
            outcome = _cancelled("the tool gave up") if task.cancelled() else task.result()
        await self._record_outcome(call, outcome, spool, max(0, now_ms() - start))
        self._tokens.pop(called.call, None)

    async def _record_outcome(
        self, call: CallState, outcome: Outcome, spool: OutputSpool, duration: int
    ) -> None:
        if isinstance(outcome, NeedUser):
            await spool.close(sent=0 if outcome.otherwise else spool.size)
            await self._need_user(call, outcome, duration)
        elif isinstance(outcome, Pending):
            await spool.close(sent=spool.size)
            deferred = events.ToolDeferred(call.called.call, outcome.handle, outcome.note)
            if problem := storage_problem(deferred):
                await self.record_result(call, _unstorable(problem))
                return
            self._journal.record(deferred)
            await self._journal.commit()
        else:
            sent = sum(len(block.text) for block in outcome.content if isinstance(block, Text))
            await self.record_result(call, outcome, await spool.close(sent), duration)

    async def _need_user(self, call: CallState, outcome: NeedUser, duration: int) -> None:
        asker = self._harness.asker
        otherwise = msgspec.to_builtins(_storable(outcome.otherwise)) if outcome.otherwise else None
        if asker is None and not self._harness.wait_for_answers:
            refusal: FinalOutcome = failed(NOBODY_TO_ASK, kind="call_refused")
            if otherwise:
                refusal = not_repeated(otherwise, "there is nobody to ask")
            await self.record_result(call, refusal, None, duration)
            return
        asked = events.QuestionAsked(
            id=self._journal.world.new_id("q"),
            question=outcome.question,
            call=call.called.call,
            asked_by="permission" if otherwise else "tool",
            state={"arguments": call.arguments, "otherwise": otherwise} if otherwise else outcome.state,
            resume=outcome.resume,
        )
        if problem := storage_problem(asked):
            await self.record_result(call, _unstorable(problem), None, duration)
            return
        self._journal.record(asked)
        if asker is None:
            await self._journal.commit()
            return
        self._questions.expect(asked)
        await self._journal.commit()
        token = self._token(call)
        answer = await self._answer(asked, asker, token)
        if answer is None:
            await self.record_result(call, _cancelled(token.reason), None, duration)
            return
        call.answered = answer  # the log has no secrets, and the tool needs it
        await self._journal.commit()

    async def record_result(
        self,
        call: CallState,
        outcome: FinalOutcome,
        output: BlobRef | None = None,
        duration: int = 0,
        *,
        commit: bool = True,
        settles: str = "",
    ) -> None:
        """Records the result. The last of a step is committed together with the end of the step."""
        called, session = call.called, self._journal.session
        run = self._journal.state.run
        if run is not None and run.children:
            await self._end_children(called.call)
        outcome = _storable(outcome)
        limits = self._harness.result_limits
        content, whole = await bounded(outcome.content, limits, self._journal.store, session, called.call)
        failure = outcome.kind if isinstance(outcome, Failed) else None
        finished = FinishedCall(called.call, called.name, call.arguments, content, failure, outcome.details)
        if "after_tool" in self._harness.hooks:
            if instructions := self._journal.state.builder.instructions:
                finished = msgspec.structs.replace(finished, instructions=instructions)
            finished = await self._harness.hooks.after_tool(finished, self._scope)
        result = events.ToolResultFact(
            call=called.call,
            name=called.name,
            content=finished.content,
            failed=finished.failed,
            details=finished.details,
            summary=outcome.summary or default_summary(finished.content),
            output=whole or output,
            duration_ms=duration,
            key=call.started.key if call.started else "",
            ends_run=outcome.ends_run,
        )
        run = self._journal.state.run
        if run is None or not call.is_open:
            return  # the run ended while a hook worked on the result
        if settles and run.waiting and run.waiting.reason != "paused":
            self._journal.record(events.RunResumed(settles))
        self._journal.record(result, settles=settles)
        if commit and self._is_any_open():
            await self._journal.commit()

    def _token(self, call: CallState) -> CancelToken:
        """The token of one call; it fires with the run's."""
        token = self._tokens.setdefault(call.called.call, CancelToken())
        if self._cancel.cancelled:
            token.cancel(self._cancel.reason)
        return token

    def _cancel_all(self) -> None:
        for token in list(self._tokens.values()):
            token.cancel(self._cancel.reason)

    async def find_moved(self, step: StepState) -> bool:
        """Whether a call can continue because its child no longer waits."""
        children, run = self._session.children, self._journal.state.run
        if children is None or run is None:
            return False
        self._moved.clear()
        for call in step.open_calls():
            tool = self._harness.tools.get(call.called.name)
            if not call.deferred or tool is None or not tool.spec.reattaches:
                continue
            statuses = [await children.status(child) for child in run.children_of(call.called.call)]
            if not any(status.waits for status in statuses):
                self._moved.add(call.called.call)
        return bool(self._moved)

    async def _end_children(self, call: str) -> None:
        """Ends the children of a call: none outlives its result."""
        run, children = self._journal.state.run, self._session.children
        for child in run.children_of(call) if run else ():
            if run and run.children[child].ended is None:
                reason = "its call has ended"
                ended = await children.end(child, reason, self._harness) if children else None
                ended = ended or ChildResult(child, "", "cancelled", reason=reason)
                record_child_end(self._journal, self._budget, ended)

    async def close_unrun(self, call: CallState, reason: str) -> None:
        """Records the result of a call that will never run."""
        if call.is_asking and call.question:
            withdraw_question(self._journal, call.question)
        await self.record_result(call, failed(reason, kind="tool_cancelled"), commit=False)


async def _outcome_of(tool: Tool, ready: ApprovedCall, context: CallContext) -> Outcome:
    """Runs the tool and turns what it returns or raises into an outcome."""
    try:
        return as_outcome(await tool.run(ready.validated, context))
    except StoreError:
        raise  # the log cannot be written, which is no failure of the tool
    except ChildWaits as waits:
        if not tool.spec.reattaches:
            return failed(f"The child waits for an answer, and {tool.spec.name} cannot continue it later.")
        return Pending(waits.child, "the child waits for an answer")
    except CallRefused as error:
        return failed(error.message, kind="call_refused")
    except InvalidArguments as error:
        return failed(error.message, kind="invalid_arguments")
    except ToolError as error:
        return failed(error.message)
    except (Exception, SystemExit, GeneratorExit, KeyboardInterrupt) as error:
        for listener in context.harness.listeners:
            listener.on_tool_error(context.session, tool, error)
        return failed(_crash(error))


def _crash(error: BaseException) -> str:
    """The text for the model. Some of these errors would end the event loop."""
    if isinstance(error, SystemExit):
        return f"the tool crashed: it tried to exit the process ({error.code})"
    if isinstance(error, GeneratorExit | KeyboardInterrupt):
        return f"the tool crashed: it raised {type(error).__name__}"
    return describe_error(error)


def _storable(outcome: FinalOutcome) -> FinalOutcome:
    """The outcome, or a failure if it cannot be stored. Lone surrogates are replaced."""
    if not isinstance(outcome.content, tuple):
        return _unstorable("its content is not a tuple of blocks")
    content = list(outcome.content)
    for index, block in enumerate(content):
        if isinstance(block, Text) and isinstance(block.text, str):
            content[index] = Text(mask(replace_surrogates(block.text)))
    outcome = msgspec.structs.replace(outcome, content=tuple(content))
    return _unstorable(problem) if (problem := storage_problem(outcome)) else outcome


def _unstorable(problem: str) -> Failed:
    return failed(f"the tool returned something that cannot be stored: {replace_surrogates(problem)}")


def _cancelled(reason: str, output: str = "") -> Failed:
    why = f": {reason}" if reason not in ("", "cancelled") else ""
    return cut_short(f"Cancelled{why}.", output, "tool_cancelled")
