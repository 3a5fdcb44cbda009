"""A model call beside the steps of a run, such as one that writes a summary."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

from ostler.kernel.harness import Harness
from ostler.kernel.journal import Journal
from ostler.kernel.model import Model, ModelDone, ModelFailure, ModelRequest, Transcript
from ostler.kernel.retry import retry_delay
from ostler.vocabulary.errors import Failure
from ostler.vocabulary.events import ModelCalled, ModelFailed, Purpose, TextDelta, UsageReported
from ostler.vocabulary.messages import text_of
from ostler.vocabulary.usage import UNKNOWN_USAGE, Usage

INTERRUPTED = Failure("interrupted", "the process ended during the call")

OnText = Callable[[str], Awaitable[None]]
"""Is given each piece of the answer as it comes; the stream waits for it."""


async def ask_aside(
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
    end = await answer_aside(journal, harness, purpose, system, transcript, trace)
    return text_in(end) if isinstance(end, ModelDone) else end


async def answer_aside(
    journal: Journal,
    harness: Harness,
    purpose: Purpose,
    system: str,
    transcript: Transcript,
    trace: Any = None,
    on_text: OnText | None = None,
) -> ModelDone | Failure:
    """The answer as it ended, or why there is none; otherwise as `ask_aside`."""
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
        journal.asides.add(call)
        try:
            journal.record(called)
            await journal.commit()
            end = await _end_of(model, request, harness.silence_limit, on_text)
        except asyncio.CancelledError:
            record_failure(journal, called, ModelFailure(INTERRUPTED))
            await journal.commit()
            raise
        finally:
            journal.asides.discard(call)
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
