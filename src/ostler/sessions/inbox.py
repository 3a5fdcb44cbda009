"""The inbox: each request becomes facts that carry its id, or a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ostler.core.context import CompactionRequest, context_input
from ostler.core.harness import OpenSession
from ostler.core.lazy import lazy_module
from ostler.core.questions import answer_problem, record_answer, withdraw_question
from ostler.schema import events, requests
from ostler.schema.errors import NotFound, OstlerError, StoreError
from ostler.schema.requests import AnyRequest
from ostler.sessions.lease import renew_lease

if TYPE_CHECKING:
    from ostler.core.loop import Loop
    from ostler.sessions import branches
else:
    branches = lazy_module("ostler.sessions.branches")


SECRET_NEEDS_ITS_CALL = (
    "a secret is not put into the inbox, which is a file: it must be answered where the run is driven"
)
TAKEN_BACK = "the prompt was taken back before its turn"
ASKER_GONE = "the code that asked this has ended: nothing waits for the answer any more"
NO_RUN = "no run is open"

Reply = events.Event | str | None
"""What a handler returns: the fact to record, the reason why it refuses, or None if it records the facts
itself, or the loop or a command will."""


class InboxReader:
    """Reads a session's inbox for the process that holds its lease. While a run is driven, `reset` gives it
    the run's loop. Without one it handles only requests that need no run, and refuses the others."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._journal = session.journal
        self._loop: Loop | None = None
        self._commands: set[asyncio.Future[None]] = set()
        self._seen: set[str] = set()
        """Requests that the loop has or had: they stay in the inbox until a fact settles them."""

    def reset(self, loop: Loop | None = None) -> None:
        """Starts over for a run, or without one: requests that came too late for a run are read again."""
        self._loop = loop
        self._seen = set()

    def withdraw(self, request: str) -> bool:
        """Withdraws a steer; False if the model has it already."""
        steers = self._loop.steers if self._loop else []
        is_waiting = any(steer.id == request for steer in steers) or request not in self._seen
        steers[:] = [steer for steer in steers if steer.id != request]
        self._seen.add(request)
        return is_waiting

    async def read(self, *, is_cut: bool = False) -> None:
        """Handles the requests in the inbox, except prompts: the session starts those one by one. `is_cut`:
        an interrupted run is about to continue, perhaps because of a `resume`."""
        if self._loop is None:
            self._seen = set()
        for request in await self._journal.store.pending(self._journal.session):
            if request.id not in self._seen and not isinstance(request, requests.Prompt | requests.Continue):
                self._seen.add(request.id)
                await self.handle(request, is_cut=is_cut)

    async def follow(self) -> None:
        """Handles requests as they arrive, until it is cancelled."""
        arrivals = -1
        try:
            while True:
                arrivals = await self._journal.store.arrivals(self._journal.session, arrivals)
                await self.read()
        except StoreError as error:
            self._journal.fail(error)

    async def handle(self, request: AnyRequest, *, is_cut: bool = False) -> None:
        """Records the facts that a request asks for, or its refusal."""
        handler = _HANDLERS.get(type(request))
        if is_cut and isinstance(request, requests.Resume):
            handler = InboxReader._resume_interrupted
        reply: Reply = f"this version cannot handle {type(request).__name__} requests"
        if handler is not None:
            reply = await handler(self, request)
        if reply is not None:
            fact = events.RequestRefused(request.id, reply) if isinstance(reply, str) else reply
            self._journal.record(fact, settles=request.id)
            await self._journal.commit()

    async def _steer(self, request: requests.Steer) -> Reply:
        if self._journal.state.run is None or self._loop is None:
            return NO_RUN
        self._loop.steers.append(request)
        return None

    async def _cancel(self, request: requests.Cancel) -> Reply:
        if request.call:
            return self._cancel_call(request)
        if self._journal.state.run is None or self._loop is None:
            return NO_RUN
        reason = f"cancelled by {request.by}" if request.by else "cancelled"
        self._loop.cancel.cancel(reason, request.id)
        return None

    def _cancel_call(self, request: requests.Cancel) -> Reply:
        if self._loop is None or not self._loop.tool_runner.cancel_call(request.call):
            return f"the call {request.call} is not running"
        return _audited("tool.cancel", request.by, call=request.call)

    async def _pause(self, request: requests.Pause) -> Reply:
        run = self._journal.state.run
        if run is None:
            return NO_RUN
        if run.waiting is None:
            if self._loop is None:
                return "no process drives the run"
            self._loop.pause_request = request.id
            return None  # the loop records it before its next step
        if run.waiting.reason == "paused":
            return "the run is paused already"
        paused = events.RunWaiting("paused", run.waiting.questions, run.waiting.calls, request.id)
        self._journal.record(events.RunResumed(request.id))
        return paused

    async def _resume(self, request: requests.Resume) -> Reply:
        run = self._journal.state.run
        if run is None or not run.is_paused:
            return "no run is paused"
        return events.RunResumed(request.id)

    async def _resume_interrupted(self, request: requests.Resume) -> Reply:
        if (run := self._journal.state.run) is not None and run.is_paused:
            return await self._resume(request)
        return _audited("run.resume", request.by, "it was interrupted, and the user resumed it")

    async def _finish_call(self, request: requests.FinishCall) -> Reply:
        run = self._journal.state.run
        call = run.step.calls.get(request.call) if run and run.step else None
        if call is None or not call.is_open or not call.deferred:
            return f"the call {request.call} is not pending"
        if self._loop is None:
            return None  # left for the process that drives the run on
        await self._loop.tool_runner.record_result(call, request.outcome, settles=request.id)
        await self._journal.commit()
        return None

    async def _compact(self, request: requests.Compact) -> Reply:
        harness, run = self._session.harness, self._journal.state.run
        order = CompactionRequest("user", request.instructions, request.id)
        if harness.context is None and run is None:
            return "this session has no context policy: nothing can be compacted"
        if run is not None:
            if harness.context is None or self._loop is None or run.waiting:
                return "the run waits: answer it, resume it or cancel it first"
            self._loop.compaction = order
            return None  # the loop records it before its next call
        assert harness.context is not None
        offers = harness.tool_offers(tuple(sorted(harness.tools)))
        content = context_input(self._journal, harness, harness.model, offers)
        async with renew_lease(self._journal):
            return await harness.context.compact(self._journal, harness, content, order) or None

    async def _answer(self, request: requests.Answer) -> Reply:
        journal, questions = self._journal, self._session.questions
        if not questions.take(request.id):
            return None
        if request.id in journal.secret_answers:
            request = msgspec.structs.replace(request, answer=journal.secret_answers[request.id])
        asked = journal.state.questions.get(request.question)
        if asked and not request.declined and (problem := answer_problem(asked.question, request.answer)):
            return problem
        if questions.expects(request.question) and questions.deliver(outcome_of(request)):
            return None  # recorded by the call that asked
        if asked is None or questions.expects(request.question):
            return f"the question {request.question} is not open"
        if asked.durable:
            return await self._record_answer(request, asked)
        # We hold the lease, and nothing in this process asked: the code that waited for the answer is gone.
        withdraw_question(journal, asked)
        return ASKER_GONE

    async def _record_answer(self, request: requests.Answer, asked: events.QuestionAsked) -> Reply:
        journal, run = self._journal, self._journal.state.run
        call = run.step.calls.get(asked.call) if run and run.step else None
        has_secret = call is not None and request.id in journal.secret_answers
        if asked.question.secret and not request.declined and not has_secret:
            return SECRET_NEEDS_ITS_CALL
        answer = outcome_of(request)
        record_answer(journal, asked, answer)
        if call is not None and asked.question.secret:
            call.answered = answer
        if run and run.waiting and not run.is_paused:
            journal.record(events.RunResumed(request.id))
        await journal.commit()
        return None

    async def _command(self, request: requests.RunCommand) -> Reply:
        if not self._session.questions.take(request.id):
            return None  # it runs outside the run, and may outlive it
        if not self._session.harness.listeners:
            return _no_command(request)
        running = asyncio.ensure_future(self._run_command(request))
        if self._loop is None:
            async with renew_lease(self._journal):
                await running
        else:  # a command may ask the user, and the answer is read here
            self._commands.add(running)
            running.add_done_callback(self._commands.discard)
        return None

    async def _run_command(self, request: requests.RunCommand) -> None:
        """Records the output of an extension's command, or its error."""
        event: events.CommandRan | events.RequestRefused
        try:
            output = await self._command_output(request)
            event = events.CommandRan(request.name, request.arguments, output, request=request.id)
        except NotFound as error:
            event = events.RequestRefused(request.id, error.message)
        except OstlerError as error:
            text = error.message
            event = events.CommandRan(request.name, request.arguments, text, failed=True, request=request.id)
        self._journal.record(event, settles=request.id)
        await self._journal.commit()

    async def _command_output(self, request: requests.RunCommand) -> str:
        for listener in self._session.harness.listeners:
            output = await listener.run_command(self._session, request.name, request.arguments)
            if output is not None:
                return output
        raise NotFound(_no_command(request))

    async def _set_model(self, request: requests.SetModel) -> Reply:
        harness = self._session.harness
        try:
            harness.set_model(request.model, request.reasoning)
        except OstlerError as error:
            return error.message
        return events.SettingsChanged(
            model=harness.model.name, reasoning=request.reasoning, by=request.by, request=request.id
        )

    async def _tree(self, request: branches.TreeRequest) -> Reply:
        return await branches.handle_tree_request(self._journal, request)

    async def _undo_compaction(self, request: requests.UndoCompaction) -> Reply:
        return await branches.undo_compaction(self._journal, request)

    async def _fork(self, request: requests.Fork) -> Reply:
        return await branches.fork_here(self._journal, self._session.harness, request)

    async def _collapse(self, request: requests.CollapseBranch) -> Reply:
        return await branches.collapse(self._journal, self._session.harness, request)

    async def _revoke_permission(self, request: requests.RevokePermission) -> Reply:
        journal = self._journal
        if request.rule not in journal.state.permissions:
            return f"the rule {request.rule} is not remembered in this session"
        return events.PermissionRemembered(
            request.rule, "revoked", "session", journal.session, request.by, request.id, request.identity
        )

    async def _release_prompts(self, request: requests.ReleasePrompts) -> Reply:
        if self._journal.state.run and self._loop and self._loop.cancel.cancelled:
            return None  # handled when the run has ended, which holds the prompts again
        dropped = await self._prompts_before(request) if request.drop else []
        self._journal.record(events.PromptsReleased(request.id), settles=request.id)
        for prompt in dropped:
            refused = events.RequestRefused(prompt.id, "a prompt was dropped before its turn")
            self._journal.record(refused, settles=prompt.id)
        await self._journal.commit()
        return None

    async def _prompts_before(self, request: AnyRequest) -> list[AnyRequest]:
        """The prompts before a request, without the one whose run has just started."""
        await self._journal.commit()
        pending = await self._journal.store.pending(self._journal.session)
        earlier = takewhile(lambda one: one.id != request.id, pending)
        return [one for one in earlier if isinstance(one, requests.Prompt | requests.Continue)]

    async def _take_back(self, request: requests.TakeBack) -> Reply:
        """Settles both requests: the one that is taken back is refused."""
        journal, target_id = self._journal, request.request
        await journal.commit()  # then a prompt whose run has just started is no longer in the inbox
        pending = {one.id: one for one in await journal.store.pending(journal.session)}
        target = pending.get(target_id)
        is_steer = isinstance(target, requests.Steer) and self.withdraw(target_id)
        if not is_steer and not isinstance(target, requests.Prompt | requests.Continue):
            return f"there is no prompt or steer {target_id} that waits"
        journal.record(events.RequestRefused(target_id, TAKEN_BACK), settles=target_id)
        return _audited("request.take_back", request.by, request=target_id)

    async def _press(self, request: requests.Keys | requests.Resize) -> Reply:
        return "no terminal agent runs in this session"


_HANDLERS: dict[type, Callable[[InboxReader, Any], Awaitable[Reply]]] = {
    requests.Answer: InboxReader._answer,
    requests.Cancel: InboxReader._cancel,
    requests.CollapseBranch: InboxReader._collapse,
    requests.Compact: InboxReader._compact,
    requests.FinishCall: InboxReader._finish_call,
    requests.Fork: InboxReader._fork,
    requests.Keys: InboxReader._press,
    requests.Label: InboxReader._tree,
    requests.Navigate: InboxReader._tree,
    requests.Pause: InboxReader._pause,
    requests.ReleasePrompts: InboxReader._release_prompts,
    requests.Rename: InboxReader._tree,
    requests.Resize: InboxReader._press,
    requests.Resume: InboxReader._resume,
    requests.RevokePermission: InboxReader._revoke_permission,
    requests.RunCommand: InboxReader._command,
    requests.SetModel: InboxReader._set_model,
    requests.Steer: InboxReader._steer,
    requests.TakeBack: InboxReader._take_back,
    requests.UndoCompaction: InboxReader._undo_compaction,
}


def _audited(decision: str, by: str, reason: str = "the user asked for it", **about: str) -> events.Audited:
    return events.Audited(decision, reason, {**about, "actor": "user", "who": by})


def _no_command(request: requests.RunCommand) -> str:
    return f"there is no command {request.name!r} here: no extension is loaded"


def outcome_of(request: requests.Answer) -> events.QuestionAnswered:
    outcome: Literal["declined", "answered"] = "declined" if request.declined else "answered"
    return events.QuestionAnswered(
        request.question, outcome, request.answer, request.by, request.id, request.identity
    )
