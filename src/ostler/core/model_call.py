"""One model call: the request, its stream, and the facts that come of it."""
# MERGED: What has been streamed of a message so far, put together from its deltas.

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from ostler.core import context
from ostler.core.cancellation import (
    CancelToken,
    ScopeCancelled,
    SilenceTimeout,
    cancel_scope,
    is_being_cancelled,
)
from ostler.core.completion import can_fall_back, retry_delay
from ostler.core.context import BuiltContext
from ostler.core.harness import OpenSession
from ostler.core.hooks import (
    ContextDraft,
    DraftMessage,
    FailedCall,
    GiveUp,
    HookScope,
    Refuse,
    Replace,
    Retry,
    Suppress,
)
from ostler.core.journal import Journal
from ostler.core.model import Model, ModelDone, ModelEvent, ModelFailure, ModelRequest, ToolOffer
from ostler.core.run_state import StepState
from ostler.core.state import SessionState
from ostler.core.transcript import Transcript
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.events import Event, ReasoningDelta, SourceCited, TextDelta, Warned
from ostler.schema.facts import storage_problem
from ostler.schema.messages import Block, Reasoning, StopReason, Text, ToolCall
from ostler.schema.usage import UNKNOWN_USAGE, Usage


class PartialMessage:
    """The text and the reasoning of an open message, by block. Calls that are cut never were."""

    def __init__(self) -> None:
        self._text: dict[int, list[str]] = {}
        self._reasoning: dict[int, list[str]] = {}

    def take(self, batch: Sequence[ModelEvent]) -> None:
        for event in batch:
            kind = type(event)
            if kind is TextDelta:
                self._text.setdefault(event.block, []).append(event.text)  # type: ignore[union-attr]
            elif kind is ReasoningDelta:
                self._reasoning.setdefault(event.block, []).append(event.text)  # type: ignore[union-attr]

    def text(self) -> tuple[Block, ...]:
        """The text alone: what may be told to a model when the rest was cut."""
        return tuple(Text("".join(parts)) for _, parts in sorted(self._text.items()) if any(parts))

    def content(self) -> tuple[Block, ...]:
        """Text and reasoning in their order, for people."""
        blocks: dict[int, Block] = {i: Reasoning("".join(parts)) for i, parts in self._reasoning.items()}
        blocks |= {i: Text("".join(parts)) for i, parts in self._text.items()}
        return tuple(block for _, block in sorted(blocks.items()))


_ENDS = (ModelDone, ModelFailure)

_FACTS = (Warned, SourceCited)

_SHOWN_TEXT = (TextDelta, ReasoningDelta)

_decode_arguments: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class ModelCaller:
    """Asks a model for the message of a step, as often as it takes."""

    def __init__(self, session: OpenSession, cancel: CancelToken, scope: HookScope) -> None:
        self._journal = session.journal
        self._harness = session.harness
        self._cancel = cancel
        self._scope = scope
        self._patience = cancel_scope(cancel, silence=session.harness.silence_limit)

    async def attempt(
        self,
        step: StepState,
        built: BuiltContext,
        model: Model,
        tools: tuple[ToolOffer, ...],
        tool_choice: str,
    ) -> Model | Refuse:
        """One attempt. Afterwards the step has a message, or a failure that says whether to try again.

        Returns the model to use next: a hook may have chosen another one after a failure. Nothing was asked
        when a guard of what the model is told refuses.
        """
        request = await self._request(built, model, tools, tool_choice)
        if isinstance(request, Refuse):
            return request
        self._journal.record(
            events.ModelCalled(
                id=request.id,
                model=model.name,
                digest=request.digest(),
                attempt=step.attempts + 1,
                messages=len(request.transcript) + len(request.tail),
                trace=context.trace_with_prefix(self._journal, built, request),
            )
        )
        await self._journal.commit()
        draft = PartialMessage()
        held: list[Event] | None = [] if "before_message" in self._harness.hooks else None
        with self._harness.start_span("model_call", model=model.name, call=request.id, step=step.number):
            end = await self._stream(model, request, draft, held)
        if isinstance(end, ModelDone):
            end = _sound(end)
        if isinstance(end, ModelDone):
            await self._record_message(request, end, held)
            return model
        if end is None:
            await self._record_cut(request, draft, held)
            return model
        return await self._record_failure(request, end, draft, model, step, held)

    async def _request(
        self, built: BuiltContext, model: Model, tools: tuple[ToolOffer, ...], tool_choice: str
    ) -> ModelRequest | Refuse:
        harness = self._harness
        transcript, system = built.transcript, built.system
        if "context" in harness.hooks:
            draft = ContextDraft(system, tuple(transcript))
            changed = await harness.hooks.context(draft, self._scope)
            if isinstance(changed, Refuse):
                return changed
            system = changed.system
            if changed is not draft and changed.messages != draft.messages:
                transcript = Transcript(changed.messages)
        return ModelRequest(
            id=self._journal.world.new_id("msg"),
            model=model.name,
            transcript=transcript,
            system=system,
            tools=tools,
            tool_choice=tool_choice,
            reasoning=harness.reasoning,
            max_output_tokens=harness.max_output_tokens,
            session=self._journal.session,
            answer_schema=harness.answer_schema,
            tail=built.tail,
        )

    async def _stream(
        self, model: Model, request: ModelRequest, draft: PartialMessage, held: list[Event] | None
    ) -> ModelDone | ModelFailure | None:
        """The end of the stream; None when the run was cancelled. Deltas go out as they come."""
        try:
            async with (
                self._patience,
                aclosing(model.stream(request)) as stream,  # type: ignore[type-var]
            ):
                async for batch in stream:
                    self._patience.reset()
                    end = self._show(batch, draft, held)
                    if end is not None:
                        return end
                    if self._journal.has_recorded:  # a warning or a source is shown when it comes
                        await self._journal.commit()
        except ScopeCancelled:
            return None
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            text = f"the wire of {model.name} cancelled itself"
            return ModelFailure(Failure("stream_broken", text, stream_opened=True))
        except SilenceTimeout:
            limit = self._harness.silence_limit
            text = f"{model.name} sent nothing for {limit:g} s; try again, or raise silence_limit"
            return ModelFailure(Failure("stream_silent", text, stream_opened=True))
        except TimeoutError as error:
            text = f"the wire of {model.name} gave up: {error or 'time was up'}"
            return ModelFailure(Failure("stream_broken", text, stream_opened=True))
        except (Exception, SystemExit, GeneratorExit) as error:
            text = f"the wire of {model.name} failed: {type(error).__name__}: {error}"
            return ModelFailure(Failure("stream_broken", text, stream_opened=True))
        text = f"the answer of {model.name} ended before its end"
        return ModelFailure(Failure("stream_broken", text, stream_opened=True))

    def _show(
        self, batch: Sequence[ModelEvent], draft: PartialMessage, held: list[Event] | None
    ) -> ModelDone | ModelFailure | None:
        """Publishes a batch and returns its end, if it has one. Only the last event can be one."""
        if not batch:
            return None
        draft.take(batch)
        last = batch[-1]
        end = last if isinstance(last, _ENDS) else None
        if end is None and held is None and type(last) is TextDelta is type(batch[0]):
            self._journal.publish(batch)  # type: ignore[arg-type]  # the common case: nothing but text
            return None
        out: list[Event] = []
        for event in batch:
            if isinstance(event, _FACTS):
                self._journal.record(event)
            elif isinstance(event, _ENDS):
                continue
            elif held is not None and isinstance(event, _SHOWN_TEXT):
                held.append(event)
            else:
                out.append(event)
        if out:
            self._journal.publish(out)
        return end

    async def _record_message(self, request: ModelRequest, done: ModelDone, held: list[Event] | None) -> None:
        content = self._with_unique_calls(done.content)
        if done.stop_reason in ("refusal", "cancelled"):
            content = tuple(block for block in content if not isinstance(block, ToolCall))
        shown, suppressed = await self._decide_shown(request, content, done.stop_reason, held)
        self._record_usage(request, done.usage)
        self._journal.record(
            events.AssistantMessage(
                call=request.id,
                content=content,
                stop_reason=done.stop_reason,
                model="" if done.model == request.model.partition("/")[2] else done.model,
                shown=shown,
                suppressed=suppressed,
                request_id=done.request_id,
            )
        )
        self._record_calls(content, done)

    async def _decide_shown(
        self,
        request: ModelRequest,
        content: tuple[Block, ...],
        stop_reason: StopReason,
        held: list[Event] | None,
    ) -> tuple[tuple[Block, ...] | None, bool]:
        """What people see in place of the content, and whether they see nothing. Held deltas go out now."""
        text = "\n".join(block.text for block in content if isinstance(block, Text))
        if held is None:
            return None, False
        if not text:
            self._journal.publish(held)
            return None, False
        draft = DraftMessage(text, content, stop_reason)
        verdict = await self._harness.hooks.before_message(draft, self._scope)
        if isinstance(verdict, Suppress):
            return None, True
        if isinstance(verdict, Replace) and verdict.text != text:
            self._journal.publish([TextDelta(request.id, 0, 0, verdict.text)])
            return _with_text(content, verdict.text), False
        self._journal.publish(held)
        return None, False

    def _record_calls(self, content: tuple[Block, ...], done: ModelDone) -> None:
        run = self._journal.state.run
        assert run is not None and run.step is not None
        for block in content:
            if isinstance(block, ToolCall):
                arguments, malformed = read_arguments(block.arguments)
                if malformed and done.stop_reason == "length":
                    malformed = f"the answer was cut by its output limit ({malformed})"
                tool = self._harness.tools.get(block.name)
                kind, display = (tool.spec.kind, tool.spec.display) if tool else ("other", None)
                called = events.ToolCalled(
                    block.id, block.name, arguments, run.step.number, kind, malformed, display
                )
                self._journal.record(called)

    def _with_unique_calls(self, content: tuple[Block, ...]) -> tuple[Block, ...]:
        """Some vendors count their calls anew in every answer, or not at all; here each has its own id."""
        taken, given = self._journal.state.call_ids, set[str]()
        unique: list[Block] = []
        for block in content:
            if isinstance(block, ToolCall):
                if not block.id or block.id in taken or block.id in given:
                    block = msgspec.structs.replace(block, id=self._journal.world.new_id("call"))
                given.add(block.id)
            unique.append(block)
        return tuple(unique)

    async def _record_cut(
        self, request: ModelRequest, draft: PartialMessage, held: list[Event] | None
    ) -> None:
        """A cancelled call: the text that had come stays; calls that were being written never were."""
        text = draft.text()
        shown, suppressed = await self._decide_shown(request, text, "cancelled", held)
        self._record_usage(request, UNKNOWN_USAGE)
        if text:
            message = events.AssistantMessage(
                request.id, text, "cancelled", shown=shown, suppressed=suppressed
            )
            self._journal.record(message)
        else:
            failure = Failure("interrupted", self._cancel.reason or "cancelled")
            self._journal.record(events.ModelFailed(request.id, failure))

    async def _record_failure(
        self,
        request: ModelRequest,
        end: ModelFailure,
        draft: PartialMessage,
        model: Model,
        step: StepState,
        held: list[Event] | None,
    ) -> Model:
        failure, attempt, asked = end.failure, step.attempts, model
        partial = draft.content()
        if held is not None:
            shown, suppressed = await self._decide_shown(request, draft.text(), "other", held)
            partial = () if suppressed else shown or draft.text()
        delay = retry_delay(failure, step.tries, self._journal.world.random)
        if failure.kind == "context_overflow" and self._can_make_room(step):
            delay = 0.0  # once, after a compaction
        if self._is_budget_spent():
            delay = None
        if (
            delay is None
            and can_fall_back(failure)
            and (rescuer := self._harness.next_fallback(model, self._warn))
        ):
            delay, model = 0.0, rescuer
        decision = await self._harness.hooks.after_failure(FailedCall(failure, attempt, model), self._scope)
        if isinstance(decision, Retry):
            delay, model = decision.delay, decision.model or asked
        elif isinstance(decision, GiveUp):
            delay, model = None, asked
        self._record_usage(request, end.usage)
        retry_in = None if delay is None else round(delay, 3)
        rescue = "" if model is asked else model.name
        self._journal.record(events.ModelFailed(request.id, failure, attempt, retry_in, rescue, partial))
        return model

    def _can_make_room(self, step: StepState) -> bool:
        """There is something before the last exchange that a summary could take the place of."""
        is_first = not step.has_overflowed
        return is_first and self._harness.context is not None and len(self._journal.state.transcript) > 2

    def _warn(self, text: str) -> None:
        self._journal.record(Warned(text))

    def _is_budget_spent(self) -> bool:
        run, most = self._journal.state.run, self._harness.limits.retries
        return run is not None and most is not None and run.retries >= most

    def _record_usage(self, request: ModelRequest, usage: Usage) -> None:
        record_usage(self._journal, request.id, request.model, usage)


def _sound(done: ModelDone) -> ModelDone | ModelFailure:
    """The answer, if it can be stored and read back: a wire is other people's code, too."""
    problem = storage_problem(done)
    if not problem:
        return done
    text = f"the wire gave an answer that cannot be stored: {problem}"
    return ModelFailure(Failure("stream_broken", text, stream_opened=True))


def record_usage(journal: Journal, call: str, model: str, usage: Usage) -> None:
    """The one `usage` that every model call has, with the session's total."""
    state: SessionState = journal.state
    journal.record(events.UsageReported(call, model, usage, state.usage + usage))


def read_arguments(text: str) -> tuple[dict[str, Any], str]:
    """A call's arguments, or why they are none. Nothing is repaired by guessing; nothing at all means {}."""
    try:
        return _decode_arguments.decode(text.strip() or "{}"), ""
    except msgspec.ValidationError:
        return {}, f"they must be a JSON object, but are: {_excerpt(text)}"
    except (msgspec.DecodeError, UnicodeError) as error:
        return {}, f"they are not valid JSON ({error}): {_excerpt(text)}"


def _excerpt(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]} … {text[-100:]}"


def _with_text(content: tuple[Block, ...], text: str) -> tuple[Block, ...]:
    """The content with one text block, where its first one was; everything else stays in its order."""
    out: list[Block] = []
    for block in content:
        if not isinstance(block, Text):
            out.append(block)
        elif text:
            out.append(Text(text))
            text = ""
    return tuple(out)
