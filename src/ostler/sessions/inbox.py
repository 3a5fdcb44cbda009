"""Taking up requests: each becomes facts that carry its id, or a refusal."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import TYPE_CHECKING

import msgspec

from ostler.core.cancellation import CancelToken
from ostler.core.context import CompactionRequest, context_input
from ostler.core.harness import Harness, OpenSession, SessionListener
from ostler.core.journal import Journal
from ostler.core.questions import answer_problem, as_stored, run_of
from ostler.core.run_state import RunState
from ostler.schema import events
from ostler.schema.errors import NotFound, OstlerError, StoreError
from ostler.schema.requests import (
    Answer,
    AnyRequest,
    Cancel,
    CollapseBranch,
    Compact,
    Continue,
    FinishCall,
    Fork,
    Keys,
    Label,
    Navigate,
    Pause,
    Prompt,
    ReleasePrompts,
    Rename,
    Resize,
    Resume,
    RevokePermission,
    RunCommand,
    SetModel,
    Steer,
    TakeBack,
    UndoCompaction,
)
from ostler.sessions import branches
from ostler.sessions.lease import renew_lease

if TYPE_CHECKING:
    from ostler.core.loop import Loop


SECRET_NEEDS_ITS_CALL = (
    "a secret is not put into the inbox, which is a file: it must be answered where the run is driven"
)


TAKEN_BACK = "the prompt was taken back before its turn"


NOBODY_WAITS = "whoever asked that has ended: nobody waits for the answer any more"


class InboxReader:
    """Reads one session's inbox for its lease holder. It is also where the loop finds its steering.

    With an open run it is given the loop that drives it; without one, only requests that need no run
    are taken up, and the rest is refused.
    """

    def __init__(
        self,
        journal: Journal,
        harness: Harness,
        loop: Loop | None = None,
        cancel: CancelToken | None = None,
        session: OpenSession | None = None,
    ) -> None:
        self._journal = journal
        self._harness = harness
        self._loop = loop
        self._cancel = cancel
        self._session = session
        self._questions = session.questions if session else None
        self._commands: set[asyncio.Future[None]] = set()
        self._steers: list[Steer] = []
        self._seen: set[str] = set()

    def take(self) -> list[Steer]:
        steers, self._steers = self._steers, []
        return steers

    def withdraw(self, request: str) -> bool:
        """Keeps a steer from the loop, for whoever has thought again; False if the loop has taken it."""
        kept = [steer for steer in self._steers if steer.id != request]
        is_here = len(kept) < len(self._steers) or request not in self._seen
        self._steers = kept
        self._seen.add(request)
        return is_here

    async def read(self, *, is_cut: bool = False) -> None:
        """Takes up what is there. Prompts wait their turn: the session starts them one by one.

        When a run that was cut is about to go on, `resume` has asked for that.
        """
        for request in await self._journal.store.pending(self._journal.session):
            if request.id not in self._seen and not isinstance(request, Prompt | Continue):
                self._seen.add(request.id)
                await self.handle(request, is_cut=is_cut)

    async def follow(self) -> None:
        """Takes up requests as they arrive, until it is cancelled."""
        seen = -1
        try:
            while True:
                seen = await self._journal.store.arrivals(self._journal.session, seen)
                await self.read()
        except StoreError as error:
            self._journal.fail(error)

    async def handle(self, request: AnyRequest, *, is_cut: bool = False) -> None:
        """Makes facts of one request, or of its refusal."""
        journal, run = self._journal, self._journal.state.run
        if request.id in journal.handed_over and isinstance(request, Answer):
            request = msgspec.structs.replace(request, answer=journal.handed_over[request.id])
        match request:
            case Steer() if run and self._loop:
                self._steers.append(request)
                return
            case Cancel(call="") if run and self._cancel:
                self._cancel.cancel(f"cancelled by {request.by}" if request.by else "cancelled", request.id)
                return
            case Cancel(call=call) if call and self._loop and self._loop.calls.cancel_call(call):
                journal.record(_cancelled(request), settles=request.id)
            case Pause() if run and run.waiting and run.waiting.reason != "paused":
                paused = events.RunWaiting("paused", run.waiting.questions, run.waiting.calls, request.id)
                journal.record(events.RunResumed(request.id))
                journal.record(paused, settles=request.id)
            case Pause() if run and self._loop and not run.waiting:
                self._loop.pause(request.id)
                return  # recorded by the loop, before its next step
            case Resume() if run and run.is_paused:
                journal.record(events.RunResumed(request.id), settles=request.id)
            case Resume() if is_cut:
                about = {"actor": "user", "who": request.by}
                resumed = events.Audited("run.resume", "it was cut, and somebody let it go on", about)
                journal.record(resumed, settles=request.id)
            case Answer() if self._questions and not self._questions.take(request.id):
                return
            case Answer(question=question) if (asked := journal.state.questions.get(question)) and (
                problem := "" if request.declined else answer_problem(asked.question, request.answer)
            ):
                journal.record(events.RequestRefused(request.id, problem), settles=request.id)
            case Answer(question=question) if self._questions and self._questions.expects(question):
                if self._questions.deliver(outcome_of(request)):
                    return  # recorded by the call that asked
                refused = events.RequestRefused(request.id, self._reason_against(request))
                journal.record(refused, settles=request.id)
            case Answer(question=question) if (
                question in journal.state.questions and not journal.state.questions[question].durable
            ):
                # We hold the session, and nobody here has asked it: whoever waited for the answer is gone.
                asked = journal.state.questions[question]
                journal.record(events.QuestionAnswered(question, "withdrawn"), run=run_of(asked))
                refused = events.RequestRefused(request.id, NOBODY_WAITS)
                journal.record(refused, settles=request.id)
            case Answer(question=question) if question in journal.state.questions:
                asked = journal.state.questions[question]
                stopped = run.step.calls.get(asked.call) if run and run.step else None
                is_told = stopped is not None and request.id in journal.handed_over
                if asked.question.secret and not request.declined and not is_told:
                    refused = events.RequestRefused(request.id, SECRET_NEEDS_ITS_CALL)
                    journal.record(refused, settles=request.id)
                    await journal.commit()
                    return
                answered = as_stored(asked, outcome_of(request))
                journal.record(answered, run=run_of(asked), settles=request.id)
                if stopped is not None and asked.question.secret:
                    stopped.answered = outcome_of(request)
                self._resume(run, request)
            case FinishCall() if run and self._loop and self._is_pending(run, request.call):
                assert run.step is not None
                await self._loop.calls.finish(run.step.calls[request.call], request.outcome, request.id)
            case FinishCall() if run and self._is_pending(run, request.call):
                return  # left for whoever drives the run on
            case SetModel():
                self._set_model(request)
            case Rename() | Label() | Navigate():
                await branches.handle_tree_request(journal, request)
                return
            case Compact() if self._harness.context and run and self._loop and not run.waiting:
                self._loop.compaction = CompactionRequest("user", request.instructions, request.id)
                return  # recorded by the loop, before its next call
            case Compact() if self._harness.context and not run:
                await self._compact(request)
                return
            case UndoCompaction() if not run:
                await branches.undo_compaction(journal, request)
                return
            case RunCommand() if self._questions and not self._questions.take(request.id):
                return  # it runs beside the run, and may outlive it
            case RunCommand() if self._session and (attendant := self._harness.attendant):
                running = asyncio.ensure_future(self._run_command(attendant, request))
                if self._loop is None:
                    async with renew_lease(journal):
                        await running
                    return
                self._commands.add(running)  # a command may ask people, and their answers are read here
                running.add_done_callback(self._commands.discard)
                return
            case Fork():
                await branches.fork_here(journal, self._harness, request)
                return
            case CollapseBranch():
                from ostler.sessions.branches import collapse

                await collapse(journal, self._harness, request)
                return
            case TakeBack():
                await self._take_back(request)
                return
            case RevokePermission(rule=rule) if rule in journal.state.permissions:
                revoked = events.PermissionRemembered(
                    rule, "revoked", "session", journal.session, request.by, request.id
                )
                journal.record(revoked, settles=request.id)
            case ReleasePrompts() if run and self._cancel and self._cancel.cancelled:
                return  # taken up when the run has ended, which holds the prompts once more
            case ReleasePrompts(drop=drop):
                dropped = await self._prompts_before(request) if drop else []
                journal.record(events.PromptsReleased(request.id), settles=request.id)
                for waiting in dropped:
                    refused = events.RequestRefused(waiting.id, "a prompt was dropped before its turn")
                    journal.record(refused, settles=waiting.id)
            case _:
                refused = events.RequestRefused(request.id, self._reason_against(request))
                journal.record(refused, settles=request.id)
        await journal.commit()

    async def _run_command(self, attendant: SessionListener, request: RunCommand) -> None:
        """What an extension's command says, or why it failed, becomes a fact."""
        assert self._session is not None
        failed = False
        try:
            text = await attendant.run_command(self._session, request.name, request.arguments)
        except NotFound as error:
            refused = events.RequestRefused(request.id, error.message)
            self._journal.record(refused, settles=request.id)
            await self._journal.commit()
            return
        except OstlerError as error:
            text, failed = error.message, True
        ran = events.CommandRan(request.name, request.arguments, text, failed, request=request.id)
        self._journal.record(ran, settles=request.id)
        await self._journal.commit()

    async def _compact(self, request: Compact) -> None:
        """Between two runs it is done at once."""
        journal, harness = self._journal, self._harness
        assert harness.context is not None
        offers = harness.tool_offers(tuple(sorted(harness.tools)))
        told = context_input(journal, harness, harness.model, offers)
        async with renew_lease(journal):
            order = CompactionRequest("user", request.instructions, request.id)
            problem = await harness.context.compact(journal, harness, told, order)
        if problem:
            journal.record(events.RequestRefused(request.id, problem), settles=request.id)
            await journal.commit()

    def _set_model(self, request: SetModel) -> None:
        """Swaps the model from the next step on; one that cannot be made is refused with the reason."""
        try:
            self._harness.set_model(request.model, request.reasoning)
        except OstlerError as error:
            self._journal.record(events.RequestRefused(request.id, error.message), settles=request.id)
            return
        changed = events.SettingsChanged(
            model=self._harness.model.name, reasoning=request.reasoning, by=request.by, request=request.id
        )
        self._journal.record(changed, settles=request.id)

    def _resume(self, run: RunState | None, request: AnyRequest) -> None:
        if run and run.waiting and run.waiting.reason != "paused":
            self._journal.record(events.RunResumed(request.id))

    def _is_pending(self, run: RunState, call: str) -> bool:
        found = run.step.calls.get(call) if run.step else None
        return found is not None and found.is_open and found.deferred

    async def _prompts_before(self, request: AnyRequest) -> list[AnyRequest]:
        """Without the one whose run has just begun, once that is committed."""
        await self._journal.commit()
        pending = await self._journal.store.pending(self._journal.session)
        earlier = takewhile(lambda waiting: waiting.id != request.id, pending)
        return [waiting for waiting in earlier if isinstance(waiting, Prompt | Continue)]

    async def _take_back(self, request: TakeBack) -> None:
        """Also settled is what it takes back: its refusal says why nothing came of it."""
        journal = self._journal
        await journal.commit()  # a prompt whose run has just begun is in the inbox no more
        pending = {one.id: one for one in await journal.store.pending(journal.session)}
        match pending.get(request.request):
            case Prompt() | Continue():
                can_be = True
            case Steer(id=steer):
                can_be = self.withdraw(steer)
            case _:
                can_be = False
        if can_be:
            refused = events.RequestRefused(request.request, TAKEN_BACK)
            journal.record(refused, settles=request.request)
            about = {"request": request.request, "actor": "user", "who": request.by}
            taken = events.Audited("request.take_back", "somebody asked for it", about)
            journal.record(taken, settles=request.id)
        else:
            refused = events.RequestRefused(request.id, self._reason_against(request))
            journal.record(refused, settles=request.id)
        await journal.commit()

    def _reason_against(self, request: AnyRequest) -> str:
        match request:
            case TakeBack(request=wanted):
                return f"no prompt and no steer {wanted} waits: it was taken up, or was never there"
            case Answer(question=question):
                return f"the question {question} is not open"
            case RevokePermission(rule=rule):
                return f"the rule {rule} is not remembered in this session"
            case FinishCall(call=call):
                return f"the call {call} is not pending"
            case Cancel(call=call) if call:
                return f"the call {call} is not running"
            case RunCommand(name=name):
                return f"there is no command {name!r} here: no extension is loaded"
            case Keys() | Resize():
                return "no terminal agent is at work in this session"
            case Compact() if self._journal.state.run:
                return "the run waits: answer it, resume it or cancel it first"
            case Compact():
                return "this session tells everything: nothing is compacted"
            case UndoCompaction():
                return "a compaction cannot be undone while a run is open"
            case Resume():
                return "no run is paused"
            case Pause() if (run := self._journal.state.run) is not None:
                return "the run is paused already" if run.waiting else "nobody works on the run"
            case Cancel() | Steer() | Pause():
                return "no run is open"
        return f"{type(request).__name__} requests cannot be taken up by this version"


def outcome_of(request: Answer) -> events.QuestionAnswered:
    return events.QuestionAnswered(
        request.question,
        "declined" if request.declined else "answered",
        request.answer,
        request.by,
        request.id,
    )


def _cancelled(request: Cancel) -> events.Audited:
    about = {"call": request.call, "actor": "user", "who": request.by}
    return events.Audited("tool.cancel", "somebody asked for it", about)
