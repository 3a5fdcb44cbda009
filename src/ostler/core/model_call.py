"""One attempt at a step's answer: the request, its stream, and the resulting facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ostler.core import context, hooks
from ostler.core.cancellation import CancelToken, cancel_scope
from ostler.core.completion import STREAM_ENDS, can_fall_back, read_stream, record_usage, retry_delay
from ostler.core.context import BuiltContext
from ostler.core.harness import OpenSession
from ostler.core.model import Model, ModelDone, ModelEvent, ModelFailure, ModelRequest, ToolOffers
from ostler.core.run_state import StepState
from ostler.core.transcript import Transcript
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.events import Event, ModelCalled, ReasoningDelta, SourceCited, TextDelta, Warned
from ostler.schema.facts import storage_problem
from ostler.schema.messages import Block, Reasoning, StopReason, Text, ToolCall, text_of
from ostler.schema.usage import UNKNOWN_USAGE

Content = tuple[Block, ...]


class PartialMessage:
    """The text and reasoning of a message so far, by block. Unfinished tool calls are left out."""

    def __init__(self, held: list[Event] | None) -> None:
        self.held = held
        """Deltas that are not published before the `before_message` hooks ran; None without hooks."""
        self._blocks: dict[tuple[int, type[Text | Reasoning]], list[str]] = {}

    def take(self, batch: Sequence[ModelEvent]) -> None:
        for event in batch:
            if (kind := _BLOCKS.get(type(event))) is not None:
                self._blocks.setdefault((event.block, kind), []).append(event.text)  # type: ignore[union-attr]

    def content(self) -> tuple[Text | Reasoning, ...]:
        """Text and reasoning in order, for users."""
        ordered = sorted(self._blocks.items(), key=lambda item: item[0][0])
        return tuple(kind("".join(parts)) for (_, kind), parts in ordered)

    def text(self) -> Content:
        """The text alone: what a model may get of a message that was cut off."""
        return tuple(block for block in self.content() if isinstance(block, Text) and block.text)


_FACTS = (Warned, SourceCited)
_BLOCKS: dict[type, type[Text | Reasoning]] = {TextDelta: Text, ReasoningDelta: Reasoning}
_decode_arguments: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


class ModelCaller:
    """Makes the model calls of a run's steps."""

    def __init__(self, session: OpenSession, cancel: CancelToken, scope: hooks.HookScope) -> None:
        self._journal = session.journal
        self._harness = session.harness
        self._cancel = cancel
        self._scope = scope
        self._cancel_scope = cancel_scope(cancel, silence=session.harness.silence_limit)

    async def attempt(
        self, step: StepState, built: BuiltContext, model: Model, tools: ToolOffers, tool_choice: str
    ) -> Model | hooks.Refuse:
        """Makes one call. Afterwards the step has a message, or a failure that says whether to retry. Returns
        the model to use next: the same, a fallback, or one that a hook chose. A `Refuse` comes from a guard
        of the context, before any request."""
        request = await self._request(built, model, tools, tool_choice)
        if isinstance(request, hooks.Refuse):
            return request
        called = ModelCalled(
            id=request.id,
            model=model.name,
            digest=request.digest(),
            attempt=step.attempts + 1,
            messages=len(request.transcript) + len(request.tail),
            trace=context.trace_with_prefix(self._journal, built, request),
        )
        self._journal.record(called)
        await self._journal.commit()
        draft = PartialMessage([] if "before_message" in self._harness.hooks else None)
        with self._harness.start_span("model_call", model=model.name, call=request.id, step=step.number):
            end = await self._stream(model, request, draft)
        if isinstance(end, ModelDone) and (problem := storage_problem(end)):  # a wire is foreign code
            text = f"the wire gave an answer that cannot be stored: {problem}"
            end = ModelFailure(Failure("stream_broken", text, stream_opened=True))
        if isinstance(end, ModelFailure):
            return await self._record_failure(called, end, draft, model, step)
        if end is None:
            await self._record_cancelled(called, draft)
        else:
            await self._record_message(called, end, draft)
        return model

    async def _request(
        self, built: BuiltContext, model: Model, tools: ToolOffers, tool_choice: str
    ) -> ModelRequest | hooks.Refuse:
        harness, transcript, system = self._harness, built.transcript, built.system
        if "context" in harness.hooks:
            draft = hooks.ContextDraft(system, tuple(transcript))
            decision = await harness.hooks.context(draft, self._scope)
            if isinstance(decision, hooks.Refuse):
                return decision
            system = decision.system
            if decision.messages != draft.messages:
                transcript = Transcript(decision.messages)
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
        self, model: Model, request: ModelRequest, draft: PartialMessage
    ) -> ModelDone | ModelFailure | None:
        """The end of the stream; None if the run was cancelled. Deltas are published as they arrive."""

        async def on_batch(batch: Sequence[ModelEvent]) -> None:
            if not batch:
                return
            draft.take(batch)
            last = batch[-1]
            if draft.held is None and type(last) is TextDelta is type(batch[0]):  # the common case: only text
                self._journal.publish(batch)  # type: ignore[arg-type]
            else:
                self._publish(batch, draft.held)
            if self._journal.has_recorded and not isinstance(last, STREAM_ENDS):
                await self._journal.commit()  # a warning or a source is visible at once

        return await read_stream(model, request, self._cancel_scope, on_batch)

    def _publish(self, batch: Sequence[ModelEvent], held: list[Event] | None) -> None:
        out: list[Event] = []
        for event in batch:
            if isinstance(event, _FACTS):
                self._journal.record(event)
            elif isinstance(event, STREAM_ENDS):
                continue
            elif held is not None and type(event) in _BLOCKS:
                held.append(event)
            else:
                out.append(event)
        if out:
            self._journal.publish(out)

    async def _record_message(self, called: ModelCalled, done: ModelDone, draft: PartialMessage) -> None:
        content = self._with_unique_calls(done.content)
        if done.stop_reason in ("refusal", "cancelled"):
            content = tuple(block for block in content if not isinstance(block, ToolCall))
        visible, suppressed = await self._visible_content(called, content, done.stop_reason, draft.held)
        record_usage(self._journal, called, done.usage)
        message = events.AssistantMessage(
            call=called.id,
            content=content,
            stop_reason=done.stop_reason,
            model="" if done.model == called.model.partition("/")[2] else done.model,
            shown=visible,
            suppressed=suppressed,
            request_id=done.request_id,
        )
        self._journal.record(message)
        self._record_calls(content, done)

    async def _visible_content(
        self, called: ModelCalled, content: Content, stop_reason: StopReason, held: list[Event] | None
    ) -> tuple[Content | None, bool]:
        """What users see instead of the content, and whether they see nothing. Publishes the held deltas."""
        if held is None:
            return None, False
        if text := text_of(content):
            draft = hooks.DraftMessage(text, content, stop_reason)
            decision = await self._harness.hooks.before_message(draft, self._scope)
            if isinstance(decision, hooks.Suppress):
                return None, True
            if isinstance(decision, hooks.Replace) and decision.text != text:
                self._journal.publish([TextDelta(called.id, 0, 0, decision.text)])
                return _with_text(content, decision.text), False
        self._journal.publish(held)
        return None, False

    def _record_calls(self, content: Content, done: ModelDone) -> None:
        run = self._journal.state.run
        assert run is not None and run.step is not None
        for call in [block for block in content if isinstance(block, ToolCall)]:
            arguments, malformed = read_arguments(call.arguments)
            if malformed and done.stop_reason == "length":
                malformed = f"the answer was cut by its output limit ({malformed})"
            tool = self._harness.tools.get(call.name)
            kind, display = (tool.spec.kind, tool.spec.display) if tool else ("other", None)
            number = run.step.number
            called = events.ToolCalled(call.id, call.name, arguments, number, kind, malformed, display)
            self._journal.record(called)

    def _with_unique_calls(self, content: Content) -> Content:
        """Gives each call an id of its own: some vendors number calls per answer, or not at all."""
        earlier, ids = self._journal.state.call_ids, set[str]()
        unique: list[Block] = []
        for block in content:
            if isinstance(block, ToolCall):
                if not block.id or block.id in earlier or block.id in ids:
                    block = msgspec.structs.replace(block, id=self._journal.world.new_id("call"))
                ids.add(block.id)
            unique.append(block)
        return tuple(unique)

    async def _record_cancelled(self, called: ModelCalled, draft: PartialMessage) -> None:
        """Records a cancelled call: the text that had arrived stays, unfinished tool calls do not."""
        text = draft.text()
        visible, suppressed = await self._visible_content(called, text, "cancelled", draft.held)
        record_usage(self._journal, called, UNKNOWN_USAGE)
        failure = Failure("interrupted", self._cancel.reason or "cancelled")
        message = events.AssistantMessage(called.id, text, "cancelled", shown=visible, suppressed=suppressed)
        self._journal.record(message if text else events.ModelFailed(called.id, failure))

    async def _record_failure(
        self, called: ModelCalled, end: ModelFailure, draft: PartialMessage, model: Model, step: StepState
    ) -> Model:
        failure, attempt, failing = end.failure, step.attempts, model
        partial: Content = draft.content()
        if draft.held is not None:
            visible, suppressed = await self._visible_content(called, draft.text(), "other", draft.held)
            partial = () if suppressed else visible or draft.text()
        delay = retry_delay(failure, step.tries, self._journal.world.random)
        if failure.kind == "context_overflow" and self._can_make_room(step):
            delay = 0.0  # once, after a compaction
        if self._is_budget_spent():
            delay = None
        if delay is None and can_fall_back(failure):
            fallback = self._harness.next_fallback(model, self._warn)
            delay, model = (0.0, fallback) if fallback else (None, model)
        failed_call = hooks.FailedCall(failure, attempt, model)
        decision = await self._harness.hooks.after_failure(failed_call, self._scope)
        if isinstance(decision, hooks.Retry):
            delay, model = decision.delay, decision.model or failing
        elif isinstance(decision, hooks.GiveUp):
            delay, model = None, failing
        record_usage(self._journal, called, end.usage)
        retry_in = None if delay is None else round(delay, 3)
        next_model = "" if model is failing else model.name
        self._journal.record(events.ModelFailed(called.id, failure, attempt, retry_in, next_model, partial))
        return model

    def _can_make_room(self, step: StepState) -> bool:
        """Whether a summary could replace something before the last exchange."""
        has_context = self._harness.context is not None
        return has_context and not step.has_overflowed and len(self._journal.state.transcript) > 2

    def _warn(self, text: str) -> None:
        self._journal.record(Warned(text))

    def _is_budget_spent(self) -> bool:
        run, limit = self._journal.state.run, self._harness.limits.retries
        return run is not None and limit is not None and run.retries >= limit


def read_arguments(text: str) -> tuple[dict[str, Any], str]:
    """A call's arguments, or what is wrong with them. An empty text means {}; nothing is repaired."""
    try:
        return _decode_arguments.decode(text.strip() or "{}"), ""
    except msgspec.ValidationError:
        return {}, f"they must be a JSON object, but are: {_excerpt(text)}"
    except (msgspec.DecodeError, UnicodeError) as error:
        return {}, f"they are not valid JSON ({error}): {_excerpt(text)}"


def _excerpt(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:100]} … {text[-100:]}"


def _with_text(content: Content, text: str) -> Content:
    """The content with this text in place of its text blocks, where the first one was."""
    out: list[Block] = []
    for block in content:
        if not isinstance(block, Text):
            out.append(block)
        elif text:
            out.append(Text(text))
            text = ""
    return tuple(out)
