"""A model call beside the steps of a run, such as one that writes a summary."""
# MERGED: Whether a failed model call is tried again, and when.

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Any

from ostler.core.harness import Harness
from ostler.core.journal import Journal
from ostler.core.model import Model, ModelDone, ModelFailure, ModelRequest
from ostler.core.transcript import Transcript
from ostler.schema.errors import Failure
from ostler.schema.events import ModelCalled, ModelFailed, Purpose, TextDelta, UsageReported
from ostler.schema.messages import text_of
from ostler.schema.usage import UNKNOWN_USAGE, Usage

DELAYS = (0.25, 0.75)

LONGEST_WAIT = 30.0

_TRANSIENT_STATUSES = frozenset({502, 503, 504, 529})


_NO_OTHER_MODEL_HELPS = frozenset({"interrupted", "context_overflow"})


def retry_delay(failure: Failure, tries: int, random: Random) -> float | None:
    """Seconds until the same model is asked again, or None. A stream that had opened is not tried again."""
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
    """Whether another model may answer what this one did not."""
    return failure.kind not in _NO_OTHER_MODEL_HELPS


INTERRUPTED = Failure("interrupted", "the process ended during the call")


OnText = Callable[[str], Awaitable[None]]
"""Is given each piece of the answer as it comes; the stream waits for it."""


async def complete(
    journal: Journal,
    harness: Harness,
    purpose: Purpose,
    system: str,
    transcript: Transcript,
    trace: Any = None,
) -> str | Failure:
    """The model's answer in words, or why there is none.

    After an answer its `usage` is recorded, to be committed together with what comes of it.
    """
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
    """The answer as it ended, or why there is none; otherwise as `complete`."""
    tries = 0
    while True:
        tries += 1
        call = journal.world.new_id("msg")
        model = harness.model
        request = ModelRequest(
            call,
            model.name,
            transcript,
            system,
            session=journal.session,
            max_output_tokens=harness.max_output_tokens,
        )
        called = ModelCalled(call, model.name, request.digest(), tries, purpose, len(transcript), trace)
        journal.side_calls.add(call)
        try:
            journal.record(called)
            await journal.commit()
            end = await _end_of(model, request, harness.silence_limit, on_text)
        except asyncio.CancelledError:
            record_failure(journal, called, ModelFailure(INTERRUPTED))
            await journal.commit()
            raise
        finally:
            journal.side_calls.discard(call)
        if isinstance(end, ModelDone):
            _record_usage(journal, called, end.usage)
            return end
        delay = retry_delay(end.failure, tries, journal.world.random)
        record_failure(journal, called, end, delay)
        await journal.commit()
        if delay is None:
            return end.failure
        await asyncio.sleep(delay)


def text_in(end: ModelDone) -> str:
    """What the answer says, fit to be stored."""
    return text_of(end.content).encode(errors="replace").decode()


async def _end_of(
    model: Model, request: ModelRequest, limit: float, on_text: OnText | None
) -> ModelDone | ModelFailure:
    text = f"the answer of {model.name} ended before its end"
    try:
        async with (
            asyncio.timeout(limit) as patience,
            aclosing(model.stream(request)) as stream,  # type: ignore[type-var]
        ):
            async for batch in stream:
                if on_text and (said := "".join([one.text for one in batch if isinstance(one, TextDelta)])):
                    await on_text(said)
                patience.reschedule(asyncio.get_running_loop().time() + limit)
                if batch and isinstance(batch[-1], ModelDone | ModelFailure):
                    return batch[-1]
    except TimeoutError:
        text = f"{model.name} sent nothing for {limit:g} s"
    except Exception as error:
        text = f"the wire of {model.name} failed: {type(error).__name__}: {error}"
    return ModelFailure(Failure("stream_broken", text, stream_opened=True))


def record_failure(
    journal: Journal, called: ModelCalled, end: ModelFailure, retry_in: float | None = None
) -> None:
    """The usage and the failure of a call that brought no answer."""
    _record_usage(journal, called, end.usage)
    journal.record(ModelFailed(called.id, end.failure, called.attempt, retry_in))


def _record_usage(journal: Journal, called: ModelCalled, usage: Usage = UNKNOWN_USAGE) -> None:
    total = journal.state.usage + usage
    journal.record(UsageReported(called.id, called.model, usage, total, called.purpose))
