"""Asking a model beside the steps of a run: recorded, counted, and within the run's limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from inspect import unwrap
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.extensions.calling import CodeFailed, call_within
from ostler.kernel.aside import OnText, answer_aside, text_in
from ostler.kernel.harness import ONE_MODEL_ONLY, Harness
from ostler.kernel.hooks import TIME_LIMIT
from ostler.kernel.model import Model, ModelDone, Transcript
from ostler.kernel.stopping import running_stopwatch
from ostler.runs.collapsing import close_cut_calls
from ostler.runs.lease import hold, kept_lease
from ostler.vocabulary.errors import ERRORS, Failure, ModelError, OstlerError, UsageError
from ostler.vocabulary.events import Purpose
from ostler.vocabulary.messages import Message, StopReason
from ostler.vocabulary.usage import Usage

if TYPE_CHECKING:
    from ostler.extensions.context import ExtensionContext

OnChunk = Callable[[str], Awaitable[None] | None]


class LimitReached(OstlerError):
    """No model was asked, because a limit of the open run forbids it."""


class Completion(msgspec.Struct, frozen=True):
    """What a model answered when it was asked once, without tools."""

    text: str
    usage: Usage
    model: str
    stop_reason: StopReason = "end"


async def complete(
    context: ExtensionContext,
    system: str,
    messages: Sequence[Message],
    *,
    model: str = "",
    max_tokens: int | None = None,
    on_chunk: OnChunk | None = None,
    purpose: Purpose = "extension",
) -> Completion:
    """One answer of the session's model, or of another one, which is closed afterwards.

    Raises the class of `ModelError` that says why there is none, with the vendor's message; `LimitReached`
    when the open run may not use as much; `UsageError` or `NoModel` for a model that cannot be made.
    """
    if not messages:
        raise UsageError("there is nothing to ask: give a prompt, or messages")
    harness = context.session.harness
    other = model_named(harness, model) if model and model != harness.model.name else None
    asked = msgspec.structs.replace(
        harness,
        model=other or harness.model,
        max_output_tokens=harness.max_output_tokens if max_tokens is None else max_tokens,
    )
    on_text = _guarded(context, on_chunk) if on_chunk else None
    try:
        async with lease_held(context), _reserved(context), _untimed():
            answer = await _answer(context, asked, purpose, system, messages, on_text)
    finally:
        if other is not None:
            await other.aclose()
    return Completion(text_in(answer), answer.usage, asked.model.name, answer.stop_reason)


async def _answer(
    context: ExtensionContext,
    harness: Harness,
    purpose: Purpose,
    system: str,
    messages: Sequence[Message],
    on_text: OnText | None,
) -> ModelDone:
    journal = context.journal
    if journal.state.run is None:
        close_cut_calls(journal, await journal.history())
    trace = {"extension": context.extension.name}
    answer = await answer_aside(journal, harness, purpose, system, Transcript(messages), trace, on_text)
    await journal.commit()
    if isinstance(answer, Failure):
        raise error_of(answer)
    return answer


def model_named(harness: Harness, name: str) -> Model:
    """A model for one use: whoever asks for it closes it, and nobody else keeps it."""
    if harness.make_model is None:
        raise UsageError(ONE_MODEL_ONLY)
    made: Model = unwrap(harness.make_model)(name)
    return made


def error_of(failure: Failure) -> OstlerError:
    """The failure as the exception that it once was."""
    kind = ERRORS.get(failure.kind, ModelError)
    if not issubclass(kind, ModelError):
        return kind(failure.message)
    fields: dict[str, Any] = msgspec.structs.asdict(failure)
    del fields["kind"]
    return kind(**fields)


@asynccontextmanager
async def lease_held(context: ExtensionContext) -> AsyncIterator[None]:
    """Makes sure that what is recorded now can be stored: a session at rest does not renew its lease."""
    if context.session.is_running:
        yield
        return
    await hold(context.journal)
    async with kept_lease(context.journal):
        yield


@asynccontextmanager
async def _untimed() -> AsyncIterator[None]:
    """A model takes its time, which has limits of its own: it is not the handler's."""
    watch = running_stopwatch.get()
    if watch is None:
        yield
        return
    watch.pause()
    try:
        yield
    finally:
        watch.go_on()


@asynccontextmanager
async def _reserved(context: ExtensionContext) -> AsyncIterator[None]:
    """What the call will use is set aside in the budget of the open run, if that is limited."""
    budget = context.session.budget
    if budget is None or not budget.is_limited:
        yield
        return
    reserved = await budget.reserve_beside()
    if isinstance(reserved, str):
        raise LimitReached(f"no model was asked: {reserved}")
    try:
        yield
    finally:
        budget.settle_beside(reserved)
        await budget.warn()


def _guarded(context: ExtensionContext, on_chunk: OnChunk) -> OnText:
    """Calls the extension's function, until it fails once: that is reported, and the answer goes on."""
    is_heard = True

    async def on_text(text: str) -> None:
        nonlocal is_heard
        if not is_heard:
            return
        try:
            await call_within(TIME_LIMIT, context.extension.worker, on_chunk, text)
        except CodeFailed as failure:
            is_heard = False
            context.attending.report(context.extension, "on_chunk", str(failure))

    return on_text
