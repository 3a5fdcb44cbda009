"""What all model calls share: the stream, retries, usage; and calls outside of steps, such as a summary's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ostler.core.cancellation import (
    CancelToken,
    ScopeCancelled,
    SilenceTimeout,
    cancel_scope,
    is_being_cancelled,
)
from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.model import Model, ModelDone, ModelEvent, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.schema.errors import Failure
from ostler.schema.events import ModelCalled, ModelFailed, Purpose, TextDelta, UsageReported
from ostler.schema.messages import text_of
from ostler.schema.usage import Usage

if TYPE_CHECKING:
    from random import Random

DELAYS = (0.25, 0.75)
LONGEST_WAIT = 30.0

_TRANSIENT_STATUSES = frozenset({502, 503, 504, 529})
_NO_OTHER_MODEL_HELPS = frozenset({"interrupted", "context_overflow"})

INTERRUPTED = Failure("interrupted", "the process ended during the call")
STREAM_ENDS = (ModelDone, ModelFailure)

OnText = Callable[[str], Awaitable[None]]
"""Gets each piece of the answer as it arrives; the stream waits for it."""

OnBatch = Callable[[Sequence[ModelEvent]], Awaitable[None]]


def retry_delay(failure: Failure, tries: int, random: Random) -> float | None:
    """Seconds until the same model is called again, or None. A stream that had opened is not retried."""
    if failure.kind == "interrupted":
        return 0.0 if tries <= len(DELAYS) else None
    if failure.stream_opened or tries > len(DELAYS):
        return None
    if failure.retry_after is not None and failure.status in (429, 503):
        return failure.retry_after if failure.retry_after <= LONGEST_WAIT else None
    if failure.kind == "connection_failed" or failure.status in _TRANSIENT_STATUSES:
        return DELAYS[tries - 1] * random.uniform(0.8, 1.2)
    return None


def can_fall_back(failure: Failure) -> bool:
    """Whether another model may be able to answer."""
    return failure.kind not in _NO_OTHER_MODEL_HELPS


async def read_stream(
    model: Model, request: ModelRequest, scope: cancel_scope, on_batch: OnBatch
) -> ModelDone | ModelFailure | None:
    """Reads an answer to its end; None if the scope's token fired. An error of the wire is a failure."""
    kind, text = "stream_broken", f"the answer of {model.name} ended too early"
    try:
        async with scope, aclosing(model.stream(request)) as stream:  # type: ignore[type-var]
            async for batch in stream:
                scope.reset()
                await on_batch(batch)
                if batch and isinstance(end := batch[-1], STREAM_ENDS):
                    return end
                scope.reset()
    except ScopeCancelled:
        return None
    except asyncio.CancelledError:
        if is_being_cancelled():
            raise
        text = f"the wire of {model.name} cancelled itself"
    except SilenceTimeout:
        kind = "stream_silent"
        text = f"{model.name} sent nothing for {scope.silence:g} s; try again, or raise silence_limit"
    except TimeoutError as error:
        text = f"the wire of {model.name} gave up: {error or 'time was up'}"
    except (Exception, SystemExit, GeneratorExit) as error:
        text = f"the wire of {model.name} failed: {type(error).__name__}: {error}"
    return ModelFailure(Failure(kind, text, stream_opened=True))


async def complete(
    journal: Journal,
    harness: Harness,
    purpose: Purpose,
    system: str,
    transcript: Transcript,
    trace: Any = None,
) -> str | Failure:
    """The text of the model's answer, or the failure. See `complete_message`."""
    end = await complete_message(journal, harness, purpose, system, transcript, trace)
    return text_in(end) if isinstance(end, ModelDone) else end


async def complete_message(
    journal: Journal,
    harness: Harness,
    purpose: Purpose,
    system: str,
    transcript: Transcript,
    trace: Any = None,
    on_text: OnText | None = None,
) -> ModelDone | Failure:
    """Calls the harness's model outside of a step, with retries. The `usage` of an answer is recorded, and
    committed together with what the caller makes of the answer."""

    async def on_batch(batch: Sequence[ModelEvent]) -> None:
        if on_text and (text := "".join([one.text for one in batch if isinstance(one, TextDelta)])):
            await on_text(text)

    scope = cancel_scope(CancelToken(), silence=harness.silence_limit)
    tries = 0
    while True:
        tries += 1
        call = journal.world.new_id("msg")
        model = harness.model
        limit = harness.max_output_tokens
        request = ModelRequest(
            call, model.name, transcript, system, session=journal.session, max_output_tokens=limit
        )
        called = ModelCalled(call, model.name, request.digest(), tries, purpose, len(transcript), trace)
        journal.side_calls.add(call)
        try:
            journal.record(called)
            await journal.commit()
            end = await read_stream(model, request, scope, on_batch)
        except asyncio.CancelledError:
            record_failure(journal, called, ModelFailure(INTERRUPTED))
            await journal.commit()
            raise
        finally:
            journal.side_calls.discard(call)
        assert end is not None  # nothing fires the scope's token
        if isinstance(end, ModelDone):
            record_usage(journal, called, end.usage)
            return end
        delay = retry_delay(end.failure, tries, journal.world.random)
        record_failure(journal, called, end, delay)
        await journal.commit()
        if delay is None:
            return end.failure
        await asyncio.sleep(delay)


def text_in(end: ModelDone) -> str:
    """The answer's text, without characters that cannot be stored."""
    return text_of(end.content).encode(errors="replace").decode()


def record_failure(
    journal: Journal, called: ModelCalled, end: ModelFailure, retry_in: float | None = None
) -> None:
    """Records the usage and the failure of a call that has no answer."""
    record_usage(journal, called, end.usage)
    journal.record(ModelFailed(called.id, end.failure, called.attempt, retry_in))


def record_usage(journal: Journal, called: ModelCalled, usage: Usage) -> None:
    """Records the one `usage` that each model call has, with the session's total."""
    total = journal.state.usage + usage
    journal.record(UsageReported(called.id, called.model, usage, total, called.purpose))
